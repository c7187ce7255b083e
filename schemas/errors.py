"""Errors that users see as they are, the places in JSON that cause them, and the installation that messages name."""

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
    """The version of the installed distribution."""
    from importlib.metadata import version

    return version(DISTRIBUTION)


def run_header(pipeline: str, options: Mapping[str, object]) -> dict[str, Any]:
    """What every ``run.json`` says besides files and counts."""
    return {"pipeline": pipeline, "version": parapet_version(), "options": options}


def install_line(extras: str = "") -> str:
    """The command that installs Parapet with extras: from the checkout where it runs from one, else the package.

    Args:
      extras: comma-separated; "" for none.
    """
    wanted = f"[{extras}]" if extras else ""
    root = _PACKAGE.parent
    if not (root / "setup.py").is_file():
        return f"pip install '{DISTRIBUTION}{wanted}'"
    checkout = "." if Path.cwd() == root else root
    return f"pip install -e '{checkout}{wanted}'"


@cache
def code_sha256() -> str:
    """SHA-256 over the names and bytes of Parapet's own files: code, pages, word lists and the sample."""
    digest = hashlib.sha256()
    for path in _own_files():
        digest.update(f"{path.relative_to(_PACKAGE).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _own_files() -> Iterator[Path]:
    for folder in sorted(path for path in _PACKAGE.iterdir() if path.is_dir()):  # rglob would not follow their links
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


class InputError(Exception):
    """Input that cannot be used.

    Attributes:
      reason: what is wrong and, where it helps, what to do about it.
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
    """A file that is not whole: what it still has must not be taken for all of it."""


class MissingExtra(InputError):
    """A package that an extra brings is not there: the command cannot run as it was asked to (exit status 2).

    Args:
      package: the package.
      extra: the extra, or several, comma-separated.
      flag: what asked for it.
      reason: what is wrong with the package.
    """

    def __init__(self, package: str, extra: str, flag: str = "", reason: str = "is not installed") -> None:
        super().__init__(f"{package} {reason}: {install_line(extra)}", flag)
        self.package, self.extra, self.flag, self.why = package, extra, flag, reason

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str, str, str]]:
        return MissingExtra, (self.package, self.extra, self.flag, self.why)


class UserCodeError(InputError):
    """Code of the user's own raised an error: the reason ends with its traceback, over several lines."""


class DiskError(Exception):
    """What the file system cannot write, in a line. No input is to blame: nothing may be left out because of it."""


class NoRoomError(DiskError):
    """A full disk, or a quota that is used up."""


def surrogate_in(value: object, place: str = "") -> str | None:
    """The place of the first string in parsed JSON that no Unicode text can be: ``[3].slots[0].name``; None in most.

    JSON can write half a surrogate pair, ``"\\ud800"``. Of a key that has one the place is the key itself, escaped.
    """
    return next((at for at, one in _parts(value, place) if isinstance(one, str) and not is_unicode(one)), None)


NOT_FINITE = "NaN or infinity, which JSON cannot represent"


def not_finite_in(value: object, place: str = "") -> str | None:
    """The place of the first number in parsed JSON that is not finite: ``[3].score``; None in most."""
    return next((at for at, one in _parts(value, place) if isinstance(one, float) and not math.isfinite(one)), None)


def _parts(value: object, place: str) -> Iterator[tuple[str, object]]:
    """(place, value) of all that is in parsed JSON, of any depth, in its order; a key comes before its value."""
    waiting = [(place, value)]  # the next is the last
    while waiting:
        place, item = waiting.pop()
        yield place, item
        if isinstance(item, list):
            waiting += [(f"{place}[{i}]", one) for i, one in reversed(list(enumerate(item)))]
        elif isinstance(item, dict):
            for key, one in reversed(item.items()):
                name = storable(str(key))
                below = f"{place}.{name}" if place else name
                waiting += [(below, one), (below, key)]


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8: one with half a surrogate pair cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def storable(text: str) -> str:
    """A text as UTF-8 can have it: half a surrogate pair is written as ``\\udc00``."""
    return text.encode("utf-8", "backslashreplace").decode()


def storable_row(value: Any) -> Any:
    """A row in which Arrow can hold every text: JSON can have half a surrogate pair, UTF-8 cannot."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {key: storable_row(one) for key, one in value.items()}
    return [storable_row(one) for one in value] if isinstance(value, list) else value


def reason_and_place(error: Exception) -> tuple[str, str]:
    """What msgspec says of a value that does not fit: why, and where, as ``[3].slots[0].name``; "" is all of it."""
    if isinstance(error, UnicodeEncodeError):  # of a key
        return "lone surrogate", ""
    reason, _, place = str(error).partition(" - at ")
    return reason, place.strip("`").removeprefix("$").removeprefix(".")
