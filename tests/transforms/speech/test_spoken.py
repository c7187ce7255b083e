"""Spoken forms: examples of each kind of number, and what must hold for any text and any file of rules."""

import pickle
import time
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parapet.schemas.errors import InputError
from parapet.transforms.perturbations.speech import spoken
from parapet.transforms.perturbations.speech.spoken import WORD, Word, load_normalisation, spoken_words, unspeakable

RULES = load_normalisation()
BUNDLED = Path(spoken.__file__).with_name("normalisation.toml").read_text(encoding="utf-8")

# What utterances are made of, put together in ways that nobody foresaw.
PARTS = st.sampled_from(
    [
        *"0123456789,.:;/-+#$£%&@()'½°é\u0301\u00ad\ufe0f😀\0ßﬁ٣５Ⓗ№",
        *[
            " ",
            " ",
            "am",
            "pm",
            "a.m.",
            "Mr.",
            "St.",
            "Dr",
            "march",
            "th",
            "1st",
            "hr",
            "415",
            "2019",
            "million",
            ".com",
        ],
        *["o'clock", "I", "Straße", "привет", "80's", "k"],
    ]
)
TEXTS = st.one_of(st.text(max_size=60), st.lists(PARTS, max_size=25).map("".join))


def said(utterance: str) -> str:
    return " ".join(word.text for word in spoken_words(utterance, RULES))


@settings(deadline=None, max_examples=250)
@given(TEXTS)
@example("o\u0301o\"clock's 3½4")
@example("\u03012\u0301-\u03015")
def test_words_of_any_text(utterance):
    words = spoken_words(utterance, RULES)
    for word in words:
        assert WORD.fullmatch(word.text)
        assert 0 <= word.start < word.end <= len(utterance)
    for word, after in pairwise(words):
        assert (word.start, word.end) == (after.start, after.end) or word.end <= after.start


@settings(deadline=None, max_examples=250)
@given(TEXTS, st.integers(0, 300))
def test_what_is_speakable_has_words(utterance, longest):
    reason = unspeakable(utterance, RULES, longest)
    assert reason in (None, "empty", "script", "too_long")
    if reason is None:
        assert 1 <= len(said(utterance)) <= longest
    if reason == "empty":
        assert not any(c.isascii() and c.isalnum() for c in utterance)


@settings(deadline=None, max_examples=150)
@given(TEXTS)
def test_what_is_spoken_is_spoken_as_it_is(utterance):
    """But "a m" and units after a number: rules for what is written, which is why references are made only once."""
    words = [word.text for word in spoken_words(utterance, RULES)]
    again = " ".join(word for word in words if word not in RULES.special)
    assert said(again) == again


LOWER = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=8).filter(lambda word: word not in RULES.special)


@settings(deadline=None)
@given(st.lists(LOWER, max_size=8), st.sampled_from([" ", ", ", " - ", "/", "\0", "... ", " 😀 ", "\u2014"]))
def test_plain_words_are_said_as_they_are_written(words, between):
    utterance = between.join(words)
    found = spoken_words(utterance, RULES)
    assert [word.text for word in found] == words
    assert [utterance[word.start : word.end] for word in found] == words


