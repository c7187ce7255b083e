"""``parapet release verify``, ``diff`` and ``push``, the last to a Hub on this machine."""

import json
import os
import shutil
import socket
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import release_folder as folder
from hub_server import ATTRIBUTES, HubServer, Repo
from huggingface_hub import constants, snapshot_download
from kit import cases, files_of, holding, lacking, refused, run, write

from parapet.schemas.errors import install_line
from parapet.schemas.release import NO_LICENCE


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return folder.write_release(tmp_path_factory.mktemp("commands"), folder.sample_corpora(2))


@pytest.fixture
def second(first, tmp_path):
    """A version with other rows, whose number does not say so."""
    corpora = folder.sample_corpora(2)
    corpora["original"]["train"]["dialogues_001.json"][0]["turns"][1]["utterance"] += "<b>Other</b>"
    return folder.write_release(tmp_path, corpora, version="1.0.1")


def test_verify_as_json(second):
    (second / "CHANGELOG.md").unlink()
    told = json.loads(run("release", "verify", second, "--json", status=1).output)
    assert told["findings"] == [{"check": "checksums", "path": "CHANGELOG.md", "where": "", "reason": "is missing"}]
    assert (told["files"], told["rows"]) == (39, 46)


def test_diff_says_what_changed_and_what_the_version_should_be(first, second):
    lines = run("release", "diff", first, second).output.splitlines()
    assert lines[0] == "little 1.0.0 -> little 1.0.1"
    assert not lacking(lines, "original/train: 0 added, 0 removed, 1 changed (major)", "  ~ 1_00000: turns")
    assert lines[-1].startswith("the version number is wrong: 1.0.1 is a patch version after 1.0.0")


def test_diff_of_the_same_is_fine(first):
    told = run("release", "diff", first, first.parent).output
    assert told == "little 1.0.0 -> little 1.0.0\n\nthe releases do not differ\n"


def test_diff_of_a_release_that_is_not_whole_or_whose_checksums_contradict_each_other(first, tmp_path):
    shutil.copytree(first.parent, tmp_path / "little")
    root = tmp_path / "little" / "1.0.0"
    path = max((root / "data" / "original").glob("train-*.parquet"), key=lambda path: path.stat().st_size)
    name = path.relative_to(root).as_posix()
    folder.edit_rows(path, lambda rows: rows[1:])
    folder.mend(root)  # as one who hides it would
    assert f"old: {name}: its SHA-256 is" in run("release", "diff", root, first, status=1).output
    path.unlink()
    (root / "data" / "original" / "more.parquet").write_bytes(b"")
    said = run("release", "diff", first, root, status=1)
    problems = "data/original/more.parquet: is not listed in SHA256SUMS and MANIFEST.json", f"{name}: is missing"
    assert said.output.splitlines() == [f"new: {one}" for one in problems]
    assert said.errors == "error: the releases were not compared: 'parapet release verify' shows the details\n"


def test_a_release_in_a_bucket_is_read_in_the_same_way(first):
    """Any place that fsspec knows is read through the same calls; memory stands for a bucket here."""
    from upath import UPath

    bucket = UPath("memory://bucket/little")
    for path in first.parent.rglob("*"):
        if path.is_file():
            copy = bucket / path.relative_to(first.parent).as_posix()
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    run("release", "verify", "memory://bucket/little/1.0.0")
    run("release", "verify", "memory://bucket/little")
    run("release", "diff", first, "memory://bucket/little")
    (bucket / "1.0.0/extra").write_bytes(b"x")
    said = run("release", "verify", "memory://bucket/little/1.0.0", status=1).output
    assert "extra: is not listed in SHA256SUMS" in said


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


def push(root, *flags, repo="ada/little", status=0):
    return run("release", "push", root, *flags, repo=repo, status=status)


def pushed(hub, repo="ada/little"):
    """The files of the last commit, without those that every repository begins with."""
    files = dict(hub.repos[repo].commits[-1].files)
    assert files.pop(".gitattributes") == ATTRIBUTES
    return files


def check_pushed(hub, first, private=False):
    """The repository has the release in one commit, with its tag."""
    is_private, commits, tags = hub.state("ada/little")
    assert (is_private, [message for _, message, _ in commits]) == (private, ["initial commit", "Version 1.0.0"])
    assert pushed(hub) == files_of(first)
    assert tags == {"1.0.0": commits[-1][0]}


