"""Runs the steps of a suite, and keeps the state between runs.

Steps run side by side, in processes forked from one that has already imported Beam. A step runs its command as a
terminal would, with its messages in ``OUT/.suite/logs/STEP.log``. Steps end with the suite: a thread in each waits for
the suite's end of a pipe to close, which also happens on SIGKILL.

A step runs again if its options, its inputs (by content) or Parapet's code have changed since the last run, or if its
output has been modified. A file is hashed again if its size, times or inode have changed.
"""

from __future__ import annotations

import ast
import contextlib
import fcntl
import hashlib
import json
import logging
import multiprocessing
import os
import platform
import shlex
import shutil
import signal
import stat
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, Any

import msgspec

from parapet.pipelines import dispatch, progress
from parapet.pipelines.progress import Display
from parapet.pipelines.suite.steps import SAMPLE, Graph, Options, Step, command_line, place_of, references, without
from parapet.schemas.errors import InputError, code_sha256
from parapet.schemas.layout import sample_root, stays_within
from parapet.transforms.reports.text import counted
from parapet.transforms.running import plugins
from parapet.transforms.storage import disk
from parapet.transforms.storage.disk import writing

FOLDER = ".suite"  # folder in the output, with state, logs and locks
_STATE, _HASHES, _SETS = "state.json", "hashes.json", "sets.json"
_PACKAGES = (
    *("apache-beam", "pyarrow", "numpy", "nltk", "rapidfuzz", "simplemma", "spacy", "torch", "transformers"),
    *("hibari-tts", "moonshine-voice"),
)


class Record(msgspec.Struct, frozen=True):
    """The record of how a step was made.

    Attributes:
      fingerprint: the hash of its options, inputs and code.
      output: the hash of its output; empty while it is running.
      seconds: the duration.
      command: the command line, with OUT for the suite's output folder.
    """

    fingerprint: str
    output: str
    seconds: float
    command: str


