"""``parapet release verify``, ``diff`` and ``show``: what they print, and their exit statuses."""

import json
import logging
import shutil

import pyarrow as pa
import pytest
import release_folder as folder

from parapet.pipelines.release import run


@pytest.fixture(autouse=True)
def quiet_end():
    yield
    logging.getLogger().handlers.clear()


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return folder.write_release(tmp_path_factory.mktemp("commands"), folder.sample_corpora(2))


@pytest.fixture
def second(first, tmp_path):
    """A version with other rows, whose number does not say so."""
    corpora = folder.sample_corpora(2)
    corpora["original"]["train"]["dialogues_001.json"][0]["turns"][1]["utterance"] += "<b>Other</b>"
    return folder.write_release(tmp_path, corpora, version="1.0.1")


def test_verify_as_json(second, capsys):
    (second / "CHANGELOG.md").unlink()
    assert run(["verify", str(second), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["findings"] == [{"check": "checksums", "path": "CHANGELOG.md", "where": "", "reason": "is missing"}]
    assert (told["files"], told["rows"]) == (39, 46)


@pytest.mark.parametrize(
    ("command", "argv", "told"),
    [
        ("verify", [], "the following arguments are required: PATH"),
        ("verify", ["{empty}"], "is no release: there is neither MANIFEST.json nor SHA256SUMS"),
        ("verify", ["{empty}/none"], "there is no such folder"),
        ("verify", ["{empty}", "--jsn"], "unknown flag --jsn: did you mean --json?"),
        ("diff", ["{first}"], "the following arguments are required: NEW"),
        ("diff", ["{first}", "{empty}"], "is no release: there is no MANIFEST.json"),
        ("diff", ["{first}", "{empty}/none"], "there is no such folder"),
        ("show", ["{empty}"], "is no release"),
        ("show", ["{empty}/none"], "there is no such folder"),
    ],
)
def test_wrong_usage(first, tmp_path, capsys, command, argv, told):
    assert run([command, *(one.format(first=first, empty=tmp_path) for one in argv)]) == 2
    said = capsys.readouterr()
    assert told in said.err
    assert said.out == ""


def test_diff_says_what_changed_and_what_the_version_should_be(first, second, capsys):
    assert run(["diff", str(first), str(second)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "little 1.0.0 -> little 1.0.1"
    assert "original/train: 0 added, 0 removed, 1 changed (major)" in lines
    assert "  ~ 1_00000: turns" in lines
    assert lines[-1].startswith("the version number is wrong: 1.0.1 is a patch version after 1.0.0")


def test_diff_of_the_same_is_fine(first, capsys):
    assert run(["diff", str(first), str(first.parent)]) == 0
    assert capsys.readouterr().out == "little 1.0.0 -> little 1.0.0\n\nnothing differs\n"


def test_diff_warns_of_two_datasets(first, tmp_path, capsys):
    tables = {"n": ("row", ["a", "b"], pa.schema([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": "b"}])}
    other = folder.write_release(tmp_path, {}, tables, name="other", version="2.0.0")
    assert run(["diff", str(first), str(other)]) == 0
    assert capsys.readouterr().err == "warning: these are two datasets: little and other\n"


def test_diff_of_a_damaged_release_fails(first, second, capsys):
    next(second.glob("data/original/train-*")).unlink()
    assert run(["diff", str(first), str(second)]) == 1
    assert "is missing" in capsys.readouterr().out


def test_show(first, capsys):
    assert run(["show", str(first)]) == 0
    assert capsys.readouterr().out.startswith("# little 1.0.0\n\nVersion 1.0.0, by ")
    assert run(["show", str(first), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["configs"]["original"]["splits"] == {"train": 4, "test": 2}
    assert run(["show", str(first.parent)]) == 0
    assert capsys.readouterr().out.startswith("little, latest 1.0.0\n")
    assert run(["show", str(first.parent), "--json"]) == 0
    assert [one["version"] for one in json.loads(capsys.readouterr().out)["versions"]] == ["1.0.0"]


def test_verify_finds_an_extra_empty_folder(first, tmp_path, capsys):
    shutil.copytree(first.parent, tmp_path / "little")
    (tmp_path / "little" / "1.0.0" / "notes").mkdir()
    assert run(["verify", str(tmp_path / "little")]) == 1
    assert "notes: is an empty folder: a release has none" in capsys.readouterr().out


def damaged_shard(root):
    path = max((root / "data" / "original").glob("train-*.parquet"), key=lambda path: path.stat().st_size)
    return path, path.relative_to(root).as_posix()


@pytest.mark.parametrize("flags", [[], ["--quick"]])
def test_diff_of_a_release_that_is_not_whole(first, tmp_path, capsys, flags):
    shutil.copytree(first.parent, tmp_path / "little")
    root = tmp_path / "little" / "1.0.0"
    path, name = damaged_shard(root)
    path.unlink()
    (root / "data" / "original" / "more.parquet").write_bytes(b"")
    assert run(["diff", str(first), str(root), *flags]) == 1
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "new: data/original/more.parquet: is not listed in SHA256SUMS",
        f"new: {name}: is missing",
    ]
    assert said.err == "error: not compared: 'parapet release verify' says more\n"
    assert run(["diff", str(root), str(first), "--json", *flags]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "problems": ["old: data/original/more.parquet: is not listed in SHA256SUMS", f"old: {name}: is missing"]
    }


def test_diff_does_not_believe_checksums_that_contradict_each_other(first, tmp_path, capsys):
    shutil.copytree(first.parent, tmp_path / "little")
    root = tmp_path / "little" / "1.0.0"
    path, name = damaged_shard(root)
    folder.edit_rows(path, lambda rows: rows[1:])
    folder.mend(root)  # as one who hides it would
    assert run(["diff", str(root), str(first)]) == 1
    assert f"old: {name}: its SHA-256 is" in capsys.readouterr().out


def test_a_release_in_a_bucket_is_read_in_the_same_way(first, capsys):
    """Any place that fsspec knows is read through the same calls; memory stands for a bucket here."""
    from upath import UPath

    bucket = UPath("memory://bucket/little")
    for path in first.parent.rglob("*"):
        if path.is_file():
            copy = bucket / path.relative_to(first.parent).as_posix()
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    assert run(["verify", "memory://bucket/little/1.0.0"]) == 0
    assert run(["verify", "memory://bucket/little"]) == 0
    assert run(["diff", str(first), "memory://bucket/little"]) == 0
    assert run(["show", "memory://bucket/little"]) == 0
    capsys.readouterr()
    (bucket / "1.0.0/extra").write_bytes(b"x")
    assert run(["verify", "memory://bucket/little/1.0.0"]) == 1
    assert "extra: is not listed in SHA256SUMS" in capsys.readouterr().out
