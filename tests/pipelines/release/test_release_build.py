"""``parapet release build`` as a person runs it."""

import hashlib
import shutil

import pyarrow.parquet as pq
import pytest
from kit import cases, files_of, json_of, raised, run
from release_corpora import AUDIT, MEMORY, build, edit

from parapet.schemas import layout
from parapet.schemas.rows import dialogue_row, service_row
from parapet.transforms.release import building


def manifest_of(root):
    return json_of(root / "MANIFEST.json")


def rows_of(root, config, split):
    paths = sorted((root / "data" / config).glob(f"{split}-*.parquet"))
    return [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]


def frames_of(dialogues):
    return [frame for one in dialogues for turn in one["turns"] for frame in turn["frames"]]


def test_labels_that_are_hidden(toml, tmp_path):
    edit(toml, ('kind = "original"\n', 'kind = "original"\nhide_labels = ["test"]\n'))
    build(toml, tmp_path / "out", "--quiet")
    root = tmp_path / "out" / "small" / "1.0.0"
    run("release", "verify", root)
    for path in layout.dialogue_files(toml.parent / "sgd", "test"):
        labelled, shown = (json_of(one) for one in (path, root / "sgd/original/test" / path.name))
        for one, other in zip(labelled, shown, strict=True):
            assert set(other) == {"dialogue_id", "services", "turns"}
            assert [turn["utterance"] for turn in other["turns"]] == [turn["utterance"] for turn in one["turns"]]
            frames, before = (frames_of([of]) for of in (other, one))
            assert frames == [{"service": frame["service"], "slots": []} for frame in before]
    train, test = (frames_of(rows_of(root, "original", split)) for split in ("train", "test"))
    assert any(frame["state"] for frame in train)
    assert not any(frame["state"] for frame in test)
    edit(toml, ('["test"]', '["tests"]'))
    assert "has no split tests" in build(toml, tmp_path / "none", status=2).errors


def test_the_rows_are_those_of_a_plain_reading(built):
    folder = built.toml.parent
    corpora = {"original": folder / "sgd", **{f"v{k}": folder / "variants" / f"v{k}" for k in (1, 2)}}
    for split in layout.SPLITS:
        services = [
            service_row(raw, name, i)
            for name, root in corpora.items()
            for i, raw in enumerate(json_of(root / split / "schema.json"))
        ]
        expected = sorted(services, key=lambda row: f"{row['variant']}\0{row['service_name']}")
        assert rows_of(built.root, "schemas", split) == expected
        for name in ("original", "v1"):
            dialogues = [
                dialogue_row(raw, path.name, i)
                for path in layout.dialogue_files(corpora[name], split)
                for i, raw in enumerate(json_of(path))
            ]
            assert rows_of(built.root, name, split) == sorted(dialogues, key=lambda row: str(row["dialogue_id"]))
    assert not (built.root / "data" / "v2").exists()
    assert rows_of(built.root, "memory", "full") == sorted(MEMORY, key=lambda row: (row["source"], row["pivot"]))
    paraphrases = rows_of(built.root, "paraphrases", "full")
    assert [row["response_id"] for row in paraphrases] == [row.response_id for row in AUDIT]
    assert [row["work_seconds"] for row in paraphrases] == [row.work_seconds for row in AUDIT]


def test_nothing_of_the_machine_or_of_workers_is_in_it(built):
    for path, data in files_of(built.root).items():
        for secret in (str(built.toml.parent).encode(), b"0a1b2c", b"worker_hash"):
            assert secret not in data, path


def test_the_version_must_say_what_changed(toml, tmp_path):
    out = tmp_path / "out"
    build(toml, out, "--quiet")

    def refused(version, said):
        edit(toml, (f'version = "{last}"', f'version = "{version}"'))
        assert said in build(toml, out, "--quiet", status=1).errors
        assert sorted(path.name for path in (out / "small").iterdir()) == sorted([*there, "latest.json"])
        edit(toml, (f'version = "{version}"', f'version = "{last}"'))

    def accepted(version):
        nonlocal last
        edit(toml, (f'version = "{last}"', f'version = "{version}"'))
        build(toml, out, "--quiet")
        assert json_of(out / "small" / "latest.json")["version"] == version
        last = version
        there.append(version)
        return manifest_of(out / "small" / version)

    last, there = "1.0.0", ["1.0.0"]
    edit(toml, ('name = "memory"', 'name = "other_memory"'))
    refused("1.1.0", "1.1.0 is a minor version after 1.0.0, but the data was changed at the major level")
    edit(toml, ('name = "other_memory"', 'name = "memory"'), ('changes = "First."', 'changes = "A table."'))
    more = '\n[[tables]]\npath = "memory.parquet"\nname = "more"\nkind = "m"\nkey = ["source", "pivot"]\n'
    toml.write_text(toml.read_text() + more)
    refused("1.0.1", "1.0.1 is a patch version after 1.0.0, but the data was changed at the minor level")
    manifest = accepted("1.1.0")
    assert (manifest["parent"]["version"], manifest["changes"]["level"]) == ("1.0.0", "minor")
    digest = hashlib.sha256((out / "small" / "1.0.0" / "MANIFEST.json").read_bytes()).hexdigest()
    assert manifest["parent"]["manifest_sha256"] == digest
    changelog = (out / "small" / "1.1.0" / "CHANGELOG.md").read_text()
    assert changelog.index("1.1.0") < changelog.index("A table.") < changelog.index("1.0.0") < changelog.index("First.")
    assert accepted("1.1.1")["changes"] == {"level": "patch", "splits": []}
    # A corpus that comes puts its services beside the others' and changes nothing of theirs.
    shutil.copytree(toml.parent / "variants" / "v2", toml.parent / "variants" / "v3")
    refused("1.1.2", "1.1.2 is a patch version after 1.1.1, but the data was changed at the minor level")
    assert accepted("1.2.0")["changes"]["level"] == "minor"


