"""The local disk: locks on output folders, and files that must survive a power failure.

A lock (one run writes, or several read) is a kernel lock on the open folder itself (``flock``): it ends with its
process, however that ends, and leaves no file behind. Forked workers release it immediately. Buckets and some network
file systems have no locks: there, a run does not publish if another one has begun since
(:mod:`parapet.transforms.core.files`).
"""

import errno
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from parapet.schemas.errors import InputError

_NO_SUCH_STEP = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def is_disk(path: str | Path) -> bool:
    """Whether a path is on a file system of this machine rather than in a bucket."""
    return "://" not in str(path)


def sync(path: str | Path) -> None:
    """Forces the content of a file, or the names in a folder, onto the disk. Only records of money and answers need it.

    Raises:
      OSError: the content could not be written; its ``filename`` is the path.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_SUCH_STEP:
            raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(handle)


def make_folder(path: str | Path) -> None:
    """Creates a folder and its parents durably, unless they exist."""
    created = _create(os.path.abspath(path))
    os.makedirs(path, exist_ok=True)
    for folder in created:
        sync(os.path.dirname(folder))


def write(path: str | Path, data: bytes, private: bool = False) -> None:
    """Writes a file under a temporary name and renames it, so that readers never see it partially written.

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
        os.replace(temporary, path)
        sync(path.parent)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and not error.filename:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


_written: set[str] = set()  # real paths of the folders that this process has locked for writing
_descriptors: set[int] = set()


def _let_go() -> None:
    """Releases locks in a forked process, since a lock lasts as long as any process has it open."""
    for descriptor in _descriptors:
        with suppress(OSError):
            os.close(descriptor)
    _descriptors.clear()
    _written.clear()


os.register_at_fork(after_in_child=_let_go)


@contextmanager
def writing(folder: str) -> Iterator[None]:
    """Locks a local folder for writing during the block, creating it if necessary.

    The process that holds the lock may acquire it again. A folder that was created and is empty in the end is removed.

    Raises:
      InputError: other processes write or read there.
    """
    place = os.path.realpath(folder)
    if not is_disk(folder) or place in _written:
        yield
        return
    created = _create(place)
    with _locked(folder, fcntl.LOCK_EX):
        _written.add(place)
        try:
            yield
        finally:
            _written.discard(place)
            for path in created:
                with suppress(OSError):
                    os.rmdir(path)


@contextmanager
def reading(folder: str) -> Iterator[None]:
    """Locks a local folder against writing by others during the block.

    Folders below those that this process writes are not locked: they are outputs of commands that it runs.

    Raises:
      InputError: another process writes there.
    """
    place = os.path.realpath(folder)
    if not is_disk(folder) or any(place == own or place.startswith(f"{own}/") for own in _written):
        yield
        return
    with _locked(folder, fcntl.LOCK_SH):
        yield


def _create(folder: str) -> list[str]:
    """Creates a folder and its parents, as far as possible. Returns those that did not exist, the deepest first."""
    missing = []
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    with suppress(OSError):  # the step that writes there reports the error, or another process has created it
        for path in reversed(missing):
            os.mkdir(path)
    return missing


@contextmanager
def _locked(folder: str, operation: int) -> Iterator[None]:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # the step that reads or writes there reports the error
        yield
        return
    _descriptors.add(descriptor)
    try:
        try:
            fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError("is being written or read by another process: wait until it ends", folder) from None
        except OSError as error:  # some file systems have no locks
            logging.debug("%s: no lock: %s", folder, error)
        yield
    finally:
        if descriptor in _descriptors:  # a forked process has closed it
            _descriptors.discard(descriptor)
            os.close(descriptor)