class State:
    """The records of an output folder.

    Args:
      output: the suite's output folder.
    """

    def __init__(self, output: Path) -> None:
        self.output, self.folder, self.logs = output, output / FOLDER, output / FOLDER / "logs"
        self.records: dict[str, Record] = _read(self.folder / _STATE, dict[str, Record])
        self._hashes: dict[str, tuple[list[int], str]] = _read(self.folder / _HASHES, dict[str, tuple[list[int], str]])
        self._sets: dict[str, tuple[list[str], bool]] = _read(self.folder / _SETS, dict[str, tuple[list[str], bool]])
        self._code = _code()

    def sets_of(self, perturbation: str, options: Options) -> tuple[Sequence[str], bool]:
        """Returns the sets that a perturbation makes.

        The result is cached, as importing its class and Beam takes seconds.
        """
        from parapet.pipelines.suite.steps import sets_of

        key = hashlib.sha256(
            json.dumps([self._code, perturbation, options], sort_keys=True, default=str).encode()
        ).hexdigest()
        if key not in self._sets:
            sets, in_folders = sets_of(perturbation, options)
            self._sets[key] = list(sets), in_folders
        return self._sets[key]

    def fingerprint(self, step: Step, folder: Path) -> str:
        """Computes the fingerprint of a step whose inputs exist.

        Args:
          step: the step.
          folder: the folder from which relative paths start.
        """
        own = {str(self.output / path) for path in step.files}

        def described(value: object) -> object:
            """Replaces paths in a value by hashes of their contents, so that moving an input changes nothing."""
            if isinstance(value, Mapping):
                return {key: described(item) for key, item in value.items()}
            if isinstance(value, list | tuple):
                return [described(item) for item in value]
            if not isinstance(value, str):
                return value
            places = [place for place in _places(value, folder, self.output) if place not in own]
            return [os.path.basename(value) if os.path.isabs(value) else value, *map(self.hash_of, map(Path, places))]

        # A cache of answers grows while a step runs, and does not change its results.
        options = {key: value for key, value in step.options.items() if key != "cache"}
        known = [self._code, step.name, step.command, described(options), step.files, described(step.reads)]
        if ":" in str(step.options.get("model", "")):
            known.append(source_hash(str(step.options["model"]), folder))
        if step.pipeline in ("compose", "compose_variations"):
            known.append(_worker_key())
        return hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()

    def is_current(self, step: Step, fingerprint: str) -> bool:
        """Whether a step's output exists, is complete, and was made from the same inputs."""
        record = self.records.get(step.name)
        return (
            record is not None
            and record.fingerprint == fingerprint
            and record.output == self.hash_of(self.output / step.name)
        )

    def finished(self, step: Step, seconds: float) -> None:
        """Records that a step has finished."""
        record, output = self.records[step.name], self.hash_of(self.output / step.name)
        self.records[step.name] = msgspec.structs.replace(record, output=output, seconds=round(seconds, 3))
        self.save()

    def started(self, step: Step, fingerprint: str, command: Sequence[str]) -> None:
        """Records that a step is running, and deletes output that its command would not replace.

        An interrupted run of the same step continues from its files. A training with other options must not, and a
        release may be rebuilt under the same version until it is published.
        """
        record = self.records.get(step.name)
        folder = self.output / step.name
        other_training = step.pipeline == "train" and (record is None or record.fingerprint != fingerprint)
        if other_training or step.command == ("release", "build"):
            if not stays_within(str(self.output), step.name):
                raise InputError("leads outside of the suite's folder by a link: remove the link", folder.parent)
            shutil.rmtree(folder, ignore_errors=True)
        words = [word.replace(f"{self.output}{os.sep}", f"OUT{os.sep}") for word in command]
        words = [word.replace(str(sample_root()), SAMPLE) for word in words]
        seconds = record.seconds if record is not None else 0.0
        self.records[step.name] = Record(fingerprint, "", seconds, shlex.join(["parapet", *words]))
        self.save()

    def output_of(self, name: str) -> str:
        """Returns the hash of a step's last finished output; empty if it has not finished."""
        record = self.records.get(name)
        return record.output if record is not None else ""

    def hash_of(self, path: Path) -> str:
        """Hashes a file's content, or a folder's file names and contents; "missing" if the path does not exist."""
        if path.is_dir():
            digest = hashlib.sha256()
            for file in sorted(_files(str(path))):
                digest.update(
                    f"{os.path.relpath(file, path)}\0{self._hash_of_file(file)}\0".encode("utf-8", "surrogateescape")
                )
            return digest.hexdigest()
        return self._hash_of_file(str(path)) if path.is_file() else "missing"

    def _hash_of_file(self, path: str) -> str:
        try:
            info = os.stat(path)
        except OSError:  # removed meanwhile, or a broken link
            return "missing"
        if not stat.S_ISREG(info.st_mode):  # reading a FIFO would block for ever
            return "missing"
        # Two files with equal size and time may be swapped, such as extracted or generated ones; their inodes differ.
        facts = [info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino]
        known = self._hashes.get(path)
        if known is not None and known[0] == facts:
            return known[1]
        with open(path, "rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
        self._hashes[path] = (facts, digest)
        return digest

    def save(self) -> None:
        """Writes the records to disk."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write(self.folder / _STATE, msgspec.json.format(msgspec.json.encode(self.records, order="sorted"), indent=1))
        write(self.folder / _SETS, msgspec.json.encode(self._sets))
        write(self.folder / _HASHES, msgspec.json.encode(self._hashes))


def write(path: Path, content: bytes) -> None:
    """Writes a file under a temporary name and renames it; leaves a file with the same content untouched."""
    try:
        if path.read_bytes() == content:
            return
    except OSError:
        pass
    disk.write(path, content)


def _read(path: Path, kind: Any) -> Any:
    """Reads a state file; empty if it is missing or damaged, so that all steps run again."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return {}


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
    """Hashes the user's code behind ``FILE.py:NAME`` or ``MODULE:NAME``; empty if it has no file.

    The hash covers the module and the modules that it imports from its own folder and from ``folder``, or from its own
    package if it is installed. ``folder`` is that of the suite's file, which is on the path while a model runs. Modules
    imported by computed names, and data files, are not covered.
    """
    place = target.rpartition(":")[0]
    first: Path | None
    if place.endswith(".py"):
        first = (folder or Path()) / place
        root, prefix = first.parent, ""
    else:
        if not all(part.isidentifier() for part in place.split(".")):
            return ""
        beside = folder.joinpath(*place.split(".")) if folder else Path()
        files = (beside.with_suffix(".py"), beside / "__init__.py") if folder else ()
        first = next((path for path in files if path.is_file()), None)
        if first is None:
            try:
                spec = find_spec(place)
            except (ImportError, ValueError):
                return ""
            if spec is None or not spec.origin:
                return ""
            first = Path(spec.origin)
        above = len(place.split(".")) - (first.name != "__init__.py")
        root = first.parents[above]
        prefix = place.partition(".")[0] if root.name in ("site-packages", "dist-packages") else ""
    roots = list(dict.fromkeys([root, folder] if folder and not prefix else [root]))
    digest = hashlib.sha256()
    for file in sorted(_imported_files(first, roots, prefix)):
        digest.update(f"{os.path.relpath(file, root)}\0".encode("utf-8", "surrogateescape") + file.read_bytes())
    return digest.hexdigest()


def _imported_files(first: Path, roots: Sequence[Path], prefix: str) -> set[Path]:
    """Lists a module's file and the files below the roots that it imports, directly or indirectly.

    ``first`` lies below the first root. With a prefix, only modules of that package are listed.
    """
    files, waiting = set[Path](), [(first, roots[0])]
    while waiting:
        file, above = waiting.pop()
        if file in files or not file.is_file():
            continue
        files.add(file)
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError):
            continue  # the step will report it
        for node in ast.walk(tree):
            for name in _imported_names(node, file.parent.relative_to(above).parts):
                parts = name.split(".")
                for root in roots if prefix in ("", parts[0]) else ():
                    for i in range(1, len(parts) + 1):
                        module = root.joinpath(*parts[:i])
                        waiting += [(module.with_suffix(".py"), root), (module / "__init__.py", root)]
    return files


