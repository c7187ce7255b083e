"""requirements/: what is locked fits setup.py, is exact, has hashes, and is what ``make``, images and CI install."""

import re
import runpy
from pathlib import Path

import pytest
import setuptools
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "requirements").glob("*.txt"))
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}")


def locked(path):
    """Canonical name to the requirements, several where markers tell them apart; each exact and with hashes."""
    found = {}
    lines = path.read_text().splitlines()
    assert lines[0].endswith("Made by 'make lock' from setup.py; do not edit.")
    text = "\n".join(lines[1:]).replace(" \\\n", "\n")
    for package in re.findall(r"^\S.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL):
        first, *hashes = package.rstrip().splitlines()
        requirement = Requirement(first)
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), first
        assert hashes, first
        assert all(HASH.fullmatch(line) for line in hashes), first
        found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


@pytest.fixture(scope="module")
def setup():
    """What setup.py tells setuptools."""
    given = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setuptools, "setup", lambda **found: given.update(found))
        patch.chdir(ROOT)
        runpy.run_path(str(ROOT / "setup.py"))
    return given


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_versions_are_exact_with_hashes_and_the_same_in_all_files(path):
    everything = locked(ROOT / "requirements" / "test.txt")
    for name, requirements in locked(path).items():
        for requirement in requirements if name in everything else ():
            assert str(requirement.specifier) in {str(other.specifier) for other in everything[name]}, name


def test_torch_is_locked_in_both_builds(setup):
    (wanted,) = [Requirement(text) for text in setup["extras_require"]["models"] if text.startswith("torch")]
    for name in ("torch", "torch-cpu"):
        (requirement,) = locked(ROOT / "requirements" / f"{name}.txt")["torch"]
        assert wanted.specifier.contains(str(requirement.specifier).removeprefix("=="))
    assert [*locked(ROOT / "requirements" / "torch-cpu.txt")] == ["torch"]
    assert not any(re.match("nvidia-|cuda-|triton", name) for name in locked(ROOT / "requirements" / "test.txt"))


def test_images_and_workflows_install_nothing_else():
    """Whatever pip or uv installs by name is locked with hashes, or is the project itself."""
    places = [ROOT / "Dockerfile", ROOT / "docker" / "user.Dockerfile", ROOT / "Makefile"]
    places += sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    for path in places:
        for line in re.findall(r".*\bpip\S* install .*", path.read_text().replace("\\\n", " ")):
            project = "--no-deps" in line and re.search(r"dist/\*|/parapet\b|-e \.", line)
            assert "--require-hashes -r " in line or project, f"{path.name}: {line}"


def test_actions_are_pinned_by_commit_and_jobs_may_read_alone():
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text()
        for action in re.findall(r"uses: (\S+)", text):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
        assert re.search(r"^permissions:\n  contents: read\n", text, re.MULTILINE)
        assert text.count("actions/checkout@") == text.count("persist-credentials: false")
