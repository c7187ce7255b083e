"""Texts chosen for their diversity, without duplicates."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from parapet.transforms.crowd.compose import draw, most_diverse
from parapet.transforms.crowd.lexicon import spelling_rank
from parapet.transforms.report.text import words
from parapet.transforms.variants.distance import levenshtein

TEXTS = st.lists(st.text(st.sampled_from("abcd"), max_size=5), max_size=9, unique=True)


def spread(texts):
    return sum(levenshtein(a, b) for a, b in combinations(texts, 2))


@given(TEXTS, st.integers(1, 6))
def test_most_diverse_is_the_best_of_all_subsets(texts, n):
    found = most_diverse(texts, n, levenshtein)
    assert sorted(found) == sorted(texts)
    best = max((spread(subset) for subset in combinations(texts, min(n, len(texts)))), default=0)
    assert spread(found[:n]) == best


@given(TEXTS, st.integers(1, 6))
def test_both_parts_keep_the_order_of_the_draw(texts, n):
    found = most_diverse(texts, n, levenshtein)
    assert (found[:n], found[n:]) == (sorted(found[:n], key=texts.index), sorted(found[n:], key=texts.index))


def test_many_texts_are_approached_one_by_one():
    texts = [f"{i:03}" for i in range(40)] + ["x" * 9, "y" * 9, "z" * 9]
    found = most_diverse(texts, 5, levenshtein)
    assert (found[2:5], sorted(found)) == (["x" * 9, "y" * 9, "z" * 9], sorted(texts))
    assert most_diverse(texts, 5, levenshtein) == found


def test_each_text_is_compared_with_500_at_most():
    calls = []
    texts = [f"{i:04}" for i in range(2_000)]
    found = most_diverse(texts, 5, lambda a, b: calls.append((a, b)) or levenshtein(a, b))
    assert (len(calls), sorted(found)) == (500 * 499 / 2, texts)
    assert set(found[:5]) < set(texts[:500])


@given(TEXTS, st.integers(), st.randoms(use_true_random=False))
def test_the_draw_knows_no_order_of_arrival(texts, seed, random):
    drawn = draw(texts, seed, "Taxi_1/slot/to", "names")
    shuffled = list(texts)
    random.shuffle(shuffled)
    assert (draw(shuffled, seed, "Taxi_1/slot/to", "names"), sorted(drawn)) == (drawn, sorted(texts))


@given(TEXTS.filter(bool), st.data())
def test_other_answers_do_not_move_a_text(texts, data):
    gone = data.draw(st.sampled_from(texts))
    drawn = draw(texts, 7, "e", "names")
    drawn.remove(gone)
    assert draw([text for text in texts if text != gone], 7, "e", "names") == drawn


def rank(canonical, typed=None):
    return spelling_rank(canonical, words(canonical), canonical if typed is None else typed)


def test_a_typo_weighs_more_than_all_else():
    assert rank("CITY OF THE (HOTEL.") < rank("City of the hottell")


def test_ties_go_to_the_earlier_texts():
    assert most_diverse(["a", "b", "c", "d"], 2, levenshtein) == ["a", "b", "c", "d"]
    assert most_diverse(["aa", "b", "c", "dddd"], 2, levenshtein) == ["aa", "dddd", "b", "c"]
