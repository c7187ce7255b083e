"""Packages of plug-ins for the tests: the example of docs/plugin_example, and those that are made up in a folder."""

import shutil
import subprocess
import sys
from pathlib import Path

from kit import json_of, write

EXAMPLE = Path(__file__).parents[1] / "docs" / "plugin_example"
FROM = {"distribution": "parapet-example", "version": "1.2.0"}


def install_example(folder: Path) -> Path:
    """Installs the example below a folder, as pip does it; gives the folder of its modules."""
    shutil.copytree(EXAMPLE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "install", "-q", *offline, "--target", str(folder / "site")]
    subprocess.run([*pip, str(folder / "source")], check=True)
    return folder / "site"


def bring(site: Path, name: str, group: str, plugin: str, target: str, code: str = "", version: str = "0.3") -> None:
    """A distribution in a folder, as if it were installed there."""
    info = site / f"{name}-{version}.dist-info"
    write(info / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    write(info / "entry_points.txt", f"[{group}]\n{plugin} = {target}\n")
    write(site / f"{name}.py", code)


def record(output: Path) -> list[tuple[str, str]]:
    """The plug-ins of a run: group and name."""
    found = json_of(output / "run.json")["plugins"]
    assert all({key: one[key] for key in FROM} == FROM for one in found)
    return [(one["group"], one["name"]) for one in found]
