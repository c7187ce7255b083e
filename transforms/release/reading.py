"""A release that is read: its manifest, its rows with their keys and hashes, and its files against their checksums.

Shards are sorted by the hash of the key: the same rows give the same bytes, wherever they come from. No version of a
Parquet library changes the hashes. On their way, rows are Arrow streams: dialogues as the lines of
``parapet.schemas.dialogue_table``, others as they are.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from parapet.schemas.dialogue_table import lines_table
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, check_published
from parapet.schemas.release import MANIFEST, SIGNATURE, SUMS, VERSION, File, Manifest, parse_manifest
from parapet.transforms.storage.files import HashingWriter, join, unpublished

LATEST = "latest.json"
_ROWS_AT_ONCE = 500


class Release(msgspec.Struct, frozen=True):
    """A release: the folder of its version, and its manifest."""

    root: Path
    manifest: Manifest

    def read(self, relative: str) -> bytes:
        """Reads a whole file. Raises InputError if it is not there."""
        try:
            return (self.root / relative).read_bytes()
        except OSError:
            raise InputError("is missing", self.root / relative) from None

    def rows(self, config: str, split: str, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """Reads the rows of a split, file by file; all columns, or those named."""
        for relative in self.manifest.configs[config].splits[split].files:
            yield from read_rows(self.root / relative, columns)


def read_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Reads the rows of a Parquet file. Raises InputError if it is missing, or is not one."""
    try:
        with path.open("rb") as handle, pq.ParquetFile(handle) as file:
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=columns):
                batch.validate(full=True)  # a text may be no UTF-8
                yield from batch.to_pylist()
    except FileNotFoundError:
        raise InputError("is missing", path) from None
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot be read as Parquet: {error}", path) from None


def read_manifest(root: Path) -> Manifest:
    """Reads the manifest of a version's folder. Raises InputError if there is none."""
    path = root / MANIFEST
    if not path.is_file():
        raise InputError(f"is no release: there is no {MANIFEST}", root)
    return parse_manifest(path.read_bytes(), path)


def open_release(place: str | Path) -> Release:
    """Opens ``NAME/VERSION``; of a folder ``NAME`` the version that ``latest.json`` names.

    Raises:
      InputError: no such folder, not a release, or an incomplete one.
    """
    root = as_path(place)
    if not (root / MANIFEST).is_file() and (version := latest_version(root)):
        root = root / version
    if not root.is_dir():
        raise InputError("there is no such folder", place)
    check_published(root)
    return Release(root, read_manifest(root))


def find_release(place: str | Path) -> Path:
    """Returns the folder of a release as :func:`open_release` finds it, but also that of a damaged one.

    Raises:
      InputError: there is no such folder, or it has neither a manifest nor checksums.
    """
    root = as_path(place)
    if not root.is_dir():
        raise InputError("there is no such folder", place)
    if not _is_version(root) and (version := latest_version(root)):
        root = root / version
    if not _is_version(root):
        raise InputError(f"is no release: there is neither {MANIFEST} nor {SUMS}", root)
    return root


def _is_version(root: Path) -> bool:
    return (root / MANIFEST).is_file() or (root / SUMS).is_file()


