"""What a release holds, at a glance; how two releases differ, and which version number that requires.

Rows are identified by their keys and compared by hashes over the columns that both releases have; only hashes and keys
of a split are in memory. Splits with the same logical hash, key and columns are not read. The levels are those of
TensorFlow Datasets ("Datasets versioning").
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.release import COUNTED, MANIFEST, Changes, Column, Config, Manifest, SplitChange, in_order
from parapet.transforms.release.reading import (
    Findings,
    Release,
    check_files,
    key_text,
    latest_version,
    parse_version,
    plain_type,
    printable,
    read_manifest,
    row_json,
    versions_of,
)
from parapet.transforms.reports.text import counted, number

# The levels of a change, the lowest first, and what each says about the rows.
LEVELS = {
    "patch": "the rows are the same",
    "minor": "columns or splits were added; the rows of existing splits are unchanged",
    "major": "rows of an existing split were added, removed or changed, or a column or split was removed",
}
MOST = 20  # keys of each kind that are named
_ORDER = list(LEVELS)


class RowChange(msgspec.Struct, frozen=True):
    """A row that both have, and the columns in which it differs."""

    key: list[str]
    columns: list[str]


class SplitDifference(msgspec.Struct):
    """How a split differs.

    Attributes:
      config: the configuration.
      split: the split.
      state: ``new``, ``gone``, or ``changed`` if both releases have it.
      level: the level of the version number that this requires.
      added: rows that only the new release has.
      removed: rows that only the old one has.
      changed: rows that differ in the columns of both.
      added_keys: the first of them, sorted.
      removed_keys: the first of them, sorted.
      changed_rows: the first of them, sorted.
      columns_added: those that only the new release has, or has with another type.
      columns_removed: those that only the old one has, or has with another type.
      new_key: the columns that now identify its rows, if they have changed.
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
    new_key: list[str] = []


class FileDifference(msgspec.Struct):
    """Documents and JSON files, by their hashes; Parquet files are compared by rows."""

    added: list[str]
    removed: list[str]
    changed: list[str]


class Side(msgspec.Struct, frozen=True):
    """One of the two releases."""

    name: str
    version: str
    rows: int


class Difference(msgspec.Struct):
    """How two releases differ.

    Attributes:
      old: the one compared with.
      new: the other.
      level: the highest of the splits'; ``patch`` if no row differs.
      suggested: the version that may follow the old one.
      contradiction: why the new one's number cannot; empty if it can.
      splits: those that differ.
      files: those that differ.
    """

    old: Side
    new: Side
    level: str
    suggested: str
    contradiction: str
    splits: list[SplitDifference]
    files: FileDifference


# Versions.


def bumped(version: str, level: str) -> str:
    """Returns the next version at a level: ``bumped("1.2.3", "minor") == "1.3.0"``."""
    major, minor, patch = parse_version(version)
    if level == "major":
        return f"{major + 1}.0.0"
    return f"{major}.{minor + 1}.0" if level == "minor" else f"{major}.{minor}.{patch + 1}"


def level_between(old: str, new: str) -> str:
    """Returns the level at which ``new`` follows ``old``; empty if it does not follow."""
    before, after = parse_version(old), parse_version(new)
    if after <= before:
        return ""
    changed = next(i for i in range(3) if after[i] != before[i])
    return _ORDER[2 - changed]


def contradiction(old: str, new: str, level: str) -> str:
    """Says why a version number cannot follow another, given the level that the data requires; empty if it can."""
    given = level_between(old, new)
    if not given:
        return f"version {new} does not come after {old}"
    if _ORDER.index(given) < _ORDER.index(level):
        return f"{new} is a {given} version after {old}, but the data has changed at the {level} level"
    return ""


# Rows.


def damage(release: Release, quick: bool) -> list[str]:
    """Says what in a release is not as its manifest says; with ``quick`` compares sizes, not hashes."""
    findings = Findings()
    sizes = {}
    for file in release.manifest.files if quick else ():
        if (place := release.root / file.path).is_file():
            sizes[file.path] = (file.sha256, place.stat().st_size)
    check_files(release.root, release.manifest, findings, sizes)
    return [str(finding) for finding in findings.listed()]


