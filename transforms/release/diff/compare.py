"""How two releases differ: which rows were added, removed and changed, and which version number that requires.

Rows are identified by their keys and compared by hashes over the columns that both releases have; of a split only
hashes are in memory. Splits whose logical hashes, keys and columns are the same are not read at all, where their files
are known to be those of the manifests (:mod:`parapet.transforms.release.diff.standing`).
"""

from __future__ import annotations

import hashlib
from bisect import insort
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.release_manifest import MANIFEST, Changes, Column, Config, Manifest, SplitChange
from parapet.transforms.release.diff.differences import Differing, differing, plain_type
from parapet.transforms.release.diff.standing import Standing
from parapet.transforms.release.keys import key_text
from parapet.transforms.release.logical import row_json
from parapet.transforms.release.opening import Release
from parapet.transforms.release.verify.files import is_inside
from parapet.transforms.release.versions import LEVELS, bumped, contradiction

MOST = 20  # keys of each kind that are named
_PLACES = 3  # differences that are shown of a row


class RowChange(msgspec.Struct, frozen=True):
    """A row that both have, and where it differs."""

    key: list[str]
    places: list[Differing]


class Retyped(msgspec.Struct, frozen=True):
    """A column of two types."""

    name: str
    old: str
    new: str


class SplitDifference(msgspec.Struct):
    """How a split differs.

    Attributes:
      config: the configuration.
      split: the split.
      state: ``new``, ``gone``, or ``changed`` where both releases have it.
      level: what that asks of the version number.
      added: rows that only the new release has.
      removed: rows that only the old one has.
      changed: rows that differ in the columns of both.
      added_keys: the first of them, sorted.
      removed_keys: the first of them, sorted.
      changed_rows: the first of them, sorted.
      columns_added: those that only the new release has.
      columns_removed: those that only the old one has.
      columns_retyped: those that have another type now.
      new_key: the columns that now identify its rows, where they have changed.
    """

    config: str
    split: str
    state: str
    level: str
    added: int = 0
    removed: int = 0
    changed: int = 0
    added_keys: list[list[str]] = []
    removed_keys: list[list[str]] = []
    changed_rows: list[RowChange] = []
    columns_added: list[Column] = []
    columns_removed: list[Column] = []
    columns_retyped: list[Retyped] = []
    new_key: list[str] = []


class FileDifference(msgspec.Struct):
    """Documents and JSON files, by their hashes; Parquet files are compared by rows."""

    added: list[str]
    removed: list[str]
    changed: list[str]


class Side(msgspec.Struct, frozen=True):
    """Which release it is."""

    name: str
    version: str
    rows: int


class Difference(msgspec.Struct):
    """How two releases differ.

    Attributes:
      old: the one compared with.
      new: the other.
      level: the highest of the splits'; ``patch`` where no row differs.
      suggested: the version that may follow the old one.
      contradiction: why the new one's number cannot; empty where it can.
      splits: those that differ.
      files: those that differ.
      problems: what is not as the manifests say: ``old: PATH: reason``; the splits of such files may not be compared.
    """

    old: Side
    new: Side
    level: str
    suggested: str
    contradiction: str
    splits: list[SplitDifference]
    files: FileDifference
    problems: list[str] = []


def compare(old: Release, new: Release, files: tuple[Standing, Standing] | None = None) -> Difference:
    """Compares two releases. Of their folders only ``data/`` need be there.

    Args:
      old: the one to compare with.
      new: the other.
      files: what stands of either; None: all is taken to be as the manifests say.

    Raises:
      InputError: a manifest names paths or versions that are none; where all is taken to be as the manifests say, a
        Parquet file is missing or cannot be read.
    """
    for release in (old, new):
        _check_paths(release)
    places = [*_places(old.manifest), *_places(new.manifest)]
    damaged = _damaged(old, new, files) if files else set()
    problems = [f"{side}: {path}: {why}" for side, of in _sides(files) for path, why in sorted(of.problems.items())]
    found: list[SplitDifference | None] = []
    for place in dict.fromkeys(places):
        try:
            found.append(_compare_split(old, new, *place, trusted=place not in damaged))
        except (InputError, KeyError) as error:
            if place in damaged:
                problems.append(f"{'/'.join(place)}: was not compared: {error}")
            elif isinstance(error, InputError):
                raise
            else:
                reason = f"Parquet lacks the column {error}, which the manifest has: 'verify' says more"
                raise InputError(reason) from None
    splits = [one for one in found if one is not None]
    level = max((one.level for one in splits), key=LEVELS.index, default="patch")
    versions = (old.manifest.version, new.manifest.version)
    try:
        suggested, wrong = bumped(versions[0], level), contradiction(*versions, level)
    except ValueError:
        raise InputError(f"{' and '.join(versions)}: a version is MAJOR.MINOR.PATCH", new.root, "version") from None
    others = _compare_files(old.manifest, new.manifest, files)
    return Difference(_side(old.manifest), _side(new.manifest), level, suggested, wrong, splits, others, problems)


