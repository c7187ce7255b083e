"""What is installed: the sdist, the wheel made from it, and the wheel alone in an environment without the checkout.

Offline: the build uses the setuptools that is here, and the environment finds the dependencies, not Parapet, in ours.
"""

import email
import email.message
import itertools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from kit import json_of, write

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
        return [helpers.empty_state(example) for example in batch]
"""
HELPERS = """\
OWNER = "user"


def empty_state(example):
    return {"active_intent": "NONE", "requested_slots": [], "slot_values": {}}
"""
HINT = "from parapet.schemas.errors import install_line; print(install_line('speech'), install_line(), sep='\\n')"


class Built(NamedTuple):
    """The sdist and the wheel that was built from it."""

    sdist: Path
    wheel: Path


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


def in_package():
    """The paths in the package ``parapet`` of the tracked files, those of the linked folders among them."""
    return {f"parapet/{name}" for name in tracked(*FOLDERS)} | tracked("parapet")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
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
    return Built(sdist, wheel)


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
    for name in ("evaluation", "transforms"):
        write(folder / name / "__init__.py", 'OWNER = "user"\n')
    (folder / "schemas.py").write_text('OWNER = "user"\n', encoding="utf-8")
    for name, text in (("script.py", SCRIPT), ("tracker.py", TRACKER), ("helpers.py", HELPERS)):
        (folder / name).write_text(text, encoding="utf-8")
    return Installed(prefix / "bin", folder)


def names_in(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_string(archive.read(name).decode("utf-8"))


@pytest.mark.thorough
def test_wheel_and_sdist_have_the_files_of_the_package_once(built):
    wanted, names = in_package(), names_in(built.wheel)
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
    fields = metadata(built.wheel)
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


@pytest.mark.thorough
def test_the_description_has_no_link_that_only_the_checkout_has(built):
    fields = metadata(built.wheel)
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
    assert (metrics["joint_goal_accuracy"], metrics["active_intent_accuracy"]) == (
        0,
        pytest.approx(1 / 223),
    )  # a frame has no intent
    assert metrics["requested_slots_precision"] == 1


@pytest.mark.thorough
def test_the_program_and_the_module_are_the_same(installed):
    said = f"parapet {version()}\n"
    assert installed.run("parapet", "--version") == installed.run("python", "-m", "parapet", "--version") == said
    usage = installed.run("parapet", "-h")
    assert usage.startswith("usage: parapet COMMAND")
    assert installed.run("python", "-m", "parapet", "-h") == usage
    assert installed.run("python", "-m", "parapet", status=2) == usage


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
