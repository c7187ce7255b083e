"""The rows of an evaluation by dialogue: what paired tests and intervals resample."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parapet.evaluation.compare.results import JGA, SEEN, SENSITIVITY, UNSEEN, VARIANTS, WHOLE, Column, Outcome
from parapet.evaluation.dst.files import Scored
from parapet.evaluation.dst.frames import JOINT
from parapet.evaluation.dst.sensitivity import measured
from parapet.evaluation.lines import ALL
from parapet.evaluation.sets import ORIGINAL
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import open_path

# Of each dialogue the sum of a metric over its rows, and how many rows have it.
Sums = dict[str, tuple[float, int]]
# A number that is the mean over sets of the means over rows; of most, one set.
Parts = tuple[Sums, ...]

_KEYS = ("set", "dialogue_id", "turn")
_FRAMES = ("frame", "original_service", "seen")  # of task dst


class Rows(msgspec.Struct, frozen=True):
    """The rows of one outcome.

    Attributes:
      turns: of each set the turns that were scored: ``dialogue_id``, ``turn``, and how many ``rows`` each has.
      parts: the sums by dialogue of those numbers that are means of rows. The others (a macro-F1, BLEU, a joint
        accuracy by turn) are not here.
    """

    turns: dict[str, pa.Table]
    parts: dict[Column, Parts]


def read_rows(outcome: Outcome, columns: Iterable[Column]) -> Rows | None:
    """Reads the rows of an outcome. None where it has none.

    Args:
      outcome: the folder.
      columns: whose sums are wanted.

    Raises:
      InputError: rows that cannot be read.
    """
    if outcome.pieces:
        return _rows_of_pieces(outcome, columns)
    numbers = outcome.numbers
    wanted = [column for column in columns if numbers.get(column) is not None]
    metrics = sorted({column.metric for column in wanted})
    table = _read(outcome, metrics)
    if table is None:
        return None
    there = [metric for metric in metrics if metric in table.column_names]
    sums = _sums(table, outcome.task, there, {column.group for column in wanted})
    if SENSITIVITY in metrics:
        sums |= _coefficients(table, outcome)
    parts: dict[Column, Parts] = {}
    for column in wanted:
        members = [column]
        if column.set == VARIANTS and column.metric != SENSITIVITY:
            members = [msgspec.structs.replace(column, set=name) for name in outcome.variants]
        found = tuple(sums.get(member, {}) for member in members)
        if _is_mean(found, numbers[column]):
            parts[column] = found
    return Rows(_turns(table), parts)


def _rows_of_pieces(outcome: Outcome, columns: Iterable[Column]) -> Rows | None:
    """The rows of all pieces: a number that is the mean over domains has the parts of each."""
    origins = {column: outcome.origins[column] for column in columns if column in outcome.origins}
    read = [
        read_rows(piece, [one for of in origins.values() for at, one in of if at == i])
        for i, piece in enumerate(outcome.pieces)
    ]
    turns: dict[str, list[pa.Table]] = {}
    for rows, names in zip(read, outcome.set_names, strict=True):
        for name, table in rows.turns.items() if rows else ():
            merged = names.get(name) or (names.get(ALL) if not name else None)  # what has no sets has one
            if merged is not None:
                turns.setdefault(merged, []).append(table)
    parts: dict[Column, Parts] = {}
    for column, of in origins.items():
        found = [rows.parts.get(one, ()) if (rows := read[i]) else () for i, one in of]
        if all(found):
            parts[column] = tuple(part for each in found for part in each)
    order = [("dialogue_id", "ascending"), ("turn", "ascending")]
    return Rows({name: pa.concat_tables(of).sort_by(order) for name, of in turns.items()}, parts) if turns else None


def _is_mean(parts: Parts, value: float | None) -> bool:
    """Whether the rows average to the number."""
    found = [(math.fsum(total for total, _ in sums.values()), sum(n for _, n in sums.values())) for sums in parts]
    if value is None or not found or not all(rows for _, rows in found):
        return False
    mean = math.fsum(total / rows for total, rows in found) / len(found)
    return math.isclose(mean, value, rel_tol=1e-9, abs_tol=1e-12)


def _read(outcome: Outcome, metrics: Iterable[str]) -> pa.Table | None:
    """``rows.parquet``, or all Parquet files below ``rows``, of the sets of the outcome."""
    folder = as_path(outcome.path)
    single = folder / "rows.parquet"
    paths = [single] if single.is_file() else sorted(folder.glob("rows/**/*.parquet"))
    wanted = {*_KEYS, *_FRAMES, *metrics, JGA}
    tables = []
    for path in paths:
        try:
            with open_path(path) as handle:
                file = pq.ParquetFile(handle)
                table = file.read([name for name in file.schema_arrow.names if name in wanted])
            table.validate(full=True)  # a text may be no UTF-8
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"cannot be read as Parquet: {error}", path) from None
        lacking = [name for name in _KEYS if name not in table.column_names]
        if lacking:
            raise InputError(f"has no column {lacking[0]!r}: these are no rows of 'parapet evaluate'", path)
        tables.append(table)
    if not tables:
        return None
    table = pa.concat_tables(tables)
    named = [name for name in outcome.sets if not name.startswith("#")]
    # What has no sets has one, whose name is empty or that of the split.
    return table.filter(pc.is_in(table["set"], pa.array(["", *named]))) if named else table


def _sums(table: pa.Table, task: str, metrics: Sequence[str], wanted: Set[str]) -> dict[Column, Sums]:
    """The sums of metrics by dialogue, for each set, all sets together, each group of services and wanted domain."""
    found: dict[Column, Sums] = {}
    groups = [name for name in ("seen", "original_service") if name in table.column_names]
    services = table["original_service"].to_pylist() if "original_service" in table.column_names else []
    if services and (others := wanted - {WHOLE, SEEN, UNSEEN} - set(services)):  # domains that are no services
        names = [domain if (domain := service.split("_")[0]) in others else None for service in services]
        table = table.append_column("domain", pa.array(names, pa.string()))
        groups.append("domain")
    for metric in metrics:
        rows = table.filter(pc.is_valid(table[metric]))
        for group in [None, *groups]:
            keys = ["set", "dialogue_id", *([group] if group else [])]
            grouped = _grouped(rows, keys, [(metric, "sum"), (metric, "count")])
            for name, dialogue, *of, total, n in zip(*(column.to_pylist() for column in grouped.columns), strict=True):
                if group == "domain" and of[0] is None:
                    continue
                of_group = _group(of[0]) if of else WHOLE
                found.setdefault(Column(task, name, metric, of_group), {})[dialogue] = (total, n)
                together = found.setdefault(Column(task, ALL, metric, of_group), {})
                before = together.get(dialogue, (0.0, 0))
                together[dialogue] = (before[0] + total, before[1] + n)
    return found


def _grouped(table: pa.Table, keys: list[str], aggregations: list[tuple[str, str]]) -> pa.Table:
    """One row a key, in order of the keys; on one thread, for sums of floats depend on the order."""
    grouped = pa.TableGroupBy(table, keys, use_threads=False).aggregate(aggregations)
    columns = [*keys, *(f"{name}_{function}" for name, function in aggregations)]
    return grouped.select(columns).sort_by([(key, "ascending") for key in keys])


def _group(value: bool | str | None) -> str:
    return value if isinstance(value, str) else SEEN if value else UNSEEN


def _turns(table: pa.Table) -> dict[str, pa.Table]:
    grouped = _grouped(table, list(_KEYS), [("turn", "count")]).rename_columns([*_KEYS, "rows"])
    names = pc.unique(grouped["set"]).to_pylist()
    return {name: grouped.filter(pc.equal(grouped["set"], name)).drop_columns(["set"]) for name in names}


def _coefficients(table: pa.Table, outcome: Outcome) -> dict[Column, Sums]:
    """The coefficients of variation over the variants by dialogue, as ``parapet.evaluation.dst.sensitivity`` has them.

    Nothing where the variants do not have the same frames.
    """
    if not {*_FRAMES, JGA} <= set(table.column_names) or len(outcome.variants) < 2:
        return {}
    order = [("dialogue_id", "ascending"), ("turn", "ascending"), ("frame", "ascending")]
    of_sets = [table.filter(pc.equal(table["set"], name)).sort_by(order) for name in outcome.variants]
    common = set.intersection(*(set(pc.unique(of["dialogue_id"]).to_pylist()) for of in of_sets))
    of_sets = [of.filter(pc.is_in(of["dialogue_id"], pa.array(sorted(common)))) for of in of_sets]
    keys = [of.select(["dialogue_id", "turn", "frame"]).combine_chunks() for of in of_sets]
    if not common or any(not one.equals(keys[0]) for one in keys[1:]):
        return {}
    original = table.filter(pc.equal(table["set"], ORIGINAL))
    is_seen = dict(zip(original["original_service"].to_pylist(), original["seen"].to_pylist(), strict=True))

    def groups(service: str) -> list[str]:
        return [WHOLE, *([_group(is_seen[service])] if service in is_seen else []), service]

    def frames(of: pa.Table) -> list[Scored]:
        columns = (of[name].to_pylist() for name in ("dialogue_id", "turn", "frame", "original_service", JGA))
        unknown = (math.nan,) * JOINT  # the other metrics
        return [
            Scored(dialogue, turn, frame, service, "", (*unknown, math.nan if value is None else value), (), ("", ""))
            for dialogue, turn, frame, service, value in zip(*columns, strict=True)
        ]

    measures = measured([[frames(of) for of in of_sets]], groups)
    coefficients = measures["turn" if outcome.options.get("unit") == "turn" else "frame"]
    sums: dict[Column, Sums] = {}
    values, wrong = coefficients.values[:, JOINT].tolist(), coefficients.wrong[:, JOINT].tolist()
    for dialogue, names, value, is_wrong in zip(
        coefficients.dialogue_ids, coefficients.keys, values, wrong, strict=True
    ):
        if not math.isnan(value) and not (is_wrong and outcome.options.get("zero") == "drop"):
            for group in names:
                of_group = sums.setdefault(Column(outcome.task, VARIANTS, SENSITIVITY, group), {})
                total, n = of_group.get(dialogue, (0.0, 0))
                of_group[dialogue] = total + value, n + 1
    return sums


def check_same_turns(rows: Mapping[str, Rows], outcomes: Mapping[str, Outcome]) -> None:
    """Raises InputError where two systems were scored on different turns of a set.

    Args:
      rows: of each system, of one task.
      outcomes: the same systems' outcomes.
    """
    firsts: dict[str, str] = {}
    for name, theirs in rows.items():
        for of in [*theirs.turns, *(at for at in outcomes[name].sets if at not in theirs.turns and at[:1] != "#")]:
            first = firsts.setdefault(of, name)
            one, other = rows[first].turns.get(of), theirs.turns.get(of)
            if first == name or one is other is None or (one is not None and other is not None and one.equals(other)):
                continue
            ours, them = _listed(one), _listed(other)
            only = [f"{len(a - b):,} only for {who!r}" for a, b, who in ((ours, them, first), (them, ours, name))]
            dialogue, turn, _ = min(ours ^ them)
            reason = f"different turns{f' of set {of!r}' if of else ''} were scored: {', '.join(only)}; the first is "
            hint = f"turn {turn} of dialogue {dialogue!r}. Evaluate the systems on the same dialogues"
            raise InputError(reason + hint, outcomes[name].path)


def _listed(turns: pa.Table | None) -> set[tuple[Any, ...]]:
    return set() if turns is None else set(zip(*(column.to_pylist() for column in turns.columns), strict=True))
