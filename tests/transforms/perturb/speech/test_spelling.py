"""Spellings that nobody hears: never more errors than before, and none where only the spelling differs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import cases

pytest.importorskip("num2words")

from parapet.transforms.perturb.speech.alignment import align, respelled, word_errors
from parapet.transforms.perturb.speech.spoken import spoken_words

PAIRS = [("okay", "ok"), ("that'll", "that will"), ("a m", "am"), ("i do not", "i don't"), ("round trip", "roundtrip")]
PAIRS += [("can't", "cannot"), ("its", "it's"), ("theatre", "theater"), ("wanna", "want to"), ("johns", "john's")]
OTHERS = st.sampled_from(["yes", "to", "the", "trip", "will", "i'll", "am", "not", "don't", "it's"])


def errors(reference, hypothesis):
    return word_errors(align(reference, hypothesis)).total()


@given(st.lists(st.one_of(st.sampled_from(PAIRS), OTHERS.map(lambda word: (word, word)))), st.booleans())
def test_only_the_spelling_differs(pairs, other_way):
    reference, hypothesis = (" ".join(pair[side] for pair in pairs).split() for side in (other_way, not other_way))
    assert respelled(reference, hypothesis) == reference


@given(*[st.lists(OTHERS | st.sampled_from([word for pair in PAIRS for word in pair[0].split()]), max_size=6)] * 2)
def test_never_more_errors_and_nothing_invented(reference, hypothesis):
    found = respelled(reference, hypothesis)
    assert errors(reference, found) <= errors(reference, hypothesis)
    assert set(found) <= {*reference, *hypothesis}


@cases(
    "reference hypothesis found",
    ("i'll be late", "it'll be late", "it'll be late"),
    ("ok thank you", "okay thank your", "ok thank your"),
    ("that's it", "that is it bye", "that's it bye"),
    ("i can", "i can't", "i can't"),
)
def test_other_words_stay(reference, hypothesis, found):
    assert respelled(reference.split(), hypothesis.split()) == found.split()


def test_initials_are_said_letter_by_letter_in_capitals_only():
    said = " ".join(word.text for word in spoken_words("LA, CA or la la land: a TV, NYC"))
    assert said == "l a c a or la la land a t v n y c"