@pytest.mark.parametrize(
    ("utterance", "expected"),
    [
        # Cardinals and long runs of digits.
        ("6 people or 1,000", "six people or one thousand"),
        ("Transfer 1,640 dollars", "transfer one thousand six hundred forty dollars"),
        ("655 and 5434", "six hundred fifty five and five thousand four hundred thirty four"),
        ("0 or 00", "zero or zero zero"),
        ("007 12345", "zero zero seven one two three four five"),
        ("2,5 and 1,2345", "two five and one two thousand three hundred forty five"),
        ("٣ ７３０ ۵", "three seven hundred thirty five"),
        # Ordinals, decimals, years.
        ("the 1st, 22nd, 1,000th", "the first twenty second one thousandth"),
        ("3.14 or .5", "three point one four or point five"),
        ("version 1.2.3", "version one point two point three"),
        ("in 2019, 2005", "in twenty nineteen two thousand five"),
        ("1905; 1900; 2000; 1100; 2100", "nineteen oh five nineteen hundred two thousand eleven hundred"
         " two thousand one hundred"),
        ("the 1990s, 1900s, 80's", "the nineteen nineties nineteen hundreds eighties"),
        ("-5 or 2-3, 10-5", "minus five or two to three ten five"),
        ("2½ or 1/2 or 2 1/2 or 3/4", "two and one half or one half or two and one half or three quarters"),
        # Money.
        ("$25", "twenty five dollars"),
        ("$25.50, $1.01, $0.99", "twenty five dollars and fifty cents one dollar and one cent ninety nine cents"),
        ("£1 or 25€ or ¥500", "one pound or twenty five euros or five hundred yen"),
        ("$5 million, $1.5k, $1170", "five million dollars one point five thousand dollars one thousand one hundred"
         " seventy dollars"),
        ("$25-$30", "twenty five dollars to thirty dollars"),
        ("$$$ for $", "for"),
        # Times.
        ("7:30 pm", "seven thirty p m"),
        ("7pm, 7 AM, 7 a.m. and six am", "seven p m seven a m seven a m and six a m"),
        ("which one am I", "which one am i"),
        ("19:05 14:00", "nineteen oh five fourteen hundred"),
        ("7:00, 7:00 pm, 07:00", "seven o'clock seven p m seven o'clock"),
        ("00:15 0:00", "zero fifteen midnight"),
        ("5 o\"clock, 5 o’clock", "five o'clock five o'clock"),
        ("7pm-9pm", "seven p m to nine p m"),
        ("around 18:30.I would", "around eighteen thirty i would"),
        # Dates.
        ("3/14", "march fourteenth"),
        ("2019-03-14", "march fourteenth twenty nineteen"),
        ("14/3/2019 or 12-31-19", "march fourteenth twenty nineteen or december thirty first nineteen"),
        ("open 24/7", "open twenty four seven"),
        ("March 3 or jan 5-7, May 2019", "march third or january fifth to seventh may twenty nineteen"),
        # Numbers that are dialled.
        ("415-555-1234", "four one five five five five one two three four"),
        ("(415) 555-1234", "four one five five five five one two three four"),
        ("+1 415 555 1234", "plus one four one five five five five one two three four"),
        ("555-1234", "five five five one two three four"),
        # Symbols and units.
        ("50% & @ #105 #fun +", "fifty percent and at number one hundred five fun plus"),
        ("AT&T", "at and t"),
        ("70°F, 5km, 1 hr, 5-min", "seventy degrees f five kilometers one hour five minutes"),
        ("a@example.com", "a at example dot com"),
        # Abbreviations.
        ("Mr. Smith vs. Mrs. Jones", "mister smith versus missus jones"),
        ("See Dr. Who at 5th Dr. or Elm Dr.", "see doctor who at fifth drive or elm drive"),
        ("123 Main St. in St. Louis", "one hundred twenty three main street in saint louis"),
        ("1538 Third Ave", "fifteen thirty eight third avenue"),
        # Letters.
        ("café, Straße, Ørsted, ﬁne, cafe\u0301", "cafe strasse orsted fine cafe"),
        ("I’m don`t rock'n'roll 'em dogs' y''all", "i'm don't rock'n'roll em dogs y all"),
        ("take-out and/or 4star", "take out and or four star"),
        ("co\u00adop x\0y Coke™ Ⓗi 7\ufe0f\u20e3", "co op x y coke hi seven".replace("co op", "coop")),
        ("?! 😀 ♥ _ *", ""),
    ],
)  # fmt: skip
def test_examples(utterance, expected):
    assert said(utterance) == expected


@pytest.mark.parametrize(
    ("utterance", "expected"),
    [
        ("At $25.50!", [("At", "at"), ("$25.50", "twenty five dollars and fifty cents")]),
        ("7:30pm", [("7:30", "seven thirty"), ("pm", "p m")]),
        ("7 p.m.", [("7", "seven"), ("p.m.", "p m")]),
        ("2-3", [("2", "two"), ("-", "to"), ("3", "three")]),
        ("😀 cafe\u0301 ß７", [("cafe\u0301", "cafe"), ("ß", "ss"), ("７", "seven")]),
        ("Mr. X", [("Mr", "mister"), ("X", "x")]),
        ("ﬁne1", [("ﬁne", "fine"), ("1", "one")]),
    ],
)
def test_where_words_come_from(utterance, expected):
    pieces: dict[tuple[int, int], list[str]] = {}
    for word in spoken_words(utterance, RULES):
        pieces.setdefault((word.start, word.end), []).append(word.text)
    assert [(utterance[start:end], " ".join(words)) for (start, end), words in pieces.items()] == expected


