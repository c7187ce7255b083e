"""Reads input files, compressed or not by their names, completely or not at all; and reads and writes TOML.

Beam opens compressed files, too, but treats a truncated download as a shorter file. Local files do not need Beam; those
in a bucket are opened by Beam's client, which every worker has.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import tomllib
import zlib
from collections.abc import Mapping
from importlib import resources
from typing import Any, BinaryIO, cast

import msgspec

from parapet.schemas.errors import DamagedFile, InputError, reason_and_place
from parapet.schemas.limits import MAX_FILE, check_plain, check_size, compression_of

_FORMATS: dict[str, tuple[str, Any]] = {
    ".gz": ("gzip", gzip.GzipFile),
    ".bz2": ("bzip2", bz2.BZ2File),
    ".xz": ("xz", lzma.LZMAFile),
}


def open_plain(path: str) -> BinaryIO:
    """Opens a local file, or one in a bucket, without decompression."""
    if "://" not in path:
        return open(path, "rb")
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    return cast(BinaryIO, FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED))


def read_bytes(path: str, limit: int = 0) -> bytes:
    """Reads a file, local or in a bucket, without decompression. It requires only Beam, so that workers can use it.

    Args:
      path: the path of the file.
      limit: maximum size in bytes; 0 for none.

    Raises:
      InputError: it exceeds the limit.
    """
    with open_plain(path) as handle:
        data = handle.read(limit + 1 if limit else -1)
    if limit:
        check_size(len(data), limit, path)
    return data


def read_input(path: str, limit: int = MAX_FILE, where: str = "") -> bytes:
    """Reads an input file of at most ``limit`` bytes that must not be compressed.

    Raises:
      InputError: it cannot be read, exceeds the limit, or is compressed.
    """
    try:
        data = read_bytes(path, limit)
    except OSError as error:
        if error.strerror is None:  # a network error, which the runner retries
            raise
        raise InputError(f"cannot be read: {error.strerror}", path, where) from None
    check_plain(data[:8], path, where)
    return data


def open_input(path: str) -> io.BufferedReader:
    """Opens a file, local or in a bucket; .gz, .bz2 and .xz are decompressed.

    Raises:
      InputError: it is compressed without such an extension.
      DamagedFile: raised while reading: the file is truncated, damaged, or not compressed as its name says.
    """
    handle = open_plain(path)
    for suffix, (kind, opened) in _FORMATS.items():
        if path.lower().endswith(suffix):
            return io.BufferedReader(_Decompressed(opened(fileobj=handle) if kind == "gzip" else opened(handle), path))
    head = handle.read(8)
    handle.seek(0)
    if name := compression_of(head):
        handle.close()
        reason = f"is a {name} file, not text: if it is a workbook, save it as CSV"
        if suffix := next((suffix for suffix, (kind, _) in _FORMATS.items() if kind == name), ""):
            reason = f"is a {name} file: rename it to end with {suffix}, so that it is decompressed"
        raise InputError(reason, path)
    # A bucket's cannot peek.
    return handle if isinstance(handle, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, handle))


def check_input(path: str) -> None:
    """Reads the beginning of a file. Raises InputError if :func:`open_input` cannot read it."""
    with open_input(path) as handle:
        handle.read(1)


class _Decompressed(io.RawIOBase):
    """A decompressed file whose errors name it."""

    def __init__(self, handle: Any, path: str) -> None:
        self._handle, self._path = handle, path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            return int(self._handle.readinto(buffer))
        except (EOFError, OSError, ValueError, lzma.LZMAError, zlib.error) as error:
            reason = f"is damaged, incomplete, or not compressed as its name says ({error}): copy or download it again"
            raise DamagedFile(reason, self._path) from None

    def close(self) -> None:
        if not self.closed:
            self._handle.close()
        super().close()


_BARE = re.compile("[A-Za-z0-9_-]+")


def toml_of(table: Mapping[str, Any], place: str = "") -> str:
    """Formats a table as TOML: plain values first, then lists of tables, then tables.

    Args:
      table: strings, numbers, truth values, lists of these, and tables or lists of tables.
      place: the keys that lead to it, each followed by a dot; empty for the root.
    """
    nested = {key: value for key, value in table.items() if isinstance(value, dict)}
    lists = {
        key: value for key, value in table.items() if isinstance(value, list) and value and isinstance(value[0], dict)
    }
    plain = {key: value for key, value in table.items() if key not in nested and key not in lists}
    text = "".join(f"{_key(key)} = {_value(value)}\n" for key, value in plain.items())
    for key, tables in lists.items():
        within = f"{place}{_key(key)}"
        text += "".join(f"\n[[{within}]]\n{toml_of(entry, f'{within}.')}" for entry in tables)
    for key, value in nested.items():
        within = f"{place}{_key(key)}"
        text += f"\n[{within}]\n{toml_of(value, f'{within}.')}"
    return text


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _value(key)


def _value(value: Any) -> str:
    # JSON strings are valid TOML strings, except for one control character
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def parse_toml(data: bytes, path: object) -> dict[str, Any]:
    """Parses a TOML file, with or without a byte order mark. Raises InputError."""
    try:
        return tomllib.loads(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8"))
    except UnicodeDecodeError:
        raise InputError("not UTF-8: save the file as UTF-8", path) from None
    except RecursionError:
        raise InputError("TOML nested too deeply", path) from None
    except ValueError as error:
        raise InputError(f"not TOML: {error}", path) from None


def convert(value: Any, kind: Any, path: object, place: str = "", prefix: str = "") -> Any:
    """Converts a value to a type with msgspec.

    Args:
      value: a value from TOML or JSON.
      kind: the type.
      path: the path of the file for messages.
      place: the place of the value in the file for messages.
      prefix: text before the reason.

    Raises:
      InputError: it does not fit the type; with the place.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        dot = "." if place and at and not at.startswith("[") else ""
        raise InputError(prefix + reason, path, f"{place}{dot}{at}") from None


def read_table(package: str, name: str) -> dict[str, Any]:
    """Reads a TOML file in a package."""
    return tomllib.loads((resources.files(package) / name).read_text(encoding="utf-8"))
