"""What outlasts a power failure: contents and names that are forced onto the disk.

Other processes see a write or a rename at once, but the disk may keep them later, and in another order: after a power
failure a file may have its new name and none of its content. What must come first is therefore synchronised first: a
file before it gets its name, and its folder, which holds the name, before anything that relies on it.

Buckets need no such step: an object that is there is durable. Some file systems have none. Nothing is done in either.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

_AT_ONCE = 16  # files: the disk writes those that wait together in one go
_NO_SUCH_STEP = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def is_disk(path: str | Path) -> bool:
    """Whether a path is on a file system of this machine, and not in a bucket or the like."""
    return "://" not in str(path)


def sync(path: str | Path) -> None:
    """Forces the content of a file, or the names in a folder, onto the disk.

    Raises:
      OSError: the content could not be written; its ``filename`` is the path.
    """
    if not is_disk(path):
        return
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:  # a folder that may be written, but not listed
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_SUCH_STEP:
            raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(handle)


def sync_files(paths: Iterable[str]) -> None:
    """Forces the contents of many files onto the disk. Raises OSError, see :func:`sync`."""
    here = [path for path in paths if is_disk(path)]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for _ in threads.map(sync, here):
            pass


def sync_folders(root: str, relatives: Iterable[str]) -> None:
    """Forces the names of files onto the disk: all folders from theirs up to ``root``, but for those that are gone."""
    folders = {""}
    for relative in relatives:
        folder = os.path.dirname(relative)
        while folder not in folders:
            folders.add(folder)
            folder = os.path.dirname(folder)
    sync_files(path for folder in sorted(folders) if os.path.isdir(path := os.path.join(root, folder)))


def make_folder(path: str | Path) -> None:
    """Makes a folder and its parents, whose names are then on the disk; one that is there already is fine."""
    folder, parents = os.path.abspath(path), []
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
        parents.append(folder)
    os.makedirs(path, exist_ok=True)
    for parent in parents:
        sync(parent)


def replace(source: str | Path, target: str | Path) -> None:
    """Renames a file whose content is on the disk already; the name is there as well when this returns."""
    os.replace(source, target)
    sync(os.path.dirname(os.path.abspath(target)))


def write(path: str | Path, data: bytes, private: bool = False) -> None:
    """Writes a file under a temporary name and renames it: its reader sees the old one or the new one, whole.

    The temporary name is always the same, so that killed runs leave one file at most: for one process at a time.

    Args:
      path: the file.
      data: its bytes.
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