@pytest.mark.parametrize(
    ("utterance", "reason"),
    [
        ("", "empty"),
        ("?!", "empty"),
        ("😀 ❤️", "empty"),
        (" \0\n", "empty"),
        ("&", "empty"),
        ("привет", "script"),
        ("book 北京 please", "script"),
        ("א", "script"),
        ("7", None),
        ("١٢٣", None),
        ("naïve", None),
        ("a" * 101, "too_long"),
        ("9" * 50, "too_long"),  # five characters each
        ("9" * 20, None),
    ],
)
def test_unspeakable(utterance, reason):
    assert unspeakable(utterance, RULES, 100) == reason


@pytest.mark.parametrize(
    "unit", ["9", "1,111", ",111", "1.", "1 ", "123 ", "123-", "1/", "$", "$1", "a'", "a.m", "-", "(", "é"]
)
def test_huge_texts_take_no_huge_time(unit):
    started = time.perf_counter()
    spoken_words(unit * 10_000, RULES)
    assert time.perf_counter() - started < 5  # a fifth of a second: squares would take a minute
    assert unspeakable(unit * 10_000, RULES, 1000) == "too_long"


def test_a_number_of_4000_digits():
    assert spoken_words("9" * 4000, RULES) == [Word("nine", 0, 4000)] * 4000
    assert said("9," + ",".join(["999"] * 100)).startswith("nine nine")


def test_rules_travel_between_processes():
    said("7")  # what is made of the rules is at hand, and does not travel
    again = pickle.loads(pickle.dumps(RULES))
    assert again == RULES
    assert spoken_words("$7 & Mr. X", again) == spoken_words("$7 & Mr. X", RULES)


def test_a_file_of_ones_own(tmp_path):
    tables = tomllib.loads(BUNDLED)
    own = tmp_path / "own.toml"
    own.write_text(BUNDLED.replace('mr = "mister"', 'mr = "sir"').replace('zero = "zero"', 'zero = "oh"'))
    rules = load_normalisation(own)
    assert [word.text for word in spoken_words("Mr. 007", rules)] == ["sir", "oh", "oh", "seven"]
    for name in (
        "abbreviations",
        "before_names",
        "after_names",
        "symbols",
        "units",
        "currencies",
        "scales",
        "fractions",
    ):
        del tables[name]
    sayings = [f'{key} = "{value}"' for key, value in tables["sayings"].items()]
    months = f"names = {tables['months']['names']}"
    own.write_text("\n".join(['version = "x"', "[sayings]", *sayings, "[months]", months]))
    rules = load_normalisation(own)
    words = " ".join(word.text for word in spoken_words("mr $5 & 6km 1/2 +1 415-555-1234", rules))
    assert words == "mr five six km january second one four one five five five five one two three four"


@pytest.mark.parametrize(
    ("old", "new", "where", "reason"),
    [
        ('version = "1"', "version = 1", "version", "Expected `str`"),
        ('version = "1"', 'version = " "', "version", "is empty"),
        ('version = "1"', "", "", "missing required field `version`"),
        ('version = "1"', "version", "", "not TOML"),
        ('mr = "mister"', 'mr = "Mister"', "abbreviations.mr", "cannot be said"),
        ('mr = "mister"', 'mr = ""', "abbreviations.mr", "cannot be said"),
        ('mr = "mister"', '"m.r" = "mister"', "abbreviations.m.r", "not a word"),
        ('"december",', "", "months.names", "twelve"),
        ('"&" = "and"', '"a" = "and"', "symbols.a", "not one character"),
        ('"¥" = ["yen", "yen"]', '"¥" = ["yen"]', "currencies.¥", "two names"),
        ('"¥" = ["yen", "yen"]', '"¥" = ["yen", "Yen"]', "currencies.¥[1]", "cannot be said"),
        ('"1/2" = ', '"½" = ', "fractions.½", "form 1/2"),
        ("[units]", "[unit]", "", "unknown field `unit`"),
        ('hr = ["hour", "hours"]', 'hr = ["hour"]', "units[...]", "length 2"),
    ],
)
def test_a_bad_file(old, new, where, reason, tmp_path):
    path = tmp_path / "own.toml"
    assert old in BUNDLED
    path.write_text(BUNDLED.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_normalisation(path)
    assert (caught.value.path, caught.value.where) == (str(path), where)
    assert reason in caught.value.reason


def test_no_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_normalisation(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(InputError, match="not UTF-8 at byte 0"):
        load_normalisation(tmp_path / "bytes.toml")
