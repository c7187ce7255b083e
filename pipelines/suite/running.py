"""Runs the steps of a suite side by side, and records what each was made from.

A step runs again if its command, its inputs (by content) or Parapet's code have changed since the last run, or if its
output has been modified. It runs its command as a terminal would, in a process forked from one that has already
imported Beam, with its messages in ``OUT/.suite/logs/STEP.log``. It is a process group, which ends with the suite, also
on SIGKILL.
"""

from __future__ import annotations

import ast
import contextlib
import fcntl
import hashlib
import itertools
import json
import logging
import multiprocessing
import os
import platform
import shlex
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from parapet.pipelines import app, progress
from parapet.pipelines.command import execute
from parapet.pipelines.suite.suite_file import SAMPLE, Step, command_of, place_of, references, resolved, texts, without
from parapet.schemas.errors import InputError, code_sha256
from parapet.schemas.layout import sample_root, stays_within
from parapet.transforms.core import disk, plugins
from parapet.transforms.report.text import counted

if TYPE_CHECKING:
    from parapet.pipelines.suite import Plan

FOLDER = ".suite"  # folder in the output, with state, logs and locks
_PACKAGES = (
    *("apache-beam", "pyarrow", "numpy", "nltk", "rapidfuzz", "simplemma", "spacy", "torch", "transformers"),
    *("hibari-tts", "moonshine-voice"),
)
_POLL = 0.25  # seconds between two looks at the progress of running steps
_PATIENCE = 1.0  # seconds for steps to end after Ctrl-C
_DONE = 7  # exit status of steps that are done: status 0 may come from an os._exit() in a user's code

DONE, UNCHANGED, FAILED, BLOCKED = "done", "unchanged", "failed", "blocked"


class Record(msgspec.Struct, frozen=True):
    """The record of how a step was made.

    Attributes:
      fingerprint: the hash of its command, inputs and code.
      output: the hash of its output; empty while it is running.
      command: the command line, with OUT for the suite's output folder.
    """

    fingerprint: str
    output: str
    command: str


class _Saved(msgspec.Struct):
    records: dict[str, Record] = {}
    hashes: dict[str, tuple[list[int], str]] = {}  # path to what identifies its content, and the hash


