"""Reading of releases: the manifest, the versions, and the rows with their keys and hashes.

Shards are sorted by the hash of the key: the same rows give the same bytes, whatever their source. The hashes do not
depend on the version of a Parquet library. During a build, rows are Arrow streams: dialogues as the lines of
``parapet.schemas.dialogue_table``, other rows unchanged.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import msgspec
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from parapet.schemas.dialogue_table import DIALOGUES, lines_table
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, check_published
from parapet.schemas.release import MANIFEST, SUMS, VERSION, File, Manifest, parse_manifest
from parapet.transforms.core.files import HashingWriter, join, whole

LATEST = "latest.json"
ROWS_AT_ONCE = 500


class Release(msgspec.Struct, frozen=True):
    """A release: the folder of its version, and its manifest."""

    root: Path
    manifest: Manifest

    def read(self, relative: str) -> bytes:
        """Read a whole file."""
        return (self.root / relative).read_bytes()

    def rows(self, config: str, split: str, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """Read the rows of a split, file by file, with all columns or the named ones."""
        for relative in self.manifest.configs[config].splits[split].files:
            yield from read_rows(self.root / relative, columns)


def read_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Read the rows of a Parquet file. Raises InputError if it is missing or invalid."""
    try:
        with path.open("rb") as handle, pq.ParquetFile(handle) as file:
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=columns):
                batch.validate(full=True)  # a text may be invalid UTF-8
                yield from batch.to_pylist()
    except FileNotFoundError:
        raise InputError("is missing", path) from None
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot be read as Parquet: {error}", path) from None


def read_manifest(root: Path) -> Manifest:
    """Read the manifest of a version's folder. Raises InputError if it is missing."""
    path = root / MANIFEST
    if not path.is_file():
        raise InputError(f"is not a release: it has no {MANIFEST}", root)
    return parse_manifest(path.read_bytes(), path)


def open_release(place: str | Path) -> Release:
    """Open ``NAME/VERSION``, or the version named by ``latest.json`` in a folder ``NAME``.

    Raises:
      InputError: the folder does not exist, or is not a complete release.
    """
    root = find_release(place)
    check_published(root)
    return Release(root, read_manifest(root))


def find_release(place: str | Path) -> Path:
    """Return the folder of a release as :func:`open_release` does, even if the release is damaged.

    Raises:
      InputError: the folder does not exist, or has neither a manifest nor checksums.
    """
    root = as_path(place)
    if not root.is_dir():
        raise InputError("there is no such folder", place)
    if not _is_version(root) and (version := latest_version(root)):
        root = root / version
    if not _is_version(root):
        raise InputError(f"is not a release: it has neither {MANIFEST} nor {SUMS}", root)
    return root


def _is_version(root: Path) -> bool:
    return (root / MANIFEST).is_file() or (root / SUMS).is_file()


class _Latest(msgspec.Struct):
    version: Annotated[str, msgspec.Meta(pattern=f"^{VERSION.pattern}$")]


def latest_version(folder: Path) -> str:
    """Return the version named by ``latest.json`` in a dataset's folder; empty if the file is missing."""
    path = folder / LATEST
    if not path.is_file():
        return ""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Latest).version
    except (msgspec.MsgspecError, RecursionError):
        raise InputError("does not name a version", path) from None


def versions_of(folder: Path, file: str) -> list[str]:
    """Return the versions in a dataset's folder that contain a file, the oldest first."""
    versions = [path.name for path in folder.iterdir() if (path / file).is_file()] if folder.is_dir() else []
    return sorted((name for name in versions if VERSION.fullmatch(name)), key=parse_version)


def parse_version(version: str) -> tuple[int, int, int]:
    """Parse ``1.2.3`` into numbers."""
    major, minor, patch = (int(part) for part in version.split("."))
    return major, minor, patch


