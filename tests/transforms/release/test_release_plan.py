"""What a ``release.toml`` comes to: files to read, configurations to make; and what is refused."""

import copy
import datetime
import decimal
import json
import shutil

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kit import cases, raised, write

from parapet.schemas import layout
from parapet.schemas.dialogue import Dialogue
from parapet.schemas.errors import InputError
from parapet.schemas.release import ReleaseConfig, read_config
from parapet.schemas.rows import RESPONSES
from parapet.transforms.release.plan import Source, dialogue_faults, make_plan, read_source
from parapet.transforms.release.reading import bumped, contradiction, level_between, row_json

MEMORY = pa.table({"source": ["a", "b"], "pivot": ["zh", "zh"], "text": ["x", None]})


@pytest.fixture
def place(tmp_path, sample):
    """``original`` with dialogues, ``many/v1`` with schemas alone, ``many/v10``; an audit, a table of two files."""
    shutil.copytree(sample, tmp_path / "original")
    for name in ("v10", "v2"):
        (tmp_path / "many" / name / "test").mkdir(parents=True)
        shutil.copy(sample / "test" / "schema.json", tmp_path / "many" / name / "test")
    (tmp_path / "compose").mkdir()
    pq.write_table(RESPONSES.empty_table(), tmp_path / "compose" / "responses.parquet")
    (tmp_path / "memory").mkdir()
    for name in ("b", "a"):
        pq.write_table(MEMORY, tmp_path / "memory" / f"{name}.parquet")
    return tmp_path


def config(*corpora, **more):
    about = {"name": "set", "version": "1.0.0", "licence": "CC0-1.0", "description": "A set."}
    raw = {**about, "authors": [{"name": "Ada"}], "corpora": corpora or ORIGINAL, **more}
    return msgspec.convert(raw, ReleaseConfig)


ORIGINAL = ({"path": "original", "name": "original", "kind": "original"},)
MANY = {"path": "many", "kind": "variants"}
TABLE = {"path": "memory", "name": "memory", "kind": "translation memory", "key": ["source", "pivot"]}


def test_nothing_of_workers_or_times_is_published(place):
    plan = make_plan(config(audits=[{"path": "compose/responses.parquet"}]), place)
    assert plan.is_blind
    write(place / "compose" / "run.json", {"options": {"blindness": "allowed"}})
    assert not make_plan(config(audits=[{"path": "compose/responses.parquet"}]), place).is_blind
    private = {"worker_hash", "accept_time", "submit_time"}
    assert set(RESPONSES.names) - set(plan.columns["paraphrases"].names) == private


@cases(
    "made said",
    (config({**ORIGINAL[0], "name": ""}), "original: corpora[0]: give it a 'name'"),
    (config({**MANY, "name": "x"}), "many: corpora[0]: 'x' cannot be the name of several"),
    (config({**MANY, "path": "memory"}), "memory: corpora[0]: contains neither train/schema.json,"),
    (config({**ORIGINAL[0], "name": "schemas"}), "corpora[0]: 'schemas' cannot name a configuration"),
    (config(*ORIGINAL, *ORIGINAL), "original: corpora[1]: two inputs are called 'original'"),
    (config({**ORIGINAL[0], "splits": ["dev", "tset"]}), "original: splits: has no split tset"),
    (
        config(audits=[{"path": "memory/a.parquet"}]),
        "audits[0]: is not an audit of 'parapet compose': it has no column",
    ),
    (config(audits=[{"path": "original/test/schema.json"}]), "audits[0].path: cannot be read as Parquet"),
    (config(tables=[{**TABLE, "path": "many"}]), "many: tables[0].path: contains no .parquet files"),
    (config(tables=[{**TABLE, "key": ["id"]}]), "tables[0].key: has no column 'id' (it has source, pivot, text)"),
    (config(tables=[{**TABLE, "path": "worker.parquet"}]), "the column 'worker_id' may identify a worker"),
)
def test_what_cannot_be_is_said(made, said, place):
    pq.write_table(MEMORY.append_column("worker_id", pa.array(["A", "B"])), place / "worker.parquet")
    assert said in str(raised(InputError, make_plan, made, place)).replace(f"{place}/", "")


GOOD = """
name = "my_set"
version = "1.0.0"
licence = "CC0-1.0"
description = "A set."

[[authors]]
name = "Ada"

[[corpora]]
path = "sgd"
name = "original"
kind = "original"
"""


def read(folder, text):
    read_config(write(folder / "release.toml", text))


