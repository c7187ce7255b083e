"""From dialogue files to what is injected where: corpus and source are read, utterances judged, places served."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue import Dialogue
from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError, storable
from parapet.transforms.corpora import dialogues_of
from parapet.transforms.counts import CountKey, Counts
from parapet.transforms.dead_letters import DeadLetter, Tally, dead_dialogue, dead_file, id_of
from parapet.transforms.ood.injecting import check_unicode
from parapet.transforms.ood.language import Languages, Schemas, TurnContent, content_of_turn
from parapet.transforms.ood.plan import (
    Config,
    Injection,
    Place,
    places_of,
    plan,
    user_turns_of,
)
from parapet.transforms.ood.pool import KEPT, Utterance, check_foreign, judged, merged, utterance_of
from parapet.transforms.ood.sources import SourceFile, read_source, source_id
from parapet.transforms.ood.texts import InDomain, key_of, stopwords
from parapet.transforms.perturbation import Analysis
from parapet.transforms.progress import ANALYSIS, tracked
from parapet.transforms.touching import domains_of
from parapet.transforms.user_turns import user_turns

PLACES, TURNS, DEAD_LETTERS, COUNTS = "places", "turns", "dead_letters", "counts"


def sound_dialogues(file: DialogueFile) -> Iterator[tuple[int, Any, bool, Dialogue | InputError]]:
    """As ``dialogues_of``; one that a table of turns cannot hold is an error too."""
    for position, raw, plain, dialogue in dialogues_of(file):
        error = check_unicode(raw) if isinstance(dialogue, Dialogue) and not plain else None
        yield position, raw, plain, error or dialogue


class ReadCorpus(beam.PTransform):
    """Reads all dialogue files of a corpus."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def expand(self, files: beam.PCollection) -> Any:
        """DialogueFile to Utterance (main; where the source is ``own``), Place (PLACES), (key, domains of the dialogue,
        domains that the turn speaks of) (TURNS), (file, dead letters) (DEAD_LETTERS), (count key, n) (COUNTS).

        What cannot be read of splits that are written is reported by who writes them.
        """
        read = beam.FlatMap(read_file, self.config).with_outputs(PLACES, TURNS, DEAD_LETTERS, COUNTS, main="utterances")
        return files | "Spread" >> beam.Reshuffle() | "Read file" >> read


def read_file(file: DialogueFile, config: Config) -> Iterator[Utterance | TaggedOutput]:
    """The turns and places of one file; nothing of a file that cannot be read to its end."""
    is_written = config.writes(file.split)
    dead_letters: list[DeadLetter] = []
    outputs: list[Utterance | TaggedOutput] = []
    counts, elsewhere = Counts(), Counts()
    elsewhere.add("files_elsewhere")
    try:
        for position, raw, _, dialogue in tracked(sound_dialogues(file), "dialogues", ANALYSIS):
            elsewhere.add("dialogues_elsewhere")
            if isinstance(dialogue, InputError):
                elsewhere.add("left_out_elsewhere")
                dead_letters.append(dead_dialogue(file, id_of(raw, position), dialogue))
                continue
            outputs += _read_dialogue(file, position, dialogue, config, is_written)
            counts.add("planned_turns", len(user_turns_of(dialogue)), split=file.split)
    except InputError as error:
        dead_letters, outputs, counts, elsewhere = [dead_file(file, error)], [], Counts(), Counts()
        elsewhere.add("files_elsewhere")
        elsewhere.add("broken_files_elsewhere")
    yield from outputs
    yield from _tagged(counts if is_written else elsewhere)
    if dead_letters and not is_written:
        yield TaggedOutput(DEAD_LETTERS, (file.relative, dead_letters))


