"""``diff``: against a plain reference, and what is told of it."""

import copy

import pyarrow as pa
import pytest
import release_folder as folder
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import cases, lacking, raised

from parapet.schemas.errors import InputError
from parapet.schemas.release import SplitChange
from parapet.transforms.release.reading import compare, diff_lines, open_release, parts, shard_path, write_shard

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
            *(f"+ {key}" for key in as_keys(added)),
            *(f"- {key}" for key in as_keys(removed)),
            *(f"~ {key}: x" for key in as_keys(changed)),
        ]
    assert split.level == ("major" if before else "minor")


def as_keys(keys):
    return sorted(f"{a}/{b}" for a, b in keys)


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


# What is told.


@pytest.fixture
def difference(tmp_path):
    hostile = "<script>alert(1)</script>\x1b[31m"
    old = release_of(tmp_path / "old", {"n": (SCHEMA, numbers(60)), "gone": (SCHEMA, numbers(2))})
    rows = [{**row, "b": hostile} for row in numbers(31)[30:]] + [{**row, "x": 9.0} for row in numbers(30)]
    new = release_of(tmp_path / "new", {"n": (SCHEMA, rows), "came": (SCHEMA, numbers(1))}, "1.0.1")
    return compare(old, open_release(new.root))


def test_lines(difference):
    lines = list(diff_lines(difference))
    assert lines[0] == "little 1.0.0 -> little 1.0.1"
    assert "n/full: 1 added, 30 removed, 30 changed (major)" in lines
    assert not lacking(lines, "  + 30/<script>alert(1)</script>\\x1b[31m", "  - and 10 more", "  ~ 1/b1: x")
    assert not lacking(lines, "  ~ and 10 more", "gone/full: 0 added, 2 removed, 0 changed (major)")
    assert "came/full: 1 added, 0 removed, 0 changed (minor)" in lines
    assert lines[-2].startswith("level: major (")
    assert lines[-2].endswith("the next version after 1.0.0 is 2.0.0")
    assert lines[-1] == (
        "the version number is wrong: 1.0.1 is a patch version after 1.0.0, but the data was changed at the major level"
    )


COLUMNS = pa.schema([("id", pa.string()), ("n", pa.int32()), ("texts", pa.list_(pa.string()))])
ROWS = [{"id": f"ä{i}", "n": i, "texts": ["x"] * (i % 3)} for i in range(40)]


def write(folder, tables, shards):
    """Writes the rows of tables, each read by another worker."""
    packed = {}
    for table in tables:
        for shard, rows in parts(table, ["id"], shards):
            packed.setdefault(shard, []).append(rows)
    return [write_shard(rows, str(folder), shard_path("v1", "train", shard, shards)) for shard, rows in packed.items()]


def table_of(rows, columns=COLUMNS):
    return pa.Table.from_pylist(rows, columns)


def test_two_rows_with_one_key_are_an_error(tmp_path):
    columns = pa.schema([("id", pa.string()), ("file", pa.string())])
    tables = [table_of([{"id": "7_1", "file": file}], columns) for file in ("d_1.json", "d_2.json")]
    error = raised(InputError, write, tmp_path, tables, 1)
    told = "train-00000-of-00001.parquet: two rows have the key '7_1'"
    assert str(error) == f"data/v1/{told}"


def test_files_of_different_columns_are_an_error(tmp_path):
    other = pa.schema([("id", pa.string()), ("n", pa.int64())])
    tables = [table_of(ROWS[:1]), table_of([{"id": "z", "n": 1}], other)]
    raised(InputError, write, tmp_path, tables, 1, match="the files of one configuration have different columns")
