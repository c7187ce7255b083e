"""Words replaced and reordered: what must hold for any words, rates and seeds."""

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import raised

from parapet.schemas.errors import InputError
from parapet.transforms.reports.text import Convention
from parapet.transforms.splits.augment import plan

WORDS = st.lists(st.text("abcdef", min_size=1, max_size=4), max_size=8)
VOCABULARY = st.lists(st.text("abcdef", min_size=1, max_size=3), min_size=1, max_size=12, unique=True).map(sorted)
RATES = st.floats(0, 1)
SEEDS = st.text(max_size=5)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=60)


@settings(deadline=None)
@given(WORDS, VOCABULARY, RATES, RATES, SEEDS, st.sampled_from(plan.OPERATIONS))
def test_as_many_words_from_the_text_or_the_vocabulary(words, vocabulary, replace, order, seed, operation):
    rates = plan.Rates(replace, order)
    found = plan.corrupt_words(words, operation, vocabulary, rates, [seed])
    assert len(found) == len(words)
    assert set(found) <= {*words, *vocabulary}
    if operation == "order":
        assert Counter(found) == Counter(words)
    assert found == plan.corrupt_words(words, operation, vocabulary, rates, [seed])


@settings(deadline=None)
@given(WORDS, VOCABULARY, SEEDS, st.sampled_from(plan.OPERATIONS))
def test_rate_nought_changes_nothing(words, vocabulary, seed, operation):
    assert plan.corrupt_words(words, operation, vocabulary, plan.Rates(0, 0), [seed]) == words


@settings(deadline=None)
@given(WORDS, VOCABULARY, SEEDS)
def test_rate_one_replaces_every_word_by_another(words, vocabulary, seed):
    for old, new in zip(words, plan.replace_words(words, vocabulary, 1, [seed]), strict=True):
        assert new in vocabulary
        assert new != old or vocabulary == [old]


@settings(deadline=None)
@given(st.integers(0, 9), SEEDS)
def test_rate_one_moves_every_word(n, seed):
    words = [str(i) for i in range(n)]
    found = plan.reorder_words(words, 1, [seed])
    assert n == 1 or not [i for i, word in enumerate(found) if word == words[i]]


@settings(deadline=None)
@given(TEXTS)
def test_a_description_of_its_own_words_is_itself(text):
    assert plan.description_of(plan.description_words(text), text) == text


@settings(deadline=None)
@given(TEXTS, st.randoms(use_true_random=False))
def test_other_words_leave_the_rest_of_a_description(text, random):
    words = plan.description_words(text)
    random.shuffle(words)
    found = plan.description_of(words, text)
    assert len(plan.description_words(found)) == len(words)
    word = r"\w+(?:['\u2019-]\w+)*"
    assert re.split(word, found) == re.split(word, text)


def test_the_domain_of_a_name_is_no_word_of_it():
    assert plan.split_name("hotel-price_range", Convention.DOMAIN_SLOT) == (("hotel",), ("price", "range"))
    assert plan.split_name("nohyphen", Convention.DOMAIN_SLOT) == ((), ("nohyphen",))


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_rate_is_a_share(rate):
    raised(InputError, plan.Rates(rate, 0.5).check, match=r"--replace_rate: .* is not between 0 and 1")
    raised(InputError, plan.Rates(0.5, rate).check, match="--order_rate")
