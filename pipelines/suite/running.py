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
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import msgspec

from parapet.pipelines import dispatch, progress
from parapet.pipelines.progress import Display
from parapet.pipelines.suite.state import FOLDER, State, write
from parapet.pipelines.suite.steps import Graph, Step, command_line, without
from parapet.transforms.reports.text import counted
from parapet.transforms.storage.disk import writing

_POLL = 0.25  # seconds between two looks at the progress of running steps
_WARNINGS = 2  # warnings shown for each step; its log has all
_SLOW = ("train", "speech_errors")  # assumed to take longer than other steps until they have run once
_PATIENCE = 1.0  # seconds for steps to end after Ctrl-C, and for those of a killed suite before a message says so

DONE, UNCHANGED, FAILED, BLOCKED = "done", "unchanged", "failed", "blocked"


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a step.

    Attributes:
      status: ``done``, ``unchanged``, ``failed``, or ``blocked`` (a step that it needs failed).
      reason: why it failed, the last line of its log; or the step that blocks it.
      seconds: the duration.
    """

    status: str
    reason: str = ""
    seconds: float = 0.0


@dataclass
class _Running:
    """A running step; ``messages`` receives its progress, and None at a regular end."""

    step: Step
    process: BaseProcess
    messages: Connection
    begun: float
    has_ended: bool = False


@contextlib.contextmanager
def locked(output: Path) -> Iterator[None]:
    """Locks the output folder. Raises InputError if another suite is using it."""
    folder = output / FOLDER
    with writing(str(output)):
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "steps.lock").open("w") as steps:  # the steps of a killed suite end within a moment
            text = "waiting for a step of an earlier run of a suite, which still uses the folder"
            message = threading.Timer(_PATIENCE, logging.warning, [text])
            message.start()
            fcntl.flock(steps, fcntl.LOCK_EX)
            message.cancel()
        yield


def warm_up() -> None:
    """Starts the process from which steps are forked; it imports Beam while the suite is checked."""
    forkserver.set_forkserver_preload(["parapet.pipelines.suite.preloaded"])
    before = dict(os.environ)
    # otherwise it would import modules in the working directory, such as a user's numpy.py
    os.environ["PYTHONSAFEPATH"] = "1"
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited: Ctrl-C must not interrupt its imports
    try:
        forkserver.ensure_running()
    finally:
        signal.signal(signal.SIGINT, handler)
        os.environ.clear()
        os.environ.update(before)


class Runner:
    """Runs the steps of a graph, those with the longest chains of dependent steps first.

    Args:
      graph: the steps.
      state: the state of the output folder.
      folder: the folder from which relative paths in options start.
      runner_flags: Beam's own flags, for the steps that run on Beam.
      jobs: the number of simultaneous steps.
      display: shows the progress.
    """

    def __init__(
        self, graph: Graph, state: State, folder: Path, runner_flags: Sequence[str], jobs: int, display: Display
    ) -> None:
        self.graph, self.state, self.folder, self.runner_flags = graph, state, folder, runner_flags
        self.jobs, self.display = jobs, display
        self.outcomes: dict[str, Outcome] = {}
        self._running: dict[str, _Running] = {}
        self._inputs: dict[str, tuple[Step, str]] = {}  # each step as it was run, with its fingerprint

    def run(self, names: Sequence[str]) -> dict[str, Outcome]:
        """Runs steps, each after those that it needs. Returns their outcomes.

        Steps whose inputs have changed since they started have failed, and so have the steps that use them.
        """
        lengths = _chains(self.graph, self.state)
        todo = sorted(names, key=lambda name: -lengths[name])
        try:
            while todo or self._running:
                todo = [name for name in todo if not self._begin(name)]
                if self._running:
                    self._look()
        except KeyboardInterrupt:
            self._stop()
            raise
        self._check_inputs()
        return self.outcomes

    def _begin(self, name: str) -> bool:
        """Begins a step, unless it must wait. Returns whether it has begun, or is not to run."""
        step, needs = self.graph.steps[name], sorted(self.graph.needs[name])
        if len(self._running) >= self.jobs or not self.outcomes.keys() >= set(needs):
            return False
        bad = [need for need in needs if self.outcomes[need].status in (FAILED, BLOCKED)]
        remaining = without(step, bad) if bad else step
        if remaining is None:
            self._end(step, Outcome(BLOCKED, f"needs {bad[0]}"))
            return True
        fingerprint = self.state.fingerprint(remaining, self.folder)
        self._inputs[name] = remaining, fingerprint
        if self.state.is_current(remaining, fingerprint):
            self._end(step, Outcome(UNCHANGED))
        else:
            self._fork(remaining, fingerprint)
        return True

    def _fork(self, step: Step, fingerprint: str) -> None:
        command = command_line(step, self.state.output, self.runner_flags)
        self.state.started(step, fingerprint, command)
        for path, content in step.files.items():
            write(self.state.output / path, content.encode("utf-8", "surrogateescape"))
        log = self._log(step.name)
        log.parent.mkdir(parents=True, exist_ok=True)
        context = multiprocessing.get_context("forkserver")
        messages, to_suite = context.Pipe(duplex=False)
        lock = self.state.folder / "steps.lock"
        arguments = (command, dict(os.environ), self.folder, log, lock, to_suite)
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
                    event = running.messages.recv()
                    running.has_ended = event is None
                    if event is not None:
                        self.display.update(name, event)
            if status is not None:
                del self._running[name]
                self._exited(running, status)

    def _exited(self, running: _Running, status: int) -> None:
        step, seconds = running.step, time.monotonic() - running.begun
        running.messages.close()
        _signal(running, signal.SIGKILL)  # also ends the processes that it started
        log = self._log(step.name)
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
        reason = _reason(lines, status) if status else ""
        folder = self.state.output / step.name
        if not status and not running.has_ended:
            reason = "its process was ended by the code that it ran, for example by os._exit()"
        elif not status and not (folder / "run.json").is_file() and not any(folder.glob("*/latest.json")):
            reason = f"it did not write {folder / 'run.json'}"
        if not reason:
            self.state.finished(step, seconds)
        self._end(step, Outcome(FAILED if reason else DONE, reason, seconds))
        warnings = [line.removeprefix("warning: ") for line in lines if line.startswith("warning: ")]
        for warning in warnings[:_WARNINGS]:
            logging.warning("%s: %s", step.name, warning)
        if (more := len(warnings) - _WARNINGS) > 0:
            logging.warning("%s: %s more warnings, see %s", step.name, counted(more, "warning"), os.path.relpath(log))
        if reason:
            logging.error("%s failed: %s (see %s)", step.name, reason, os.path.relpath(log))

    def _end(self, step: Step, outcome: Outcome) -> None:
        self.outcomes[step.name] = outcome
        self.display.finish(step.name, f"{step.name}: {outcome.seconds:.1f} s" if outcome.status == DONE else "")

    def _log(self, name: str) -> Path:
        return self.state.logs / f"{name}.log"

    def _stop(self) -> None:
        """Interrupts the running steps as Ctrl-C would, and kills those that do not end."""
        for number in (signal.SIGINT, signal.SIGKILL):
            for running in self._running.values():
                _signal(running, number)
            end = time.monotonic() + _PATIENCE
            for running in self._running.values():
                running.process.join(max(end - time.monotonic(), 0.01))

    def _check_inputs(self) -> None:
        changed: dict[str, str] = {}
        for name, (step, fingerprint) in self._inputs.items():
            if self.outcomes[name].status in (DONE, UNCHANGED):
                if made_from := sorted(self.graph.needs[name] & changed.keys()):
                    changed[name] = f"uses {made_from[0]}, whose inputs changed while the suite ran"
                elif self.state.fingerprint(step, self.folder) != fingerprint:
                    changed[name] = "its inputs changed while the suite ran"
        self.outcomes |= {name: Outcome(FAILED, reason) for name, reason in changed.items()}
        if changed:
            steps = ", ".join([*list(changed)[:3], *(["..."] if len(changed) > 3 else [])])
            logging.error(
                "inputs changed while the suite ran, so the results of %s are not used (%s): run the suite again",
                *(counted(len(changed), "step"), steps),
            )


def _signal(running: _Running, number: signal.Signals) -> None:
    """Sends a signal to a step and all processes that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(running.process.pid or 0, number)


