from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parapet.schemas.dialogue_table import DIALOGUES, SERVICES
from parapet.transforms.release.documents.columns import MEANINGS, OTHER, Type, in_words, parse
from parapet.transforms.release.plan import PARAPHRASE_COLUMNS

PLAIN = [
    pa.string(),
    pa.large_string(),
    pa.int8(),
    pa.float16(),
    pa.bool_(),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.decimal128(10, 2),
    pa.duration("s"),
    pa.binary(4),
]
NAMES = st.text(alphabet="abc_ -", min_size=1, max_size=5)
TYPES = st.recursive(
    st.sampled_from(PLAIN),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        inner.map(lambda kind: pa.list_(kind, 3)),
        st.lists(st.tuples(NAMES, inner, st.booleans()), max_size=3).map(
            lambda fields: pa.struct([pa.field(name, kind, nullable) for name, kind, nullable in fields])
        ),
    ),
    max_leaves=8,
)


def taken_apart(kind: pa.DataType) -> Type:
    if isinstance(kind, (pa.ListType, pa.LargeListType, pa.FixedSizeListType)):
        return Type("list", ((kind.value_field.name, taken_apart(kind.value_type)),))
    if isinstance(kind, pa.StructType):
        return Type("struct", tuple((field.name, taken_apart(field.type)) for field in kind))
    return Type(str(kind))


@given(TYPES)
@settings(max_examples=200, deadline=None)
def test_types_are_taken_apart(kind: pa.DataType) -> None:
    assert parse(str(kind)) == taken_apart(kind)


@pytest.mark.parametrize(
    "text",
    ["", "list<", "struct<a: string", "list<item: string>>", "map<string, int32>", "struct<a, b: c d: int8>", "a b"],
)
def test_what_cannot_be_read_is_other(text: str) -> None:
    assert parse(text) == OTHER


def test_a_type_nested_without_end_is_other() -> None:
    assert parse("list<item: " * 100_000) == OTHER
    assert parse(str(pa.dictionary(pa.int32(), pa.string()))) == OTHER


def test_in_words() -> None:
    assert in_words(parse(str(DIALOGUES.field("services").type))) == "list of string"
    assert in_words(parse(str(DIALOGUES.field("turns").type))) == "list of {speaker, utterance, frames}"
    assert in_words(parse("int32")) == "int32"


def test_every_column_of_ours_has_a_meaning() -> None:
    for record, columns in (("dialogue", DIALOGUES), ("service", SERVICES), ("paraphrase", PARAPHRASE_COLUMNS)):
        assert set(MEANINGS[record]) == set(columns.names)
