"""A corpus studied in Beam, file by file.

What grows with the corpus is a vocabulary: the different values of each slot; of training, 8 bytes for each different
word and each different pair of words that follow each other. One worker puts each together, and all have the latter.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import TaggedOutput

from parapet.transforms.entities.replacing import Replacer
from parapet.transforms.entities.sources import CORPUS, GENERATED, Sources, held_out, pools_of
from parapet.transforms.entities.study import (
    Inputs,
    Refused,
    StudiedFile,
    Study,
    Values,
    checked,
    kinds_of,
    names_in,
    needs_of,
    open_slots,
    texts_and_values,
)
from parapet.transforms.entities.vocabulary import Hashes, Training, grams_in, hashes_of
from parapet.transforms.fence import Fault
from parapet.transforms.perturbation import REFUSED
from parapet.transforms.progress import ANALYSIS, expect_dialogues

_TEXT_SHARDS = 16  # texts are counted, and no worker needs the hashes of all

_GRAMS, _TEXTS, _PERTURBED, _SOURCE = "grams", "texts", "perturbed", "source"

# A list as JSON: _GRAMS; _TEXTS and a shard; or _PERTURBED or _SOURCE, service, slot, and "canonical" or nothing.
Key = bytes
Vocabularies = Iterable[tuple[Key, Any]]


class Different(set[Any]):
    """Values, each once. Beam's own coder of sets takes no half surrogate pairs: this class it pickles."""


class StudyCorpus(beam.PTransform):
    """Reads training and the dialogues that are perturbed; where values are drawn from a pool, also who needs them.

    Args:
      inputs: the files, the schemas, and how values are replaced.
    """

    def __init__(self, inputs: Inputs) -> None:
        super().__init__()
        self.inputs = inputs

    def expand(self, pipeline: beam.Pipeline) -> tuple[beam.PCollection, beam.PCollection]:
        """Pipeline to one element, a Study; and to (place, error) of each dialogue of which nothing was learned."""
        inputs, config = self.inputs, self.inputs.config
        expect_dialogues([studied.file for studied in inputs.files], ANALYSIS)
        files = pipeline | "Files" >> beam.Create(inputs.files)
        read = files | "Read" >> beam.FlatMap(found_in).with_outputs(REFUSED, main="found")
        refused = [read[REFUSED]]
        vocabularies = (
            read["found"] | "Different" >> beam.CombinePerKey(Union()) | "Count texts" >> beam.MapTuple(_counted)
        )
        once = pipeline | "Once" >> beam.Create([inputs], reshuffle=False)
        study: beam.PCollection = once | "Study" >> beam.Map(study_of, beam.pvalue.AsIter(vocabularies))
        if config.values == GENERATED:
            return study, read[REFUSED]
        if config.values == CORPUS:
            found = files | "Names" >> beam.FlatMap(_names_in, beam.pvalue.AsSingleton(study)).with_outputs(
                REFUSED, main="names"
            )
            refused.append(found[REFUSED])
            names = found["names"] | "Different names" >> beam.CombinePerKey(Union())
            study = study | "Hold out" >> beam.Map(_held_out, beam.pvalue.AsIter(names), config.seed)
        needed = files | "Needs" >> beam.FlatMap(_needs_of, beam.pvalue.AsSingleton(study)).with_outputs(
            REFUSED, main="needs"
        )
        refused.append(needed[REFUSED])
        needs = needed["needs"] | "Most" >> beam.CombinePerKey(max)
        study = study | "Check" >> beam.Map(checked, beam.pvalue.AsDict(needs), config)
        return study, refused | "Refused" >> beam.Flatten()


class Union(beam.CombineFn):
    """Sets to their union; or sorted arrays of hashes to one of all different hashes."""

    def create_accumulator(self) -> list[Any]:
        """Nothing, of what is not known yet."""
        return []

    def add_input(self, accumulator: list[Any], element: Any) -> list[Any]:
        """Adds one. Arrays are united when they have grown by as much as there was: so each is sorted a few times."""
        accumulator.append(element)
        if isinstance(element, set) or sum(map(len, accumulator)) > 2 * len(accumulator[0]):
            return _united(accumulator)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[Any]]) -> list[Any]:
        """Those of several workers."""
        return _united([element for accumulator in accumulators for element in accumulator])

    def extract_output(self, accumulator: list[Any]) -> Any:
        """The union."""
        return _united(accumulator)[0]