def _imported_names(node: ast.AST, package: Sequence[str]) -> Iterator[str]:
    """Yields the full names of the modules that an import statement may import."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = [*package[: len(package) - node.level + 1]] if node.level else []
        base += [node.module] if node.module else []
        yield from (".".join([*base, alias.name]) for alias in node.names if alias.name != "*")
        if base:
            yield ".".join(base)


def _worker_key() -> str:
    """Hashes the key for worker ids: with another key, answers have other ids."""
    from parapet.transforms.crowd.worker_ids import load_worker_key

    return hashlib.sha256(load_worker_key()).hexdigest()


def _places(value: str, folder: Path, output: Path) -> Iterator[str]:
    """Yields the paths that an option names: as a whole, after ``NAME=``, before ``:NAME``, or by ``@STEP``."""
    if not value or "\0" in value:
        return
    for reference in references(value):
        yield place_of(reference, output)
    for text in dict.fromkeys([value, value.partition("=")[2], value.rpartition(":")[0], *value.split(",")]):
        if text and not text.startswith("@") and len(text) < 4096 and os.path.exists(folder / text):
            yield str(folder / text)


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


_PRELOADED = ["parapet.pipelines.suite.preloaded"]
_POLL = 0.25  # seconds between two checks of running steps
_WARNINGS = 2  # warnings shown for each step; its log has all
_TRIES = 20  # attempts to get the lock, 0.1 s apart, before a message says what the suite is waiting for
_SLOW = ("train", "speech_errors")  # assumed to take longer than other steps until they have run once
_PATIENCE = 1.0  # seconds for steps to end after Ctrl-C

DONE, UNCHANGED, FAILED, BLOCKED, STOPPED = "done", "unchanged", "failed", "blocked", "stopped"


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a step.

    Attributes:
      status: ``done``, ``unchanged``, ``failed``, ``blocked`` (a step that it needs failed), or ``stopped``.
      reason: why it failed, the last line of its log; or the step that blocks it.
      warnings: the warnings of its command.
      seconds: the duration.
    """

    status: str
    reason: str = ""
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass
class _Running:
    """A running step.

    Attributes:
      events: receives its progress, and None at a regular end.
      alive: closes with the suite.
      begun: when it began, by the monotonic clock.
    """

    step: Step
    process: BaseProcess
    events: Connection
    alive: Connection
    begun: float
    has_ended: bool = False


