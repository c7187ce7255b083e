"""Typos: where they may be, what they are, how often, and that nothing else moves."""

import re

from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised

from parapet.schemas.errors import InputError
from parapet.transforms.core.counts import Counts, check_invariants
from parapet.transforms.core.seeding import key_of
from parapet.transforms.perturb import mixes
from parapet.transforms.perturb import variations as varying
from parapet.transforms.perturb.edits import DECISIVE, edited, is_decisive, moved, protected_ranges, sayable
from parapet.transforms.perturb.typos import NEIGHBOURS, ROWS, Rates, abbreviations, typo_operations
from parapet.transforms.perturb.user_turns import UserTurn

MANY = Rates(word=0.6, abbreviation=0.3)
TEXTS = st.lists(
    st.one_of(
        st.sampled_from("abcdefgh tion THE'’.,!?-7$@/"),
        st.characters(),
        st.sampled_from(["é", "e\u0301", "👍🏽", "\ud83d", "ｗｉｄｅ", "\u200d", "ß", "İ"]),
    ),
    max_size=60,
).map("".join)


def operations_of(text, *spans, values=(), rates=MANY, n=0):
    return typo_operations(text, spans, values, rates, key_of("0", "typos", "1", str(n)))


def check(text, one):
    """What an operation of its kind does, written down once more."""
    before, after = text[one.start : one.end], one.text
    if one.kind == "abbreviation":
        assert abbreviations()[before.lower().replace("’", "'")] == after.lower()
        return
    assert text[one.start - 1].isascii()
    if one.kind == "lost_space":
        assert (before, after) == (" ", "")
        return
    # Never the first letter of a word, never a letter of others than ASCII.
    assert re.fullmatch("[a-z]+", before)
    assert re.fullmatch("[A-Za-z]", text[one.start - 1])
    if one.kind == "omission":
        assert (len(before), after) == (1, "")
    elif one.kind == "doubling":
        assert after == before * 2
    elif one.kind == "transposition":
        assert after == before[::-1] != before
    else:
        assert one.kind == "neighbour"
        assert after in NEIGHBOURS[before]


@given(TEXTS, st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=3), st.integers(0, 99))
def test_any_text(text, drawn, n):
    spans = [(start, start + length) for start, length in drawn if start + length <= len(text)]
    made = operations_of(text, *spans, n=n)
    new = edited(text, made)  # raises where they overlap or are out of order
    for one in made:
        check(text, one)
        assert not any(start < one.end and one.start < end for start, end in spans)
    for start, end in spans:
        place = moved(start, end, made)
        assert place is not None
        assert new[slice(*place)] == text[start:end]
    # What is no ASCII letter or blank is there as before, in its order.
    rest = re.compile("[A-Za-z ]|(?<=[0-9])[A-Za-z]")
    if all(one.kind != "abbreviation" for one in made):
        assert rest.sub("", new) == rest.sub("", text)


@given(st.lists(st.sampled_from(sorted(DECISIVE)), min_size=1, max_size=8), st.integers(0, 50))
def test_words_that_decide_stay(words, n):
    assert operations_of(" ".join(words), n=n) == []


def test_what_is_made_decides_nothing_either():
    """ "now" may lose its last letter, "note" its last, "then" its second: they would say no, not, ten."""
    for n in range(300):
        for word in ("now", "note", "then", "tow", "knot", "done", "nigh"):
            made = edited(word, operations_of(word, rates=Rates(word=1.0, abbreviation=0.0), n=n))
            assert made != word
            assert not is_decisive(made)


def test_values_may_be_perturbed_within_their_span():
    text, spans = "Play the Northern Lights again by candlelight", [(9, 24)]
    values = sayable(["Northern Lights", "candlelight"])
    seen = set()
    for n in range(200):
        made = typo_operations(text, spans, values, MANY, key_of("0", "v", "1", str(n)), perturb_values=True)
        place = moved(*spans[0], made)
        assert place is not None
        new = edited(text, made)
        seen.add(new[slice(*place)])
        assert new.endswith("by candlelight") or new.endswith("bycandlelight")
    assert len(seen) > 20
    assert "Northern Lights" in seen
    assert protected_ranges(text, spans, values, perturb_values=True) == [(34, 45)]


def test_one_at_least():
    for n in range(50):
        made = operations_of("Could you find me another nice restaurant somewhere", rates=Rates(0, 0), n=n)
        assert len(made) == 1


