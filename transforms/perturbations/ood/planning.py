"""Read dialogue files and sources for the plan: utterances, places, dead letters and counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import apache_beam as beam
import msgspec
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue import Dialogue, DialogueFile
from parapet.schemas.errors import InputError, storable
from parapet.transforms.perturbation.base import REFUSED, Analysis
from parapet.transforms.perturbation.corpora import dialogues_of, domains_of
from parapet.transforms.perturbation.languages import OtherLanguage
from parapet.transforms.perturbations.ood import OWN
from parapet.transforms.perturbations.ood.plan import Config, Injection, Place, places_of, plan, user_turns_of
from parapet.transforms.perturbations.ood.pool import Utterance, key_of, pool_of, utterance_of
from parapet.transforms.perturbations.ood.requests import Topics, requests_of
from parapet.transforms.perturbations.ood.sources import SourceFile, read_source, source_id
from parapet.transforms.running.counts import CountKey, Counts, DeadLetter, Tally, dead_dialogue, dead_file, id_of
from parapet.transforms.running.fence import Fault, bad_record
from parapet.transforms.running.progress import ANALYSIS, tracked

T = TypeVar("T")

_pack = msgspec.msgpack.encode  # records as one element, since Beam handles elements individually

PLACES, IN_CORPUS, DEAD_LETTERS, COUNTS = "places", "in_corpus", "dead_letters", "counts"


def read_file(file: DialogueFile, config: Config, topics: Topics) -> Iterator[Any]:
    """Read the requests and places of one file; nothing if it cannot be read to its end.

    Yields packed lists of Utterance (main), of Place (PLACES) and of the keys of user turns (IN_CORPUS, if they are
    needed), (file, dead letters) (DEAD_LETTERS), (count key, n) (COUNTS), and ((file, position), error) for exceptions
    (REFUSED). Errors in splits that are written are reported by the step that writes them.
    """
    is_written = config.writes(file.split)
    dead_letters: list[DeadLetter] = []
    refused: list[tuple[tuple[str, int], InputError]] = []
    requests: list[Utterance] = []
    places: list[Place] = []
    keys: set[str] = set()
    counts, elsewhere = Counts(), Counts()
    elsewhere.add("files_elsewhere")
    try:
        for position, raw, dialogue in tracked(dialogues_of(file), "dialogues", ANALYSIS):
            if isinstance(dialogue, OtherLanguage):
                continue
            elsewhere.add("dialogues_elsewhere")
            if isinstance(dialogue, InputError):
                elsewhere.add("left_out_elsewhere")
                dead_letters.append(dead_dialogue(file, id_of(raw, position), dialogue))
                continue
            try:
                users, domains = user_turns_of(dialogue), domains_of(dialogue)
                of_dialogue = _requests(file, dialogue, domains, topics, is_written) if config.own else []
                of_places = places_of(dialogue, file, position, domains, config) if is_written else []
            except Exception as error:
                bad = bad_record(error)
                elsewhere.add("left_out_elsewhere")
                dead_letters.append(dead_dialogue(file, dialogue.dialogue_id, bad))
                refused.append(((file.relative, position), bad))
                continue
            requests += of_dialogue
            places += of_places
            if config.files:
                keys.update(key_of(dialogue.turns[turn].utterance) for turn in users)
            counts.add("planned_turns", len(users), split=file.split)
    except Exception as error:
        dead_letters, refused = [dead_file(file, bad_record(error))], []
        counts, elsewhere, requests, places, keys = Counts(), Counts(), [], [], set()
        elsewhere.add("files_elsewhere")
        elsewhere.add("broken_files_elsewhere")
    yield _pack(requests)
    yield TaggedOutput(PLACES, _pack(places))
    yield TaggedOutput(IN_CORPUS, _pack(sorted(keys)))
    of_file = counts if is_written else elsewhere
    of_file.add("source_rows", len(requests))
    for key, n in of_file.items():
        yield TaggedOutput(COUNTS, (tuple(key), n))
    if is_written:
        yield from (TaggedOutput(REFUSED, pair) for pair in refused)
    elif dead_letters:
        yield TaggedOutput(DEAD_LETTERS, (file.relative, dead_letters))


def _requests(
    file: DialogueFile, dialogue: Dialogue, domains: Sequence[str], topics: Topics, is_written: bool
) -> list[Utterance]:
    splits = (file.split,) if is_written else ()
    return [
        utterance_of(text, source_id(file.relative, dialogue.dialogue_id, turn), OWN, domains, splits)
        for turn, text in requests_of(dialogue, topics)
    ]


def read_source_file(file: SourceFile) -> Iterator[Any]:
    """Read the utterances of a file, with a dead letter for each bad row."""
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


def tallies_of_sources(counts: Counts) -> list[Tally]:
    """Return tallies of records that are only read for the plan, in splits that are not written and in the source."""
    files, dialogues = counts.sum("files_elsewhere"), counts.sum("dialogues_elsewhere")
    rows = counts.sum("source_rows_left_out")
    return [
        Tally("file", files, counts.sum("broken_files_elsewhere"), "other splits", is_needed=False),
        Tally("dialogue", dialogues, counts.sum("left_out_elsewhere"), "other splits", is_needed=False),
        Tally("source row", counts.sum("source_rows") + rows, rows),
    ]


Sums = Iterable[tuple[tuple[str, str, str, str], int]]


def plan_injections(files: beam.PCollection, config: Config, sources: Sequence[SourceFile], topics: Topics) -> Analysis:
    """Plan the injections into the dialogues of a corpus, at exact rates.

    Args:
      files: all DialogueFiles of the corpus, including splits that are not written.
      config: the options.
      sources: files of foreign utterances.
      topics: what the services of the corpus are about.
    """
    read = beam.FlatMap(read_file, config, topics).with_outputs(
        PLACES, IN_CORPUS, DEAD_LETTERS, COUNTS, REFUSED, main="utterances"
    )
    corpus = files | "Spread" >> beam.Reshuffle() | "Read file" >> read
    read_sources = beam.FlatMap(read_source_file).with_outputs(DEAD_LETTERS, COUNTS, main="utterances")
    source_files = files.pipeline | "Source files" >> beam.Create(list(sources))
    source = source_files | "Spread sources" >> beam.Reshuffle() | "Read source" >> read_sources
    utterances = (corpus.utterances, source.utterances) | "Utterances" >> beam.Flatten()
    counts = (corpus[COUNTS], source[COUNTS]) | "Counts" >> beam.Flatten()
    sides = (utterances, corpus[IN_CORPUS], corpus[PLACES], counts | "Sum counts" >> beam.CombinePerKey(sum))
    planned = (
        files.pipeline
        | "Once" >> beam.Create([config], reshuffle=False)
        | "Plan"
        >> beam.FlatMap(injections, topics, *map(beam.pvalue.AsIter, sides)).with_outputs(COUNTS, main="states")
    )
    all_counts = (counts, planned[COUNTS]) | "With counts of the plan" >> beam.Flatten()
    dead_letters = (corpus[DEAD_LETTERS], source[DEAD_LETTERS]) | "Dead letters" >> beam.Flatten()
    return Analysis(planned.states, counts=all_counts, dead_letters=dead_letters, refused=corpus[REFUSED])


def injections(
    config: Config,
    topics: Topics,
    utterances: Iterable[bytes],
    keys: Iterable[bytes],
    places: Iterable[bytes],
    sums: Iterable[tuple[tuple[str, str, str, str], int]],
) -> Iterator[Any]:
    """Yield the injections of each dialogue, ((file, position), list of Injection), and the counts of the plan.

    Args:
      config: the options.
      topics: what the services of the corpus are about.
      utterances: packed lists of Utterance.
      keys: packed lists of the keys of user turns.
      places: packed lists of Place.
      sums: the counts of records read.

    Raises:
      InputError: the source is in-domain, or there are too few places or utterances.
    """
    turns = Counts.of_pairs(sums).by("split", "planned_turns")
    if not config.splits:
        config = msgspec.structs.replace(config, splits=tuple(turns))
    pool, counts = pool_of(_unpacked(utterances, Utterance), {*_unpacked(keys, str)}, topics)
    planned, of_plan = plan(config, _unpacked(places, Place), pool, turns)
    yield from (TaggedOutput(COUNTS, (tuple(key), n)) for key, n in (counts + of_plan).items())
    of_dialogues: dict[tuple[str, int], list[Injection]] = {}
    for file, injection in planned:
        of_dialogues.setdefault((file, injection.dialogue), []).append(injection)
    yield from of_dialogues.items()


def _unpacked(blobs: Iterable[bytes], kind: type[T]) -> Iterator[T]:
    return (item for blob in blobs for item in msgspec.msgpack.decode(blob, type=list[kind]))  # type: ignore[valid-type]
