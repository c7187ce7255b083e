"""System turns and the templates of their acts: what models learn from, and the sets that utterances are generated for.

A template is a short sentence for each act of a turn (T2G2; Kale and Rastogi 2020). Theirs are written by hand for each
slot. These are built from the schema's words, as the references of SGSAcc are, so that an unseen service, or a variant
of one, has some too."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from parapet.evaluation.generation.corpus import Kinds, SystemTurn, kinds_of, read, system_turns
from parapet.evaluation.generation.references import Act, ServiceWords, references, services_of, varied_words, words_of
from parapet.evaluation.models.examples import Examples
from parapet.evaluation.sets import ORIGINAL, Sources, find_sets
from parapet.schemas.dialogue import is_marker
from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SINGLE, read_root
from parapet.schemas.service import Service
from parapet.transforms.corpora import dialogues_of, read_corpus

# Before a sentence that does not tell which act it is; other acts have their name.
LEADS = {"INFORM": "", "OFFER": "How about this:", "CONFIRM": "Please confirm:"}


def text_of(acts: Iterable[Act], words: Mapping[str, ServiceWords]) -> str:
    """The sentences of a turn's acts, in their order.

    Args:
      acts: of the turn.
      words: of each service.
    """
    return " ".join(sentence(act, words[act.service]) for act in acts)


def sentence(act: Act, words: ServiceWords) -> str:
    """That of one act: ``How about this: Name of the restaurant is Opa.``"""
    text = " ".join(references(act, words)[0].split())
    if act.act == "REQUEST" and act.values:
        text = f"{text}: {' or '.join(act.values)}"
    lead = LEADS.get(act.act, f"{_name(act)}:") if act.states and not is_marker(act.act, act.slot) else ""
    return f"{lead} {text}{'' if text[-1:] in '.?!' else '.'}".lstrip()


def _name(act: Act) -> str:
    return act.act.replace("_", " ").capitalize()


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


def read_examples(root: str, split: str) -> Examples[Example]:
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


class Source(msgspec.Struct, frozen=True):
    """A set.

    Attributes:
      name: ``original``, ``v1``, or as ``--sets`` has it.
      files: of its dialogues, by name.
      kinds: of its slots.
      words: of its services, by the names that the dialogues have.
    """

    name: str
    files: tuple[DialogueFile, ...]
    kinds: Kinds
    words: dict[str, ServiceWords]


class TurnTemplate(msgspec.Struct, frozen=True):
    """A system turn, and the templates of its acts; empty where it has no acts."""

    turn: SystemTurn
    text: str


def sources(flags: Sources) -> list[Source]:
    """The sets, the original first.

    A variant has the dialogues of the original: its acts, in the variant's words.

    Raises:
      InputError: something is missing, or two sets have one name.
    """
    (name, path, _), *roots = find_sets(flags)
    services, original = _source(name, path, flags.split)
    found = [original]
    for name, path, kind in roots:
        if kind == "variant":
            words = varied_words(services, read_root(path, leave_out_bad=True), name)
            found.append(Source(name, original.files, original.kinds, words))
        else:
            found.append(_source(name, path, flags.split)[1])
    return found


def _source(name: str, root: Path, split: str) -> tuple[list[Service], Source]:
    schemas = {one.split: one for one in read_root(root, leave_out_bad=True)}
    files = tuple(sorted(read_corpus(root, [split]).files, key=lambda file: file.relative))
    services = services_of(schemas, split)
    words = {service.service_name: words_of(service) for service in services}
    return services, Source(name, files, kinds_of(services), words)


def turns_of(source: Source, file: int) -> Iterator[list[TurnTemplate]]:
    """The system turns of each dialogue of a file. Raises InputError where one cannot be read."""
    of = source.files[file]
    for position, _, _, dialogue in dialogues_of(of):
        if isinstance(dialogue, InputError):
            raise InputError(dialogue.reason, of.path, f"[{position}].{dialogue.where}".rstrip("."))
        try:
            yield [
                TurnTemplate(turn, text_of(turn.acts, source.words)) for turn in system_turns(dialogue, source.kinds)
            ]
        except InputError as error:
            raise InputError(error.reason, of.path, error.where) from None
