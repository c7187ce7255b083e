"""Collect the prerequisites of replacing values.

These are the training data and the kinds of slots.

Each file is read by one worker, and the results are merged. Only a vocabulary grows with the corpus: the distinct
values of each slot and, for training, its words and pairs of adjacent words.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import apache_beam as beam
import msgspec
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue import DialogueFile, typed
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SplitSchemas
from parapet.transforms.perturbation.base import REFUSED
from parapet.transforms.perturbation.corpora import Corpus, in_languages, inlined, read_items, selected, train_files
from parapet.transforms.perturbation.languages import ENGLISH, check_language
from parapet.transforms.perturbations.entities import forms
from parapet.transforms.perturbations.entities.choosing import GENERATED, Row, Sources, pools_of, read_gazetteer
from parapet.transforms.perturbations.entities.kinds import KINDS, SlotKind, kind_of, says_city
from parapet.transforms.perturbations.entities.mentions import Kinds, Slot, distinct_annotations
from parapet.transforms.perturbations.entities.names import country_of
from parapet.transforms.perturbations.entities.replacing import Replacer
from parapet.transforms.perturbations.entities.words import Training, grams_in, strings_of
from parapet.transforms.running.fence import Fault, bad_record, fatal, needed
from parapet.transforms.running.progress import ANALYSIS, expect_dialogues, tracked

Values = dict[Slot, tuple[set[str], set[str]]]  # slot to (its values as said, its values known to be canonical)
Refused = dict[tuple[str, int], InputError]  # by file and position: dialogues that cannot be used


class StudiedFile(NamedTuple):
    """A dialogue file, whether models are trained on it, and whether its values are to be replaced."""

    file: DialogueFile
    in_training: bool
    is_perturbed: bool


class Inputs(NamedTuple):
    """The inputs of the study, listed but not read yet.

    Attributes:
      seed: the seed of all choices.
      values: the source of new values: ``generated``, or a gazetteer's path.
      files: the dialogue files, and one with the values named in training's schemas.
      schemas: the schemas of the splits to perturb.
      gazetteer: the rows of the gazetteer, if one is used.
    """

    seed: str
    values: str
    files: list[StudiedFile]
    schemas: list[SplitSchemas]
    gazetteer: list[Row]


def inputs_of(corpus: Corpus, splits: Sequence[str], training: Corpus, root: object, seed: str, values: str) -> Inputs:
    """List what must be read before values can be replaced.

    Args:
      corpus: the corpus with all its splits.
      splits: the splits to perturb; if empty, all.
      training: the corpus whose split train models have seen; if it has no splits, all of it, and if it is the corpus
        itself and has no such split, too.
      root: the path of another training corpus, for messages; empty if it is the corpus itself.
      seed: the seed of all choices.
      values: the source of new values.

    Raises:
      InputError: training has no split train, or the gazetteer is invalid.
    """
    trained = train_files(training) or ([] if root else inlined(training))
    if not trained:
        known = ", ".join(dict.fromkeys(file.split for file in training.files if file.split)) or "none"
        raise InputError(
            "it is not known which values occur in training, because there are no dialogues in 'train' "
            f"(these splits have some: {known}): --training must be the corpus that models are trained on",
            root,
        )
    chosen = selected(corpus, splits)
    perturbed = inlined(chosen)
    in_training, is_perturbed = set(trained), set(perturbed)
    files = [
        StudiedFile(in_languages(file, (ENGLISH,)), file in in_training, file in is_perturbed)
        for file in dict.fromkeys([*trained, *perturbed])
    ]
    schemas = [training.folders[split] for split in dict.fromkeys(file.split for file in trained)]
    named = [
        value for split in schemas for service in split.services for s in service.slots for value in s.possible_values
    ]
    content = json.dumps([named]).encode()
    file = DialogueFile(trained[0].split, "schema.json", str(schemas[0].path), len(content), content)
    gazetteer = [] if values == GENERATED else read_gazetteer(values)
    return Inputs(seed, values, [*files, StudiedFile(file, True, False)], list(chosen.folders.values()), gazetteer)


class Learned(msgspec.Struct):
    """The data of one file. Beam pickles it as a whole, since its own coders refuse the lone surrogates of some values.

    Attributes:
      grams: the words and pairs of adjacent words, for a file of training.
      perturbed: values by slot, for a file to perturb.
    """

    grams: set[str] = set()
    perturbed: Values = {}


def learn(studied: StudiedFile, refused: Refused) -> Learned:
    """Collect the words of a file of training, and the values by slot of a file to perturb.

    Args:
      studied: the file.
      refused: receives the dialogues that cannot be used.

    Raises:
      InputError: a file of training cannot be read, so that its content is unknown. For other files, the values up to
        the error are returned.
    """
    texts: set[str] = set()
    values: Values = {}
    file = studied.file
    try:
        for position, raw in enumerate(tracked(read_items(file), "dialogues", ANALYSIS)):
            if studied.in_training:
                if isinstance(raw, InputError):
                    raise InputError(raw.reason, file.path, f"[{position}] {raw.where}".strip())
                with needed(file.path, f"[{position}]"):
                    texts.update(strings_of(raw))
            with _refusing(studied, position, refused):
                dialogue = check_language(typed(raw), file.languages) if studied.is_perturbed else None
                for slot, same, canonical in distinct_annotations(dialogue) if dialogue else ():
                    texts_of_slot, named = values.setdefault(slot, (set(), set()))
                    texts_of_slot.update(same)
                    named.update(() if canonical is None else (canonical,))
    except InputError:
        if studied.in_training:
            raise
        # the step that writes the set reports the error
    return Learned(grams_in(texts), values)


@contextmanager
def _refusing(studied: StudiedFile, position: int, refused: Refused) -> Iterator[None]:
    """Skip a dialogue that cannot be used; the step that writes the set reports it.

    Raises:
      InputError: the dialogue is not written, and raises an exception that its data did not cause.
    """
    try:
        yield
    except Exception as error:
        bad = bad_record(error)
        if isinstance(bad, Fault) and not studied.is_perturbed:
            raise InputError(fatal(bad).reason, studied.file.path, f"[{position}]") from error
        refused[studied.file.relative, position] = bad


def kinds_of(values: Values, schemas: Iterable[SplitSchemas]) -> dict[Slot, SlotKind]:
    """Infer the kind of every slot from its values in all dialogues.

    Args:
      values: the values of each slot.
      schemas: the schemas of the same splits.
    """
    seen_of = {name: sorted(named or values_said) for name, (values_said, named) in sorted(values.items())}
    about = {(s.service_name, slot.name): slot for split in schemas for s in split.services for slot in s.slots}
    description = {name: about[name].description if name in about else "" for name in seen_of}
    # Values of slots described as towns help to recognise towns in slots for locations.
    towns = [seen for name, seen in seen_of.items() if says_city(name[1], description[name], name[0])]
    cities = frozenset(value.casefold() for seen in towns for value in seen)
    kinds = {}
    for name, seen in seen_of.items():
        slot, kind = about.get(name), kind_of(name[1], description[name], seen, name[0], cities)
        is_closed = slot is not None and slot.is_categorical
        kinds[name] = SlotKind("categorical") if is_closed else SlotKind(kind, forms.step_of(kind, seen))
    return kinds


def study_of(inputs: Inputs, files: Iterable[Learned]) -> Replacer:
    """Merge the data of all files to n-grams of training and kinds of slots, with the values of any gazetteer."""
    grams: set[str] = set()
    values: Values = {}
    for file in files:
        grams.update(file.grams)
        for slot, (texts, canonical) in file.perturbed.items():
            known = values.setdefault(slot, (set(), set()))
            known[0].update(texts)
            known[1].update(canonical)
    training, kinds = Training(frozenset(grams)), kinds_of(values, inputs.schemas)
    if inputs.values != GENERATED:
        pools, leaking = pools_of(inputs.gazetteer, inputs.values, open_slots(kinds), training)
        return Replacer(kinds, Sources(inputs.seed, pools), training, leaking)
    phones, postcodes = (
        [value for slot, (texts, _) in values.items() if kinds[slot].kind == kind for value in texts]
        for kind in ("phone", "postcode")
    )
    return Replacer(kinds, Sources(inputs.seed, country=country_of(phones, postcodes)), training)


def open_slots(kinds: Kinds) -> list[Slot]:
    """Return the slots whose values may be replaced by unseen ones."""
    return sorted(slot for slot, kind in kinds.items() if kind.kind in KINDS)


def study_corpus(pipeline: beam.Pipeline, inputs: Inputs) -> tuple[beam.PCollection, beam.PCollection]:
    """Read training and the dialogues to perturb.

    Returns PCollections of one Replacer, and of (place, error) for dialogues that raised exceptions.
    """
    expect_dialogues([studied.file for studied in inputs.files], ANALYSIS)
    read = beam.FlatMap(_learned).with_outputs(REFUSED, main="learned")
    results = pipeline | "Files" >> beam.Create(inputs.files) | "Read" >> read
    once = pipeline | "Once" >> beam.Create([inputs], reshuffle=False)
    return once | "Study" >> beam.Map(study_of, beam.pvalue.AsIter(results["learned"])), results[REFUSED]


def _learned(studied: StudiedFile) -> Iterator[Any]:
    refused: Refused = {}
    yield learn(studied, refused)
    # only faults, since the step that writes the set reports other errors itself
    yield from (TaggedOutput(REFUSED, pair) for pair in refused.items() if isinstance(pair[1], Fault))
