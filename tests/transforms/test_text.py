import unicodedata

from hypothesis import assume, given
from hypothesis import strategies as st

from parapet.transforms.crowd.vet import as_description
from parapet.transforms.report.text import clean, words

# What typed text has seen: spaces of all kinds, zero-width and direction marks, controls, combining marks,
# compatibility forms, fillers, surrogates, private use.
ODD = st.sampled_from(
    " \t\r\n\x00\x1b\x7f\x85\xa0\xad\u034f\u115f\u1160\u180e\u200b\u200d\u200e\u2028\u202e\u2060\u2800\u3000\u3164"
    "\ufe0f\ufeff\uffa0\ufffc\ud800\ue000\U000e0020\U000e0100aAée\u0301İıßﬁ①½ﷺ㎏ʼ'’._-中कि한ㄱ😀"
)
TEXT = st.text() | st.text(ODD, max_size=12) | st.text(st.characters(categories=None), max_size=6)

# Nothing of these is seen, whatever the font (Unicode's Default_Ignorable_Code_Point that is not of category C), nor
# is the empty braille cell.
IGNORABLE = {*"\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"} | {
    chr(c) for c in (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
}


def invisible(c):
    return c != " " and (c.isspace() or unicodedata.category(c) in {"Cc", "Cf", "Co", "Cs", "Cn"} or c in IGNORABLE)


@given(TEXT)
def test_clean_leaves_nothing_invisible_and_single_spaces(text):
    cleaned = clean(text)
    assert ([c for c in cleaned if invisible(c)], cleaned) == ([], cleaned.strip(" "))
    assert "  " not in cleaned
    assert unicodedata.is_normalized("NFKC", cleaned)


@given(TEXT)
def test_clean_is_idempotent(text):
    assert clean(clean(text)) == clean(text)


@given(st.text(st.characters(codec="ascii")))
def test_clean_loses_no_visible_ascii(text):
    assert clean(text).split() == "".join(c for c in text if c.isprintable() or c.isspace()).split()


@given(TEXT)
def test_words_are_words_and_know_no_case(text):
    found = words(text)
    assert all(word and not any(c.isspace() or c in "_'’" for c in word) for word in found)
    assert (words(" ".join(found)), words(" " + text + ".")) == (found, found)


@given(st.text(st.characters(codec="ascii")))
def test_words_of_ascii_are_its_runs_of_letters_and_digits(text):
    assert words(text) == tuple("".join(c.lower() if c.isalnum() else " " for c in text.replace("'", "")).split())


@given(TEXT.map(clean), st.sampled_from(["Where it is", "Where it is."]))
def test_as_description_changes_no_word(text, original):
    assume("ı" not in text)  # the one letter whose capital is another letter's
    written = as_description(text, original)
    assert (words(written), written) == (words(text), clean(written))
