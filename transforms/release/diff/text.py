"""A difference of two releases as text for a terminal, and as a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from parapet.transforms.pages import render
from parapet.transforms.release.diff.compare import Difference, FileDifference, RowChange, SplitDifference
from parapet.transforms.release.diff.differences import printable

_LEVELS = {
    "major": "rows, columns or splits that were there are others now, or gone",
    "minor": "what was there is the same, and something came",
    "patch": "the rows are the same",
}
_STYLES = {"major": "rejected", "minor": "review", "patch": "used"}


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
    yield ""
    yield from map(printable, advice(difference))


def advice(difference: Difference) -> list[str]:
    """What the version number should be, and whether it can be what it is."""
    old, new, level = difference.old, difference.new, difference.level
    said = f"level: {level} ({_LEVELS[level]}); after {old.version} may follow {difference.suggested}"
    if old == new and not difference.splits and not any(map(len, msgspec.structs.astuple(difference.files))):
        return ["nothing differs"]
    if old.name != new.name:
        return [said, f"these are two datasets: {old.name} and {new.name}"]
    if difference.contradiction:
        return [said, f"the version number is wrong: {difference.contradiction}"]
    return [said, f"the version number {new.version} is right"]


def _said(one: SplitDifference) -> str:
    if one.state != "changed":
        return f"the split is {one.state}, {_rows(one.added or one.removed)}"
    if not (one.added or one.removed or one.changed):
        return "rows are the same in the columns of both"
    return f"{one.added:,} added, {one.removed:,} removed, {one.changed:,} changed"


def _rows(n: int) -> str:
    return f"{n:,} row" if n == 1 else f"{n:,} rows"


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
    lines += [f"~ rows are told apart by {', '.join(one.new_key)} now"] if one.new_key else []
    return lines


def _places(row: RowChange) -> list[str]:
    return [f"{place.path}: {place.old} -> {place.new}" for place in row.places]


def _more(sign: str, n: int) -> list[str]:
    return [f"{sign} and {n:,} more"] if n > 0 else []


def key_name(key: list[str]) -> str:
    """A key as it is told."""
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
        {"what": what, "value": f"{sum(getattr(one, field) for one in splits):,}"}
        for field, what in (("added", "rows added"), ("removed", "rows removed"), ("changed", "rows changed"))
    ]
    tiles.append({"what": "splits that differ", "value": f"{len(splits):,}"})
    tiles.append({"what": f"next version after {old.version}", "value": difference.suggested})
    return render(
        "release_diff.html.jinja",
        title=f"{names}: differences",
        brand="release diff",
        headline=names,
        lead=_lead(difference),
        tiles=tiles,
        warnings=[_sentence(one) for one in warnings] if difference.contradiction or old.name != new.name else [],
        verdict=_sentence(verdict),
        splits=[_split_section(one) for one in splits],
        files=[{"sign": line[0], "path": line[2:]} for line in _file_lines(difference.files)],
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _lead(difference: Difference) -> str:
    if not difference.splits:
        return "The rows of the two releases are the same."
    return f"The change is {difference.level}: {_LEVELS[difference.level]}."


def _split_section(one: SplitDifference) -> dict[str, Any]:
    changed = one.state == "changed"
    return {
        "name": f"{one.config}/{one.split}",
        "level": one.level,
        "style": _STYLES[one.level],
        "said": _said(one),
        "columns": _column_lines(one),
        "added": [key_name(key) for key in one.added_keys],
        "more_added": one.added - len(one.added_keys) if changed else 0,
        "removed": [key_name(key) for key in one.removed_keys],
        "more_removed": one.removed - len(one.removed_keys) if changed else 0,
        "changed": [{"key": key_name(row.key), "places": row.places} for row in one.changed_rows],
        "more_changed": one.changed - len(one.changed_rows),
        "numbers": [f"{n:,}" for n in (one.added, one.removed, one.changed)],
    }
