"""Limits on the size of input, and opening files.

Input beyond a limit, or anything that is not a file, is refused with a one-line error.

The limits are far above real data (a dialogue of SGD has 20 kB and 20 turns, a service 20 slots) and low enough for one
machine. A record beyond a limit is left out like other bad records; a file beyond one is an ``InputError``.
``docs/formats.md`` lists them with measurements.
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

# JSON: maximum nesting of lists and objects.
MAX_DEPTH = 64

# Files that are read as a whole, in bytes.
MAX_SCHEMA_FILE = 64 * MIB
MAX_DIALOGUE_FILE = 1024 * MIB
MAX_FILE = 256 * MIB  # other files: tables, word lists, settings, reviewers' sheets

# Schemas.
MAX_SERVICES = 10_000  # per file
MAX_ELEMENTS = 1_000  # slots, and also intents, per service

# Dialogues.
MAX_DIALOGUE = 16 * MIB  # bytes of JSON
MAX_TURNS = 10_000
MAX_ID = 1_000  # characters

# Lines and cells of files that are read by line.
MAX_LINE = 16 * MIB  # bytes; also the limit in characters of a cell, and of a row of several lines
MAX_BAD_ROWS = 100_000  # of a file of answers; more end the run if they outnumber the rows that can be used
MAX_CONTENT = 64 * 1024 * MIB  # bytes after decompression

# The first bytes of compressed files and archives.
_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PK\x03\x04", "zip"),
)


def in_bytes(size: int) -> str:
    """Format a size in MiB if it is a whole number of them, else in bytes."""
    return f"{size / MIB:,.10g} MiB" if size % MIB == 0 and size else f"{size:,} bytes"


def open_file(path: str | Path) -> BinaryIO:
    """Open a local file for reading, without blocking on pipes.

    Raises:
      InputError: it is a pipe, a socket or a device.
      OSError: it cannot be opened, or is a folder.
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
    """Open a local file, or one in a bucket, for reading."""
    return cast(BinaryIO, cast(Path, path).open("rb")) if "://" in str(path) else open_file(path)


def read_whole(path: str | Path, limit: int = MAX_FILE, where: str = "") -> bytes:
    """Read a whole file, local or in a bucket.

    Args:
      path: the file's path; for a bucket, as returned by :func:`parapet.schemas.layout.as_path`.
      limit: maximum size in bytes.
      where: the flag that names it for messages.

    Raises:
      InputError: it is not a file, cannot be read, exceeds the limit, changes while it is read, or is compressed.
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
    """Read a whole UTF-8 file, without its byte order mark, and with unchanged line ends.

    Raises:
      InputError: see :func:`read_whole`; or it is not UTF-8.
    """
    try:
        return read_whole(path, limit, where).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start}: save the file as UTF-8", path, where) from None


def check_plain(head: bytes, path: object, where: str = "") -> None:
    """Raise InputError if a file is compressed, by its first bytes."""
    if name := compression_of(head):
        raise InputError(f"is a {name} file: decompress it first", path, where)


def compression_of(head: bytes) -> str:
    """Return the format of a compressed file or archive by its first bytes, or ``""``."""
    return next((name for magic, name in _MAGIC if head.startswith(magic)), "")


def lines_of(handle: BinaryIO, limit: int = 0) -> Iterator[tuple[int, bytes | None]]:
    """Yield (line number from 1, line with its end) of a file; the line is None if it exceeds the limit.

    Args:
      handle: the file, positioned at the beginning of a line.
      limit: maximum bytes per line; 0 for ``MAX_LINE``.
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
    """Raise InputError if a file exceeds the limit."""
    if size > limit:
        raise InputError(f"has {size:,} bytes, over the limit of {in_bytes(limit)}", path)


def _opener(path: str, flags: int) -> int:
    # otherwise opening a pipe without a writer would block forever
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
