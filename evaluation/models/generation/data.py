"""What the models learn from: the system turns of corpora, with the templates of their acts."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from parapet.evaluation.generation.corpus import ORIGINAL, read
from parapet.evaluation.models.generation.templates import text_of
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SINGLE, read_root
from parapet.transforms.corpora import read_corpus


class Example(msgspec.Struct, frozen=True):
    """A system turn.

    Attributes:
      text: the templates of its acts.
      said: the utterance.
      opening: the utterance before the first system turn of the dialogue: its versions by ``parapet augment`` share
        that, not their ids.
    """

    text: str
    said: str
    opening: str


class Examples(msgspec.Struct, frozen=True):
    """The system turns of a corpus's split that have acts and an utterance; ``paths`` are the files that were read."""

    rows: list[Example]
    paths: list[str]


def read_examples(root: str, split: str) -> Examples:
    """The system turns of a split, in the order of dialogue ids.

    Args:
      root: a corpus.
      split: ``train``.

    Raises:
      InputError: a file cannot be read; there is no such split, no act, no utterance.
    """
    corpus = read(root, split)
    openings: dict[str, str] = {}
    for turn in corpus.turns:
        openings.setdefault(turn.dialogue_id, turn.previous)
    rows = [
        Example(
            text_of(turn.acts, corpus.words[ORIGINAL]), " ".join(turn.utterance.split()), openings[turn.dialogue_id]
        )
        for turn in corpus.turns
        if turn.acts and turn.utterance.strip()
    ]
    if not rows:
        raise InputError(f"no system turn of {split!r} has acts and an utterance: there is nothing to learn", root)
    if len(rows) < len(corpus.turns):
        left = len(corpus.turns) - len(rows)
        logging.warning("%s: %s system turns have no act or no utterance: they are left out", root, f"{left:,}")
    schemas = {one.split: one.path for one in read_root(root, leave_out_bad=True)}
    files = sorted(file.path for file in read_corpus(root, [split]).files)
    return Examples(rows, [schemas[SINGLE] if SINGLE in schemas else schemas[split], *files])


def texts_of(rows: Sequence[Example]) -> tuple[list[str], list[str]]:
    """(inputs, utterances)."""
    return [one.text for one in rows], [one.said for one in rows]
