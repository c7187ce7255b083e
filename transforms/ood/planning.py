"""From what was read to what is injected where: the pool of foreign utterances, and a plan for each cell of the corpus.

A corpus of up to ``cell_turns`` user turns is planned in one go. A larger one is divided into cells of that size: each
dialogue and each utterance belongs to one, by a hash, whatever file it is in. The rates are exact for the whole corpus:
the places with the lowest draws of all cells say how many each cell has to serve.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import msgspec
from apache_beam.pvalue import TaggedOutput

from parapet.transforms.counts import Counts, Identities
from parapet.transforms.exact_rates import Keys, level_of, size_of, thresholds_of
from parapet.transforms.ood import near
from parapet.transforms.ood.language import DomainCounts, Languages, Schemas
from parapet.transforms.ood.plan import (
    Config,
    DialoguePlaces,
    FilePlaces,
    Injection,
    Planned,
    Served,
    check_places,
    check_served,
    plan_cell,
)
from parapet.transforms.ood.pool import KEPT, Judgement, Utterance, check_foreign, judged
from parapet.transforms.ood.reading import (
    COUNTS,
    DEAD_LETTERS,
    PLACES,
    ReadCorpus,
    ReadSource,
    Text,
    Texts,
    pack,
    uncollected,
    unpack,
)
from parapet.transforms.ood.sources import SourceFile
from parapet.transforms.ood.texts import Domains, Vocabulary, WordCounts
from parapet.transforms.perturbation import REFUSED, Analysis
from parapet.transforms.seeding import stable_hash

_UTTERANCES = Identities("utterances")

NEAR, WORDS, SERVED = "near", "words", "served"

CellPlaces = tuple[FilePlaces, dict[int, int]]  # of a file and a cell; how many of them each rate adds
Sums = Iterable[tuple[tuple[str, str, str, str], int]]


class Words(NamedTuple):
    """The words of in-domain turns, counted.

    Attributes:
      counts: in how many turns.
      domains: by the domains that turns speak of, where utterances are the corpus's own.
    """

    counts: WordCounts
    domains: DomainCounts


def summed(parts: Iterable[Words]) -> Words:
    """The counts of all."""
    every = Words(WordCounts(), DomainCounts())
    for part in parts:
        every.counts.update(part.counts)
        every.domains.update(part.domains)
    return every


class Pool(beam.PTransform):
    """The different utterances that are foreign to the corpus.

    Args:
      schemas: of the corpus, where the utterances are its own.
      parts: of the search for near-duplicates.
    """

    def __init__(self, schemas: Schemas | None, parts: int) -> None:
        super().__init__()
        self.schemas, self.parts = schemas, parts

    def expand(self, texts: beam.PCollection) -> tuple[beam.PCollection, beam.PCollection]:
        """(shard, packed Texts) to packed lists of the utterances that are kept, and (count key, n) to be summed."""
        merged = (
            texts
            | "Same shard" >> beam.GroupByKey()
            | "Merge" >> beam.FlatMap(_merged).with_outputs(WORDS, main="texts")
        )
        words = merged[WORDS] | "Sum words" >> beam.CombineGlobally(summed)
        judge = beam.ParDo(_Judge(self.schemas, self.parts), beam.pvalue.AsSingleton(words))
        found = merged.texts | "Judge" >> judge.with_outputs(NEAR, COUNTS, main="utterances")
        near_duplicates = (
            found[NEAR] | "Same part" >> beam.GroupByKey() | "Find near" >> beam.FlatMap(_near_duplicates, self.parts)
        )
        kept = (
            {"utterances": found.utterances, "near": near_duplicates}
            | "With near" >> beam.CoGroupByKey()
            | "Keep" >> beam.FlatMap(_kept).with_outputs(COUNTS, main="kept")
        )
        return kept.kept, (found[COUNTS], kept[COUNTS]) | "Counts" >> beam.Flatten()


@uncollected
def _merged(shard: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
    """The texts of a shard, those with the same set of words side by side, and their words."""
    number, blobs = shard
    texts = Texts()
    for blob in blobs:
        for text in unpack(blob, list[Text]):
            texts.add(text)
    same_words: dict[frozenset[str], list[Text]] = {}
    words = Words(WordCounts(), DomainCounts())
    for text in texts:
        same_words.setdefault(frozenset(text.key.split()), []).append(text)
        words.domains.add(text.key, text.spoken_of)
    for tokens, same in same_words.items():
        if spoken_in := {domains for text in same for domains in text.spoken_in}:
            words.counts.add(tokens, spoken_in)
    yield number, pack(list(same_words.values()))
    yield TaggedOutput(WORDS, words)


class _Judge(beam.DoFn):
    """Judges the utterances of a shard, but for near-duplicates; what is known of words is unpacked once."""

    def __init__(self, schemas: Schemas | None, parts: int) -> None:
        super().__init__()
        self.schemas, self.parts = schemas, parts
        self.vocabulary: Vocabulary | None = None
        self.languages: Languages | None = None

    @uncollected
    def process(self, shard: tuple[int, bytes], words: Words) -> Iterator[Any]:
        if self.vocabulary is None:
            self.vocabulary = Vocabulary(words.counts)
            self.languages = None if self.schemas is None else Languages(words.domains, self.schemas)
        number, blob = shard
        judgements: list[Judgement] = []
        compared: dict[int, list[near.Text]] = {}
        counts = Counts()
        for same in unpack(blob, list[list[Text]]):
            asked: list[tuple[int, Domains]] = []
            for utterance in (text.utterance for text in same if text.utterance is not None):
                identity = _UTTERANCES.of(utterance.key)
                counts.add("texts", id=identity)
                judgement = judged(utterance, self.vocabulary, self.languages)
                if judgement.unless_near:
                    domains = utterance.domains if self.languages is not None else ()
                    asked.append((number << 32 | len(judgements), domains))
                    judgements.append(judgement)
                else:
                    counts.add("pool", value=judgement.status, id=identity)
            spoken_in = tuple(sorted({domains for text in same for domains in text.spoken_in}))
            text = near.Text(near.tokens_of(same[0].key.split(), self.vocabulary.ranks), spoken_in, tuple(asked))
            if asked or spoken_in:
                for part in near.parts_of(text.tokens, self.parts):
                    compared.setdefault(part, []).append(text)
        yield number, pack(judgements)
        yield from (TaggedOutput(NEAR, (part, pack(texts))) for part, texts in compared.items())
        yield from (TaggedOutput(COUNTS, (tuple(key), n)) for key, n in counts.items())


@uncollected
def _near_duplicates(part: tuple[int, Iterable[bytes]], parts: int) -> Iterator[tuple[int, bytes]]:
    """(shard, packed positions of its near-duplicates) of a part of the search."""
    number, blobs = part
    texts = [text for blob in blobs for text in unpack(blob, list[near.Text])]
    of_shard: dict[int, list[int]] = {}
    for identity in near.near_duplicates(texts, number, parts):
        of_shard.setdefault(identity >> 32, []).append(identity & 0xFFFFFFFF)
    yield from ((shard, pack(positions)) for shard, positions in of_shard.items())


def _kept(shard: tuple[int, Mapping[str, Iterable[bytes]]]) -> Iterator[Any]:
    """The utterances of a shard that may be injected."""
    _, found = shard
    duplicates = {position for blob in found["near"] for position in unpack(blob, list[int])}
    kept: list[Utterance] = []
    counts = Counts()
    for blob in found["utterances"]:
        for position, judgement in enumerate(unpack(blob, list[Judgement])):
            identity = _UTTERANCES.of(judgement.utterance.key)
            if position in duplicates:
                counts.add("pool", value="near_duplicate", id=identity)
                continue
            counts.add("pool", value=judgement.status, id=identity)
            if judgement.status == KEPT:
                kept.append(judgement.utterance)
                counts.add("familiar", int(judgement.is_familiar))
    if kept:
        yield pack(kept)
    yield from (TaggedOutput(COUNTS, (tuple(key), n)) for key, n in counts.items() if n)


class PlanInjections(beam.PTransform):
    """Plans what is injected into the dialogues of a corpus, at exact rates.

    Args:
      config: how.
      sources: files of foreign utterances; none where they are the corpus's own.
      schemas: of the corpus, where they are its own.
      parts: into which texts are divided.
      cell_turns: how many user turns are planned in one go.
    """

    def __init__(
        self,
        config: Config,
        sources: Sequence[SourceFile],
        schemas: Schemas | None,
        parts: int,
        cell_turns: int,
    ) -> None:
        super().__init__()
        self.config, self.sources, self.schemas = config, list(sources), schemas
        self.parts, self.cell_turns = parts, cell_turns

    def expand(self, files: beam.PCollection) -> Analysis:
        """All DialogueFiles of the corpus, those of splits that are not written as well, to the injections."""
        corpus = files | "Corpus" >> ReadCorpus(self.config, self.parts)
        source = files.pipeline | "Source files" >> beam.Create(self.sources) | "Source" >> ReadSource(self.parts)
        texts = (corpus.texts, source.texts) | "Texts" >> beam.Flatten()
        pool, of_pool = texts | "Pool" >> Pool(self.schemas, self.parts)
        counts = (corpus[COUNTS], source[COUNTS], of_pool) | "Counts" >> beam.Flatten()
        states = (corpus[PLACES], pool, counts) | "Plan" >> _Plan(self.config, self.cell_turns)
        dead_letters = (corpus[DEAD_LETTERS], source[DEAD_LETTERS]) | "Dead letters" >> beam.Flatten()
        return Analysis(states, counts=counts, dead_letters=dead_letters, refused=corpus[REFUSED])


class Cells(NamedTuple):
    """How a corpus is planned.

    Attributes:
      config: with the splits that are written.
      turns: split to the number of in-domain user turns.
      n: the number of cells.
    """

    config: Config
    turns: dict[str, int]
    n: int

    def of(self, name: int) -> int:
        """The cell of a dialogue or an utterance, given a hash of it."""
        return name % self.n


class _Plan(beam.PTransform):
    """Places, pool and counts to ((file, position), injections) of dialogues."""

    def __init__(self, config: Config, cell_turns: int) -> None:
        super().__init__()
        self.config, self.cell_turns = config, cell_turns

    def expand(self, inputs: tuple[beam.PCollection, beam.PCollection, beam.PCollection]) -> beam.PCollection:
        places, pool, counts = inputs
        there = places | "Count places" >> beam.Map(_number_of_places) | "Sum places" >> beam.CombinePerKey(sum)
        once = places.pipeline | "Once" >> beam.Create([self.config], reshuffle=False)
        checked = beam.pvalue.AsSingleton(
            once
            | "Check"
            >> beam.Map(
                cells_of,
                beam.pvalue.AsList(counts | "Sum counts" >> beam.CombinePerKey(sum)),
                beam.pvalue.AsDict(there),
                self.cell_turns,
            )
        )
        keys = places | "Keys" >> beam.FlatMap(_keys, checked)
        thresholds = beam.pvalue.AsDict(keys | "Thresholds" >> _Thresholds(self.config.rates))
        by_cell = {
            "cell": once | "Cells" >> beam.FlatMap(lambda _, cells: ((n, b"") for n in range(cells.n)), checked),
            "places": places | "Places by cell" >> beam.FlatMap(_places_by_cell, checked, thresholds),
            "pool": pool | "Pool by cell" >> beam.FlatMap(_pool_by_cell, checked),
        }
        planned = (
            by_cell
            | "Of a cell" >> beam.CoGroupByKey()
            | "Plan cell" >> beam.FlatMap(_plan_cell, checked).with_outputs(SERVED, main="planned")
        )
        served = beam.pvalue.AsList(planned[SERVED])
        return planned.planned | "Injections" >> beam.FlatMap(_injections, checked, served)


class _Thresholds(beam.PTransform):
    def __init__(self, rates: Sequence[str]) -> None:
        super().__init__()
        self.rates = rates

    def expand(self, keys: beam.PCollection) -> beam.PCollection:
        return thresholds_of(keys, self.rates)


def cells_of(config: Config, sums: Sums, places: Mapping[str, int], cell_turns: int) -> Cells:
    """How a corpus is planned, given the summed counts.

    Raises:
      InputError: the source is in-domain, or there are too few places.
    """
    counts = Counts.of_pairs(sums)
    if not config.own:
        check_foreign(counts)
    turns = counts.by("split", "planned_turns")
    if not config.splits:
        config = msgspec.structs.replace(config, splits=tuple(turns))
    for split in config.splits:
        check_places(config, split, places.get(split, 0), turns.get(split, 0))
    return Cells(config, turns, max(1, -(-sum(turns.values()) // cell_turns)))


def _number_of_places(blob: bytes) -> tuple[str, int]:
    places = unpack(blob, FilePlaces)
    return places.split, sum(len(of.draws) for of in places.dialogues)


def _key_of_place(draw: int, among: bytes) -> bytes:
    return draw.to_bytes(8, "big") + among


def _keys(blob: bytes, cells: Cells) -> Iterator[tuple[str, Keys]]:
    """The places of a file in drawn order, of which cells serve the first; not needed for a single cell."""
    if cells.n > 1:
        places = unpack(blob, FilePlaces)
        keys = b"".join(_key_of_place(draw, of.among) for of in places.dialogues for draw, _ in of.draws)
        yield places.split, Keys(sum(of.user_turns for of in places.dialogues), 16, keys)


def _places_by_cell(
    blob: bytes, cells: Cells, thresholds: Mapping[str, Sequence[bytes]]
) -> Iterator[tuple[int, bytes]]:
    """(cell, packed places of a file and how many of them each rate takes)."""
    places = unpack(blob, FilePlaces)
    of_cell: dict[int, list[DialoguePlaces]] = {}
    for of in places.dialogues:
        of_cell.setdefault(cells.of(of.name), []).append(of)
    for cell, dialogues in of_cell.items():
        levels: Counter[int] = Counter()
        if cells.n > 1:
            levels.update(
                level_of(_key_of_place(draw, of.among), thresholds[places.split])
                for of in dialogues
                for draw, _ in of.draws
            )
        yield cell, pack((msgspec.structs.replace(places, dialogues=dialogues), levels))


def _pool_by_cell(blob: bytes, cells: Cells) -> Iterator[tuple[int, bytes]]:
    of_cell: dict[int, list[Utterance]] = {}
    for utterance in unpack(blob, list[Utterance]):
        of_cell.setdefault(cells.of(stable_hash(cells.config.seed, "cell", utterance.key)), []).append(utterance)
    yield from ((cell, pack(utterances)) for cell, utterances in of_cell.items())


@uncollected
def _plan_cell(cell: tuple[int, Mapping[str, Iterable[bytes]]], cells: Cells) -> Iterator[Any]:
    _, found = cell
    config, rates = cells.config, range(1, len(cells.config.rates) + 1)
    places = []
    numbers = {split: [0 for _ in rates] for split in config.splits}
    for of_file, levels in (unpack(blob, CellPlaces) for blob in found["places"]):
        places += of_file.places()
        for rate in rates:
            numbers[of_file.split][rate - 1] += sum(n for level, n in levels.items() if 0 < level <= rate)
    # Of as many user turns the cell's numbers are the rates.
    turns = {split: max(1.0, of[-1] / float(config.rates[-1])) for split, of in numbers.items()}
    if cells.n == 1:
        turns = dict(cells.turns)
        numbers = {
            split: [size_of(rate, cells.turns.get(split, 0)) for rate in config.rates] for split in config.splits
        }
    pool = [utterance for blob in found["pool"] for utterance in unpack(blob, list[Utterance])]
    planned, served = plan_cell(config, places, pool, numbers, cells.turns, turns)
    yield pack(planned)
    yield TaggedOutput(SERVED, served)


def _injections(
    blob: bytes, cells: Cells, served: Sequence[Served]
) -> Iterator[tuple[tuple[str, int], list[Injection]]]:
    """The injections of each dialogue of a cell, once it is clear that all cells have enough."""
    check_served(cells.config, served)
    planned = unpack(blob, Planned)
    of_dialogues: dict[tuple[str, int], list[Injection]] = {}
    for file, injection in planned:
        of_dialogues.setdefault((file, injection.dialogue), []).append(injection)
    yield from of_dialogues.items()