def _sides(files: tuple[Standing, Standing] | None) -> list[tuple[str, Standing]]:
    return list(zip(("old", "new"), files, strict=True)) if files else []


def _damaged(old: Release, new: Release, files: tuple[Standing, Standing]) -> set[tuple[str, str]]:
    """The splits of which a file is not as the manifest says."""
    return {
        (name, split)
        for release, of in zip((old, new), files, strict=True)
        for name, config in release.manifest.configs.items()
        for split, info in config.splits.items()
        if any(path in of.problems for path in info.files)
    }


def changes_of(difference: Difference) -> Changes:
    """The difference as the newer release's manifest keeps it; a column of another type has gone and come."""
    return Changes(difference.level, [_change(one) for one in difference.splits])


def _change(one: SplitDifference) -> SplitChange:
    retyped = [column.name for column in one.columns_retyped]
    return SplitChange(
        one.config,
        one.split,
        one.level,
        one.added,
        one.removed,
        one.changed,
        [column.name for column in one.columns_added] + retyped,
        [column.name for column in one.columns_removed] + retyped,
    )


def _check_paths(release: Release) -> None:
    for config in release.manifest.configs.values():
        for info in config.splits.values():
            for path in info.files:
                if not is_inside(path):
                    raise InputError(f"{path!r} leaves the release's folder", release.root / MANIFEST)


def _places(manifest: Manifest) -> list[tuple[str, str]]:
    return [(name, split) for name, config in manifest.configs.items() for split in config.splits]


def _side(manifest: Manifest) -> Side:
    rows = sum(info.rows for config in manifest.configs.values() for info in config.splits.values())
    return Side(manifest.name, manifest.version, rows)


def _compare_files(old: Manifest, new: Manifest, files: tuple[Standing, Standing] | None) -> FileDifference:
    before, after = (
        {file.path: file.sha256 for file in manifest.files if file.rows is None} for manifest in (old, new)
    )
    if files:
        before, after = (
            {path: of.digests[path] for path in listed if path in of.digests}
            for listed, of in zip((before, after), files, strict=True)
        )
    return FileDifference(
        sorted(after.keys() - before.keys()),
        sorted(before.keys() - after.keys()),
        sorted(path for path in before.keys() & after.keys() if before[path] != after[path]),
    )


def _compare_split(old: Release, new: Release, name: str, split: str, trusted: bool) -> SplitDifference | None:
    """The difference of one split; None where there is none."""
    before, after = old.manifest.configs.get(name), new.manifest.configs.get(name)
    if before is None or split not in before.splits:
        rows = new.manifest.configs[name].splits[split].rows
        return SplitDifference(name, split, "new", "minor", added=rows)
    if after is None or split not in after.splits:
        return SplitDifference(name, split, "gone", "major", removed=before.splits[split].rows)
    made = _compare_columns(name, split, before, after)
    same = trusted and before.splits[split].logical_sha256 == after.splits[split].logical_sha256
    if same and made.level == "patch":
        return None
    if made.new_key:  # rows that other columns identify are other rows
        made.removed, made.added = before.splits[split].rows, after.splits[split].rows
    else:
        common = [column for column in _types(before) if column in _types(after)]
        of_new_corpora = _compare_rows(made, old, new, common)
        if of_new_corpora and made.level == "patch":
            made.level = "minor"
        if made.added == of_new_corpora and not made.removed and not made.changed:
            return None if made.level == "patch" else made
    made.level = "major"
    return made


