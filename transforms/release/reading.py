"""Reading of releases: the manifest, the versions, the rows with their keys and hashes, and how two releases differ.

Shards are sorted by the hash of the key: the same rows give the same bytes, whatever their source. The hashes do not
depend on the version of a Parquet library. During a build, rows are Arrow streams: dialogues as the lines of
``parapet.schemas.rows``, other rows unchanged.

Two releases are compared by the keys of rows, and hashes of the columns that both have; only the hashes and keys of one
split are in memory. Splits with the same logical hash, key and columns are not read. The levels of a change, which
decide on the version number, are those of TensorFlow Datasets ("Datasets versioning").
"""

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

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, check_published
from parapet.schemas.release import MANIFEST, SUMS, VERSION, File, Manifest, SplitChange, parse_manifest
from parapet.schemas.rows import DIALOGUES, lines_table
from parapet.transforms.core.files import HashingWriter, join, whole

LATEST = "latest.json"
ROWS_AT_ONCE = 500


class Release(msgspec.Struct, frozen=True):
    """A release: the folder of its version, and its manifest."""

    root: Path
    manifest: Manifest

    def read(self, relative: str) -> bytes:
        """Reads a whole file."""
        return (self.root / relative).read_bytes()

    def rows(self, config: str, split: str, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """Reads the rows of a split, file by file, with all columns or the named ones."""
        for relative in self.manifest.configs[config].splits[split].files:
            yield from read_rows(self.root / relative, columns)


def read_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Reads the rows of a Parquet file. Raises InputError if it is missing or invalid."""
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
    """Reads the manifest of a version's folder. Raises InputError if it is missing."""
    path = root / MANIFEST
    if not path.is_file():
        raise InputError(f"is not a release: it has no {MANIFEST}", root)
    return parse_manifest(path.read_bytes(), path)


def open_release(place: str | Path) -> Release:
    """Opens ``NAME/VERSION``, or the version named by ``latest.json`` in a folder ``NAME``.

    Raises:
      InputError: the folder does not exist, or is not a complete release.
    """
    root = find_release(place)
    check_published(root)
    return Release(root, read_manifest(root))


def find_release(place: str | Path) -> Path:
    """Returns the folder of a release as :func:`open_release` does, even if the release is damaged.

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
    """Returns the version named by ``latest.json`` in a dataset's folder; empty if the file is missing."""
    path = folder / LATEST
    if not path.is_file():
        return ""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Latest).version
    except (msgspec.MsgspecError, RecursionError):
        raise InputError("does not name a version", path) from None


def versions_of(folder: Path, file: str) -> list[str]:
    """Returns the versions in a dataset's folder that contain a file, the oldest first."""
    versions = [path.name for path in folder.iterdir() if (path / file).is_file()] if folder.is_dir() else []
    return sorted((name for name in versions if VERSION.fullmatch(name)), key=parse_version)


def parse_version(version: str) -> tuple[int, int, int]:
    """Parses ``1.2.3`` into numbers."""
    major, minor, patch = (int(part) for part in version.split("."))
    return major, minor, patch


def printable(text: str) -> str:
    """Escapes characters that would control a terminal or begin a new line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


ROWS_OF_A_GROUP = 1000
_KEY = "\0key"  # the column by which rows are sorted during a build
_ROW_LINE = "\0line"  # the column with a row as a line of JSON


def key_text(row: Mapping[str, Any], key: Sequence[str]) -> str:
    """Returns the key of a row, which is unique in its split, as one text."""
    return "\0".join(str(row[name]) for name in key)


def shard_of(text: str, shards: int) -> int:
    """Returns the shard of a row with a key."""
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) % shards


def shard_path(config: str, split: str, shard: int, shards: int) -> str:
    """Returns the path of a shard below the release."""
    return f"data/{config}/{split}-{shard:05}-of-{shards:05}.parquet"


def row_json(row: Mapping[str, Any]) -> bytes:
    """Formats a row as JSON with sorted keys, the form that is hashed, compared and sorted."""
    return orjson.dumps(row, default=_plain, option=orjson.OPT_SORT_KEYS)


def logical_sha256(rows: Iterable[bytes]) -> str:
    """Returns the SHA-256 of rows in the form of :func:`row_json`, each followed by a newline."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(row + b"\n")
    return digest.hexdigest()