def _chains(graph: Graph, state: State) -> dict[str, float]:
    """Computes for each step its last duration plus that of the longest chain of steps that depend on it."""
    lengths = dict.fromkeys(graph.steps, 0.0)  # at first without the step itself
    for name, step in reversed(graph.steps.items()):
        record = state.records.get(name)
        lengths[name] += (record.seconds if record else 0.0) or (60.0 if step.pipeline in _SLOW else 1.0)
        for need in graph.needs[name]:
            lengths[need] = max(lengths[need], lengths[name])
    return lengths


def _reason(lines: Sequence[str], status: int) -> str:
    """Returns why a step failed: the last error in its log."""
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if errors:
        return errors[-1]
    if status < 0:
        return f"it was ended by {signal.Signals(-status).name}" + (
            " (perhaps out of memory)" if status == -signal.SIGKILL else ""
        )
    return next((line for line in reversed(lines) if line.strip()), f"it ended with exit status {status}")


def _run_step(
    command: list[str], environment: dict[str, str], folder: Path, log: Path, lock: Path, to_suite: Connection
) -> None:
    """Runs a command in this process, and exits with its status."""
    os.setsid()  # makes a process group, so that the suite can end the step with its children
    threading.Thread(target=_end_with_suite, daemon=True).start()
    fcntl.flock(os.open(lock, os.O_RDWR | os.O_CREAT), fcntl.LOCK_SH)  # until the process ends
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(handle, number)
        setattr(sys, name, open(number, "w", encoding="utf-8", buffering=1, closefd=False))  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)  # the forking process may have an older environment
    os.chdir(folder)
    sending, status = threading.Lock(), 1

    def send(event: progress.Event | None) -> None:
        with sending, suppress(OSError):
            to_suite.send(event)

    progress.sink = send
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        status = dispatch.run_module(dispatch.module_of(command[0]), command[1:])
    except KeyboardInterrupt:
        print("error: stopped", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        send(None)
        os._exit(status)  # ends threads that an interrupted pipeline has left


def _end_with_suite() -> None:
    suite = multiprocessing.parent_process()
    assert suite is not None
    suite.join()
    os.killpg(0, signal.SIGKILL)
