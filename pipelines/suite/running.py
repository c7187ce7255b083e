"""Running the steps of a suite: side by side, in processes that are forked from one which has imported Beam already.

A step runs its command as a terminal would, with its messages in ``OUT/.suite/logs/STEP.log``. Steps end with the
suite: each has a thread that waits for the suite's end of a pipe to close, which a SIGKILL does as well.
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, Any

import msgspec

from parapet.pipelines import dispatch, progress
from parapet.pipelines.progress import Display
from parapet.pipelines.suite.options import command_line
from parapet.pipelines.suite.state import FOLDER, State, write
from parapet.pipelines.suite.steps import Graph, Step, without
from parapet.transforms.disk import close_in_forks, holder, writing
from parapet.transforms.text import counted

_PRELOADED = ["parapet.pipelines.suite.preloaded"]
_POLL = 0.25  # seconds between looks at what runs
_WARNINGS = 2  # of a step that are shown; its log has all
_TRIES = 20  # to get the lock, a tenth of a second each, before it is said for whom the suite waits
_SLOW = ("train", "speech_errors")  # take longer than others, as far as nobody has seen them run
_PATIENCE = 10.0  # seconds that steps have to end after Ctrl-C

DONE, UNCHANGED, FAILED, BLOCKED, STOPPED = "done", "unchanged", "failed", "blocked", "stopped"


class Outcome(msgspec.Struct, frozen=True):
    """What became of a step.

    Attributes:
      status: ``done``, ``unchanged``, ``failed``, ``blocked`` (a step that it needs failed), or ``stopped``.
      reason: why it failed: the last line of its log; or what it waited for.
      warnings: of its command.
      seconds: that it took.
    """

    status: str
    reason: str = ""
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass
class _Running:
    """A step that runs.

    Attributes:
      events: what it reports: how far it is, and in the end that it has ended by itself.
      alive: closes with the suite.
      begun: by the monotonic clock.
    """

    step: Step
    process: BaseProcess
    events: Connection
    alive: Connection
    begun: float
    has_ended: bool = False


@contextlib.contextmanager
def locked(output: Path) -> Iterator[None]:
    """Keeps others from this output folder. Raises InputError where one is at work there."""
    folder = output / FOLDER
    with writing(str(output)):
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "steps.lock").open("w") as steps:
            _wait_for(steps.fileno())  # steps of a suite that was killed end within a moment
        yield


def _wait_for(lock: int) -> None:
    """Waits until nobody has a lock; says who has it where that takes long."""
    for _ in range(_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(0.1)
    logging.warning("waiting for a step of an earlier suite: the folder %s", holder(lock))
    fcntl.flock(lock, fcntl.LOCK_EX)


def warm_up() -> None:
    """Starts the process from which steps are forked: it imports Beam while the suite is checked."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(_PRELOADED)
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"  # it would import what lies in the working directory: a user's numpy.py
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


