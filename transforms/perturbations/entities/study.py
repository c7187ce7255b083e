"""What must be known before values are replaced: training, the kinds of the slots, and whether values suffice.

Each file is read by a worker, and one puts together what all have. What grows with the corpus is a vocabulary: the
different values of each slot; of training, 8 bytes for each different word and each pair of words that follow each
other.
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

from parapet.schemas.dialogue import DialogueFile, read_each, typed
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SplitSchemas
from parapet.transforms.perturbation.base import REFUSED
from parapet.transforms.perturbation.corpora import Corpus, inlined, read_file, selected, train_files
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

Values = dict[Slot, tuple[set[str], set[str]]]  # of slots: as they are said, and those known to be canonical
Refused = dict[tuple[str, int], InputError]  # by file and position: dialogues that cannot be used


class Config(NamedTuple):
    """How values are replaced.

    Attributes:
      values: where new ones come from: ``generated``, ``corpus``, or a gazetteer's path.
      replace_choices: categorical values are to be replaced as well.
      seed: of all choices.
      max_bad: up to which share of the values that a dialogue needs may be missing.
    """

    values: str = GENERATED
    replace_choices: bool = False
    seed: str = "0"
    max_bad: Fraction = Fraction(1, 100)


class StudiedFile(msgspec.Struct, frozen=True):
    """A dialogue file that is studied.

    Attributes:
      file: the file.
      in_training: models are trained on it.
      is_perturbed: its values are to be replaced.
      is_source: values are drawn from it.
    """

    file: DialogueFile
    in_training: bool = False
    is_perturbed: bool = False
    is_source: bool = False


class Inputs(NamedTuple):
    """What is studied: listed, and not read yet.

    Attributes:
      config: how values are replaced.
      files: the dialogue files, and one with the values that training's schemas name.
      schemas: of the splits that are perturbed.
      source_schemas: of the splits that values are drawn from.
      gazetteer: the rows of the file that values come from, where they do.
    """

    config: Config
    files: list[StudiedFile]
    schemas: list[SplitSchemas]
    source_schemas: list[SplitSchemas]
    gazetteer: list[Row]


class Study(msgspec.Struct, frozen=True):
    """What is known of a corpus before anything is replaced.

    Attributes:
      replacer: what replaces values.
      source_kinds: the kinds of the slots of the corpus that values are drawn from, where they are.
      leaking: how many values of the source were dropped because training has them.
      missing: which values are missing, where some are; empty where there are enough.
    """

    replacer: Replacer
    source_kinds: Kinds = {}
    leaking: int = 0
    missing: str = ""

    def numbers(self) -> dict[str, Any]:
        """What ``statistics.json`` says of it."""
        training, pools = self.replacer.training, self.replacer.sources.pools
        return {
            "training": {"texts": training.texts, "grams": len(training.grams)},
            "pools": {name: len(pool) for name, pool in sorted(pools.items())},
            "leaking_candidates": self.leaking,
            **({"missing": self.missing} if self.missing else {}),
        }


def inputs_of(corpus: Corpus, splits: Sequence[str], training: Corpus, root: object, config: Config) -> Inputs:
    """Lists what must be read before values can be replaced.

    Args:
      corpus: the corpus with all its splits.
      splits: the folders of those that are perturbed; none: all.
      training: the corpus whose split train has been seen; all of it where it has no splits.
      root: its place, for messages.
      config: how.

    Raises:
      InputError: training has no such split, or a gazetteer that cannot be used.
    """
    trained = train_files(training)
    if not trained:
        there = ", ".join(dict.fromkeys(file.split for file in training.files if file.split)) or "none"
        raise InputError(
            "it is not known which values occur in training, because there are no dialogues in 'train' "
            f"(these splits have some: {there}): give --training ROOT, the corpus that models are trained on",
            root,
        )
    chosen = selected(corpus, splits)
    perturbed = inlined(chosen)
    sources = inlined(corpus) if config.values == CORPUS else []
    roles = [set(files) for files in (trained, perturbed, sources)]
    files = [
        StudiedFile(file, *(file in of_role for of_role in roles))
        for file in dict.fromkeys([*trained, *perturbed, *sources])
    ]
    schemas = training.folders[trained[0].split]
    named = [value for service in schemas.services for slot in service.slots for value in slot.possible_values]
    content = json.dumps([named]).encode()
    file = DialogueFile(trained[0].split, "schema.json", str(schemas.path), len(content), content)
    return Inputs(
        config,
        [*files, StudiedFile(file, in_training=True)],
        list(chosen.folders.values()),
        list(corpus.folders.values()),
        [] if config.values in (GENERATED, CORPUS) else read_gazetteer(config.values),
    )


class Learned(msgspec.Struct):
    """What one file has. Beam pickles it whole: values may have half surrogate pairs, which its own coders refuse.

    Attributes:
      grams: hashes of the words, and of pairs of adjacent words, of a file of training.
      texts: hashes of its texts.
      perturbed: values of the slots of a file that is perturbed.
      source: the same of one that values are drawn from.
      names: (kind, canonical form) of the values of open slots, likewise.
    """

    grams: Any = ()
    texts: Any = ()
    perturbed: Values = {}
    source: Values = {}
    names: set[tuple[str, str]] = set()


def learn(studied: StudiedFile, refused: Refused) -> Learned:
    """The words of a file of training, and the values of slots of one that is perturbed or a source.

    Args:
      studied: the file.
      refused: takes the dialogues that cannot be used.

    Raises:
      InputError: a file of training cannot be read: nobody knows what it has. Another's values are those up to there.
    """
    texts: set[str] = set()
    values: Values = {}
    wants_values = studied.is_perturbed or studied.is_source
    file = studied.file
    try:
        for position, (raw, _) in enumerate(tracked(read_each(read_file(file), file.path), "dialogues", ANALYSIS)):
            if studied.in_training:
                if isinstance(raw, InputError):
                    raise InputError(raw.reason, file.path, f"[{position}] {raw.where}".strip())
                with needed(file.path, f"[{position}]"):
                    texts.update(strings_of(raw))
            with _refusing(studied, position, refused):
                of_dialogue = list(values_of(typed(raw))) if wants_values else ()
                for slot, value, is_canonical in of_dialogue:
                    values.setdefault(slot, (set(), set()))[is_canonical].add(value)
    except InputError:
        if studied.in_training:
            raise
        # Whoever writes the set reports it.
    return Learned(
        grams_in(texts),
        hashes_of(texts),
        values if studied.is_perturbed else {},
        values if studied.is_source else {},
    )


@contextmanager
def _refusing(studied: StudiedFile, position: int, refused: Refused) -> Iterator[None]:
    """Passes over a dialogue that cannot be used: whoever writes the set reports it, and must know why.

    Raises:
      InputError: of a dialogue that nobody writes, which no fault of its own keeps from being used.
    """
    try:
        yield
    except Exception as error:
        bad = bad_record(error)
        if isinstance(bad, Fault) and not studied.is_perturbed:
            raise InputError(fatal(bad).reason, studied.file.path, f"[{position}]") from error
        refused[studied.file.relative, position] = bad


def _groups(studied: StudiedFile, kinds: Kinds, refused: Refused) -> Iterator[list[Group]]:
    """The values of open slots of each dialogue that can be read; whoever writes the set reports the others."""
    with suppress(InputError):
        for position, (raw, _) in enumerate(read_each(read_file(studied.file), studied.file.path)):
            groups = None
            with _refusing(studied, position, refused):
                groups = find_values(typed(raw), kinds).groups
            if groups is not None:
                yield groups


def kinds_of(values: Values, schemas: Iterable[SplitSchemas], replace_choices: bool) -> dict[Slot, SlotKind]:
    """The kind of every slot, by its values in all dialogues.

    Args:
      values: of each slot.
      schemas: of the same splits.
      replace_choices: categorical values are to be replaced as well, unless they are numbers or truth values.
    """
    seen_of = {name: sorted(named or said) for name, (said, named) in sorted(values.items())}
    about = {(s.service_name, slot.name): slot for split in schemas for s in split.services for slot in s.slots}
    description = {name: about[name].description if name in about else "" for name in seen_of}
    # Slots that say that they are towns tell which of the locations are.
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
    """What training has and the kinds of the slots, with the gazetteer's values where there is one."""
    grams, texts = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    perturbed: Values = {}
    source: Values = {}
    for file in files:
        grams.append(file.grams)
        texts.append(file.texts)
        for every, of_file in ((perturbed, file.perturbed), (source, file.source)):
            for slot, (said, canonical) in of_file.items():
                known = every.setdefault(slot, (set(), set()))
                known[0].update(said)
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
    return [value for slot, (said, _) in values.items() if kinds[slot].kind == kind for value in said]


