"""A difference of two releases as text for a terminal, and as a page."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from parapet.transforms.release.diff.compare import Difference, FileDifference, RowChange, SplitDifference
from parapet.transforms.release.diff.differences import printable
from parapet.transforms.release.documents.changelog import LEVELS
from parapet.transforms.report import Report, Section, Table, Text, Tile, page
from parapet.transforms.text import counted, number

_SIGNS = {"+": "new", "-": "removed", "~": "changed"}


def diff_lines(difference: Difference) -> Iterator[str]:
    """The difference in lines, the advice on the version number last."""
    old, new = difference.old, difference.new
    yield printable(f"{old.name} {old.version} -> {new.name} {new.version}")
    for one in difference.splits:
        yield ""
        yield printable(f"{one.config}/{one.split}: {_said(one)} ({one.level})")
        yield from (f"  {printable(line)}" for line in _split_lines(one))
    if files := _file_lines(difference.files):
        yield ""
        yield "files, without Parquet"
        yield from (f"  {printable(line)}" for line in files)
    if difference.problems:
        yield ""
        yield "not as the manifests say ('parapet release verify' says more)"
        yield from (f"  {printable(line)}" for line in difference.problems)
    yield ""
    yield from map(printable, advice(difference))


def advice(difference: Difference) -> list[str]:
    """What the version number should be, and whether it can be what it is."""
    old, new, level = difference.old, difference.new, difference.level
    level_line = f"level: {level} ({LEVELS[level]}); the next version after {old.version} is {difference.suggested}"
    if difference.problems:
        return [f"{counted(len(difference.problems), 'problem')}: what differs may be more than this"]
    if old == new and not difference.splits and not any(map(len, msgspec.structs.astuple(difference.files))):
        return ["nothing differs"]
    if old.name != new.name:
        return [level_line, f"these are two datasets: {old.name} and {new.name}"]
    if difference.contradiction:
        return [level_line, f"the version number is wrong: {difference.contradiction}"]
    return [level_line, f"{new.version} fits that level"]


def _said(one: SplitDifference) -> str:
    if one.state != "changed":
        return f"the split is {one.state}, {counted(one.added or one.removed, 'row')}"
    if not (one.added or one.removed or one.changed):
        return "rows are the same in the columns of both"
    return f"{one.added:,} added, {one.removed:,} removed, {one.changed:,} changed"


def _split_lines(one: SplitDifference) -> Iterator[str]:
    yield from _column_lines(one)
    for sign, n, keys in (("+", one.added, one.added_keys), ("-", one.removed, one.removed_keys)):
        if one.state == "changed":
            yield from (f"{sign} {key_name(key)}" for key in keys)
            yield from _more(sign, n - len(keys))
    for row in one.changed_rows:
        yield f"~ {key_name(row.key)}"
        yield from (f"    {line}" for line in _places(row))
    yield from _more("~", one.changed - len(one.changed_rows))


def _column_lines(one: SplitDifference) -> list[str]:
    lines = [f"+ column {column.name} ({column.type})" for column in one.columns_added]
    lines += [f"- column {column.name} ({column.type})" for column in one.columns_removed]
    lines += [f"~ column {column.name}: {column.old} -> {column.new}" for column in one.columns_retyped]
    lines += [f"~ rows are now identified by {', '.join(one.new_key)}"] if one.new_key else []
    return lines


def _places(row: RowChange) -> list[str]:
    return [f"{place.path}: {place.old} -> {place.new}" for place in row.places]


def _more(sign: str, n: int) -> list[str]:
    return [f"{sign} and {n:,} more"] if n > 0 else []


def key_name(key: list[str]) -> str:
    """A key as text."""
    return printable("/".join(key))


def _file_lines(files: FileDifference) -> list[str]:
    return (
        [f"+ {path}" for path in files.added]
        + [f"- {path}" for path in files.removed]
        + [f"~ {path}" for path in files.changed]
    )


def diff_page(difference: Difference) -> str:
    """The difference as a page that needs nothing from the network."""
    old, new, splits = difference.old, difference.new, difference.splits
    names = f"{old.name} {old.version} → {new.version}"
    if old.name != new.name:
        names = f"{old.name} {old.version} → {new.name} {new.version}"
    verdict, *warnings = advice(difference)
    tiles = [
        Tile(label, number(sum(getattr(one, field) for one in splits)))
        for field, label in (("added", "rows added"), ("removed", "rows removed"), ("changed", "rows changed"))
    ]
    tiles.append(Tile("splits that differ", number(len(splits))))
    tiles.append(Tile(f"next version after {old.version}", difference.suggested))
    sections: list[Section] = []
    if splits:
        rows = [
            [f"{one.config}/{one.split}", one.level, number(one.added), number(one.removed), number(one.changed)]
            for one in splits
        ]
        columns = ["split", "level", "added", "removed", "changed"]
        sections.append(Table(title="By split", columns=columns, rows=rows, text_columns=2))
    sections += [section for one in splits for section in _split_sections(one)]
    if lines := _file_lines(difference.files):
        files = [[_SIGNS[line[0]], line[2:]] for line in lines]
        note = "Documents and JSON files, compared by their hashes; Parquet files are compared by rows."
        sections.append(Table(title="Files", note=note, columns=["change", "path"], rows=files, text_columns=2))
    if difference.problems:
        sections.append(Text(title="Not as the manifests say", paragraphs=difference.problems))
    return page(
        Report(
            command="release diff",
            title=f"{names}: differences",
            headline=names,
            lead=f"{_lead(difference)} {_sentence(verdict)}",
            tiles=tiles,
            notes=[_sentence(one) for one in warnings] if difference.contradiction or old.name != new.name else [],
            sections=[
                *sections,
                Text(title="For programs", paragraphs=["See `parapet release diff --json`."]),
            ],
        )
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _lead(difference: Difference) -> str:
    if not difference.splits:
        return "The rows of the two releases are the same."
    return f"The change is {difference.level}: {LEVELS[difference.level]}."


def _split_sections(one: SplitDifference) -> Iterator[Section]:
    name = f"{one.config}/{one.split}"
    paragraphs = [_sentence(_said(one)), *map(_sentence, _column_lines(one))]
    for what, n, keys in (("Added", one.added, one.added_keys), ("Removed", one.removed, one.removed_keys)):
        if keys:
            rest = f", and {n - len(keys):,} more" if one.state == "changed" and n > len(keys) else ""
            paragraphs.append(f"{what}: {', '.join(map(key_name, keys))}{rest}.")
    yield Text(title=name, paragraphs=paragraphs)
    if one.changed_rows:
        more = one.changed - len(one.changed_rows)
        yield Table(
            title=f"Changed rows of {name}",
            note=f"The first {len(one.changed_rows):,}; {more:,} more changed." if more > 0 else "",
            columns=["row", "place", "old", "new"],
            rows=[
                [key_name(row.key) if i == 0 else "", place.path, place.old, place.new]
                for row in one.changed_rows
                for i, place in enumerate(row.places)
            ],
            text_columns=4,
        )
