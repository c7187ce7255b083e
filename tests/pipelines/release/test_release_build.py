"""``parapet release build`` as a person runs it."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kit import Result, cases, files_of, json_of, raised, run, write
from release_folder import dialogue_file, schema_file

from parapet.schemas import layout
from parapet.schemas.errors import InputError
from parapet.schemas.rows import RESPONSES, AuditRow, dialogue_of
from parapet.transforms.release import building
from parapet.transforms.release.plan import Source, read_source
from parapet.transforms.variants.matching import compose_variant

TOML = """
name = "small"
version = "1.0.0"
licence = "CC0-1.0"
title = "A small set"
description = "Dialogues and *variants*."
changes = "First."
date = 2026-01-02
authors = [{ name = "Ada Example" }]
sources = [{ title = "The sample", url = "https://example.org/sample", licence = "CC0-1.0" }]
corpora = [{ path = "sgd", name = "original", kind = "original" }, { path = "variants", kind = "variants" }]
audits = [{ path = "compose" }]
tables = [{ path = "memory.parquet", name = "memory", kind = "translation memory", key = ["source", "pivot"] }]
statistics = [{ path = "statistics.json", name = "sgd_x" }]
"""

MEMORY = [{"source": f"text {i}", "pivot": pivot, "text": "x" * i} for i in range(5) for pivot in ("ja", "zh")]
AUDIT = [
    AuditRow(f"3A{i}:slot_{i}", "S_1/slot/x", "name", "t", "t", disposition, reason, None, None, "0a1b2c", 1, 2, i)
    for i, (disposition, reason) in enumerate([("used", ""), ("rejected", "too_short: 1"), ("review", "copy")])
]


def make(folder: Path, sample: Path) -> Path:
    """Everything below ``folder``; gives the TOML."""
    shutil.copytree(sample, folder / "sgd", ignore=shutil.ignore_patterns("crowd"))
    for path in (folder / "sgd").glob("*/dialogues_*.json"):
        path.write_bytes(layout.dialogue_bytes(json.loads(path.read_bytes())[:6]))
    # v1 has the dialogues of the original, and so its schemas.
    shutil.copytree(folder / "sgd", folder / "variants" / "v1")
    for split in layout.read_root(sample):
        schema = layout.schema_bytes([variant(raw, 2) for raw in split.raw])
        write(folder / "variants" / "v2" / split.split / "schema.json", schema)
    (folder / "compose").mkdir()
    audit = [{**msgspec.to_builtins(row), "accept_time": 1_000, "submit_time": 2_000} for row in AUDIT]
    pq.write_table(pa.Table.from_pylist(audit, RESPONSES), folder / "compose" / "responses.parquet")
    pq.write_table(pa.Table.from_pylist(MEMORY), folder / "memory.parquet")
    write(folder / "statistics.json", {"self_bleu": 4.5})
    return write(folder / "release.toml", TOML)


def variant(raw: dict, k: int) -> dict:
    """The service with new names for slots and intents."""
    names = {f"slot_{i}": f"other_{slot['name']}" for i, slot in enumerate(raw["slots"])}
    names |= {f"intent_{i}": f"Other{intent['name']}" for i, intent in enumerate(raw["intents"])}
    return compose_variant(raw, k, names, dict.fromkeys((*names, "service"), "what it is"))


def edit(toml: Path, *changes: tuple[str, str]) -> None:
    """Replaces texts in the TOML."""
    text = toml.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    toml.write_text(text)


def build(toml: Path, output: Path, *flags: str, status: int = 0) -> Result:
    """Runs ``parapet release build``."""
    return run("release", "build", *flags, config=toml, output=output, status=status)


@pytest.fixture
def toml(tmp_path, sample):
    """A ``release.toml`` of one's own, to change."""
    return make(tmp_path, sample)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A release to look at; its folder."""
    folder = tmp_path_factory.mktemp("release")
    return build(make(folder, layout.sample_root()), folder / "out", "--quiet").folder / "small" / "1.0.0"


def toml_of(built):
    return built.parents[2] / "release.toml"


def rows_of(root, config, split):
    paths = sorted((root / "data" / config).glob(f"{split}-*.parquet"))
    return [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]


def frames_of(dialogues):
    return [frame for one in dialogues for turn in one["turns"] for frame in turn["frames"]]


def test_labels_that_are_hidden(toml, tmp_path):
    edit(toml, ('kind = "original"', 'kind = "original", hide_labels = ["test"]'))
    root = build(toml, tmp_path / "out", "--quiet").folder / "small" / "1.0.0"
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
    folder = toml_of(built).parent
    for name, root in {"original": folder / "sgd", "v1": folder / "variants/v1", "v2": folder / "variants/v2"}.items():
        for path in sorted(root.glob("*/*.json")):
            split, is_schema = path.parent.name, path.name == "schema.json"
            rows = rows_of(built, "schemas" if is_schema else name, split)
            if is_schema:
                assert schema_file(row for row in rows if row["variant"] == name) == path.read_bytes()
            else:
                assert dialogue_file(row for row in rows if row["file"] == path.name) == path.read_bytes()
    assert not (built / "data" / "v2").exists()
    assert rows_of(built, "memory", "full") == sorted(MEMORY, key=lambda row: (row["source"], row["pivot"]))
    found = [(row["response_id"], row["work_seconds"]) for row in rows_of(built, "paraphrases", "full")]
    assert found == [(row.response_id, row.work_seconds) for row in AUDIT]


def test_nothing_of_the_machine_or_of_workers_is_in_it(built):
    for path, data in files_of(built).items():
        for secret in (str(toml_of(built).parent).encode(), b"0a1b2c", b"worker_hash"):
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
        return json_of(out / "small" / version / "MANIFEST.json")

    last, there = "1.0.0", ["1.0.0"]
    edit(toml, ('name = "memory"', 'name = "other_memory"'))
    refused("1.1.0", "1.1.0 is a minor version after 1.0.0, but the data was changed at the major level")
    more = 'tables = [{ path = "memory.parquet", name = "more", kind = "m", key = ["source", "pivot"] }, '
    edit(toml, ('name = "other_memory"', 'name = "memory"'), ('"First."', '"A table."'), ("tables = [", more))
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
    shutil.copytree(built.parent, tmp_path / "out" / "small")
    shard = next((tmp_path / "out" / "small" / "1.0.0" / "data" / "v1").glob("*.parquet"))
    shard.unlink()
    edit(toml, ('version = "1.0.0"', 'version = "1.0.1"'))
    told = build(toml, tmp_path / "out", status=2).errors
    assert f"data/v1/{shard.name}: is missing: 'parapet release verify' shows the details" in told


def test_an_older_number_is_refused_before_anything_runs(built):
    toml = toml_of(built).with_name("older.toml")
    toml.write_text(TOML.replace('version = "1.0.0"', 'version = "0.9.0"'))
    assert "older.toml: version: 0.9.0 does not come after 1.0.0" in build(toml, built.parents[1], status=2).errors


def test_faults_are_named_and_published_only_where_that_is_asked_for(toml, tmp_path):
    """Dialogues of another format, and one whose intent no schema has."""
    path = toml.parent / "sgd" / "test" / "dialogues_001.json"
    dialogues = json_of(path)
    dialogues[1]["turns"] = [{"speaker": "ROBOT", "utterance": "", "frames": []}]
    dialogues[2]["services"] = "Banks_1"
    dialogues[3]["turns"][0]["frames"][0]["state"]["active_intent"] = "NoSuch"
    path.write_text(json.dumps(dialogues, indent=2, sort_keys=True) + "\n")
    said = build(toml, tmp_path / "out", "--quiet", status=1).errors
    assert "the dialogues have problems (format 2, reference 1), so nothing was published" in said
    reasons = [
        "turns[0].speaker: Invalid enum value",
        "services: Expected `array`",
        "turns[0].frames[0].state.active_intent: the service has no intent 'NoSuch'",
    ]
    for dialogue, reason in zip(dialogues[1:], reasons, strict=False):
        assert f"{path}: {dialogue['dialogue_id']}: {reason}" in said
    assert not list((tmp_path / "out" / "small").iterdir())
    edit(toml, ('version = "1.0.0"', 'version = "1.0.0"\nallow_problems = ["format", "reference"]'))
    root = build(toml, tmp_path / "out", "--quiet").folder / "small" / "1.0.0"
    manifest = json_of(root / "MANIFEST.json")
    assert manifest["known_problems"] == {"format": 2, "reference": 1}
    assert manifest["counts"]["dialogues"]["original"]["test"] == len(dialogues)
    assert (root / "sgd/original/test/dialogues_001.json").read_bytes() == path.read_bytes()
    rows = {row["dialogue_id"]: row for row in rows_of(root, "original", "test")}
    for dialogue in dialogues[1:3]:
        row = rows[dialogue["dialogue_id"]]
        assert (row["services"], row["turns"]) == (None, None)
        assert dialogue_of(row) == dialogue
    run("release", "verify", root, "--quiet")
    (root / "MANIFEST.json").write_text((root / "MANIFEST.json").read_text().replace('"format": 2', '"format": 1'))
    lines = run("release", "verify", root, "--quiet", status=1).output
    assert "MANIFEST.json: known_problems.format: is 1, but should be 2" in lines


@cases(
    "old new said",
    ('path = "sgd"', 'path = "sdg"', "sdg: corpora[0].path: there is no such file or folder"),
    ('licence = "CC0-1.0"\ntitle', 'licence = "My-Own"\ntitle', "release.toml: licence: "),
    ('path = "statistics.json"', 'path = "none.json"', "none.json: statistics: there is no such file"),
    ('path = "statistics.json"', 'path = "nan.json"', "nan.json: not JSON: NaN is no value of JSON"),
    ('title = "A small set"', 'allow_problems = ["spam"]', "there is no kind 'spam'"),
    ('title = "A small set"', 'licence_file = "none"', "none: licence_file: cannot be read"),
    ('title = "A small set"', 'parent = "0.1.0"', "0.1.0: there is no such folder"),
)
def test_a_mistake_is_said_before_anything_runs(old, new, said, toml, tmp_path):
    edit(toml, (old, new))
    (tmp_path / "nan.json").write_text('{"a": [1, NaN]}')
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
        raised(Killed, build, toml_of(built), tmp_path, "--quiet")
    root, is_there = tmp_path / "small" / "1.0.0", at == "update_latest"
    assert (root / "SHA256SUMS").exists() == is_there
    told = build(toml_of(built), tmp_path, "--quiet", status=2 * is_there).errors
    assert not is_there or f"{root}: exists already, and a release never changes: raise 'version' in" in told
    assert files_of(tmp_path / "small") == files_of(built.parent)


@cases(
    "record value reason",
    ("dialogue", [{"dialogue_id": 1, "services": [], "turns": []}], r"\[0\]: is not a dialogue"),
    ("dialogue", 1, "expected a list of dialogues"),
    ("service", [float("nan")], "not JSON: NaN is no value of JSON"),
)
def test_what_cannot_be_published_is_named_with_its_file(record, value, reason):
    source = Source(record, "original", "original", "test", "folder/file.json", 0, "test/file.json")
    raised(InputError, read_source, source, json.dumps(value).encode(), {}, match=f"folder/file.json: {reason}")


# In a process of its own: the library reads these settings once, when it is imported. It takes seconds: one for all.
WITH_DATASETS = """
import json, sys
from datasets import get_dataset_config_names, load_dataset
root = sys.argv[1]
found = {}
for config in [*get_dataset_config_names(root), "none"]:
    for how in ("whole", "streaming"):
        splits = load_dataset(root, *[config] * (config != "none"), streaming=how == "streaming")
        found |= {f"{config} {split} {how}": list(rows) for split, rows in splits.items()}