def test_keys_side_by_side():
    letters = "".join(row for row, _ in ROWS)
    assert sorted(letters) == sorted("abcdefghijklmnopqrstuvwxyz")
    for letter in letters:
        assert letter not in NEIGHBOURS[letter]
        assert all(letter in NEIGHBOURS[other] for other in NEIGHBOURS[letter])
    assert set(NEIGHBOURS["g"]) == set("tyfhvb") | set(NEIGHBOURS["g"]) & set("r")
    assert set("qs") <= set(NEIGHBOURS["a"])
    assert "p" not in NEIGHBOURS["a"]


def test_abbreviations_are_words_that_decide_nothing():
    assert len(abbreviations()) >= 40
    for word, short in abbreviations().items():
        assert not is_decisive(word), word
        assert not is_decisive(short), short
        assert len(short) < len(word)
        assert re.fullmatch(r"[a-z]+(?:'[a-z]+)?", word)
    every = Rates(word=0, abbreviation=1)
    assert edited("Thanks, you’re great", operations_of("Thanks, you’re great", rates=every)) == "Thx, ur gr8"
    assert not {"da", "dat", "dis", "dem", "lyk"} & set(abbreviations().values())


@cases(
    "text kept values",
    ("Then echo notes.txt && cat 'my file'", "echo notes.txt && cat 'my file'", ()),
    ("Save it as csv, json or .docx", "csv, json or .docx", ()),
    ("Run `make all` with x = alpha", "`make all`|x = alpha", ()),
    ("Are there museums for kids?", "museums", ("Museum",)),
)
def test_what_is_no_word(text, kept, values):
    """Code with the words beside it, quotations, extensions; and categorical values, which have no span."""
    for n in range(200):
        new = edited(text, operations_of(text, values=sayable(values), n=n))
        assert all(part in new for part in kept.split("|")), new


def test_no_typo_is_another_word():
    for n in range(300):
        for word, other in (("fair", "far"), ("help", "hell"), ("and", "an"), ("form", "from")):
            assert edited(word, operations_of(word, rates=Rates(word=1.0, abbreviation=0.0), n=n)) != other


# Env sets: the order of turns, what must hold of the sets, and the flags.


@given(st.integers(0, 40))
def test_places_differ_though_ids_do_not(turns):
    """Where ids occur twice, file and position decide."""
    said = [UserTurn(f"{i // 7 % 3}", i % 7, "", (), (), frozenset(), (), ()) for i in range(turns)]
    places = [mixes.order_of("0", turn, (f"file{i // 30}", i // 7)) for i, turn in enumerate(said)]
    assert (len(set(places)), len({place[:16] for place in places})) == (turns, min(turns, 21))


RIGHT = {
    **{("dialogues", ""): 3, ("left_out", ""): 1, ("dialogues", "typos"): 2, ("dialogues", "typos-env1"): 2},
    **{("turns", "typos"): 10, ("varied", "typos"): 6, ("varied", "typos-env1"): 5},
}


def check_counts(**changed):
    variations = varying.Typos(env=["0.5"])
    counts = Counts()
    for (name, set_name), n in RIGHT.items():
        split = "test" if set_name else ""
        counts.add(name, changed.get(f"{name}_{set_name}".replace("-", "_"), n), set=set_name, split=split)
    check_invariants(counts, variations.invariants())


def test_balance():
    check_counts()
    nothing = {"varied_typos": 0, "varied_typos_env1": 0}
    raised(InputError, check_counts, **nothing, match="none of the user turns could be varied")
    varied = [("varied_typos_env1", 4), ("varied_typos_env1", 6)]
    for name, n in [("turns_typos", 13), ("dialogues_", 4), *varied, ("dialogues_typos_env1", 3)]:
        raised(RuntimeError, check_counts, **{name: n}, match="do not balance")


def test_flags_read():
    assert mixes.parse_rates("0.5, 0.10", "--env") == varying.Typos(env="0.5, 0.10").envs == ["0.10", "0.5"]
    assert varying.Typos(env="none").envs == varying.Typos().envs == []
    for wrong in ("", "none", "x", "nan", "inf", "0", "0.1,0.10"):
        raised(InputError, mixes.parse_rates, wrong, "--env", match="--env: .* must be different numbers above 0")
    assert varying.kinds_of("simple,typos", None) == ["simple", "typos"]
    rates = varying.parse_rates("word=0.2")
    assert (rates.word, rates.abbreviation) == (0.2, 0.15)
    for wrong in ("wrod=1", "word", "word=x", "word=2", "word=nan", "word=0.9,abbreviation=0.2"):
        raised(InputError, varying.parse_rates, wrong, match="--rates")
