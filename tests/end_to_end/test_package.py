"""What is installed: the sdist, the wheel made from it, and the wheel alone in an environment without the checkout.

Offline: the build uses the setuptools that is here, and the environment finds the dependencies, not Parapet, in ours.
And what the project has beside its code: the workflow, hooks, forms, locked packages, recipes of images.
"""

import email
import itertools
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path
from string import Template
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import setuptools
import yaml
from kit import cases, json_of, write
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import parapet
from parapet.schemas.errors import DISTRIBUTION, install_line

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.name for path in (ROOT / "parapet").iterdir() if path.is_symlink())
# In the folder of a user whose own modules have the names of our folders.
SCRIPT = """\
import sys

import evaluation, schemas, transforms
import parapet

assert (evaluation.OWNER, schemas.OWNER, transforms.OWNER) == ("user", "user", "user")
typos = parapet.perturb(parapet.load_corpus(), "typos", seed=1)
typos.save("my_typos")
assert not [name for name in sys.modules if name.startswith("__editable__")]
print(parapet.__file__, sys.modules["parapet.schemas.layout"].sample_root(), typos.rows.num_rows, sep="\\n")
"""
# A model that imports modules of its user's with names of ours.
TRACKER = """\
import evaluation
import helpers


class Tracker:
    def __init__(self, owner):
        assert owner == evaluation.OWNER == helpers.OWNER

    def predict(self, batch):
        return [helpers.STATE for _ in batch]
"""
HELPERS = 'OWNER, STATE = "user", {"active_intent": "NONE", "requested_slots": [], "slot_values": {}}\n'
HINT = "from parapet.schemas.errors import install_line; print(install_line('speech'), install_line(), sep='\\n')"


