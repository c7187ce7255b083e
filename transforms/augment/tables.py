"""The dialogues of training sets as Parquet: the columns, and files whose bytes depend on their rows alone.

Rows wait for their shard on disk, in a file of the staging folder for each dialogue file; workers exchange only their
positions in it. So memory is that of one shard, whatever the size of the corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
import msgspec
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue_table import DIALOGUES, dialogue_row
from parapet.schemas.errors import InputError
from parapet.transforms.augment.plan import TrainingSet
from parapet.transforms.counts import CountKey
from parapet.transforms.files import STAGING, HashingWriter, join, staged
from parapet.transforms.release.shards import ROWS_OF_A_GROUP, parts, unpack

COUNTS = "counts"

AUGMENTED = pa.schema(
    [
        *DIALOGUES,
        pa.field("variant", pa.string(), nullable=False),
        pa.field("source_dialogue_id", pa.string(), nullable=False),
    ]
)

ShardKey = tuple[str, int, int]  # set, shard, shards


class Part(msgspec.Struct, frozen=True):
    """Rows that wait: a file of the staging folder, and their position in it."""

    path: str
    start: int
    size: int


def row_of(dialogue: Mapping[str, Any], file: str, variant: str, source: str) -> dict[str, Any]:
    """A version of a dialogue as a row; its position is that of its set, and written later.

    Raises:
      InputError: it holds what the columns cannot.
    """
    try:
        row = dialogue_row(dialogue, file, 0)
        if row["source_json"] is not None:
            orjson.loads(row["source_json"])
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_parquet(error) from None
    return {**row, "variant": variant, "source_dialogue_id": source}


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Rows as Arrow has them. Raises InputError where it cannot."""
    try:
        return pa.RecordBatch.from_pylist(rows, AUGMENTED)
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        raise _not_parquet(error) from None


def _not_parquet(error: Exception) -> InputError:
    return InputError(f"not_parquet: holds what Parquet cannot: {error}")


def write_parts(
    batches: Iterable[pa.RecordBatch], sets: Iterable[TrainingSet], output: str, relative: str
) -> list[tuple[ShardKey, Part]]:
    """Puts the rows of each set and shard aside, with their positions in the set's file.

    All versions of a dialogue are in one shard: they hold the same utterances, and compress well together.

    Args:
      batches: the rows of one dialogue file, in its order.
      sets: the sets.
      output: the output folder.
      relative: what the dialogue file is called below its root.
    """
    path = f"parts/{relative}"
    found = []
    with staged(output, path) as handle:
        writer = HashingWriter(handle)
        for key, packed in _packed(pa.Table.from_batches(batches, AUGMENTED).combine_chunks(), sets):
            found.append((key, Part(path, writer.size, len(packed))))
            writer.write(packed)
    return found


def _packed(table: pa.Table, sets: Iterable[TrainingSet]) -> Iterator[tuple[ShardKey, bytes]]:
    at = AUGMENTED.get_field_index("position")
    for of in sets:
        chosen = table.filter(pc.is_in(table["variant"], pa.array(of.versions, pa.string())))
        chosen = chosen.set_column(at, AUGMENTED.field(at), pa.array(range(chosen.num_rows), pa.int32()))
        for shard, packed in parts(chosen, ("source_dialogue_id",), of.shards):
            yield (of.name, shard, of.shards), packed


class WriteShards(beam.PTransform):
    """Writes the Parquet files of all sets into staging, one where a shard has no rows too.

    Args:
      output: the output folder.
      split: the split, as files are called.
      sets: the sets.
    """

    def __init__(self, output: str, split: str, sets: Iterable[TrainingSet]) -> None:
        super().__init__()
        self.output, self.split = output, split
        self.every = [((of.name, shard, of.shards), None) for of in sets for shard in range(of.shards)]

    def expand(self, found: beam.PCollection) -> Any:
        """PCollection of (ShardKey, Part) to those of Written and of (CountKey as a tuple, n)."""
        every = found.pipeline | "Every shard" >> beam.Create(self.every)
        return (
            (found, every)
            | "Rows and shards" >> beam.Flatten()
            | "Group by shard" >> beam.GroupByKey()
            | "Write shard" >> beam.FlatMap(write_shard, self.output, self.split).with_outputs(COUNTS, main="written")
        )


def write_shard(shard: tuple[ShardKey, Iterable[Part | None]], output: str, split: str) -> Iterator[Any]:
    """Writes one shard: its rows by their source and id. Yields what was written, and the tagged number of rows."""
    (name, n, shards), found = shard
    tables = [_read_part(output, part) for part in found if part is not None]
    table = pa.concat_tables(tables) if tables else AUGMENTED.empty_table()
    order = [("source_dialogue_id", "ascending"), ("dialogue_id", "ascending")]
    table = table.select(AUGMENTED.names).sort_by(order).combine_chunks()
    path = f"{name}/parquet/{split}-{n:05}-of-{shards:05}.parquet"
    with staged(output, path) as handle:
        writer = HashingWriter(handle)
        pq.write_table(table, writer, compression="zstd", row_group_size=ROWS_OF_A_GROUP)
    yield writer.written(path)
    yield TaggedOutput(COUNTS, (tuple(CountKey("rows", name)), table.num_rows))


def _read_part(output: str, part: Part) -> pa.Table:
    path = join(FileSystems.join(output, STAGING), part.path)
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as handle:
        handle.seek(part.start)
        return unpack(handle.read(part.size))
