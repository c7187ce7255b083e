"""``[[tables]]``: published tables, as the file has them, and as the page shows them beside our numbers."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from parapet.pipelines.suite.steps import Graph, Value, entry_of, place_of
from parapet.schemas.errors import InputError
from parapet.transforms import report
from parapet.transforms.text import number

SEED = "{seed}"  # in a text: it is repeated for each of the suite's seeds


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of published numbers.

    Attributes:
      name: of the row, such as the system.
      published: a number for each column, NaN where the paper has none; nothing where the row is ours alone.
      ours: where our numbers are: a JSON pointer into a file of a step, ``@STEP/FILE.json#/KEY/{column}``, or one for
        each column; empty where we have none. With ``{seed}`` in it, it is one for each seed.
      relative_to: where other numbers are, as ``ours``: the row shows the relative change from them.
      scale: what ours is multiplied by, such as 100 for a share; or one for each column.
      digits: decimal places, where they are not those of the table.
      needs: what must be given to get ours.
      fill: where our numbers are as the table's ``ours`` has it: the value of each of its ``{key}``.
    """

    name: str
    published: tuple[float, ...] = ()
    ours: str | tuple[str, ...] = ""
    relative_to: str | tuple[str, ...] = ""
    scale: float | tuple[float, ...] | None = None
    digits: int | None = None
    needs: str = ""
    fill: dict[str, str] = {}


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[[tables]]``: a published table, to be shown beside ours.

    Attributes:
      title: what it shows.
      source: where it was published.
      columns: the headings.
      rows: its rows.
      ours: of the rows with ``fill``.
      scale: of the rows that have none.
      digits: decimal places.
      note: a sentence on how the two compare.
    """

    title: str
    source: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    ours: str | tuple[str, ...] = ""
    scale: float | tuple[float, ...] = 1.0
    digits: Annotated[int, msgspec.Meta(ge=0, le=6)] = 1
    note: str = ""


def filled(value: Value, table: Mapping[str, Value]) -> Value:
    """A value with ``{key}`` replaced; a text that is nothing else becomes the value itself."""
    if isinstance(value, dict):
        return {key: filled(item, table) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, table) for item in value]
    if isinstance(value, str):
        for key, item in table.items():
            if value == f"{{{key}}}":
                return item
            value = value.replace(f"{{{key}}}", str(item))
    return value


def by_column(table: Table, place: str, error: Callable[[str, str], InputError]) -> Table:
    """The table, each of whose rows has ``ours``, ``relative_to`` and ``scale`` for each column.

    Args:
      table: as the file has it.
      place: of the table in the file.
      error: makes an error of a reason and a place. It is raised where lengths differ or a pointer is none.
    """
    size = len(table.columns)
    if not size:
        raise error("name at least one column", f"{place}.columns")
    keys = [column.replace("~", "~0").replace("/", "~1") for column in table.columns]

    def each(values: Any, where: str, what: str = "values") -> tuple[Any, ...]:
        values = values if isinstance(values, tuple) else (values,) * size
        if len(values) != size:
            raise error(f"{len(values)} {what} for {size} columns", where)
        return tuple(values)

    def pointers(values: tuple[str, ...], fill: Mapping[str, str], where: str) -> tuple[str, ...]:
        places = tuple(
            str(filled(value, {"column": key, **fill})) if value else ""
            for value, key in zip(values, keys, strict=True)
        )
        for pointer in places:
            if pointer and not re.fullmatch(r"@[^#]+#/.*", pointer):
                reason = f"{pointer!r}: expected @STEP/FILE.json#/KEY/KEY, a JSON pointer into a step's output"
                raise error(reason, where)
        return places

    ours, scale, rows = each(table.ours, f"{place}.ours"), each(table.scale, f"{place}.scale"), []
    for i, row in enumerate(table.rows):
        where = f"{place}.rows[{i}]"
        each(row.published or 0.0, f"{where}.published", "numbers")
        own = each(row.ours, f"{where}.ours")
        filling = bool(row.fill) and not row.ours
        rows.append(
            msgspec.structs.replace(
                row,
                ours=pointers(ours, row.fill, f"{where}.ours") if filling else pointers(own, {}, f"{where}.ours"),
                relative_to=pointers(each(row.relative_to, f"{where}.relative_to"), {}, f"{where}.relative_to"),
                scale=scale if row.scale is None else each(row.scale, f"{where}.scale"),
            )
        )
    return msgspec.structs.replace(table, rows=tuple(rows))


class Ours(NamedTuple):
    """A number of ours: over several seeds their mean, with the standard deviation (n - 1)."""

    value: float
    deviation: float | None = None


def beside_ours(table: Table, seeds: Sequence[str], graph: Graph, output: Path) -> report.Table:
    """A published table as the page has it: our number, in small print the paper's and the difference."""
    needs = {entry_of(entry.name): entry.needs for entry in graph.left_out}
    pointers = [pointer for row in table.rows for pointer in row.ours]
    compared = any(pointers)
    rows, lacking = [], []
    for row in table.rows:
        places = zip(row.ours, row.relative_to, row.scale, strict=True)  # type: ignore[arg-type]  # see by_column
        ours = [over_seeds(*place, seeds, output) for place in places]
        papers = [None if value != value else value for value in row.published or [float("nan")] * len(ours)]
        for pointer, value in zip(row.ours, ours, strict=True):
            if value is None:
                step = pointer.replace(SEED, seeds[0])[1:].partition("#")[0]
                lacking += [row.needs, needs.get(entry_of(step), "")]
        if any(value is not None for value in (*ours, *papers)):
            digits = table.digits if row.digits is None else row.digits
            rows.append([row.name, *(cell(*pair, digits, compared) for pair in zip(ours, papers, strict=True))])
    note = f"Ours; in small print the published number ({table.source}) and the difference."
    if not any(row.published for row in table.rows):
        note = f"Ours ({table.source})."
    elif not compared:
        note = f"The published numbers ({table.source})."
    if len(seeds) > 1 and any(SEED in pointer for pointer in pointers):
        note += f" ±: the standard deviation over {len(seeds)} seeds; the number is their mean."
    if table.note:
        note += f" {table.note}"
    if known := "; ".join(filter(None, dict.fromkeys(lacking))):
        note += f" What is missing needs {known}."
    return report.Table(title=table.title, columns=["", *table.columns], rows=rows, note=note, numbers_in="run.json")


