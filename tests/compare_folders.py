"""Folders as ``parapet evaluate`` writes them, small enough to check by hand."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from kit import write

from parapet.evaluation.results import RESULTS, VARIANTS, ResultRow, results_bytes, results_of
from parapet.evaluation.task import rows_bytes

JGA = "joint_goal_accuracy"
KEYS = [("a", "d0", 0), ("a", "d1", 0), ("b", "d0", 2)]
SERVICES = ("Inns_1", "Cabs_1")  # the first is seen


def intents(
    folder: Path, metrics: Mapping[str, Any], right: Sequence[float | None], keys: Any = KEYS, **options: Any
) -> str:
    """What ``evaluate --task intent`` writes."""
    write(folder / "rows.parquet", rows_bytes(keys, {"accuracy": right}))
    return groups(folder, "intent", metrics, **options)


def intent_metrics(a: float, b: float, both: float, f1: float | None = 0.5) -> dict[str, Any]:
    """Metrics of two sets, a and b."""
    values = {"#ALL": both, "a": a, "b": b, "#MEAN": (a + b) / 2}
    return {name: {"accuracy": value, "macro_f1": f1} for name, value in values.items()}


def groups(folder: Path, task: str, metrics: Mapping[str, Any], named: Mapping[str, str] = {}, **options: Any) -> str:
    """What a task without rows writes; ``named`` has the keys that are groups of services."""
    return table(folder, task, results_of(task, metrics, {}, named), **options)


def table(folder: Path, task: str, rows: Sequence[ResultRow], **options: Any) -> str:
    """Writes the numbers of a task."""
    write(folder / RESULTS, results_bytes(rows))
    write(folder / "run.json", {"pipeline": f"evaluate_{task}", "options": options, "files": {}})
    return str(folder)


def states(folder: Path, sets: Mapping[str, Sequence[float]], **options: Any) -> str:
    """What ``evaluate --task dst`` writes: of each set the joint goal accuracy of its frames.

    Frame i is of dialogue i // 2, and by turns of a service that train has and one that it has not.
    """
    variants = [name for name in sets if name[0] == "v" and name[1:].isdigit()]
    numbers: list[ResultRow] = []
    for name, values in sets.items():
        suffix = name[1:] if name in variants else ""
        rows = [
            {"set": name, "dialogue_id": f"d{i // 2}", "turn": 2 * (i % 2), "frame": 0,
             "service": SERVICES[i % 2] + suffix, "original_service": SERVICES[i % 2], "seen": i % 2 == 0, JGA: value}
            for i, value in enumerate(values)
        ]  # fmt: skip
        (folder / "rows" / name).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), folder / "rows" / name / "dialogues_001.parquet")
        numbers += [ResultRow("", "dst", name, group, JGA, mean(values[at])) for group, at in GROUPS.items()]
    for group, at in GROUPS.items() if len(variants) > 1 else ():
        values = [sets[name][at] for name in variants]
        numbers.append(ResultRow("", "dst", VARIANTS, group, JGA, mean([*map(mean, values)])))
        numbers.append(ResultRow("", "dst", VARIANTS, group, "schema_sensitivity", sensitivity(values)))
    return table(folder, "dst", numbers, variants=variants, **options)


SEEN, UNSEEN = slice(0, None, 2), slice(1, None, 2)
GROUPS = {"all": slice(None), "seen": SEEN, "unseen": UNSEEN, SERVICES[0]: SEEN, SERVICES[1]: UNSEEN}


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def sensitivity(variants: Sequence[Sequence[float]]) -> float:
    """SGD-X, equation 1, in plain Python; frames that are wrong under all variants count as 0."""
    columns = zip(*variants, strict=True)
    return mean([statistics.stdev(column) / mean(column) if any(column) else 0.0 for column in columns])
