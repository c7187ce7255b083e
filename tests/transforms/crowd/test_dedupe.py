from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parapet.transforms.crowd.lexicon import spelling_rank
from parapet.transforms.reports.text import words


def rank(canonical, typed=None):
    return spelling_rank(canonical, words(canonical), canonical if typed is None else typed)


@pytest.mark.parametrize(
    "from_best_to_worst",
    [
        ["Kind of accommodation", "kind of accommodation", "Kind of accomomdation", "Kindd of accomomdation"],
        ["City of the hotel", "City of the Hotel", "City Of The Hotel"],
        ["City of the hotel", "City of the hotel."],
        ["City of the hotel (town)", "City of the hotel (town"],
        ['City of the "hotel"', 'City of the "hotel'],
        ["The ATM", "THE ATM MACHINE"],
        ["ATM", "atm"],
    ],
)
def test_the_best_spelled_comes_first(from_best_to_worst):
    ranks = [rank(text) for text in from_best_to_worst]
    assert all(a < b for a, b in pairwise(ranks))


def test_what_was_typed_as_it_is_emitted_comes_first():
    assert rank("City of the hotel") < rank("City of the hotel", "city of  the hotel")
    assert rank("pickup_day") < rank("pickup_day", "Pickup day")


def test_a_typo_weighs_more_than_all_else():
    assert rank("CITY OF THE (HOTEL.") < rank("City of the hottell")


@given(st.text(), st.text())
def test_any_text_has_a_rank(canonical, typed):
    assert len(rank(canonical, typed)) == len(rank("a"))
    assert all(part >= 0 for part in rank(canonical, typed))
