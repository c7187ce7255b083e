"""The plan of a whole corpus with Beam: reads dialogues and sources, and decides in one step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import apache_beam as beam
import msgspec
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue import Dialogue, DialogueFile
from parapet.schemas.errors import InputError, storable
from parapet.transforms.core.counts import CountKey, Counts, DeadLetter
from parapet.transforms.core.fence import Fault, bad_record
from parapet.transforms.perturb.base import DEAD_LETTERS, REFUSED, Analysis, analyze_dialogues
from parapet.transforms.perturb.corpora import domains_of
from parapet.transforms.perturb.ood import OWN
from parapet.transforms.perturb.ood.plan import Config, Injection, Place, places_of, plan
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
