"""Errors shown to users, the places in JSON that cause them, and installation commands for messages."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

DISTRIBUTION = "parapet-dialogue"
ISSUES = "https://github.com/parapet-dialogue/parapet/issues"

_PACKAGE = Path(__file__).parents[1]


def parapet_version() -> str:
    """Return the version of the installed distribution."""
    from importlib.metadata import version

    return version(DISTRIBUTION)


def run_header(pipeline: str, options: Mapping[str, object]) -> dict[str, Any]:
    """Return the entries of every ``run.json`` besides files and counts."""
    return {"pipeline": pipeline, "version": parapet_version(), "options": options}


def install_line(extras: str = "") -> str:
    """Return the command that installs Parapet with extras, from the checkout if it runs from one.

    Args:
      extras: comma-separated names; may be empty.
    """
    wanted = f"[{extras}]" if extras else ""
    root = _PACKAGE.parent
    if not (root / "setup.py").is_file():
        return f"pip install '{DISTRIBUTION}{wanted}'"
    checkout = "." if Path.cwd() == root else root
    return f"pip install -e '{checkout}{wanted}'"


@cache
def code_sha256() -> str:
    """Return the SHA-256 over the names and bytes of Parapet's own files: code, pages, word lists and the sample."""
    digest = hashlib.sha256()
    for path in _own_files():
        digest.update(f"{path.relative_to(_PACKAGE).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _own_files() -> Iterator[Path]:
    # rglob would not follow links to folders
    for folder in sorted(path for path in _PACKAGE.iterdir() if path.is_dir()):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


class InputError(Exception):
    """Input cannot be used.

    Attributes:
      reason: what is wrong and, if helpful, what to do about it.
      path: the file, folder, flag or argument at fault.
      where: the place inside it, such as ``row 7`` or ``[3].slots[0].name``.
    """

    def __init__(self, reason: str, path: object = "", where: str = "") -> None:
        super().__init__(reason, str(path), where)
        self.reason, self.path, self.where = reason, str(path), where

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.path, self.where) if part)
        return f"{place}: {self.reason}" if place else self.reason


class DamagedFile(InputError):
    """A file is incomplete, so its readable part must not be used."""


class MissingExtra(InputError):
    """A package of an extra is missing, so the command cannot run as requested (exit status 2).

    Args:
      package: the package.
      extra: the name of the extra, or several, comma-separated.
      flag: the flag that requires it.
      reason: what is wrong with the package.
    """

    def __init__(self, package: str, extra: str, flag: str = "", reason: str = "is not installed") -> None:
        super().__init__(f"{package} {reason}: {install_line(extra)}", flag)
        self.package, self.extra, self.flag, self.why = package, extra, flag, reason

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str, str, str]]:
        return MissingExtra, (self.package, self.extra, self.flag, self.why)


class UserCodeError(InputError):
    """The user's own code raised an exception: the reason ends with its traceback, over several lines."""


class DiskError(Exception):
    """The file system cannot write. The input is not the cause, so no record may be left out because of it."""


class NoRoomError(DiskError):
    """The disk is full, or a quota is used up."""


def surrogate_in(value: object, place: str = "") -> str | None:
    """Return the place of the first string in parsed JSON that is not valid Unicode: ``[3].slots[0].name``; else None.

    JSON can contain lone surrogates, ``"\\ud800"``. For a key with one, the place is the escaped key itself.
    """
    return next((at for at, leaf in _parts(value, place) if isinstance(leaf, str) and not is_unicode(leaf)), None)


NOT_FINITE = "NaN or infinity, which JSON cannot represent"


def not_finite_in(value: object, place: str = "") -> str | None:
    """Return the place of the first number in parsed JSON that is not finite: ``[3].score``; else None."""
    return next((at for at, leaf in _parts(value, place) if isinstance(leaf, float) and not math.isfinite(leaf)), None)


def _parts(value: object, place: str) -> Iterator[tuple[str, object]]:
    """Yield (place, value) of everything in parsed JSON, at any depth, in order; a key comes before its value."""
    waiting = [(place, value)]  # a stack: the next item is the last
    while waiting:
        place, item = waiting.pop()
        yield place, item
        if isinstance(item, list):
            waiting += [(f"{place}[{i}]", part) for i, part in reversed(list(enumerate(item)))]
        elif isinstance(item, dict):
            for key, part in reversed(item.items()):
                name = storable(str(key))
                below = f"{place}.{name}" if place else name
                waiting += [(below, part), (below, key)]


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded in UTF-8, which is impossible with lone surrogates."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def storable(text: str) -> str:
    """Escape lone surrogates as ``\\udc00``, so that the text can be encoded in UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def storable_row(value: Any) -> Any:
    """Escape lone surrogates in all texts of a row, so that Arrow can represent them."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {key: storable_row(item) for key, item in value.items()}
    return [storable_row(item) for item in value] if isinstance(value, list) else value


def reason_and_place(error: Exception) -> tuple[str, str]:
    """What msgspec says of a value that does not fit: why, and where, as ``[3].slots[0].name``; "" is all of it."""
    if isinstance(error, UnicodeEncodeError):  # of a key
        return "lone surrogate", ""
    reason, _, place = str(error).partition(" - at ")
    return reason, place.strip("`").removeprefix("$").removeprefix(".")
