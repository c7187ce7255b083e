"""The PTransforms of ``compose``: read, settle by service, write. The work is done by pure functions elsewhere.

Elements are batches: assignments travel packed, some hundreds together, and a service is settled as one element.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BufferedReader
from itertools import islice
from typing import Any
from zlib import crc32

import apache_beam as beam
import msgspec
import orjson
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.decisions import Decision, parse_decisions
from parapet.schemas.elements import VARIANTS
from parapet.schemas.errors import DamagedFile, InputError
from parapet.schemas.layout import SplitSchemas, schema_bytes
from parapet.schemas.responses import RESPONSES, Assignment, DeadLetter
from parapet.transforms.compressed import open_input
from parapet.transforms.crowd import agreement, audit
from parapet.transforms.crowd.ingest.api_assignments import read_assignments
from parapet.transforms.crowd.ingest.batch_csv import read_batch
from parapet.transforms.crowd.ingest.fields import SCHEMAS, Asked, payload
from parapet.transforms.crowd.merge import (
    merge_assignments,
    no_answer,
    settle_decisions,
    unknown_decisions,
    unusable_decision,
)
from parapet.transforms.crowd.settle import Outcome, Settings, settle_service
from parapet.transforms.crowd.summary import summarise
from parapet.transforms.dead_letters import storable
from parapet.transforms.files import HashingWriter, Written, staged

DEAD = "dead"
COUNTS = "counts"
VARIANT = "variant"
AUDIT = "audit"
SUMMARY = "summary"

_BATCH = 1_000  # assignments; a batch of the usual size is about a megabyte

Bucket = tuple[str, bytes]


class Of(msgspec.Struct):
    """What travels to one service, or dialogue: assignments, and the decisions on them."""

    assignments: list[Assignment]
    decisions: dict[str, dict[str, Decision]]


_packer = msgspec.msgpack.Encoder()
_unpack_assignments = msgspec.msgpack.Decoder(list[Assignment]).decode
_unpack_decisions = msgspec.msgpack.Decoder(list[Decision]).decode
unpack_of = msgspec.msgpack.Decoder(Of).decode


def count(name: str, n: int) -> None:
    """Adds to a counter of the run's summary."""
    Metrics.counter("parapet", name).inc(n)


def dead(letters: Iterable[DeadLetter]) -> Iterator[TaggedOutput]:
    """The letters on their own output, counted."""
    for letter in letters:
        count("dead_letters", 1)
        yield TaggedOutput(DEAD, letter)


def read_responses(path: str, key: bytes, encoding: str, asked: Asked = SCHEMAS) -> Iterator[Assignment | DeadLetter]:
    """The assignments of one file, CSV or JSON lines by what it begins with; a file of neither is one dead letter.

    Raises:
      DamagedFile: a compressed file that is cut off or damaged.
    """
    try:
        with open_input(path) as handle:
            yield from _reader(handle)(handle, path, key, encoding, asked)
    except DamagedFile:
        raise
    except InputError as error:
        yield DeadLetter("ingest", path, f"unusable_file: {error}", "", path)


def _reader(handle: BufferedReader) -> Any:
    # Byte order marks and the zeros of UTF-16 aside, JSON begins with a brace.
    head = handle.peek(256)[:256].replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")
    return read_assignments if head[:1] in (b"{", b"[") else read_batch


class ReadResponses(beam.DoFn):
    """File name to (bucket, packed assignments); dead letters and counts on the side.

    Args:
      key: for the workers' hashes.
      buckets: how many groups assignments fall into, by id, to be told apart from their copies in other exports.
      encoding: of files without a byte order mark.
      asked: the kind of tasks that answers are taken to.
    """

    def __init__(self, key: bytes, buckets: int, encoding: str, asked: Asked = SCHEMAS) -> None:
        super().__init__()
        self.key, self.buckets, self.encoding, self.asked = key, buckets, encoding, asked

    def process(self, path: str) -> Iterator[Bucket | TaggedOutput]:
        """Reads one file."""
        records = read_responses(path, self.key, self.encoding, self.asked)
        while batch := list(islice(records, _BATCH)):
            letters = [record for record in batch if isinstance(record, DeadLetter)]
            taken = [record for record in batch if isinstance(record, Assignment)]
            yield from dead(letters)
            yield TaggedOutput(COUNTS, ("assignments_read", len(taken)))
            for bucket, group in _grouped(taken, lambda a: bucket_of(a.assignment_id, self.buckets)):
                yield bucket, _packer.encode(group)


class ReadDecisions(beam.DoFn):
    """File name to (bucket, packed decisions); bad rows are dead letters."""

    def __init__(self, buckets: int) -> None:
        super().__init__()
        self.buckets = buckets

    def process(self, path: str) -> Iterator[Bucket | TaggedOutput]:
        """Reads one sheet."""
        decisions, letters = read_sheet(path)
        yield from dead(letters)
        yield from pack_decisions(decisions, self.buckets)


