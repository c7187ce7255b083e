"""Locks on output folders: one run writes, or several read.

A lock is the kernel's, on the open folder itself (``flock``): it ends with its process, however that ends, and leaves
no file behind. Forked workers let go of it at once. Buckets have none, nor have some network file systems: there a run
does not publish where another has begun since (:mod:`parapet.transforms.files`).
"""

from __future__ import annotations

import fcntl
import logging
import os
import shlex
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from parapet.schemas.errors import InputError

_SHOWN = 80  # characters of a command
_TRIES = 100  # to lock a folder that others remove in the meantime

_Key = tuple[int, int]  # device and inode of a folder

_writers: dict[_Key, tuple[int, str]] = {}  # what this process has locked to write there: the thread, the real path
_descriptors: set[int] = set()


def _let_go() -> None:
    """In a forked process: a lock stays as long as any process has it open."""
    for descriptor in _descriptors:
        with suppress(OSError):
            os.close(descriptor)
    _descriptors.clear()
    _writers.clear()


os.register_at_fork(after_in_child=_let_go)


def close_in_forks(descriptor: int) -> None:
    """Lets forked processes go of a lock, so that it ends with the process that has it."""
    _descriptors.add(descriptor)


@contextmanager
def writing(folder: str) -> Iterator[None]:
    """Keeps others from writing to a local folder, or reading it, while the block runs; makes it where it is missing.

    The thread that has the lock may take it again. A folder that was made and is empty in the end is removed.

    Raises:
      InputError: others write there, or read.
    """
    made: list[str] = []
    descriptor = None if "://" in folder else _locked(folder, made)
    if descriptor is None:
        yield
        return
    key = _key(descriptor)
    _writers[key] = threading.get_ident(), os.path.realpath(folder)
    try:
        yield
    finally:
        for path in reversed(made):
            with suppress(OSError):
                os.rmdir(path)
        del _writers[key]
        _close(descriptor)


@contextmanager
def reading(folder: str) -> Iterator[None]:
    """Keeps others from writing to a local folder while the block runs.

    One below what this process writes itself is left to it: it is the output of another command, which it runs.

    Raises:
      InputError: others write there.
    """
    place = os.path.realpath(folder)
    is_own = any(place == own or place.startswith(f"{own}/") for _, own in _writers.values())
    descriptor = None if "://" in folder or is_own else _opened(folder)
    if descriptor is None:
        yield
        return
    try:
        _lock(descriptor, folder, fcntl.LOCK_SH)
        yield
    finally:
        _close(descriptor)


def _locked(folder: str, made: list[str]) -> int | None:
    """The descriptor of a folder that is locked; None where it cannot be opened, or this thread has the lock."""
    for _ in range(_TRIES):
        _make(folder, made)
        descriptor = _opened(folder)
        if descriptor is None:
            return None  # whoever writes there reports it
        try:
            if _writers.get(_key(descriptor), (None, ""))[0] == threading.get_ident():
                _close(descriptor)
                return None
            _lock(descriptor, folder, fcntl.LOCK_EX)
            with suppress(OSError):
                if _key(descriptor) == _key(folder):
                    return descriptor
        except BaseException:
            _close(descriptor)
            raise
        _close(descriptor)  # it was removed before it was locked
    return None


def _make(folder: str, made: list[str]) -> None:
    """Makes a folder and those above it, and notes which."""
    missing = []
    while folder and not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    with suppress(OSError):
        for path in reversed(missing):
            os.mkdir(path)
            made.append(path)


def _opened(folder: str) -> int | None:
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        _descriptors.add(descriptor)
        return descriptor
    return None


def _close(descriptor: int) -> None:
    _descriptors.discard(descriptor)
    os.close(descriptor)


def _key(place: int | str) -> _Key:
    found = os.stat(place)
    return found.st_dev, found.st_ino


def _lock(descriptor: int, folder: str, operation: int) -> None:
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(f"{holder(descriptor)}: wait until it ends", folder) from None
    except OSError as error:  # not every file system has locks
        logging.debug("%s: no lock: %s", folder, error)


def holder(descriptor: int) -> str:
    """Who has a lock, as far as the kernel says."""
    with suppress(OSError, ValueError):
        inode = os.fstat(descriptor).st_ino
        for line in Path("/proc/locks").read_text().splitlines():
            _, kind, _, mode, process, place, *_ = line.split()
            if kind == "FLOCK" and place.endswith(f":{inode}"):
                done = "written" if mode == "WRITE" else "read"
                with suppress(OSError, ValueError):
                    return f"is being {done} by {_described(int(process))}"
                return f"is being {done} by process {process}"
    return "is being written or read by another process"


def _described(process: int) -> str:
    """``'parapet compose --output out' (process 4711, since 14:03:20)``."""
    words = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    if words[1:3] == ["-m", "parapet"]:
        words = ["parapet", *words[3:]]
    elif len(words) > 1 and os.path.basename(words[1]) == "parapet":
        words = ["parapet", *words[2:]]
    command = shlex.join(words)
    command = command if len(command) <= _SHOWN else f"{command[:_SHOWN]}\u2026"
    after_boot = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
    age = float(Path("/proc/uptime").read_text().split()[0]) - after_boot / os.sysconf("SC_CLK_TCK")
    since = time.strftime("%H:%M:%S", time.localtime(time.time() - age))
    return f"'{command}' (process {process}, since {since})"