def _new_corpora(old: Manifest, new: Manifest) -> set[str]:
    """Their services come into splits of ``schemas`` that are there, and change nothing of the others'."""
    before, after = (set(manifest.counts.get("services", {})) for manifest in (old, new))
    return after - before


def _types(config: Config) -> dict[str, str]:
    return {column.name: plain_type(column.type) for column in config.columns}


def _compare_columns(name: str, split: str, before: Config, after: Config) -> SplitDifference:
    old, new = _types(before), _types(after)
    made = SplitDifference(name, split, "changed", "patch")
    made.columns_added = [column for column in after.columns if column.name not in old]
    made.columns_removed = [column for column in before.columns if column.name not in new]
    made.columns_retyped = [Retyped(key, old[key], new[key]) for key in old if new.get(key, old[key]) != old[key]]
    made.new_key = after.key if after.key != before.key else []
    if made.columns_removed or made.columns_retyped or made.new_key:
        made.level = "major"
    elif made.columns_added:
        made.level = "minor"
    return made


class _First:
    """The smallest of the keys that it is given, and how many there were."""

    def __init__(self) -> None:
        self.n, self.keys = 0, list[tuple[str, list[str]]]()

    def add(self, text: str, row: dict[str, Any], key: Sequence[str]) -> None:
        self.n += 1
        if len(self.keys) < MOST or text < self.keys[-1][0]:
            insort(self.keys, (text, [str(row[name]) for name in key]))
            del self.keys[MOST:]

    def listed(self) -> list[list[str]]:
        return [key for _, key in self.keys]


def _compare_rows(made: SplitDifference, old: Release, new: Release, common: Sequence[str]) -> int:
    """Fills in the rows that were added, removed and changed, compared in the columns that both have.

    Returns:
      How many of those added are services of corpora that the old release does not have.
    """
    is_schemas = new.manifest.configs[made.config].record == "service"
    fresh = _new_corpora(old.manifest, new.manifest) if is_schemas else set()
    of_new_corpora = 0
    place, key = (made.config, made.split), old.manifest.configs[made.config].key
    if not set(key) <= set(common):
        raise InputError(f"has no column for its key {', '.join(key)}", old.root / MANIFEST, f"configs.{made.config}")
    digests = {_hash(key_text(row, key).encode()): _hash(row_json(row)) for row in old.rows(*place, common)}
    added, removed, changed = _First(), _First(), _First()
    for row in new.rows(*place, common):
        text = key_text(row, key)
        before = digests.pop(_hash(text.encode()), None)
        if before is None:
            added.add(text, row, key)
            of_new_corpora += is_schemas and row["variant"] in fresh
        elif before != _hash(row_json(row)):
            changed.add(text, row, key)
    if digests:
        for row in old.rows(*place, key):
            if _hash((text := key_text(row, key)).encode()) in digests:
                removed.add(text, row, key)
    made.added, made.removed, made.changed = added.n, removed.n, changed.n
    made.added_keys, made.removed_keys = added.listed(), removed.listed()
    wanted = dict(changed.keys)
    made.changed_rows = [
        RowChange(wanted[text], differing(before, after, _PLACES))
        for text, before, after in _pairs(old, new, place, common, wanted)
    ]
    return of_new_corpora


def _pairs(
    old: Release, new: Release, place: tuple[str, str], common: Sequence[str], wanted: dict[str, list[str]]
) -> Iterator[tuple[str, Any, Any]]:
    """Yields (key, old row, new row) of the rows wanted, in the order of their keys."""
    before, after = (_rows_of(release, place, common, wanted) for release in (old, new))
    for text in wanted:
        yield text, before[text], after[text]


def _rows_of(
    release: Release, place: tuple[str, str], common: Sequence[str], wanted: dict[str, list[str]]
) -> dict[str, dict[str, Any]]:
    key, found = release.manifest.configs[place[0]].key, dict[str, dict[str, Any]]()
    if not wanted:
        return found
    for row in release.rows(*place, common):
        if (text := key_text(row, key)) in wanted:
            found[text] = row
            if len(found) == len(wanted):
                break
    return found


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
