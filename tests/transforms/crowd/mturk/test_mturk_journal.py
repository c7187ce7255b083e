import errno
import json
import os
from concurrent.futures import ThreadPoolExecutor

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit import cases, json_of, raised
from mturk_bench import mode

from parapet.schemas.errors import InputError
from parapet.transforms.crowd.mturk.batch import FORMAT, JOURNAL, TRACES, Batch, Journal, Settings, begin


def write(folder, *entries):
    with Journal(folder) as journal:
        journal.write(entries)


def read(folder):
    return Journal(folder, writable=False)


def test_a_prefix_ends_at_a_colon(tmp_path):
    write(tmp_path, ("done", "hit:a:b", "", {}), ("done", "hits:c", "", {}), ("done", "hit", "", {}))
    assert list(read(tmp_path).with_prefix("hit")) == ["a:b"]


def test_every_line_is_on_the_disk_before_write_returns_and_only_the_owner_reads_it(tmp_path):
    with Journal(tmp_path / "new" / "batch") as journal:
        journal.write([("begun", "a", "op", {}), ("begun", "b", "op", {})])
        lines = journal.path.read_bytes().splitlines()
        assert ([json.loads(line)["key"] for line in lines], mode(journal.path)) == (["a", "b"], 0o600)
        journal.write([])
        assert len(journal.path.read_bytes().splitlines()) == 2


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_cut_anywhere_it_reads_as_a_run_that_ended_there(tmp_path, data):
    (tmp_path / JOURNAL).unlink(missing_ok=True)
    write(tmp_path, *(("done", f"pay:é{n}", "op", {"text": "a\nb\u2028c"}) for n in range(4)))
    whole = (tmp_path / JOURNAL).read_bytes()
    end = data.draw(st.integers(0, len(whole)))
    (tmp_path / JOURNAL).write_bytes(whole[:end])
    with Journal(tmp_path) as journal:
        assert len(journal.done) == whole[:end].count(b"\n")
        journal.write([("done", "last", "op", {})])
    assert list(read(tmp_path).done)[-1] == "last"


def test_a_journal_of_another_format_says_which_version_goes_on_with_it(tmp_path):
    begin(tmp_path, "http://127.0.0.1:1", {})
    entry = json_of(tmp_path / JOURNAL)
    entry["facts"] |= {"format": FORMAT + 1, "parapet": "9.8.7"}
    (tmp_path / JOURNAL).write_text(json.dumps(entry) + "\n")
    told = r"made by Parapet 9\.8\.7.*continue with that version"
    raised(InputError, Batch, tmp_path, match=told)
    with (tmp_path / JOURNAL).open("a") as file:
        file.write('{"at":"x","event":"invented","key":"a"}\n')
    raised(InputError, Batch, tmp_path, match=told)  # before the unknown event


def test_threads_may_write_at_once(tmp_path):
    with Journal(tmp_path) as journal, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: journal.write([("done", f"pay:{n}", "op", {"n": n})]), range(50)))
    assert {facts["n"] for facts in read(tmp_path).done.values()} == set(range(50))


KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
FACTS = st.dictionaries(
    KEYS.filter(lambda name: name not in ("at", "operation")),
    st.none() | st.booleans() | st.integers(-(1 << 53), 1 << 53) | KEYS | st.lists(KEYS, max_size=3),
    max_size=4,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=st.lists(st.tuples(st.sampled_from(["begun", "done", "failed"]), KEYS, FACTS), max_size=12))
def test_what_is_written_is_read_again(tmp_path, calls):
    (tmp_path / JOURNAL).unlink(missing_ok=True)
    with Journal(tmp_path) as journal:
        half = len(calls) // 2
        for some in (calls[:half], calls[half:]):
            journal.write((event, key, "op", facts) for event, key, facts in some)
        done, pending = journal.done, journal.open
    again = read(tmp_path)
    assert (list(again.done.items()), again.open) == (list(done.items()), pending)
    assert {key for event, key, _ in calls if event == "done"} == set(done)


@cases("countries approval approved most", ((), 0, 0, 0), (("US-CA", "GB"), 100, 10_000, 99))
def test_settings_survive_the_journal(tmp_path, countries, approval, approved, most):
    wanted = Settings(countries=countries, min_approval=approval, min_approved=approved, max_per_worker=most)
    begin(tmp_path, "http://127.0.0.1:1", msgspec.structs.asdict(wanted))
    assert Batch(tmp_path, writable=False).settings == wanted


def test_a_first_run_that_was_cut_off_at_once_is_begun_again(tmp_path):
    (tmp_path / JOURNAL).write_bytes(b"")
    begin(tmp_path, "https://mturk.example", {})
    assert read(tmp_path).batch["endpoint"] == "https://mturk.example"


def test_a_journal_that_cannot_be_read_lets_others_in(tmp_path):
    (tmp_path / JOURNAL).write_bytes(b"nonsense\n")
    for _ in range(2):
        raised(InputError, Journal, tmp_path, match="row 1")  # the second time not "another process"


@cases("trace", *TRACES)
@cases("left", None, b"", b'{"at": "2026', bytes(4096))
def test_a_lost_journal_is_no_new_batch(tmp_path, trace, left):
    (tmp_path / trace).write_text("of a batch that was published\n")
    if left is not None:
        (tmp_path / JOURNAL).write_bytes(left)
    for open_it in (lambda: begin(tmp_path, "https://mturk.example", {}), lambda: Batch(tmp_path, writable=False)):
        raised(InputError, open_it, match=f"although the folder has {trace} of a batch.*from a backup")
    assert left == ((tmp_path / JOURNAL).read_bytes() if (tmp_path / JOURNAL).exists() else None)


def test_a_full_disk_is_told_with_the_file(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with Journal(tmp_path) as journal:
        monkeypatch.setattr(os, "write", full)
        assert raised(OSError, journal.write, [("begun", "a", "op", {})]).filename == str(tmp_path / JOURNAL)
