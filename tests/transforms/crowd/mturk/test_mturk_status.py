"""Collecting, how a batch stands, what is urgent, who is kept out, and stopping it."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from fake_mturk import MTurkError
from kit import cases, holding, write
from mturk_bench import DESCRIPTIONS, KEY, NAMES, OTHER, cut, files_with, worker

from parapet.transforms.crowd.mturk.batch import Journal
from parapet.transforms.crowd.mturk.status import ledger_rows, status_of, table, warnings


def seen(bench):
    batch = bench.open()
    batch.key = KEY
    return status_of(batch, bench.lines(), ledger_rows(batch, bench.lines()))


@pytest.fixture
def out(bench):
    """The bench with its HITs out."""
    bench.ok("publish")
    return bench


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


def test_the_median_time_and_what_it_pays(out):
    for n, seconds in enumerate((300, 100, 3_000)):
        out.server.submit(out.accept(NAMES, worker(n), seconds), [("slot_0", f"some words {n}")])
    out.ok("collect")
    ((task, work),) = out.status()["work"].items()
    assert (task, work["assignments"]) == ("names", 3)
    assert work["median_minutes"] == pytest.approx(5, abs=0.1)  # the server's clock goes on
    assert work["dollars_per_hour"] == pytest.approx(float(out.lines()[0]["Reward"]) * 12, abs=0.3)
    told = f"names: median time 5.0 minutes, median pay ${work['dollars_per_hour']:.2f} an hour"
    assert told in out.ok("status")
    assert "Working time and pay" in (out.batch / "status.html").read_text()


def test_what_was_cut_off_is_told(bench):
    bench.lose("CreateHIT", before=True)
    assert (bench.publish(), bench.status()["unclear"]) == (1, {"create_hit": 3})
    bench.ok("status")
    assert "3 calls of create_hit were interrupted or refused: run the same command again" in bench.err


def test_warnings_come_in_time_and_not_before_or_once_all_is_in_and_paid(bench):
    bench.collected((NAMES, [1, 2, 3]), (DESCRIPTIONS, [4, 5, 6]), (OTHER, [7, 8, 9]))
    found = seen(bench)
    due = found.total.auto_approval
    assert warnings(found, due - timedelta(hours=25)) == []
    (warning,) = warnings(found, due - timedelta(hours=23))
    told = "9 assignments wait for a decision, and MTurk approves and pays them automatically from"
    assert warning.startswith(f"{told} {due:%Y-%m-%d %H:%M} UTC on")
    assert bench.do("pay", "--all") == 0
    found = seen(bench)
    assert (found.total.offer_ends, found.total.auto_approval) == (None, None)
    assert (warnings(found, datetime.now(UTC) + timedelta(days=99)), found.total.paid) == ([], found.total.committed)


# Stopping.


def test_a_dry_run_of_stopping_stops_nothing(out):
    before = dict(out.server.calls)
    assert out.ok("stop", "--dry_run").count('"call": "update_expiration_for_hit"') == 3
    assert (dict(out.server.calls), out.refused(NAMES, worker(1))) == (before, "")


@cases("action", "collect", "pay", "topup", "stop")
def test_another_run_at_the_same_time_is_refused_and_changes_nothing(bench, action):
    flags = {"pay": ["--all"], "topup": ["--hits", bench.hits]}.get(action, [])
    bench.ok("publish")
    bench.work(NAMES, [1])
    before = dict(bench.server.calls)
    with Journal(bench.batch):
        assert bench.do(action, *flags) == 1
        assert "another 'parapet mturk' is using this batch; wait until it ends" in bench.err
        bench.ok("status")  # a look is free
    assert dict(bench.server.calls) == before


def test_the_total_is_the_sum_of_what_is_shown_and_what_was_paid(bench):
    bench.collected((NAMES, [1, 2]), (DESCRIPTIONS, [4]), (OTHER, [7, 8, 9]))
    assert bench.do("pay", "--all") == 0
    found = seen(bench)
    assert (len(table(found).splitlines()), len(table(found, most=2).splitlines())) == (5, 2)  # of many only the total
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
    assert (names["offer_ends"], names["auto_approval"]) == (None, None)
    there = bench.snapshot()
    assert datetime.fromisoformat(other["offer_ends"]).timestamp() == there["hits"][bench.hit_id(OTHER)]["Expiration"]
    due = there["assignments"][made[3]]["AutoApprovalTime"]
    assert datetime.fromisoformat(other["auto_approval"]).timestamp() == due
    assert total["auto_approval"] == other["auto_approval"]


LIST = "ListAssignmentsForHIT"
GRANT = "AssociateQualificationWithWorker"


def test_a_full_last_page_is_no_end(bench, hits, tmp_path):
    bench.hits = cut(hits, tmp_path / "many", [NAMES], assignments=100)
    bench.ok("publish")
    bench.work(NAMES, range(100))
    bench.ok("collect")
    assert bench.server.count(LIST) == 2  # the server gives a token with the full page, and an empty one after it
    assert len(bench.lines()) == 100


def test_a_deleted_hit_is_told_and_the_rest_goes_on(out):
    out.work(NAMES, [1])
    out.work(DESCRIPTIONS, [2])
    out.ok("collect")
    kept = out.lines()
    out.server.delete_hit(out.hit_id(NAMES))
    out.work(OTHER, [3])
    out.ok("collect")
    assert f"1 HITs were deleted at MTurk: make new HITs for the answers that they lacked: {NAMES}" in out.err
    assert all(line in out.lines() for line in kept)
    assert len(out.lines()) == 3
    before = out.server.count(LIST)
    out.ok("collect")
    assert out.server.count(LIST) == before + 2
    assert out.status()["total"]["gone"] == 1


def test_a_file_that_is_not_ours_is_an_error_with_its_row(out):
    out.work(NAMES, [1])
    out.ok("collect")
    path = out.batch / "assignments.jsonl"
    for broken in (b"{}", b"[]", b"1", b"nonsense", b"\xff"):
        path.write_bytes(path.read_bytes().splitlines(keepends=True)[0] + broken + b"\n")
        for action in (["collect"], ["status"], ["pay", "--all"], ["stop"]):
            assert out.do(*action) in (1, 2)
            assert "assignments.jsonl: row 2: not an assignment" in out.err
            assert out.err.count("\n") == 1


# Who is kept out.


def test_the_block_list_holds_from_the_first_minute(bench):
    order = []
    bench.server.on_request(lambda call: order.append(call.operation))
    bench.ok("publish", "--block_list", bench.file("blocked.txt", f"{worker(1)}\n"))
    assert order.index(GRANT) < order.index("CreateHIT")
    assert bench.refused(NAMES, worker(1)) == "not_qualified"


def test_the_limit_of_the_pages_holds_from_collecting_on(bench, hits, tmp_path):
    bench.hits = cut(hits, tmp_path / "limited", max_per_worker=1)
    assert "with --max_per_worker 1, at least 9 workers must take part" in bench.ok("publish")
    bench.work(NAMES, [1])
    assert bench.refused(OTHER, worker(1)) == ""  # nobody has looked yet
    bench.ok("collect")
    assert (bench.refused(OTHER, worker(1)), bench.refused(OTHER, worker(2))) == ("not_qualified", "")
    status = bench.status()
    assert (status["most_per_worker"], status["max_per_worker"]) == (1, 1)
    bench.work(NAMES, [2])
    bench.work(OTHER, [2])
    bench.ok("collect")
    assert "a worker has submitted 2 assignments, and --max_per_worker is 1: run 'parapet mturk collect'" in bench.err
    top_up = cut(hits, tmp_path / "top_up", [NAMES], max_per_worker=2)
    assert "these pages have --max_per_worker 2, but the batch" in bench.err_of(2, bench.do("topup", "--hits", top_up))


def test_the_flag_goes_before_the_limit_of_the_pages(bench, hits, tmp_path):
    bench.hits = cut(hits, tmp_path / "limited", max_per_worker=1)
    assert "as few as 6 workers could do everything" in bench.ok("publish", "--max_per_worker", 0)
    assert bench.status()["max_per_worker"] == 0


@cases("bad", "a1b2c3d4e5", "A", "A12-3", f"{'A1B2C3D4E5'},A2B3C4D5E6", "WORKER_ID", "A1B2 C3D4", "AÖ12345")
def test_a_bad_line_of_the_block_list_is_named_and_not_repeated(out, bad):
    path = out.file("blocked.txt", f"{worker(1)}\n\n{bad}\n")
    for action in (["collect"], ["topup", "--hits", out.hits]):
        assert "blocked.txt: row 3: not a worker id" in out.err_of(2, out.do(*action, "--block_list", path))
        assert bad not in out.err.replace(str(path), "").replace("an A followed by", "") or bad == "A"
    assert out.publish("--block_list", path) == 2
    assert not out.server.count(GRANT)


def test_a_block_list_that_cannot_be_read_is_usage(out, tmp_path):
    missing = out.do("collect", "--block_list", tmp_path / "missing")
    assert "missing: --block_list: there is no such file" in out.err_of(2, missing)
    assert out.do("collect", "--block_list", write(tmp_path / "binary", b"\xff\xfe\x00")) == 2


def test_long_worker_ids_are_masked_too(out):
    """Real ones have 12 to 14 characters; the service model allows 64."""
    long, short = "A" + "B2" * 20, "A1B2C3"

    def hook(call):
        if call.operation == GRANT:
            raise MTurkError(f"Worker {call.params['WorkerId']} does not exist.", "WorkerDoesNotExist")

    path = out.file("blocked.txt", f"{long}\n{short}\n")
    out.server.on_request(hook)
    assert out.do("collect", "--block_list", path) == 1
    assert not holding(out.out + out.err, long, short)
    assert not files_with(out.batch, [long, short])


# What is told in one line, and what is never told.

BATCH_ACTIONS = {"collect": (), "status": (), "topup": ("--hits", "."), "pay": ("--all",), "stop": ()}
BROKEN, EMPTY = (b"nonsense\n", "row 1: not a line of the journal"), (b"", "contains no batch")


@cases("action journal told", ("pay", *BROKEN), ("publish", *BROKEN), *((action, *EMPTY) for action in BATCH_ACTIONS))
def test_a_journal_that_cannot_be_used_is_told_in_one_line(bench, action, journal, told):
    path = write(bench.batch / "journal.jsonl", journal)
    status = bench.publish() if action == "publish" else bench.do(action, *BATCH_ACTIONS[action])
    assert (status in (1, 2), bench.err.count("\n"), path.read_bytes()) == (True, 1, journal)
    assert told in bench.err


@cases("action", *BATCH_ACTIONS)
def test_a_folder_without_a_batch_is_left_as_it_is(bench, tmp_path, action):
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "missing"):
        told = bench.err_of(2, bench.run(action, "--batch", folder, *BATCH_ACTIONS[action]))
        assert f"{folder}: contains no batch: create one with 'parapet mturk publish'" in told
        assert told.count("\n") == 1
    assert not (tmp_path / "missing").exists()
    assert not list((tmp_path / "empty").iterdir())


def test_no_worker_is_named_anywhere_but_in_the_raw_files(bench):
    """Publish, collect, top up, pay with bonuses, fail and stop: every file, every word."""
    told = []

    def do(action, *flags, status=0):
        ended = bench.publish(*flags) if action == "publish" else bench.do(action, *flags)
        told.append(bench.out + bench.err)
        assert ended == status, told[-1]

    blocked = bench.file("blocked.txt", f"{worker(99)}\n")
    for dry_run in (["--dry_run"], []):
        do("publish", "--block_list", blocked, "--max_per_worker", 3, *dry_run)
    ids = [assignment_id for task in (NAMES, OTHER) for assignment_id in bench.work(task, [1, 2, 3])]
    do("collect")
    shortfall = bench.file("shortfall.csv", "service_name,task,field,have,need\nFerries_1,names,slot_0,4,5\n")
    for dry_run in (["--dry_run"], []):
        do("topup", "--hits", bench.hits, "--shortfall", shortfall, *dry_run)
    rows = [f"{each},0.10,Thanks\n" for each in ids[:2]]
    bonuses = bench.file("bonuses.csv", "".join(["assignment_id,amount,reason\n", *rows]))
    bench.server.recycle(ids[1], worker(98))
    do("pay", "--all", "--bonuses", bonuses, "--dry_run")
    do("pay", "--all", "--bonuses", bonuses, status=1)  # one is another worker's now
    for action in (["collect"], ["status"], ["status", "--json"], ["stop", "--dry_run"], ["stop"]):
        do(*action)
    bench.server.stop()
    do("collect", status=1)
    everyone = [worker(n) for n in (1, 2, 3, 98, 99)]
    assert not holding("".join(told), *everyone)
    files = {"assignments.jsonl", "journal.jsonl", "ledger.csv", "status.html"}
    assert files <= {path.name for path in bench.batch.iterdir()}
    assert files_with(bench.batch, everyone).keys() == {"assignments.jsonl"}
    text = (bench.batch / "assignments.jsonl").read_text()
    assert all(worker(n) in text for n in (1, 3, 98))


def test_quiet_prints_nothing_that_is_no_error(bench):
    bench.collected((NAMES, [1]))
    for action in (["collect"], ["stop"]):
        assert bench.ok(*action, "--quiet") + bench.err == ""
    assert (bench.publish("--quiet"), bench.out + bench.err) == (0, "")
