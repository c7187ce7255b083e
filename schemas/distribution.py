"""How Parapet is installed: its version, its code, and the line that installs what is missing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

DISTRIBUTION = "parapet-dialogue"
ISSUES = "https://github.com/parapet-dialogue/parapet/issues"
FOLDERS = ("schemas", "transforms", "local_mturk", "evaluation", "pipelines", "crowd_templates")

_ROOT = Path(__file__).parents[1]  # of the checkout, or the package ``parapet`` where it is installed


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
    if not (_ROOT / "setup.py").is_file():
        return f"pip install '{DISTRIBUTION}{wanted}'"
    checkout = "." if Path.cwd() == _ROOT else _ROOT
    return f"pip install -e '{checkout}{wanted}'"


@cache
def code_sha256() -> str:
    """SHA-256 over the names and bytes of Parapet's own files: code, pages, word lists and the sample."""
    digest = hashlib.sha256()
    for path in _own_files():
        digest.update(f"{path.relative_to(_ROOT).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _own_files() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((_ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path