def over_seeds(pointer: str, base: str, scale: float, seeds: Sequence[str], output: Path) -> Ours | None:
    """The mean over the seeds; None where a number of one of them is not there."""
    values = []
    for seed in seeds if SEED in f"{pointer}{base}" else seeds[:1]:
        value = pointed(pointer.replace(SEED, seed), output)
        if base and value is not None:
            other = pointed(base.replace(SEED, seed), output)
            value = value / other - 1 if other else None
        if value is None:
            return None
        values.append(value * scale)
    return Ours(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


def pointed(pointer: str, output: Path) -> float | None:
    """The number that ``@STEP/FILE.json#/KEY/KEY`` points to; None where there is none."""
    place, _, path = pointer.removeprefix("@").partition("#/")
    try:
        value = json.loads(Path(place_of(place, output)).read_bytes())
        for key in path.split("/"):
            key = key.replace("~1", "/").replace("~0", "~")
            value = value[int(key)] if isinstance(value, list) else value[key]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def cell(ours: Ours | None, paper: float | None, digits: int, compared: bool = True) -> str:
    """Our number, in small print the paper's and the difference; where none is compared, the paper's alone."""
    if not compared:
        return "–" if paper is None else number(paper, digits)
    shown = "–" if ours is None else number(ours.value, digits)
    if ours is not None and ours.deviation is not None:
        shown += f" ± {number(ours.deviation, digits)}"
    if paper is None:
        return shown
    # Adding 0 makes a difference of nothing positive.
    difference = "" if ours is None else f", {round(ours.value - paper, digits) + 0.0:+.{digits}f}".replace("-", "−")
    return f"{shown}\npaper {number(paper, digits)}{difference}"
