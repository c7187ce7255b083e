"""How a command shows how far it is: live lines on a terminal, messages elsewhere, events for a suite."""

import contextlib
import io
import logging
import os
import pty
import subprocess
import sys

from kit import json_of

from parapet.pipelines import progress
from parapet.pipelines.command import configure_logging
from parapet.pipelines.main import main
from parapet.pipelines.progress import Display, Event, running
from parapet.transforms.core.progress import READING, VARIABLE, advance, expect, tracked


class Clock:
    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)


class FakeTerminal(io.StringIO):
    def isatty(self):
        return True

    def screen(self):
        """The lines that it shows, without those that are empty."""
        return [line for line in screen_of(self.getvalue()) if line]


def test_messages_are_above_the_line_of_progress(monkeypatch):
    terminal, clock = FakeTerminal(), Clock(monkeypatch)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    configure_logging(quiet=False)
    long = "left out: " + "[bold]a dialogue[/bold], " * 20
    with Display("my_suite", 3) as display:
        display.start("typos")
        clock.now += 10
        logging.warning("%s", long)
        display.update("typos", Event("", 1000, 6000, "dialogues"))
        (*messages, line) = terminal.screen()
        display.start("train")
        display.finish("typos", "typos: 10 s")
    assert messages == [f"warning: {long}".rstrip()]
    assert line == "my_suite: 0 of 3 steps; typos: 1,000 of 6,000 dialogues, 100/s, 0:50 left"
    assert terminal.screen() == [*messages, "typos: 10 s"]


def test_a_word_is_on_the_screen_before_anything_heavy_is_imported():
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", STOPS_AT_HEAVY, "rewrite", "--variants", ".", "--output", "../unused"]
    with subprocess.Popen(command, stderr=theirs, env={**os.environ, "TERM": "xterm"}):
        os.close(theirs)
        written = b""
        with contextlib.suppress(OSError):  # nobody has the other end any more
            while data := os.read(ours, 65536):
                written += data
    os.close(ours)
    assert "parapet rewrite" in screen_of(written.decode())[0]


STOPS_AT_HEAVY = """
import os, signal, sys
class Stops:
    def find_spec(self, name, *_):
        if name in ("apache_beam", "numpy", "pyarrow", "spacy", "torch"):
            os.kill(os.getpid(), signal.SIGKILL)
sys.meta_path.insert(0, Stops())
from parapet.pipelines.main import main
main(sys.argv[1:])
"""


def rewrite(sample, out, *flags):
    """Three dialogue files, to the variant that the sample itself is."""
    return main(["rewrite", "--sgd", str(sample), "--variants", str(sample), "--output", str(out), *flags])


def test_events_and_heartbeats_of_a_run(sample, tmp_path, monkeypatch, capfd):
    events = []
    monkeypatch.setattr(progress, "HEARTBEAT", 0.001)
    with monkeypatch.context() as patched:
        patched.setattr(progress, "sink", events.append)
        assert (rewrite(sample, tmp_path / "out", "--quiet"), capfd.readouterr()) == (0, ("", ""))
    counted = json_of(tmp_path / "out" / "statistics.json")["dialogues"]
    assert events[0] == Event("", 0, None, "")
    assert [event for event in events if event.unit][-1] == Event("", counted, counted, "dialogues")
    assert rewrite(sample, tmp_path / "out") == 0
    messages = capfd.readouterr().err.splitlines()
    assert f"parapet rewrite: 0 of {counted} dialogues" in messages
    assert any(message.startswith("done in ") for message in messages)


def screen_of(written):
    """The lines that a terminal shows: of each, what was written after it was cleared."""
    return [line.rpartition("\r\x1b[K")[2].rstrip() for line in written.replace("\r\n", "\n").split("\n")]


def test_messages_have_rate_and_time_left(capsys, monkeypatch):
    """A stage is timed from the end of the one before."""
    configure_logging(quiet=False)
    clock = Clock(monkeypatch)

    def updated(seconds, name, *event):
        clock.now += seconds
        display.update(name, Event(*event))

    with Display("suite", 3) as display:
        display.start("typos")
        display.start("train")
        updated(20, "train", "epoch 1", 1, None, "steps")
        updated(10, "typos", "", 3000, 6000, "dialogues")
        updated(10, "typos", "Publish", 0, None, "")
        display.finish("typos", "typos: 20 s")
    with Display() as display:
        display.start("ood")
        updated(29, "ood", "analysis", 10, 10, "dialogues")
        updated(2, "ood", "", 4, 10, "dialogues")
    assert capsys.readouterr().err.splitlines() == [
        "suite: 0 of 3 steps",
        "typos: 3,000 of 6,000 dialogues, 100/s, 0:30 left",
        "train: epoch 1: 1 step, 2/min",
        "typos: 20 s",
        "ood: 4 of 10 dialogues, 2/s, 0:03 left",
    ]


def test_events_go_to_the_sink(monkeypatch):
    events: list[Event] = []
    monkeypatch.setattr(progress, "sink", events.append)
    with running("parapet rewrite") as run:
        expect(2, "dialogues")
        expect(3, "dialogues")
        run.poll()
        run.stage("Read")
        advance(2, "dialogues")
        run.poll()
        assert list(tracked("abc", "dialogues")) == ["a", "b", "c"]
        run.poll()
        advance(3, "dialogues", READING)  # by which the stage above is done
        advance(1, "dialogues")  # again, by a worker that takes over from one that died
        run.stage("Publish")
        advance(1, "dialogues", READING)
        run.poll()
    read = [Event("Read", 0, None, ""), Event("", 2, 5, "dialogues"), Event("", 5, 5, "dialogues")]
    published = [Event("Publish", 0, None, ""), Event("reading", 1, None, "dialogues")]
    assert list(dict.fromkeys(events)) == [Event("", 0, 5, "dialogues"), *read, *published]
    assert VARIABLE not in os.environ


def test_nobody_reads_and_nothing_is_written(monkeypatch, tmp_path):
    assert list(tracked("ab", "dialogues")) == ["a", "b"]
    gone = tmp_path / "gone"
    monkeypatch.setenv(VARIABLE, str(gone))  # of a command that has ended
    assert list(tracked("ab", "dialogues")) == ["a", "b"]
    advance(1, "dialogues")
    assert not gone.exists()
