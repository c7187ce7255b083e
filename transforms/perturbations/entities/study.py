"""Collect the prerequisites of replacing values.

These are the training data, the kinds of slots, and whether there are enough values.

Each file is read by one worker, and the results are merged. Only a vocabulary grows with the corpus: the distinct
values of each slot and, for training, 8 bytes for each distinct word and each pair of adjacent words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from typing import Any, NamedTuple

import apache_beam as beam
import msgspec
import numpy as np
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue import DialogueFile, typed
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SplitSchemas
from parapet.transforms.perturbation.base import REFUSED
from parapet.transforms.perturbation.corpora import Corpus, in_languages, inlined, read_items, selected, train_files
from parapet.transforms.perturbation.languages import ENGLISH, check_language
from parapet.transforms.perturbations.entities.choosing import (
    CORPUS,
    GENERATED,
    Row,
    Sources,
    check_enough,
    held_out,
    pools_of,
    read_gazetteer,
)
from parapet.transforms.perturbations.entities.kinds import (
    CHOICE,
    KINDS,
    SlotKind,
    is_none,
    kind_of,
    says_city,
    step_of,
)
from parapet.transforms.perturbations.entities.mentions import Group, Kinds, Slot, find_values, values_of
from parapet.transforms.perturbations.entities.names import country_of
from parapet.transforms.perturbations.entities.replacing import Replacer
from parapet.transforms.perturbations.entities.words import Hashes, Training, grams_in, hashes_of, strings_of
from parapet.transforms.running.fence import Fault, bad_record, fatal, needed
from parapet.transforms.running.progress import ANALYSIS, expect_dialogues, tracked

Values = dict[Slot, tuple[set[str], set[str]]]  # slot to (its values as said, its values known to be canonical)
Refused = dict[tuple[str, int], InputError]  # by file and position: dialogues that cannot be used


class Config(NamedTuple):
    """How values are replaced.

    Attributes:
      values: the source of new values: ``generated``, ``corpus``, or a gazetteer's path.
      replace_choices: whether to replace categorical values, too.
      seed: the seed of all choices.
      max_bad: maximum share of the values needed by a dialogue that may be missing.
    """

    values: str = GENERATED
    replace_choices: bool = False
    seed: str = "0"
    max_bad: Fraction = Fraction(1, 100)


class StudiedFile(msgspec.Struct, frozen=True):
    """A dialogue file to study.

    Attributes:
      file: the file.
      in_training: whether models are trained on it.
      is_perturbed: whether its values are to be replaced.
      is_source: whether values are drawn from it.
    """

    file: DialogueFile
    in_training: bool = False
    is_perturbed: bool = False
    is_source: bool = False


class Inputs(NamedTuple):
    """The inputs of the study, listed but not read yet.

    Attributes:
      config: the options of replacing values.
      files: the dialogue files, and one with the values named in training's schemas.
      schemas: the schemas of the splits to perturb.
      source_schemas: the schemas of the splits that values are drawn from.
      gazetteer: the rows of the gazetteer, if one is used.
    """

    config: Config
    files: list[StudiedFile]
    schemas: list[SplitSchemas]
    source_schemas: list[SplitSchemas]
    gazetteer: list[Row]


class Study(msgspec.Struct, frozen=True):
    """What is known about a corpus before values are replaced.

    Attributes:
      replacer: the data for replacing values.
      source_kinds: the kinds of slots in the corpus that values are drawn from, if any.
      leaking: the number of source values dropped because they occur in training.
      missing: which values are missing; empty if there are enough.
    """

    replacer: Replacer
    source_kinds: Kinds = {}
    leaking: int = 0
    missing: str = ""

    def numbers(self) -> dict[str, Any]:
        """Return the study's entries of ``statistics.json``."""
        training, pools = self.replacer.training, self.replacer.sources.pools
        return {
            "training": {"texts": training.texts, "grams": len(training.grams)},
            "pools": {name: len(pool) for name, pool in sorted(pools.items())},
            "leaking_candidates": self.leaking,
            **({"missing": self.missing} if self.missing else {}),
        }


