"""Tables as TOML are read again as they were."""

import tomllib

from hypothesis import given, settings
from hypothesis import strategies as st

from parapet.transforms.storage.toml import toml_of

PLAIN = st.text() | st.integers(-(2**40), 2**40) | st.booleans() | st.floats(-1e6, 1e6) | st.lists(st.text())
KEYS = st.text(max_size=5)


def tables(inner):
    one = st.dictionaries(KEYS, inner, max_size=3)
    return one | st.lists(one, max_size=2)


@settings(max_examples=60)
@given(st.dictionaries(KEYS, st.recursive(PLAIN, tables, max_leaves=6), max_size=3))
def test_toml_is_read_again(table):
    assert tomllib.loads(toml_of(table)) == table
