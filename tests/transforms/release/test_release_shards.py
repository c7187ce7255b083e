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
from parapet.transforms.release.shards import WriteShards, parts, write_shard

COLUMNS = pa.schema([("id", pa.string()), ("n", pa.int32()), ("texts", pa.list_(pa.string()))])
ROWS: list[dict[str, Any]] = [{"id": f"ä{i}", "n": i, "texts": ["x"] * (i % 3)} for i in range(40)]


def packed_of(rows: list[dict[str, Any]], shards: int) -> list[tuple[int, bytes]]:
    return list(parts(pa.Table.from_pylist(rows, COLUMNS), ["id"], shards))


def test_the_shard_is_that_of_the_hash() -> None:
    assert key_text({"a": "x", "b": 3}, ["b", "a"]) == "3\0x"
    digest = hashlib.sha256(b"3\0x").hexdigest()
    assert shard_of("3\0x", 7) == int(digest, 16) % 7
    assert shard_path("v1", "train", 2, 12) == "data/v1/train-00002-of-00012.parquet"


def test_every_row_is_in_its_shard_sorted(tmp_path: Path) -> None:
    by_shard: dict[int, list[bytes]] = {}
    for shard, packed in [*packed_of(ROWS[:13], 3), *packed_of(ROWS[13:], 3)]:
        by_shard.setdefault(shard, []).append(packed)
    assert sorted(by_shard) == [0, 1, 2]
    for shard, packed in by_shard.items():
        file = write_shard((("v1", "train", shard, 3), packed), str(tmp_path))
        expected = sorted((row for row in ROWS if shard_of(row["id"], 3) == shard), key=lambda row: str(row["id"]))
        data = (tmp_path / file.path).read_bytes()
        assert pq.read_table(tmp_path / file.path, partitioning=None).to_pylist() == expected
        assert file == File(
            f"data/v1/train-0000{shard}-of-00003.parquet",
            len(data),
            hashlib.sha256(data).hexdigest(),
            len(expected),
            logical_sha256(map(row_json, expected)),
        )


def test_the_order_in_which_rows_come_does_not_matter(tmp_path: Path) -> None:
    sums = set()
    for i in range(3):
        rows = random.Random(i).sample(ROWS, len(ROWS))
        packed = [one for part in (rows[:7], rows[7:30], rows[30:]) for _, one in packed_of(part, 1)]
        sums.add(write_shard((("v1", "train", 0, 1), packed), str(tmp_path / str(i))).sha256)
    assert len(sums) == 1


def test_two_rows_with_one_key_are_an_error_that_names_their_files(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.string()), ("file", pa.string())])
    packed = [
        one
        for file in ("d_1.json", "d_2.json")
        for _, one in parts(pa.Table.from_pylist([{"id": "7_1", "file": file}], columns), ["id"], 1)
    ]
    with pytest.raises(InputError) as error:
        write_shard((("v1", "train", 0, 1), packed), str(tmp_path))
    assert str(error.value) == (
        "data/v1/train-00000-of-00001.parquet: two rows have the key '7_1' (in d_1.json and d_2.json)"
    )


def test_files_of_different_columns_are_an_error(tmp_path: Path) -> None:
    other = pa.schema([("id", pa.string()), ("n", pa.int64())])
    (mine,) = packed_of(ROWS[:1], 1)
    (strange,) = parts(pa.Table.from_pylist([{"id": "z", "n": 1}], other), ["id"], 1)
    with pytest.raises(InputError, match="the files of one configuration have different columns"):
        write_shard((("v1", "train", 0, 1), [mine[1], strange[1]]), str(tmp_path))


def test_the_transform_writes_every_shard(tmp_path: Path) -> None:
    elements = [(("v1", "dev", shard, 2), packed) for shard, packed in packed_of(ROWS, 2)]
    with TestPipeline(runner="FnApiRunner") as pipeline:
        pipeline | beam.Create(elements) | WriteShards(str(tmp_path))
    found = [
        row["id"] for path in sorted(tmp_path.rglob("*.parquet")) for row in pq.ParquetFile(path).read().to_pylist()
    ]
    assert sorted(found) == sorted(row["id"] for row in ROWS)
    assert [path.name for path in sorted(tmp_path.rglob("*.*"))] == [
        "dev-00000-of-00002.parquet",
        "dev-00001-of-00002.parquet",
    ]