def inputs_of(corpus: Corpus, splits: Sequence[str], training: Corpus, root: object, config: Config) -> Inputs:
    """List what must be read before values can be replaced.

    Args:
      corpus: the corpus with all its splits.
      splits: the splits to perturb; if empty, all.
      training: the corpus whose split train models have seen; if it has no splits, all of it, and if it is the corpus
        itself and has no such split, too.
      root: the path of another training corpus, for messages; empty if it is the corpus itself.
      config: the options of replacing values.

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
    sources = inlined(corpus) if config.values == CORPUS else []
    roles = [set(files) for files in (trained, perturbed, sources)]
    files = [
        StudiedFile(in_languages(file, (ENGLISH,)), *(file in of_role for of_role in roles))
        for file in dict.fromkeys([*trained, *perturbed, *sources])
    ]
    schemas = [training.folders[split] for split in dict.fromkeys(file.split for file in trained)]
    services = [service for split_schemas in schemas for service in split_schemas.services]
    named = [value for service in services for slot in service.slots for value in slot.possible_values]
    content = json.dumps([named]).encode()
    file = DialogueFile(trained[0].split, "schema.json", str(schemas[0].path), len(content), content)
    return Inputs(
        config,
        [*files, StudiedFile(file, in_training=True)],
        list(chosen.folders.values()),
        list(corpus.folders.values()),
        [] if config.values in (GENERATED, CORPUS) else read_gazetteer(config.values),
    )


class Learned(msgspec.Struct):
    """The data of one file. Beam pickles it as a whole, since its own coders refuse the lone surrogates of some values.

    Attributes:
      grams: hashes of the words and of pairs of adjacent words, for a file of training.
      texts: hashes of its texts.
      perturbed: values by slot, for a file to perturb.
      source: values by slot, for a file that values are drawn from.
      names: (kind, canonical form) of open slots' values, for a file that values are drawn from.
    """

    grams: Any = ()
    texts: Any = ()
    perturbed: Values = {}
    source: Values = {}
    names: set[tuple[str, str]] = set()


def learn(studied: StudiedFile, refused: Refused) -> Learned:
    """Collect the words of a file of training, and the values by slot of a file to perturb or draw from.

    Args:
      studied: the file.
      refused: receives the dialogues that cannot be used.

    Raises:
      InputError: a file of training cannot be read, so that its content is unknown. For other files, the values up to
        the error are returned.
    """
    texts: set[str] = set()
    values: Values = {}
    wants_values = studied.is_perturbed or studied.is_source
    file = studied.file
    try:
        for position, raw in enumerate(tracked(read_items(file), "dialogues", ANALYSIS)):
            if studied.in_training:
                if isinstance(raw, InputError):
                    raise InputError(raw.reason, file.path, f"[{position}] {raw.where}".strip())
                with needed(file.path, f"[{position}]"):
                    texts.update(strings_of(raw))
            with _refusing(studied, position, refused):
                of_dialogue = list(values_of(check_language(typed(raw), file.languages))) if wants_values else ()
                for slot, value, is_canonical in of_dialogue:
                    values.setdefault(slot, (set(), set()))[is_canonical].add(value)
    except InputError:
        if studied.in_training:
            raise
        # the step that writes the set reports the error
    return Learned(
        grams_in(texts),
        hashes_of(texts),
        values if studied.is_perturbed else {},
        values if studied.is_source else {},
    )


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


def _groups(studied: StudiedFile, kinds: Kinds, refused: Refused) -> Iterator[list[Group]]:
    """Yield the values of open slots of each readable dialogue; the step that writes the set reports the others."""
    with suppress(InputError):
        for position, raw in enumerate(read_items(studied.file)):
            groups = None
            with _refusing(studied, position, refused):
                groups = find_values(check_language(typed(raw), studied.file.languages), kinds).groups
            if groups is not None:
                yield groups


def kinds_of(values: Values, schemas: Iterable[SplitSchemas], replace_choices: bool) -> dict[Slot, SlotKind]:
    """Infer the kind of every slot from its values in all dialogues.

    Args:
      values: the values of each slot.
      schemas: the schemas of the same splits.
      replace_choices: whether to replace categorical values, too, except numbers and truth values.
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
        if slot is None or not slot.is_categorical:
            kinds[name] = SlotKind(kind, step=step_of(kind, seen))
            continue
        possible = tuple(sorted({value for value in slot.possible_values if not is_none(value)}))
        plain = kind in ("boolean", "number") or all(value.isdecimal() for value in possible)
        kinds[name] = SlotKind(CHOICE if replace_choices and not plain else "categorical", possible)
    return kinds


def study_of(inputs: Inputs, files: Iterable[Learned]) -> Study:
    """Merge the data of all files to n-grams of training and kinds of slots, with the values of any gazetteer."""
    grams, texts = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    perturbed: Values = {}
    source: Values = {}
    for file in files:
        grams.append(file.grams)
        texts.append(file.texts)
        for every, of_file in ((perturbed, file.perturbed), (source, file.source)):
            for slot, (values_said, canonical) in of_file.items():
                known = every.setdefault(slot, (set(), set()))
                known[0].update(values_said)
                known[1].update(canonical)
    config, training = inputs.config, Training(_distinct(grams), len(_distinct(texts)))
    kinds = kinds_of(perturbed, inputs.schemas, config.replace_choices)
    if config.values in (GENERATED, CORPUS):
        source_kinds = kinds_of(source, inputs.source_schemas, replace_choices=False)
        country = country_of(*(_said_of(perturbed, kinds, kind) for kind in ("phone", "postcode")))
        return Study(Replacer(kinds, Sources(config.values, config.seed, country=country), training), source_kinds)
    pools, leaking = pools_of(inputs.gazetteer, config.values, open_slots(kinds), training)
    return Study(Replacer(kinds, Sources("file", config.seed, pools), training), leaking=leaking)


