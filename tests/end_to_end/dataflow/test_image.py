"""The recipes of the images, for workers and for users, fit what ``setup.py`` installs. No image is built here."""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import metadata, requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from parapet.schemas.distribution import DISTRIBUTION, FOLDERS

ROOT = Path(__file__).parents[3]
RECIPE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
USER_RECIPE = (ROOT / "docker" / "user.Dockerfile").read_text(encoding="utf-8")


def test_its_beam_is_the_one_that_submits() -> None:
    (beam,) = re.findall(r"^ARG BEAM_VERSION=(.+)$", RECIPE, re.M)
    allowed = [wanted for wanted in map(Requirement, requires(DISTRIBUTION) or []) if wanted.name == "apache-beam"]
    assert allowed
    assert all(beam in wanted.specifier for wanted in allowed)
    assert beam == version("apache-beam")


def test_its_python_is_one_that_the_package_takes() -> None:
    (python,) = re.findall(r"^FROM apache/beam_python(\S+)_sdk:", RECIPE, re.M)
    assert python == "3.11"


def test_all_packages_are_let_in() -> None:
    let_in = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.M)
    packages = {*FOLDERS, "parapet"}
    assert packages <= {*let_in}
    assert {"setup.py", "README.md"} <= {*let_in}


def test_the_users_image_has_a_python_that_the_package_takes() -> None:
    (python,) = re.findall(r"^ARG PYTHON_VERSION=(.+)$", USER_RECIPE, re.M)
    assert python in SpecifierSet(metadata(DISTRIBUTION)["Requires-Python"])
    images = re.findall(r"^FROM (\S+)", USER_RECIPE, re.M)
    assert images == ["python:${PYTHON_VERSION}-slim"] * 2


@pytest.mark.parametrize(
    ("extras", "installed"), [("", "/tmp/parapet"), ("speech,models", "/tmp/parapet[speech,models]")]
)
def test_the_users_image_installs_the_extras_that_are_named(extras: str, installed: str) -> None:
    (line,) = re.findall(r"^RUN \S+/pip (install .+)$", USER_RECIPE, re.M)
    assert re.findall(r"^ARG EXTRAS=(.*)$", USER_RECIPE, re.M) == [""]
    shell = ["env", "-i", f"EXTRAS={extras}", "EXTRA_INDEX_URL=URL", "sh", "-c", f"printf '%s\\n' {line}"]
    words = subprocess.run(shell, capture_output=True, text=True, check=True).stdout.splitlines()
    assert words == ["install", "--no-cache-dir", "--extra-index-url", "URL", installed]


def test_the_users_image_runs_parapet_without_rights_in_data() -> None:
    last = USER_RECIPE.rpartition("\nFROM ")[2]
    instructions = dict(re.findall(r"^([A-Z]+) (.+)$", last, re.M))
    assert instructions["ENTRYPOINT"] == '["parapet"]'
    assert instructions["WORKDIR"] == "/data"
    assert instructions["RUN"].split()[-1] == instructions["USER"] != "root"
