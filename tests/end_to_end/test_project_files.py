"""What the project has beside its code: the workflow, the hooks before a commit, forms for issues, locked packages."""

import re
import runpy
from pathlib import Path

import pytest
import setuptools
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
FORMS = sorted(path for path in ROOT.glob(".github/ISSUE_TEMPLATE/*.yml") if path.name != "config.yml")
FOLDERS = ("benchmarks", "crowd_templates", "docker", "docs", "evaluation", "parapet", "pipelines", "requirements")
FOLDERS += ("schemas", "tests", "transforms")
PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./-]+\.(?:md|py|toml|sh|jinja|ipynb|Dockerfile)\b")
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))


def read_yaml(path):
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def commands(workflow):
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    return [line for step in steps if "run" in step for line in step["run"].splitlines()]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_to_commits_and_may_only_read(path):
    used = re.findall(r"^ *-? *uses: (.+)$", path.read_text(encoding="utf-8"), re.M)
    assert used
    assert [line for line in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []
    workflow = read_yaml(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert not [name for name, job in workflow["jobs"].items() if "permissions" in job]
    assert all(job["timeout-minutes"] for job in workflow["jobs"].values())
    text = path.read_text(encoding="utf-8")
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")
    assert "pull_request_target" not in workflow[True]  # YAML 1.1 takes "on" for true


def test_the_workflow_tests_the_python_versions_that_setup_names():
    tested = read_yaml(ROOT / ".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    assert tested == re.findall(r'"Programming Language :: Python :: (3\.\d+)"', setup)
    assert f'python_requires=">={tested[0]}"' in setup


def test_the_workflow_runs_targets_that_there_are():
    run = {line.split()[1] for path in WORKFLOWS for line in commands(read_yaml(path)) if line.startswith("make ")}
    assert run >= {"lint", "test", "test-all"}
    assert run <= TARGETS


def test_the_hooks_before_a_commit_are_those_of_lint():
    repositories = read_yaml(ROOT / ".pre-commit-config.yaml")["repos"]
    assert all("rev" in repository for repository in repositories if repository["repo"] != "local")
    (local,) = (repository["hooks"] for repository in repositories if repository["repo"] == "local")
    entries = [hook["entry"].split() for hook in local]
    assert [entry[1] for entry in entries if entry[0] == "make"] == ["types"]
    assert {entry[0] for entry in entries} == {"make", ".venv/bin/ruff"}
    assert {"style", "types"} <= TARGETS


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_asks_for_what_is_needed(path):
    form = read_yaml(path)
    assert {"name", "description", "body"} <= form.keys()
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    ids = [field["id"] for field in fields]
    assert len(ids) == len(set(ids))
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_there_is_a_form_for_each_kind_of_issue():
    assert [path.stem for path in FORMS] == ["bug", "data_problem", "feature"]


def test_files_that_comments_and_documents_name_exist():
    patterns = ["Dockerfile", "Makefile", "*.py", "*.toml", ".github/**/*.yml"]
    patterns += ["[!C]*.md", "CONTRIBUTING.md"]  # the change log also names files that are gone
    patterns += [f"{folder}/**/*.{suffix}" for folder in FOLDERS for suffix in ("py", "md", "sh", "toml", "Dockerfile")]
    files = {path for pattern in patterns for path in ROOT.glob(pattern)}
    named = {(path, name) for path in files for name in PATH.findall(path.read_text(encoding="utf-8"))}
    assert {path.name for path, _ in named} >= {"Dockerfile", "Makefile", "CONTRIBUTING.md"}
    assert sorted(f"{path}: {name}" for path, name in named if not (ROOT / name).exists()) == []


# requirements/: what is locked fits setup.py, is exact, has hashes, and is what ``make``, images and CI install.

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
