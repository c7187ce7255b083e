"""System turns and their model input: a template for each act (T2G2; Kale and Rastogi 2020).

Users may write their own templates, see :mod:`parapet.evaluation.generation.corpus`. Acts without one have a
sentence made from the schema's words, like the reference sentences of SGSAcc, so that unseen services and variants have
sentences, too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

import msgspec

from parapet.evaluation.generation.corpus import (
    NONE,
    Act,
    Kinds,
    ServiceWords,
    SystemTurn,
    Templates,
    act_name,
    filled,
    kinds_of,
    read,
    references,
    services_of,
    system_turns,
    template_of,
    varied_words,
    warn_without_template,
    words_of,
)
from parapet.evaluation.models.examples import Examples
from parapet.evaluation.sets import ORIGINAL, Sources, find_sets
from parapet.schemas.dialogue import DialogueFile, is_marker
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SINGLE, read_root
from parapet.schemas.service import Service
from parapet.transforms.perturb.corpora import dialogues_of, read_corpus

# As in T2G2: the order of the acts in a frame, and the beginning of a frame with a CONFIRM.
ORDER = ("SELECT", "INFORM_COUNT", "NOTIFY_SUCCESS", "NOTIFY_FAILURE", "INFORM", "REQUEST", "CONFIRM")


CONFIRM = "Please confirm the following details:"


# The text before a sentence that does not name its act; other acts have their name.
LEADS = {"INFORM": "", "OFFER": "How about this:", "CONFIRM": ""}


def text_of(acts: Iterable[Act], words: Mapping[str, ServiceWords], templates: Templates = NONE) -> str:
    """Joins the sentences of a turn's acts, frame by frame in T2G2's order.

    Args:
      acts: the acts of the turn.
      words: the words of each service, for acts without a template.
      templates: the user's templates.
    """
    texts: list[str] = []
    for service, acts_of_service in groupby(acts, lambda act: act.service):
        frame = sorted(acts_of_service, key=lambda act: ORDER.index(act.act) if act.act in ORDER else len(ORDER))
        texts += [CONFIRM] * any(act.act == "CONFIRM" for act in frame)
        texts += (sentence(act, words[service], template_of(act, templates)) for act in frame)
    return " ".join(texts)


def sentence(act: Act, words: ServiceWords, template: str | None = None) -> str:
    """Makes the sentence of an act: its filled template, or one like ``How about this:

    Name of the restaurant is Opa.``
    """
    if template is not None:
        return filled(template, act.values)
    text = " ".join(references(act, words)[0].split())
    if act.act == "REQUEST" and act.values:
        text = f"{text}: {' or '.join(act.values)}"
    lead = LEADS.get(act.act, f"{act_name(act)}:") if act.states and not is_marker(act.act, act.slot) else ""
    return f"{lead} {text}{'' if text[-1:] in '.?!' else '.'}".lstrip()


class Example(msgspec.Struct, frozen=True):
    """A system turn for training.

    Attributes:
      text: the templates of its acts.
      said: the utterance.
      opening: the utterance before the first system turn of the dialogue, which all versions by ``parapet augment``
        share, unlike their ids.
    """

    text: str
    said: str
    opening: str


def read_examples(root: str, split: str, templates: Templates = NONE) -> Examples[Example]:
    """Reads the system turns of a split, in the order of dialogue ids.

    Args:
      root: a corpus.
      split: the split, such as ``train``.
      templates: the user's templates; a warning counts acts without one.

    Raises:
      InputError: a file cannot be read, or there is no such split, no act, or no utterance.
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
        raise InputError(
            f"no system turn of {split!r} has both acts and an utterance, so there is nothing to learn", root
        )
    if len(rows) < len(corpus.turns):
        left = len(corpus.turns) - len(rows)
        logging.warning("%s: %s system turns without an act or an utterance are left out", root, f"{left:,}")
    acts = [act for turn in corpus.turns for act in turn.acts]
    warn_without_template(acts, templates, "get a sentence in the schema's words", f"{root}: ")
    schemas = {schemas.split: schemas.path for schemas in read_root(root, leave_out_bad=True)}
    files = read_corpus(root, [split]).paths()
    return Examples(rows, [schemas[SINGLE] if SINGLE in schemas else schemas[split], *files])


class Source(msgspec.Struct, frozen=True):
    """A set.

    Attributes:
      name: ``original``, ``v1``, or a name of ``--sets``.
      files: the files of its dialogues, by name.
      kinds: the kinds of its slots.
      words: the words of its services, by the names in the dialogues.
      templates: the user's templates.
    """

    name: str
    files: tuple[DialogueFile, ...]
    kinds: Kinds
    words: dict[str, ServiceWords]
    templates: Templates = NONE


class TurnTemplate(msgspec.Struct, frozen=True):
    """A system turn with its input.

    Attributes:
      text: the sentences of its acts; empty without acts.
      whole: whether each act has a template of the user's.
    """

    turn: SystemTurn
    text: str
    whole: bool


def sources(flags: Sources, templates: Templates = NONE) -> list[Source]:
    """Lists the sets, the original first.

    A variant has the dialogues and acts of the original, expressed in the variant's words.

    Args:
      flags: the flags that name the sets.
      templates: the user's templates.

    Raises:
      InputError: something is missing, two sets have the same name, or templates are combined with variants.
    """
    (name, path, _), *roots = find_sets(flags)
    services, original = _source(name, path, flags.split, templates)
    sources = [original]
    for name, path, kind in roots:
        if kind == "variant":
            if templates:
                reason = (
                    "the model was trained with --templates, which do not depend on the schema, so its "
                    "utterances would be the same as for the original"
                )
                raise InputError(reason, "--variants")
            words = varied_words(services, read_root(path, leave_out_bad=True), name)
            sources.append(Source(name, original.files, original.kinds, words))
        else:
            sources.append(_source(name, path, flags.split, templates)[1])
    return sources


def _source(name: str, root: Path, split: str, templates: Templates) -> tuple[list[Service], Source]:
    schemas = {schemas.split: schemas for schemas in read_root(root, leave_out_bad=True)}
    files = tuple(sorted(read_corpus(root, [split]).files, key=lambda file: file.relative))
    services = services_of(schemas, split)
    words = {service.service_name: words_of(service) for service in services}
    return services, Source(name, files, kinds_of(services), words, templates)


def turns_of(source: Source, file: int) -> Iterator[list[TurnTemplate]]:
    """Yields the system turns of each dialogue of a file. Raises InputError if a dialogue cannot be read."""
    file_here = source.files[file]
    for position, _, dialogue in dialogues_of(file_here):
        if isinstance(dialogue, InputError):
            raise InputError(dialogue.reason, file_here.path, f"[{position}].{dialogue.where}".rstrip("."))
        try:
            yield [_with_text(turn, source) for turn in system_turns(dialogue, source.kinds)]
        except InputError as error:
            raise InputError(error.reason, file_here.path, error.where) from None


def _with_text(turn: SystemTurn, source: Source) -> TurnTemplate:
    whole = all(template_of(act, source.templates) is not None for act in turn.acts)
    return TurnTemplate(turn, text_of(turn.acts, source.words, source.templates), whole)
