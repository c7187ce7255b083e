"""``parapet mturk``: its command lines, their exit statuses, and what they never tell."""

import contextlib
import io
import json
import logging

import pytest
from fake_mturk import FakeMTurk, Script, play
from kit import as_nobody, cases

from parapet.pipelines.main import main, parser_of
from parapet.pipelines.mturk import ACTIONS

BATCH_ACTIONS = ("collect", "status", "topup", "pay", "stop")


@pytest.fixture(autouse=True)
def nobody(monkeypatch, tmp_path):
    as_nobody(monkeypatch, tmp_path)


class Told:
    """A command that was run: its status and what it printed."""

    def __init__(self, *argv):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.status = main(["mturk", *map(str, argv)])
        logging.getLogger().handlers.clear()
        self.out, self.err = out.getvalue(), err.getvalue()


# What goes where, and what is told.


BROKEN, EMPTY = (b"nonsense\n", "row 1: not a line of the journal"), (b"", "contains no batch")
# Any action for an empty journal, and "publish" and another for a broken one.
JOURNALS = [("pay", *BROKEN), ("publish", *BROKEN), *((action, *EMPTY) for action in BATCH_ACTIONS)]


def flags_of(action):
    return {"pay": ["--all"], "topup": ["--hits", "."]}.get(action, [])


@cases("action journal told", *JOURNALS)
def test_a_journal_that_cannot_be_used_is_told_in_one_line(action, journal, told, tmp_path, hits):
    (tmp_path / "journal.jsonl").write_bytes(journal)
    flags = flags_of(action)
    if action == "publish":
        flags = ["--hits", hits, "--endpoint_url", "http://127.0.0.1:9"]
    run = Told(action, "--batch", tmp_path, *flags)
    assert run.status in (1, 2)
    assert told in run.err
    assert (run.err.count("\n"), (tmp_path / "journal.jsonl").read_bytes()) == (1, journal)


@pytest.mark.parametrize("action", BATCH_ACTIONS)
def test_a_folder_without_a_batch_is_left_as_it_is(action, tmp_path):
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "missing"):
        told = Told(action, "--batch", folder, *flags_of(action))
        assert (told.status, told.err.count("\n")) == (2, 1)
        assert f"{folder}: contains no batch: create one with 'parapet mturk publish'" in told.err
    assert [*tmp_path.rglob("*")] == [tmp_path / "empty"]


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_examples_have_only_flags_of_their_action(action):
    known = {flag for option in parser_of("mturk", action)._actions for flag in option.option_strings}
    for line in Told(action, "--help").out.partition("example:")[2].splitlines():
        if line.startswith(f"  parapet mturk {action}"):
            assert {word for word in line.split() if word.startswith("--")} <= known


# A whole batch.


@pytest.fixture(scope="module")
def hits(tmp_path_factory):
    out = tmp_path_factory.mktemp("hits") / "out"
    assert main(["hits", "--output", str(out), "--sandbox", "--assignments", "3", "--quiet"]) == 0
    return out


def worker(n):
    return f"A{n}W{n}" + "X1Y2Z3"


def answers(server, tasks, workers):
    """Everybody does every task named, all fields."""
    found = []
    for task in tasks:
        found += [Script(worker(n), task, {"intent_0": f"words {n}", "slot_0": f"of mine {n}"}, 200) for n in workers]
    return play(server, found)


def test_no_worker_is_named_anywhere_but_in_the_raw_files(hits, tmp_path):
    """Publish, collect, top up, pay with rejections and bonuses, fail and stop: every file, every word."""
    batch, told = tmp_path / "batch", []

    def run(*argv, status=0):
        made = Told(*argv)
        told.append(made)
        assert made.status == status, made.out + made.err
        return made

    blocked = tmp_path / "blocked.txt"
    blocked.write_text(f"{worker(99)}\n")
    with FakeMTurk(tmp_path / "server.db") as server:
        where = ["--batch", batch]
        flags = ["--hits", hits, "--endpoint_url", server.url, "--block_list", blocked, "--max_per_worker", 3]
        run("publish", *where, *flags, "--dry_run")
        run("publish", *where, *flags)
        assert answers(server, ["Ferries_1:names", "Gyms_1:names", "Repairs_1:names"], [1, 2, 3]) == 9
        run("collect", *where)
        lines = [json.loads(line) for line in (batch / "assignments.jsonl").read_text().splitlines()]
        ids = [line["AssignmentId"] for line in lines]
        shortfall = tmp_path / "shortfall.csv"
        shortfall.write_text("service_name,task,field,have,need\nFerries_1,names,slot_0,4,5\n")
        run("topup", *where, "--hits", hits, "--shortfall", shortfall, "--dry_run")
        run("topup", *where, "--hits", hits, "--shortfall", shortfall)
        bonuses = tmp_path / "bonuses.csv"
        bonuses.write_text(f"assignment_id,amount,reason\n{ids[0]},0.10,Thanks\n{ids[1]},0.10,Thanks\n")
        server.recycle(ids[1], worker(98))
        run("pay", *where, "--all", "--bonuses", bonuses, "--dry_run")
        run("pay", *where, "--all", "--bonuses", bonuses, status=1)  # one is another worker's now
        run("collect", *where)
        run("status", *where)
        run("status", *where, "--json")
        run("stop", *where, "--dry_run")
        run("stop", *where)
        server.stop()
        run("collect", *where, status=1)
    everyone = [worker(n) for n in (1, 2, 3, 98, 99)]
    for made in told:
        assert not [each for each in everyone if each in made.out + made.err]
    raw = {"assignments.jsonl"}
    files = {path.name: path.read_text() for path in batch.iterdir()}
    assert raw | {"journal.jsonl", "ledger.csv", "status.html"} <= set(files)
    for name, text in files.items():
        assert name in raw or not any(each in text for each in everyone), name
    assert all(worker(n) in files["assignments.jsonl"] for n in (1, 3, 98))


def test_quiet_prints_nothing_that_is_no_error(hits, tmp_path):
    with FakeMTurk(tmp_path / "server.db") as server:
        where = ["--batch", tmp_path / "batch", "--quiet"]
        made = [Told("publish", *where, "--hits", hits, "--endpoint_url", server.url)]
        made.append(Told("collect", *where))
        made.append(Told("stop", *where))
    assert ([each.status for each in made], [each.out + each.err for each in made]) == ([0, 0, 0], ["", "", ""])
