"""Dialogue files read and written one dialogue at a time."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised

from parapet.schemas.dialogue import BETWEEN, CLOSING, OPENING, dialogue_text, read_each, typed
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS, dialogue_files

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


def file_of(items):
    return OPENING + BETWEEN.join(dialogue_text(item) for item in items) + CLOSING


@given(st.lists(JSON, min_size=1, max_size=4), st.booleans())
def test_the_bytes_are_those_of_json(items, escaped):
    expected = (json.dumps(items, indent=2, sort_keys=True) + "\n").encode()
    assert file_of(list(read_each(json.dumps(items, ensure_ascii=escaped).encode(), "x"))) == expected


@cases(
    "item reason",
    (b'{"a": 1e999}', "not_sgd: Number out of range"),
    (b'{"a": "\xff"}', "not_sgd: 'utf-8' codec can't decode byte 0xff"),
    (b'{"a": NaN}', "not_sgd: Out of range float values are not JSON compliant"),
    (b'{"a": "\\ud800"}', "not_sgd: 'utf-8' codec can't encode character '\\ud800'"),
)
def test_an_item_that_cannot_be_decoded_is_refused_by_itself(item, reason):
    first, refused, last = read_each(b'[{"a": "\\":"},' + item + b',{"b" : 1}]', "x")
    assert (first, last) == ({"a": '":'}, {"b": 1})
    assert isinstance(refused, InputError)
    assert refused.reason.startswith(reason)
    raised(InputError, typed, refused)


def test_an_item_with_the_id_of_an_earlier_one_is_refused_by_itself():
    data = b'[{"dialogue_id": "a"}, {"dialogue_id": "a"}, {"dialogue_id": "A"}]'
    first, second, third = read_each(data, "x")
    assert (first, third) == ({"dialogue_id": "a"}, {"dialogue_id": "A"})
    assert isinstance(second, InputError)
    assert second.reason == "duplicate_id: dialogue 'a' appears twice, first at [0]: give each its own id"


def test_a_byte_order_mark_and_an_empty_list():
    assert (list(read_each(b"\xef\xbb\xbf[1]", "x")), list(read_each(b" [ ] ", "x"))) == ([1], [])


@cases(
    "data where reason",
    (b"", "", "the file is empty"),
    (b'[{"a": 1},\n {"a": tru}]', "line 2 column 8", "not JSON: "),
    (b'[{"a": 1}', "line 1 column 10", "not JSON: "),
    (b"[1] [2]", "line 1 column 5", "not JSON: Extra data"),
    (b'{"a": 1}', "", "expected a list of dialogues, found dict"),
    (b"[" * 100_000, "", "nested too deeply"),
)
def test_bad_files_are_told_with_their_place(data, where, reason):
    caught = raised(InputError, list, read_each(data, "x.json"))
    assert (caught.path, caught.where) == ("x.json", where)
    assert caught.reason.startswith(reason)


def test_deep_nesting_is_written_or_told():
    deep = []
    for _ in range(200):
        deep = [deep]
    assert json.loads(dialogue_text(deep)) == deep
    for _ in range(100_000):
        deep = [deep]
    raised(InputError, dialogue_text, deep, match="is not JSON: Recursion limit reached")


def test_the_published_files_come_out_as_they_are(real_data):
    files = [path for split in SPLITS for path in dialogue_files(real_data / "sgd", split)]
    assert files
    for path in files:
        data = path.read_bytes()
        assert file_of(list(read_each(data, path))) == data.rstrip() + b"\n"


@pytest.mark.parametrize("text", ["\x7f", "é", "\u2028", "😀 and \ud7ff", '"\\/\b\f\n\r\t\x00\x1f'])
def test_awkward_characters(text):
    assert file_of([{text: text}]) == (json.dumps([{text: text}], indent=2) + "\n").encode()
