"""The table of results that every task of evaluate writes."""

import math

import pytest
from kit import raised, write

from parapet.evaluation.results import ResultRow, read_results, results_bytes, results_of
from parapet.schemas.errors import InputError

NUMBERS = {
    "#ALL": {"accuracy": 0.6, "schema_sensitivity": 0.2},
    "#MEAN": {"accuracy": 0.6},
    "Inns_1": {"accuracy": 1.0},
    **{name: {"accuracy": value} for name, value in (("original", 0.8), ("v1", 0.5), ("v10", 0.2), ("v2", math.nan))},
}


def test_rows_of_a_task(tmp_path):
    sizes = {"#ALL": 40, "original": 10, "v1": 10}
    rows = results_of("intent", NUMBERS, sizes, {"Inns_1": "Inns_1"}, {("v1", "accuracy"): (0.4, 0.6)})
    write(tmp_path / "results.parquet", results_bytes(rows))
    read = {(row.set, row.group, row.metric): row for row in read_results(tmp_path / "results.parquet")}
    assert list(read.values()) == rows
    assert read["v1", "all", "accuracy"] == ResultRow("", "intent", "v1", "all", "accuracy", 0.5, 0.4, 0.6, 10)
    assert (read["#MEAN", "all", "accuracy"].n, read["v10", "all", "accuracy"].n) == (40, None)
    assert read["#ALL", "Inns_1", "accuracy"].value == 1.0
    assert read["v2", "all", "accuracy"].value is None
    assert read["#VARIANTS", "all", "accuracy"].value is None
    assert read["#VARIANTS", "all", "schema_sensitivity"].value == 0.2


def test_mean_over_variants():
    numbers = {"original": {"f1": 0.9}, "v1": {"f1": 0.5}, "v2": {"f1": 0.25}}
    assert results_of("ood", numbers, {"v1": 3, "v2": 4})[-1] == (
        ResultRow("", "ood", "#VARIANTS", "all", "f1", 0.375, n=7)
    )
    assert {row.set for row in results_of("ood", {"v1": {"f1": 0.5}}, {})} == {"v1"}


@pytest.mark.parametrize("content", [b"PAR1", results_bytes([])[:-9]])
def test_other_files(tmp_path, content):
    raised(InputError, read_results, tmp_path / "results.parquet", match="no such file")
    (tmp_path / "results.parquet").write_bytes(content)
    raised(InputError, read_results, tmp_path / "results.parquet", match="cannot be read as Parquet")
