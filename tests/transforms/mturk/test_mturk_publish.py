"""Publishing: each HIT once, for whom it is meant, whatever is cut off."""

import pytest
from mturk_bench import DESCRIPTIONS
from mturk_publishing import CREATE

from parapet.local_mturk.faults import Drop


def test_tasks_may_follow_one_another(bench):
    bench.ok("publish", "--tasks", "names")
    assert len(bench.hit_ids()) == 2
    bench.ok("publish", "--tasks", "names,descriptions")
    assert len(bench.hit_ids(DESCRIPTIONS)) == 1
    assert len(bench.hit_ids()) == 3
    assert bench.publish("--tasks", "rewrites") == 2
    assert "no rewrites; it has descriptions, names" in bench.err


def test_no_countries_is_not_any_country(bench):
    for nothing in ("", ","):
        assert bench.publish("--countries", nothing) == 2
        assert "--countries" in bench.err
    assert not bench.hit_ids()


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--countries", "USA"], "'USA' is no country"),
        (["--countries", "us"], "'us' is no country"),
        (["--min_approval", "101"], "--min_approval: per cent"),
        (["--min_approved", "-1"], "--min_approved: a number"),
        (["--max_per_worker", "-1"], "--max_per_worker: a number"),
        (["--require_qualification", "lower"], "'lower' is no qualification id"),
        (["--exclude_qualification", ""], "'' is no qualification id"),
        ([f for i in range(6) for f in ("--require_qualification", f"Q{i}")], "MTurk takes 10 qualifications a HIT"),
        (["--masters", "--min_approved", "1", *(f for i in range(4) for f in ("--exclude_qualification", f"Q{i}"))],
         "MTurk takes 10"),
        (["--parallel_calls", "0"], "--parallel_calls: 1 to 32"),
        (["--parallel_calls", "33"], "--parallel_calls: 1 to 32"),
        (["--confirm", "much"], "'much' is no amount"),
    ],
)  # fmt: skip
def test_wrong_settings_are_usage_and_leave_no_folder(bench, flags, told):
    assert bench.publish(*flags) == 2
    assert told in bench.err
    assert not bench.batch.exists()
    assert not bench.server.calls


def test_a_qualification_that_is_named_twice_is_one(bench):
    made = bench.client.create_qualification_type(Name="a", Description="a", QualificationTypeStatus="Active")
    flags = ["--require_qualification", made["QualificationType"]["QualificationTypeId"]]
    assert bench.publish(*flags, *flags) == 0, bench.err


def test_an_answer_lost_once_is_absorbed(bench):
    lost = []

    def hook(call):
        if call.operation == CREATE and call.outcome == "ok" and not lost:
            lost.append(call.operation)
            raise Drop

    bench.server.on_response(hook)
    bench.ok("publish", "--parallel_calls", 1)
    assert bench.server.calls[CREATE] == {"dropped_after": 1, "HitAlreadyExists": 1, "ok": 2}
    assert len(bench.hit_ids()) == 3
    assert set(bench.open().hits()) == set(bench.hit_ids())
