"""The recipe of the workers' image fits what ``setup.py`` installs. No image is built here."""

from __future__ import annotations

import re
from importlib.metadata import requires, version
from pathlib import Path

from packaging.requirements import Requirement

from parapet.schemas.distribution import DISTRIBUTION, FOLDERS

ROOT = Path(__file__).parents[3]
RECIPE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


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