class State:
    """The records of an output folder.

    Args:
      output: the suite's output folder.
    """

    def __init__(self, output: Path) -> None:
        self.output, self.folder = output, output / FOLDER
        self._saved = _Saved()
        with suppress(OSError, msgspec.DecodeError):  # if it is missing or damaged, all steps run again
            self._saved = msgspec.json.decode((self.folder / "state.json").read_bytes(), type=_Saved)
        self.records = self._saved.records
        self._code = _code()

    def fingerprint(self, step: Step, folder: Path) -> str:
        """Computes the fingerprint of a step whose inputs exist.

        Args:
          step: the step.
          folder: the folder from which relative paths start.
        """
        # A cache of answers grows while a step runs, and does not change its results.
        options = {key: value for key, value in step.options.items() if key != "cache"}
        paths = _paths([options, step.reads], folder, self.output)
        known = [self._code, step.name, step.command, options, step.files, step.reads]
        known += [self.hash_of(path) for path in paths if path.name not in step.files]
        if ":" in str(options.get("model", "")):
            known.append(source_hash(str(options["model"]), folder))
        if step.command[0] in ("compose", "compose_variations"):
            from parapet.transforms.crowd.worker_ids import load_worker_key

            known.append(hashlib.sha256(load_worker_key()).hexdigest())  # with another key, answers have other ids
        return hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()

    def is_current(self, step: Step, fingerprint: str) -> bool:
        """Whether a step's output exists, is complete, and was made from the same inputs."""
        record = self.records.get(step.name)
        current = (fingerprint, self.hash_of(self.output / step.name))
        return record is not None and (record.fingerprint, record.output) == current

    def started(self, step: Step, fingerprint: str, command: Sequence[str]) -> None:
        """Records that a step is running, and deletes output that its command would not replace.

        An interrupted run of the same step continues from its files. A training with other options must not, and a
        release may be rebuilt under the same version until it is published.
        """
        before = self.records.get(step.name)
        other_training = step.command[0] == "train" and (before is None or before.fingerprint != fingerprint)
        if other_training or step.command == ("release", "build"):
            folder = self.output / step.name
            if not stays_within(str(self.output), step.name):
                raise InputError("leads outside of the suite's folder by a link: remove the link", folder.parent)
            shutil.rmtree(folder, ignore_errors=True)
        words = [word.replace(f"{self.output}{os.sep}", f"OUT{os.sep}") for word in command]
        words = [word.replace(str(sample_root()), SAMPLE) for word in words]
        self.records[step.name] = Record(fingerprint, "", shlex.join(["parapet", *words]))
        self.save()

    def finished(self, step: Step) -> None:
        """Records that a step has finished."""
        output = self.hash_of(self.output / step.name)
        self.records[step.name] = msgspec.structs.replace(self.records[step.name], output=output)
        self.save()

    def output_of(self, name: str) -> str:
        """Returns the hash of a step's last finished output; empty if it has not finished."""
        return self.records[name].output if name in self.records else ""

    def hash_of(self, path: Path) -> str:
        """Hashes a file's content, or a folder's file names and contents; "missing" if the path does not exist."""
        if not path.is_dir():
            return self._hash_of_file(str(path))
        digest = hashlib.sha256()
        for file in sorted(_files(str(path))):
            line = f"{os.path.relpath(file, path)}\0{self._hash_of_file(file)}\0"
            digest.update(line.encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def _hash_of_file(self, path: str) -> str:
        if not os.path.isfile(path):  # removed meanwhile, a broken link, or a FIFO, whose reading would block for ever
            return "missing"
        info = os.stat(path)
        # Two files with equal size and time may be swapped, such as extracted or generated ones; their inodes differ.
        facts = [info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino]
        known = self._saved.hashes.get(path)
        if known is None or known[0] != facts:
            with open(path, "rb") as handle:
                known = facts, hashlib.file_digest(handle, "sha256").hexdigest()
            self._saved.hashes[path] = known
        return known[1]

    def save(self) -> None:
        """Writes the records to disk."""
        disk.write(self.folder / "state.json", msgspec.json.encode(self._saved))


def _code() -> str:
    """Hashes Parapet's code, that of plug-ins, and the packages they depend on."""
    others = [
        [plugin.name, plugin.version, source_hash(plugin.target)]
        for group in plugins.GROUPS
        for plugin in plugins.installed(group)
        if not plugin.built_in
    ]
    return f"{code_sha256()} {json.dumps([versions(), others])}"


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the installed packages that influence results."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def source_hash(target: str, folder: Path | None = None) -> str:
    """Hashes the user's code behind ``FILE.py:NAME`` or ``MODULE:NAME``; empty for ours and without a file.

    The hash covers the file, or all modules of the package, and unless it is installed what they import from its folder
    and from ``folder``, that of the suite's file, which is on the path while a model runs. Modules imported by computed
    names, and data files, are not covered.
    """
    place = target.rpartition(":")[0]
    roots = [folder] if folder else []
    if place.endswith(".py"):
        own = [((folder or Path()) / place).absolute()]
    else:
        top = place.partition(".")[0]  # parapet's own modules are part of code_sha256
        is_name = top.isidentifier() and top != "parapet"
        spec = PathFinder.find_spec(top, [*map(str, roots), *sys.path]) if is_name else None
        if spec is None:
            return ""
        own = list(map(Path, spec.submodule_search_locations or [spec.origin or ""]))
    files = {file for path in own for file in (path.rglob("*.py") if path.is_dir() else [path])}
    root = own[0].parent
    if root.name not in ("site-packages", "dist-packages"):
        files = _with_imports(files, [root, *roots])
    digest = hashlib.sha256()
    for file in sorted(filter(Path.is_file, files)):
        digest.update(f"{os.path.relpath(file, root)}\0".encode("utf-8", "surrogateescape") + file.read_bytes())
    return digest.hexdigest()


def _with_imports(first: Iterable[Path], roots: Sequence[Path]) -> set[Path]:
    """Lists files and the files below the roots that they import, directly or indirectly."""
    files, waiting = set[Path](), list(first)
    while waiting:
        file = waiting.pop()
        if file in files or not file.is_file():
            continue
        files.add(file)
        with suppress(SyntaxError, ValueError):  # the step will report it
            for node in ast.walk(ast.parse(file.read_bytes())):
                if not isinstance(node, ast.Import | ast.ImportFrom):
                    continue
                level, module = (node.level, node.module or "") if isinstance(node, ast.ImportFrom) else (0, "")
                for place, alias in itertools.product([*file.parents][level - 1 : level] or roots, node.names):
                    for name in module.split(".") + alias.name.split("."):
                        place /= name
                        waiting += [place.with_suffix(".py"), place / "__init__.py"]
    return files


def _paths(value: object, folder: Path, output: Path) -> Iterator[Path]:
    """Yields the paths that options name: as a whole, after ``NAME=``, before ``:NAME``, or by ``@STEP``."""
    for text in texts(value):
        for reference in references(text):
            yield Path(place_of(reference, output))
        for part in dict.fromkeys([text, text.partition("=")[2], text.rpartition(":")[0], *text.split(",")]):
            with suppress(OSError, ValueError):  # not the name of a file
                if part and not part.startswith("@") and (folder / part).exists():
                    yield folder / part


def _files(folder: str, above: tuple[str, ...] = ()) -> Iterator[str]:
    """Yields all files below a folder, also through links, except for those of interrupted runs and of suites."""
    real = os.path.realpath(folder)
    if real in above:  # a link to a folder that contains it
        return
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if not os.path.isdir(path):
            yield path
        elif name not in ("__pycache__", ".incomplete", FOLDER) and not os.path.isdir(os.path.join(path, FOLDER)):
            yield from _files(path, (*above, real))


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
    with disk.writing(str(output)):
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

    def __init__(self, plan: Plan, runner_flags: Sequence[str], jobs: int, display: progress.Display) -> None:
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
        runner_flags = self.runner_flags if isinstance(command, app.Pipeline) else ()
        self.state.started(step, fingerprint, [*app.command_line(command), *runner_flags])
        for path, content in step.files.items():
            disk.write(output / path, content.encode("utf-8", "surrogateescape"))
        context = multiprocessing.get_context("forkserver")
        messages, to_suite = context.Pipe(duplex=False)
        step = msgspec.structs.replace(step, options=resolved(step.options, output))
        arguments = (step, output, runner_flags, dict(os.environ), self.folder, to_suite)
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
        log = log_of(self.state.output, name)
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


def log_of(output: Path, step: str) -> Path:
    """Returns the path of a step's log, in a folder that exists."""
    log = output / FOLDER / "logs" / f"{step}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    return log


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
    to_suite: Connection,
) -> None:
    """Runs a step's command in this process, and exits with its status."""
    os.setsid()  # makes a process group, so that the suite can end the step with its children
    threading.Thread(target=_end_with_suite, daemon=True).start()
    fcntl.flock(os.open(output / FOLDER / "steps.lock", os.O_RDWR | os.O_CREAT), fcntl.LOCK_SH)  # until it ends
    handle = os.open(log_of(output, step.name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
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
