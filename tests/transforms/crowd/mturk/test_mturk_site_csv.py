"""The Approve/Reject file of the requester site, from the sample's own batch results."""

import csv
import io

import pytest
from kit import rows_of, write

from parapet.transforms.crowd.mturk.pay import fill_in


@pytest.fixture
def results(sample):
    return sample / "crowd/names.csv"


@pytest.fixture
def site(bench, reviewed, results, tmp_path):
    def run(*flags, results=results):
        output = tmp_path / "reviewed.csv"
        return bench.run("site-csv", "--audit", reviewed, "--results", results, "--output", output, *flags), output

    return run


def test_rejections_by_hand(site, bench, results):
    first = rows_of(results)[0]["AssignmentId"]
    status, output = site("--rejections", bench.file("rejections.csv", f"assignment_id,feedback\n{first},no\n"))
    assert (status, [row["AssignmentId"] for row in rows_of(output) if row["Reject"] == "no"]) == (0, [first])


def test_broken_rows_cost_themselves_and_are_named(site, results, tmp_path, bench):
    lines = results.read_text().splitlines(keepends=True)
    broken = write(tmp_path / "broken.csv", "".join([*lines[:2], '"a","b"\n', *lines[2:]]))
    status, output = site(results=broken)
    assert status == 1
    assert "broken.csv: row 3: left out: broken_row: the row has 2 cells, but the header has" in bench.err
    assert len(rows_of(output)) == 60


def test_what_cannot_be_used_is_usage(site, results, bench, tmp_path):
    for path, told in (
        (tmp_path / "missing", "no such file"),
        (bench.file("a.csv", "a,b\n"), "not a file of batch results"),
        (bench.file("empty.csv", ""), "not a file of batch results"),
    ):
        status, output = site(results=path)
        assert status == 2
        assert told in bench.err
        assert not output.exists()
    status, _ = site("--output", results)
    assert status == 2
    assert "is the same as --results" in bench.err
    assert bench.run("site-csv", "--audit", tmp_path, "--results", results, "--output", tmp_path / "o") == 2


def filled(tmp_path, text, decisions):
    data, counts, _ = fill_in(str(write(tmp_path / "r.csv", text)), decisions)
    return list(csv.reader(io.StringIO(data.decode()))), counts


def test_open_rows_get_the_decision_and_others_stay(tmp_path):
    text = (
        "AssignmentId,AssignmentStatus,Approve,Reject\n"
        "3A,Submitted,,\n3B,Approved,x,\n3C,Rejected,,why\n3D,Submitted,,\n"
    )
    rows, counts = filled(tmp_path, text, {"3A": "", "3B": "no", "3C": ""})
    assert rows[1:] == [["3A", "Submitted", "X", ""], ["3B", "Approved", "x", ""], ["3C", "Rejected", "", "why"],
                        ["3D", "Submitted", "", ""]]  # fmt: skip
    assert counts == {"approved": 1, "settled": 2, "unknown": 1}


def test_columns_that_are_missing_are_added(tmp_path):
    rows, _ = filled(tmp_path, "AssignmentId,AssignmentStatus\n3A,Submitted\n", {"3A": "no"})
    assert rows == [["AssignmentId", "AssignmentStatus", "Approve", "Reject"], ["3A", "Submitted", "", "no"]]


def test_careless_work_gets_its_reason_where_that_is_asked_for(site, bench):
    status, output = site("--reject")
    assert status == 0
    rejected = [row for row in rows_of(output) if row["Reject"]]
    assert 0 < len(rejected) < 15
    assert all(row["Reject"].startswith("None of the ") and not row["Approve"] for row in rejected)
    assert f"{len(rejected)} to reject" in bench.out
    assert "A1" not in bench.out  # no worker


def test_formulas_by_strangers_are_no_formulas_in_a_spreadsheet(site, results, tmp_path):
    text = results.read_text()
    answer = next(cell for name, cell in rows_of(results)[0].items() if name.startswith("Answer.") and len(cell) > 8)
    changed = tmp_path / "formula.csv"
    changed.write_text(text.replace(f'"{answer}"', '"=1+1"', 1))
    status, output = site(results=changed)
    assert status == 0
    assert "=1+1" not in [cell for row in rows_of(output) for cell in row.values()]
    assert "'=1+1" in [cell for row in rows_of(output) for cell in row.values()]
