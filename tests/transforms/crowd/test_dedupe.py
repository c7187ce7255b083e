""""""

from parapet.transforms.crowd.lexicon import spelling_rank
from parapet.transforms.reports.text import words


def rank(canonical, typed=None):
    return spelling_rank(canonical, words(canonical), canonical if typed is None else typed)


def test_a_typo_weighs_more_than_all_else():
    assert rank("CITY OF THE (HOTEL.") < rank("City of the hottell")