def _read_dialogue(
    file: DialogueFile, position: int, dialogue: Dialogue, config: Config, is_written: bool
) -> Iterator[Utterance | TaggedOutput]:
    domains = domains_of(dialogue)
    contents: dict[int, TurnContent] = {}
    if config.own:
        contents = {turn.position: content_of_turn(turn) for turn in user_turns(dialogue)}
    for turn in user_turns_of(dialogue):
        text = dialogue.turns[turn].utterance
        content = contents.get(turn)
        yield TaggedOutput(TURNS, (key_of(text), domains, content.domains if content else ()))
        if content:
            source = source_id(file.relative, dialogue.dialogue_id, turn)
            yield utterance_of(text, source, domains, (file.split,) if is_written else (), content)
    if is_written:
        places = places_of(dialogue, file.split, file.relative, position, config.place, config.seed)
        yield from (TaggedOutput(PLACES, place) for place in places)


def _tagged(counts: Counts) -> Iterator[TaggedOutput]:
    for key, n in counts.items():
        yield TaggedOutput(COUNTS, (tuple(key), n))


class ReadSource(beam.PTransform):
    """Reads files of foreign utterances."""

    def expand(self, files: beam.PCollection) -> Any:
        """SourceFile to Utterance (main), (file, dead letters) (DEAD_LETTERS), (count key, n) (COUNTS)."""
        read = beam.FlatMap(read_source_file).with_outputs(DEAD_LETTERS, COUNTS, main="utterances")
        return files | "Spread" >> beam.Reshuffle() | "Read source" >> read


def read_source_file(file: SourceFile) -> Iterator[Utterance | TaggedOutput]:
    """The utterances of a file; a dead letter for each row that is none."""
    dead_letters: list[DeadLetter] = []
    try:
        for row in read_source(file):
            if isinstance(row, InputError):
                dead_letters.append(_dead_row(file, row.where, row.reason))
            else:
                yield row
    except InputError as error:
        dead_letters.append(_dead_row(file, error.where, f"broken_file: {error.reason}"))
    if dead_letters:
        yield TaggedOutput(COUNTS, (CountKey("source_rows_left_out"), len(dead_letters)))
        yield TaggedOutput(DEAD_LETTERS, (f"source/{file.name}", dead_letters))


def _dead_row(file: SourceFile, where: str, reason: str) -> DeadLetter:
    return DeadLetter("source", "", file.name, "", where, storable(reason))


def tallies_of_sources(counts: Counts) -> list[Tally]:
    """Records that are read to plan, of splits that are not written and of the source: some of them may be bad."""
    files, dialogues = counts.sum("files_elsewhere"), counts.sum("dialogues_elsewhere")
    rows = counts.sum("source_rows_left_out")
    return [
        Tally("file", files, counts.sum("broken_files_elsewhere"), "other splits", is_needed=False),
        Tally("dialogue", dialogues, counts.sum("left_out_elsewhere"), "other splits", is_needed=False),
        Tally("source row", counts.sum("source_rows") + rows, rows),
    ]


class Pool(beam.PTransform):
    """The different utterances that are foreign to the corpus.

    Args:
      turns: PCollection of (key, domains, domains that the turn speaks of) of in-domain turns.
      stops: words that say nothing about the topic of an utterance.
      schemas: of the corpus, where the utterances are its own.
    """

    def __init__(self, turns: beam.PCollection, stops: frozenset[str], schemas: Schemas | None) -> None:
        super().__init__()
        self.turns, self.stops, self.schemas = turns, stops, schemas

    def expand(self, utterances: beam.PCollection) -> tuple[beam.PCollection, beam.PCollection]:
        """Utterance to those that are kept, and (count key, n) to be summed."""
        turns = self.turns | "Different turns" >> beam.Distinct()
        rows = (
            utterances
            | "Count rows" >> beam.combiners.Count.Globally()
            | "Name" >> beam.Map(lambda n: (CountKey("source_rows"), n))
        )
        found = (
            utterances
            | "By key" >> beam.Map(lambda one: (one.key, one))
            | "Same" >> beam.GroupByKey()
            | "Merge" >> beam.MapTuple(lambda _, same: merged(same))
            | "Spread" >> beam.Reshuffle()
            | "Filter"
            >> beam.ParDo(_Filter(self.stops, self.schemas), beam.pvalue.AsList(turns)).with_outputs(
                COUNTS, main="kept"
            )
        )
        return found.kept, (rows, found[COUNTS]) | "Counts" >> beam.Flatten()


