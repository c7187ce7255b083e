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
from kit import Result, cases, files_of, json_of, raised, run

from parapet.schemas import layout
from parapet.schemas.errors import InputError
from parapet.schemas.rows import RESPONSES, AuditRow, dialogue_of, dialogue_row, service_row
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

[[authors]]
name = "Ada Example"

[[sources]]
title = "The sample"
url = "https://example.org/sample"
licence = "CC0-1.0"

[[corpora]]
path = "sgd"
name = "original"
kind = "original"

[[corpora]]
path = "variants"
kind = "variants"

[[audits]]
path = "compose"

[[tables]]
path = "memory.parquet"
name = "memory"
kind = "translation memory"
key = ["source", "pivot"]

[[statistics]]
path = "statistics.json"
name = "sgd_x"
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
    for split in layout.read_root(sample):
        for k in (1, 2):
            place = folder / "variants" / f"v{k}" / split.split
            place.mkdir(parents=True)
            (place / "schema.json").write_bytes(layout.schema_bytes([variant(raw, k) for raw in split.raw]))
            if k == 1:
                for path in layout.dialogue_files(folder / "sgd", split.split):
                    (place / path.name).write_bytes(path.read_bytes())
    # v1 has the dialogues of the original: under its own names its schemas are not asked here.
    for split in layout.SPLITS:
        shutil.copy(folder / "sgd" / split / "schema.json", folder / "variants" / "v1" / split / "schema.json")
    (folder / "compose").mkdir()
    audit = [{**msgspec.to_builtins(row), "accept_time": 1_000, "submit_time": 2_000} for row in AUDIT]
    pq.write_table(pa.Table.from_pylist(audit, RESPONSES), folder / "compose" / "responses.parquet")
    pq.write_table(pa.Table.from_pylist(MEMORY), folder / "memory.parquet")
    (folder / "statistics.json").write_text(json.dumps({"self_bleu": 4.5}))
    (folder / "release.toml").write_text(TOML)
    return folder / "release.toml"


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


class Built(msgspec.Struct):
    """A release that was built once for all tests that only look at it."""

    toml: Path
    root: Path


def build(toml: Path, output: Path, *flags: str, status: int = 0) -> Result:
    """Runs ``parapet release build``."""
    return run("release", "build", *flags, config=toml, output=output, status=status)


@pytest.fixture
def toml(tmp_path, sample):
    """A ``release.toml`` of one's own, to change."""
    return make(tmp_path, sample)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A release to look at."""
    folder = tmp_path_factory.mktemp("release")
    toml = make(folder, layout.sample_root())
    return Built(toml, build(toml, folder / "out", "--quiet").folder / "small" / "1.0.0")


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


CHANGES = [
    ({"turns": [{"speaker": "ROBOT", "utterance": "", "frames": []}]}, "turns[0].speaker: Invalid enum value"),
    ({"services": "Banks_1"}, "services: Expected `array`"),
]


def test_dialogues_of_another_format_are_named_and_published_where_that_is_allowed(toml, tmp_path):
    path = toml.parent / "sgd" / "test" / "dialogues_001.json"
    dialogues = json_of(path)
    for dialogue, (change, _) in zip(dialogues[1:], CHANGES, strict=False):
        dialogue.update(change)
    path.write_text(json.dumps(dialogues, indent=2, sort_keys=True) + "\n")
    lines = build(toml, tmp_path / "out", "--quiet", status=1).errors
    assert "the dialogues have problems (format 2), so nothing was published" in lines
    for dialogue, (_, reason) in zip(dialogues[1:], CHANGES, strict=False):
        assert f"{path}: {dialogue['dialogue_id']}: {reason}" in lines
    assert not list((tmp_path / "out" / "small").iterdir())

    edit(toml, ('name = "small"', 'name = "small"\nallow_problems = ["format"]'))
    build(toml, tmp_path / "out", "--quiet")
    root = tmp_path / "out" / "small" / "1.0.0"
    manifest = json_of(root / "MANIFEST.json")
    assert manifest["known_problems"] == {"format": 2}
    assert manifest["counts"]["dialogues"]["original"]["test"] == len(dialogues)
    assert (root / "sgd/original/test/dialogues_001.json").read_bytes() == path.read_bytes()
    shards = (root / "data" / "original").glob("test-*.parquet")
    rows = {row["dialogue_id"]: row for shard in shards for row in pq.ParquetFile(shard).read().to_pylist()}
    for dialogue in dialogues[1:3]:
        row = rows[dialogue["dialogue_id"]]
        assert (row["services"], row["turns"]) == (None, None)
        assert dialogue_of(row) == dialogue
    run("release", "verify", root, "--quiet")
    (root / "MANIFEST.json").write_text((root / "MANIFEST.json").read_text().replace('"format": 2', '"format": 1'))
    lines = run("release", "verify", root, "--quiet", status=1).output
    assert "MANIFEST.json: known_problems.format: is 1, but should be 2" in lines


@cases(
    "record value reason",
    ("dialogue", [{"dialogue_id": 1, "services": [], "turns": []}], r"\[0\]: is not a dialogue"),
    ("dialogue", 1, "expected a list of dialogues"),
    ("service", [float("nan")], "not JSON: NaN is no value of JSON"),
)
def test_what_cannot_be_published_is_named_with_its_file(record, value, reason):
    source = Source(record, "original", "original", "test", "folder/file.json", 0, "test/file.json")
    raised(InputError, read_source, source, json.dumps(value).encode(), {}, match=f"folder/file.json: {reason}")


def test_statistics_that_are_no_json(toml, tmp_path):
    (toml.parent / "statistics.json").write_text('{"a": [1, NaN]}')
    assert "statistics.json: not JSON: NaN is no value of JSON" in build(toml, tmp_path / "out", status=2).errors


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


def run_program(program, cache, *arguments):
    """What a program prints, without a network: the rows of each thing that it was asked for."""
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(cache), "HOME": str(cache)}
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    told = subprocess.run(command, capture_output=True, text=True, env=offline, check=False)
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


@pytest.mark.thorough
def test_datasets_loads_every_configuration(built, tmp_path):
    """What it loads is named "configuration split how", where "none" names none."""
    loaded = run_program(WITH_DATASETS, tmp_path, str(built.root))
    configs = json_of(built.root / "MANIFEST.json")["configs"]
    assert configs.keys() == {"schemas", "original", "v1", "paraphrases", "memory"}
    rows = {f"{name} {split}": info["rows"] for name, one in configs.items() for split, info in one["splits"].items()}
    rows |= {f"none {split}": rows[f"original {split}"] for split in layout.SPLITS}
    expected = {f"{place} {how}": n for place, n in rows.items() for how in ("whole", "streaming")}
    assert {place: len(found) for place, found in loaded.items()} == expected
    assert all(loaded[f"{place} whole"] == loaded[f"{place} streaming"] for place in rows)
    assert loaded["memory full whole"] == sorted(MEMORY, key=lambda row: (row["source"], row["pivot"]))
    assert {row["variant"] for row in loaded["schemas dev whole"]} == {"original", "v1", "v2"}
