"""How Parapet is installed: its version, its code, and the line that installs what is missing."""

from __future__ import annotations

import hashlib
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
