import pytest
from hypothesis import given
from hypothesis import strategies as st

from parapet.transforms.crowd.lexicon import _profanity, language, rude_words, unknown_words, word_frequency


def test_common_words_are_more_frequent_than_rare_ones_and_typos_are_unknown():
    assert word_frequency("the") > word_frequency("hotel") > word_frequency("solstice") > 0
    assert word_frequency("accomomdation") == 0


def test_unknown_words():
    assert unknown_words(("the", "actresss", "of", "x", "2019", "99999999", "accomomdation")) == [
        "actresss",
        "accomomdation",
    ]
    assert unknown_words(()) == []


def test_rude_words_alone_and_in_runs():
    assert rude_words(("sex", "of", "the", "patient")) == ["sex"]
    assert rude_words(("class", "assessment", "cocktail", "5hit5")) == []
    assert "son of a" not in rude_words(("son", "of", "a", "king"))
    assert rude_words(()) == []


RUDE = sorted(_profanity()[0])
PHRASES = [*RUDE[:200], *(phrase for phrase in RUDE if " " in phrase), "of a"]
WORDS = st.sampled_from(sorted({word for phrase in PHRASES for word in phrase.split()}))


@given(st.lists(WORDS, max_size=8).map(tuple))
def test_rude_words_are_those_of_all_runs(words):
    runs = [" ".join(words[i : i + n]) for n in (1, 2, 3) for i in range(len(words) - n + 1)]
    assert rude_words(words) == [run for run in runs if run in RUDE]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("The day on which the guest wants to leave the hotel", "en"),
        ("Der Tag an dem der Gast das Hotel verlassen möchte", "de"),
        ("El día en que el huésped quiere dejar el hotel", "es"),
    ],
)
def test_language(text, code):
    assert language(text) == code