def compare(old: Release, new: Release) -> Difference:
    """Compares two releases whose files are known to be those of their manifests; only ``data/`` need be there.

    Raises:
      InputError: a Parquet file cannot be read, or a version is none.
    """
    places = dict.fromkeys(
        (name, split)
        for release in (old, new)
        for name, config in release.manifest.configs.items()
        for split in config.splits
    )
    compared = (_compare_split(old, new, *place) for place in places)
    splits = [difference for difference in compared if difference is not None]
    level = max((difference.level for difference in splits), key=_ORDER.index, default="patch")
    versions = (old.manifest.version, new.manifest.version)
    try:
        suggested, wrong = bumped(versions[0], level), contradiction(*versions, level)
    except ValueError:
        raise InputError(f"{' and '.join(versions)}: a version is MAJOR.MINOR.PATCH", new.root, "version") from None
    before, after = (
        {file.path: file.sha256 for file in release.manifest.files if file.rows is None} for release in (old, new)
    )
    files = FileDifference(
        sorted(after.keys() - before.keys()),
        sorted(before.keys() - after.keys()),
        sorted(path for path in before.keys() & after.keys() if before[path] != after[path]),
    )
    return Difference(_side(old.manifest), _side(new.manifest), level, suggested, wrong, splits, files)


def _side(manifest: Manifest) -> Side:
    return Side(manifest.name, manifest.version, manifest.rows)


def changes_of(difference: Difference) -> Changes:
    """Returns the difference as the newer release's manifest keeps it."""
    changes = []
    for split in difference.splits:
        numbers = (split.added, split.removed, split.changed)
        names = ([column.name for column in columns] for columns in (split.columns_added, split.columns_removed))
        changes.append(SplitChange(split.config, split.split, split.level, *numbers, *names))
    return Changes(difference.level, changes)


def _compare_split(old: Release, new: Release, name: str, split: str) -> SplitDifference | None:
    """Returns the difference of one split; None if there is none."""
    before, after = old.manifest.configs.get(name), new.manifest.configs.get(name)
    if before is None or split not in before.splits:
        rows = new.manifest.configs[name].splits[split].rows
        return SplitDifference(name, split, "new", "minor", added=rows)
    if after is None or split not in after.splits:
        return SplitDifference(name, split, "gone", "major", removed=before.splits[split].rows)
    difference = _compare_columns(name, split, before, after)
    if before.splits[split].logical_sha256 == after.splits[split].logical_sha256 and difference.level == "patch":
        return None
    if difference.new_key:  # rows that other columns identify are other rows
        difference.removed, difference.added = before.splits[split].rows, after.splits[split].rows
    else:
        of_new_corpora = _compare_rows(
            difference, old, new, [column for column in _types(before) if column in _types(after)]
        )
        if of_new_corpora and difference.level == "patch":
            difference.level = "minor"
        if difference.added == of_new_corpora and not difference.removed and not difference.changed:
            return None if difference.level == "patch" else difference
    difference.level = "major"
    return difference


def _types(config: Config) -> dict[str, str]:
    return {column.name: plain_type(column.type) for column in config.columns}


def _compare_columns(name: str, split: str, before: Config, after: Config) -> SplitDifference:
    old, new = _types(before), _types(after)
    difference = SplitDifference(name, split, "changed", "patch")
    difference.columns_added = [column for column in after.columns if old.get(column.name) != new[column.name]]
    difference.columns_removed = [column for column in before.columns if new.get(column.name) != old[column.name]]
    difference.new_key = after.key if after.key != before.key else []
    if difference.columns_removed or difference.new_key:
        difference.level = "major"
    elif difference.columns_added:
        difference.level = "minor"
    return difference