def _united(found: list[Any]) -> list[Any]:
    if len(found) < 2:
        return found
    # A union of sets of this class is a plain one.
    return [Different(set().union(*found)) if isinstance(found[0], set) else np.unique(np.concatenate(found))]


def _key(*parts: str) -> Key:
    # Names may have any characters, NUL and half surrogate pairs among them.
    return json.dumps(parts).encode()


def _parts(key: Key) -> list[str]:
    parts: list[str] = json.loads(key)
    return parts


def found_in(studied: StudiedFile) -> Iterator[tuple[Key, Any] | TaggedOutput]:
    """What a file has: hashes of words, of pairs of words and of texts, and the values of its slots."""
    texts, values, refused = texts_and_values(studied)
    yield from _tagged(refused)
    if studied.in_training:
        yield _key(_GRAMS), grams_in(texts)
        hashes = hashes_of(texts)
        shards = hashes % _TEXT_SHARDS
        yield from ((_key(_TEXTS, str(shard)), hashes[shards == shard]) for shard in range(_TEXT_SHARDS))
    for (service, slot), (said, canonical) in values.items():
        for role, has_role in ((_PERTURBED, studied.is_perturbed), (_SOURCE, studied.is_source)):
            if has_role:
                yield _key(role, service, slot, ""), Different(said)
                yield _key(role, service, slot, "canonical"), Different(canonical)


def _tagged(refused: Refused) -> Iterator[TaggedOutput]:
    """Those that are refused by a fault: of others whoever writes them finds out what is wrong."""
    yield from (TaggedOutput(REFUSED, pair) for pair in refused.items() if isinstance(pair[1], Fault))


def _counted(key: Key, found: Any) -> tuple[Key, Any]:
    return key, len(found) if _parts(key)[0] == _TEXTS else found


def study_of(inputs: Inputs, vocabularies: Vocabularies) -> Study:
    """What training has and the kinds of the slots, with the gazetteer's values where there is one."""
    grams: Hashes = np.empty(0, np.uint64)
    texts = 0
    values: dict[str, Values] = {_PERTURBED: {}, _SOURCE: {}}
    for key, found in vocabularies:
        role, *parts = _parts(key)
        if role == _GRAMS:
            grams = found
        elif role == _TEXTS:
            texts += found
        else:
            service, slot, canonical = parts
            values[role].setdefault((service, slot), (set(), set()))[bool(canonical)].update(found)
    config, training = inputs.config, Training(grams, texts)
    kinds = kinds_of(values[_PERTURBED], inputs.schemas, config.replace_choices)
    if config.values in (GENERATED, CORPUS):
        source_kinds = kinds_of(values[_SOURCE], inputs.source_schemas, replace_choices=False)
        return Study(Replacer(kinds, Sources(config.values, config.seed), training), source_kinds)
    pools, leaking = pools_of(inputs.gazetteer, config.values, open_slots(kinds), training)
    return Study(Replacer(kinds, Sources("file", config.seed, pools), training), leaking=leaking)


def _names_in(studied: StudiedFile, study: Study) -> Iterator[tuple[str, Different] | TaggedOutput]:
    if studied.is_source:
        refused: Refused = {}
        yield "", Different(names_in(studied, study.source_kinds, refused))
        yield from _tagged(refused)


def _held_out(study: Study, names: Iterable[tuple[str, Different]], seed: str) -> Study:
    of_source = {name for _, found in names for name in found}
    kinds, training = study.replacer.kinds, study.replacer.training
    leaking = sum(training.leaks(value) for _, value in of_source)
    return Study(Replacer(kinds, Sources(CORPUS, seed, held_out(of_source, training, seed)), training), leaking=leaking)


def _needs_of(studied: StudiedFile, study: Study) -> Iterator[tuple[str, int] | TaggedOutput]:
    if studied.is_perturbed:
        refused: Refused = {}
        yield from needs_of(studied, study.replacer.kinds, study.replacer.sources, refused).items()
        yield from _tagged(refused)