class ReadReviewers(beam.DoFn):
    """Two reviewers' sheets to (bucket, packed decisions); how they agree, and what to adjudicate, on the side."""

    def __init__(self, buckets: int) -> None:
        super().__init__()
        self.buckets = buckets

    def process(self, sheets: tuple[str, str]) -> Iterator[Bucket | TaggedOutput]:
        """Reads and merges both sheets."""
        (first, bad), (second, worse) = read_sheet(sheets[0]), read_sheet(sheets[1])
        yield from dead([*bad, *worse])
        merged = agreement.merge_reviewers(first, second)
        yield TaggedOutput(
            SUMMARY, (msgspec.to_builtins(merged.agreement), agreement.adjudicate_csv(merged.adjudicate))
        )
        yield from pack_decisions(merged.decisions, self.buckets)


def read_sheet(path: str) -> tuple[list[Decision], list[DeadLetter]]:
    """The decisions of one sheet, and its bad rows. Raises InputError for a file that is no sheet."""
    with open_input(path) as handle:
        decisions, bad = parse_decisions(handle.read(), path)
    return decisions, [
        DeadLetter("decisions", where, f"bad_decision: {reason}", payload(orjson.dumps(cells).decode()), where)
        for row, reason, cells in bad
        for where in (f"{path}: row {row}",)
    ]


def pack_decisions(decisions: Sequence[Decision], buckets: int) -> Iterator[Bucket]:
    """Decisions by the bucket of their assignment."""
    for bucket, group in _grouped(decisions, lambda d: bucket_of(d.response_id.rpartition(":")[0], buckets)):
        yield bucket, _packer.encode(group)


def bucket_of(assignment_id: str, buckets: int) -> str:
    """The group in which all that is said of an assignment meets. The result of a run does not depend on it."""
    return str(crc32(assignment_id.encode()) % buckets)


