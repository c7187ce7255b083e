from hypothesis import given
from hypothesis import strategies as st

from parapet.transforms.crowd.lexicon import spelling_rank
from parapet.transforms.reports.text import words


def rank(canonical, typed=None):
    return spelling_rank(canonical, words(canonical), canonical if typed is None else typed)


@given(st.text(), st.text())
def test_any_text_has_a_rank(canonical, typed):
    assert len(rank(canonical, typed)) == len(rank("a"))
    assert all(part >= 0 for part in rank(canonical, typed))
