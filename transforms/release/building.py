"""Builds the data of a release: Parquet shards, copies of the corpora, and a summary for the command that ends it."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Iterator
from typing import Any

import apache_beam as beam
import msgspec
import pyarrow as pa
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.errors import InputError
from parapet.schemas.release import File, InputFile
from parapet.transforms.files import join, read_bytes, read_written, whole
from parapet.transforms.progress import advance, expect
from parapet.transforms.release.plan import Plan, Source
from parapet.transforms.release.shards import parts, shard_path, write_shard
from parapet.transforms.release.sources import Found, read_source, without_labels

SUMMARY = ".summary.json"
PARTS = ".parts"  # the folder in which rows wait for their shard

_COPIES = "copies"
_COUNTS = "counts"
_INPUTS = "inputs"
_FAULTS = "faults"
_STAGE = "writing Parquet"

ShardKey = tuple[str, str, int, int]  # configuration, split, number of the shard, and how many there are
Part = tuple[str, int, int]  # a file, and start and size of the packed rows in it


class Summary(msgspec.Struct):
    """What was written, and from what.

    Attributes:
      files: shards and copies, by path.
      inputs: by place in the plan, sorted by path.
      counts: what -> corpus -> split -> n.
      faults: the first of each kind of each file.
    """

    files: list[File]
    inputs: list[list[InputFile]]
    counts: dict[str, dict[str, dict[str, int]]]
    faults: list[Found]

    def totals(self, what: str) -> dict[str, int]:
        """Returns the counts of what has no splits: ``fault``, ``disposition``, ``rejection``."""
        return {name: sum(splits.values()) for name, splits in self.counts.get(what, {}).items()}


class BuildData(beam.PTransform):
    """Writes the data of a release below a folder, and its summary last.

    Args:
      plan: what there is to read.
      folder: where to write.
    """

    def __init__(self, plan: Plan, folder: str) -> None:
        super().__init__()
        self.plan, self.folder = plan, folder

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        """Pipeline to the summary's path."""
        expect(len(self.plan.sources), "files")
        shards = {(source.config, source.split): source.shards for source in self.plan.sources}
        expect(sum(shards.values()), "files", _STAGE)
        read = (
            pipeline
            | "Files" >> beam.Create(self.plan.sources)
            | "Read"
            >> beam.ParDo(_Read(self.plan, self.folder)).with_outputs(_COPIES, _COUNTS, _INPUTS, _FAULTS, main="rows")
        )
        written = (
            read.rows | "Group by shard" >> beam.GroupByKey() | "Write shard" >> beam.Map(_write_shard, self.folder)
        )
        return (
            pipeline
            | "Once" >> beam.Create([len(self.plan.inputs)], reshuffle=False)
            | "Summary"
            >> beam.Map(
                _write_summary,
                folder=self.folder,
                files=beam.pvalue.AsList((written, read[_COPIES]) | "All files" >> beam.Flatten()),
                inputs=beam.pvalue.AsList(read[_INPUTS]),
                counts=beam.pvalue.AsList(read[_COUNTS] | "Sum counts" >> beam.CombinePerKey(sum)),
                faults=beam.pvalue.AsList(read[_FAULTS]),
            )
        )


class _Read(beam.DoFn):
    """Source to the places of the packed rows of each shard; File, (input, InputFile), (what, n), Found beside them."""

    def __init__(self, plan: Plan, folder: str) -> None:
        super().__init__()
        self.keys = {name: kept.key for name, kept in plan.configs.items()}
        self.services, self.folder = plan.services, folder

    def process(self, source: Source) -> Iterator[Any]:
        table = yield from self._read(source)
        path, start = join(self.folder, f"{PARTS}/{source.input}/{source.relative}"), 0
        with whole(path) as handle:
            for shard, packed in parts(table, self.keys[source.config], source.shards):
                handle.write(packed)
                yield (source.config, source.split, shard, source.shards), (path, start, len(packed))
                start += len(packed)
        advance(1, "files")
        Metrics.counter("parapet", "files").inc()
        Metrics.counter("parapet", "rows").inc(table.num_rows)

    def _read(self, source: Source) -> Generator[Any, None, pa.Table]:
        data = read_bytes(source.path)
        yield TaggedOutput(_INPUTS, (source.input, InputFile(source.relative, len(data), _sha256(data))))
        if source.hidden:
            data = without_labels(data, source.path)
        if source.record in ("dialogue", "service"):
            with whole(join(self.folder, source.copy)) as handle:
                handle.write(data)
            yield TaggedOutput(_COPIES, File(source.copy, len(data), _sha256(data)))
        services = self.services.get(source.corpus, {}).get(source.split, {})
        try:
            table, counts, faults = read_source(source, data, services)
        except InputError as error:
            raise InputError(error.reason, error.path or source.path, error.where) from None
        except Exception as error:  # whatever a reader does not name: the file must be
            raise InputError(f"cannot be read: {str(error) or type(error).__name__}", source.path) from error
        yield from (TaggedOutput(_COUNTS, count) for count in counts.items())
        yield from (TaggedOutput(_FAULTS, found) for found in faults)
        return table


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write_shard(shard: tuple[ShardKey, Iterable[Part]], folder: str) -> File:
    key, of_shard = shard
    file = write_shard(map(_read_part, of_shard), folder, shard_path(*key))
    advance(1, "files", _STAGE)
    return file


def _read_part(part: Part) -> bytes:
    path, start, size = part
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as handle:
        handle.seek(start)
        return bytes(handle.read(size))


def _write_summary(
    n: int,
    folder: str,
    files: Iterable[File],
    inputs: Iterable[tuple[int, InputFile]],
    counts: Iterable[tuple[tuple[str, str, str], int]],
    faults: Iterable[Found],
) -> str:
    """Writes everything in one order, whatever the order of arrival."""
    of_input: list[list[InputFile]] = [[] for _ in range(n)]
    for i, file in sorted(inputs, key=lambda pair: pair[1].path):
        of_input[i].append(file)
    nested: dict[str, dict[str, dict[str, int]]] = {}
    for (what, corpus, split), count in sorted(counts):
        nested.setdefault(what, {}).setdefault(corpus, {})[split] = count
    faults = sorted(faults, key=lambda found: (found.path, found.dialogue_id, found.fault))
    summary = Summary(sorted(files, key=lambda file: file.path), of_input, nested, faults)
    with whole(join(folder, SUMMARY)) as handle:
        handle.write(msgspec.json.encode(summary))
    return SUMMARY


def read_summary(folder: str) -> Summary:
    """Reads the summary of a run that has ended."""
    return msgspec.json.decode(read_written(folder, SUMMARY), type=Summary)