def _compare_rows(difference: SplitDifference, old: Release, new: Release, common: Sequence[str]) -> int:
    """Fills in the rows that were added, removed and changed, compared in the columns that both releases have.

    Returns:
      How many of those added are services of corpora that the old release does not have: these come into existing
      splits of ``schemas`` and change nothing about the other rows.
    """
    place, config = (difference.config, difference.split), old.manifest.configs[difference.config]
    key = config.key
    if not set(key) <= set(common):
        raise InputError(f"has no column for its key {', '.join(key)}", old.root / MANIFEST, f"configs.{place[0]}")
    corpora = [set(release.manifest.counts.get("services", {})) for release in (old, new)]
    new_corpora = corpora[1] - corpora[0] if config.record == "service" else set()
    of_new_corpora = 0
    digests = {_hash(key_text(row, key).encode()): _hash(row_json(row)) for row in old.rows(*place, common)}
    added, removed, changed = dict[str, list[str]](), dict[str, list[str]](), dict[str, list[str]]()
    for row in new.rows(*place, common):
        text = key_text(row, key)
        before = digests.pop(_hash(text.encode()), None)
        if before is None:
            added[text] = _key(row, key)
            of_new_corpora += bool(new_corpora) and row["variant"] in new_corpora
        elif before != _hash(row_json(row)):
            changed[text] = _key(row, key)
    for row in old.rows(*place, key) if digests else ():
        if _hash((text := key_text(row, key)).encode()) in digests:
            removed[text] = _key(row, key)
    difference.added, difference.removed, difference.changed = len(added), len(removed), len(changed)
    difference.added_keys = [added[text] for text in sorted(added)[:MOST]]
    difference.removed_keys = [removed[text] for text in sorted(removed)[:MOST]]
    shown = sorted(changed)[:MOST]
    of_old, of_new = (
        {text: row for row in release.rows(*place, common) if (text := key_text(row, key)) in shown} if shown else {}
        for release in (old, new)
    )
    difference.changed_rows = [
        RowChange(changed[text], [name for name in common if of_old[text][name] != of_new[text][name]])
        for text in shown
    ]
    return of_new_corpora


def _key(row: dict[str, object], key: Sequence[str]) -> list[str]:
    return [str(row[name]) for name in key]


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


# Text.


def diff_lines(difference: Difference) -> Iterator[str]:
    """Returns the difference in lines, the advice on the version number last."""
    yield from map(printable, _lines(difference))


def _lines(difference: Difference) -> Iterator[str]:
    old, new, files = difference.old, difference.new, difference.files
    yield f"{old.name} {old.version} -> {new.name} {new.version}"
    for split in difference.splits:
        yield ""
        yield f"{split.config}/{split.split}: {_summary(split)} ({split.level})"
        yield from (f"  {line}" for line in _split_lines(split))
    if files.added or files.removed or files.changed:
        yield ""
        yield "files, without Parquet"
        for sign, paths in (("+", files.added), ("-", files.removed), ("~", files.changed)):
            yield from (f"  {sign} {path}" for path in paths)
    yield ""
    level = difference.level
    if old == new and not difference.splits and not any(map(len, msgspec.structs.astuple(files))):
        yield "nothing differs"
        return
    yield f"level: {level} ({LEVELS[level]}); the next version after {old.version} is {difference.suggested}"
    if old.name != new.name:
        yield f"these are two datasets: {old.name} and {new.name}"
    elif difference.contradiction:
        yield f"the version number is wrong: {difference.contradiction}"
    else:
        yield f"{new.version} fits that level"


def _summary(split: SplitDifference) -> str:
    if split.state != "changed":
        return f"the split is {split.state}, {counted(split.added or split.removed, 'row')}"
    if not (split.added or split.removed or split.changed):
        return "rows are the same in the columns of both"
    return f"{split.added:,} added, {split.removed:,} removed, {split.changed:,} changed"


def _split_lines(split: SplitDifference) -> Iterator[str]:
    yield from (f"+ column {column.name} ({column.type})" for column in split.columns_added)
    yield from (f"- column {column.name} ({column.type})" for column in split.columns_removed)
    if split.new_key:
        yield f"~ rows are now identified by {', '.join(split.new_key)}"
    if split.state != "changed":
        return
    for sign, n, keys in (("+", split.added, split.added_keys), ("-", split.removed, split.removed_keys)):
        yield from (f"{sign} {'/'.join(key)}" for key in keys)
        yield from [f"{sign} and {n - len(keys):,} more"] if n > len(keys) else []
    yield from (f"~ {'/'.join(row.key)}: {', '.join(row.columns)}" for row in split.changed_rows)
    if split.changed > len(split.changed_rows):
        yield f"~ and {split.changed - len(split.changed_rows):,} more"


def overview(manifest: Manifest) -> dict[str, Any]:
    """Returns what is shown of a release, as JSON has it."""
    fields = msgspec.to_builtins(manifest)
    shown = {name: fields[name] for name in ("name", "version", "title", "licence", "created", "homepage")}
    shown |= {
        "authors": [author.name for author in manifest.authors],
        "parent": manifest.parent.version if manifest.parent else None,
        "level": manifest.changes.level if manifest.changes else None,
        "files": len(manifest.files),
        "bytes": manifest.size,
        "rows": manifest.rows,
        "configs": {
            name: {
                "kind": config.kind,
                "record": config.record,
                "key": config.key,
                "splits": {split: info.rows for split, info in config.splits.items()},
            }
            for name, config in manifest.configs.items()
        },
    }
    return shown | {name: fields[name] for name in ("counts", "sources", "dispositions", "known_problems")}


