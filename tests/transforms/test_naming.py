"""Words of names, conventions of names, and tables as TOML."""

import re
import tomllib
import unicodedata
from itertools import pairwise

from hypothesis import assume, given
from hypothesis import strategies as st
from kit import cases

from parapet.transforms.core.inputs import toml_of
from parapet.transforms.crowd.vet import as_description
from parapet.transforms.report.text import Convention, clean, find_convention, join_words, name_words, words

FORM = {
    Convention.SNAKE: r"[a-z0-9]+(_[a-z0-9]+)*",
    Convention.CAMEL: r"[A-Z][A-Za-z0-9]*",
    Convention.LOWER_CAMEL: r"[a-z0-9][A-Za-z0-9]*",
    Convention.KEBAB: r"[a-z0-9]+(-[a-z0-9]+)*",
    Convention.DOMAIN_SLOT: r"hotel-[a-z0-9]+(_[a-z0-9]+)*",
}
ORIGINAL = {convention: "hotel-pricerange" if convention is Convention.DOMAIN_SLOT else "" for convention in Convention}
CONVENTIONS = st.sampled_from(Convention)
WORD = st.text(st.sampled_from("abcxyz019"), min_size=1, max_size=5)
TYPED = st.text() | st.text(st.sampled_from("abYZ09 _-'’.é\u0301ﬁ½ß中😀\x00\n"), max_size=14)


def written(text, convention):
    return join_words(name_words(text), convention, ORIGINAL[convention])


@given(st.lists(WORD, min_size=1, max_size=5), st.sampled_from(["_", "-", " ", " - ", "__"]))
def test_words_come_back_however_they_were_joined(parts, between):
    assert name_words(between.join(parts)) == tuple(parts)


@given(TYPED, CONVENTIONS)
def test_a_canonical_name_has_its_conventions_form_or_is_empty(text, convention):
    name = written(text, convention)
    assert re.fullmatch(FORM[convention], name) or (name == "" and name_words(text) == ())


@given(TYPED, CONVENTIONS)
def test_a_canonical_name_stays_as_it_is(text, convention):
    if convention in (Convention.CAMEL, Convention.LOWER_CAMEL):
        # "PlanAB" may be plan, a, b or plan, ab: capitals side by side are not told apart again.
        parts = name_words(text)
        assume(not any(re.fullmatch("[a-z] [a-z]([0-9].*)?", f"{a} {b}") for a, b in pairwise(parts)))
    name = written(text, convention)
    assert written(name, convention) == name


@given(TYPED, st.sampled_from([Convention.CAMEL, Convention.LOWER_CAMEL]))
def test_single_letters_side_by_side_settle_at_the_second_time(text, convention):
    once = written(text, convention)
    twice = written(once, convention)
    assert (written(twice, convention), twice.lower()) == (twice, once.lower())


@given(st.lists(WORD, min_size=1, max_size=5))
def test_conventions_that_part_words_by_marks_give_the_words_back(parts):
    for convention in (Convention.SNAKE, Convention.KEBAB):
        assert name_words(join_words(parts, convention)) == tuple(parts)
    domain, *others = name_words(join_words(parts, Convention.DOMAIN_SLOT, "hotel-area"))
    assert (domain, others) == ("hotel", parts)


@given(st.lists(st.text(st.sampled_from("abcz"), min_size=2, max_size=5), min_size=1, max_size=5))
def test_camel_words_of_letters_come_back(parts):
    for convention in (Convention.CAMEL, Convention.LOWER_CAMEL):
        assert name_words(join_words(parts, convention)) == tuple(parts)


@cases(
    "names convention",
    (["city", "name"], Convention.SNAKE),
    (["find-nearby-events", "book", "get-the-weather"], Convention.KEBAB),
    (["hotel-area", "hotel-pricerange", "train-leave_at", "train-day"], Convention.DOMAIN_SLOT),
    (["hotel-area", "price-range", "train-day"], Convention.KEBAB),
    (["FindEvents", "BookTable", "get_weather"], Convention.CAMEL),
    ([], Convention.SNAKE),
    (["", "Ünnamed thing"], Convention.SNAKE),
)
def test_find_convention(names, convention):
    assert find_convention(names) is convention
    assert find_convention(iter(names[::-1])) is convention


@given(st.lists(st.lists(st.text(st.sampled_from("abcz"), min_size=2, max_size=4), min_size=2, max_size=4), min_size=1))
def test_the_convention_of_names_that_all_follow_one_is_found(names):
    for convention in (Convention.SNAKE, Convention.CAMEL, Convention.LOWER_CAMEL):
        assert find_convention(join_words(parts, convention) for parts in names) is convention


def test_names_of_the_corpora_are_canonical_already(sample, real_data):
    from parapet.schemas.layout import read_root, services_by_name

    for root in (sample, real_data / "sgd"):
        services = services_by_name(read_root(root)).values()
        slots = {slot.name for service in services for slot in service.slots}
        intents = {intent.name for service in services for intent in service.intents}
        assert find_convention(slots) is Convention.SNAKE
        assert find_convention(intents) is Convention.CAMEL
        assert {name for name in slots if written(name, Convention.SNAKE) != name} == set()
        assert {name for name in intents if written(name, Convention.CAMEL) != name} == set()


# Tables as TOML are read again as they were.


PLAIN = st.text() | st.integers(-(2**40), 2**40) | st.booleans() | st.floats(-1e6, 1e6) | st.lists(st.text())
KEYS = st.text(max_size=5)


def tables(inner):
    one = st.dictionaries(KEYS, inner, max_size=3)
    return one | st.lists(one, max_size=2)


@given(st.dictionaries(KEYS, st.recursive(PLAIN, tables, max_leaves=6), max_size=3))
def test_toml_is_read_again(table):
    assert tomllib.loads(toml_of(table)) == table


@cases(
    "name found",
    ("BookAHotel", "book a hotel"),
    ("pickup_date", "pickup date"),
    ("FindATMNearMe", "find atm near me"),
    ("Driver's license", "drivers license"),
    ("Café_São", "cafe sao"),
    ("5star hotel2", "5star hotel2"),
    ("is_4x4Car", "is 4x4 car"),
    ("  __ a -- b ..", "a b"),
    ("中文", ""),
)
def test_name_words(name, found):
    assert name_words(name) == tuple(found.split())


# Texts as people type them.


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
def test_clean_leaves_nothing_invisible_and_single_spaces_and_is_idempotent(text):
    cleaned = clean(text)
    assert ([c for c in cleaned if invisible(c)], cleaned) == ([], cleaned.strip(" "))
    assert "  " not in cleaned
    assert unicodedata.is_normalized("NFKC", cleaned)
    assert clean(cleaned) == cleaned


@given(st.text(st.characters(codec="ascii")))
def test_ascii_is_cleaned_of_what_is_not_printable_and_its_words_are_runs_of_letters_and_digits(text):
    assert clean(text).split() == "".join(c for c in text if c.isprintable() or c.isspace()).split()
    assert words(text) == tuple("".join(c.lower() if c.isalnum() else " " for c in text.replace("'", "")).split())


@given(TEXT)
def test_words_are_words_and_know_no_case(text):
    found = words(text)
    assert all(word and not any(c.isspace() or c in "_'’" for c in word) for word in found)
    assert (words(" ".join(found)), words(" " + text + ".")) == (found, found)


@given(TEXT.map(clean), st.sampled_from(["Where it is", "Where it is."]))
def test_as_description_changes_no_word(text, original):
    assume("ı" not in text)  # the one letter whose capital is another letter's
    written = as_description(text, original)
    assert (words(written), written) == (words(text), clean(written))