def printable(text: str) -> str:
    """Escape characters that would control a terminal or begin a new line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


ROWS_OF_A_GROUP = 1000
_KEY = "\0key"  # the column by which rows are sorted during a build
_ROW_LINE = "\0line"  # the column with a row as a line of JSON


def key_text(row: Mapping[str, Any], key: Sequence[str]) -> str:
    """Return the key of a row, which is unique in its split, as one text."""
    return "\0".join(str(row[name]) for name in key)


def shard_of(text: str, shards: int) -> int:
    """Return the shard of a row with a key."""
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) % shards


def shard_path(config: str, split: str, shard: int, shards: int) -> str:
    """Return the path of a shard below the release."""
    return f"data/{config}/{split}-{shard:05}-of-{shards:05}.parquet"


def row_json(row: Mapping[str, Any]) -> bytes:
    """Format a row as JSON with sorted keys, the form that is hashed, compared and sorted."""
    return orjson.dumps(row, default=_plain, option=orjson.OPT_SORT_KEYS)


def logical_sha256(rows: Iterable[bytes]) -> str:
    """Return the SHA-256 of rows in the form of :func:`row_json`, each followed by a newline."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(row)
        digest.update(b"\n")
    return digest.hexdigest()


def split_sha256(files: Iterable[str]) -> str:
    """Return the SHA-256 of a split over the logical hashes of its files in order."""
    return logical_sha256(digest.encode() for digest in files)


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime.datetime):  # pandas' Timestamp, with nanoseconds
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, datetime.timedelta)):
        return str(value)
    raise TypeError(f"cannot be written as JSON: {type(value).__name__}")


def plain_type(text: str) -> str:
    """Normalise the text of an Arrow type: Parquet and Arrow name the items of lists differently."""
    return text.replace("list<element: ", "list<item: ")


def table_of_lines(keys: Sequence[str], key: str, lines: Sequence[bytes]) -> pa.Table:
    """Return rows as lines, with a column for their key, for :func:`parts`."""
    return pa.table({key: pa.array(keys, pa.string()), _ROW_LINE: pa.array(lines, pa.large_binary())})


def parts(table: pa.Table, key: Sequence[str], shards: int) -> Iterator[tuple[int, bytes]]:
    """Yield the rows of each shard in packed form."""
    texts = [key_text(row, key) for row in table.select(list(key)).to_pylist()]
    by_shard: dict[int, list[int]] = {}
    for i, text in enumerate(texts):
        by_shard.setdefault(shard_of(text, shards), []).append(i)
    keyed = table.append_column(_KEY, pa.array(texts, pa.string()))
    for shard, rows in sorted(by_shard.items()):
        yield shard, _pack(keyed.take(rows))


def _pack(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def write_shard(packed: Iterable[bytes], folder: str, path: str) -> File:
    """Write one shard, its rows sorted by their keys.

    Args:
      packed: its rows as packed by :func:`parts`, in any order.
      folder: the folder in which the release is built.
      path: the path of the shard below the folder.

    Raises:
      InputError: two rows have the same key, or the tables of one configuration have different columns.
    """
    tables = [pa.ipc.open_stream(piece).read_all() for piece in packed]
    if any(table.schema != tables[0].schema for table in tables):
        raise InputError("the files of one configuration have different columns", path)
    table = pa.concat_tables(tables)
    del tables
    keys = table[_KEY].to_pylist()
    order = sorted(range(len(keys)), key=keys.__getitem__)
    for first, second in pairwise(order):
        if keys[first] == keys[second]:
            raise InputError(f"two rows have the key {keys[first]!r}", path)
    are_lines, table = _ROW_LINE in table.column_names, table.drop_columns([_KEY])
    digest = hashlib.sha256()
    with whole(join(folder, path)) as handle:
        counting = HashingWriter(handle)
        schema = DIALOGUES if are_lines else table.schema
        with pq.ParquetWriter(counting, schema, compression="zstd") as writer:
            for start in range(0, len(order), ROWS_OF_A_GROUP):
                group = order[start : start + ROWS_OF_A_GROUP]
                if are_lines:  # one by one, because a sorted copy of the whole shard would double the memory
                    lines = [table[_ROW_LINE][i].as_py() for i in group]
                    writer.write_table(lines_table(lines))
                else:
                    rows = table.take(group)
                    lines = [row_json(row) for row in rows.to_pylist()]
                    writer.write_table(rows)
                for line in lines:
                    digest.update(line + b"\n")
    _, sha256, size = counting.written(path)
    return File(path, size, sha256, len(order), digest.hexdigest())
