"""How a batch stands, what is urgent, and stopping it."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from kit import cases
from mturk_bench import DESCRIPTIONS, KEY, NAMES, OTHER, cut, worker

from parapet.transforms.crowd.mturk.status import ledger_rows, status_of, table, warnings


def seen(bench):
    batch = bench.open()
    batch.key = KEY
    return status_of(batch, bench.lines(), ledger_rows(batch, bench.lines()))


def test_a_paid_hit_that_is_deleted_later_stays_in_the_bill(bench, hits, tmp_path):
    bench.hits = cut(hits, tmp_path / "cut", [NAMES])
    bench.ok("publish")
    (made,) = bench.work(NAMES, [1])
    bench.server.approve_elsewhere(made)
    bench.ok("collect")
    bench.server.delete_hit(bench.hit_id(NAMES))
    bench.ok("collect")
    total = bench.status()["total"]
    assert (total["paid"], total["approved"]) == ("1.41", 1)
    assert Decimal(total["committed"]) >= Decimal(total["paid"])


def test_the_median_time_and_what_it_pays(bench):
    bench.ok("publish")
    for n, seconds in enumerate((300, 100, 3_000)):
        bench.server.submit(bench.accept(NAMES, worker(n), seconds), [("slot_0", f"some words {n}")])
    bench.ok("collect")
    reward = Decimal(bench.lines()[0]["Reward"])
    ((task, work),) = bench.status()["work"].items()
    assert (task, work["assignments"]) == ("names", 3)
    assert abs(work["median_minutes"] - 5) < 0.1  # the server's clock goes on
    assert abs(work["dollars_per_hour"] - float(reward) * 12) < 0.3
    bench.ok("status")
    assert f"names: median time 5.0 minutes, median pay ${work['dollars_per_hour']:.2f} an hour" in bench.out
    assert "Working time and pay" in (bench.batch / "status.html").read_text()


def test_what_was_cut_off_is_told(bench):
    bench.lose("CreateHIT", before=True)
    assert (bench.publish(), bench.status()["unclear"]) == (1, {"create_hit": 3})
    bench.ok("status")
    assert "3 calls of create_hit were interrupted or refused: run the same command again" in bench.err


def test_warnings_come_in_time_and_not_before(bench):
    bench.collected((NAMES, [1, 2]))
    found = seen(bench)
    due = found.total.auto_approval
    hour = timedelta(hours=1)
    assert warnings(found, due - 25 * hour) == []
    (warning,) = warnings(found, due - 23 * hour)
    assert warning.startswith(
        "2 assignments wait for a decision, and MTurk approves and pays them automatically "
        f"from {due:%Y-%m-%d %H:%M} UTC on"
    )


def test_nothing_is_urgent_once_all_is_in_and_paid(bench):
    bench.collected((NAMES, [1, 2, 3]), (DESCRIPTIONS, [4, 5, 6]), (OTHER, [7, 8, 9]))
    assert bench.do("pay", "--all") == 0
    found = seen(bench)
    assert (found.total.offer_ends, found.total.auto_approval) == (None, None)
    assert (warnings(found, datetime.now(UTC) + timedelta(days=99)), found.total.paid) == ([], found.total.committed)


# Stopping.


def test_a_dry_run_of_stopping_stops_nothing(bench):
    bench.ok("publish")
    before = dict(bench.server.calls)
    bench.ok("stop", "--dry_run")
    assert dict(bench.server.calls) == before
    assert (bench.out.count('"call": "update_expiration_for_hit"'), bench.refused(NAMES, worker(1))) == (3, "")


@cases("action", "collect", "pay", "topup", "stop")
def test_another_run_at_the_same_time_is_refused_and_changes_nothing(bench, action):
    from parapet.transforms.crowd.mturk.batch import Journal

    flags = {"pay": ["--all"], "topup": ["--hits", bench.hits]}.get(action, [])
    bench.ok("publish")
    bench.work(NAMES, [1])
    before = dict(bench.server.calls)
    with Journal(bench.batch):
        assert bench.do(action, *flags) == 1
        assert "another 'parapet mturk' is using this batch; wait until it ends" in bench.err
        bench.ok("status")  # a look is free
    assert dict(bench.server.calls) == before


def test_of_many_tasks_the_table_has_only_the_total(bench):
    bench.ok("publish")
    found = seen(bench)
    assert (len(table(found).splitlines()), len(table(found, most=2).splitlines())) == (5, 2)


def test_the_total_is_the_sum_of_what_is_shown_and_what_was_paid(bench):
    bench.collected((NAMES, [1, 2]), (DESCRIPTIONS, [4]), (OTHER, [7, 8, 9]))
    assert bench.do("pay", "--all") == 0
    found = seen(bench)
    for what in ("paid", "committed"):
        assert sum(getattr(task, what) for task in found.tasks) == getattr(found.total, what)
        assert all(task.paid <= task.committed for task in found.tasks)
    assert 0 <= found.total.paid - bench.snapshot()["balance"]["paid"] < Decimal("0.03")
    bench.ok("status")
    rows = [line.split() for line in bench.out.splitlines() if "$" in line and "median" not in line]
    shown = [Decimal(cells[-2].removeprefix("$")) for cells in rows]
    assert sum(shown[:-1]) == shown[-1]


def test_the_figures_of_every_task_and_of_all(bench):
    made = bench.collected((NAMES, [1, 2, 3]), (OTHER, [1]))
    assert bench.pay(bench.audit(reasons={made[0]: ["blank", "blank"]}, leave_out=[made[3]]), "--reject") == 0
    found = bench.status()
    assert (found["environment"], found["workers"], found["unclear"]) == (bench.server.url, 3, {})
    assert found["collected_at"][:4] == f"{datetime.now(UTC):%Y}"
    tasks = {task["task_id"]: task for task in found["tasks"]}
    assert list(tasks) == sorted([NAMES, DESCRIPTIONS, OTHER])
    names, other, total = tasks[NAMES], tasks[OTHER], found["total"]
    numbers = ("hits", "gone", "wanted", "submitted", "approved", "rejected", "waiting", "out")
    assert [names[n] for n in numbers] == [1, 0, 3, 3, 2, 1, 0, 0]
    assert [other[n] for n in numbers] == [1, 0, 3, 1, 0, 0, 1, 2]
    assert [total[n] for n in numbers] == [3, 0, 9, 4, 2, 1, 1, 5]
    assert (names["paid"], other["paid"], total["paid"]) == ("2.81", "0.00", "2.81")
    assert names["offer_ends"] is None
    assert names["auto_approval"] is None
    there = bench.snapshot()
    assert datetime.fromisoformat(other["offer_ends"]).timestamp() == there["hits"][bench.hit_id(OTHER)]["Expiration"]
    due = there["assignments"][made[3]]["AutoApprovalTime"]
    assert datetime.fromisoformat(other["auto_approval"]).timestamp() == due
    assert total["auto_approval"] == other["auto_approval"]