def _distinct(hashes: Sequence[Hashes]) -> Hashes:
    return np.unique(np.concatenate(hashes))


def names_in(studied: StudiedFile, refused: Refused, study: Study) -> Learned:
    """(kind, canonical form) of every value of open slots of a file that values are drawn from."""
    groups = _groups(studied, study.source_kinds, refused) if studied.is_source else ()
    return Learned(names={(group.kind, group.canonical) for of_dialogue in groups for group in of_dialogue})


def with_names(study: Study, files: Iterable[Learned], seed: str) -> Study:
    """The study, with the half of the source's names that is held out."""
    names = {name for file in files for name in file.names}
    kinds, training = study.replacer.kinds, study.replacer.training
    leaking = sum(training.leaks(value) for _, value in names)
    return Study(Replacer(kinds, Sources(CORPUS, seed, held_out(names, training, seed)), training), leaking=leaking)


def needs_of(studied: StudiedFile, refused: Refused, study: Study) -> dict[str, int]:
    """How many values the dialogue of a file that needs most of them needs, of each pool.

    A dialogue's own values cannot stand for others of it: those that a pool has count as well.
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
    """The study, with the values that some dialogue lacks. Raises InputError where that is too large a share."""
    needs: dict[str, int] = {}
    for of_file in files:
        needs |= {name: max(n, needs.get(name, 0)) for name, n in of_file.items()}
    sources = study.replacer.sources
    path = config.values if sources.mode == "file" else ""
    return msgspec.structs.replace(study, missing=check_enough(sources.pools, needs, path, config.max_bad))


def open_slots(kinds: Kinds) -> list[Slot]:
    """The slots whose values may be replaced by unseen ones."""
    return sorted(slot for slot, of in kinds.items() if of.kind in KINDS)


def study_corpus(pipeline: beam.Pipeline, inputs: Inputs) -> tuple[beam.PCollection, beam.PCollection]:
    """Pipeline to one element, a Study; and to (place, error) of each dialogue of which nothing was learned.

    Reads training and the dialogues that are perturbed; where values are drawn from a pool, also who needs them.
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
    """PCollections of what a function makes of each file, and of the dialogues that it refuses."""
    results = files | label >> beam.FlatMap(_call, function, *side).with_outputs(REFUSED, main="results")
    return results["results"], results[REFUSED]


def _call(studied: StudiedFile, function: Callable[..., Any], study: Study | None = None) -> Iterator[Any]:
    refused: Refused = {}
    yield function(studied, refused, *([] if study is None else [study]))
    # Those that are refused by a fault: of others whoever writes them finds out what is wrong.
    yield from (TaggedOutput(REFUSED, pair) for pair in refused.items() if isinstance(pair[1], Fault))
