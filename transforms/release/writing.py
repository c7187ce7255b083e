"""Writes the Parquet files of a release from the parts that wait on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import chain

import apache_beam as beam
import msgspec
import pyarrow.parquet as pq
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from parapet.schemas.release_manifest import File
from parapet.transforms.files import HashingWriter, join, unpublished
from parapet.transforms.progress import advance, expect
from parapet.transforms.release.keys import shard_path
from parapet.transforms.release.plan import Batch
from parapet.transforms.release.shards import pieces_of, sorted_groups

PARTS = ".parts"  # the folder in which rows wait

_STAGE = "writing Parquet"


class Shard(msgspec.Struct, frozen=True):
    """A file to be written.

    Attributes:
      config: its configuration.
      split: its split.
      number: of the file, among those of its configuration and split, from 0.
      shards: how many those are.
      parts: in how many parts its rows may be.
    """

    config: str
    split: str
    number: int
    shards: int
    parts: int


def part_path(config: str, split: str, batch: int) -> str:
    """Where the rows of a batch wait, below the release."""
    return f"{PARTS}/{config}/{split}-{batch}"


def shards_of(batches: list[Batch]) -> list[Shard]:
    """The files to be written, given what is read. One for which there are no rows is not written."""
    found = {}
    for batch in batches:  # the last of each split has the highest number
        source = batch.sources[0]
        found[source.config, source.split] = (source.shards, batch.number + 1)
    return [
        Shard(config, split, number, shards, parts)
        for (config, split), (shards, parts) in found.items()
        for number in range(shards)
    ]


class WriteShards(beam.PTransform):
    """Writes shards below a folder, when all parts are there.

    Args:
      shards: the shards.
      folder: the release's, while it is built.
    """

    def __init__(self, shards: list[Shard], folder: str) -> None:
        super().__init__()
        self.shards, self.folder = shards, folder

    def expand(self, parts: beam.PCollection) -> beam.PCollection:
        """PCollection of one element for each part to PCollection of File."""
        expect(len(self.shards), "files", _STAGE)
        every = beam.pvalue.AsSingleton(parts | "Count parts" >> beam.combiners.Count.Globally())
        return (
            parts.pipeline
            | "Shards" >> beam.Create(self.shards)
            | "Write shard" >> beam.FlatMap(_write, self.folder, every)
        )


def _write(shard: Shard, folder: str, parts: int) -> Iterator[File]:
    yield from write_shard(shard, folder)
    advance(1, "files", _STAGE)


def write_shard(shard: Shard, folder: str) -> Iterator[File]:
    """Writes one shard, its rows sorted by their keys; yields nothing where it has none.

    Raises:
      InputError: two rows have one key, or the tables of one configuration have different columns.
    """
    path = shard_path(shard.config, shard.split, shard.number, shard.shards)
    groups = sorted_groups(_pieces(shard, folder), path)
    first = next(groups, None)
    if first is None:
        return
    rows, digest = 0, hashlib.sha256()
    with unpublished(join(folder, path)) as handle:
        counting = HashingWriter(handle)
        with pq.ParquetWriter(counting, first.table.schema, compression="zstd") as writer:
            for group in chain([first], groups):
                writer.write_table(group.table)
                rows += group.table.num_rows
                for line in group.lines:
                    digest.update(line)
                    digest.update(b"\n")
    _, sha256, size = counting.written(path)
    yield File(path, size, sha256, rows, digest.hexdigest())


def _pieces(shard: Shard, folder: str) -> Iterator[bytes]:
    for batch in range(shard.parts):
        path = join(folder, part_path(shard.config, shard.split, batch))
        with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as handle:
            yield from pieces_of(handle, shard.number)
