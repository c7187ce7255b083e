"""System turns and the templates of their acts: what models learn from, and the sets that utterances are for."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from parapet.evaluation.generation.corpus import Kinds, SystemTurn, kinds_of, read, system_turns
from parapet.evaluation.generation.references import ServiceWords, services_of, varied_words, words_of
from parapet.evaluation.models.examples import Examples
from parapet.evaluation.models.generation.templates import NONE, Templates, key_of, template_of, text_of
from parapet.evaluation.sets import ORIGINAL, Sources, find_sets
from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SINGLE, read_root
from parapet.schemas.service import Service
from parapet.transforms.corpora import dialogues_of, read_corpus


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


def read_examples(root: str, split: str, templates: Templates = NONE) -> Examples[Example]:
    """The system turns of a split, in the order of dialogue ids.

    Args:
      root: a corpus.
      split: ``train``.
      templates: the user's; a warning says how many acts have none.

    Raises:
      InputError: a file cannot be read; there is no such split, no act, no utterance.
    """
    corpus = read(root, split)
    openings: dict[str, str] = {}
    for turn in corpus.turns:
        openings.setdefault(turn.dialogue_id, turn.previous)
    rows = [
        Example(
            text_of(turn.acts, corpus.words[ORIGINAL], templates),
            " ".join(turn.utterance.split()),
            openings[turn.dialogue_id],
        )
        for turn in corpus.turns
        if turn.acts and turn.utterance.strip()
    ]
    if not rows:
        raise InputError(f"no system turn of {split!r} has acts and an utterance: there is nothing to learn", root)
    if len(rows) < len(corpus.turns):
        left = len(corpus.turns) - len(rows)
        logging.warning("%s: %s system turns have no act or no utterance: they are left out", root, f"{left:,}")
    acts = [act for turn in corpus.turns for act in turn.acts]
    if templates and (without := [act for act in acts if template_of(act, templates) is None]):
        message = "%s: %s of %s acts have no template, and so a sentence in the schema's words: %s of %s for one"
        first = without[0]
        logging.warning(message, root, f"{len(without):,}", f"{len(acts):,}", key_of(first), first.service)
    schemas = {one.split: one.path for one in read_root(root, leave_out_bad=True)}
    files = sorted(file.path for file in read_corpus(root, [split]).files)
    return Examples(rows, [schemas[SINGLE] if SINGLE in schemas else schemas[split], *files])


def texts_of(rows: Sequence[Example]) -> tuple[list[str], list[str]]:
    """(inputs, utterances)."""
    return [one.text for one in rows], [one.said for one in rows]


class Source(msgspec.Struct, frozen=True):
    """A set.

    Attributes:
      name: ``original``, ``v1``, or as ``--sets`` has it.
      files: of its dialogues, by name.
      kinds: of its slots.
      words: of its services, by the names that the dialogues have.
      templates: the user's.
    """

    name: str
    files: tuple[DialogueFile, ...]
    kinds: Kinds
    words: dict[str, ServiceWords]
    templates: Templates = NONE


class TurnTemplate(msgspec.Struct, frozen=True):
    """A system turn.

    Attributes:
      text: the sentences of its acts; empty where it has none.
      whole: whether each act has a template of the user's.
    """

    turn: SystemTurn
    text: str
    whole: bool


def sources(flags: Sources, templates: Templates = NONE) -> list[Source]:
    """The sets, the original first.

    A variant has the dialogues of the original: its acts, in the variant's words.

    Args:
      flags: name the sets.
      templates: the user's.

    Raises:
      InputError: something is missing, two sets have one name, or there are variants although templates are given.
    """
    (name, path, _), *roots = find_sets(flags)
    services, original = _source(name, path, flags.split, templates)
    found = [original]
    for name, path, kind in roots:
        if kind == "variant":
            if templates:
                reason = "the model has --templates, which no schema changes: its utterances would be the original's"
                raise InputError(reason, "--variants")
            words = varied_words(services, read_root(path, leave_out_bad=True), name)
            found.append(Source(name, original.files, original.kinds, words))
        else:
            found.append(_source(name, path, flags.split, templates)[1])
    return found


def _source(name: str, root: Path, split: str, templates: Templates) -> tuple[list[Service], Source]:
    schemas = {one.split: one for one in read_root(root, leave_out_bad=True)}
    files = tuple(sorted(read_corpus(root, [split]).files, key=lambda file: file.relative))
    services = services_of(schemas, split)
    words = {service.service_name: words_of(service) for service in services}
    return services, Source(name, files, kinds_of(services), words, templates)


def turns_of(source: Source, file: int) -> Iterator[list[TurnTemplate]]:
    """The system turns of each dialogue of a file. Raises InputError where one cannot be read."""
    of = source.files[file]
    for position, _, _, dialogue in dialogues_of(of):
        if isinstance(dialogue, InputError):
            raise InputError(dialogue.reason, of.path, f"[{position}].{dialogue.where}".rstrip("."))
        try:
            yield [_with_text(turn, source) for turn in system_turns(dialogue, source.kinds)]
        except InputError as error:
            raise InputError(error.reason, of.path, error.where) from None


def _with_text(turn: SystemTurn, source: Source) -> TurnTemplate:
    whole = all(template_of(act, source.templates) is not None for act in turn.acts)
    return TurnTemplate(turn, text_of(turn.acts, source.words, source.templates), whole)
