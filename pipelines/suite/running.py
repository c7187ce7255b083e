"""Running the steps of a suite, and what it remembers between runs.

Steps run side by side, in processes that are forked from one which has imported Beam already. A step runs its command
as a terminal would, with its messages in ``OUT/.suite/logs/STEP.log``. Steps end with the suite: each has a thread that
waits for the suite's end of a pipe to close, which a SIGKILL does as well.

A step is made again where its options, its inputs (by content) or Parapet's code differ from those of the last time,
or where its output is not what it wrote. A file is hashed again when its size, its times or its inode have changed.
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
from parapet.transforms.storage.disk import close_in_forks, holder, writing

FOLDER = ".suite"  # below the output: state, logs, locks
_STATE, _HASHES, _SETS = "state.json", "hashes.json", "sets.json"
_PACKAGES = (
    *("apache-beam", "pyarrow", "numpy", "nltk", "rapidfuzz", "simplemma", "spacy", "torch", "transformers"),
    *("hibari-tts", "moonshine-voice"),
)


class Record(msgspec.Struct, frozen=True):
    """From what a step was made.

    Attributes:
      fingerprint: of its options, inputs and code.
      output: hash of what it wrote; empty while it is being made.
      seconds: how long it took.
      command: as one would type it, with OUT for the suite's output folder.
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
        """The sets that a perturbation makes, remembered: to look at its class takes Beam, and seconds."""
        from parapet.pipelines.suite.steps import sets_of

        key = hashlib.sha256(
            json.dumps([self._code, perturbation, options], sort_keys=True, default=str).encode()
        ).hexdigest()
        if key not in self._sets:
            sets, in_folders = sets_of(perturbation, options)
            self._sets[key] = list(sets), in_folders
        return self._sets[key]

    def fingerprint(self, step: Step, folder: Path) -> str:
        """The fingerprint of a step whose inputs are there.

        Args:
          step: the step.
          folder: where relative paths start.
        """
        own = {str(self.output / path) for path in step.files}

        def described(value: object) -> object:
            """A value with the content of what it names. The place of an input outside does not count."""
            if isinstance(value, Mapping):
                return {key: described(item) for key, item in value.items()}
            if isinstance(value, list | tuple):
                return [described(item) for item in value]
            if not isinstance(value, str):
                return value
            places = [place for place in _places(value, folder, self.output) if place not in own]
            return [os.path.basename(value) if os.path.isabs(value) else value, *map(self.hash_of, map(Path, places))]

        known = [self._code, step.name, step.command, described(step.options), step.files, described(step.reads)]
        if ":" in str(step.options.get("model", "")):
            known.append(source_hash(str(step.options["model"]), folder))
        if step.pipeline in ("compose", "compose_variations"):
            known.append(_worker_key())
        return hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()

    def is_current(self, step: Step, fingerprint: str) -> bool:
        """Whether a step's output is there, whole, and made from the same."""
        record = self.records.get(step.name)
        return (
            record is not None
            and record.fingerprint == fingerprint
            and record.output == self.hash_of(self.output / step.name)
        )

    def finished(self, step: Step, seconds: float) -> None:
        """Records that a step is done."""
        record, output = self.records[step.name], self.hash_of(self.output / step.name)
        self.records[step.name] = msgspec.structs.replace(record, output=output, seconds=round(seconds, 3))
        self.save()

    def started(self, step: Step, fingerprint: str, command: Sequence[str]) -> None:
        """Records that a step is being made, and clears away what its command would not replace.

        A broken-off run of the same step goes on where it was; a training of other options must not, and a release of
        this suite is rebuilt under its version until it is published.
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
        """The hash of what a step wrote when it last finished; empty where it has not."""
        record = self.records.get(name)
        return record.output if record is not None else ""

    def hash_of(self, path: Path) -> str:
        """The hash of a file's content, or of a folder's file names and contents; of what is not there, "missing"."""
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
        except OSError:  # removed meanwhile, or a link that leads nowhere
            return "missing"
        if not stat.S_ISREG(info.st_mode):  # a FIFO would wait for ever
            return "missing"
        # Two files of one size and time may trade places: those of an archive, or generated ones.
        facts = [info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino]
        known = self._hashes.get(path)
        if known is not None and known[0] == facts:
            return known[1]
        with open(path, "rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
        self._hashes[path] = (facts, digest)
        return digest

    def save(self) -> None:
        """Writes the records."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write(self.folder / _STATE, msgspec.json.format(msgspec.json.encode(self.records, order="sorted"), indent=1))
        write(self.folder / _SETS, msgspec.json.encode(self._sets))
        write(self.folder / _HASHES, msgspec.json.encode(self._hashes))


