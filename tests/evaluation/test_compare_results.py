"""Leaderboards: what stands in them, and what cannot be compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from parapet.evaluation.compare.leaderboard import (
    Board,
    SignificanceConfig,
    Systems,
    files_of,
    heads,
    macro_average,
    untested,
)
from parapet.evaluation.compare.leaderboard import leaderboard as of_systems
from parapet.evaluation.compare.results import Column, Outcome, check_same_sets, columns_of, read_outcome
from parapet.evaluation.writing import rows_bytes
from parapet.schemas.errors import InputError

KEYS = [("a", "d0", 0), ("a", "d1", 0), ("b", "d0", 2)]


def write(
    folder: Path, metrics: Mapping[str, Any], right: Sequence[float | None], keys: Any = KEYS, **options: Any
) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.json").write_text(json.dumps(metrics))
    (folder / "rows.parquet").write_bytes(rows_bytes(keys, {"accuracy": right}))
    (folder / "run.json").write_text(json.dumps({"pipeline": "evaluate_intent", "options": options, "files": {}}))
    return str(folder)


def intents(a: float, b: float, both: float, f1: float | None = 0.5) -> dict[str, Any]:
    values = {"#ALL": both, "a": a, "b": b, "#MEAN": (a + b) / 2}
    return {name: {"accuracy": value, "macro_f1": f1} for name, value in values.items()}


def read(**paths: str) -> dict[str, list[Outcome]]:
    return {name: [read_outcome(path)] for name, path in paths.items()}


def leaderboard(
    systems: Mapping[str, list[Outcome]], columns: list[Column], baseline: str | None, seed: str, replicates: int
) -> Board:
    return of_systems(Systems(dict(systems), columns), SignificanceConfig(baseline, seed, replicates))


def test_the_macro_average() -> None:
    # RADDLE: the unweighted mean of all reported numbers, whatever they are of.
    assert macro_average([80.0, 20.0, 56.0]) == 52.0
    assert macro_average([80.0, None]) is None
    assert macro_average([]) is None


def test_a_leaderboard(tmp_path: Path) -> None:
    systems = read(
        one=write(tmp_path / "one", intents(0.5, 1.0, 2 / 3), [1.0, 0.0, 1.0]),
        two=write(tmp_path / "two", intents(1.0, 1.0, 1.0, 0.7), [1.0, 1.0, 1.0]),
    )
    check_same_sets(systems)
    columns = columns_of(systems["one"], [])
    assert [column.name for column in columns] == [
        "intent/a/accuracy", "intent/a/macro_f1", "intent/b/accuracy", "intent/b/macro_f1"
    ]  # fmt: skip
    board = leaderboard(systems, columns, None, "0", 99)
    assert board.systems == ["two", "one"]
    assert board.values["one"] == {
        "intent/a/accuracy": 50, "intent/a/macro_f1": 50, "intent/b/accuracy": 100, "intent/b/macro_f1": 50
    }  # fmt: skip
    assert board.average == {"one": 62.5, "two": 85.0}
    # A macro-F1 is no mean of rows.
    assert [one.column for one in board.tests] == ["intent/a/accuracy", "intent/b/accuracy"]
    assert [(one.first, one.second, one.difference) for one in board.tests] == [
        ("two", "one", 50.0), ("two", "one", 0.0)
    ]  # fmt: skip
    assert board.tests[1].p == board.tests[1].p_holm == 1.0
    assert untested(board) == "Not tested, because they are not means over rows of dialogues: a macro f1, b macro f1."
    assert heads(board) == ["a accuracy", "a macro f1", "b accuracy", "b macro f1"]
    files = files_of(board)
    assert json.loads(files["leaderboard.json"])["average"] == board.average
    assert b"| two | 85.00 | 100.00 | 70.00 | 100.00 | 70.00 |" in files["leaderboard.md"]
    averaged = leaderboard(systems, columns_of(systems["one"], ["accuracy"]), "one", "0", 99)
    assert [one.column for one in averaged.tests][-1] == "average"
    assert averaged.tests[-1].difference == 25.0
    assert leaderboard(systems, columns, None, "0", 0).tests == []


def test_rows_that_do_not_average_to_the_number_are_not_tested(tmp_path: Path) -> None:
    systems = read(
        one=write(tmp_path / "one", intents(0.5, 1.0, 0.7), [1.0, None, 1.0]),
        two=write(tmp_path / "two", intents(1.0, 1.0, 1.0), [1.0, 1.0, 1.0]),
    )
    board = leaderboard(systems, columns_of(systems["one"], ["#ALL/accuracy", "b/accuracy"]), None, "0", 9)
    assert [one.column for one in board.tests] == ["intent/b/accuracy"]


def test_numbers_where_low_is_good_are_in_no_average() -> None:
    outcome = Outcome("ood", "", {"#ALL": {"f1": 0.8, "fpr95": 0.1, "bleu": 30.0}})
    board = leaderboard(
        {"one": [outcome], "two": [outcome]}, columns_of([outcome], ["f1", "fpr95", "bleu"]), None, "", 0
    )
    assert board.values["one"] == {"ood/#ALL/f1": 80.0, "ood/#ALL/fpr95": 10.0, "ood/#ALL/bleu": 30.0}
    assert board.average == {"one": 55.0, "two": 55.0}
    with pytest.raises(InputError, match="no such metric: 'f2'; there are: bleu, f1, fpr95"):
        columns_of([outcome], ["f2"])


def test_systems_without_a_number_stand_last() -> None:
    systems = {
        name: [Outcome("ood", "", {"#ALL": {"f1": value}})] for name, value in (("a", None), ("b", 0.1), ("c", 0.1))
    }
    assert leaderboard(systems, columns_of(systems["a"], []), None, "", 9).systems == ["b", "c", "a"]


def test_hostile_names(tmp_path: Path) -> None:
    name, evil = "<script>|x", '"><img src=x onerror=1>|`'
    keys = [(evil, "d0", 0), ("b", "d0", 0)]
    metrics = {group: {"accuracy": 1.0} for group in ("#ALL", evil, "b")}
    systems = {
        one: [read_outcome(write(tmp_path / str(i), metrics, [1.0, 1.0], keys))] for i, one in enumerate([name, "b"])
    }
    files = files_of(leaderboard(systems, columns_of(systems[name], []), None, "0", 9))
    assert b"<script>" not in files["report.html"]
    assert b"<img" not in files["report.html"]
    assert b"<script>" not in files["leaderboard.md"]
    assert rb"&lt;script&gt;\|x" in files["leaderboard.md"]


def test_dst_has_its_sets_in_another_file(tmp_path: Path) -> None:
    def of(value: float) -> dict[str, Any]:
        return {"metrics": {"#ALL_SERVICES": {"joint_goal_accuracy": value}, "Inns_1": {"joint_goal_accuracy": 0.0}}}

    folder = tmp_path / "dst"
    (folder / "rows" / "original").mkdir(parents=True)
    (folder / "run.json").write_text('{"pipeline": "evaluate_dst", "options": {"split": "dev", "seed": "1"}}')
    (folder / "metrics.json").write_text(json.dumps(of(0.5)["metrics"]))
    (folder / "robustness.json").write_text(json.dumps({"sets": {"original": of(0.5), "v1": of(0.25)}}))
    rows = rows_bytes([("original", "d", 0), ("original", "d", 0)], {"joint_goal_accuracy": [0.0, 1.0]})
    (folder / "rows" / "original" / "dialogues_001.parquet").write_bytes(rows)
    outcome = read_outcome(str(folder))
    assert outcome.groups == {"original": {"joint_goal_accuracy": 0.5}, "v1": {"joint_goal_accuracy": 0.25}}
    columns = columns_of([outcome], [])
    assert columns == [Column("dst", "original", "joint_goal_accuracy"), Column("dst", "v1", "joint_goal_accuracy")]
    board = leaderboard({"one": [outcome], "two": [outcome]}, columns, None, "0", 9)
    assert [one.column for one in board.tests] == ["dst/original/joint_goal_accuracy"]
    together = {"joint_goal_accuracy": 0.25}
    table = {"#ALL_SERVICES": {"original": 0.5, "variants": 0.25, "schema_sensitivity": 0.75}}
    variants = {"average": {"#ALL_SERVICES": together}, "table": table}
    sets = {"original": of(0.5), "v1": of(0.25)}
    (folder / "robustness.json").write_text(json.dumps({"sets": sets, "variants": variants}))
    outcome = read_outcome(str(folder))
    assert outcome.groups["#VARIANTS"] == {"joint_goal_accuracy": 0.25, "schema_sensitivity": 0.75}
    assert columns_of([outcome], []) == columns
    asked = columns_of([outcome], ["joint_goal_accuracy", "schema_sensitivity"])
    assert asked == [*columns, Column("dst", "#VARIANTS", "schema_sensitivity")]
    assert [one.low_is_good for one in asked] == [False, False, True]
    board = leaderboard({"one": [outcome], "two": [outcome]}, asked, None, "0", 9)
    assert heads(board) == ["original", "v1", "schema sensitivity"]
    told = files_of(board)["leaderboard.md"].decode()
    assert "| one | 37.50 | 50.00 | 25.00 | 75.00 |" in told
    assert "Joint goal accuracy where no other metric is named, of 100." in told
    (folder / "robustness.json").write_text('{"sets": []}')
    with pytest.raises(InputError, match="not the numbers of"):
        read_outcome(str(folder))


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    one = write(tmp_path / "one", intents(0.5, 1.0, 2 / 3), [1.0, 0.0, 1.0])
    lacking = {name: of for name, of in intents(1, 1, 1).items() if name != "b"}
    for path, reason in (
        (write(tmp_path / "sets", lacking, [1.0, 1.0, 1.0]), "different sets: 'one' has 'b', and 'other' does not"),
        (
            write(tmp_path / "rows", intents(1, 1, 1), [1.0, 1.0], KEYS[:2]),
            "different turns were scored: dialogue 'd0', turn 2, of set 'b' has 1 rows of 'one' and 0 of 'other'",
        ),
        (
            write(tmp_path / "options", intents(1, 1, 1), [1.0, 1.0, 1.0], positive="ood"),
            "scored in different ways: positive is None of 'one', 'ood' of 'other'",
        ),
    ):
        with pytest.raises(InputError, match=reason) as caught:
            check_same_sets(read(one=one, other=path))
        assert caught.value.path == path
    outcome = read_outcome(one)
    other = Outcome("ood", "x", outcome.groups)
    with pytest.raises(InputError, match="'a' has results of task 'ood', and 'b' has none"):
        check_same_sets({"a": [outcome, other], "b": [outcome]})
    with pytest.raises(InputError, match="'b' has two results of task 'intent'"):
        check_same_sets({"a": [outcome], "b": [outcome, outcome]})


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "no run.json here"),
        ({"run.json": "[]"}, "no run.json here"),
        ({"run.json": '{"pipeline": "ood"}'}, "holds what 'parapet ood' wrote"),
        ({"run.json": '{"pipeline": "evaluate_ood"}'}, "there is no such file"),
        ({"run.json": '{"pipeline": "evaluate_ood"}', "metrics.json": "{"}, "not JSON"),
        ({"run.json": '{"pipeline": "evaluate_ood"}', "metrics.json": '{"a": {"b": "c"}}'}, "no metrics in it"),
        ({"run.json": '{"pipeline": "evaluate_ood"}', "metrics.json": '{"a": {"b": NaN}}'}, "is no number"),
    ],
)
def test_folders_that_are_no_evaluation(tmp_path: Path, files: dict[str, str], reason: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=reason):
        read_outcome(str(tmp_path))
    with pytest.raises(InputError, match="no such folder"):
        read_outcome(str(tmp_path / "nothing"))


def test_rows_that_cannot_be_read(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, intents(1, 1, 1), [1.0, 1.0, 1.0]) for name in ("one", "two")]
    (tmp_path / "two" / "rows.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        check_same_sets(read(one=paths[0], two=paths[1]))
