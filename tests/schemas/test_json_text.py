"""JSON is kept as it stands, or refused with its place."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised

from parapet.schemas import layout
from parapet.schemas.errors import InputError
from parapet.schemas.json_text import items_in, parse_as_python, parse_exactly, parse_json, parse_json_line

TEXT = st.text(st.characters(codec="utf-8"), max_size=8) | st.text('"\\[]{},: \n', max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=4), st.booleans(), st.sampled_from([None, 1]))
def test_items_are_found_without_parsing(items, escaped, indent):
    found = items_in(json.dumps(items, ensure_ascii=escaped, indent=indent).encode())
    assert found is not None
    assert ([json.loads(item) for item in found], [parse_exactly(item) for item in found]) == (items, items)


@cases("data", b"", b"{}", b"3", b"[", b'["a]', b"[1}", b"[1] 2", b"x [1]", b'[{"a": 1]', b'["\\"' + b'\\"' * 200_000)
def test_what_is_no_list(data):
    items = items_in(data)
    if items is not None:  # closed by another bracket: the items say so
        with pytest.raises(ValueError, match="line"):
            [json.loads(item) for item in items]


def test_items_of_any_depth_are_found():
    deep = b"[" * 100_000 + b"]" * 100_000
    assert items_in(b"[1, " + deep + b", {}]") == [b"1", b" " + deep, b" {}"]


@pytest.mark.parametrize("number", ["10" * 15, "18446744073709551616", "-9223372036854775809", "1" * 4300])
def test_whole_numbers_stay_whole(number):
    for found in (parse_json(number.encode(), "x"), parse_json_line(number), parse_exactly(number.encode())):
        assert (found, type(found)) == (int(number), int)


@cases(
    "data reason",
    ("1e400", "the number 1e400 is out of range"),
    ("-1e999", "the number -1e999 is out of range"),
    ("1" * 4301, f"the number {'1' * 40}… has 4,301 digits, over the limit of 4,300"),
)
def test_numbers_that_python_cannot_hold(data, reason):
    for parse in (lambda text: parse_json(text, "x"), parse_as_python):
        assert raised(InputError, parse, data.encode()).reason == reason
    raised(ValueError, parse_json_line, data, match="out of range")
    raised(InputError, parse_exactly, data.encode())


@cases(
    "text where reason",
    ('{"a": [0.12345678901234567891]}', ".a[0]", "the number 0.12345678901234567891 has more digits than"),
    ('{"a": 1e-400}', ".a", "the number 1e-400 has more digits than"),
    ('{"a": 1e-99999999999999999999999}', ".a", "the number 1e-99999999999999999999999 has more digits"),
    ('{"a": {"b": 1, "b": 2}}', ".a.b", "the key appears twice"),
    ('{"a": {"b": 1, "b": 1}, "a": 2}', ".a", "the key appears twice"),
    ('{"a": ' + "[" * 64 + "]" * 64 + "}", ".a[0][0]", "nested more than 64 levels deep"),
    ('{"a": ' + "[" * 2_000 + "]" * 2_000 + "}", "", "nested more than 64 levels deep"),
)
def test_what_would_change_is_refused(text, where, reason):
    caught = raised(InputError, parse_exactly, text.encode())
    assert caught.where.startswith(where)
    assert caught.reason.startswith(reason)


@cases(
    "text where",
    ('{"a": [1, {"b": -1e999}]}', "a[1].b"),
    ('{"a": 1e999, "a": 1}', ""),
    ('{"%s": [1e999]}' % ("k" * 10_000), "k" * 79 + "\u2026"),
)
def test_a_number_out_of_range_has_its_place(text, where):
    caught = raised(InputError, parse_json, text.encode(), "x", match=r"^x: .*the number -?1e999 is out of range$")
    assert caught.where == where


SERVICE = '{"service_name": "%s", "description": "d", "slots": [], "intents": [], "more": %s}'


@pytest.mark.parametrize("more", ["1" + "0" * 30, "-0.0", "1e+30", '{"b": 1, "a": 0.1}', "1.5e-07"])
def test_unknown_keys_of_a_schema_stay_as_they_stand(more, tmp_path):
    text = "[" + SERVICE % ("A_1", more) + "]"
    (tmp_path / "schema.json").write_text(text)
    (split,) = layout.read_root(tmp_path)
    assert json.dumps(split.raw) == text
    assert layout.schema_bytes(split.raw).decode() == json.dumps(json.loads(text), indent=2) + "\n"


@pytest.mark.parametrize(
    "more", ["1e400", "NaN", "-Infinity", "0.12345678901234567891", '{"a": 1, "a": 2}', "[" * 300 + "]" * 300]
)
@pytest.mark.parametrize("depth", [1, 2_000])
def test_a_service_that_cannot_be_kept_is_bad_by_itself(more, depth, tmp_path):
    more = "[" * depth + more + "]" * depth
    (tmp_path / "schema.json").write_text(f"[{SERVICE % ('A_1', 1)}, {SERVICE % ('B_1', more)}]")
    (split,) = layout.read_root(tmp_path, leave_out_bad=True)
    assert [service.service_name for service in split.services] == ["A_1"]
    (bad,) = split.bad
    assert bad.raw == {"service_name": "B_1"}
    assert (bad.error.path, bad.error.where[:3]) == (str(tmp_path / "schema.json"), "[1]")
