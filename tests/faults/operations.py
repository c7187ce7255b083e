"""Counts what a program does to files, and lets one of these operations fail, or kills the program at it.

A library in C is preloaded below it (``operations.c``): what pyarrow, orjson or torch write counts too, and forked
workers and the steps of a suite share the count.
"""

import ctypes
import hashlib
import json
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import SkipTest

FILES = ("create", "write", "fsync", "rename", "unlink", "mkdir", "rmdir", "link", "truncate")
KINDS = (*FILES, "send")
# What is done at an operation; FAIL_ON: and at all after it; KILL_HALF: when half of it is written.
COUNT, FAIL, FAIL_ON, KILL_BEFORE, KILL_AFTER, KILL_HALF = range(6)
SOURCE = Path(__file__).parent / "operations.c"
ENVIRONMENT = {"PARAPET_WORKER_KEY": "a worker key for tests only"}


class _State(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("count", "at")),
        *((name, ctypes.c_int32) for name in ("mode", "error", "kinds", "fired", "fired_kind", "leader", "unused")),
        *(("of_kind", ctypes.c_int64 * len(KINDS)), ("fired_path", ctypes.c_char * 4096)),
        ("folder", ctypes.c_char * 4096),
    ]


class Ended(NamedTuple):
    """A command that has ended.

    Attributes:
      status: its exit status; minus the signal for a killed one.
      log: what it printed.
      operations: how many there were, by kind.
      fired: how many failed or were killed at.
      at: kind and path of the first of these.
    """

    status: int
    log: str
    operations: Counter[str]
    fired: int
    at: tuple[str, str]


def library() -> Path:
    """The compiled library; skips a test where there is no compiler, or no Linux."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        raise SkipTest("there is no C compiler, or this is not Linux: what fails below a program cannot be shown")
    name = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    target = Path(tempfile.gettempdir()) / f"parapet-faults-{os.getuid()}-{name}.so"
    if not target.exists():
        fresh = target.with_suffix(f".{os.getpid()}")
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(fresh), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True)
        os.replace(fresh, target)
    return target


class Machine:
    """A process that forks commands, one at a time.

    Args:
      place: a new folder for its own files.
      environment: for the commands.
      modules: imported once, before they are forked.
    """

    def __init__(self, place: Path, environment: Mapping[str, str] = ENVIRONMENT, modules: Sequence[str] = ()) -> None:
        preloaded = library()
        place.mkdir()
        self.place, self.environment = place, dict(environment)
        self.state_file, self.log = place / "state", place / "log.txt"
        self.state_file.write_bytes(bytes(ctypes.sizeof(_State)))
        with self.state_file.open("r+b") as handle:
            self._state = _State.from_buffer(mmap.mmap(handle.fileno(), 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.forked", *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment, "LD_PRELOAD": str(preloaded)},
            cwd=Path(__file__).parents[2],
        )

    def run(
        self,
        folder: Path,
        argv: list[str],
        mode: int = COUNT,
        at: int = 0,
        error: int = 0,
        kinds: tuple[str, ...] = FILES,
    ) -> Ended:
        """Runs a command.

        Args:
          folder: the operations below it count.
          argv: of ``parapet``, or a function of ``forked.CALLS`` with its arguments.
          mode: what happens at the operation.
          at: its number, from 1.
          error: the errno that it fails with.
          kinds: those that count.
        """
        state = self._state
        ctypes.memset(ctypes.addressof(state), 0, ctypes.sizeof(state))
        state.folder, state.mode, state.error, state.at = f"{folder}/".encode(), mode, error, at
        state.kinds = sum(1 << KINDS.index(kind) for kind in kinds)
        order = {"state": str(self.state_file), "log": str(self.log), "environment": self.environment,
                 "folder": str(self.place), "argv": argv}  # fmt: skip
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        status = json.loads(self.process.stdout.readline())
        counted = Counter({kind: n for kind, n in zip(KINDS, state.of_kind, strict=True) if n})
        where = (KINDS[state.fired_kind], state.fired_path.decode()) if state.fired else ("", "")
        return Ended(status, self.log.read_text(errors="replace"), counted, state.fired, where)

    def __enter__(self) -> "Machine":
        return self

    def __exit__(self, *_: Any) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(30)