def latest_version(folder: Path) -> str:
    """Returns the version that ``latest.json`` of a dataset's folder names; empty if there is no such file."""
    path = folder / LATEST
    if not path.is_file():
        return ""
    try:
        version = orjson.loads(path.read_bytes())["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        version = None
    if not isinstance(version, str) or "/" in version or version.startswith("."):
        raise InputError("does not name a version", path)
    return version


def versions_of(folder: Path, file: str) -> list[str]:
    """Returns the versions in a dataset's folder that have a file, the oldest first."""
    found = [path.name for path in folder.iterdir() if (path / file).is_file()] if folder.is_dir() else []
    return sorted((name for name in found if VERSION.fullmatch(name)), key=parse_version)


def parse_version(version: str) -> tuple[int, int, int]:
    """Returns ``1.2.3`` as numbers."""
    major, minor, patch = (int(part) for part in version.split("."))
    return major, minor, patch


MOST = 10  # findings of one check on one file that are reported in full

Digest = tuple[str, int]  # SHA-256 and size

# A download from the Hugging Face Hub adds these; they are no part of the release, and nobody loads them.
_OF_THE_HUB = (".gitattributes", ".cache/huggingface")

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_BLOCK = 1 << 20


def printable(text: str) -> str:
    """Escapes what would steer a terminal or begin a new line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


class Finding(msgspec.Struct, frozen=True):
    """A mismatch.

    Attributes:
      check: which check found it: ``checksums``, ``manifest``, ``parquet``, ``order``, ``keys``, ``restore``,
        ``faults``, ``counts``, ``private``, ``signature``.
      path: the file at fault, below the release.
      where: the place inside it: ``row 7``, ``dialogue 1_00000``.
      reason: what is wrong.
    """

    check: str
    path: str
    where: str
    reason: str

    def __str__(self) -> str:
        return printable(": ".join(part for part in (self.path, self.where, self.reason) if part))


class Findings:
    """Collects findings; of many of one kind in one file the first are kept and the others counted."""

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._seen: Counter[tuple[str, str]] = Counter()

    def add(self, check: str, path: str, where: str, reason: str) -> None:
        """Adds a finding."""
        self._seen[check, path] += 1
        if self._seen[check, path] <= MOST:
            self._kept.append(Finding(check, path, where, reason))

    @contextmanager
    def guard(self, check: str, path: str) -> Iterator[None]:
        """Turns any error in the block into a finding: one damaged file must not hide the others."""
        try:
            yield
        except InputError as error:
            self.add(check, path, error.where.lstrip("$."), error.reason)
        except Exception as error:  # a file of a stranger can raise anything
            self.add(check, path, "", f"cannot be read: {str(error) or type(error).__name__}")

    def listed(self) -> list[Finding]:
        """All findings by file; those of one file in the order of the checks."""
        more = [
            Finding(check, path, "", f"and {n - MOST:,} more of this kind")
            for (check, path), n in self._seen.items()
            if n > MOST
        ]
        order = {place: i for i, place in enumerate(self._seen)}
        return sorted([*self._kept, *more], key=lambda finding: (finding.path, order[finding.check, finding.path]))


def is_inside(relative: str) -> bool:
    """Whether a path stays below the folder that it is relative to."""
    return not any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in relative.split("/"))


def check_files(root: Path, manifest: Manifest | None, findings: Findings, digests: Mapping[str, Digest]) -> int:
    """Checks every file that is there, and every file that should be there; returns the number of files that are.

    Args:
      root: the release.
      manifest: its manifest, if that could be read.
      findings: takes what does not hold.
      digests: of files that were read already, by path; other files are read.
    """
    sums = read_sums(root, findings)
    listed = {} if manifest is None else {file.path: file for file in manifest.files}
    if sums is not None and manifest is not None:
        _check_agreement(sums, listed, findings)
    expected = {path for path in {*(sums or ()), *listed} if is_inside(path)}
    present = present_files(root, findings, expected)
    for path in sorted(expected - present):
        findings.add("checksums", path, "", "is missing")
    # Without checksums the manifest says what belongs here; where neither can be read, nothing does.
    known = expected if sums is not None else {*expected, MANIFEST}
    for path in sorted(present - known - {SUMS, SIGNATURE}):
        if sums is not None or manifest is not None:
            findings.add("checksums", path, "", f"is not listed in {SUMS if sums is not None else MANIFEST}")
    for path in sorted(present & expected):
        with findings.guard("checksums", path):
            digest = digests[path] if path in digests else digest_of(root / path)
            _check_file(path, digest, sums or {}, listed.get(path), findings)
    return len(present)


def read_sums(root: Path, findings: Findings) -> dict[str, str] | None:
    """Reads ``SHA256SUMS`` as path to hash; returns None if it cannot be read at all."""
    if not (root / SUMS).is_file():
        findings.add("checksums", SUMS, "", "is missing")
        return None
    text = ""
    with findings.guard("checksums", SUMS):
        text = (root / SUMS).read_bytes().decode("utf-8")
    if not text:
        findings.add("checksums", SUMS, "", "lists no file")
        return None
    lines = text.split("\n")
    if lines.pop():
        findings.add("checksums", SUMS, f"line {len(lines) + 1}", "does not end with a newline: the file was cut")
    sums: dict[str, str] = {}
    for i, line in enumerate(lines):
        match = _LINE.fullmatch(line)
        reason = ""
        if not match:
            reason = "is not a SHA-256 in lower case, two spaces and a path"
        elif not is_inside(match[2]):
            reason = f"{match[2]!r} leaves the release's folder: it was not read"
        elif sums and match[2] <= next(reversed(sums)):
            reason = f"{match[2]!r} is not in the order of the paths, or occurs twice"
        if reason:
            findings.add("checksums", SUMS, f"line {i + 1}", reason)
        if match:
            sums.setdefault(match[2], match[1])
    return sums


def _check_agreement(sums: Mapping[str, str], listed: Mapping[str, File], findings: Findings) -> None:
    if MANIFEST not in sums:
        findings.add("checksums", MANIFEST, "", f"is not listed in {SUMS}")
    for path in sorted(listed.keys() - sums.keys()):
        findings.add("checksums", path, "", f"is in {MANIFEST}, but not in {SUMS}")
    for path in sorted(sums.keys() - listed.keys() - {MANIFEST}):
        findings.add("checksums", path, "", f"is in {SUMS}, but not in {MANIFEST}")
    for path in sorted(sums.keys() & listed.keys()):
        if sums[path] != listed[path].sha256:
            findings.add("checksums", path, "", f"{SUMS} and {MANIFEST} give different hashes")


def present_files(root: Path, findings: Findings, expected: Iterable[str] = ()) -> set[str]:
    """Lists all files below the folder.

    Links, which are not followed, are findings, and so are empty folders, except those of expected files.
    """
    files = set()
    with findings.guard("checksums", ""):
        paths = sorted(root.rglob("*"), key=str)
        parents = {path.parent for path in (*paths, *(root / relative for relative in expected))}
        for path in paths:
            relative = path.relative_to(root).as_posix()
            if relative in _OF_THE_HUB or relative.startswith(f"{_OF_THE_HUB[1]}/"):
                continue
            if path.is_symlink():
                findings.add("checksums", relative, "", "is a link: a release holds its files itself")
            elif path.is_file():
                files.add(relative)
            elif not path.is_dir():
                findings.add("checksums", relative, "", "is neither a file nor a folder")
            elif path not in parents:
                findings.add("checksums", relative, "", "is an empty folder: a release has none")
    return files


def digest_of(path: Path) -> Digest:
    """Reads a file; returns its SHA-256 and its size."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as handle:
        while block := handle.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return digest.hexdigest(), size


def _check_file(path: str, digest: Digest, sums: Mapping[str, str], file: File | None, findings: Findings) -> None:
    sha256, size = digest
    wrong = [SUMS] if sums.get(path, sha256) != sha256 else []
    wrong += [MANIFEST] if file is not None and file.sha256 != sha256 else []
    if wrong:
        findings.add("checksums", path, "", f"its SHA-256 is {sha256}, not that of {' and '.join(wrong)}")
    if file is not None and file.bytes != size:
        findings.add("checksums", path, "", f"has {size:,} bytes, {file.bytes:,} in {MANIFEST}")


ROWS_OF_A_GROUP = 1000
_KEY = "\0key"  # the column that rows are sorted by, on their way
_ROW_LINE = "\0line"  # the one that holds a row as a line of JSON


def key_text(row: Mapping[str, Any], key: Sequence[str]) -> str:
    """Returns the key of a row, which is unique in its split, as one text."""
    return "\0".join(str(row[name]) for name in key)


def shard_of(text: str, shards: int) -> int:
    """Returns the shard of a row, given its key."""
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) % shards


