"""Reads the files that a release is made of: rows for Parquet, a copy of each file of a corpus, counts, faults."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import apache_beam as beam
import msgspec
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue import Dialogue
from parapet.schemas.dialogue_lines import Malformed, collection_paused, dialogue_lines, lines_of_any
from parapet.schemas.dialogue_table import SERVICES, service_rows
from parapet.schemas.errors import NOT_FINITE, InputError, not_finite_in, reason_and_place
from parapet.schemas.layout import dialogue_bytes, parse_json
from parapet.schemas.release_manifest import File, InputFile
from parapet.schemas.service import Service
from parapet.transforms.files import join, read_bytes, whole
from parapet.transforms.progress import advance
from parapet.transforms.release.checks import Fault, dialogue_faults
from parapet.transforms.release.plan import PARAPHRASE_COLUMNS, Batch, Plan, Source
from parapet.transforms.release.shards import join_parts, parts, table_of_lines
from parapet.transforms.release.writing import part_path

COPIES = "copies"
COUNTS = "counts"
INPUTS = "inputs"
FAULTS = "faults"

FAULTS_SHOWN = 20  # of each kind: of a file, and of all

Counts = Counter[tuple[str, str, str]]  # what, corpus, split


class Found(msgspec.Struct, frozen=True):
    """A fault, and the dialogue that has it."""

    path: str
    dialogue_id: str
    fault: Fault

    def __str__(self) -> str:
        return f"{self.path}: {self.dialogue_id}: {self.fault.where}: {self.fault.reason}"


class ReadSources(beam.PTransform):
    """Reads files, and puts their rows aside for their shards.

    Args:
      plan: what they are.
      folder: the release's, while it is built; copies of a corpus' files go there.
    """

    def __init__(self, plan: Plan, folder: str) -> None:
        super().__init__()
        self.reader = _ReadBatch(plan, folder)

    def expand(self, batches: beam.PCollection) -> Any:
        """PCollection of Batch to the paths of the parts, File, (what, n), (input, InputFile) and (kind, Found)."""
        return batches | "Read files" >> beam.ParDo(self.reader).with_outputs(
            COPIES, COUNTS, INPUTS, FAULTS, main="parts"
        )


class _ReadBatch(beam.DoFn):
    def __init__(self, plan: Plan, folder: str) -> None:
        super().__init__()
        self.keys = {name: kept.key for name, kept in plan.configs.items()}
        self.services, self.folder = plan.services, folder

    def process(self, batch: Batch) -> Iterator[Any]:
        packed: dict[int, list[bytes]] = {}
        for source in batch.sources:
            table = yield from self._read(source)
            for shard, piece in parts(table, self.keys[source.config], source.shards):
                packed.setdefault(shard, []).append(piece)
            advance(1, "files")
            Metrics.counter("parapet", "files").inc()
            Metrics.counter("parapet", "rows").inc(table.num_rows)
        path = part_path(source.config, source.split, batch.number)
        with whole(join(self.folder, path)) as handle:
            handle.write(join_parts(packed))
        yield path

    def _read(self, source: Source) -> Generator[Any, None, pa.Table]:
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
        try:
            table, counts, faults = read_source(source, data, services)
        except InputError as error:
            raise InputError(error.reason, error.path or source.path, error.where) from None
        except Exception as error:  # whatever a reader does not name: the file must be
            raise InputError(f"cannot be read: {str(error) or type(error).__name__}", source.path) from error
        for what, n in counts.items():
            yield TaggedOutput(COUNTS, (what, n))
        for found in faults:
            yield TaggedOutput(FAULTS, (found.fault.kind, found))
        return table


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
      The rows, those of dialogues as lines (see ``parapet.transforms.release.shards``); the counts by (what, corpus,
      split); of each kind of fault the first in full, counted as ``("fault", kind, "")``.

    Raises:
      InputError: the file cannot be read as what it should be.
    """
    if source.record == "dialogue":
        return _dialogues(source, data, services)
    if source.record == "service":
        return _services(source, data)
    return _table(source, data)


@collection_paused()
def _dialogues(source: Source, data: bytes, services: Mapping[str, Service]) -> tuple[pa.Table, Counts, list[Found]]:
    name, malformed = source.relative.rpartition("/")[2], list[Malformed]()
    try:
        found = dialogue_lines(data, name, source.path)
        keys = [dialogue.dialogue_id for dialogue in found.dialogues]
    except InputError as error:
        try:
            found, malformed = lines_of_any(data, name, source.path)
        except (InputError, TypeError):
            raise error from None
        if not malformed:
            raise
        keys = [orjson.loads(line)["dialogue_id"] for line in found.lines]
    counts: Counts = Counter()
    counts["dialogues", source.corpus, source.split] = len(found.lines)
    counts["turns", source.corpus, source.split] = sum(len(dialogue.turns) for dialogue in found.dialogues)
    faults: list[Found] = []

    def add(dialogue_id: str, fault: Fault) -> None:
        counts["fault", fault.kind, ""] += 1
        if counts["fault", fault.kind, ""] <= FAULTS_SHOWN:
            faults.append(Found(source.path, dialogue_id, fault))

    for one in malformed:
        add(one.dialogue_id, Fault("format", one.where, one.reason))
    for dialogue in found.dialogues:
        for fault in dialogue_faults(dialogue, services):
            add(dialogue.dialogue_id, fault)
    return table_of_lines(keys, "dialogue_id", found.lines), counts, faults


def _services(source: Source, data: bytes) -> tuple[pa.Table, Counts, list[Found]]:
    raw = parse_json(data, source.path)
    if (at := not_finite_in(raw)) is not None:
        raise InputError(NOT_FINITE, source.path, at)
    table = pa.Table.from_pylist(service_rows(raw, source.corpus, data), SERVICES)
    counts: Counts = Counter()
    counts["services", source.corpus, source.split] = len(raw)
    for what in ("intents", "slots"):
        counts[what, source.corpus, source.split] = sum(len(service[what]) for service in raw)
    return table, counts, []


def _table(source: Source, data: bytes) -> tuple[pa.Table, Counts, list[Found]]:
    try:
        table = pq.read_table(pa.BufferReader(data)).replace_schema_metadata()
        table.validate(full=True)  # a text may be no UTF-8
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"cannot be read as Parquet: {error}", source.path) from None
    counts: Counts = Counter()
    if source.record == "paraphrase":
        table = table.select(PARAPHRASE_COLUMNS.names).cast(PARAPHRASE_COLUMNS)
        for row in table.select(["disposition", "reason"]).to_pylist():
            counts["disposition", row["disposition"], ""] += 1
            if row["disposition"] == "rejected":
                counts["rejection", row["reason"].partition(":")[0], ""] += 1
    return table, counts, []