@contextlib.contextmanager
def locked(output: Path) -> Iterator[None]:
    """Locks the output folder. Raises InputError if another suite is using it."""
    folder = output / FOLDER
    with writing(str(output)):
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "steps.lock").open("w") as steps:
            _wait_for(steps.fileno())  # the steps of a killed suite end within a moment
        yield


def _wait_for(lock: int) -> None:
    """Waits for a lock; logs who holds it if that takes long."""
    for _ in range(_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(0.1)
    logging.warning("waiting for a step of an earlier run of a suite, which still uses the folder")
    fcntl.flock(lock, fcntl.LOCK_EX)


def warm_up() -> None:
    """Starts the process from which steps are forked; it imports Beam while the suite is checked."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(_PRELOADED)
    before = os.environ.get("PYTHONSAFEPATH")
    # otherwise it would import modules in the working directory, such as a user's numpy.py
    os.environ["PYTHONSAFEPATH"] = "1"
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited: Ctrl-C must not interrupt its imports
    try:
        forkserver.ensure_running()
    finally:
        signal.signal(signal.SIGINT, handler)
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


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
        self._length = _chains(graph, state)
        self._context = multiprocessing.get_context("forkserver")

    def run(self, names: Sequence[str]) -> dict[str, Outcome]:
        """Runs steps, each after those that it needs. Returns their outcomes.

        Steps whose inputs have changed since they started have failed, and so have the steps that use them.
        """
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
        self._check_inputs()
        return self.outcomes

    def _check_inputs(self) -> None:
        changed: dict[str, str] = {}
        for name, (step, fingerprint) in self._inputs.items():
            if self.outcomes[name].status in (DONE, UNCHANGED):
                if made_from := sorted(self.graph.needs[name] & changed.keys()):
                    changed[name] = f"uses {made_from[0]}, whose inputs changed while the suite ran"
                elif self.state.fingerprint(step, self.folder) != fingerprint:
                    changed[name] = "its inputs changed while the suite ran"
        for name, reason in changed.items():
            self.outcomes[name] = msgspec.structs.replace(self.outcomes[name], status=FAILED, reason=reason)
        if changed:
            steps = ", ".join([*list(changed)[:3], *(["..."] if len(changed) > 3 else [])])
            logging.error(
                "inputs changed while the suite ran, so the results of %s are not used (%s): run the suite again",
                *(counted(len(changed), "step"), steps),
            )

    def _start(self, todo: list[str]) -> list[str]:
        """Starts the steps that can run; returns the others."""
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
                self._inputs[name] = step, fingerprint
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
        """Waits for a moment, and receives events of the running steps."""
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
            os.killpg(running.process.pid or 0, signal.SIGKILL)  # also ends the processes that it started
        reason = _reason(lines, running.process.exitcode) if running.process.exitcode else self._not_whole(running)
        if not reason:
            self.state.finished(step, seconds)
        self._end(step, Outcome(FAILED if reason else DONE, reason, warnings, seconds))

    def _not_whole(self, running: _Running) -> str:
        """Returns why a step that exited with status 0 is incomplete; empty if it is complete."""
        if not running.has_ended:
            return "its process was ended by the code that it ran, for example by os._exit()"
        folder = self.state.output / running.step.name
        if not (folder / "run.json").is_file() and not any(folder.glob("*/latest.json")):  # of a release
            return f"it did not write {folder / 'run.json'}"
        return ""

    def _end(self, step: Step, outcome: Outcome) -> None:
        """Stores and shows the outcome of a step."""
        self.outcomes[step.name] = outcome
        self.display.finish(step.name, f"{step.name}: {outcome.seconds:.1f} s" if outcome.status == DONE else "")
        log = os.path.relpath(self.state.logs / f"{step.name}.log")
        for warning in outcome.warnings[:_WARNINGS]:
            logging.warning("%s: %s", step.name, warning)
        if (more := len(outcome.warnings) - _WARNINGS) > 0:
            logging.warning("%s: %s more warnings, see %s", step.name, counted(more, "warning"), log)
        if outcome.status == FAILED:
            logging.error("%s failed: %s (see %s)", step.name, outcome.reason, log)

    def _stop(self) -> None:
        """Interrupts the running steps as Ctrl-C would, and kills those that do not end."""
        for how, patience in ((signal.SIGINT, _PATIENCE), (signal.SIGKILL, _PATIENCE)):
            for running in self._running.values():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(running.process.pid or 0, how)
            end = time.monotonic() + patience
            for running in self._running.values():
                running.process.join(max(end - time.monotonic(), 0.01))


def _chains(graph: Graph, state: State) -> dict[str, float]:
    """Computes for each step its last duration plus that of the longest chain of steps that depend on it."""
    lengths: dict[str, float] = {}
    behind: dict[str, float] = {}  # step to the longest chain after it
    for name in reversed(graph.steps):
        usual = 60.0 if graph.steps[name].pipeline in _SLOW else 1.0
        record = state.records.get(name)
        seconds = record.seconds if record is not None else 0.0
        lengths[name] = (seconds or usual) + behind.get(name, 0.0)
        for need in graph.needs[name]:
            behind[need] = max(behind.get(need, 0.0), lengths[name])
    return lengths


def _reason(lines: Sequence[str], status: int | None) -> str:
    """Returns why a step failed: the last error in its log."""
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if errors:
        return errors[-1]
    if status is not None and status < 0:
        return f"it was ended by {signal.Signals(-status).name}" + (
            " (perhaps out of memory)" if status == -signal.SIGKILL else ""
        )
    return next((line for line in reversed(lines) if line.strip()), f"it ended with exit status {status}")


def _run_step(
    command: list[str],
    environment: dict[str, str],
    folder: str,
    log: str,
    lock: str,
    events: Connection,
    alive: Connection,
) -> None:
    """Runs a command in this process, and exits with its status."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing needs cleaning up yet
    os.setsid()  # makes a process group, so that the suite can end the step with its children
    threading.Thread(target=_end_with_suite, args=(alive,), daemon=True).start()
    held: IO[str] = open(lock, "w")  # noqa: SIM115 (held until the process ends)
    fcntl.flock(held, fcntl.LOCK_SH)
    with open(log, "w", encoding="utf-8") as handle:
        os.dup2(handle.fileno(), 1)
        os.dup2(handle.fileno(), 2)
    sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8", buffering=1, closefd=False) for number in (1, 2))  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)  # the forking process may have an older environment
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
        os._exit(status)  # ends threads that an interrupted pipeline has left


def _sender(events: Connection) -> Callable[[Any], None]:
    lock = threading.Lock()

    def send(event: Any) -> None:
        with lock, contextlib.suppress(OSError):
            events.send(event)

    return send


def _end_with_suite(alive: Connection) -> None:
    """Waits for the end of the suite, and kills this process and all that it started."""
    with contextlib.suppress(EOFError, OSError):
        alive.recv()
    os.killpg(0, signal.SIGKILL)
