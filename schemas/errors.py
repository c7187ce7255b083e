"""Errors shown to users, the places in JSON that cause them, and installation commands for messages."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

DISTRIBUTION = "parapet-dialogue"
ISSUES = "https://github.com/parapet-dialogue/parapet/issues"

_PACKAGE = Path(__file__).parents[1]


def parapet_version() -> str:
    """Returns the version of the installed distribution."""
    from importlib.metadata import version

    return version(DISTRIBUTION)


def run_header(pipeline: str, options: Mapping[str, object]) -> dict[str, Any]:
    """Returns the entries of every ``run.json`` besides files and counts."""
    return {"pipeline": pipeline, "version": parapet_version(), "options": options}


def install_line(extras: str = "") -> str:
    """Returns the command that installs Parapet with extras, from where it was installed: a checkout, a file, an index.

    Args:
      extras: comma-separated names; may be empty.
    """
    from importlib.metadata import distribution
    from urllib.request import url2pathname

    wanted = f"[{extras}]" if extras else ""
    root = _PACKAGE.parent
    if (root / "setup.py").is_file():
        checkout = "." if Path.cwd() == root else root
        return f"pip install -e '{checkout}{wanted}'"
    url = msgspec.json.decode(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}").get("url", "")  # PEP 610
    source = url2pathname(url.removeprefix("file://")) if url.startswith("file://") else DISTRIBUTION
    return f"pip install '{source}{wanted}'"


@cache
def code_sha256() -> str:
    """Returns the SHA-256 over the names and bytes of Parapet's own files: code, pages, word lists and the sample."""
    digest = hashlib.sha256()
    # rglob would not follow links to folders
    folders = sorted(path for path in _PACKAGE.iterdir() if path.is_dir())
    for path in (path for folder in folders for path in sorted(folder.rglob("*"))):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(_PACKAGE).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


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


def no_such(what: str, name: str, known: Collection[str]) -> str:
    """Returns the reason of an error about an unknown name, with the closest known name or all of them.

    Args:
      what: the word for what it should name, such as ``option``.
    """
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"must be one of {', '.join(known)}"
    return f"there is no {what} {name!r}: {hint}"


def storable(text: str) -> str:
    """Escapes lone surrogates, such as those of a file name that is not UTF-8, so that the text can be written."""
    return text.encode("utf-8", "backslashreplace").decode()


def reason_and_place(error: msgspec.ValidationError) -> tuple[str, str]:
    """Splits msgspec's message about a value that does not fit into the reason and the place: ``[3].slots[0].name``."""
    reason, _, place = str(error).partition(" - at ")
    return reason, place.strip("`").removeprefix("$").removeprefix(".")


def pointer_of(*keys: object) -> str:
    """Returns the JSON Pointer of a place that keys and positions lead to."""
    return "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in keys)


def pointer_keys(pointer: str) -> list[str]:
    """Returns the keys and positions of a JSON Pointer."""
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]