@cases(
    "old new said",
    ('name = "my_set"\nversion = "1.0.0"\n', "", "release.toml: lacks name, version; docs/release.md shows"),
    ("my_set", "../up", "release.toml: name: must consist of letters"),
    ("1.0.0", "1.0", "release.toml: version: '1.0' must be MAJOR.MINOR.PATCH"),
    ("A set.", " ", "release.toml: description: must not be empty"),
    ('kind = "original"', "kind = 3", "release.toml: corpora[0].kind: Expected `str`, got `int`"),
    ('kind = "original"', 'kind = "o"\nkindd = 1', "corpora[0]: Object contains unknown field `kindd`"),
    ('version = "1.0.0"', 'version = "1.0.0"\nhub = "my_set"', "hub: 'my_set' must be OWNER/NAME"),
    ('name = "my_set"', "name = my_set", "release.toml: not TOML: "),
    ('[[authors]]\nname = "Ada"', "authors = []", "release.toml: authors: must name at least one author"),
)
def test_a_wrong_file_is_refused(old, new, said, tmp_path):
    assert old in GOOD
    assert said in str(raised(InputError, read, tmp_path, GOOD.replace(old, new)))


def test_no_file(tmp_path):
    raised(InputError, read_config, tmp_path / "release.toml", match="there is no such file; docs/release")


def test_a_license_is_a_licence(tmp_path):
    read(tmp_path, GOOD.replace("licence", "license"))
    both = GOOD.replace('licence = "CC0-1.0"', 'licence = "CC0-1.0"\nlicense = "MIT"')
    raised(InputError, read, tmp_path, both, match="unknown field `license`")


def source(record, path="x/test/dialogues_001.json"):
    return Source(record, "config", "v1", "test", path, 0, "test/dialogues_001.json")


def test_a_table_is_taken_as_it_is_without_the_metadata_of_programs(tmp_path):
    made = pa.table({"a": [1.5, None], "b": [["x"], []]}).replace_schema_metadata({"pandas": "{}"})
    pq.write_table(made, tmp_path / "t.parquet")
    table, counts, _ = read_source(source("row"), (tmp_path / "t.parquet").read_bytes(), {})
    assert table.equals(made)
    assert table.schema.metadata is None
    assert not counts


def test_a_lone_surrogate_is_refused_in_words():
    dialogue = {"dialogue_id": "1", "services": [], "turns": [{"speaker": "USER", "utterance": "\ud800", "frames": []}]}
    raised(InputError, read_source, source("dialogue", "a/b"), json.dumps([dialogue]).encode(), {}, match="a/b: ")


# Version numbers, and what a change asks of them.


@cases("level next_one", ("patch", "1.2.4"), ("minor", "1.3.0"), ("major", "2.0.0"))
def test_the_next_version_is_a_step_of_its_level(level, next_one):
    assert (bumped("1.2.3", level), level_between("1.2.3", next_one)) == (next_one, level)
    assert contradiction("1.2.3", next_one, level) == ""


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


@pytest.fixture
def services(sample):
    return layout.services_by_name(layout.read_root(sample))


@pytest.fixture
def dialogue(sample):
    """One with a span in the first turn that has any."""
    return copy.deepcopy(json.loads((sample / "train" / "dialogues_001.json").read_bytes())[0])


def first_span(dialogue):
    """Its place, the turn, the span."""
    for t, turn in enumerate(dialogue["turns"]):
        for f, frame in enumerate(turn["frames"]):
            if frame["slots"]:
                return f"turns[{t}].frames[{f}].slots[0]", turn, frame["slots"][0]
    raise AssertionError("no span")


def faults(dialogue, services):
    found = dialogue_faults(msgspec.convert(dialogue, Dialogue), services, "x.json")
    return [(fault.kind, fault.where, fault.reason) for fault in found]


def test_a_span_that_is_off_by_one(dialogue, services):
    where, turn, span = first_span(dialogue)
    span["start"] -= 1
    text = turn["utterance"][span["start"] : span["exclusive_end"]]
    assert faults(dialogue, services) == [("span_value", where, f"{text!r} is not a value of its slot")]


def test_a_frame_without_values_says_nothing_of_its_spans(dialogue, services):
    _, _, span = first_span(dialogue)
    for turn in dialogue["turns"]:
        for frame in turn["frames"]:
            for key in ("actions", "state"):
                frame.pop(key, None)
    span["start"] -= 1
    assert faults(dialogue, services) == []