def test_a_parent_that_is_damaged_is_not_followed(built, toml, tmp_path):
    shutil.copytree(built.root.parent, tmp_path / "out" / "small")
    shard = next((tmp_path / "out" / "small" / "1.0.0" / "data" / "v1").glob("*.parquet"))
    shard.unlink()
    edit(toml, ('version = "1.0.0"', 'version = "1.0.1"'))
    told = build(toml, tmp_path / "out", status=2).errors
    assert f"data/v1/{shard.name}: is missing: 'parapet release verify' shows the details" in told


def test_an_older_number_is_refused_before_anything_runs(built):
    toml = built.toml.with_name("older.toml")
    toml.write_text(built.toml.read_text().replace('version = "1.0.0"', 'version = "0.9.0"'))
    assert "older.toml: version: 0.9.0 does not come after 1.0.0" in build(toml, built.root.parents[1], status=2).errors


def test_faults_are_named_and_published_only_where_that_is_asked_for(toml, tmp_path):
    path = toml.parent / "sgd" / "test" / "dialogues_001.json"
    dialogues = json_of(path)
    dialogues[1]["turns"][0]["frames"][0]["state"]["active_intent"] = "NoSuch"
    path.write_bytes(layout.dialogue_bytes(dialogues))
    said = build(toml, tmp_path / "out", "--quiet", status=1).errors
    assert "the dialogues have problems (reference 1), so nothing was published" in said
    where = f"{path}: {dialogues[1]['dialogue_id']}: turns[0].frames[0].state.active_intent: "
    assert f"{where}the service has no intent 'NoSuch'" in said
    assert not list((tmp_path / "out" / "small").iterdir())
    edit(toml, ('version = "1.0.0"', 'version = "1.0.0"\nallow_problems = ["reference"]'))
    build(toml, tmp_path / "out", "--quiet")
    root = tmp_path / "out" / "small" / "1.0.0"
    assert manifest_of(root)["known_problems"] == {"reference": 1}
    run("release", "verify", root)


@cases(
    "old new said",
    ('path = "sgd"', 'path = "sdg"', "sdg: corpora[0].path: there is no such file or folder"),
    ('licence = "CC0-1.0"\ntitle', 'licence = "My-Own"\ntitle', "release.toml: licence: "),
    ('path = "statistics.json"', 'path = "none.json"', "none.json: statistics: there is no such file"),
    ('title = "A small set"', 'allow_problems = ["spam"]', "there is no kind 'spam'"),
    ('title = "A small set"', 'licence_file = "none"', "none: licence_file: cannot be read"),
    ('title = "A small set"', 'parent = "0.1.0"', "0.1.0: there is no such folder"),
)
def test_a_mistake_is_said_before_anything_runs(old, new, said, toml, tmp_path):
    edit(toml, (old, new))
    assert said in build(toml, tmp_path / "out", status=2).errors
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_no_release_is_in_the_way(toml, tmp_path):
    (tmp_path / "out" / "small" / "1.0.0").mkdir(parents=True)
    told = build(toml, tmp_path / "out", status=2).errors
    assert "small/1.0.0: is not a release, but is where the release belongs: move it elsewhere" in told


class Killed(BaseException):
    """In place of a signal: nothing in the program may catch it."""


@pytest.mark.parametrize("at", ["write_documents", "publish", "update_latest"])
def test_cut_off_anywhere_the_rerun_ends_the_same(at, built, tmp_path, monkeypatch):
    def cut_off(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(building, at, cut_off)
        raised(Killed, build, built.toml, tmp_path, "--quiet")
    assert (tmp_path / "small" / "1.0.0" / "SHA256SUMS").exists() == (at == "update_latest")
    build(built.toml, tmp_path, "--quiet", status=2 if at == "update_latest" else 0)
    assert files_of(tmp_path / "small") == files_of(built.root.parent)


def test_a_version_that_is_there_is_refused(built):
    before = files_of(built.root.parent)
    latest = built.root.parent / "latest.json"
    latest.unlink()  # as if the run had been killed just before it was written
    told = build(built.toml, built.root.parents[1], status=2).errors
    assert f"{built.root}: exists already, and a release never changes: raise 'version' in release.toml" in told
    assert files_of(built.root.parent) == before
