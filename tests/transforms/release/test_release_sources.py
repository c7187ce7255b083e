"""What is read of each kind of file: rows, counts, faults, a copy."""

import datetime
import decimal
import json

import pyarrow as pa
import pyarrow.parquet as pq
from kit import cases, raised

from parapet.schemas.errors import InputError
from parapet.transforms.release.plan import Source, read_source
from parapet.transforms.release.reading import bumped, contradiction, level_between, row_json


def source(record, path="x/test/dialogues_001.json"):
    return Source(record, "config", "v1", "test", path, 0, "test/dialogues_001.json")


def test_a_table_is_taken_as_it_is_without_the_metadata_of_programs(tmp_path):
    made = pa.table({"a": [1.5, None], "b": [["x"], []]}).replace_schema_metadata({"pandas": "{}"})
    pq.write_table(made, tmp_path / "t.parquet")
    table, counts, _ = read_source(source("row"), (tmp_path / "t.parquet").read_bytes(), {})
    assert table.equals(made)
    assert table.schema.metadata is None
    assert not counts


@cases(
    "record data said",
    ("dialogue", b"[", "a/b: line 1 column 2: not JSON"),
    ("row", b"PAR1", "a/b: cannot be read as Parquet"),
)
def test_what_cannot_be_read_is_said(record, data, said):
    assert said in str(raised(InputError, read_source, source(record, "a/b"), data, {}))


def test_a_lone_surrogate_is_refused_in_words():
    dialogue = {"dialogue_id": "1", "services": [], "turns": [{"speaker": "USER", "utterance": "\ud800", "frames": []}]}
    raised(InputError, read_source, source("dialogue", "a/b"), json.dumps([dialogue]).encode(), {}, match="a/b: ")


# Version numbers, and what a change asks of them.


@cases("level next_one", ("patch", "1.2.4"), ("minor", "1.3.0"), ("major", "2.0.0"))
def test_the_next_version_is_a_step_of_its_level(level, next_one):
    assert (bumped("1.2.3", level), level_between("1.2.3", next_one)) == (next_one, level)
    assert contradiction("1.2.3", next_one, level) == ""


@cases(
    "new level said",
    ("1.2.3", "patch", "version 1.2.3 does not come after 1.2.3"),
    ("2.0.0", "patch", ""),
)
def test_a_number_that_says_too_little_contradicts(new, level, said):
    assert contradiction("1.2.3", new, level) == said


def test_types_that_json_lacks():
    row = {"n": decimal.Decimal("1.50"), "raw": b"\x00\xff", "t": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)}
    assert row_json(row) == b'{"n":"1.50","raw":"00ff","t":"2026-01-02T00:00:00+00:00"}'
    for unit in ("us", "ns"):  # the second is a type of pandas
        (time,) = pa.array([datetime.datetime(2026, 1, 2, 3, 4, 5, 600)], pa.timestamp(unit, "UTC")).to_pylist()
        assert row_json({"t": time}) == b'{"t":"2026-01-02T03:04:05.000600+00:00"}'
    raised(TypeError, row_json, {"n": {1}})


def test_all_faults_are_counted_and_the_first_are_told(sample):
    data = (sample / "test" / "dialogues_001.json").read_bytes()
    _, counts, faults = read_source(source("dialogue", "a/f.json"), data, {})
    frames = sum(len(turn["frames"]) for dialogue in json.loads(data) for turn in dialogue["turns"])
    assert counts["fault", "reference", ""] == frames > 20
    assert len(faults) == 20
    first = json.loads(data)[0]
    service = first["turns"][0]["frames"][0]["service"]
    expected = f"a/f.json: {first['dialogue_id']}: turns[0].frames[0].service: no schema for service {service!r}"
    assert str(faults[0]) == expected
