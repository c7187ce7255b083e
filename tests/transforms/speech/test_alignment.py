"""Alignment: the fewest errors, a text of it, and values that are found or lost, never made up."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parapet.transforms.perturbations.speech.alignment import (
    Aligned,
    Found,
    align,
    alignment_text,
    find_span,
    plain_ranges,
    restored,
)
from parapet.transforms.perturbations.speech.spoken import load_normalisation, spoken_words

RULES = load_normalisation()

SAID = st.lists(st.sampled_from(["a", "b", "c", "o'clock"]), max_size=9)
UTTERANCES = st.one_of(
    st.text(max_size=30),
    st.lists(
        st.sampled_from(
            [
                *["At", "7:30", "pm", ",", " ", " ", " ", ". ", "(", ")", "-", "2-3", "$5.50", "café", "Mr.", "😀"],
                *["4star", "St. ", "I'm", "\n", "12", "o'clock", "ﬁ"],
            ]
        ),
        max_size=14,
    ).map("".join),
)


def errors(reference: list[str], heard: list[str]) -> int:
    """Levenshtein's distance as every textbook has it."""
    row = list(range(len(heard) + 1))
    for i, said in enumerate(reference, 1):
        above, row = row, [i]
        for j, got in enumerate(heard, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (said != got)))
    return row[-1]


@st.composite
def heard_wrong(draw: st.DrawFn) -> tuple[str, list[str]]:
    """An utterance and what is heard of its words: some dropped, some others, some more."""
    utterance = draw(UTTERANCES)
    heard = []
    for word in spoken_words(utterance, RULES):
        what = draw(st.sampled_from(["right"] * 8 + ["lost", "other", "more"]))
        heard += {"right": [word.text], "lost": [], "other": ["uh"], "more": ["uh", word.text]}[what]
    return utterance, heard


def heard_right(aligned: Aligned) -> dict[int, int]:
    """The words said that were heard right, and where."""
    equal = [chunk for chunk in aligned.chunks if chunk[0] == "equal"]
    return {i: i - start + heard_start for _, start, end, heard_start, _ in equal for i in range(start, end)}


@settings(deadline=None, max_examples=150)
@given(SAID, SAID)
def test_fewest_errors_and_all_words_once(reference, heard):
    aligned = align(reference, heard)
    assert aligned.substitutions + aligned.deletions + aligned.insertions == errors(reference, heard)
    assert aligned.hits + aligned.substitutions + aligned.deletions == len(reference)
    assert aligned.hits + aligned.substitutions + aligned.insertions == len(heard)
    at = (0, 0)
    for kind, start, end, heard_start, heard_end in aligned.chunks:
        assert (start, heard_start) == at
        at = (end, heard_end)
        assert (reference[start:end] == heard[heard_start:heard_end]) == (kind == "equal")
        assert (end > start, heard_end > heard_start) == (kind != "insert", kind != "delete")
    assert at == (len(reference), len(heard))


def test_the_text():
    reference, heard = ["i", "want", "three", "a", "b", "c"], ["i", "want", "tree", "b", "c", "the"]
    text = alignment_text(reference, heard, align(reference, heard))
    assert text == "i want three>tree a> b c >the"


@pytest.mark.parametrize("word", ["", "a b", "a>b", ">", "a\n"])
def test_words_that_would_not_read_back_are_refused(word):
    with pytest.raises(ValueError, match="not the words"):
        alignment_text([word], [], Aligned((("delete", 0, 1, 0, 0),), 0, 1, 0, 0))


@settings(deadline=None, max_examples=150)
@given(heard_wrong(), st.data())
def test_what_is_found_is_what_was_said(drawn, data):
    utterance, heard = drawn
    start = data.draw(st.integers(0, len(utterance)))
    end = data.draw(st.integers(start, len(utterance)))
    words = spoken_words(utterance, RULES)
    aligned = align([word.text for word in words], heard)
    own = [word for word in words if word.start < end and start < word.end] if start < end else []
    plain = " ".join(heard)
    found = find_span(start, end, words, aligned, plain_ranges(heard))
    if found is not None:
        assert plain[found.start : found.end].split(" ") == [word.text for word in own]
    right = heard_right(aligned)
    places = [right.get(i, -1) for i, word in enumerate(words) if word in own]
    there = bool(own) and -1 not in places and places == list(range(places[0], places[0] + len(places)))
    assert there == (found is not None)

    text, ranges = restored(utterance, words, aligned, heard)
    again = find_span(start, end, words, aligned, ranges)
    assert (again is None) == (found is None)
    if again is not None:
        assert text[again.start : again.end] == utterance[own[0].start : own[-1].end]