def _grouped(items: Iterable[Any], key: Any) -> list[tuple[str, list[Any]]]:
    groups: dict[str, list[Any]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return sorted(groups.items())


class MergeBucket(beam.DoFn):
    """(bucket, its assignments and decisions) to (service name, packed assignments with their decisions)."""

    def process(self, element: tuple[str, Mapping[str, Iterable[bytes]]]) -> Iterator[Any]:
        """Merges one bucket: each assignment once, each decision with its response."""
        _, groups = element
        read = [a for batch in groups["assignments"] for a in _unpack_assignments(batch)]
        assignments, conflicts = merge_assignments(read)
        decisions, contradictions = settle_decisions(
            d for batch in groups["decisions"] for d in _unpack_decisions(batch)
        )
        without = [no_answer(assignment) for assignment in assignments if not assignment.answers]
        assignments = [assignment for assignment in assignments if assignment.answers]
        known, unknown = unknown_decisions(decisions, assignments, conflicts)
        yield from dead([*conflicts, *without, *contradictions, *unknown])
        yield TaggedOutput(COUNTS, ("assignments_merged", len(read)))
        yield TaggedOutput(COUNTS, ("assignments", len(assignments)))
        yield TaggedOutput(COUNTS, ("answers_given", sum(given(a) for a in assignments)))
        yield TaggedOutput(COUNTS, ("decisions", sum(map(len, known.values()))))
        for service, group in _grouped(assignments, lambda a: a.service_name):
            of_service = {a.assignment_id: known[a.assignment_id] for a in group if a.assignment_id in known}
            yield service, _packer.encode(Of(group, of_service))


def given(assignment: Assignment) -> int:
    """How many answers of the assignment say something; blank cells may be fields that the form did not have."""
    return sum(bool(text.strip()) for text in assignment.answers.values())


class SettleServices(beam.DoFn):
    """(service name, its schema and responses) to its outcome, parted into what goes where.

    Args:
      settings: of the run.
      places: service name to the schema files that hold it, each with the service's position there.
      left_out: names of services whose schemas are bad.
    """

    def __init__(
        self,
        settings: Settings,
        places: Mapping[str, Sequence[tuple[str, int]]],
        left_out: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__()
        self.settings, self.places, self.left_out = settings, places, left_out

    def process(self, element: tuple[str, Mapping[str, Iterable[bytes]]]) -> Iterator[Any]:
        """Settles one service."""
        name, groups = element
        found = [unpack_of(batch) for batch in groups["responses"]]
        assignments = [assignment for of in found for assignment in of.assignments]
        decisions = {k: v for of in found for k, v in of.decisions.items()}
        yield TaggedOutput(COUNTS, ("decisions_settled", sum(map(len, decisions.values()))))
        schemas = list(groups["schema"])
        if not schemas:
            yield TaggedOutput(COUNTS, ("assignments_settled", len(assignments)))
            yield from self._unknown(assignments, decisions)
            return
        raw = orjson.loads(schemas[0])
        outcome = settle_service(raw, assignments, decisions, self.settings)
        for k, variant in zip(VARIANTS, outcome.variants, strict=False):
            for path, position in self.places[name]:
                yield TaggedOutput(VARIANT, (f"v{k}/{path}", (position, orjson.dumps(variant))))
        yield TaggedOutput(AUDIT, (name, audit.pack(outcome.audit)))
        yield TaggedOutput(SUMMARY, summarise(raw, outcome))
        yield from dead(outcome.dead)
        yield TaggedOutput(COUNTS, ("answers_audited", sum(bool(row.text.strip()) for row in outcome.audit)))
        answers_dead = [letter for letter in outcome.dead if letter.stage == "compose" and letter.payload]
        yield TaggedOutput(COUNTS, ("answers_dead", len(answers_dead)))
        yield TaggedOutput(COUNTS, ("assignments_settled", len(accounted_for(assignments, outcome))))
        for row in outcome.audit:
            count(row.disposition, 1)
        count("services_composed", bool(outcome.variants))

    def _unknown(
        self, assignments: Sequence[Assignment], decisions: Mapping[str, Mapping[str, Decision]]
    ) -> Iterator[TaggedOutput]:
        name = assignments[0].service_name
        reason = f"unknown_service: no schema has a service {name!r}"
        if name in self.left_out:
            reason = f"unknown_service: {name!r} was left out as a bad_service"
        yield from dead(
            unusable_decision(decision, f"unused_response: {reason.partition(': ')[2]}")
            for of_assignment in decisions.values()
            for decision in of_assignment.values()
        )
        yield TaggedOutput(COUNTS, ("answers_dead", sum(given(a) for a in assignments)))
        yield from dead(
            DeadLetter(
                "compose",
                a.assignment_id,
                reason,
                payload(", ".join(f"{field}={text}" for field, text in sorted(a.answers.items()) if text)),
                a.source,
            )
            for a in assignments
        )


def accounted_for(assignments: Iterable[Assignment], outcome: Outcome) -> set[str]:
    """The ids of those assignments that have a row in the audit, or a dead letter of their own or of an answer."""
    keys = {row.response_id for row in outcome.audit} | {letter.key for letter in outcome.dead}
    ids = keys | {key.rpartition(":")[0] for key in keys}
    return {assignment.assignment_id for assignment in assignments} & ids


class WriteAudit(beam.DoFn):
    """(anything, all services' packed rows) to ``responses.parquet``."""

    def __init__(self, output: str, schema: pa.Schema = RESPONSES) -> None:
        super().__init__()
        self.output, self.schema = output, schema

    def process(self, element: tuple[str, Iterable[tuple[str, bytes]]]) -> Iterator[Written]:
        """Writes the file."""
        with staged(self.output, audit.FILE) as handle:
            hashed = HashingWriter(handle)
            audit.write((rows for _, rows in sorted(element[1])), hashed, self.schema)
        yield hashed.written(audit.FILE)


def packed_schemas(raw: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, bytes]]:
    """(service name, its schema as JSON) of every service."""
    return [(name, orjson.dumps(service)) for name, service in raw.items()]


def bad_services(splits: Iterable[SplitSchemas]) -> list[DeadLetter]:
    """The services that break a rule of the format."""
    return [
        DeadLetter(
            "schemas",
            error.path,
            f"bad_service: {error.where}: {error.reason}",
            payload(storable(json.dumps(bad.raw, ensure_ascii=False, separators=(",", ":")))),
            error.path,
        )
        for split in splits
        for bad in split.bad
        for error in (bad.error,)
    ]


def places_of(splits: Iterable[SplitSchemas]) -> tuple[dict[str, list[tuple[str, int]]], frozenset[str]]:
    """Where each service stands: (schema file, position there); and the names of those that are bad."""
    places: dict[str, list[tuple[str, int]]] = defaultdict(list)
    bad = set()
    for split in splits:
        for position, service in enumerate(split.services):
            places[service.service_name].append((split.relative_path, position))
        bad |= {str(service.raw.get("service_name")) for service in split.bad if isinstance(service.raw, dict)}
    return dict(places), frozenset(bad)


def schema_file(path: str, services: Iterable[tuple[int, bytes]]) -> tuple[str, bytes]:
    """(schema file, its services with their positions) to (schema file, bytes)."""
    return path, schema_bytes([orjson.loads(service) for _, service in sorted(services)])


def together(_: Any) -> bytes:
    """The one key under which everything meets."""
    return b""
