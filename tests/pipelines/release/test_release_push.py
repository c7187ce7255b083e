"""``parapet release push``, by huggingface_hub, to a Hub on this machine."""

import os
import socket
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import release_folder as folder
from hub_server import ATTRIBUTES, HubServer, Repo
from huggingface_hub import constants, snapshot_download
from kit import cases, files_of, holding, refused, run, write

from parapet.schemas.errors import install_line
from parapet.schemas.release import NO_LICENCE

TOKEN = "hf_ada_writes"
UPLOADS = {"preupload", "lfs", "upload", "commit", "tag"}


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
    assert (is_private, [message for _, message, _ in commits]) == (private, ["initial commit", "Version 1.0.0"])
    assert pushed(hub) == files_of(release)
    assert tags == {"1.0.0": commits[-1][0]}


def test_a_download_is_a_release_that_can_be_verified(release, hub, tmp_path):
    push(release)
    root = tmp_path / "little" / "1.0.0"
    snapshot_download("ada/little", repo_type="dataset", revision="1.0.0", local_dir=root, endpoint=hub.url)
    assert files_of(root).items() >= files_of(release).items()
    assert run("release", "verify", root).output.splitlines()[-1] == "40 files, 46 rows, 0 findings"


def test_a_version_is_never_changed(release, hub, tmp_path):
    push(release)
    before = hub.state("ada/little")
    other = Path(folder.write_release(tmp_path, folder.sample_corpora(1)))
    assert "ada/little: has version 1.0.0 already, and a release never changes" in push(other, status=1).errors
    assert hub.state("ada/little") == before


def test_the_next_version_replaces_the_last_and_keeps_what_is_not_of_releases(release, hub, tmp_path):
    push(release, "--private")
    repo = hub.repos["ada/little"]
    repo.add({**repo.commits[-1].files, "logo.png": b"mine"}, "a picture")
    second = Path(folder.write_release(tmp_path, folder.sample_corpora(2), version="1.1.0", shards=1))
    push(second)
    assert pushed(hub) == {**files_of(second), "logo.png": b"mine"}
    tagged = repo.at("1.0.0")
    assert tagged is not None
    assert {path: tagged.files[path] for path in files_of(release)} == files_of(release)
    assert repo.tags.keys() == {"1.0.0", "1.1.0"}


def test_private_stays_private(release, hub):
    hub.repos["ada/little"] = Repo("ada", False, [])
    hub.repos["ada/little"].add({".gitattributes": ATTRIBUTES}, "initial commit")
    assert "ada/little: is public: make it private in its settings" in push(release, "--private", status=1).errors
    assert not UPLOADS & set(hub.requests)
    push(release)
    assert pushed(hub) == files_of(release)


def test_without_a_licence_it_is_not_public(hub, tmp_path):
    said = push(Path(folder.write_release(tmp_path, folder.sample_corpora(1), licence=NO_LICENCE)), status=2).errors
    assert "has no licence: name one in release.toml and build again, or push with --private" in said
    assert hub.requests == []


def test_a_release_that_is_not_right_is_not_uploaded(hub, tmp_path):
    columns = pa.schema([("a", pa.int64()), ("worker_hash", pa.string())])
    tables = {"answers": ("row", ["a"], columns, [{"a": 1, "worker_hash": "0a1b2c"}])}
    said = push(Path(folder.write_release(tmp_path, folder.sample_corpora(1), tables)), status=1)
    assert "'worker_hash' may identify a worker" in said.output
    assert "in the release: nothing was uploaded" in said.errors
    assert hub.requests == []


@cases(
    "faults token message",  # the status with which a step fails
    ({}, "hf_nobody", "the token cannot write to it"),
    ({}, "hf_ada_reads", "the token cannot write to it"),
    ({}, "hf_eve_writes", "the token cannot write to it"),
    ({"commit": 500}, TOKEN, "run the same command again later (status 500: out of order)"),
)
def test_a_refusal_is_one_line(faults, token, message, release, hub, monkeypatch):
    hub.faults = faults
    monkeypatch.setenv("HF_TOKEN", token)
    errors = push(release, status=1).errors
    assert errors.startswith("error: ada/little: ")
    assert message in errors
    assert not holding(errors, "Traceback", token)
    assert all(not repo.tags for repo in hub.repos.values())


def test_a_push_that_failed_is_completed(release, hub):
    hub.faults = {"tag": 500}
    push(release, status=1)
    hub.faults = {}
    push(release)
    check_pushed(hub, release)


def test_no_network(release, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{unused.getsockname()[1]}")
        errors = push(release, status=1).errors
    assert "the upload failed: [Errno 111] Connection refused: check the network, and run the same" in errors


@cases(
    "flags message",
    (["{root}"], "--repo: is required: give OWNER/NAME, here or as 'hub' in release.toml"),
    (["{root}", "--repo", "little"], "--repo: 'little' must be OWNER/NAME, such as ada/little"),
    (["{root}/data", "--repo", "ada/x"], "is not a release"),
    (["gs://bucket/x/1.0.0", "--repo", "ada/x"], "is not on this machine: copy the release to it first"),
)
def test_wrong_usage(flags, message, release, hub):
    assert message in refused("release", "push", *(flag.format(root=release) for flag in flags))
    assert hub.requests == []


def test_without_a_token_or_the_extra(release, hub, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    assert "set HF_TOKEN to a token that can write, or run: hf auth login" in push(release, status=2).errors
    write(Path(constants.HF_TOKEN_PATH), TOKEN)
    push(release)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert push(release, status=2).errors == f"error: huggingface_hub is not installed: {install_line('hub')}\n"


@pytest.mark.parametrize("private", [True, False])
def test_a_push_uploads_the_release(private, release, hub):
    said = push(release.parent, *["--private"] * private)  # the folder of the dataset: its newest version
    check_pushed(hub, release, private)
    assert said.output.endswith(f"{hub.url}/datasets/ada/little has version 1.0.0\n")
    assert TOKEN not in said.output + said.errors
