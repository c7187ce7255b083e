"""How a command shows how far it is: live lines on a terminal, messages elsewhere, events for a suite."""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path

import pytest

from parapet.pipelines import progress
from parapet.pipelines.command import configure_logging
from parapet.pipelines.progress import Display, Event, running, step_name
from parapet.transforms.progress import VARIABLE, advance, expect, tracked


@pytest.mark.parametrize(
    ("step", "name"),
    [
        ("Read-responses-ParDo-ReadResponses-", "Read responses"),
        ("By-assignment-CoGroupByKeyImpl-Tag-0-", "By assignment"),
        ("Settle-ParDo-SettleServices-", "Settle"),
        ("Services-MaybeReshuffle-Reshuffle-ReshufflePerKey", "Services"),
        ("Write-pages-Write-file", "Write pages"),
    ],
)
def test_a_step_is_told_by_our_label(step: str, name: str) -> None:
    assert step_name(step) == name


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_heartbeats_have_rate_and_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("text", quiet=False)
    clock = Clock()
    with Display("suite", 3, clock=clock) as display:
        display.start("typos")
        display.start("train")
        clock.now += 10
        display.update("typos", Event("", 1000, 6000, "dialogues"))
        display.update("train", Event("epoch 1", 1, None, "steps"))
        display.beat()
        clock.now += 10
        display.update("typos", Event("Publish", 0, None, ""))
        display.beat()
        display.finish("typos", "typos: 20 s")
    assert capsys.readouterr().err.splitlines() == [
        "typos: 1,000 of 6,000 dialogues, 100/s, 0:50 left",
        "train: epoch 1: 1 step, 6/min",
        "typos: Publish: 0:20 so far",
        "train: epoch 1: 1 step, 3/min",
        "typos: 20 s",
    ]


def test_a_stage_is_timed_from_the_end_of_the_one_before(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("json", quiet=False)
    clock = Clock()
    with Display(clock=clock) as display:
        display.start("ood")
        clock.now += 50
        display.update("ood", Event("analysis", 10, 10, "dialogues"))
        clock.now += 2
        display.update("ood", Event("", 4, 10, "dialogues"))
        display.beat()
    assert json.loads(capsys.readouterr().err) == {
        "level": "info",
        "logger": "root",
        "message": "ood: 4 of 10 dialogues, 2/s, 0:03 left",
        "step": "ood",
        "stage": "",
        "done": 4,
        "total": 10,
        "unit": "dialogues",
        "rate": 2.0,
        "seconds_left": 3.0,
    }


def test_events_go_to_the_sink(monkeypatch: pytest.MonkeyPatch) -> None:
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
        advance(1, "dialogues")  # again, by a worker that takes over from one that died
        run.stage("Publish")
    assert events == [
        Event("", 0, None, ""),
        Event("Read", 0, None, ""),
        Event("", 2, 5, "dialogues"),
        Event("", 5, 5, "dialogues"),
        Event("Publish", 0, None, ""),
    ]
    assert VARIABLE not in os.environ


def test_nobody_reads_and_nothing_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert list(tracked("ab", "dialogues")) == ["a", "b"]
    gone = tmp_path / "gone"
    monkeypatch.setenv(VARIABLE, str(gone))  # of a command that has ended
    assert list(tracked("ab", "dialogues")) == ["a", "b"]
    advance(1, "dialogues")
    assert not gone.exists()


def test_heartbeats_come_of_themselves(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    configure_logging("text", quiet=False)
    beaten = threading.Event()
    monkeypatch.setattr(logging.getLogger().handlers[0], "flush", beaten.set)
    monkeypatch.setattr(progress, "HEARTBEAT", 0.01)
    with running("parapet rewrite"):
        assert beaten.wait(30)
    assert capsys.readouterr().err.splitlines()[0] == "parapet rewrite: 0:00 so far"
