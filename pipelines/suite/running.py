"""Runs the steps of a suite side by side, each in a process forked from one that has already imported Beam.

A step runs its command as a terminal would, with its messages in ``OUT/.suite/logs/STEP.log``. It is a process group,
which ends with the suite, also on SIGKILL.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from parapet.pipelines import progress
from parapet.pipelines.app import Pipeline, command_line
from parapet.pipelines.command import execute
from parapet.pipelines.progress import Display
from parapet.pipelines.suite.state import FOLDER, write
from parapet.pipelines.suite.steps import Step, command_of, resolved, without
from parapet.transforms.reports.text import counted
from parapet.transforms.storage.disk import writing

if TYPE_CHECKING:
    from parapet.pipelines.suite import Plan

_POLL = 0.25  # seconds between two looks at the progress of running steps
_PATIENCE = 1.0  # seconds for steps to end after Ctrl-C
_DONE = 7  # exit status of steps that are done: status 0 may come from an os._exit() in a user's code

DONE, UNCHANGED, FAILED, BLOCKED = "done", "unchanged", "failed", "blocked"


class Outcome(NamedTuple):
    """The outcome of a step.

    Attributes:
      status: ``done``, ``unchanged``, ``failed``, or ``blocked`` (a step that it needs failed).
      reason: why it failed, the last line of its log; or the step that blocks it.
    """

    status: str
    reason: str = ""


class _Running(NamedTuple):
    """A running step; ``messages`` receives its progress."""

    step: Step
    process: BaseProcess
    messages: Connection
    begun: float


@contextlib.contextmanager
def locked(output: Path) -> Iterator[None]:
    """Locks the output folder, once the steps of a killed suite have ended. Raises InputError if a suite uses it."""
    folder = output / FOLDER
    with writing(str(output)):
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "steps.lock").open("w") as steps:
            fcntl.flock(steps, fcntl.LOCK_EX)
        yield


def warm_up() -> None:
    """Starts the process from which steps are forked; it imports Beam while the suite is checked."""
    forkserver.set_forkserver_preload(["parapet.pipelines.suite.preloaded"])
    # otherwise it would import modules in the working directory, such as a user's numpy.py
    os.environ["PYTHONSAFEPATH"] = "1"
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited: Ctrl-C must not interrupt its imports
    try:
        forkserver.ensure_running()
    finally:
        signal.signal(signal.SIGINT, handler)
        del os.environ["PYTHONSAFEPATH"]


class Runner:
    """Runs the steps of a suite.

    Args:
      plan: the suite.
      runner_flags: Beam's own flags, for the steps that run on Beam.
      jobs: the number of simultaneous steps.
      display: shows the progress.
    """

    def __init__(self, plan: Plan, runner_flags: Sequence[str], jobs: int, display: Display) -> None:
        self.plan, self.runner_flags, self.jobs, self.display = plan, runner_flags, jobs, display
        self.graph, self.state, self.folder = plan.graph, plan.state, plan.suite.folder
        self.outcomes: dict[str, Outcome] = {}
        self._running: dict[str, _Running] = {}
        self._inputs: dict[str, tuple[Step, str]] = {}  # each step as it was run, with its fingerprint

    def run(self) -> dict[str, Outcome]:
        """Runs the steps, each after those that it needs. Returns their outcomes.

        Steps whose inputs have changed since they started have failed, and so have the steps that use them.
        """
        todo = list(self.plan.names)
        try:
            while todo or self._running:
                todo = [name for name in todo if not self._begin(name)]
                if self._running:
                    self._look()
        except KeyboardInterrupt:
            for number in (signal.SIGINT, signal.SIGKILL):  # as Ctrl-C would; kills those that do not end
                for running in self._running.values():
                    _signal(running, number)
                end = time.monotonic() + _PATIENCE
                for running in self._running.values():
                    running.process.join(max(end - time.monotonic(), 0.01))
            raise
        self._check_inputs()
        return self.outcomes

    def _begin(self, name: str) -> bool:
        """Begins a step, unless it must wait. Returns whether it has begun, or is not to run."""
        needs = sorted(self.graph.needs[name])
        if len(self._running) >= self.jobs or not self.outcomes.keys() >= set(needs):
            return False
        bad = [need for need in needs if self.outcomes[need].status in (FAILED, BLOCKED)]
        step = without(self.graph.steps[name], bad)
        if step is None:
            self._end(name, Outcome(BLOCKED, f"needs {bad[0]}"))
            return True
        fingerprint = self.state.fingerprint(step, self.folder)
        self._inputs[name] = step, fingerprint
        if self.state.is_current(step, fingerprint):
            self._end(name, Outcome(UNCHANGED))
        else:
            self._fork(step, fingerprint)
        return True

    def _fork(self, step: Step, fingerprint: str) -> None:
        output = self.state.output
        command = command_of(step, output)
        runner_flags = self.runner_flags if isinstance(command, Pipeline) else ()
        self.state.started(step, fingerprint, [*command_line(command), *runner_flags])
        for path, content in step.files.items():
            write(output / path, content.encode("utf-8", "surrogateescape"))
        context = multiprocessing.get_context("forkserver")
        messages, to_suite = context.Pipe(duplex=False)
        step = msgspec.structs.replace(step, options=resolved(step.options, output))
        arguments = (step, output, runner_flags, dict(os.environ), self.folder, self._log(step.name), to_suite)
        process = context.Process(target=_run_step, args=arguments, name=step.name)
        process.start()
        to_suite.close()
        self._running[step.name] = _Running(step, process, messages, time.monotonic())
        self.display.start(step.name)

    def _look(self) -> None:
        """Waits for a moment, and receives the messages of the running steps."""
        wait([running.process.sentinel for running in self._running.values()], _POLL)
        for name, running in list(self._running.items()):
            status = running.process.exitcode
            with suppress(EOFError, OSError):
                while running.messages.poll():
                    self.display.update(name, running.messages.recv())
            if status is not None:
                del self._running[name]
                self._exited(running, status)

    def _exited(self, running: _Running, status: int) -> None:
        name = running.step.name
        running.messages.close()
        _signal(running, signal.SIGKILL)  # also ends the processes that it started
        log = self._log(name)
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
        for line in lines:
            if line.startswith("warning: "):
                logging.warning("%s: %s", name, line.removeprefix("warning: "))
        if status == _DONE:
            self.state.finished(running.step)
            self._end(name, Outcome(DONE), f"{name}: {time.monotonic() - running.begun:.1f} s")
        else:
            reason = _reason(lines, status)
            self._end(name, Outcome(FAILED, reason))
            logging.error("%s failed: %s (see %s)", name, reason, os.path.relpath(log))

    def _end(self, name: str, outcome: Outcome, text: str = "") -> None:
        self.outcomes[name] = outcome
        self.display.finish(name, text)

    def _log(self, name: str) -> Path:
        log = self.state.folder / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        return log

    def _check_inputs(self) -> None:
        """Fails the steps whose inputs have changed since they began, and those that use them."""
        changed: list[str] = []
        for name, (step, fingerprint) in self._inputs.items():
            is_changed = not self.graph.needs[name].isdisjoint(changed)
            is_changed = is_changed or self.state.fingerprint(step, self.folder) != fingerprint
            if is_changed and self.outcomes[name].status in (DONE, UNCHANGED):
                changed.append(name)
                self.outcomes[name] = Outcome(FAILED, "its inputs changed while the suite ran")
        if changed:
            logging.error(
                "inputs changed while the suite ran, so the results of %s are not used (%s): run the suite again",
                *(counted(len(changed), "step"), ", ".join(changed)),
            )


def _signal(running: _Running, number: signal.Signals) -> None:
    """Sends a signal to a step and all processes that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(running.process.pid or 0, number)


