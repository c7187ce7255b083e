"""What the project has beside its code: the workflow, the hooks before a commit, forms for issues."""

import re
from pathlib import Path

import pytest
import yaml

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