@settings(deadline=None, max_examples=150)
@given(heard_wrong())
def test_restored_words_are_where_they_are_said_to_be(drawn):
    utterance, heard = drawn
    words = spoken_words(utterance, RULES)
    aligned = align([word.text for word in words], heard)
    text, ranges = restored(utterance, words, aligned, heard)
    assert len(ranges) == len(heard)
    written = {utterance[word.start : word.end] for word in words}
    last = Found(0, 0)
    for one, word in zip(ranges, heard, strict=True):
        assert one == last or last.end <= one.start < one.end <= len(text)
        assert text[one.start : one.end] in {word, *written}
        last = one
    if not aligned.substitutions + aligned.deletions + aligned.insertions:
        assert text == (utterance if words else "")


@pytest.mark.parametrize(
    ("utterance", "heard", "expected"),
    [
        ("Hello, I'm at 7:30 pm.", "hello i'm at seven thirty p m", "Hello, I'm at 7:30 pm."),
        ("Hello, I'm at 7:30 pm.", "yellow i'm at seven thirty p m", "yellow I'm at 7:30 pm."),
        ("Hello, I'm at 7:30 pm.", "hello i'm at eleven thirty p m", "Hello, I'm at eleven thirty pm."),
        ("Hello, I'm at 7:30 pm.", "hello i'm at seven the thirty p m", "Hello, I'm at seven the thirty pm."),
        ("Hello, I'm at 7:30 pm.", "hello i'm at seven thirty p", "Hello, I'm at 7:30 p"),
        ("Hello, I'm at 7:30 pm.", "oh hello um i'm at seven thirty p m uh", "oh Hello, um I'm at 7:30 pm. uh"),
        ("A drop-off (Main St.), please!", "a drop of main street peas", "A drop of (Main St.), peas"),
        ("A drop-off (Main St.), please!", "the drop off main street please", "the drop-off (Main St.), please!"),
        ("Café\n$25!", "cafe twenty five dollars", "Café\n$25!"),
        ("Café\n$25!", "cafe five dollars", "Café five dollars"),
        ("Café\n$25!", "", ""),
        ("?!", "", ""),
        ("?!", "san", "san"),
    ],
)
def test_restored(utterance, heard, expected):
    words = spoken_words(utterance, RULES)
    got = heard.split()
    assert restored(utterance, words, align([word.text for word in words], got), got)[0] == expected


@pytest.mark.parametrize(
    ("value", "heard", "plain", "written"),
    [
        ("7:30 pm", "a table for two at seven thirty p m please", "seven thirty p m", "7:30 pm"),
        ("7:30 pm", "a cable for two at seven thirty p m", "seven thirty p m", "7:30 pm"),
        ("7:30 pm", "a table for two at eleven thirty p m please", None, None),
        ("7:30 pm", "a table for two at seven thirty uh p m please", None, None),
        ("7:30 pm", "a table for two at seven thirty p please", None, None),
        ("7:30 pm", "", None, None),
        ("two", "for two", "two", "two"),
        ("two", "for too", None, None),
        (", ", "a table for two", None, None),
    ],
)
def test_values(value, heard, plain, written):
    utterance = "A table for two, at 7:30 pm, please."
    words, got = spoken_words(utterance, RULES), heard.split()
    aligned = align([word.text for word in words], got)
    start = utterance.index(value)
    for text, ranges, expected in (
        (heard, plain_ranges(got), plain),
        (*restored(utterance, words, aligned, got), written),
    ):
        found = find_span(start, start + len(value), words, aligned, ranges)
        assert (text[found.start : found.end] if found else None) == expected


def test_a_value_of_nothing_is_lost():
    words = spoken_words("a b", RULES)
    assert find_span(1, 1, words, align(["a", "b"], ["a", "b"]), plain_ranges(["a", "b"])) is None
