"""Reads the files that a release is made of: rows for Parquet, counts, and faults of the annotation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from parapet.schemas.dialogue import Dialogue, Frame, Turn, problems_of
from parapet.schemas.dialogue_table import (
    SERVICES,
    Malformed,
    collection_paused,
    dialogue_lines,
    lines_of_any,
    service_rows,
)
from parapet.schemas.errors import NOT_FINITE, InputError, not_finite_in, reason_and_place
from parapet.schemas.layout import dialogue_bytes, parse_json
from parapet.schemas.service import Service
from parapet.transforms.release.plan import PARAPHRASE_COLUMNS, Source
from parapet.transforms.release.shards import table_of_lines

# The kinds of faults, as ``allow_problems`` names them.
KINDS = {
    "format": "a dialogue that is not of the SGD format",
    "reference": "a service, slot or intent that the schemas of the same corpus and split do not have",
    "span": "a span that is not inside its utterance",
    "span_value": "a span whose text is none of the slot's values in its frame",
}

_SPAN = re.compile(r".*\.slots\[\d+\]")
FAULTS_SHOWN = 20  # of each kind, of a file

Counts = Counter[tuple[str, str, str]]  # what, corpus, split


class Fault(msgspec.Struct, frozen=True, order=True):
    """A record that fails a check.

    Attributes:
      kind: one of KINDS.
      where: the place in the dialogue: ``turns[3].frames[0].slots[1]``.
      reason: what is wrong there.
    """

    kind: str
    where: str
    reason: str


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


# Faults of the annotation.


def dialogue_faults(dialogue: Dialogue, services: Mapping[str, Service]) -> Iterator[Fault]:
    """Yields every fault of a dialogue's annotation.

    Args:
      dialogue: the dialogue.
      services: those of its corpus and split, by name.
    """
    for where, reason in problems_of(dialogue, services):
        yield Fault("span" if _SPAN.fullmatch(where) else "reference", where, reason)
    for t, turn in enumerate(dialogue.turns):
        for f, frame in enumerate(turn.frames):
            for i, text in _strangers(turn, frame):
                yield Fault("span_value", f"turns[{t}].frames[{f}].slots[{i}]", f"{text!r} is no value of its slot")


def _strangers(turn: Turn, frame: Frame) -> Iterator[tuple[int, str]]:
    """The spans whose text is no value of the slot; a frame without values is not checked."""
    if not frame.slots or (values := _values_of(frame)) is None:
        return
    for i, span in enumerate(frame.slots):
        if isinstance(span.start, int) and isinstance(span.exclusive_end, int):
            text = turn.utterance[span.start : span.exclusive_end]
            if text and text not in values.get(span.slot, ()):
                yield i, text


def _values_of(frame: Frame) -> dict[str, set[str]] | None:
    if not frame.actions and not frame.state:
        return None
    values: dict[str, set[str]] = {}
    for action in frame.actions or []:
        found = values.setdefault(action.slot, set())
        found.update(action.values)
        found.update(action.canonical_values or [])
    if frame.state:
        for slot, texts in frame.state.slot_values.items():
            values.setdefault(slot, set()).update(texts)
    return values


def check_kinds(kinds: list[str]) -> None:
    """Raises InputError for a kind that there is not."""
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(f"there is no kind {kind!r}: {', '.join(KINDS)}", "release.toml", "allow_problems")