class _Filter(beam.DoFn):
    """Judges utterances. The index of in-domain turns is built once by each copy."""

    def __init__(self, stops: frozenset[str], schemas: Schemas | None) -> None:
        super().__init__()
        self.stops, self.schemas = stops, schemas
        self.in_domain: InDomain | None = None
        self.languages: Languages | None = None

    def process(self, one: Utterance, turns: Iterable[Any]) -> Iterator[Utterance | TaggedOutput]:
        if self.in_domain is None:
            self.in_domain = InDomain(((key, domains) for key, domains, _ in turns), self.stops)
            if self.schemas is not None:
                speaking = sorted({(key, spoken_of) for key, _, spoken_of in turns})
                self.languages = Languages(speaking, self.schemas)
        status, one = judged(one, self.in_domain, self.languages)
        yield TaggedOutput(COUNTS, (CountKey("texts"), 1))
        yield TaggedOutput(COUNTS, (CountKey("pool", value=status), 1))
        if status == KEPT:
            yield one
            if self.languages is None and self.in_domain.is_familiar(one.key):
                yield TaggedOutput(COUNTS, (CountKey("familiar"), 1))


class PlanInjections(beam.PTransform):
    """Plans what is injected into the dialogues of a corpus, at exact rates.

    Args:
      config: how.
      sources: files of foreign utterances; none where they are the corpus's own.
      schemas: of the corpus, where they are its own.
    """

    def __init__(self, config: Config, sources: Sequence[SourceFile], schemas: Schemas | None) -> None:
        super().__init__()
        self.config, self.sources, self.schemas = config, list(sources), schemas

    def expand(self, files: beam.PCollection) -> Analysis:
        """All DialogueFiles of the corpus, those of splits that are not written as well, to the injections."""
        corpus = files | "Corpus" >> ReadCorpus(self.config)
        source = files.pipeline | "Source files" >> beam.Create(self.sources) | "Source" >> ReadSource()
        utterances = (corpus.utterances, source.utterances) | "Utterances" >> beam.Flatten()
        pool, of_pool = utterances | "Pool" >> Pool(corpus[TURNS], stopwords(), self.schemas)
        counts = (corpus[COUNTS], source[COUNTS], of_pool) | "Counts" >> beam.Flatten()
        once = files.pipeline | "Once" >> beam.Create([self.config], reshuffle=False)
        states = once | "Plan" >> beam.FlatMap(
            planned,
            beam.pvalue.AsIter(corpus[PLACES]),
            beam.pvalue.AsIter(pool),
            beam.pvalue.AsList(counts | "Sum counts" >> beam.CombinePerKey(sum)),
        )
        dead_letters = (corpus[DEAD_LETTERS], source[DEAD_LETTERS]) | "Dead letters" >> beam.Flatten()
        return Analysis(states, counts=counts, dead_letters=dead_letters)


def planned(
    config: Config,
    places: Iterable[Place],
    pool: Iterable[Utterance],
    sums: Iterable[tuple[tuple[str, str, str, str], int]],
) -> list[tuple[tuple[str, int], list[Injection]]]:
    """The injections of each dialogue, see :func:`plan`, given the summed counts; checks that the source is foreign."""
    counts = Counts.of_pairs(sums)
    if not config.own:
        check_foreign(counts)
    turns = counts.by("split", "planned_turns")
    if not config.splits:
        config = msgspec.structs.replace(config, splits=tuple(turns))
    of_dialogues: dict[tuple[str, int], list[Injection]] = {}
    for file, injection in plan(config, places, pool, turns):
        of_dialogues.setdefault((file, injection.dialogue), []).append(injection)
    return list(of_dialogues.items())
