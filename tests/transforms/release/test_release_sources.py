"""What is read of each kind of file: rows, counts, faults, a copy."""

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parapet.schemas import layout
from parapet.schemas.dialogue_table import dialogue_of, service_of
from parapet.schemas.errors import InputError
from parapet.schemas.rows import AuditRow, audit_table
from parapet.transforms.release.plan import PARAPHRASE_COLUMNS, Source, read_source


def source(record: str, path: str = "x/test/dialogues_001.json") -> Source:
    return Source(record, "config", "v1", "test", path, 0, "test/dialogues_001.json")


def test_dialogues(sample):
    data = (sample / "test" / "dialogues_001.json").read_bytes()
    raw = json.loads(data)
    services = layout.services_by_name(layout.read_root(sample))
    table, counts, faults = read_source(source("dialogue"), data, services)
    lines = table.drop_columns(["dialogue_id"]).columns[0].to_pylist()
    assert table["dialogue_id"].to_pylist() == [dialogue["dialogue_id"] for dialogue in raw]
    rows = [json.loads(line) for line in lines]
    assert [dialogue_of(row) for row in rows] == raw
    assert [(row["file"], row["position"]) for row in rows] == [("dialogues_001.json", i) for i in range(len(raw))]
    assert counts == {
        ("dialogues", "v1", "test"): len(raw),
        ("turns", "v1", "test"): sum(len(dialogue["turns"]) for dialogue in raw),
    }
    assert faults == []


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


def test_services(sample):
    data = (sample / "test" / "schema.json").read_bytes()
    raw = json.loads(data)
    table, counts, _ = read_source(source("service"), data, {})
    assert [service_of(row) for row in table.to_pylist()] == raw
    assert {row["variant"] for row in table.to_pylist()} == {"v1"}
    assert counts == {
        ("services", "v1", "test"): len(raw),
        ("intents", "v1", "test"): sum(len(service["intents"]) for service in raw),
        ("slots", "v1", "test"): sum(len(service["slots"]) for service in raw),
    }


def audit_row(n: int, disposition: Any, reason: str) -> AuditRow:
    return AuditRow(f"A{n}:slot_0", "S/slot/x", "name", "t", "t", disposition, reason, None, 0.5, "hash", 1, 2, 3)


def test_an_audit_without_workers_and_times(tmp_path):
    rows = [
        audit_row(0, "rejected", "too_short: 1 letter"),
        audit_row(1, "rejected", "too_short: 2 letters"),
        audit_row(2, "used", ""),
        audit_row(3, "review", "copy"),
    ]
    pq.write_table(audit_table(rows), tmp_path / "responses.parquet")
    table, counts, _ = read_source(source("paraphrase"), (tmp_path / "responses.parquet").read_bytes(), {})
    assert table.schema == PARAPHRASE_COLUMNS
    assert table["response_id"].to_pylist() == [f"A{n}:slot_0" for n in range(4)]
    assert table["work_seconds"].to_pylist() == [3] * 4
    assert b"hash" not in str(table.to_pylist()).encode()
    assert counts == {
        ("disposition", "rejected", ""): 2,
        ("disposition", "used", ""): 1,
        ("disposition", "review", ""): 1,
        ("rejection", "too_short", ""): 2,
    }


def test_a_table_is_taken_as_it_is_without_the_metadata_of_programs(tmp_path):
    made = pa.table({"a": [1.5, None], "b": [["x"], []]}).replace_schema_metadata({"pandas": "{}"})
    pq.write_table(made, tmp_path / "t.parquet")
    table, counts, _ = read_source(source("row"), (tmp_path / "t.parquet").read_bytes(), {})
    assert table.equals(made)
    assert table.schema.metadata is None
    assert not counts


@pytest.mark.parametrize(
    ("record", "data", "said"),
    [
        ("dialogue", b"[", "a/b: line 1 column 2: not JSON"),
        ("dialogue", b'[{"dialogue_id": 3}]', "a/b: [0].dialogue_id: Expected `str`, got `int`"),
        ("dialogue", b'{"dialogue_id": 3}', "a/b: Expected `array`, got `object`"),
        ("row", b"PAR1", "a/b: cannot be read as Parquet"),
    ],
)
def test_what_cannot_be_read_is_said(record, data, said):
    with pytest.raises(InputError) as error:
        read_source(source(record, "a/b"), data, {})
    assert said in str(error.value)


def test_a_lone_surrogate_is_refused_in_words():
    dialogue = {"dialogue_id": "1", "services": [], "turns": [{"speaker": "USER", "utterance": "\ud800", "frames": []}]}
    with pytest.raises(InputError, match="a/b: "):
        read_source(source("dialogue", "a/b"), json.dumps([dialogue]).encode(), {})