def _reason(lines: Sequence[str], status: int) -> str:
    """Returns why a step failed: the last error in its log, else how it ended."""
    if errors := [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]:
        return errors[-1]
    if status < 0:
        by_memory = " (perhaps out of memory)" if status == -signal.SIGKILL else ""
        return f"it was ended by {signal.Signals(-status).name}{by_memory}"
    return next(filter(str.strip, reversed(lines)), f"it ended with exit status {status}, without a result")


def _run_step(
    step: Step,
    output: Path,
    runner_flags: Sequence[str],
    environment: dict[str, str],
    folder: Path,
    log: Path,
    to_suite: Connection,
) -> None:
    """Runs a step's command in this process, and exits with its status."""
    os.setsid()  # makes a process group, so that the suite can end the step with its children
    threading.Thread(target=_end_with_suite, daemon=True).start()
    fcntl.flock(os.open(output / FOLDER / "steps.lock", os.O_RDWR | os.O_CREAT), fcntl.LOCK_SH)  # until it ends
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(handle, number)
        setattr(sys, name, open(number, "w", encoding="utf-8", buffering=1, closefd=False))  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)  # the forking process may have an older environment
    os.chdir(folder)
    sending, status = threading.Lock(), 1

    def send(event: progress.Event) -> None:
        with sending, suppress(OSError):
            to_suite.send(event)

    progress.sink = send
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        status = execute(command_of(step, output), runner_flags) or _DONE
    except KeyboardInterrupt:
        print("error: stopped", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # ends threads that an interrupted pipeline has left


def _end_with_suite() -> None:
    suite = multiprocessing.parent_process()
    assert suite is not None
    suite.join()
    os.killpg(0, signal.SIGKILL)