def write(path: Path, content: bytes) -> None:
    """Writes a file under a temporary name and renames it; one of the same content stays as it is."""
    try:
        if path.read_bytes() == content:
            return
    except OSError:
        pass
    disk.write(path, content)


def _read(path: Path, kind: Any) -> Any:
    """The content of a state file; nothing where it is not there or damaged: everything is then made again."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return {}


def _code() -> str:
    """Parapet's code, that of plug-ins, and what they run on."""
    others = [
        [plugin.name, plugin.version, source_hash(plugin.target)]
        for group in plugins.GROUPS
        for plugin in plugins.installed(group)
        if not plugin.built_in
    ]
    return f"{code_sha256()} {json.dumps([versions(), others])}"


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that shape what is computed, as far as they are installed."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def source_hash(target: str, folder: Path | None = None) -> str:
    """The hash of the user's code behind ``FILE.py:NAME`` or ``MODULE:NAME``; empty where there is none.

    ``folder`` is that of the suite's file, which is on the path while a model runs. The hash covers the module and the
    modules that it imports from its own folder and from ``folder``, or from its own package where it is installed.
    Modules that are named only while the code runs, and files that it reads, are not covered.
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
    """A module's file, and those below the roots that it imports, directly or not; with a prefix that package's alone.

    ``first`` is below the first root.
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
            continue  # the step will say so
        for node in ast.walk(tree):
            for name in _imported_names(node, file.parent.relative_to(above).parts):
                parts = name.split(".")
                for root in roots if prefix in ("", parts[0]) else ():
                    for i in range(1, len(parts) + 1):
                        module = root.joinpath(*parts[:i])
                        waiting += [(module.with_suffix(".py"), root), (module / "__init__.py", root)]
    return files


def _imported_names(node: ast.AST, package: Sequence[str]) -> Iterator[str]:
    """The full names that an import statement may mean as modules."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = [*package[: len(package) - node.level + 1]] if node.level else []
        base += [node.module] if node.module else []
        yield from (".".join([*base, alias.name]) for alias in node.names if alias.name != "*")
        if base:
            yield ".".join(base)


def _worker_key() -> str:
    """The hash of the key with which worker ids are hashed: answers look different under another."""
    from parapet.transforms.crowd.worker_ids import load_worker_key

    return hashlib.sha256(load_worker_key()).hexdigest()


def _places(value: str, folder: Path, output: Path) -> Iterator[str]:
    """The files and folders that an option names: as a whole, after ``NAME=``, before ``:NAME``, or by ``@STEP``."""
    if not value or "\0" in value:
        return
    for reference in references(value):
        yield place_of(reference, output)
    for text in dict.fromkeys([value, value.partition("=")[2], value.rpartition(":")[0], *value.split(",")]):
        if text and not text.startswith("@") and len(text) < 4096 and os.path.exists(folder / text):
            yield str(folder / text)


def _files(folder: str, above: tuple[str, ...] = ()) -> Iterator[str]:
    """All files below a folder, through links too, but for those of a run that was broken off, or of a suite."""
    real = os.path.realpath(folder)
    if real in above:  # a link to a folder that it is in
        return
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if not os.path.isdir(path):
            yield path
        elif name not in ("__pycache__", ".incomplete", FOLDER) and not os.path.isdir(os.path.join(path, FOLDER)):
            yield from _files(path, (*above, real))


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
    logging.warning("waiting for a step of an earlier run of a suite, which still uses the folder %s", holder(lock))
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
            return "its process was ended by the code that it ran, for example by os._exit()"
        folder = self.state.output / running.step.name
        if not (folder / "run.json").is_file() and not any(folder.glob("*/latest.json")):  # of a release
            return f"it did not write {folder / 'run.json'}"
        return ""

    def _end(self, step: Step, outcome: Outcome) -> None:
        """Keeps what became of a step, and shows it."""
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
