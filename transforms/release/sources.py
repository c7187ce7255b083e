"""Reads the files that a release is made of: rows for Parquet, a copy of each file of a corpus, counts, faults."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import apache_beam as beam
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue import Dialogue
from parapet.schemas.dialogue_table import DIALOGUES, SERVICES, dialogue_rows, service_rows
from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.layout import dialogue_bytes, parse_json
from parapet.schemas.release_manifest import File, InputFile
from parapet.schemas.service import Service
from parapet.transforms.files import join, read_bytes, whole
from parapet.transforms.progress import advance
from parapet.transforms.release.checks import Fault, faults_of
from parapet.transforms.release.plan import PARAPHRASE_COLUMNS, Plan, Source
from parapet.transforms.release.shards import parts

COPIES = "copies"
COUNTS = "counts"
INPUTS = "inputs"
FAULTS = "faults"

_FAULTS_OF_A_FILE = 20

Counts = Counter[tuple[str, str, str]]  # what, corpus, split


class Found(msgspec.Struct, frozen=True):
    """A fault, and the dialogue that has it."""

    path: str
    dialogue_id: str
    fault: Fault

    def __str__(self) -> str:
        return f"{self.path}: {self.dialogue_id}: {self.fault.where}: {self.fault.reason}"


class ReadSources(beam.PTransform):
    """Reads files.

    Args:
      plan: what they are.
      folder: the release's, while it is built; copies of a corpus' files go there.
    """

    def __init__(self, plan: Plan, folder: str) -> None:
        super().__init__()
        self.reader = _ReadSource(plan, folder)

    def expand(self, sources: beam.PCollection) -> Any:
        """PCollection of Source to (ShardKey, packed rows), File, (what, n), (input, InputFile) and Found."""
        return sources | "Read source" >> beam.ParDo(self.reader).with_outputs(
            COPIES, COUNTS, INPUTS, FAULTS, main="rows"
        )


class _ReadSource(beam.DoFn):
    def __init__(self, plan: Plan, folder: str) -> None:
        super().__init__()
        self.keys = {name: kept.key for name, kept in plan.configs.items()}
        self.services, self.folder = plan.services, folder

    def process(self, source: Source) -> Iterator[Any]:
        data = read_bytes(source.path)
        sha256 = hashlib.sha256(data).hexdigest()
        yield TaggedOutput(INPUTS, (source.input, InputFile(source.relative, len(data), sha256)))
        if source.hidden:
            data = without_labels(data, source.path)
            sha256 = hashlib.sha256(data).hexdigest()
        if source.record in ("dialogue", "service"):
            with whole(join(self.folder, source.copy)) as handle:
                handle.write(data)
            yield TaggedOutput(COPIES, File(source.copy, len(data), sha256))
        services = self.services.get(source.corpus, {}).get(source.split, {})
        table, counts, faults = read_source(source, data, services)
        for shard, packed in parts(table, self.keys[source.config], source.shards):
            yield (source.config, source.split, shard, source.shards), packed
        for what, n in counts.items():
            yield TaggedOutput(COUNTS, (what, n))
        for found in faults:
            yield TaggedOutput(FAULTS, found)
        advance(1, "files")
        Metrics.counter("parapet", "files").inc()
        Metrics.counter("parapet", "rows").inc(table.num_rows)


def without_labels(data: bytes, path: str) -> bytes:
    """A file of dialogues as a model may see it: what is said, and of which services each frame is.

    Keys of other programs go, too: they may hold annotation. Raises InputError where the file holds no dialogues.
    """
    raw = parse_json(data, path)
    try:
        dialogues = msgspec.convert(raw, list[Dialogue])
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(reason, path, at) from None
    shown = [
        {
            "dialogue_id": dialogue.dialogue_id,
            "services": dialogue.services,
            "turns": [
                {
                    "speaker": turn.speaker,
                    "utterance": turn.utterance,
                    "frames": [{"service": frame.service, "slots": []} for frame in turn.frames],
                }
                for turn in dialogue.turns
            ],
        }
        for dialogue in dialogues
    ]
    return dialogue_bytes(shown)


def read_source(source: Source, data: bytes, services: Mapping[str, Service]) -> tuple[pa.Table, Counts, list[Found]]:
    """The rows of a file.

    Args:
      source: the file.
      data: its bytes.
      services: those that its dialogues may speak of.

    Returns:
      The rows; the counts by (what, corpus, split); of each kind of fault the first in full, counted as
      ``("fault", kind, "")``.

    Raises:
      InputError: the file cannot be read as what it should be.
    """
    if source.record == "dialogue":
        return _dialogues(source, data, services)
    if source.record == "service":
        return _services(source, data)
    return _table(source, data)


def _dialogues(source: Source, data: bytes, services: Mapping[str, Service]) -> tuple[pa.Table, Counts, list[Found]]:
    raw = parse_json(data, source.path)
    try:
        dialogues = msgspec.convert(raw, list[Dialogue])
        rows = dialogue_rows(raw, source.relative.rpartition("/")[2], data)
        table = pa.Table.from_pylist(rows, DIALOGUES)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(reason, source.path, at) from None
    except (TypeError, UnicodeEncodeError, pa.ArrowException) as error:
        raise InputError(f"holds what Parquet cannot: {error}", source.path) from None
    counts: Counts = Counter()
    counts["dialogues", source.corpus, source.split] = len(dialogues)
    counts["turns", source.corpus, source.split] = sum(len(dialogue.turns) for dialogue in dialogues)
    faults: list[Found] = []
    for row in rows:
        for fault in faults_of(row, services):
            counts["fault", fault.kind, ""] += 1
            if counts["fault", fault.kind, ""] <= _FAULTS_OF_A_FILE:
                faults.append(Found(source.path, row["dialogue_id"], fault))
    return table, counts, faults


def _services(source: Source, data: bytes) -> tuple[pa.Table, Counts, list[Found]]:
    raw = parse_json(data, source.path)
    table = pa.Table.from_pylist(service_rows(raw, source.corpus, data), SERVICES)
    counts: Counts = Counter()
    counts["services", source.corpus, source.split] = len(raw)
    for what in ("intents", "slots"):
        counts[what, source.corpus, source.split] = sum(len(service[what]) for service in raw)
    return table, counts, []


def _table(source: Source, data: bytes) -> tuple[pa.Table, Counts, list[Found]]:
    try:
        table = pq.read_table(pa.BufferReader(data)).replace_schema_metadata()
    except pa.ArrowException as error:
        raise InputError(f"cannot be read as Parquet: {error}", source.path) from None
    counts: Counts = Counter()
    if source.record == "paraphrase":
        table = table.select(PARAPHRASE_COLUMNS.names).cast(PARAPHRASE_COLUMNS)
        for row in table.select(["disposition", "reason"]).to_pylist():
            counts["disposition", row["disposition"], ""] += 1
            if row["disposition"] == "rejected":
                counts["rejection", row["reason"].partition(":")[0], ""] += 1
    return table, counts, []
