"""The recipes of the images, for workers and for users, fit what ``setup.py`` installs. No image is built here."""

import os
import re
import shutil
import subprocess
from importlib.metadata import metadata, requires, version
from pathlib import Path
from string import Template

import pytest
from kit import write
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from parapet.schemas.errors import DISTRIBUTION

ROOT = Path(__file__).parents[3]
RECIPE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
USER_RECIPE = (ROOT / "docker" / "user.Dockerfile").read_text(encoding="utf-8")


def test_its_beam_is_the_one_that_submits():
    (beam,) = re.findall(r"^ARG BEAM_VERSION=(.+)$", RECIPE, re.M)
    allowed = [wanted for wanted in map(Requirement, requires(DISTRIBUTION)) if wanted.name == "apache-beam"]
    assert allowed
    assert all(beam in wanted.specifier for wanted in allowed)
    assert beam == version("apache-beam")


def bases(recipe):
    """The image that each stage starts from, with the defaults of the arguments before the first."""
    arguments = {}
    for name, default in re.findall(r"^ARG (\w+)=(.+)$", recipe.partition("\nFROM ")[0], re.M):
        arguments[name] = Template(default).substitute(arguments)
    return [Template(image).substitute(arguments) for image in re.findall(r"^FROM (\S+)", recipe, re.M)]


def test_their_pythons_are_those_that_the_package_takes():
    (python,) = re.findall(r"^ARG PYTHON_VERSION=(.+)$", USER_RECIPE, re.M)
    assert bases(USER_RECIPE) == [f"python:{python}-slim"] * 2
    assert bases(RECIPE) == [f"apache/beam_python3.11_sdk:{version('apache-beam')}"]
    allowed = SpecifierSet(metadata(DISTRIBUTION)["Requires-Python"])
    assert python in allowed
    assert "3.11" in allowed


def test_all_packages_are_let_in():
    let_in = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.M)
    assert {"parapet", *(path.name for path in (ROOT / "parapet").iterdir() if path.is_symlink())} <= {*let_in}
    assert {"setup.py", "README.md"} <= {*let_in}


def installed_in_image(root, lock, missing="none"):
    """Runs the installation of the users' image with programs that only log how they are called.

    Args:
      root: an empty folder.
      lock: the lock file that is asked for.
      missing: the requirements file that cannot be installed.

    Returns:
      The exit status, and the calls of pip and uv.
    """
    (line,) = re.findall(r"^RUN .* && (requirements/install\.sh .+)$", USER_RECIPE, re.M)
    programs, log = root / "venv" / "bin", root / "calls"
    for name in ("python", "uv"):
        script = f'#!/bin/sh\necho "{name} $*" >>"{log}"\ncase "$*" in *{missing}.txt) exit 1 ;; esac\n'
        write(programs / name, script).chmod(0o755)
    (root / "requirements").mkdir()
    shutil.copy(ROOT / "requirements" / "install.sh", root / "requirements")
    command = ["sh", "-c", line.replace("/opt/parapet", str(root / "venv"))]
    environment = {"PATH": os.environ["PATH"], "LOCK": lock}
    ended = subprocess.run(command, cwd=root, env=environment, capture_output=True, check=False)
    return ended.returncode, log.read_text().splitlines()


@pytest.mark.parametrize(("lock", "files"), [("core", ["core"]), ("demo", ["torch-cpu", "demo"])])
def test_the_users_image_installs_the_lock_file_that_is_named(lock, files, tmp_path):
    assert re.findall(r"^ARG LOCK=(.*)$", USER_RECIPE, re.M) == ["core"]
    assert (ROOT / "requirements" / f"{lock}.txt").is_file()
    status, (*locked, project) = installed_in_image(tmp_path, lock)
    assert status == 0
    installed = [re.findall(r"-r requirements/(\S+)\.txt", call) for call in locked]
    assert installed == [[name] for name in ["tools", *files]]
    assert all("--require-hashes" in call for call in locked)
    assert project.endswith(" --no-deps --no-build-isolation .")


def test_the_users_image_is_not_built_without_the_lock_file(tmp_path):
    status, calls = installed_in_image(tmp_path, "core", missing="core")
    assert status == 1
    assert all("--require-hashes" in call for call in calls)


def test_the_users_image_runs_parapet_without_rights_in_data():
    instructions = dict(re.findall(r"^([A-Z]+) (.+)$", USER_RECIPE.rpartition("\nFROM ")[2], re.M))
    assert (instructions["ENTRYPOINT"], instructions["WORKDIR"]) == ('["parapet"]', "/data")
    assert instructions["RUN"].split()[-1] == instructions["USER"] != "root"
