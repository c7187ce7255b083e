"""Spoken forms: examples of each kind of number, and what must hold for any text."""

from collections import Counter
from itertools import pairwise

import kit
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kit import cases

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import storable
from parapet.transforms.perturb.speech import spoken
from parapet.transforms.perturb.speech.spoken import Speakers, draw_of, occurrences_of, spoken_words, voice_of

# What utterances are made of, put together in ways that nobody foresaw.
PARTS = st.sampled_from(
    [
        *"0123456789,.:;/-+#$£%&@()'½°é\u0301\u00ad\ufe0f😀\0ßﬁ٣５Ⓗ№",
        *[" ", " ", "am", "pm", "a.m.", "Mr.", "St.", "Dr", "march", "th", "1st", "hr", "415", "2019", "million"],
        *[".com", "o'clock", "I", "Straße", "привет", "80's", "k"],
    ]
)
TEXTS = st.one_of(st.text(max_size=60), st.lists(PARTS, max_size=25).map("".join))


def said(utterance):
    return " ".join(word.text for word in spoken_words(utterance))


@given(TEXTS)
@example("o\u0301o\"clock's 3½4")
@example("\u03012\u0301-\u03015")
def test_words_of_any_text(utterance):
    words = spoken_words(utterance)
    for word in words:
        assert spoken.WORD.fullmatch(word.text)
        assert 0 <= word.start < word.end <= len(utterance)
    for word, after in pairwise(words):
        assert (word.start, word.end) == (after.start, after.end) or word.end <= after.start


@given(TEXTS, st.integers(0, 300))
def test_what_is_speakable_has_words(utterance, longest):
    words, reason = spoken.words_or_reason(utterance, longest)
    assert reason in ("", "empty", "script", "too_long")
    assert bool(words) == (not reason)
    if words:
        assert len(said(utterance)) <= longest
    if reason == "empty":
        assert not any(c.isascii() and c.isalpha() for c in utterance)


@given(TEXTS)
def test_what_is_spoken_is_spoken_as_it_is(utterance):
    """But "a m" and units after a number: rules for what is written, which is why references are made only once."""
    words = [word.text for word in spoken_words(utterance)]
    again = " ".join(word for word in words if word not in spoken.SPECIAL)
    assert said(again) == again


LOWER = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=8).filter(lambda word: word not in spoken.SPECIAL)


@given(st.lists(LOWER, max_size=8), st.sampled_from([" ", ", ", " - ", "/", "\0", "... ", " 😀 ", "\u2014"]))
def test_plain_words_are_said_as_they_are_written(words, between):
    utterance = between.join(words)
    found = spoken_words(utterance)
    assert ([word.text for word in found], [utterance[word.start : word.end] for word in found]) == (words, words)


@cases("utterance expected",
        # Cardinals and long runs of digits.
        ("Transfer 1,640 dollars", "transfer one thousand six hundred forty dollars"),
        ("007 12345", "zero zero seven one two three four five"),
        ("٣ ７３０ ۵", "three seven hundred thirty five"),
        # Ordinals, decimals, years.
        ("the 1st, 22nd, 1,000th", "the first twenty second one thousandth"),
        ("3.14 or .5", "three point one four or point five"),
        ("1905; 1900; 2000; 1100; 2100", "nineteen oh five nineteen hundred two thousand eleven hundred"
         " two thousand one hundred"),
        ("2-3, 10-5", "two three ten five"),
        # Money.
        ("$25.50, $1", "twenty five point five zero dollars one dollar"),
        ("$$$ for $", "for"),
        # Times.
        ("7pm, 7 AM, 7 a.m. and six am", "seven p m seven a m seven a m and six a m"),
        ("19:05 14:00", "nineteen oh five fourteen hundred"),
        ("7:00, 7:00 pm, 07:00", "seven o'clock seven p m seven o'clock"),
        ("00:15", "zero fifteen"),
        ("5 o\"clock, 5 o’clock", "five o'clock five o'clock"),
        # Dates.
        ("open 24/7", "open twenty four seven"),
        ("March 3 or jan 5, May 2019", "march third or january fifth may twenty nineteen"),
        # Symbols and units.
        ("50% & @ #105 #fun +", "fifty percent and at number one hundred five fun plus"),
        ("70°F, 5km, 1 hr, 5-min", "seventy degrees f five kilometers one hour five minutes"),
        # Abbreviations.
        ("Mr. Smith vs. Mrs. Jones", "mister smith versus missus jones"),
        ("See Dr. Who at 5th Dr. or Elm Dr.", "see doctor who at fifth drive or elm drive"),
        ("123 Main St. in St. Louis", "one hundred twenty three main street in saint louis"),
        # Letters.
        ("café, Straße, Ørsted, ﬁne, cafe\u0301", "cafe strasse orsted fine cafe"),
        ("I’m don`t rock'n'roll 'em dogs' y''all", "i'm don't rock'n'roll em dogs y all"),
        ("co\u00adop x\0y Coke™ Ⓗi 7\ufe0f\u20e3", "co op x y coke hi seven".replace("co op", "coop")),
        ("?! 😀 ♥ _ *", ""))  # fmt: skip
