"""Shards: by the hash of the key, sorted, the same bytes whatever the order in which rows come."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.test_pipeline import TestPipeline

from parapet.schemas.errors import InputError
from parapet.schemas.release_manifest import File
from parapet.transforms.release.keys import key_text, shard_of, shard_path
from parapet.transforms.release.logical import logical_sha256, row_json
from parapet.transforms.release.plan import Source, batched
from parapet.transforms.release.shards import join_parts, parts, pieces_of
from parapet.transforms.release.writing import Shard, WriteShards, part_path, shards_of, write_shard

COLUMNS = pa.schema([("id", pa.string()), ("n", pa.int32()), ("texts", pa.list_(pa.string()))])
ROWS: list[dict[str, Any]] = [{"id": f"ä{i}", "n": i, "texts": ["x"] * (i % 3)} for i in range(40)]


def put_parts(folder: Path, tables: list[pa.Table], shards: int, split: str = "train") -> list[Shard]:
    """Writes the part of each batch, of one table; gives the shards to be written."""
    for batch, table in enumerate(tables):
        path = folder / part_path("v1", split, batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(join_parts({shard: [packed] for shard, packed in parts(table, ["id"], shards)}))
    return [Shard("v1", split, number, shards, len(tables)) for number in range(shards)]


def table_of(rows: list[dict[str, Any]], columns: pa.Schema = COLUMNS) -> pa.Table:
    return pa.Table.from_pylist(rows, columns)


def test_the_shard_is_that_of_the_hash() -> None:
    assert key_text({"a": "x", "b": 3}, ["b", "a"]) == "3\0x"
    digest = hashlib.sha256(b"3\0x").hexdigest()
    assert shard_of("3\0x", 7) == int(digest, 16) % 7
    assert shard_path("v1", "train", 2, 12) == "data/v1/train-00002-of-00012.parquet"


def test_a_part_gives_what_was_put_in_for_a_shard_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(join_parts({3: [b"abc", b""], 12: [b"\n\0", b"d"], 0: []}))
    for shard, pieces in {3: [b"abc", b""], 12: [b"\n\0", b"d"], 0: [], 7: []}.items():
        with (tmp_path / "part").open("rb") as handle:
            assert list(pieces_of(handle, shard)) == pieces


def test_every_row_is_in_its_shard_sorted(tmp_path: Path) -> None:
    for shard in put_parts(tmp_path, [table_of(ROWS[:13]), table_of(ROWS[13:])], 3):
        (file,) = write_shard(shard, str(tmp_path))
        expected = sorted(
            (row for row in ROWS if shard_of(row["id"], 3) == shard.number), key=lambda row: str(row["id"])
        )
        data = (tmp_path / file.path).read_bytes()
        assert pq.read_table(tmp_path / file.path, partitioning=None).to_pylist() == expected
        assert file == File(
            f"data/v1/train-0000{shard.number}-of-00003.parquet",
            len(data),
            hashlib.sha256(data).hexdigest(),
            len(expected),
            logical_sha256(map(row_json, expected)),
        )


def test_a_shard_without_rows_is_not_written(tmp_path: Path) -> None:
    shards = put_parts(tmp_path, [table_of(ROWS[:1]), table_of([])], 2)
    assert sum(len(list(write_shard(shard, str(tmp_path)))) for shard in shards) == 1
    assert len(list((tmp_path / "data" / "v1").iterdir())) == 1


def test_the_order_in_which_rows_come_does_not_matter(tmp_path: Path) -> None:
    sums = set()
    for i in range(3):
        rows = random.Random(i).sample(ROWS, len(ROWS))
        shards = put_parts(tmp_path / str(i), [table_of(part) for part in (rows[:7], rows[7:30], rows[30:])], 1)
        (file,) = write_shard(shards[0], str(tmp_path / str(i)))
        sums.add(file.sha256)
    assert len(sums) == 1


def test_two_rows_with_one_key_are_an_error_that_names_their_files(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.string()), ("file", pa.string())])
    tables = [table_of([{"id": "7_1", "file": file}], columns) for file in ("d_1.json", "d_2.json")]
    with pytest.raises(InputError) as error:
        list(write_shard(put_parts(tmp_path, tables, 1)[0], str(tmp_path)))
    assert str(error.value) == (
        "data/v1/train-00000-of-00001.parquet: two rows have the key '7_1' (in d_1.json and d_2.json)"
    )


def test_files_of_different_columns_are_an_error(tmp_path: Path) -> None:
    other = pa.schema([("id", pa.string()), ("n", pa.int64())])
    tables = [table_of(ROWS[:1]), table_of([{"id": "z", "n": 1}], other)]
    with pytest.raises(InputError, match="the files of one configuration have different columns"):
        list(write_shard(put_parts(tmp_path, tables, 1)[0], str(tmp_path)))


def test_the_transform_writes_every_shard(tmp_path: Path) -> None:
    shards = put_parts(tmp_path, [table_of(ROWS)], 2, "dev")
    with TestPipeline(runner="FnApiRunner") as pipeline:
        pipeline | "Parts" >> beam.Create([""]) | WriteShards(shards, str(tmp_path))
    paths = sorted(tmp_path.rglob("*.parquet"))
    found = [row["id"] for path in paths for row in pq.ParquetFile(path).read().to_pylist()]
    assert sorted(found) == sorted(row["id"] for row in ROWS)
    assert [path.name for path in paths] == ["dev-00000-of-00002.parquet", "dev-00001-of-00002.parquet"]


def test_small_files_are_read_together_large_ones_alone() -> None:
    def source(path: str, size: int, split: str = "train") -> Source:
        return Source("dialogue", "v1", "v1", split, path, 0, path, bytes=size << 20, shards=4)

    sources = [source("a", 9), source("b", 8), source("c", 40), source("d", 1), source("e", 1, "dev"), source("f", 15)]
    batches = batched(sources)
    assert [(batch.number, [one.path for one in batch.sources]) for batch in batches] == [
        (0, ["a"]),
        (1, ["b"]),
        (2, ["c"]),
        (3, ["d", "f"]),
        (0, ["e"]),
    ]
    assert {(shard.split, shard.number, shard.parts) for shard in shards_of(batches)} == {
        *(("train", number, 4) for number in range(4)),
        *(("dev", number, 1) for number in range(4)),
    }
