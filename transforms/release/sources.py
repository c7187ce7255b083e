"""Reads the files that a release is made of: rows for Parquet, counts, and faults of the annotation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from parapet.schemas.dialogue import Dialogue
from parapet.schemas.dialogue_lines import Malformed, collection_paused, dialogue_lines, lines_of_any
from parapet.schemas.dialogue_table import SERVICES, service_rows
from parapet.schemas.errors import NOT_FINITE, InputError, not_finite_in, reason_and_place
from parapet.schemas.layout import dialogue_bytes, parse_json
from parapet.schemas.service import Service
from parapet.transforms.release.checks import Fault, dialogue_faults
from parapet.transforms.release.plan import PARAPHRASE_COLUMNS, Source
from parapet.transforms.release.shards import table_of_lines

FAULTS_SHOWN = 20  # of each kind, of a file

Counts = Counter[tuple[str, str, str]]  # what, corpus, split


class Found(msgspec.Struct, frozen=True):
    """A fault, and the dialogue that has it."""

    path: str
    dialogue_id: str
    fault: Fault

    def __str__(self) -> str:
        return f"{self.path}: {self.dialogue_id}: {self.fault.where}: {self.fault.reason}"


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
    shown: list[dict[str, Any]] = []
    for dialogue in dialogues:
        turns = []
        for turn in dialogue.turns:
            frames = [{"service": frame.service, "slots": []} for frame in turn.frames]
            turns.append({"speaker": turn.speaker, "utterance": turn.utterance, "frames": frames})
        shown.append({"dialogue_id": dialogue.dialogue_id, "services": dialogue.services, "turns": turns})
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
    counts, faults = check_dialogues(source, found.dialogues, services, malformed)
    return table_of_lines(keys, "dialogue_id", found.lines), counts, faults


def check_dialogues(
    source: Source, dialogues: Sequence[Dialogue], services: Mapping[str, Service], malformed: Sequence[Malformed] = ()
) -> tuple[Counts, list[Found]]:
    """Counts the dialogues and faults of a file; gives the first faults of each kind too.

    Args:
      source: the file.
      dialogues: those of the SGD format.
      services: those that its dialogues may refer to.
      malformed: the other dialogues.
    """
    counts: Counts = Counter()
    counts["dialogues", source.corpus, source.split] = len(dialogues) + len(malformed)
    counts["turns", source.corpus, source.split] = sum(len(dialogue.turns) for dialogue in dialogues)
    faults: list[Found] = []

    def add(dialogue_id: str, fault: Fault) -> None:
        counts["fault", fault.kind, ""] += 1
        if counts["fault", fault.kind, ""] <= FAULTS_SHOWN:
            faults.append(Found(source.path, dialogue_id, fault))

    for dead in malformed:
        add(dead.dialogue_id, Fault("format", dead.where, dead.reason))
    for dialogue in dialogues:
        for fault in dialogue_faults(dialogue, services):
            add(dialogue.dialogue_id, fault)
    return counts, faults


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
        counts = count_answers(table.select(["disposition", "reason"]).to_pylist())
    return table, counts, []


def count_answers(rows: Iterable[Mapping[str, Any]]) -> Counts:
    """Counts answers of crowdworkers by disposition, and the rejected ones by reason."""
    counts: Counts = Counter()
    for row in rows:
        counts["disposition", str(row["disposition"]), ""] += 1
        if row["disposition"] == "rejected":
            counts["rejection", str(row["reason"]).partition(":")[0], ""] += 1
    return counts
