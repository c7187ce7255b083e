"""Version numbers, and what a change asks of them."""

import datetime
import decimal

import pyarrow as pa
import pytest

from parapet.transforms.release.diff import bumped, contradiction, level_between
from parapet.transforms.release.reading import row_json


@pytest.mark.parametrize(("level", "next_one"), [("patch", "1.2.4"), ("minor", "1.3.0"), ("major", "2.0.0")])
def test_the_next_version_is_a_step_of_its_level(level, next_one):
    assert bumped("1.2.3", level) == next_one
    assert level_between("1.2.3", next_one) == level
    assert contradiction("1.2.3", next_one, level) == ""


def test_types_that_json_lacks():
    row = {"n": decimal.Decimal("1.50"), "raw": b"\x00\xff", "t": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)}
    assert row_json(row) == b'{"n":"1.50","raw":"00ff","t":"2026-01-02T00:00:00+00:00"}'
    for unit in ("us", "ns"):  # the second is a type of pandas
        (time,) = pa.array([datetime.datetime(2026, 1, 2, 3, 4, 5, 600)], pa.timestamp(unit, "UTC")).to_pylist()
        assert row_json({"t": time}) == b'{"t":"2026-01-02T03:04:05.000600+00:00"}'
    with pytest.raises(TypeError):
        row_json({"n": {1}})
