"""How large input may be, and how files are opened: what is beyond a limit, or is no file, is refused in one line.

The limits are far above real data (a dialogue of SGD has 20 kB and 20 turns, a service 20 slots) and low enough for one
machine. A record beyond a limit is left out like any other bad record; a file beyond one is an ``InputError``.
``docs/limits.md`` has them in a table, with what was measured at each.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from parapet.schemas.errors import DamagedFile, InputError

MIB = 2**20

# JSON: lists and objects inside each other.
MAX_DEPTH = 64

# Files that are read as a whole, in bytes.
MAX_SCHEMA_FILE = 64 * MIB
MAX_DIALOGUE_FILE = 1024 * MIB
MAX_FILE = 256 * MIB  # any other: tables, word lists, settings, reviewers' sheets

# Schemas.
MAX_SERVICES = 10_000  # of a file
MAX_ELEMENTS = 1_000  # slots of a service, and as many intents

# Dialogues.
MAX_DIALOGUE = 16 * MIB  # bytes of its JSON
MAX_TURNS = 10_000
MAX_ID = 1_000  # characters of its id

# Lines and cells of files that are read line by line.
MAX_LINE = 16 * MIB  # bytes
MAX_CELL = 131_072  # characters
MAX_COLUMNS = 10_000
MAX_CONTENT = 64 * 1024 * MIB  # bytes that come out of a compressed file

# What follows the first bytes of a compressed file or archive.
_MAGIC = (
    (b"\x1f\x8b", "gzip", ".gz"),
    (b"BZh", "bzip2", ".bz2"),
    (b"\xfd7zXZ\0", "xz", ".xz"),
    (b"\x28\xb5\x2f\xfd", "zstd", ".zst"),
    (b"PK\x03\x04", "zip", ".zip"),
)
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def in_bytes(size: int) -> str:
    """``64 MiB``; bytes where there are too few for that."""
    return f"{size / MIB:,.10g} MiB" if size % MIB == 0 and size else f"{size:,} bytes"


def open_file(path: str | Path) -> BinaryIO:
    """Opens a local file for reading; never waits for a pipe.

    Raises:
      InputError: it is a pipe, a socket, a device or a folder, or it cannot be opened.
    """
    try:
        handle = open(path, "rb", opener=_opener)  # noqa: SIM115 (the caller's)
    except OSError as error:
        if os.path.isdir(path):
            raise InputError("is a folder, not a file", path) from None
        raise InputError(f"cannot be read: {error.strerror}", path) from None
    kind = stat.S_IFMT(os.fstat(handle.fileno()).st_mode)
    if kind == stat.S_IFREG:
        return handle
    handle.close()
    reason = f"is {_KINDS.get(kind, 'something else')}, not a file"
    raise InputError(f"{reason}: write its content to a file first" if kind == stat.S_IFIFO else reason, path)


def read_whole(path: str | Path, limit: int = MAX_FILE) -> bytes:
    """A file as a whole, local or of a bucket.

    Args:
      path: of the file; one of a bucket as :func:`parapet.schemas.layout.as_path` has it.
      limit: of its size, in bytes.

    Raises:
      InputError: it is no file, cannot be read, is larger than the limit, or changes while it is read.
    """
    if not isinstance(path, str) and "://" in str(path):
        check_size(path.stat().st_size, limit, path)
        return path.read_bytes()
    with open_file(path) as handle:
        size = os.fstat(handle.fileno()).st_size
        check_size(size, limit, path)
        try:
            data = handle.read(size + 1)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path) from None
    if len(data) != size:
        raise DamagedFile(f"changed while it was read: it had {size:,} bytes", path)
    return data


def check_size(size: int, limit: int, path: object) -> None:
    """Raises InputError where a file is larger than it may be."""
    if size > limit:
        raise InputError(f"has {size:,} bytes, over the limit of {in_bytes(limit)}", path)


def compression_of(head: bytes) -> tuple[str, str]:
    """(format, suffix) of a compressed file or archive, by its first bytes; of any other ``("", "")``."""
    return next(((name, suffix) for magic, name, suffix in _MAGIC if head.startswith(magic)), ("", ""))


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # or a pipe that nobody writes to would wait for ever
