"""Out-of-domain utterances as a perturbation: injected at exact rates according to a plan over all dialogues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Any, NamedTuple, TypeVar

import apache_beam as beam
import msgspec
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue import Dialogue, DialogueFile
from parapet.schemas.errors import InputError, storable
from parapet.schemas.rows import OOD_TURNS
from parapet.transforms.core.counts import Counted, CountKey, Counts, DeadLetter, Exact, Invariant, Tally
from parapet.transforms.core.fence import Fault, bad_record
from parapet.transforms.perturb import base, corpora, mixes
from parapet.transforms.perturb.base import DEAD_LETTERS, REFUSED, Analysis, analyze_dialogues
from parapet.transforms.perturb.corpora import domains_of
from parapet.transforms.perturb.ood import CHAT, OWN, utterances
from parapet.transforms.perturb.ood.plan import MOST_USES, Config, Injection, Place, injected, places_of, plan, set_name
from parapet.transforms.perturb.ood.utterances import (
    SourceFile,
    Topics,
    Utterance,
    pool_of,
    read_source,
    requests_of,
    source_id,
    user_turns_of,
    utterance_of,
)
from parapet.transforms.report.numbers import Metric, Numbers

T = TypeVar("T")

_pack = msgspec.msgpack.encode  # records as one element, since Beam handles elements individually

PLACES, COUNTS = "places", "counts"


class _Read(NamedTuple):
    """What the plan needs of a dialogue."""

    requests: list[Utterance]
    places: list[Place]
    user_turns: int


def _read_dialogue(
    config: Config, topics: Topics, dialogue: Dialogue, file: DialogueFile, position: int
) -> Iterator[_Read]:
    domains, is_written = domains_of(dialogue), config.writes(file.split)
    splits = (file.split,) if is_written else ()
    requests = [
        utterance_of(text, source_id(file.relative, dialogue.dialogue_id, turn), OWN, domains, splits)
        for turn, text in (requests_of(dialogue, topics) if config.own else ())
    ]
    places = places_of(dialogue, file, position, domains, config) if is_written else []
    yield _Read(requests, places, len(user_turns_of(dialogue)))


def read_file(file: DialogueFile, config: Config, topics: Topics) -> Iterator[Any]:
    """Reads the requests and places of one file; nothing if it cannot be read to its end.

    Yields packed lists of Utterance (main) and of Place (PLACES), (count key, n) (COUNTS), and what
    :func:`analyze_dialogues` yields for bad records. In splits that are not written, they count as rows of the source.
    """
    is_written = config.writes(file.split)
    requests: list[Utterance] = []
    places: list[Place] = []
    counts = Counts()
    for result in analyze_dialogues(file, partial(_read_dialogue, config, topics), is_written):
        if isinstance(result, TaggedOutput):
            yield result
            counts.add("source_rows_left_out", int(not is_written))
            continue
        requests += result.requests
        places += result.places
        if is_written:
            counts.add("planned_turns", result.user_turns, split=file.split)
    counts.add("source_rows", len(requests))
    yield _pack(requests)
    yield TaggedOutput(PLACES, _pack(places))
    for key, n in counts.items():
        yield TaggedOutput(COUNTS, (tuple(key), n))


def read_source_file(file: SourceFile) -> Iterator[Any]:
    """Reads the utterances of a file, with a dead letter for each bad row."""
    dead_letters: list[DeadLetter] = []
    utterances: list[Utterance] = []
    try:
        for row in read_source(file):
            if isinstance(row, InputError):
                dead_letters.append(_dead_row(file, row.where, row.reason))
            else:
                utterances.append(row)
    except Exception as error:
        bad = bad_record(error)
        reason = bad.reason if isinstance(bad, Fault) else f"broken_file: {bad.reason}"
        dead_letters.append(_dead_row(file, bad.where, reason))
    yield _pack(utterances)
    if utterances:
        yield TaggedOutput(COUNTS, (CountKey("source_rows"), len(utterances)))
    if dead_letters:
        yield TaggedOutput(COUNTS, (CountKey("source_rows_left_out"), len(dead_letters)))
        yield TaggedOutput(DEAD_LETTERS, (f"source/{file.name}", dead_letters))


def _dead_row(file: SourceFile, where: str, reason: str) -> DeadLetter:
    return DeadLetter("source", "", file.name, "", where, storable(reason))


def plan_injections(files: beam.PCollection, config: Config, sources: Sequence[SourceFile], topics: Topics) -> Analysis:
    """Plans the injections into the dialogues of a corpus, at exact rates.

    Args:
      files: all DialogueFiles of the corpus, including splits that are not written.
      config: the options.
      sources: files of foreign utterances.
      topics: what the services of the corpus are about.
    """
    tags = (DEAD_LETTERS, COUNTS)
    read = beam.FlatMap(read_file, config, topics).with_outputs(PLACES, REFUSED, *tags, main="utterances")
    corpus = files | "Spread" >> beam.Reshuffle() | "Read file" >> read
    read_sources = beam.FlatMap(read_source_file).with_outputs(*tags, main="utterances")
    source_files = files.pipeline | "Source files" >> beam.Create(list(sources))
    source = source_files | "Spread sources" >> beam.Reshuffle() | "Read source" >> read_sources
    utterances = (corpus.utterances, source.utterances) | "Utterances" >> beam.Flatten()
    counts = (corpus[COUNTS], source[COUNTS]) | "Counts" >> beam.Flatten()
    sides = (utterances, corpus[PLACES], counts | "Sum counts" >> beam.CombinePerKey(sum))
    planned = (
        files.pipeline
        | "Once" >> beam.Create([config], reshuffle=False)
        | "Plan"
        >> beam.FlatMap(injections, topics, *map(beam.pvalue.AsIter, sides)).with_outputs(COUNTS, main="states")
    )
    all_counts = (counts, planned[COUNTS]) | "With counts of the plan" >> beam.Flatten()
    dead_letters = (corpus[DEAD_LETTERS], source[DEAD_LETTERS]) | "Dead letters" >> beam.Flatten()
    return Analysis(planned.states, counts=all_counts, dead_letters=dead_letters, shared={REFUSED: corpus[REFUSED]})


def injections(
    config: Config,
    topics: Topics,
    utterances: Iterable[bytes],
    places: Iterable[bytes],
    sums: Iterable[tuple[tuple[str, str, str, str], int]],
) -> Iterator[Any]:
    """Yields the injections of each dialogue, ((file, position), list of Injection), and the counts of the plan.

    Args:
      config: the options.
      topics: what the services of the corpus are about.
      utterances: packed lists of Utterance.
      places: packed lists of Place.
      sums: the counts of records read.

    Raises:
      InputError: there are too few places or utterances.
    """
    turns = Counts.of_pairs(sums).by("split", "planned_turns")
    if not config.splits:
        config = msgspec.structs.replace(config, splits=tuple(turns))
    pool, counts = pool_of(_unpacked(utterances, Utterance), topics)
    planned, of_plan = plan(config, _unpacked(places, Place), pool, turns)
    yield from (TaggedOutput(COUNTS, (tuple(key), n)) for key, n in (counts + of_plan).items())
    of_dialogues: dict[tuple[str, int], list[Injection]] = {}
    for file, injection in planned:
        of_dialogues.setdefault((file, injection.dialogue), []).append(injection)
    yield from of_dialogues.items()


def _unpacked(blobs: Iterable[bytes], kind: type[T]) -> Iterator[T]:
    return (item for blob in blobs for item in msgspec.msgpack.decode(blob, type=list[kind]))  # type: ignore[valid-type]


class OutOfDomain(base.Perturbation):
    """User turns of another domain, each followed by a fallback of the system (Lee and Shalyminov 2019).

    Args:
      seed: of everything that is drawn.
      rates: injected turns per user turn, a set each: ``ood-10``, ``ood-20``. A set has all that lower rates have.
      source: foreign utterances, separated by commas: ``own``, the corpus's requests to services that a dialogue does
        not have; ``chat``, small talk and general questions; files and folders, as ``parapet ood --source`` takes them.
      max_bad: the share of the source's rows that may be unusable; they are left out.
    """

    name = "ood"
    languages = (corpora.ENGLISH,)
    needs_annotation = True
    row_schema = OOD_TURNS
    title = "Out-of-domain utterances"
    known_odd = "Requests have the English of their authors, and the user goes on as if nothing had been asked."
    tables = (
        Numbers(
            "The sets",
            "sets/*/splits/*",
            ("set", "split"),
            (
                Metric("rate", "rate", meaning="Injected turns per in-domain user turn, exact over the split. A set "
                       "has all injections of the sets with lower rates.", percent=True),
                Metric("in_domain_turns", "in-domain user turns", shown_first=True),
                Metric("ood_turns", "injected turns", shown_first=True),
                Metric("distinct", "distinct"),
                Metric("most_uses", "most uses of one"),
                Metric("dialogues_with_ood", "dialogues with one"),
            ),
        ),
        Numbers("The foreign utterances", "pool/*", ("status",), (Metric("", "utterances"),), utterances.STATUSES,
                chart="bars"),
        Numbers("Injected turns by source", "sets/*/sources/*", ("set", "source"),
                (Metric("turns", "turns"), Metric("distinct", "distinct"))),
    )  # fmt: skip
    keeps_turns = False
    analyzes_all_splits = True  # the same utterance must not be injected into two splits

    topics: utterances.Topics  # set by prepare()

    def __init__(
        self,
        *,
        seed: int | str = 0,
        rates: base.Texts = (0.1, 0.2, 0.5),
        source: str | Path = f"{OWN},{CHAT}",
        max_bad: float = 0.01,
    ) -> None:
        super().__init__(seed=seed)
        self.max_bad = base.share_of(max_bad, "--max_bad")
        self.rates, self.source = tuple(mixes.parse_rates(base.comma_separated(rates), "--rates")), str(source)
        self.sources = utterances.list_sources(self.source)

    @property
    def config(self) -> Config:
        """Returns the options that determine the sets."""
        return Config(self.rates, self.seed, tuple(sorted(self.splits)), OWN in utterances.names_of(self.source))

    @property
    def sets(self) -> tuple[str, ...]:
        """Returns the names of sets (``ood-10``), one for each rate."""
        return tuple(self.config.sets)

    def recorded_options(self) -> dict[str, object]:
        """Returns the options, with the names of files."""
        names = [name if name in (OWN, CHAT) else PurePath(name).name for name in utterances.names_of(self.source)]
        return {"source": ", ".join(names), "rates": list(self.rates), "seed": self.seed}

    def worker_inputs(self) -> Sequence[tuple[str, str]]:
        """Returns the sources that are files or folders."""
        return [("--source", name) for name in utterances.names_of(self.source) if name not in (OWN, CHAT)]

    def prepare(self, corpus: corpora.Corpus) -> None:
        """Learns what the services of the corpus are about."""
        self.topics = utterances.topics_of_services(
            service for schemas in corpus.folders.values() for service in schemas.services
        )

    def analyze(self, files: beam.PCollection[DialogueFile]) -> base.Analysis:
        """Plans the injections, which are the state of a dialogue."""
        return plan_injections(files, self.config, self.sources, self.topics)

    def analysis_tallies(self, counts: Counts) -> list[Tally]:
        """Returns a tally of the rows of the source."""
        left_out = counts.sum("source_rows_left_out")
        return [Tally("source row", counts.sum("source_rows") + left_out, left_out)]

    def perturb_set(self, dialogue: dict[str, Any], set_name: str, state: Sequence[Injection] | None) -> base.Perturbed:
        """Returns the dialogue with the injections of a set, and a row for every user turn."""
        least = len(self.sets) - self.sets.index(set_name)
        injections = [injection for injection in state or () if injection.sets >= least]
        new, rows = injected(dialogue, injections, self.seed)
        ood = [row for row in rows if row["label"] == "ood"]
        counts: Counter[Counted] = Counter(("sources", injection.utterance.origin) for injection in injections)
        counts["user_turns"] = sum(turn["speaker"] == "USER" for turn in dialogue["turns"])
        counts["in_domain_turns"], counts["ood_turns"] = len(rows) - len(ood), len(ood)
        counts["dialogues_with_ood"] = int(bool(injections))
        return base.Perturbed(new, rows, counts=counts)

    def invariants(self) -> Sequence[Invariant]:
        """Checks that rates are exact, and original turns are kept."""
        rates: list[Invariant] = []
        for rate in self.rates:
            name = set_name(rate)
            rates += [
                Exact("ood_turns", "user_turns", name, partial(mixes.size_of, rate), name),
                Exact("in_domain_turns", "user_turns", name, int, name),
            ]
        return (*super().invariants(), *rates)

    def statistics(self, counts: Counts) -> dict[str, Any]:
        """Counts the turns of each set and split, and the pool by status."""
        splits = sorted(self.splits) or list(counts.by("split", "user_turns"))
        return {
            "sets": {set_name(rate): _numbers_of_set(rate, splits, counts) for rate in self.rates},
            "pool": utterances.pool_numbers(counts),
        }

    def notes(self, statistics: Mapping[str, Any]) -> Iterator[str]:
        """Yields warnings about utterances that are used often."""
        for name, numbers in statistics["sets"].items():
            if (most := max((split["most_uses"] for split in numbers["splits"].values()), default=0)) > MOST_USES:
                yield (
                    f"{name} has foreign utterances up to {most} times, in different dialogues: lower --rates, or add "
                    "files of your own to --source"
                )


def _numbers_of_set(rate: str, splits: Sequence[str], counts: Counts) -> dict[str, Any]:
    name = set_name(rate)
    distinct = counts.by("value", "distinct_of_source", set=name)
    turns = counts.by("value", "sources", set=name)
    per_split = ("in_domain_turns", "ood_turns", "dialogues_with_ood", "distinct", "most_uses")
    return {
        "rate": float(rate),
        "splits": {
            split or "all": {count: counts.sum(count, set=name, split=split) for count in per_split} for split in splits
        },
        "sources": {source: {"turns": turns.get(source, 0), "distinct": n} for source, n in distinct.items()},
    }
