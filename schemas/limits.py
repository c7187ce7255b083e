"""How large input may be, and how files are opened: what is beyond a limit, or is no file, is refused in one line.

The limits are far above real data (a dialogue of SGD has 20 kB and 20 turns, a service 20 slots) and low enough for one
machine. A record beyond a limit is left out like any other bad record; a file beyond one is an ``InputError``.
``docs/limits.md`` has them in a table, with what was measured at each.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

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
MAX_LINE = 16 * MIB  # bytes; a cell, and a row of several lines, may have as many characters
MAX_CONTENT = 64 * 1024 * MIB  # bytes that come out of a compressed file

# The first bytes of a compressed file or archive.
_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PK\x03\x04", "zip"),
)


def in_bytes(size: int) -> str:
    """``64 MiB``; bytes where there are too few for that."""
    return f"{size / MIB:,.10g} MiB" if size % MIB == 0 and size else f"{size:,} bytes"


def open_file(path: str | Path) -> BinaryIO:
    """Opens a local file for reading; never waits for a pipe.

    Raises:
      InputError: it is a pipe, a socket or a device.
      OSError: it cannot be opened; a folder cannot.
    """
    try:
        handle = open(path, "rb", opener=_opener)  # noqa: SIM115 (the caller's)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise InputError("is a socket, not a file", path) from None
        raise
    kind = stat.S_IFMT(os.fstat(handle.fileno()).st_mode)
    if kind == stat.S_IFREG:
        return handle
    handle.close()
    if kind == stat.S_IFIFO:
        raise InputError("is a named pipe, not a file: write its content to a file first", path)
    raise InputError("is a device, not a file", path)


def open_path(path: str | Path) -> BinaryIO:
    """The same of a path that may be one of a bucket."""
    return cast(BinaryIO, cast(Path, path).open("rb")) if "://" in str(path) else open_file(path)


def read_whole(path: str | Path, limit: int = MAX_FILE, where: str = "") -> bytes:
    """A file of text or JSON as a whole, local or of a bucket.

    Args:
      path: of the file; one of a bucket as :func:`parapet.schemas.layout.as_path` has it.
      limit: of its size, in bytes.
      where: the flag that names it, for messages.

    Raises:
      InputError: it is no file, cannot be read, is larger than the limit, changes while it is read, or is compressed.
    """
    try:
        data = _read_bucket(path, limit) if not isinstance(path, str) and "://" in str(path) else _read(path, limit)
    except InputError as error:
        raise type(error)(error.reason, path, where) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path, where) from None
    check_plain(data[:8], path, where)
    return data


def read_text(path: str | Path, limit: int = MAX_FILE, where: str = "") -> str:
    """A file of UTF-8 as a whole; a byte order mark is no part of it, line ends stay as they are.

    Raises:
      InputError: as of :func:`read_whole`; or it is not UTF-8.
    """
    try:
        return read_whole(path, limit, where).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start}: save the file as UTF-8", path, where) from None


def check_plain(head: bytes, path: object, where: str = "") -> None:
    """Raises InputError where a file is compressed, by its first bytes, and is not read as such."""
    if name := compression_of(head):
        raise InputError(f"is a {name} file: decompress it first", path, where)


def compression_of(head: bytes) -> str:
    """The format of a compressed file or archive, by its first bytes; ``""`` of any other."""
    return next((name for magic, name in _MAGIC if head.startswith(magic)), "")


def lines_of(handle: BinaryIO, limit: int = 0) -> Iterator[tuple[int, bytes | None]]:
    """The lines of a file, each with its number from 1 and with its line end; None for one beyond the limit.

    Args:
      handle: the file, at the beginning of a line.
      limit: bytes of a line; 0: ``MAX_LINE``.
    """
    limit = limit or MAX_LINE
    number = 0
    while line := handle.readline(limit + 1):
        number += 1
        if len(line) <= limit:
            yield number, line
            continue
        while line and not line.endswith(b"\n"):
            line = handle.readline(limit)
        yield number, None


def _read(path: str | Path, limit: int) -> bytes:
    with open_file(path) as handle:
        size = os.fstat(handle.fileno()).st_size
        check_size(size, limit, path)
        data = handle.read(size + 1)
    if len(data) != size:
        raise DamagedFile(
            f"changed while it was being read (it had {size:,} bytes before): run the command again once nothing "
            "writes to it",
            path,
        )
    return data


def _read_bucket(path: Any, limit: int) -> bytes:
    check_size(path.stat().st_size, limit, path)
    return cast(bytes, path.read_bytes())


def check_size(size: int, limit: int, path: object) -> None:
    """Raises InputError where a file is larger than it may be."""
    if size > limit:
        raise InputError(f"has {size:,} bytes, over the limit of {in_bytes(limit)}", path)


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # or a pipe that nobody writes to would wait for ever
