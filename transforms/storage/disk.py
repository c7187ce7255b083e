"""The local disk: durable writes, and locks on output folders.

Other processes see a write or a rename immediately, but the disk may store them later, and in another order: after a
power failure, a file may have its new name without its content. So anything that must come first is synchronised first:
a file before it gets its name, and the folder that contains the name before anything that relies on it. Buckets do not
need this step, since existing objects are durable, and some file systems do not have it; it is skipped there.

A lock (one run writes, or several read) is a kernel lock on the open folder itself (``flock``): it ends with its
process, however that ends, and leaves no file behind. Forked workers release it immediately. Buckets and some network
file systems have no locks: there, a run does not publish if another one has begun since
(:mod:`parapet.transforms.storage.files`).
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shlex
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from parapet.schemas.errors import InputError

_AT_ONCE = 16  # files synchronised in parallel, which the disk writes together
_NO_SUCH_STEP = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def is_disk(path: str | Path) -> bool:
    """Whether a path is on a file system of this machine rather than in a bucket."""
    return "://" not in str(path)


def sync(path: str | Path) -> None:
    """Force the content of a file, or the names in a folder, onto the disk.

    Raises:
      OSError: the content could not be written; its ``filename`` is the path.
    """
    if not is_disk(path):
        return
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:  # a folder that can be written but not listed
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_SUCH_STEP:
            raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(handle)


def sync_files(paths: Iterable[str]) -> None:
    """Force the contents of many files onto the disk. Raises OSError, see :func:`sync`."""
    here = [path for path in paths if is_disk(path)]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for _ in threads.map(sync, here):
            pass


def sync_folders(root: str, relatives: Iterable[str]) -> None:
    """Force the names of files onto the disk: all existing folders from theirs up to ``root``."""
    folders = {""}
    for relative in relatives:
        folder = os.path.dirname(relative)
        while folder not in folders:
            folders.add(folder)
            folder = os.path.dirname(folder)
    sync_files(path for folder in sorted(folders) if os.path.isdir(path := os.path.join(root, folder)))


def make_folder(path: str | Path) -> None:
    """Create a folder and its parents durably, unless they exist."""
    folder, parents = os.path.abspath(path), []
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
        parents.append(folder)
    os.makedirs(path, exist_ok=True)
    for parent in parents:
        sync(parent)


def replace(source: str | Path, target: str | Path) -> None:
    """Rename a file whose content is on the disk; the name is on the disk, too, when this returns."""
    os.replace(source, target)
    sync(os.path.dirname(os.path.abspath(target)))


def write(path: str | Path, data: bytes, private: bool = False) -> None:
    """Write a file under a temporary name and rename it, so that readers never see it partially written.

    The temporary name is always the same, so that killed runs leave at most one file. Only one process may use it at a
    time.

    Args:
      path: the file.
      data: its content.
      private: whether only its owner may read it.

    Raises:
      OSError: it cannot be written.
    """
    path = Path(path)
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
        with open(handle, "wb") as file:
            file.write(data)
        sync(temporary)
        replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and not error.filename:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


_SHOWN = 80  # characters of a command in messages
_TRIES = 100  # attempts to lock a folder that others remove meanwhile

_Key = tuple[int, int]  # device and inode of a folder

_writers: dict[_Key, tuple[int, str]] = {}  # folders locked for writing by this process: the thread and the real path
_descriptors: set[int] = set()


def _let_go() -> None:
    """Release locks in a forked process, since a lock lasts as long as any process has it open."""
    for descriptor in _descriptors:
        with suppress(OSError):
            os.close(descriptor)
    _descriptors.clear()
    _writers.clear()


os.register_at_fork(after_in_child=_let_go)


def close_in_forks(descriptor: int) -> None:
    """Make forked processes release a lock, so that it ends with the process that acquired it."""
    _descriptors.add(descriptor)


@contextmanager
def writing(folder: str) -> Iterator[None]:
    """Lock a local folder for writing during the block, creating it if necessary.

    The thread that holds the lock may acquire it again. A folder that was created and is empty in the end is removed.

    Raises:
      InputError: other processes write or read there.
    """
    folders: list[str] = []
    descriptor = None if "://" in folder else _locked(folder, folders)
    if descriptor is None:
        yield
        return
    key = _key(descriptor)
    _writers[key] = threading.get_ident(), os.path.realpath(folder)
    try:
        yield
    finally:
        for path in reversed(folders):
            with suppress(OSError):
                os.rmdir(path)
        del _writers[key]
        _close(descriptor)


@contextmanager
def reading(folder: str) -> Iterator[None]:
    """Lock a local folder against writing by others during the block.

    Folders below those that this process writes are not locked: they are outputs of commands that it runs.

    Raises:
      InputError: another process writes there.
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
    """Return the descriptor of a locked folder; None if it cannot be opened, or this thread holds the lock."""
    for _ in range(_TRIES):
        _make(folder, made)
        descriptor = _opened(folder)
        if descriptor is None:
            return None  # the step that writes there reports the error
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
    """Create a folder and its parents, and record which were created."""
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
    status = os.stat(place)
    return status.st_dev, status.st_ino


def _lock(descriptor: int, folder: str, operation: int) -> None:
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(f"{holder(descriptor)}: wait until it ends", folder) from None
    except OSError as error:  # some file systems have no locks
        logging.debug("%s: no lock: %s", folder, error)


def holder(descriptor: int) -> str:
    """Describe the holder of a lock, as far as the kernel tells."""
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
    """Describe a process: ``'parapet compose --output out' (process 4711, since 14:03:20)``."""
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
