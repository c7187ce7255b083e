"""``parapet release push``, by huggingface_hub, to a Hub on this machine."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
import release_folder as folder
from hub_server import ATTRIBUTES, HubServer, Repo
from huggingface_hub import constants, snapshot_download
from kit import THOROUGH, cases, files_of, holding, lacking, refused, run, write

from parapet.schemas.errors import install_line
from parapet.schemas.release import NO_LICENCE
from parapet.transforms.release import hub as hub_module

TOKEN = "hf_ada_writes"
WRITES = {"create", "preupload", "lfs", "upload", "commit", "tag"}


@pytest.fixture(autouse=True)
def account(tmp_path, monkeypatch):
    """An account of its own, in this process and in others; the client has read its settings already."""
    for name in [name for name in os.environ if name.startswith("HF_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "hf" / "token"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub_module, "WAITS", (0.0, 0.0))


@pytest.fixture
def hub(monkeypatch):
    with HubServer() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return Path(folder.write_release(tmp_path_factory.mktemp("push"), folder.sample_corpora(2)))


def push(root, *flags, repo="ada/little", status=0):
    return run("release", "push", root, *flags, repo=repo, status=status)


def pushed(hub, repo="ada/little"):
    """The files of the last commit, without those that every repository begins with."""
    files = dict(hub.repos[repo].commits[-1].files)
    assert files.pop(".gitattributes") == ATTRIBUTES
    return files


def check_pushed(hub, release, private=False):
    """The repository has the release in one commit, with its tag."""
    is_private, commits, tags = hub.state("ada/little")
    assert (is_private, [message for _, message, _ in commits]) == (private, ["initial commit", "little 1.0.0"])
    assert pushed(hub) == files_of(release)
    assert tags == {"1.0.0": commits[-1][0]}


def test_a_download_is_a_release_that_can_be_verified(release, hub, tmp_path):
    push(release)
    root = tmp_path / "little" / "1.0.0"
    snapshot_download("ada/little", repo_type="dataset", revision="1.0.0", local_dir=root, endpoint=hub.url)
    assert files_of(root).items() >= files_of(release).items()
    assert run("release", "verify", root).output.splitlines()[-1] == "40 files, 46 rows, 0 findings"
    assert run("release", "show", root).output.startswith("# little 1.0.0\n")
    assert push(root).output.endswith("with the same content: nothing to upload\n")
    (root / ".cache" / "more").write_text("x")
    assert ".cache/more: is not listed in SHA256SUMS" in run("release", "verify", root, status=1).output


def test_a_version_is_never_changed(release, hub, tmp_path):
    push(release)
    before = hub.state("ada/little")
    other = Path(folder.write_release(tmp_path, folder.sample_corpora(1)))
    there = "error: ada/little: has a version 1.0.0 already, with different content (MANIFEST.json, README.md,"
    for flags in ([], ["--dry_run"]):
        said = push(other, *flags, status=1)
        assert not lacking(said.errors, there, "a release never changes, so build the next version")
        assert said.output == ""
    assert hub.state("ada/little") == before


def test_the_next_version_replaces_the_last_and_keeps_what_is_not_of_releases(release, hub, tmp_path):
    push(release, "--private")
    repo = hub.repos["ada/little"]
    repo.add({**repo.commits[-1].files, "logo.png": b"mine"}, "a picture")
    second = Path(folder.write_release(tmp_path, folder.sample_corpora(2), version="1.1.0", shards=1))
    said = push(second).output
    assert "repository: there, private" in said
    gone = files_of(release).keys() - files_of(second).keys()
    assert gone
    assert all(path.startswith("data/") for path in gone)
    assert f"{len(gone)} to delete" in said
    assert pushed(hub) == {**files_of(second), "logo.png": b"mine"}
    tagged = repo.at("1.0.0")
    assert tagged is not None
    assert {path: tagged.files[path] for path in files_of(release)} == files_of(release)
    # The old version is there and may be pushed again; one between them may not.
    push(release)
    between = Path(folder.write_release(tmp_path / "between", folder.sample_corpora(1), version="1.0.1"))
    said = push(between, status=1).errors
    assert "has version 1.1.0 already, which is newer than 1.0.1: push in order" in said
    assert repo.tags.keys() == {"1.0.0", "1.1.0"}


def test_private_stays_private(release, hub):
    hub.repos["ada/little"] = Repo("ada", False, [])
    hub.repos["ada/little"].add({".gitattributes": ATTRIBUTES}, "initial commit")
    said = push(release, "--private", status=1).errors
    assert f"ada/little: is public: make it private at {hub.url}/datasets/ada/little/settings" in said
    assert not WRITES & set(hub.requests)
    push(release)
    assert pushed(hub) == files_of(release)


def test_without_a_licence_it_is_not_public(hub, tmp_path):
    said = push(Path(folder.write_release(tmp_path, folder.sample_corpora(1), licence=NO_LICENCE)), status=2).errors
    assert "has no licence: name one in release.toml and build the release again, or push it with --private" in said
    assert hub.requests == []


def test_a_release_that_is_not_right_is_not_uploaded(hub, tmp_path):
    columns = pa.schema([("a", pa.int64()), ("worker_hash", pa.string())])
    tables = {"answers": ("row", ["a"], columns, [{"a": 1, "worker_hash": "0a1b2c"}])}
    said = push(Path(folder.write_release(tmp_path, folder.sample_corpora(1), tables)), status=1)
    assert "'worker_hash' may identify a worker" in said.output
    assert "in the release: nothing was uploaded" in said.errors
    assert hub.requests == []


# With what the requests of a step are answered; the token; the status and what is said.
REFUSALS = {
    "a token that is none": ({}, "hf_nobody", "the token was refused: set HF_TOKEN to a token that can write"),
    "a token that can only read": ({}, "hf_ada_reads", "the token of ada can only read: create one that can write at"),
    "somebody else's token": ({}, "hf_eve_writes", "the token is not allowed to write to it: change its permissions"),
    "no right to tag": ({"tag": [403]}, TOKEN, "the token is not allowed to write to it"),
    "the name is taken": ({"create": [409]}, TOKEN, "cannot be created: a repository of another type may"),
    "a proxy's page": ({"whoami": ["<html>"]}, TOKEN, "the upload failed: Expecting value"),
    "out of order": ({"whoami": [500] * 3}, TOKEN, "the Hub is down or busy: run the same command"),
    "busy": ({"refs": [429] * 3}, TOKEN, "the Hub is down or busy"),
    "cut off": ({"create": ["cut"] * 3}, TOKEN, "no answer: Server disconnected"),
    "paid": ({"commit": [402]}, TOKEN, "the Hub refused the request (status 402: fault Bearer …)"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_done_is_one_line(case, release, hub, monkeypatch):
    hub.faults, token, message = REFUSALS[case]
    monkeypatch.setenv("HF_TOKEN", token)
    said = push(release, status=1).errors
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert message in errors[0]
    assert not holding(said, "Traceback", token)
    assert all(not repo.tags for repo in hub.repos.values())


def test_nobody_is_there(release):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        *tries, error = push(release, "--endpoint", address, status=1).errors.splitlines()
    assert error.startswith(f"error: {address}: no answer: [Errno 111] Connection refused: check the network")
    assert [line.endswith("trying again in 0 s") for line in tries] == [True, True]


def test_offline_is_said(release, hub, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert push(release, status=1).errors == "error: ada/little: HF_HUB_OFFLINE is set: unset it to push\n"


STEPS = ("whoami", "info", "create", "tree", "preupload", "lfs", "upload", "commit", "tag")
ALL_FAULTS = [*((step, 500) for step in STEPS)]
ALL_FAULTS += [(step, fault) for step in ("create", "upload", "commit", "tag") for fault in ("cut", "cut_after")]
FAULTS = [("tree", 500), ("upload", "cut"), ("commit", "cut_after"), ("tag", "cut_after")]


@cases("step fault", *(ALL_FAULTS if THOROUGH else FAULTS))
def test_what_fails_once_is_tried_again(step, fault, release, hub, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)  # the client waits, too
    hub.faults = {step: [fault]}
    push(release)
    assert hub.faults[step] == []
    check_pushed(hub, release)


def test_what_does_not_arrive_is_not_tagged(release, hub):
    hub.ignored, hub.notice = "report/", "no \x1b[31mtags"
    said = push(release, status=1).errors
    assert (
        "does not contain what was uploaded (report/index.html): check whether the "
        "repository has a .gitignore The version was"
    ) in said
    assert "warning: ada/little: Warnings while validating metadata in README.md: - no \\x1b[31mtags\n" in said
    assert not hub.repos["ada/little"].tags


@cases(
    "flags message",
    (["{root}"], "--repo: is required: give OWNER/NAME, here or as 'hub' in release.toml"),
    (["{root}", "--repo", "little"], "--repo: 'little' must be OWNER/NAME, such as ada/little"),
    (["{root}/data", "--repo", "ada/x"], "is not a release"),
    (["gs://bucket/x/1.0.0", "--repo", "ada/x"], "is not on this machine: copy the release to it first"),
    (["{root}", "--repo", "ada/x", "--endpoint", "http://example.org"], "would receive the token unencrypted"),
    (["{root}", "--repo", "ada/x", "--endpoint", "example.org"], "is not an address such as https://huggingface.co"),
    (["{root}", "--repo", "ada/x", "--endpoint", "https://a:b@example.org"], "is not an address such as"),
)
def test_wrong_usage(flags, message, release, hub):
    assert message in refused("release", "push", *(flag.format(root=release) for flag in flags))
    assert hub.requests == []


def test_without_a_token_or_the_extra(release, hub, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    assert "set HF_TOKEN to a token that can write, or run: hf auth login" in push(release, status=2).errors
    planned = push(release, "--dry_run").output
    assert "without a token: set HF_TOKEN" in planned
    assert "new" in planned
    assert not hub.repos
    write(Path(constants.HF_TOKEN_PATH), TOKEN)
    push(release, "--dry_run")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert push(release, status=2).errors == f"error: huggingface_hub is not installed: {install_line('hub')}\n"


READS = """
import json
{snippet}
print(json.dumps(list(rows["dialogue_id"])))
"""


@pytest.mark.thorough
def test_it_is_loaded_from_there_as_its_card_shows(suite_release, hub):
    root = suite_release.root
    run("release", "push", root, "--private")  # to the repository that release.toml names
    assert pushed(hub, "ada/sets") == files_of(root)
    codes = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.S)
    (snippet,) = [code for code in codes if "ada/sets" in code]
    command = [sys.executable, "-W", "ignore", "-c", READS.format(snippet=snippet)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    expected = folder.rows_in(root / "data" / "v1" / "test-00000-of-00001.parquet")
    assert json.loads(told.stdout) == [row["dialogue_id"] for row in expected]
    said = push(root, "--dry_run", repo="ada/other").errors
    assert "the card shows how to load the release from ada/sets, not from ada/other" in said


@pytest.mark.parametrize("private", [True, False])
def test_what_arrives_is_the_release(private, release, hub):
    said = push(release, *["--private"] * private)
    check_pushed(hub, release, private)
    assert f"repository: new, {'private' if private else 'public'}" in said.output
    assert said.output.endswith(f"{hub.url}/datasets/ada/little has version 1.0.0\n")
    assert TOKEN not in said.output + said.errors
    before = len(hub.requests)
    said = push(release.parent)  # the folder of the dataset: its newest version
    assert not WRITES & set(hub.requests[before:])
    assert f"repository: there, {'private' if private else 'public'}" in said.output
    assert said.output.endswith("ada/little has version 1.0.0 already, with the same content: nothing to upload\n")
    check_pushed(hub, release, private)
