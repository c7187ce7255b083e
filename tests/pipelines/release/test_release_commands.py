"""``parapet release verify`` and ``diff``: what they print, and their exit statuses."""

import json
import shutil

import pytest
import release_folder as folder
from kit import cases, lacking, run


def release(*argv, status=0):
    return run("release", *argv, status=status)


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
    told = json.loads(release("verify", second, "--json", status=1).output)
    assert told["findings"] == [{"check": "checksums", "path": "CHANGELOG.md", "where": "", "reason": "is missing"}]
    assert (told["files"], told["rows"]) == (39, 46)


@cases(
    "command argv told",
    ("verify", [], "the following arguments are required: PATH"),
    ("verify", ["{empty}"], "is not a release: it has neither MANIFEST.json nor SHA256SUMS"),
    ("diff", ["{first}", "{empty}/none"], "there is no such folder"),
)
def test_wrong_usage(first, tmp_path, command, argv, told):
    said = release(command, *(one.format(first=first, empty=tmp_path) for one in argv), status=2)
    assert told in said.errors
    assert said.output == ""


def test_diff_says_what_changed_and_what_the_version_should_be(first, second):
    lines = release("diff", first, second).output.splitlines()
    assert lines[0] == "little 1.0.0 -> little 1.0.1"
    assert not lacking(lines, "original/train: 0 added, 0 removed, 1 changed (major)", "  ~ 1_00000: turns")
    assert lines[-1].startswith("the version number is wrong: 1.0.1 is a patch version after 1.0.0")


def test_diff_of_the_same_is_fine(first):
    assert release("diff", first, first.parent).output == "little 1.0.0 -> little 1.0.0\n\nthe releases do not differ\n"


def test_diff_of_a_release_that_is_not_whole_or_whose_checksums_contradict_each_other(first, tmp_path):
    shutil.copytree(first.parent, tmp_path / "little")
    root = tmp_path / "little" / "1.0.0"
    path = max((root / "data" / "original").glob("train-*.parquet"), key=lambda path: path.stat().st_size)
    name = path.relative_to(root).as_posix()
    folder.edit_rows(path, lambda rows: rows[1:])
    folder.mend(root)  # as one who hides it would
    assert f"old: {name}: its SHA-256 is" in release("diff", root, first, status=1).output
    path.unlink()
    (root / "data" / "original" / "more.parquet").write_bytes(b"")
    said = release("diff", first, root, status=1)
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
    release("verify", "memory://bucket/little/1.0.0")
    release("verify", "memory://bucket/little")
    release("diff", first, "memory://bucket/little")
    (bucket / "1.0.0/extra").write_bytes(b"x")
    assert "extra: is not listed in SHA256SUMS" in release("verify", "memory://bucket/little/1.0.0", status=1).output