def release_lines(manifest: Manifest) -> Iterator[str]:
    """Yields a release in lines."""
    yield from map(printable, _release_lines(manifest))


def _release_lines(manifest: Manifest) -> Iterator[str]:
    yield f"{manifest.name} {manifest.version}" + (f": {manifest.title}" if manifest.title != manifest.name else "")
    level = f", a {manifest.changes.level} change" if manifest.changes else ""
    facts = {
        "licence": manifest.licence,
        "created": manifest.created,
        "authors": ", ".join(author.name for author in manifest.authors),
        "homepage": manifest.homepage,
        "follows": manifest.parent.version + level if manifest.parent else "",
        "size": f"{size(manifest.size)} in {len(manifest.files):,} files, {manifest.rows:,} rows",
        "answers": ", ".join(f"{name} {n:,}" for name, n in manifest.dispositions.items()),
        "problems": ", ".join(f"{name} {n:,}" for name, n in manifest.known_problems.items()),
    }
    yield from _aligned([[name, fact] for name, fact in facts.items() if fact], numbers=0)
    yield ""
    rows = [["configuration", "kind", *manifest.splits]]
    for name, config in manifest.configs.items():
        of_split = (config.splits[split].rows if split in config.splits else None for split in manifest.splits)
        rows.append([name, config.kind, *map(number, of_split)])
    yield from _aligned(rows, numbers=len(manifest.splits))
    counts = {what: manifest.counts.get(what, {}) for what in COUNTED}
    rows = [["corpus", "split", *COUNTED]]
    for corpus in dict.fromkeys(corpus for corpora in counts.values() for corpus in corpora):
        for split in in_order({split for corpora in counts.values() for split in corpora.get(corpus, {})}):
            rows.append([corpus, split, *(number(counts[what].get(corpus, {}).get(split)) for what in COUNTED)])
    if len(rows) > 1:
        yield ""
        yield from _aligned(rows, numbers=len(COUNTED))
    if manifest.sources:
        yield ""
        yield "sources"
        yield from (f"  {source.title}, {source.licence}, {source.url}" for source in manifest.sources)


def size(n: int) -> str:
    """Returns bytes in the unit that suits them: ``1.2 MB``."""
    scaled = float(n)
    for unit in ("bytes", "kB", "MB", "GB"):
        if scaled < 1000 or unit == "GB":
            break
        scaled /= 1000
    return f"{n:,} bytes" if unit == "bytes" else f"{scaled:,.1f} {unit}"


def _aligned(rows: Sequence[Sequence[str]], numbers: int) -> Iterator[str]:
    """Yields a table as lines, columns two spaces apart; the last ``numbers`` of them to the right."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    text_columns = len(widths) - numbers
    for row in cells:
        padded = [
            cell.ljust(width) if i < text_columns else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(padded).rstrip()


class Dataset(msgspec.Struct):
    """The versions of a dataset, in their order, and the one that ``latest.json`` names."""

    name: str
    latest: str
    versions: list[Manifest]


def read_dataset(folder: Path) -> Dataset:
    """Reads the versions in a dataset's folder.

    Raises:
      InputError: there is no such folder, there is no release in it, or one cannot be read.
    """
    if not folder.is_dir():
        raise InputError("there is no such folder", folder)
    versions = [read_manifest(folder / version) for version in versions_of(folder, MANIFEST)]
    if not versions:
        raise InputError(f"is no release: there is no {MANIFEST} here, and none in a folder of a version", folder)
    return Dataset(versions[-1].name, latest_version(folder), versions)


def dataset_overview(dataset: Dataset) -> dict[str, Any]:
    """Returns the versions, as JSON has them."""
    return {"name": dataset.name, "latest": dataset.latest, "versions": list(map(overview, dataset.versions))}


def dataset_lines(dataset: Dataset) -> Iterator[str]:
    """Yields the versions in lines."""
    yield printable(f"{dataset.name}, latest {dataset.latest or 'not named'}")
    yield ""
    rows = [["version", "created", "licence", "level", "rows", "size"]]
    for manifest in dataset.versions:
        level = manifest.changes.level if manifest.changes else "first"
        cells = [manifest.version, manifest.created or "–", manifest.licence, level]
        rows.append([*cells, f"{manifest.rows:,}", size(manifest.size)])
    yield from _aligned(rows, numbers=2)
