"""The differences between two releases, and the version number that they require.

Rows are identified by their keys and compared by hashes of the columns that both releases have; only the hashes and
keys of one split are in memory. Splits with the same logical hash, key and columns are not read. The levels are those
of TensorFlow Datasets ("Datasets versioning").
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.release import MANIFEST, Changes, SplitChange
from parapet.transforms.release import reading
from parapet.transforms.release.verify import Findings, check_files
from parapet.transforms.reports.text import counted

# The levels of a change, the lowest first, and their meanings for the rows.
LEVELS = {
    "patch": "the rows are the same",
    "minor": "columns or splits were added; the rows of existing splits are unchanged",
    "major": "rows of an existing split were added, removed or changed, or a column or split was removed",
}
MOST = 20  # the maximum number of rows listed of each kind
_ORDER = list(LEVELS)


class SplitDifference(SplitChange):
    """The differences of a split: the numbers for the manifest, and the first rows of each kind by their keys.

    Attributes:
      state: ``new``, ``gone``, or ``changed`` if both releases have it.
      rows: ``+ KEY`` (added), ``- KEY`` (removed), ``~ KEY: COLUMNS`` (changed), sorted; then the number of further
        rows.
      new_key: the new key columns, if the key has changed.
    """

    state: str = "changed"
    rows: list[str] = msgspec.field(default_factory=list)
    new_key: list[str] = msgspec.field(default_factory=list)


class Difference(msgspec.Struct):
    """The differences between two releases.

    Attributes:
      old: name and version of the older release.
      new: name and version of the newer release.
      level: the highest level of all splits; ``patch`` if no row differs.
      suggested: the lowest valid version after the old one.
      contradiction: why the new version number is invalid; empty if it is valid.
      splits: the splits that differ.
      files: documents and JSON files, ``+ PATH``, ``- PATH`` or ``~ PATH``; Parquet files are compared by rows.
    """

    old: tuple[str, str]
    new: tuple[str, str]
    level: str
    suggested: str
    contradiction: str
    splits: list[SplitDifference]
    files: list[str]


# Versions.


def bumped(version: str, level: str) -> str:
    """Return the next version at a level: ``bumped("1.2.3", "minor") == "1.3.0"``."""
    major, minor, patch = reading.parse_version(version)
    if level == "major":
        return f"{major + 1}.0.0"
    return f"{major}.{minor + 1}.0" if level == "minor" else f"{major}.{minor}.{patch + 1}"


def level_between(old: str, new: str) -> str:
    """Return the level at which ``new`` follows ``old``; empty if it is not later."""
    before, after = reading.parse_version(old), reading.parse_version(new)
    if after <= before:
        return ""
    changed = next(i for i in range(3) if after[i] != before[i])
    return _ORDER[2 - changed]


def contradiction(old: str, new: str, level: str) -> str:
    """Explain why a version number cannot follow another for changes at a level; empty if it can."""
    level_here = level_between(old, new)
    if not level_here:
        return f"version {new} does not come after {old}"
    if _ORDER.index(level_here) < _ORDER.index(level):
        return f"{new} is a {level_here} version after {old}, but the data was changed at the {level} level"
    return ""


# Rows.


def damage(release: reading.Release) -> list[str]:
    """Describe where a release differs from its manifest."""
    findings = Findings()
    check_files(release.root, release.manifest, findings)
    return [str(finding) for finding in findings.listed()]


def compare(old: reading.Release, new: reading.Release) -> Difference:
    """Compare two releases whose files match their manifests; only ``data/`` is needed.

    Raises:
      InputError: a Parquet file cannot be read, or a version is invalid.
    """
    places = dict.fromkeys(
        (name, split)
        for release in (old, new)
        for name, config in release.manifest.configs.items()
        for split in config.splits
    )
    splits = [difference for place in places if (difference := _compare_split(old, new, *place))]
    level = max((difference.level for difference in splits), key=_ORDER.index, default="patch")
    versions = (old.manifest.version, new.manifest.version)
    try:
        suggested, wrong = bumped(versions[0], level), contradiction(*versions, level)
    except ValueError:
        raise InputError(
            f"{' and '.join(versions)}: a version must be MAJOR.MINOR.PATCH", new.root, "version"
        ) from None
    before, after = (
        {file.path: file.sha256 for file in release.manifest.files if file.rows is None} for release in (old, new)
    )
    files = [
        *(f"+ {path}" for path in sorted(after.keys() - before.keys())),
        *(f"- {path}" for path in sorted(before.keys() - after.keys())),
        *(f"~ {path}" for path in sorted(before.keys() & after.keys()) if before[path] != after[path]),
    ]
    names = (old.manifest.name, new.manifest.name)
    return Difference((names[0], versions[0]), (names[1], versions[1]), level, suggested, wrong, splits, files)


def changes_of(difference: Difference) -> Changes:
    """Return the difference for the newer release's manifest."""
    fields = SplitChange.__struct_fields__
    changes = [SplitChange(*(getattr(split, name) for name in fields)) for split in difference.splits]
    return Changes(difference.level, changes)


