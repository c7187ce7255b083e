"""Version numbers, and what a change asks of them."""

import datetime
import decimal
import hashlib

import pyarrow as pa
import pytest

from parapet.transforms.release.diff import bumped, contradiction, level_between
from parapet.transforms.release.reading import logical_sha256, row_json, split_sha256


@pytest.mark.parametrize(
    ("old", "new", "level"),
    [
        ("1.2.3", "1.2.4", "patch"),
        ("1.2.3", "1.2.9", "patch"),
        ("1.2.3", "1.3.0", "minor"),
        ("1.2.3", "1.10.0", "minor"),
        ("1.2.3", "2.0.0", "major"),
        ("9.9.9", "10.0.0", "major"),
        ("1.2.3", "1.2.3", ""),
        ("1.2.3", "1.2.2", ""),
        ("2.0.0", "1.9.9", ""),
    ],
)
def test_the_level_of_a_step(old, new, level):
    assert level_between(old, new) == level


@pytest.mark.parametrize(("level", "next_one"), [("patch", "1.2.4"), ("minor", "1.3.0"), ("major", "2.0.0")])
def test_the_next_version_is_a_step_of_its_level(level, next_one):
    assert bumped("1.2.3", level) == next_one
    assert level_between("1.2.3", next_one) == level
    assert contradiction("1.2.3", next_one, level) == ""


@pytest.mark.parametrize(
    ("new", "level", "said"),
    [
        ("1.2.4", "minor", "1.2.4 is a patch version after 1.2.3, but the data has changed at the minor level"),
        ("1.3.0", "major", "1.3.0 is a minor version after 1.2.3, but the data has changed at the major level"),
        ("1.2.3", "patch", "version 1.2.3 does not come after 1.2.3"),
        ("2.0.0", "patch", ""),
    ],
)
def test_a_number_that_says_too_little_contradicts(new, level, said):
    assert contradiction("1.2.3", new, level) == said


def test_the_logical_hash_is_over_sorted_json_a_line_each():
    rows = [{"b": "ä", "a": [1, None]}, {"b": "", "a": []}]
    expected = hashlib.sha256('{"a":[1,null],"b":"ä"}\n{"a":[],"b":""}\n'.encode()).hexdigest()
    assert logical_sha256(map(row_json, rows)) == expected
    assert split_sha256([expected]) == hashlib.sha256(f"{expected}\n".encode()).hexdigest()


def test_types_that_json_lacks():
    row = {"n": decimal.Decimal("1.50"), "raw": b"\x00\xff", "t": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)}
    assert row_json(row) == b'{"n":"1.50","raw":"00ff","t":"2026-01-02T00:00:00+00:00"}'
    for unit in ("us", "ns"):  # the second is a type of pandas
        (time,) = pa.array([datetime.datetime(2026, 1, 2, 3, 4, 5, 600)], pa.timestamp(unit, "UTC")).to_pylist()
        assert row_json({"t": time}) == b'{"t":"2026-01-02T03:04:05.000600+00:00"}'
    with pytest.raises(TypeError):
        row_json({"n": {1}})