def shard_path(config: str, split: str, shard: int, shards: int) -> str:
    """Returns the path of a shard below the release."""
    return f"data/{config}/{split}-{shard:05}-of-{shards:05}.parquet"


def row_json(row: Mapping[str, Any]) -> bytes:
    """Returns a row as JSON with sorted keys: the form that is hashed, compared and sorted."""
    return orjson.dumps(row, default=_plain, option=orjson.OPT_SORT_KEYS)


def logical_sha256(rows: Iterable[bytes]) -> str:
    """Returns the SHA-256 over rows as :func:`row_json` gives them, a newline after each."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(row)
        digest.update(b"\n")
    return digest.hexdigest()


def split_sha256(files: Iterable[str]) -> str:
    """Returns the SHA-256 of a split, over the logical hashes of its files in their order."""
    return logical_sha256(digest.encode() for digest in files)


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime.datetime):  # pandas' own, of nanoseconds
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, datetime.timedelta)):
        return str(value)
    raise TypeError(f"cannot be written as JSON: {type(value).__name__}")


def plain_type(text: str) -> str:
    """Returns the text of an Arrow type, the same whether Parquet or Arrow named the items of its lists."""
    return text.replace("list<element: ", "list<item: ")


def table_of_lines(keys: Sequence[str], key: str, lines: Sequence[bytes]) -> pa.Table:
    """Returns rows as lines, with the one column of their key, for :func:`parts`."""
    return pa.table({key: pa.array(keys, pa.string()), _ROW_LINE: pa.array(lines, pa.large_binary())})


def parts(table: pa.Table, key: Sequence[str], shards: int) -> Iterator[tuple[int, bytes]]:
    """Yields the rows of each shard, packed."""
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


def unpack(packed: bytes) -> pa.Table:
    """Returns rows that :func:`parts` packed."""
    with pa.ipc.open_stream(packed) as stream:
        return stream.read_all()


class Group(NamedTuple):
    """Rows of a shard, at most ``ROWS_OF_A_GROUP``: as a table, and as what the logical hash is made of."""

    table: pa.Table
    lines: list[bytes]


def sorted_groups(packed: Iterable[bytes], path: str) -> Iterator[Group]:
    """Yields the rows of a shard by their keys.

    Args:
      packed: the rows, in any order.
      path: the shard's, for messages.

    Raises:
      InputError: two rows have one key, or the tables of one configuration have different columns.
    """
    tables = [unpack(piece) for piece in packed]
    if any(table.schema != tables[0].schema for table in tables):
        raise InputError("the files of one configuration have different columns", path)
    table = pa.concat_tables(tables)
    del tables
    keys = table[_KEY].to_pylist()
    order = sorted(range(len(keys)), key=keys.__getitem__)
    for first, second in pairwise(order):
        if keys[first] == keys[second]:
            files = sorted({_file(table, first), _file(table, second)} - {""})
            among = f" (in {' and '.join(files)})" if files else ""
            raise InputError(f"two rows have the key {keys[first]!r}{among}", path)
    groups = [order[start : start + ROWS_OF_A_GROUP] for start in range(0, len(order), ROWS_OF_A_GROUP)]
    if _ROW_LINE in table.column_names:
        column = table[_ROW_LINE]
        for group in groups:
            # One by one: a sorted copy of the whole shard would double the memory.
            lines = [column[i].as_py() for i in group]
            yield Group(lines_table(lines), lines)
    else:
        table = table.drop_columns([_KEY]).take(order)
        for n, group in enumerate(groups):
            rows = table.slice(n * ROWS_OF_A_GROUP, len(group))
            yield Group(rows, [row_json(row) for row in rows.to_pylist()])


def _file(rows: pa.Table, i: int) -> str:
    if _ROW_LINE in rows.column_names:
        return str(orjson.loads(rows[_ROW_LINE][i].as_py())["file"])
    return str(rows["file"][i]) if "file" in rows.column_names else ""


def write_shard(packed: Iterable[bytes], folder: str, path: str) -> File:
    """Writes one shard, its rows sorted by their keys.

    Args:
      packed: its rows, in any order.
      folder: the release's, while it is built.
      path: the shard's, below the folder.

    Raises:
      InputError: two rows have one key, or the tables of one configuration have different columns.
    """
    groups = sorted_groups(packed, path)
    first = next(groups)
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
    return File(path, size, sha256, rows, digest.hexdigest())
