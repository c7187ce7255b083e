"""Collecting: all that was handed in, each HIT read no oftener than needed, and who is kept out afterwards."""

import pytest
from kit import cases, write
from mturk_bench import DESCRIPTIONS, NAMES, OTHER, cut, files_with, worker

LIST = "ListAssignmentsForHIT"
GRANT = "AssociateQualificationWithWorker"


@pytest.fixture
def out(bench):
    """The bench with its HITs out."""
    bench.ok("publish")
    return bench


def listed(bench):
    return bench.server.count(LIST)


def test_a_full_last_page_is_no_end(bench, hits, tmp_path):
    bench.hits = cut(hits, tmp_path / "many", [NAMES], assignments=100)
    bench.ok("publish")
    bench.work(NAMES, range(100))
    bench.ok("collect")
    assert listed(bench) == 2  # the server gives a token with the full page, and an empty one after it
    assert len(bench.lines()) == 100


def test_a_deleted_hit_is_told_and_the_rest_goes_on(out):
    out.work(NAMES, [1])
    out.work(DESCRIPTIONS, [2])
    out.ok("collect")
    kept = out.lines()
    hit_id = out.hit_id(NAMES)
    out.server.delete_hit(hit_id)
    out.work(OTHER, [3])
    out.ok("collect")
    assert f"1 HITs were deleted at MTurk: make new HITs for the answers that they lacked: {NAMES}" in out.err
    assert all(line in out.lines() for line in kept)
    assert len(out.lines()) == 3
    before = listed(out)
    out.ok("collect")
    assert listed(out) == before + 2
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
    path = bench.file("blocked.txt", f"{worker(1)}\n")
    order = []
    bench.server.on_request(lambda call: order.append(call.operation))
    bench.ok("publish", "--block_list", path)
    assert order.index(GRANT) < order.index("CreateHIT")
    assert bench.refused(NAMES, worker(1)) == "not_qualified"


def test_the_limit_of_the_pages_holds_from_collecting_on(bench, hits, tmp_path):
    bench.hits = cut(hits, tmp_path / "limited", max_per_worker=1)
    assert "with --max_per_worker 1, at least 9 workers must take part" in bench.ok("publish")
    bench.work(NAMES, [1])
    assert bench.refused(OTHER, worker(1)) == ""  # nobody has looked yet
    bench.ok("collect")
    assert bench.refused(OTHER, worker(1)) == "not_qualified"
    assert bench.refused(OTHER, worker(2)) == ""
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
    assert out.do("collect", "--block_list", tmp_path / "missing") == 2
    assert "missing: --block_list: there is no such file" in out.err
    assert out.do("collect", "--block_list", write(tmp_path / "binary", b"\xff\xfe\x00")) == 2


def test_long_worker_ids_are_masked_too(out):
    """Real ones have 12 to 14 characters; the service model allows 64."""
    from fake_mturk import MTurkError

    long, short = "A" + "B2" * 20, "A1B2C3"

    def hook(call):
        if call.operation == GRANT:
            raise MTurkError(f"Worker {call.params['WorkerId']} does not exist.", "WorkerDoesNotExist")

    path = out.file("blocked.txt", f"{long}\n{short}\n")
    out.server.on_request(hook)
    assert out.do("collect", "--block_list", path) == 1
    for each in (long, short):
        assert each not in out.out + out.err
        assert not files_with(out.batch, [each])
