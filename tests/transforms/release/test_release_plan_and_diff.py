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
import release_folder as folder
from commands import RELEASE
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import cases, lacking, raised, write

from parapet.schemas import layout
from parapet.schemas.dialogue import Dialogue
from parapet.schemas.errors import InputError
from parapet.schemas.release import ReleaseConfig, SplitChange, read_config
from parapet.schemas.rows import RESPONSES
from parapet.transforms.release import reading
from parapet.transforms.release.plan import Source, dialogue_faults, make_plan, read_source
from parapet.transforms.release.reading import compare, diff_lines, open_release

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
    (config(audits=[{"path": "memory/a.parquet"}]), "audits[0]: is not an audit of 'parapet compose': it has no col"),
    (config(audits=[{"path": "original/test/schema.json"}]), "audits[0].path: cannot be read as Parquet"),
    (config(tables=[{**TABLE, "path": "many"}]), "many: tables[0].path: contains no .parquet files"),
    (config(tables=[{**TABLE, "key": ["id"]}]), "tables[0].key: has no column 'id' (it has source, pivot, text)"),
    (config(tables=[{**TABLE, "path": "worker.parquet"}]), "the column 'worker_id' may identify a worker"),
)
def test_what_cannot_be_is_said(made, said, place):
    pq.write_table(MEMORY.append_column("worker_id", pa.array(["A", "B"])), place / "worker.parquet")
    assert said in str(raised(InputError, make_plan, made, place)).replace(f"{place}/", "")


def read(folder, text):
    read_config(write(folder / "release.toml", text))


@cases(
    "old new said",
    ('name = "sample"\nversion = "1.0.0"\n', "", "release.toml: lacks name, version; docs/release.md shows"),
    ("sample", "../up", "release.toml: name: must consist of letters"),
    ("1.0.0", "1.0", "release.toml: version: '1.0' must be MAJOR.MINOR.PATCH"),
    ("The sample.", " ", "release.toml: description: must not be empty"),
    ('kind = "original"', "kind = 3", "release.toml: corpora[0].kind: Expected `str`, got `int`"),
    ('kind = "original"', 'kind = "o"\nkindd = 1', "corpora[0]: Object contains unknown field `kindd`"),
    ('version = "1.0.0"', 'version = "1.0.0"\nhub = "sample"', "hub: 'sample' must be OWNER/NAME"),
    ('name = "sample"', "name = sample", "release.toml: not TOML: "),
    ('[[authors]]\nname = "Ada"', "authors = []", "release.toml: authors: must name at least one author"),
)
def test_a_wrong_file_is_refused(old, new, said, tmp_path):
    assert old in RELEASE
    assert said in str(raised(InputError, read, tmp_path, RELEASE.replace(old, new)))


def test_no_file(tmp_path):
    raised(InputError, read_config, tmp_path / "release.toml", match="there is no such file; docs/release")


def test_a_license_is_a_licence(tmp_path):
    read(tmp_path, RELEASE.replace("licence", "license"))
    both = RELEASE.replace('licence = "CC0-1.0"', 'licence = "CC0-1.0"\nlicense = "MIT"')
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
    assert (reading.bumped("1.2.3", level), reading.level_between("1.2.3", next_one)) == (next_one, level)
    assert reading.contradiction("1.2.3", next_one, level) == ""


def test_types_that_json_lacks():
    row = {"n": decimal.Decimal("1.50"), "raw": b"\x00\xff", "t": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)}
    assert reading.row_json(row) == b'{"n":"1.50","raw":"00ff","t":"2026-01-02T00:00:00+00:00"}'
    for unit in ("us", "ns"):  # the second is a type of pandas
        (time,) = pa.array([datetime.datetime(2026, 1, 2, 3, 4, 5, 600)], pa.timestamp(unit, "UTC")).to_pylist()
        assert reading.row_json({"t": time}) == b'{"t":"2026-01-02T03:04:05.000600+00:00"}'
    raised(TypeError, reading.row_json, {"n": {1}})


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


