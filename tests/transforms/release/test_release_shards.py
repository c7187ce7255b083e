"""Shards: by the hash of the key, sorted, the same bytes whatever the order in which rows come."""

import pyarrow as pa
from kit import raised

from parapet.schemas.errors import InputError
from parapet.transforms.release.reading import parts, shard_path, write_shard

COLUMNS = pa.schema([("id", pa.string()), ("n", pa.int32()), ("texts", pa.list_(pa.string()))])
ROWS = [{"id": f"ä{i}", "n": i, "texts": ["x"] * (i % 3)} for i in range(40)]


def write(folder, tables, shards):
    """Writes the rows of tables, each read by another worker."""
    packed = {}
    for table in tables:
        for shard, rows in parts(table, ["id"], shards):
            packed.setdefault(shard, []).append(rows)
    return [write_shard(rows, str(folder), shard_path("v1", "train", shard, shards)) for shard, rows in packed.items()]


def table_of(rows, columns=COLUMNS):
    return pa.Table.from_pylist(rows, columns)


def test_two_rows_with_one_key_are_an_error(tmp_path):
    columns = pa.schema([("id", pa.string()), ("file", pa.string())])
    tables = [table_of([{"id": "7_1", "file": file}], columns) for file in ("d_1.json", "d_2.json")]
    error = raised(InputError, write, tmp_path, tables, 1)
    told = "train-00000-of-00001.parquet: two rows have the key '7_1'"
    assert str(error) == f"data/v1/{told}"


def test_files_of_different_columns_are_an_error(tmp_path):
    other = pa.schema([("id", pa.string()), ("n", pa.int64())])
    tables = [table_of(ROWS[:1]), table_of([{"id": "z", "n": 1}], other)]
    raised(InputError, write, tmp_path, tables, 1, match="the files of one configuration have different columns")
