from hypothesis import given
from hypothesis import strategies as st

from parapet.transforms.crowd.lexicon import spelling_rank
from parapet.transforms.reports.text import words


def rank(canonical, typed=None):
    return spelling_rank(canonical, words(canonical), canonical if typed is None else typed)


def test_what_was_typed_as_it_is_emitted_comes_first():
    assert rank("City of the hotel") < rank("City of the hotel", "city of  the hotel")
    assert rank("pickup_day") < rank("pickup_day", "Pickup day")


def test_a_typo_weighs_more_than_all_else():
    assert rank("CITY OF THE (HOTEL.") < rank("City of the hottell")


@given(st.text(), st.text())
def test_any_text_has_a_rank(canonical, typed):
    assert len(rank(canonical, typed)) == len(rank("a"))
    assert all(part >= 0 for part in rank(canonical, typed))