def test_a_download_is_a_release_that_can_be_verified(first, hub, tmp_path):
    push(first)
    root = tmp_path / "little" / "1.0.0"
    snapshot_download("ada/little", repo_type="dataset", revision="1.0.0", local_dir=root, endpoint=hub.url)
    assert files_of(root).items() >= files_of(first).items()
    assert run("release", "verify", root).output.splitlines()[-1] == "40 files, 46 rows, 0 findings"


def test_a_version_is_never_changed(first, hub, tmp_path):
    push(first)
    before = hub.state("ada/little")
    other = Path(folder.write_release(tmp_path, folder.sample_corpora(1)))
    assert "ada/little: has version 1.0.0 already, and a release never changes" in push(other, status=1).errors
    assert hub.state("ada/little") == before


def test_the_next_version_replaces_the_last_and_keeps_what_is_not_of_releases(first, hub, tmp_path):
    push(first, "--private")
    repo = hub.repos["ada/little"]
    repo.add({**repo.commits[-1].files, "logo.png": b"mine"}, "a picture")
    second = Path(folder.write_release(tmp_path, folder.sample_corpora(2), version="1.1.0", shards=1))
    push(second)
    assert pushed(hub) == {**files_of(second), "logo.png": b"mine"}
    tagged = repo.at("1.0.0")
    assert tagged is not None
    assert {path: tagged.files[path] for path in files_of(first)} == files_of(first)
    assert repo.tags.keys() == {"1.0.0", "1.1.0"}


def test_private_stays_private(first, hub):
    hub.repos["ada/little"] = Repo("ada", False, [])
    hub.repos["ada/little"].add({".gitattributes": ATTRIBUTES}, "initial commit")
    assert "ada/little: is public: make it private in its settings" in push(first, "--private", status=1).errors
    assert not UPLOADS & set(hub.requests)
    push(first)
    assert pushed(hub) == files_of(first)


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
def test_a_refusal_is_one_line(faults, token, message, first, hub, monkeypatch):
    hub.faults = faults
    monkeypatch.setenv("HF_TOKEN", token)
    errors = push(first, status=1).errors
    assert errors.startswith("error: ada/little: ")
    assert message in errors
    assert not holding(errors, "Traceback", token)
    assert all(not repo.tags for repo in hub.repos.values())


def test_a_push_that_failed_is_completed(first, hub):
    hub.faults = {"tag": 500}
    push(first, status=1)
    hub.faults = {}
    push(first)
    check_pushed(hub, first)


def test_no_network(first, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{unused.getsockname()[1]}")
        errors = push(first, status=1).errors
    assert "the upload failed: [Errno 111] Connection refused: check the network, and run the same" in errors


@cases(
    "argv message",
    (["verify"], "the following arguments are required: PATH"),
    (["verify", "{empty}"], "is not a release: it has neither MANIFEST.json nor SHA256SUMS"),
    (["diff", "{root}", "{empty}/none"], "there is no such folder"),
    (["push", "{root}"], "--repo: is required: give OWNER/NAME, here or as 'hub' in release.toml"),
    (["push", "{root}", "--repo", "little"], "--repo: 'little' must be OWNER/NAME, such as ada/little"),
    (["push", "{root}/data", "--repo", "ada/x"], "is not a release"),
    (["push", "gs://bucket/x/1.0.0", "--repo", "ada/x"], "is not on this machine: copy the release to it first"),
)
def test_wrong_usage(argv, message, first, hub, tmp_path):
    assert message in refused("release", *(one.format(root=first, empty=tmp_path) for one in argv))
    assert hub.requests == []


def test_without_a_token_or_the_extra(first, hub, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    assert "set HF_TOKEN to a token that can write, or run: hf auth login" in push(first, status=2).errors
    write(Path(constants.HF_TOKEN_PATH), TOKEN)
    push(first)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert push(first, status=2).errors == f"error: huggingface_hub is not installed: {install_line('hub')}\n"


@pytest.mark.parametrize("private", [True, False])
def test_a_push_uploads_the_release(private, first, hub):
    said = push(first.parent, *["--private"] * private)  # the folder of the dataset: its newest version
    check_pushed(hub, first, private)
    assert said.output.endswith(f"{hub.url}/datasets/ada/little has version 1.0.0\n")
    assert TOKEN not in said.output + said.errors