def _said_of(values: Values, kinds: Kinds, kind: str) -> list[str]:
    return [value for slot, (values_said, _) in values.items() if kinds[slot].kind == kind for value in values_said]


def _distinct(hashes: Sequence[Hashes]) -> Hashes:
    return np.unique(np.concatenate(hashes))


def names_in(studied: StudiedFile, refused: Refused, study: Study) -> Learned:
    """Collect (kind, canonical form) of every value of open slots in a file that values are drawn from."""
    groups = _groups(studied, study.source_kinds, refused) if studied.is_source else ()
    return Learned(names={(group.kind, group.canonical) for of_dialogue in groups for group in of_dialogue})


def with_names(study: Study, files: Iterable[Learned], seed: str) -> Study:
    """Add the held-out half of the source's names to the study."""
    names = {name for file in files for name in file.names}
    kinds, training = study.replacer.kinds, study.replacer.training
    leaking = sum(training.leaks(value) for _, value in names)
    return Study(Replacer(kinds, Sources(CORPUS, seed, held_out(names, training, seed)), training), leaking=leaking)


def needs_of(studied: StudiedFile, refused: Refused, study: Study) -> dict[str, int]:
    """Return, for each pool, the maximum number of values that a dialogue in the file needs.

    A dialogue's own values cannot replace its other values, so those in the pool are counted, too.
    """
    sources = study.replacer.sources
    needs: dict[str, int] = {}
    for groups in _groups(studied, study.replacer.kinds, refused) if studied.is_perturbed else ():
        of_dialogue: dict[str, int] = {}
        for group in groups:
            name = sources.pool_of(group)
            if group.kind == CHOICE or group.reason or sources.makes(group) or name is None:
                continue
            of_dialogue[name] = of_dialogue.get(name, 0) + 1 + (group.key in sources.folded[name])
        for name, n in of_dialogue.items():
            needs[name] = max(needs.get(name, 0), n)
    return needs


def checked(study: Study, files: Iterable[dict[str, int]], config: Config) -> Study:
    """Add the missing values to the study. Raises InputError if their share is too large."""
    needs: dict[str, int] = {}
    for of_file in files:
        needs |= {name: max(n, needs.get(name, 0)) for name, n in of_file.items()}
    sources = study.replacer.sources
    path = config.values if sources.mode == "file" else ""
    return msgspec.structs.replace(study, missing=check_enough(sources.pools, needs, path, config.max_bad))


def open_slots(kinds: Kinds) -> list[Slot]:
    """Return the slots whose values may be replaced by unseen ones."""
    return sorted(slot for slot, kind in kinds.items() if kind.kind in KINDS)


def study_corpus(pipeline: beam.Pipeline, inputs: Inputs) -> tuple[beam.PCollection, beam.PCollection]:
    """Build the steps that compute a Study, and (place, error) for each dialogue that could not be used.

    Reads training and the dialogues to perturb; if values come from a pool, also counts how many are needed.
    """
    config = inputs.config
    expect_dialogues([studied.file for studied in inputs.files], ANALYSIS)
    files = pipeline | "Files" >> beam.Create(inputs.files)
    learned, refused = _of_each(files, "Read", learn)
    once = pipeline | "Once" >> beam.Create([inputs], reshuffle=False)
    study: beam.PCollection = once | "Study" >> beam.Map(study_of, beam.pvalue.AsIter(learned))
    if config.values == GENERATED:
        return study, refused
    every = [refused]
    if config.values == CORPUS:
        names, refused = _of_each(files, "Names", names_in, beam.pvalue.AsSingleton(study))
        every.append(refused)
        study = study | "Hold out" >> beam.Map(with_names, beam.pvalue.AsIter(names), config.seed)
    needs, refused = _of_each(files, "Needs", needs_of, beam.pvalue.AsSingleton(study))
    every.append(refused)
    study = study | "Check" >> beam.Map(checked, beam.pvalue.AsIter(needs), config)
    return study, every | "Refused" >> beam.Flatten()


def _of_each(
    files: beam.PCollection, label: str, function: Callable[..., Any], *side: Any
) -> tuple[beam.PCollection, beam.PCollection]:
    """Apply a function to each file; return PCollections of results and of refused dialogues."""
    results = files | label >> beam.FlatMap(_call, function, *side).with_outputs(REFUSED, main="results")
    return results["results"], results[REFUSED]


def _call(studied: StudiedFile, function: Callable[..., Any], study: Study | None = None) -> Iterator[Any]:
    refused: Refused = {}
    yield function(studied, refused, *([] if study is None else [study]))
    # only faults, since the step that writes the set reports other errors itself
    yield from (TaggedOutput(REFUSED, pair) for pair in refused.items() if isinstance(pair[1], Fault))