def test_examples(utterance, expected):
    assert said(utterance) == expected


SPEAKERS = Speakers(("heart", "fenrir", "f1"), "0", 1000)
ANY_ID = st.text(st.characters(), max_size=8) | st.sampled_from(["\ud800", "a\0b", ""])


def file_of(place, data, split="test"):
    path = kit.write(place / "dialogues_001.json", data)
    return DialogueFile(split, path.name, str(path), path.stat().st_size)


@given(ANY_ID, st.integers(0, 99), ANY_ID, st.integers(1, 99))
def test_draws_and_voices_depend_on_id_turn_and_seed_alone(name, turn, seed, longest):
    one = Speakers(("heart", "fenrir", "f1"), seed, 1000)
    other = Speakers(("x", "y", "z"), seed, longest)
    assert 0 <= draw_of(name, turn, one) < spoken.DRAWS
    assert draw_of(name, turn, one) == draw_of(name, turn, other)
    assert one.voices.index(voice_of(name, one)) == other.voices.index(voice_of(name, other))


def test_draws_and_voices_are_spread_evenly():
    draws = [draw_of(f"{d}_00001", t, SPEAKERS) for d in range(1000) for t in range(0, 20, 2)]
    assert max(draws) > 9990
    assert min(draws) < 10
    for tenth in range(10):
        assert sum(draw // 1000 == tenth for draw in draws) == pytest.approx(1000, abs=120)
    voices = Counter(voice_of(f"{d}_00001", SPEAKERS) for d in range(3000))
    assert all(n == pytest.approx(1000, abs=120) for n in voices.values())
    assert set(voices) == set(SPEAKERS.voices)
    other = Speakers(SPEAKERS.voices, "1", 1000)
    assert sum(draw_of(str(d), 0, SPEAKERS) == draw_of(str(d), 0, other) for d in range(1000)) < 5


def test_what_is_said_in_a_file(tmp_path):
    texts = {"a": ("At 7:30 pm, please.", "?!", "Yes"), "é": ("Yes",), "b": ("\u4f60\u597d",)}
    some = [
        kit.dialogue(name, *(turn for text in of for turn in (kit.turn("USER", text), kit.turn("SYSTEM", "Yes?"))))
        for name, of in texts.items()
    ]
    expected = [("a", 0, 0, "at seven thirty p m please"), ("a", 0, 4, "yes"), ("é", 1, 0, "yes")]
    assert list(occurrences_of(file_of(tmp_path, some), SPEAKERS)) == [
        (
            spoken.Utterance(voice_of(name, SPEAKERS), text),
            spoken.Occurrence("test/dialogues_001.json", position, turn, draw_of(name, turn, SPEAKERS), storable(name)),
        )
        for name, position, turn, text in expected
    ]
    single = list(occurrences_of(file_of(tmp_path, some, ""), SPEAKERS))
    assert {use.file for _, use in single} == {"dialogues_001.json"}
