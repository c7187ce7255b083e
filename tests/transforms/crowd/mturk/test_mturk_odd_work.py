"""Odd submissions end to end: each assignment is in the audit or a dead letter, and ``pay`` settles all of them."""

import json

import pyarrow.parquet as pq
import pytest
from kit import cases, rows_of, run, write
from mturk_bench import NAMES, worker

# What workers post: nothing, blanks, fields of no form, and what no reader of JSON likes.
POSTS = {
    "nothing": [],
    "blank": [("intent_0", ""), ("slot_0", "")],
    "spaces": [("intent_0", " \n\t "), ("slot_0", "\u3000\u200b")],
    "unknown": [("comment", "nice"), ("slot_999", "more"), ("intent_0x", "x")],
    "plumbing": [("doNotRedirect", "true"), ("csrf_token", "x")],
    "empty list": [("taskAnswers", "[]")],
    "empty answers": [("taskAnswers", "[{}]")],
    "not JSON": [("taskAnswers", "{")],
    "nested": [("taskAnswers", "[" * 300 + "]" * 300)],
    "nested inside": [("taskAnswers", '[{"slot_0": ' + "[" * 300 + "]" * 300 + "}]")],
    "too large": [("slot_0", "a b" * 10_000)],
    "an id": [("intent_0", worker(12)), ("slot_0", worker(1))],
    "hostile": [("intent_0", "@" * 15_000), ("slot_0", "a" + "A" * 15_000 + "_")],
    "good": [("intent_0", "some words of mine"), ("slot_0", "other words")],
}
TIMES = {"9999": 253_402_300_799, "2262": 9_223_372_037, "1970": 0, "leap second": 1_483_228_799, "far behind": 1}


@pytest.fixture
def composed(bench, sample, tmp_path):
    """Composes what was collected; gives the audit's rows and the dead letters."""

    def compose():
        bench.ok("collect")
        lines = bench.batch / "assignments.jsonl"
        made = run("compose", schemas=sample, responses=lines, output=tmp_path / "audit", quiet=True, status=None)
        table = pq.read_table(made.folder / "responses.parquet")
        assert len(table.to_pandas()) == table.num_rows
        return made.folder, table.to_pylist(), made.dead_letters

    return compose


def test_every_odd_submission_is_somewhere_and_is_paid(bench, composed):
    bench.ok("publish")
    hit_id = bench.hit_id(NAMES)
    bench.server.state.hits[hit_id].assignments = 99
    made = {}
    for n, (name, post) in enumerate(POSTS.items()):
        assignment_id = bench.accept(hit_id, worker(n))
        submitted = [("assignmentId", assignment_id), *(post or [("slot_0", "x")])]
        bench.server.submit(assignment_id, submitted)
        if not post:
            bench.server.recycle(assignment_id, worker(n), "<Q/>")
        made[name] = assignment_id
    out, rows, dead = composed()
    in_rows = {row["response_id"].partition(":")[0] for row in rows}
    assert in_rows | {letter["key"].partition(":")[0] for letter in dead} == set(made.values())
    for name in ("nothing", "plumbing", "empty list", "empty answers"):
        assert made[name] not in in_rows
        (reason,) = {letter["reason"].partition(":")[0] for letter in dead if letter["key"] == made[name]}
        assert reason == "no_answer"
    assert {row["disposition"] for row in rows if row["response_id"].startswith(made["blank"])} == {"rejected"}
    assert not [row for row in rows if worker(12) in row["text"] or worker(1) in row["text"]]
    bench.ok("pay", "--audit", out)
    assert "not in the audit" not in bench.err
    assert set(bench.statuses().values()) == {"Approved"}


@cases("name", "9999", *(pytest.param(name, marks=pytest.mark.thorough) for name in TIMES if name != "9999"))
def test_a_time_of_any_year_is_read_again_and_paid(bench, composed, name):
    bench.ok("publish")
    made = bench.work(NAMES, [1, 2])

    def odd(call):
        if call.operation == "ListAssignmentsForHIT":
            answer = json.loads(call.answer)
            for each in answer["Assignments"]:
                each["SubmitTime"] = TIMES[name]
            call.answer = json.dumps(answer).encode()

    bench.server.on_response(odd)
    out, rows, _ = composed()
    assert {row["response_id"].partition(":")[0] for row in rows} == set(made)
    assert all(row["submit_time"] is None or row["submit_time"].year < 2263 for row in rows)
    bench.ok("pay", "--audit", out)
    assert set(bench.statuses().values()) == {"Approved"}
    bench.ok("status")


ODD_TIMES = ["0001-01-01T00:00:00+23:59", "2016-12-31T23:59:60Z", "2262-04-11T23:47:17Z", "soon", ""]


@cases("time", "9999-12-31T23:59:59-23:59", *(pytest.param(time, marks=pytest.mark.thorough) for time in ODD_TIMES))
def test_a_time_in_the_file_that_is_none_is_null_and_the_rest_is_paid(bench, composed, time):
    made = bench.collected((NAMES, [1, 2]))
    path = bench.batch / "assignments.jsonl"
    first, *others = rows_of(path)
    write(path, [{**first, "SubmitTime": time}, *others])
    audit = run("compose", responses=path, output=bench.batch.parent / "out", quiet=True, status=None)
    assert {row["response_id"].partition(":")[0] for row in audit.rows("responses.parquet")} == set(made)
    bench.do("pay", "--audit", audit.folder)
    assert "PARAPET_DEBUG" not in bench.err
    assert list(bench.statuses().values()).count("Approved") >= 1
