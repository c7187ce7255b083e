"""The PTransforms of ``compose``: read, settle by service, write. The work is done by pure functions elsewhere.

Elements are batches: assignments travel packed, some hundreds together, and a service is settled as one element.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from zlib import crc32

import apache_beam as beam
import msgspec
import orjson
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.decisions import Decision
from parapet.schemas.elements import VARIANTS
from parapet.schemas.layout import schema_bytes
from parapet.schemas.responses import RESPONSES, Assignment, DeadLetter
from parapet.transforms.crowd import agreement, audit
from parapet.transforms.crowd.ingest.fields import SCHEMAS, Asked
from parapet.transforms.crowd.ingest.files import read_responses, read_sheet
from parapet.transforms.crowd.merge import merge
from parapet.transforms.crowd.settle import Settings, settle
from parapet.transforms.crowd.summary import summarise
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


def tagged(counts: Mapping[str, int]) -> Iterator[TaggedOutput]:
    """Counts on their own output, to be summed."""
    for found in counts.items():
        yield TaggedOutput(COUNTS, found)


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
        merged = merge(
            [a for batch in groups["assignments"] for a in _unpack_assignments(batch)],
            [d for batch in groups["decisions"] for d in _unpack_decisions(batch)],
        )
        yield from dead(merged.dead)
        yield from tagged(merged.counts)
        for service, group in _grouped(merged.assignments, lambda a: a.service_name):
            ids = [a.assignment_id for a in group if a.assignment_id in merged.decisions]
            yield service, _packer.encode(Of(group, {found: merged.decisions[found] for found in ids}))


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
        raw = next((orjson.loads(schema) for schema in groups["schema"]), None)
        settled = settle(name, raw, assignments, decisions, self.settings, self.left_out)
        yield from dead(settled.dead)
        yield from tagged(settled.counts)
        outcome = settled.outcome
        if raw is None or outcome is None:
            return
        for k, variant in zip(VARIANTS, outcome.variants, strict=False):
            for path, position in self.places[name]:
                yield TaggedOutput(VARIANT, (f"v{k}/{path}", (position, orjson.dumps(variant))))
        yield TaggedOutput(AUDIT, (name, audit.pack(outcome.audit)))
        yield TaggedOutput(SUMMARY, summarise(raw, outcome))
        for row in outcome.audit:
            count(row.disposition, 1)
        count("services_composed", bool(outcome.variants))


class WriteAudit(beam.DoFn):
    """(anything, all services' packed rows) to ``responses.parquet``."""

    def __init__(self, output: str, schema: pa.Schema = RESPONSES) -> None:
        super().__init__()
        self.output, self.schema = output, schema

    def process(self, element: tuple[str, Iterable[tuple[str, bytes]]]) -> Iterator[Written]:
        """Writes the file."""
        with staged(self.output, audit.FILE) as handle:
            hashed = HashingWriter(handle)
            audit.write((audit.unpack(rows) for _, rows in sorted(element[1])), hashed, self.schema)
        yield hashed.written(audit.FILE)


def packed_schemas(raw: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, bytes]]:
    """(service name, its schema as JSON) of every service."""
    return [(name, orjson.dumps(service)) for name, service in raw.items()]


def schema_file(path: str, services: Iterable[tuple[int, bytes]]) -> tuple[str, bytes]:
    """(schema file, its services with their positions) to (schema file, bytes)."""
    return path, schema_bytes([orjson.loads(service) for _, service in sorted(services)])


def together(_: Any) -> bytes:
    """The one key under which everything meets."""
    return b""