def split_sha256(files: Iterable[str]) -> str:
    """Returns the SHA-256 of a split over the logical hashes of its files in order."""
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
    """Normalises the text of an Arrow type: Parquet and Arrow name the items of lists differently."""
    return text.replace("list<element: ", "list<item: ")


def table_of_lines(keys: Sequence[str], key: str, lines: Sequence[bytes]) -> pa.Table:
    """Returns rows as lines, with a column for their key, for :func:`parts`."""
    return pa.table({key: pa.array(keys, pa.string()), _ROW_LINE: pa.array(lines, pa.large_binary())})


def parts(table: pa.Table, key: Sequence[str], shards: int) -> Iterator[tuple[int, bytes]]:
    """Yields the rows of each shard in packed form."""
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
    """Writes one shard, its rows sorted by their keys.

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


# The levels of a change, the lowest first, and their meanings for the rows.
LEVELS = {
    "patch": "the rows are the same",
    "minor": "columns or splits were added; the rows of existing splits are unchanged",
    "major": "rows of an existing split were added, removed or changed, or a column or split was removed",
}
MOST = 20  # the maximum number of rows listed of each kind
_ORDER = list(LEVELS)


class Difference(msgspec.Struct):
    """The differences between two releases.

    Attributes:
      old: name and version of the older release.
      new: name and version of the newer release.
      level: the highest level of all splits; ``patch`` if no row differs.
      suggested: the lowest valid version after the old one.
      contradiction: why the new version number is invalid; empty if it is valid.
      splits: the splits that differ.
      rows: (configuration, split) to its first rows of each kind by their keys, ``+ KEY`` (added), ``- KEY`` (removed),
        ``~ KEY: COLUMNS`` (changed), sorted; then the number of further rows.
    """

    old: tuple[str, str]
    new: tuple[str, str]
    level: str
    suggested: str
    contradiction: str
    splits: list[SplitChange]
    rows: dict[tuple[str, str], list[str]]


# Versions.


def bumped(version: str, level: str) -> str:
    """Returns the next version at a level: ``bumped("1.2.3", "minor") == "1.3.0"``."""
    major, minor, patch = parse_version(version)
    if level == "major":
        return f"{major + 1}.0.0"
    return f"{major}.{minor + 1}.0" if level == "minor" else f"{major}.{minor}.{patch + 1}"


def level_between(old: str, new: str) -> str:
    """Returns the level at which ``new`` follows ``old``; empty if it is not later."""
    before, after = parse_version(old), parse_version(new)
    if after <= before:
        return ""
    return _ORDER[2 - next(i for i in range(3) if after[i] != before[i])]


def contradiction(old: str, new: str, level: str) -> str:
    """Explains why a version number cannot follow another for changes at a level; empty if it can."""
    if not (own := level_between(old, new)):
        return f"version {new} does not come after {old}"
    if _ORDER.index(own) < _ORDER.index(level):
        return f"{new} is a {own} version after {old}, but the data was changed at the {level} level"
    return ""


# Rows.


def compare(old: Release, new: Release) -> Difference:
    """Compares two releases whose files match their manifests; only ``data/`` is needed.

    Raises:
      InputError: a Parquet file cannot be read.
    """
    places = dict.fromkeys(
        (name, split)
        for release in (old, new)
        for name, config in release.manifest.configs.items()
        for split in config.splits
    )
    rows: dict[tuple[str, str], list[str]] = {}
    splits = [change for place in places if (change := _compare_split(old, new, *place, rows))]
    level = max((change.level for change in splits), key=_ORDER.index, default="patch")
    versions = (old.manifest.version, new.manifest.version)
    names = (old.manifest.name, new.manifest.name)
    suggested, wrong = bumped(versions[0], level), contradiction(*versions, level)
    return Difference((names[0], versions[0]), (names[1], versions[1]), level, suggested, wrong, splits, rows)


def _compare_split(
    old: Release, new: Release, name: str, split: str, listed: dict[tuple[str, str], list[str]]
) -> SplitChange | None:
    """Returns the difference of one split, and lists its rows; None if there is none."""
    before, after = old.manifest.configs.get(name), new.manifest.configs.get(name)
    if before is None or split not in before.splits:
        return SplitChange(name, split, "minor", new.manifest.configs[name].splits[split].rows, 0, 0, [], [])
    if after is None or split not in after.splits:
        return SplitChange(name, split, "major", 0, before.splits[split].rows, 0, [], [])
    types = [{column.name: plain_type(column.type) for column in config.columns} for config in (before, after)]
    added = [column for column in types[1] if types[0].get(column) != types[1][column]]
    removed = [column for column in types[0] if types[1].get(column) != types[0][column]]
    if before.key != after.key:  # with another key, rows are different rows
        counts = after.splits[split].rows, before.splits[split].rows
        return SplitChange(name, split, "major", *counts, 0, added, removed)
    if not (added or removed) and before.splits[split].logical_sha256 == after.splits[split].logical_sha256:
        return None
    change = SplitChange(name, split, "minor", 0, 0, 0, added, removed)
    common = [column for column in types[0] if column in types[1]]
    of_new_corpora, listed[name, split] = _compare_rows(change, old, new, common)
    if not (added or removed or change.added or change.removed or change.changed):
        return None  # the same rows in other files
    if removed or change.added > of_new_corpora or change.removed or change.changed:
        change.level = "major"
    return change


def _compare_rows(change: SplitChange, old: Release, new: Release, common: Sequence[str]) -> tuple[int, list[str]]:
    """Fills in the added, removed and changed rows, compared in the columns that both releases have.

    Returns:
      The number of added rows that are services of new corpora; these appear in existing splits of ``schemas`` but
        change nothing about the other rows. And the rows for a list.
    """
    place, config = (change.config, change.split), old.manifest.configs[change.config]
    if not set(config.key) <= set(common):
        reason = f"has no column for its key {', '.join(config.key)}"
        raise InputError(reason, old.root / MANIFEST, f"configs.{place[0]}")
    corpora = [set(release.manifest.counts.get("services", {})) for release in (old, new)]
    new_corpora = corpora[1] - corpora[0] if config.record == "service" else set()
    of_new_corpora = 0
    rows = {key_text(row, config.key): _digests(row, common) for row in old.rows(*place, common)}
    added, changed = dict[str, str](), dict[str, str]()
    for row in new.rows(*place, common):
        text = key_text(row, config.key)
        before, after = rows.pop(text, None), _digests(row, common)
        if before is None:
            added[text] = ""
            of_new_corpora += bool(new_corpora) and row["variant"] in new_corpora
        elif before != after:
            changed[text] = ": " + ", ".join(name for i, name in enumerate(common) if before[i] != after[i])
    change.added, change.removed, change.changed = len(added), len(rows), len(changed)
    return of_new_corpora, [*_listed("+", added), *_listed("-", dict.fromkeys(rows, "")), *_listed("~", changed)]


def _listed(sign: str, rows: Mapping[str, str]) -> Iterator[str]:
    """Yields the first rows by their keys, and the number of further ones."""
    for key in sorted(rows)[:MOST]:
        yield f"{sign} {key.replace(chr(0), '/')}{rows[key]}"
    if len(rows) > MOST:
        yield f"{sign} and {len(rows) - MOST:,} more"


def _digests(row: dict[str, Any], columns: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(hashlib.blake2b(row_json({"": row[name]}), digest_size=12).digest() for name in columns)


# Text.


def diff_lines(difference: Difference) -> Iterator[str]:
    """Yields the difference in lines, the advice on the version number last."""
    yield from map(printable, _lines(difference))


def _lines(difference: Difference) -> Iterator[str]:
    (name, old), (new_name, new) = difference.old, difference.new
    yield f"{name} {old} -> {new_name} {new}"
    for split in difference.splits:
        changes = f"{split.added:,} added, {split.removed:,} removed, {split.changed:,} changed"
        yield ""
        yield f"{split.config}/{split.split}: {changes} ({split.level})"
        yield from (f"  + column {column}" for column in split.columns_added)
        yield from (f"  - column {column}" for column in split.columns_removed)
        yield from (f"  {row}" for row in difference.rows.get((split.config, split.split), ()))
    yield ""
    if difference.old == difference.new and not difference.splits:
        yield "the releases do not differ"
        return
    level = difference.level
    yield f"level: {level} ({LEVELS[level]}); the next version after {old} is {difference.suggested}"
    if difference.contradiction:
        yield f"the version number is wrong: {difference.contradiction}"
    else:
        yield f"{new} fits that level"


def size(n: int) -> str:
    """Formats a number of bytes in a suitable unit: ``1.2 MB``."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= scale:
            return f"{n / scale:,.1f} {unit}"
    return f"{n:,} bytes"
