"""Pronunciations: phones that the acoustic model knows, the CMU dictionary's where it has them, else eSpeak's."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("espeakng_loader")
pytest.importorskip("pocketsphinx")

from parapet.transforms.perturbations.speech.embedded import acoustic_model, library
from parapet.transforms.perturbations.speech.language_model import PHONES, arpabet, dictionary, read_dictionary

CMU = acoustic_model().with_name("cmudict-en-us.dict")


@pytest.fixture(scope="module")
def known():
    return read_dictionary(CMU)


@pytest.fixture(scope="module")
def phones():
    """Of the dictionary; each of them is a phone of the acoustic model itself."""
    found = {phone for line in CMU.read_text().splitlines() for phone in line.split()[1:]}
    model = (acoustic_model() / "mdef").read_bytes()
    assert {phone for phone in found if b"\0" + phone.encode() + b"\0" not in model} <= {"AA"}  # the first, after \n
    assert len(found) == 39
    return found


def greedy(ipa: str) -> str:
    """The longest that fits, from the left; what fits nothing is passed over."""
    found, at = [], 0
    while at < len(ipa):
        fits = [n for n in (4, 3, 2, 1) if ipa[at : at + n] in PHONES and at + n <= len(ipa)]
        if fits:
            found.append(PHONES[ipa[at : at + fits[0]]])
        at += fits[0] if fits else 1
    return " ".join(found)


IPA = st.lists(st.sampled_from([*PHONES, "ˈ", "ˌ", "ː", "\u0329", " ", "?", "中"]), max_size=12).map("".join)


@settings(deadline=None)
@given(IPA)
def test_the_longest_phone_that_fits_is_taken(ipa):
    assert arpabet(ipa) == greedy(ipa)


def test_only_phones_that_the_recogniser_knows(phones, known):
    assert {phone for said in PHONES.values() for phone in said.split()} == phones
    made_up = ["zorbleflax", "sushi", "coachella", "o'clock", "x", "qwxyz"]
    for word in [*made_up, *random.Random(0).sample(sorted(known), 300)]:
        ipa = library().phonemes(word)
        assert set(arpabet(ipa).split()) <= phones
        assert arpabet(ipa), word
        # Nothing but stress, length, blanks and the mark of a syllable is left out.
        left = ipa
        for phone in sorted(PHONES, key=len, reverse=True):
            left = left.replace(phone, "")
        assert not set(left) - set("ˈˌː \u0329"), (word, ipa)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("sushi", "S UW SH IY"),
        ("cheese", "CH IY Z"),
        ("judge", "JH AH JH"),
        ("thing", "TH IH NG"),
        ("boy", "B OY"),
        ("house", "HH AW S"),
        ("vision", "V IH ZH AH N"),
    ],
)
def test_words_as_everybody_says_them(word, said):
    assert arpabet(library().phonemes(word)) == said


def test_a_dictionary_is_read_line_by_line(tmp_path, known):
    path = tmp_path / "small.dict"
    path.write_text("a AH\na(2) EY\no'clock  AH K L AA K\nb\tB IY\n\ncafé K AE F EY\n", encoding="utf-8")
    assert read_dictionary(path) == {
        "a": ["AH", "EY"],
        "o'clock": ["AH K L AA K"],
        "b": ["B IY"],
        "café": ["K AE F EY"],
    }
    plain: dict[str, list[str]] = {}
    for line in CMU.read_text().splitlines():
        word, *spoken = line.split()
        plain.setdefault(re.sub(r"\(\d+\)$", "", word), []).append(" ".join(spoken))
    assert known == plain


def test_known_words_keep_all_their_pronunciations_and_others_are_espeaks(known):
    several = sorted((word for word in known if len(known[word]) > 2), key=lambda word: word[::-1])[:50]
    words = ["zorbleflax", *several, "sushi", "blorptown", *several]
    text, made = dictionary(iter(words), known)
    assert made == ["blorptown", "zorbleflax"]
    found: dict[str, list[str]] = {}
    lines = text.splitlines()
    for line in lines:
        entry, phones = line.split(" ", 1)
        word = entry.partition("(")[0]
        found.setdefault(word, []).append(phones)
        n = len(found[word])
        assert entry == (word if n == 1 else f"{word}({n})")
    for word in {*several, "sushi"}:
        assert found.pop(word) == known[word]
    assert found == {word: [arpabet(library().phonemes(word))] for word in made}
    assert text.endswith("\n")
    assert dictionary(reversed(words), known) == (text, made)


def test_what_cannot_be_said_has_no_entry(known):
    assert dictionary(["'", "hello"], {"hello": ["HH"]}) == ("hello HH\n", [])
    assert dictionary([], known) == ("", [])
