"""``release build`` and faults of single dialogues: named with their file, and published where that is allowed."""

import json

import pyarrow.parquet as pq
from kit import cases, json_of, raised, run
from release_corpora import build, edit

from parapet.schemas.errors import InputError
from parapet.schemas.rows import dialogue_of
from parapet.transforms.release.plan import Source, read_source

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