def _compare_split(old: reading.Release, new: reading.Release, name: str, split: str) -> SplitDifference | None:
    """Return the difference of one split; None if there is none."""
    before, after = old.manifest.configs.get(name), new.manifest.configs.get(name)
    if before is None or split not in before.splits:
        rows = new.manifest.configs[name].splits[split].rows
        return SplitDifference(name, split, "minor", rows, 0, 0, [], [], "new")
    if after is None or split not in after.splits:
        return SplitDifference(name, split, "major", 0, before.splits[split].rows, 0, [], [], "gone")
    types = [{column.name: reading.plain_type(column.type) for column in config.columns} for config in (before, after)]
    added = [column for column in types[1] if types[0].get(column) != types[1][column]]
    removed = [column for column in types[0] if types[1].get(column) != types[0][column]]
    difference = SplitDifference(name, split, "minor" if added else "patch", 0, 0, 0, added, removed)
    is_major = bool(removed)
    if before.key != after.key:  # with another key, rows are different rows
        difference.removed, difference.added = before.splits[split].rows, after.splits[split].rows
        difference.new_key, is_major = after.key, True
    elif is_major or added or before.splits[split].logical_sha256 != after.splits[split].logical_sha256:
        common = [column for column in types[0] if column in types[1]]
        of_new_corpora = _compare_rows(difference, old, new, common)
        is_major |= bool(difference.added > of_new_corpora or difference.removed or difference.changed)
        difference.level = "minor" if of_new_corpora else difference.level
    difference.level = "major" if is_major else difference.level
    return None if difference.level == "patch" else difference


def _compare_rows(
    difference: SplitDifference, old: reading.Release, new: reading.Release, common: Sequence[str]
) -> int:
    """Fill in the added, removed and changed rows, compared in the columns that both releases have.

    Returns:
      The number of added rows that are services of new corpora; these appear in existing splits of ``schemas`` but
        change nothing about the other rows.
    """
    place, config = (difference.config, difference.split), old.manifest.configs[difference.config]
    if not set(config.key) <= set(common):
        reason = f"has no column for its key {', '.join(config.key)}"
        raise InputError(reason, old.root / MANIFEST, f"configs.{place[0]}")
    corpora = [set(release.manifest.counts.get("services", {})) for release in (old, new)]
    new_corpora = corpora[1] - corpora[0] if config.record == "service" else set()
    of_new_corpora = 0
    rows = {reading.key_text(row, config.key): _digests(row, common) for row in old.rows(*place, common)}
    added, changed = set[str](), dict[str, str]()
    for row in new.rows(*place, common):
        text = reading.key_text(row, config.key)
        before, after = rows.pop(text, None), _digests(row, common)
        if before is None:
            added.add(text)
            of_new_corpora += bool(new_corpora) and row["variant"] in new_corpora
        elif before != after:
            changed[text] = ", ".join(name for i, name in enumerate(common) if before[i] != after[i])
    difference.added, difference.removed, difference.changed = len(added), len(rows), len(changed)
    difference.rows = [*_named("+", added), *_named("-", rows), *_named("~", changed, changed)]
    return of_new_corpora


def _named(sign: str, keys: Collection[str], columns: dict[str, str] | None = None) -> Iterator[str]:
    """Yield the first keys, and the number of further ones."""
    for key in sorted(keys)[:MOST]:
        yield f"{sign} {key.replace(chr(0), '/')}" + (f": {columns[key]}" if columns else "")
    if len(keys) > MOST:
        yield f"{sign} and {len(keys) - MOST:,} more"


def _digests(row: dict[str, Any], columns: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(hashlib.blake2b(reading.row_json({"": row[name]}), digest_size=12).digest() for name in columns)


# Text.


def diff_lines(difference: Difference) -> Iterator[str]:
    """Yield the difference in lines, the advice on the version number last."""
    yield from map(reading.printable, _lines(difference))


def _lines(difference: Difference) -> Iterator[str]:
    (name, old), (new_name, new) = difference.old, difference.new
    yield f"{name} {old} -> {new_name} {new}"
    for split in difference.splits:
        changes = f"{split.added:,} added, {split.removed:,} removed, {split.changed:,} changed"
        if split.state != "changed":
            changes = f"the split is {split.state}, {counted(split.added or split.removed, 'row')}"
        yield ""
        yield f"{split.config}/{split.split}: {changes} ({split.level})"
        yield from (f"  + column {column}" for column in split.columns_added)
        yield from (f"  - column {column}" for column in split.columns_removed)
        if split.new_key:
            yield f"  ~ rows are now identified by {', '.join(split.new_key)}"
        yield from (f"  {row}" for row in split.rows)
    if difference.files:
        yield ""
        yield "files other than Parquet"
        yield from (f"  {file}" for file in difference.files)
    yield ""
    if difference.old == difference.new and not difference.splits and not difference.files:
        yield "the releases do not differ"
        return
    level = difference.level
    yield f"level: {level} ({LEVELS[level]}); the next version after {old} is {difference.suggested}"
    if name != new_name:
        yield f"these are different datasets: {name} and {new_name}"
    elif difference.contradiction:
        yield f"the version number is wrong: {difference.contradiction}"
    else:
        yield f"{new} fits that level"


def size(n: int) -> str:
    """Format a number of bytes in a suitable unit: ``1.2 MB``."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= scale:
            return f"{n / scale:,.1f} {unit}"
    return f"{n:,} bytes"