json.dump(found, sys.stdout, default=str)
"""


@pytest.mark.thorough
def test_datasets_loads_every_configuration(built, tmp_path):
    """What it loads, without a network, is named "configuration split how", where "none" names none."""
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path), "HOME": str(tmp_path)}
    command = [sys.executable, "-W", "ignore", "-c", WITH_DATASETS, str(built)]
    loaded = json.loads(subprocess.run(command, capture_output=True, text=True, env=offline, check=True).stdout)
    configs = json_of(built / "MANIFEST.json")["configs"]
    assert configs.keys() == {"schemas", "original", "v1", "paraphrases", "memory"}
    rows = {f"{name} {split}": info["rows"] for name, one in configs.items() for split, info in one["splits"].items()}
    rows |= {f"none {split}": rows[f"original {split}"] for split in layout.SPLITS}
    expected = {f"{place} {how}": n for place, n in rows.items() for how in ("whole", "streaming")}
    assert {place: len(found) for place, found in loaded.items()} == expected
    assert all(loaded[f"{place} whole"] == loaded[f"{place} streaming"] for place in rows)
    assert loaded["memory full whole"] == sorted(MEMORY, key=lambda row: (row["source"], row["pivot"]))
    assert {row["variant"] for row in loaded["schemas dev whole"]} == {"original", "v1", "v2"}
