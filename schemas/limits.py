"""Reads whole files and the JSON in them, with limits on size and depth that are far above real data."""

import json
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from parapet.schemas.errors import InputError

MIB = 2**20

# Files that are read as a whole, in bytes.
MAX_SCHEMA_FILE = 64 * MIB
MAX_DIALOGUE_FILE = 1024 * MIB
MAX_FILE = 256 * MIB  # other files: tables, word lists, settings, reviewers' sheets

MAX_BAD_ROWS = 100_000  # of a file of answers; more end the run if they outnumber the rows that can be used

# The first bytes of compressed files and archives.
_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PK\x03\x04", "zip"),
)


def in_bytes(size: int) -> str:
    """Formats a size in MiB if it is a whole number of them, else in bytes."""
    return f"{size / MIB:,.10g} MiB" if size % MIB == 0 and size else f"{size:,} bytes"


def open_path(path: str | Path) -> BinaryIO:
    """Opens a local file, or one in a bucket as returned by ``layout.as_path``, for reading."""
    return cast(BinaryIO, Path(path).open("rb") if isinstance(path, str) else path.open("rb"))


def read_whole(path: str | Path, limit: int = MAX_FILE, where: str = "") -> bytes:
    """Reads a whole file, local or in a bucket.

    Args:
      path: the file's path; for a bucket, as returned by :func:`parapet.schemas.layout.as_path`.
      limit: maximum size in bytes.
      where: the flag that names it for messages.

    Raises:
      InputError: it cannot be read, exceeds the limit, or is compressed.
    """
    try:
        with open_path(path) as handle:
            data = handle.read(limit + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path, where) from None
    check_size(len(data), limit, path, where)
    check_plain(data[:8], path, where)
    return data


def read_text(path: str | Path, limit: int = MAX_FILE, where: str = "") -> str:
    """Reads a whole UTF-8 file, without its byte order mark, and with unchanged line ends.

    Raises:
      InputError: see :func:`read_whole`; or it is not UTF-8.
    """
    try:
        return read_whole(path, limit, where).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start}: save the file as UTF-8", path, where) from None


def check_plain(head: bytes, path: object, where: str = "") -> None:
    """Raises InputError if a file is compressed, by its first bytes."""
    if name := compression_of(head):
        raise InputError(f"is a {name} file: decompress it first", path, where)


def compression_of(head: bytes) -> str:
    """Returns the format of a compressed file or archive by its first bytes, or ``""``."""
    return next((name for magic, name in _MAGIC if head.startswith(magic)), "")


def check_size(size: int, limit: int, path: object, where: str = "") -> None:
    """Raises InputError if a file exceeds the limit."""
    if size > limit:
        raise InputError(f"is larger than the limit of {in_bytes(limit)}", path, where)


_TOO_DEEP = "nested too deeply"
_decode = msgspec.json.Decoder().decode


def parse_json(data: bytes, path: object) -> Any:
    """Parses UTF-8 JSON, with or without a byte order mark. Raises InputError with line and column if it is none."""
    data = without_mark(data, path)
    try:
        return _decode(data)
    except RecursionError:
        raise InputError(_TOO_DEEP, path) from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _explained(data, path, error) from None


def _explained(data: bytes, path: object, error: Exception) -> InputError:
    """Returns an error with line and column, which msgspec does not tell."""
    try:
        json.loads(data.decode(), parse_constant=_refuse)
    except UnicodeDecodeError as unreadable:
        return InputError(f"not UTF-8 at byte {unreadable.start}: save the file as UTF-8", path)
    except json.JSONDecodeError as wrong:
        return InputError(f"not JSON: {wrong.msg}", path, f"line {wrong.lineno} column {wrong.colno}")
    except ValueError as wrong:
        return InputError(f"not JSON: {wrong}", path)
    return InputError(f"not JSON: {_reason(error)}", path)  # Python reads some of what msgspec refuses


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no value of JSON")


def _reason(error: Exception) -> str:
    return str(error).removeprefix("JSON is malformed: ")


def parse_json_line(text: bytes | str) -> Any:
    """Parses a JSON value in a line of a file or in a cell. Raises ValueError if it is not JSON."""
    try:
        return _decode(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except msgspec.MsgspecError as error:
        raise ValueError(_reason(error)) from None


def without_mark(data: bytes, path: object) -> bytes:
    """Removes a byte order mark. Raises InputError for an empty file."""
    if not data.strip():
        raise InputError("the file is empty", path)
    return data.removeprefix(b"\xef\xbb\xbf")


def compact_json(value: Any) -> str:
    """Returns a value as JSON without spaces."""
    return msgspec.json.encode(value).decode()
