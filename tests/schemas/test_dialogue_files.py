"""Dialogue files read and written one dialogue at a time."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised

from parapet.schemas import limits
from parapet.schemas.dialogue import BETWEEN, CLOSING, OPENING, dialogue_text, read_each, typed
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS, dialogue_files

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


def file_of(items):
    return OPENING + BETWEEN.join(dialogue_text(item, plain) for item, plain in items) + CLOSING


@given(st.lists(JSON, min_size=1, max_size=4), st.booleans())
def test_the_bytes_are_those_of_json(items, escaped):
    expected = (json.dumps(items, indent=2, sort_keys=True) + "\n").encode()
    assert file_of(list(read_each(json.dumps(items, ensure_ascii=escaped).encode(), "x"))) == expected


@cases(
    "item where reason",
    (b'{"a": 1e999}', "a", "not_sgd: the number 1e999 is out of range"),
    (b'{"a": [{"b": 1, "b": 2}]}', "a[0].b", "not_sgd: the key appears twice"),
    (b'{"a": "\\u003a\\u003A", "b": 1, "b": 1}', "b", "not_sgd: the key appears twice"),
    (b'{"a": "\\ud800", "a": 1}', "a", "not_sgd: the key appears twice"),
    (b'{"a" : ' + b"1" * 5_000 + b"}", "a", "not_sgd: the number 1111"),
    (b'{"a": ' + b"[" * 64 + b"]" * 64 + b"}", "a[0][0]", "not_sgd: nested more than 64 levels deep"),
    (b'{"a": ' + b"[" * 300 + b"]" * 300 + b"}", "a[0][0]", "not_sgd: nested more than 64 levels deep"),
    (b"[" * 100_000 + b"]" * 100_000, "", "not_sgd: nested more than 64 levels deep"),
    (b'{"turns": [' + b"0," * limits.MAX_TURNS + b"0]}", "", "too_large: the dialogue has 10,001 turns"),
    (b'{"dialogue_id": "' + b"x" * 1_001 + b'"}', "", "too_large: the dialogue_id has 1,001 characters, over"),
    (b'"' + b"x" * limits.MAX_DIALOGUE + b'"', "", "too_large: the dialogue has 16,777,2"),
)
def test_an_item_that_cannot_be_kept_is_refused_by_itself(item, where, reason):
    first, (found, plain), last = read_each(b'[{"a": "\\":"},' + item + b',{"b" : 1}]', "x")
    assert (first, last) == (({"a": '":'}, True), ({"b": 1}, True))
    assert isinstance(found, InputError)
    assert not plain
    assert found.where.startswith(where)
    assert found.reason.startswith(reason)
    raised(InputError, typed, found)


def test_an_item_with_the_id_of_an_earlier_one_is_refused_by_itself():
    data = b'[{"dialogue_id": "a"}, {"dialogue_id": "a"}, {"dialogue_id": "A"}]'
    first, (second, plain), third = read_each(data, "x")
    assert (first, third) == (({"dialogue_id": "a"}, True), ({"dialogue_id": "A"}, True))
    assert isinstance(second, InputError)
    assert not plain
    assert second.reason == "duplicate_id: dialogue 'a' appears twice, first at [0]: give each its own id"


@cases(
    "item",
    b"[" * 64 + b"]" * 64,
    b'{"turns": [' + b"0," * (limits.MAX_TURNS - 1) + b'0], "dialogue_id": "' + b"x" * limits.MAX_ID + b'"}',
    b'"' + b"x" * (limits.MAX_DIALOGUE - 2) + b'"',
    b'{"a": {"x": 1}, "b": {"x": "\\u003a\\u003A"}}',
)
def test_an_item_at_the_limit_is_read(item):
    assert list(read_each(b"[" + item + b"]", "x")) == [(json.loads(item), True)]


def test_a_byte_order_mark_and_an_empty_list():
    assert (list(read_each(b"\xef\xbb\xbf[1]", "x")), list(read_each(b" [ ] ", "x"))) == ([(1, True)], [])


@cases(
    "data where reason",
    (b"", "", "the file is empty"),
    (b'[{"a": 1},\n {"a": tru}]', "line 2 column 8", "not JSON: "),
    (b'[{"a": 1}', "line 1 column 10", "not JSON: "),
    (b"[1] [2]", "line 1 column 5", "not JSON: Extra data"),
    (b'{"a": 1}', "", "expected a list of dialogues, found dict"),
    (b'[1, "\xff"]', "", "not UTF-8 at byte 5"),
    (b"[" * 100_000, "", "nested more than 64 levels deep"),
)
def test_bad_files_are_told_with_their_place(data, where, reason):
    caught = raised(InputError, list, read_each(data, "x.json"))
    assert (caught.path, caught.where) == ("x.json", where)
    assert caught.reason.startswith(reason)


def test_deep_nesting_is_written_or_told():
    deep = []
    for _ in range(300):
        deep = [deep]
    assert json.loads(dialogue_text(deep)) == deep
    for _ in range(100_000):
        deep = [deep]
    raised(InputError, dialogue_text, deep, match="not_sgd: nested too deeply")


def test_the_published_files_come_out_as_they_are(real_data):
    files = [path for split in SPLITS for path in dialogue_files(real_data / "sgd", split)]
    assert files
    for path in files:
        data = path.read_bytes()
        assert file_of(list(read_each(data, path))) == data.rstrip() + b"\n"


@pytest.mark.parametrize("text", ["\x7f", "é", "\u2028", "😀 and \ud7ff", '"\\/\b\f\n\r\t\x00\x1f'])
def test_awkward_characters(text):
    assert file_of([({text: text}, True)]) == (json.dumps([{text: text}], indent=2) + "\n").encode()