def first_span(dialogue):
    """Its place, the turn, the span."""
    frames = [(t, turn, *item) for t, turn in enumerate(dialogue["turns"]) for item in enumerate(turn["frames"])]
    return next((f"turns[{t}].frames[{f}].slots[0]", turn, of["slots"][0]) for t, turn, f, of in frames if of["slots"])


def faults(dialogue, services):
    found = dialogue_faults(msgspec.convert(dialogue, Dialogue), services, "x.json")
    return [(fault.kind, fault.where, fault.reason) for fault in found]


def test_a_span_that_is_off_by_one(sample):
    services = layout.services_by_name(layout.read_root(sample))
    dialogue = json.loads((sample / "train" / "dialogues_001.json").read_bytes())[0]
    where, turn, span = first_span(dialogue)
    span["start"] -= 1
    text = turn["utterance"][span["start"] : span["exclusive_end"]]
    assert faults(dialogue, services) == [("span_value", where, f"{text!r} is not a value of its slot")]
    for frame in (frame for turn in dialogue["turns"] for frame in turn["frames"]):
        for key in ("actions", "state"):
            frame.pop(key, None)
    assert faults(dialogue, services) == []  # frames without values say nothing of their spans


# ``diff``: against a plain reference, and what is told of it.


SCHEMA = folder.NUMBERS


def release_of(output, tables, version="1.0.0", corpora=None, **given):
    """A release of tables alone: (columns, rows) by configuration."""
    made = {name: ("row", ["a", "b"], columns, rows) for name, (columns, rows) in tables.items()}
    return open_release(folder.write_release(output, corpora or {}, made, version=version, **given))


def numbers(n=10):
    return [{"a": i, "b": f"b{i}", "x": i / 7} for i in range(n)]


def only(difference):
    (split,) = difference.splits
    return split


KEYS = st.tuples(st.integers(0, 5), st.sampled_from("abc"))
rows = st.dictionaries(KEYS, st.sampled_from([0.0, 1.5, None]), max_size=12)


@settings(max_examples=25)
@given(before=rows, after=rows, shards=st.tuples(st.integers(1, 3), st.integers(1, 3)))
def test_it_finds_what_a_dict_of_rows_finds(tmp_path_factory, before, after, shards):
    output = tmp_path_factory.mktemp("plain")
    old, new = (
        write_numbers(output / version, {"n": found} if found else {}, version, n)
        for version, found, n in (("1.0.0", before, shards[0]), ("1.0.1", after, shards[1]))
    )
    difference = compare(old, new)
    added, removed = after.keys() - before.keys(), before.keys() - after.keys()
    changed = {key for key in before.keys() & after.keys() if before[key] != after[key]}
    if not (added or removed or changed):
        assert difference.splits == []
        return
    split = only(difference)
    assert (split.added, split.removed, split.changed) == (len(added), len(removed), len(changed))
    if before and after:
        assert difference.rows["n", "full"] == [
            *sorted(f"+ {a}/{b}" for a, b in added),
            *sorted(f"- {a}/{b}" for a, b in removed),
            *sorted(f"~ {a}/{b}: x" for a, b in changed),
        ]
    assert split.level == ("major" if before else "minor")


def write_numbers(output, tables, version, shards):
    made = {name: (SCHEMA, [{"a": a, "b": b, "x": x} for (a, b), x in found.items()]) for name, found in tables.items()}
    return release_of(output, made, version, shards=shards)


def test_a_column_of_another_type_is_major(tmp_path):
    old = release_of(tmp_path / "old", {"n": (SCHEMA, numbers())})
    new = release_of(tmp_path / "new", {"n": (SCHEMA.set(0, pa.field("a", pa.int32())), numbers())}, "2.0.0")
    split = only(compare(old, new))
    assert (split.level, split.added, split.removed, split.changed) == ("major", 0, 0, 0)
    assert compare(old, new).splits == [SplitChange("n", "full", "major", 0, 0, 0, ["a"], ["a"])]