class Installed(NamedTuple):
    """A virtual environment with the wheel, and a folder of its user's."""

    bin: Path
    folder: Path

    def run(self, *command, status=0):
        """What a command of the environment, run in the user's folder, writes to stdout and stderr."""
        environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
        done = subprocess.run(
            [self.bin / command[0], *command[1:]], cwd=self.folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr


def tracked(*folders):
    """The paths of the files that are, or would be, in git."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *folders]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return {name for name in names if name and (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist and the wheel that was built from it."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: what belongs to the package is not known")
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in (*tracked(), *(f"parapet/{folder}" for folder in FOLDERS)):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name, follow_symlinks=False)
    make_sdist = f"from setuptools import build_meta; build_meta.build_sdist({str(out)!r})"
    subprocess.run([sys.executable, "-c", make_sdist], cwd=source, capture_output=True, check=True)
    (sdist,) = out.glob("*.tar.gz")
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "--no-index"]
    subprocess.run([*pip, "-w", out, sdist], capture_output=True, check=True)
    (wheel,) = out.glob("*.whl")
    return SimpleNamespace(sdist=sdist, wheel=wheel)


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    prefix, folder = tmp_path_factory.mktemp("environment"), tmp_path_factory.mktemp("user")
    venv.create(prefix, symlinks=True)
    python = prefix / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*pip, built.wheel], capture_output=True, check=True)
    # A path in a .pth file is searched, and its own .pth files are not read: that of our editable install is one.
    site_packages = Path(sysconfig.get_path("purelib", vars={"base": str(prefix)}))
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    files = {"script": SCRIPT, "tracker": TRACKER, "helpers": HELPERS}
    files |= dict.fromkeys(("evaluation/__init__", "transforms/__init__", "schemas"), 'OWNER = "user"\n')
    for name, text in files.items():
        write(folder / f"{name}.py", text)
    return Installed(prefix / "bin", folder)


@pytest.mark.thorough
def test_wheel_and_sdist_have_the_files_of_the_package_once(built):
    wanted = {f"parapet/{name}" for name in tracked(*FOLDERS)} | tracked("parapet")
    names = {name for name in zipfile.ZipFile(built.wheel).namelist() if not name.endswith("/")}
    assert {"parapet/py.typed", "parapet/schemas/sample/crowd/names.csv"} <= wanted
    assert {Path(name).suffix for name in wanted} >= {".css", ".csv", ".jinja", ".js", ".json", ".jsonl", ".toml"}
    assert {name for name in names if name.startswith("parapet/")} == wanted
    distribution = DISTRIBUTION.replace("-", "_")
    assert {name.partition("/")[0] for name in names} == {"parapet", f"{distribution}-{version()}.dist-info"}
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames() if archive.getmember(name).isfile()}
    assert names >= wanted | tracked("LICENSE", "README.md", "pyproject.toml", "setup.py")
    folders = {name.partition("/")[0] for name in names if "/" in name}
    assert folders == {"parapet", f"{distribution}.egg-info"}  # and so each file once


def test_each_folder_of_the_package_is_a_relative_link():
    links = {path.name: path.readlink() for path in (ROOT / "parapet").iterdir() if path.is_symlink()}
    assert links == {name: Path("..") / name for name in links}
    assert {"schemas", "transforms", "evaluation", "pipelines", "crowd_templates"} <= links.keys()


@pytest.mark.thorough
def test_the_metadata_say_what_it_is(built):
    with zipfile.ZipFile(built.wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        fields = email.message_from_string(archive.read(name).decode("utf-8"))
    assert (fields["Name"], fields["Version"]) == (DISTRIBUTION, version())
    assert (fields["License-Expression"], fields.get_all("License-File")) == ("Apache-2.0", ["LICENSE"])
    classifiers = fields.get_all("Classifier", [])
    assert "Typing :: Typed" in classifiers
    assert not [name for name in classifiers if name.startswith("License ::")]  # which an expression forbids
    addresses = [line.partition(", ")[2] for line in fields.get_all("Project-URL", [])]
    assert len(addresses) >= 3
    assert all(address.startswith("https://") for address in addresses)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert f"Homepage, {citation['repository-code']}" in fields.get_all("Project-URL", [])
    # The description has no link that leads somewhere in the checkout alone.
    assert fields["Description-Content-Type"] == "text/markdown"
    links = re.findall(r"\]\(([^)\s]+)\)", fields.get_payload())
    assert len(links) > 10
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert any(f"/raw/v{version()}/docs/images/" in link for link in links)
    assert any(f"/blob/v{version()}/docs/" in link for link in links)


def version():
    """That of setup.py."""
    found = re.search(r'^VERSION = "([^"]+)"$', (ROOT / "setup.py").read_text(encoding="utf-8"), re.M)
    assert found
    return found[1]


def test_citation_and_changes_are_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changes = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert citation["version"] == changes[0] == version()


@pytest.mark.thorough
def test_a_script_beside_folders_with_our_names_uses_the_wheel(installed):
    package, sample, rows = installed.run("python", "script.py").splitlines()
    assert Path(package).is_relative_to(installed.bin.parent)
    assert Path(sample).is_relative_to(installed.bin.parent)
    typos = parapet.perturb(parapet.load_corpus(sample), "typos", seed=1)
    assert int(rows) == typos.rows.num_rows > 0
    saved = [json_of(path) for path in sorted((installed.folder / "my_typos" / "test").glob("dial*"))]
    assert [*itertools.chain(*saved)] == list(typos.dialogues("test"))


@pytest.mark.thorough
def test_a_model_imports_modules_with_our_names(installed):
    model = ["--model", "tracker.py:Tracker", "--model_args", "owner=user"]
    installed.run("parapet", "evaluate", "--task", "dst", *model, "--replicates", "0", "--output", "my_scores")
    metrics = json_of(installed.folder / "my_scores" / "metrics.json")["#ALL_SERVICES"]
    assert metrics["joint_goal_accuracy"] == 0
    assert metrics["active_intent_accuracy"] == pytest.approx(1 / 223)  # a frame has no intent
    assert metrics["requested_slots_precision"] == 1


@pytest.mark.thorough
def test_the_program_and_the_module_are_the_same(installed):
    said = f"parapet {version()}\n"
    assert installed.run("parapet", "--version") == installed.run("python", "-m", "parapet", "--version") == said
    usage = installed.run("parapet", "-h")
    assert usage.startswith("usage: parapet COMMAND")
    assert installed.run("python", "-m", "parapet", "-h") == installed.run("python", "-m", "parapet", status=2) == usage


@pytest.mark.thorough
def test_a_command_runs_on_the_sample_of_the_wheel(installed):
    assert re.search(r"^total +12 +142 ", installed.run("python", "-m", "parapet", "hits", "--output", "my_hits"), re.M)
    assert (installed.folder / "my_hits" / "index.html").is_file()
    assert (installed.folder / "my_hits" / "manifest.jsonl").is_file()


@pytest.mark.thorough
def test_the_hint_names_the_wheel_that_was_installed(built, installed):
    said = installed.run("python", "-c", HINT).splitlines()
    assert said == [f"pip install '{built.wheel}[speech]'", f"pip install '{built.wheel}'"]
    for record in installed.bin.parent.rglob("direct_url.json"):
        record.unlink()  # as if it came from an index
    said = installed.run("python", "-c", HINT).splitlines()
    assert said == [f"pip install '{DISTRIBUTION}[speech]'", f"pip install '{DISTRIBUTION}'"]


def test_the_hint_names_the_checkout_where_that_is_installed(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert install_line("speech,models") == "pip install -e '.[speech,models]'"
    monkeypatch.chdir(tmp_path)
    assert install_line("speech") == f"pip install -e '{ROOT}[speech]'"


WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
FORMS = sorted(path for path in ROOT.glob(".github/ISSUE_TEMPLATE/*.yml") if path.name != "config.yml")
NAMED = ("benchmarks", "crowd_templates", "docker", "docs", "evaluation", "parapet", "pipelines", "requirements")
NAMED += ("schemas", "tests", "transforms")
PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join(NAMED)})/[\w./-]+\.(?:md|py|toml|sh|jinja|ipynb|Dockerfile)\b")
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
    text = path.read_text(encoding="utf-8")
    used = re.findall(r"^ *-? *uses: (.+)$", text, re.M)
    assert used
    assert [line for line in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []
    workflow = read_yaml(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert not [name for name, job in workflow["jobs"].items() if "permissions" in job]
    assert all(job["timeout-minutes"] for job in workflow["jobs"].values())
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
    assert [path.stem for path in FORMS] == ["bug", "data_problem", "feature"]


def test_files_that_comments_and_documents_name_exist():
    patterns = ["Dockerfile", "Makefile", "*.py", "*.toml", ".github/**/*.yml"]
    patterns += ["[!C]*.md", "CONTRIBUTING.md"]  # the change log also names files that are gone
    patterns += [f"{folder}/**/*.{suffix}" for folder in NAMED for suffix in ("py", "md", "sh", "toml", "Dockerfile")]
    files = {path for pattern in patterns for path in ROOT.glob(pattern)}
    named = {(path, name) for path in files for name in PATH.findall(path.read_text(encoding="utf-8"))}
    assert {path.name for path, _ in named} >= {"Dockerfile", "Makefile", "CONTRIBUTING.md"}
    assert sorted(f"{path}: {name}" for path, name in named if not (ROOT / name).exists()) == []


# requirements/: what is locked fits setup.py, is exact, has hashes, and is what ``make``, images and CI install.


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
        assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}", line) for line in hashes), first
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


@pytest.mark.parametrize("path", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda path: path.stem)
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


# The recipes of the images, for workers and for users, fit what ``setup.py`` installs. No image is built here.


RECIPE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
USER_RECIPE = (ROOT / "docker" / "user.Dockerfile").read_text(encoding="utf-8")


def test_its_beam_is_the_one_that_submits():
    (beam,) = re.findall(r"^ARG BEAM_VERSION=(.+)$", RECIPE, re.M)
    allowed = [wanted for wanted in map(Requirement, metadata.requires(DISTRIBUTION)) if wanted.name == "apache-beam"]
    assert allowed
    assert all(beam in wanted.specifier for wanted in allowed)
    assert beam == metadata.version("apache-beam")


def bases(recipe):
    """The image that each stage starts from, with the defaults of the arguments before the first."""
    arguments = {}
    for name, default in re.findall(r"^ARG (\w+)=(.+)$", recipe.partition("\nFROM ")[0], re.M):
        arguments[name] = Template(default).substitute(arguments)
    return [Template(image).substitute(arguments) for image in re.findall(r"^FROM (\S+)", recipe, re.M)]


def test_their_pythons_are_those_that_the_package_takes():
    (python,) = re.findall(r"^ARG PYTHON_VERSION=(.+)$", USER_RECIPE, re.M)
    assert bases(USER_RECIPE) == [f"python:{python}-slim"] * 2
    assert bases(RECIPE) == [f"apache/beam_python3.11_sdk:{metadata.version('apache-beam')}"]
    allowed = SpecifierSet(metadata.metadata(DISTRIBUTION)["Requires-Python"])
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


@cases("lock files", ("core", ["core"]), ("demo", ["torch-cpu", "demo"]))
def test_the_users_image_installs_the_lock_file_that_is_named(lock, files, tmp_path):
    assert re.findall(r"^ARG LOCK=(.*)$", USER_RECIPE, re.M) == ["core"]
    assert (ROOT / "requirements" / f"{lock}.txt").is_file()
    status, (*locked, project) = installed_in_image(tmp_path, lock)
    assert status == 0
    installed = [re.findall(r"-r requirements/(\S+)\.txt", call) for call in locked]
    assert installed == [[name] for name in ["tools", *files]]
    assert all("--require-hashes" in call for call in locked)
    assert project.endswith(" --no-deps --no-build-isolation .")
    status, calls = installed_in_image(tmp_path / "lacking", lock, missing=lock)
    assert (status, all("--require-hashes" in call for call in calls)) == (1, True)


def test_the_users_image_runs_parapet_without_rights_in_data():
    instructions = dict(re.findall(r"^([A-Z]+) (.+)$", USER_RECIPE.rpartition("\nFROM ")[2], re.M))
    assert (instructions["ENTRYPOINT"], instructions["WORKDIR"]) == ('["parapet"]', "/data")
    assert instructions["RUN"].split()[-1] == instructions["USER"] != "root"