class Runner:
    """Runs the steps of a graph, those with the longest chains of steps behind them first.

    Args:
      graph: the steps.
      state: of the output folder.
      folder: where relative paths of the options start.
      runner_flags: flags of Beam's own, for the steps that run on Beam.
      jobs: how many run at a time.
      display: shows how far they are.
    """

    def __init__(
        self, graph: Graph, state: State, folder: Path, runner_flags: Sequence[str], jobs: int, display: Display
    ) -> None:
        self.graph, self.state, self.folder, self.runner_flags = graph, state, folder, runner_flags
        self.jobs, self.display = jobs, display
        self.outcomes: dict[str, Outcome] = {}
        self._running: dict[str, _Running] = {}
        self._length = _chains(graph, state)
        self._context = multiprocessing.get_context("forkserver")

    def run(self, names: Sequence[str]) -> dict[str, Outcome]:
        """Runs steps, each once those that it needs are done. Gives what became of each."""
        wanted = set(names)
        todo = [name for name in self.graph.steps if name in wanted]
        try:
            while todo or self._running:
                todo = self._start(todo)
                if self._running:
                    self._look()
        except KeyboardInterrupt:
            self._stop()
            for name in [*self._running, *todo]:
                self.outcomes.setdefault(name, Outcome(STOPPED))
            raise
        return self.outcomes

    def _start(self, todo: list[str]) -> list[str]:
        """Starts what can be started; gives the rest."""
        left = []
        for name in sorted(todo, key=lambda name: -self._length[name]):
            step = self.graph.steps[name]
            needs = sorted(self.graph.needs[name])
            if not self.outcomes.keys() >= set(needs) or len(self._running) >= self.jobs:
                left.append(name)
                continue
            bad = [need for need in needs if self.outcomes[need].status not in (DONE, UNCHANGED)]
            remaining = without(step, bad) if bad else step
            if remaining is None:
                self._end(step, Outcome(BLOCKED, f"needs {bad[0]}"))
            else:
                step = remaining
                fingerprint = self.state.fingerprint(step, self.folder)
                if self.state.is_current(step, fingerprint):
                    self._end(step, Outcome(UNCHANGED))
                else:
                    self._fork(step, fingerprint)
        return left

    def _fork(self, step: Step, fingerprint: str) -> None:
        command = command_line(step, self.state.output, self.runner_flags)
        self.state.started(step, fingerprint, command)
        for path, content in step.files.items():
            write(self.state.output / path, content.encode("utf-8", "surrogateescape"))
        events, to_parent = self._context.Pipe(duplex=False)
        in_child, alive = self._context.Pipe(duplex=False)
        log = self.state.logs / f"{step.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        lock = str(self.state.folder / "steps.lock")
        arguments = (command, dict(os.environ), str(self.folder), str(log), lock, to_parent, in_child)
        process = self._context.Process(target=_run_step, args=arguments, name=step.name)
        process.start()
        to_parent.close()
        in_child.close()
        self._running[step.name] = _Running(step, process, events, alive, time.monotonic())
        self.display.start(step.name)

    def _look(self) -> None:
        """Waits for a moment, and takes what the running steps report."""
        wait([running.process.sentinel for running in self._running.values()], _POLL)
        for running in list(self._running.values()):
            has_exited = running.process.exitcode is not None
            with contextlib.suppress(EOFError, OSError):
                while running.events.poll():
                    event = running.events.recv()
                    if event is None:
                        running.has_ended = True
                    else:
                        self.display.update(running.step.name, event)
            if has_exited:
                self._exited(running)

    def _exited(self, running: _Running) -> None:
        step, seconds = running.step, time.monotonic() - running.begun
        del self._running[step.name]
        running.process.join()
        running.events.close()
        running.alive.close()
        log = self.state.logs / f"{step.name}.log"
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
        warnings = tuple(line.removeprefix("warning: ") for line in lines if line.startswith("warning: "))
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(running.process.pid or 0, signal.SIGKILL)  # what it has started ends with it
        reason = _reason(lines, running.process.exitcode) if running.process.exitcode else self._not_whole(running)
        if not reason:
            self.state.finished(step, seconds)
        self._end(step, Outcome(FAILED if reason else DONE, reason, warnings, seconds))

    def _not_whole(self, running: _Running) -> str:
        """Why a step that ended with status 0 is not done; empty where it is."""
        if not running.has_ended:
            return "its process was ended by code that it ran, such as os._exit()"
        folder = self.state.output / running.step.name
        if not (folder / "run.json").is_file() and not any(folder.glob("*/latest.json")):  # of a release
            return f"it has not written {folder / 'run.json'}"
        return ""

    def _end(self, step: Step, outcome: Outcome) -> None:
        """Keeps what became of a step, and shows it."""
        self.outcomes[step.name] = outcome
        self.display.finish(step.name, f"{step.name}: {outcome.seconds:.1f} s" if outcome.status == DONE else "")
        log = os.path.relpath(self.state.logs / f"{step.name}.log")
        for warning in outcome.warnings[:_WARNINGS]:
            logging.warning("%s: %s", step.name, warning)
        if (more := len(outcome.warnings) - _WARNINGS) > 0:
            logging.warning("%s: %s more, see %s", step.name, counted(more, "warning"), log)
        if outcome.status == FAILED:
            logging.error("%s failed: %s (see %s)", step.name, outcome.reason, log)

    def _stop(self) -> None:
        """Ends the running steps as Ctrl-C would, and those that do not end by force."""
        for how, patience in ((signal.SIGINT, _PATIENCE), (signal.SIGKILL, _PATIENCE)):
            for running in self._running.values():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(running.process.pid or 0, how)
            end = time.monotonic() + patience
            for running in self._running.values():
                running.process.join(max(end - time.monotonic(), 0.01))


def _chains(graph: Graph, state: State) -> dict[str, float]:
    """Of each step how long it took the last time, with the longest chain of steps that wait for it."""
    lengths: dict[str, float] = {}
    behind: dict[str, float] = {}  # the longest chain after each
    for name in reversed(graph.steps):
        usual = 60.0 if graph.steps[name].pipeline in _SLOW else 1.0
        record = state.records.get(name)
        seconds = record.seconds if record is not None else 0.0
        lengths[name] = (seconds or usual) + behind.get(name, 0.0)
        for need in graph.needs[name]:
            behind[need] = max(behind.get(need, 0.0), lengths[name])
    return lengths


def _reason(lines: Sequence[str], status: int | None) -> str:
    """Why a step failed: the last error of its log."""
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if errors:
        return errors[-1]
    if status is not None and status < 0:
        return f"ended by {signal.Signals(-status).name}" + (": out of memory?" if status == -signal.SIGKILL else "")
    return next((line for line in reversed(lines) if line.strip()), f"ended with status {status}")


def _run_step(
    command: list[str],
    environment: dict[str, str],
    folder: str,
    log: str,
    lock: str,
    events: Connection,
    alive: Connection,
) -> None:
    """Runs a command in a process of its own; ends with its status."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # there is nothing to clean up yet
    os.setsid()  # it and what it starts are one group: the suite ends them together
    threading.Thread(target=_end_with_suite, args=(alive,), daemon=True).start()
    held: IO[str] = open(lock, "w")  # noqa: SIM115 (held until the process ends)
    fcntl.flock(held, fcntl.LOCK_SH)
    close_in_forks(held.fileno())  # what the user's code forks may outlive the step
    with open(log, "w", encoding="utf-8") as handle:
        os.dup2(handle.fileno(), 1)
        os.dup2(handle.fileno(), 2)
    sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8", buffering=1, closefd=False) for number in (1, 2))  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)  # that of the process from which it was forked may be older
    os.chdir(folder)
    progress.sink = _sender(events)
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        status = int(dispatch.module_of(command[0]).run(command[1:]))
    except KeyboardInterrupt:
        print("error: stopped", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        with contextlib.suppress(OSError):
            events.send(None)
        os._exit(status)  # whatever threads a broken-off pipeline has left


def _sender(events: Connection) -> Callable[[Any], None]:
    lock = threading.Lock()

    def send(event: Any) -> None:
        with lock, contextlib.suppress(OSError):
            events.send(event)

    return send


def _end_with_suite(alive: Connection) -> None:
    """Waits for the end of the suite, and ends this process with all that it has started."""
    with contextlib.suppress(EOFError, OSError):
        alive.recv()
    os.killpg(0, signal.SIGKILL)