def test_how_lists_name_their_items_is_no_difference(tmp_path):
    listed = pa.schema([("a", pa.int64()), ("b", pa.string()), ("l", pa.list_(pa.field("item", pa.string())))])
    old = release_of(tmp_path / "old", {"n": (listed, [{"a": 1, "b": "b", "l": ["x"]}])})
    new = copy.deepcopy(old)
    new.manifest.configs["n"].columns[2].type = "list<element: string>"
    assert compare(old, new).splits == []


def test_another_key_makes_other_rows(tmp_path):
    old = release_of(tmp_path / "old", {"n": (SCHEMA, numbers())})
    new = copy.deepcopy(old)
    new.manifest.configs["n"].key = ["a"]
    split = only(compare(old, new))
    assert (split.level, split.added, split.removed) == ("major", 10, 10)


@cases(
    "break_it reason",
    (lambda release: next(release.root.glob("data/n/*")).unlink(), "is missing"),
    (lambda release: next(release.root.glob("data/n/*")).write_bytes(b"x"), "cannot be read as Parquet"),
    (lambda release: setattr(release.manifest.configs["n"].columns[0], "name", "z"), "has no column for its key"),
)
def test_what_cannot_be_compared_is_said(tmp_path, break_it, reason):
    old = release_of(tmp_path / "old", {"n": (SCHEMA, numbers())})
    new = release_of(tmp_path / "new", {"n": (SCHEMA, numbers(11))}, "2.0.0")
    break_it(new)
    raised(InputError, compare, old, new, match=reason)


def test_lines(tmp_path):
    hostile = "<script>alert(1)</script>\x1b[31m"
    old = release_of(tmp_path / "old", {"n": (SCHEMA, numbers(60)), "gone": (SCHEMA, numbers(2))})
    rows = [{**row, "b": hostile} for row in numbers(31)[30:]] + [{**row, "x": 9.0} for row in numbers(30)]
    new = release_of(tmp_path / "new", {"n": (SCHEMA, rows), "came": (SCHEMA, numbers(1))}, "1.0.1")
    lines = list(diff_lines(compare(old, open_release(new.root))))
    assert lines[0] == "little 1.0.0 -> little 1.0.1"
    assert not lacking(lines, "n/full: 1 added, 30 removed, 30 changed (major)", "  - and 10 more", "  ~ 1/b1: x")
    assert not lacking(lines, "  + 30/<script>alert(1)</script>\\x1b[31m", "  ~ and 10 more")
    assert "gone/full: 0 added, 2 removed, 0 changed (major)" in lines
    assert "came/full: 1 added, 0 removed, 0 changed (minor)" in lines
    assert lines[-2].startswith("level: major (")
    assert lines[-2].endswith("the next version after 1.0.0 is 2.0.0")
    wrong = "1.0.1 is a patch version after 1.0.0, but the data was changed at the major level"
    assert lines[-1] == f"the version number is wrong: {wrong}"


@cases(
    "second said",
    ({"id": "7_1", "file": "d_2.json"}, "data/v1/train-00000-of-00001.parquet: two rows have the key '7_1'"),
    ({"id": "z", "n": 1}, "the files of one configuration have different columns"),
)
def test_rows_that_do_not_fit_into_one_configuration(tmp_path, second, said):
    tables = [pa.Table.from_pylist([row]) for row in ({"id": "7_1", "file": "d_1.json"}, second)]
    read = [rows for table in tables for _, rows in reading.parts(table, ["id"], 1)]  # each by another worker
    path = reading.shard_path("v1", "train", 0, 1)
    raised(InputError, reading.write_shard, read, str(tmp_path), path, match=said)
