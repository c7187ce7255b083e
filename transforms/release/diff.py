"""The differences between two releases, and the version number that they require.

Rows are identified by their keys and compared by hashes of the columns that both releases have; only the hashes and
keys of one split are in memory. Splits with the same logical hash, key and columns are not read. The levels are those
of TensorFlow Datasets ("Datasets versioning").
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.release import MANIFEST, SplitChange
from parapet.transforms.release import reading
from parapet.transforms.release.verify import Findings, check_files

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
    own = level_between(old, new)
    if not own:
        return f"version {new} does not come after {old}"
    if _ORDER.index(own) < _ORDER.index(level):
        return f"{new} is a {own} version after {old}, but the data was changed at the {level} level"
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
    old: reading.Release, new: reading.Release, name: str, split: str, listed: dict[tuple[str, str], list[str]]
) -> SplitChange | None:
    """Return the difference of one split, and list its rows; None if there is none."""
    before, after = old.manifest.configs.get(name), new.manifest.configs.get(name)
    if before is None or split not in before.splits:
        rows = new.manifest.configs[name].splits[split].rows
        return SplitChange(name, split, "minor", rows, 0, 0, [], [])
    if after is None or split not in after.splits:
        return SplitChange(name, split, "major", 0, before.splits[split].rows, 0, [], [])
    types = [{column.name: reading.plain_type(column.type) for column in config.columns} for config in (before, after)]
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


def _compare_rows(
    change: SplitChange, old: reading.Release, new: reading.Release, common: Sequence[str]
) -> tuple[int, list[str]]:
    """Fill in the added, removed and changed rows, compared in the columns that both releases have.

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
    rows = {reading.key_text(row, config.key): _digests(row, common) for row in old.rows(*place, common)}
    added, changed = dict[str, str](), dict[str, str]()
    for row in new.rows(*place, common):
        text = reading.key_text(row, config.key)
        before, after = rows.pop(text, None), _digests(row, common)
        if before is None:
            added[text] = ""
            of_new_corpora += bool(new_corpora) and row["variant"] in new_corpora
        elif before != after:
            changed[text] = ": " + ", ".join(name for i, name in enumerate(common) if before[i] != after[i])
    change.added, change.removed, change.changed = len(added), len(rows), len(changed)
    removed = dict.fromkeys(rows, "")
    return of_new_corpora, [*_listed("+", added), *_listed("-", removed), *_listed("~", changed)]


def _listed(sign: str, rows: Mapping[str, str]) -> Iterator[str]:
    """Yield the first rows by their keys, and the number of further ones."""
    for key in sorted(rows)[:MOST]:
        yield f"{sign} {key.replace(chr(0), '/')}{rows[key]}"
    if len(rows) > MOST:
        yield f"{sign} and {len(rows) - MOST:,} more"


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
    """Format a number of bytes in a suitable unit: ``1.2 MB``."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= scale:
            return f"{n / scale:,.1f} {unit}"
    return f"{n:,} bytes"
