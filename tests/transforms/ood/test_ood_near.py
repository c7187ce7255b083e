"""Near-duplicates against every pair compared, and what is generic."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from parapet.transforms.ood.pool import judged, merged, utterance_of
from parapet.transforms.ood.texts import InDomain, key_of, stopwords

words = st.lists(st.sampled_from(list("abcdefghij")), min_size=1, max_size=12).map(" ".join)
domains = st.sampled_from([("Bars",), ("Cars",), ("Bars", "Cars"), ("Dogs",)])


def jaccard(one: str, other: str) -> float:
    a, b = set(one.split()), set(other.split())
    return len(a & b) / len(a | b)


@given(st.lists(st.tuples(words, domains), max_size=12), words, st.one_of(st.just(()), domains))
def test_near_duplicates_are_those_of_a_loop(
    turns: list[tuple[str, tuple[str, ...]]], key: str, of: tuple[str, ...]
) -> None:
    elsewhere = [text for text, domains in turns if not of or not set(domains) & set(of)]
    assert InDomain(turns, frozenset()).is_near(key, of) == any(jaccard(key, text) >= 0.8 for text in elsewhere)


def test_four_words_in_five_are_near() -> None:
    index = InDomain([("one two three four", ())], frozenset())
    assert index.is_near("four five one three two")
    assert not index.is_near("five six one three two")
    assert not index.is_near("")


def test_what_is_generic() -> None:
    """No word that the corpus lacks, and hardly any that says what it is about."""
    turns = [("a yoga class please", ("Gyms",)), ("yoga it is", ("Gyms",)), ("is there yoga", ("Gyms",))]
    turns += [("book a room please", ("Hotels",)), ("what is your saver price", ("Hotels",))]
    index = InDomain(turns, stopwords())
    for text in ("Yes!", "Thank you very much, bye.", "tomorrow at 5 pm", "a yoga class", "Book that."):
        assert index.is_generic(key_of(text)), text
    for text in ("play jazz", "book a giraffe", "the yoga class in a room"):
        assert not index.is_generic(key_of(text)), text


def test_what_an_utterance_is_about() -> None:
    """A word that four in five of ten turns or more have in one domain is of that domain, whoever says it."""
    turns = [(f"yoga number {n}", ("Gyms",)) for n in range(8)]
    turns += [("yoga by bike", ("Bikes",)), ("yoga on a bike", ("Bikes", "Cars"))]
    turns += [(f"bike number {n}", ("Bikes", "Gyms")) for n in range(7)]
    index = InDomain(turns, stopwords())
    assert index.about(key_of("Where is the YOGA?")) == ("Gyms",)
    assert index.about("bike") == ()  # nine turns
    assert InDomain([*turns, ("bike", ("Bikes",))], stopwords()).about("a bike") == ("Bikes",)
    assert InDomain([*turns, ("yoga", ("Cars",))], stopwords()).about("yoga") == ()  # eight of eleven


def test_what_becomes_of_a_text() -> None:
    index = InDomain([("find me a cheap french restaurant", ("Restaurants",))], stopwords())
    found = {
        text: judged(utterance_of(text, "x:1"), index, None)[0]
        for text in (
            "Find me a CHEAP french restaurant!",
            "🙂 ...",
            "half \ud800 of a letter",
            "many words " * 50,
            "Okay, thanks.",
            "Why do wolves howl?",
        )
    }
    assert list(found.values()) == ["near_duplicate", "empty", "empty", "too_long", "generic", "kept"]


def test_the_same_words_are_one_utterance() -> None:
    same = [
        utterance_of("Stop!", "b:1", ("B",), ("train",)),
        utterance_of("stop", "a:2", ("A",)),
        utterance_of("STOP", "a:1", ("A",)),
    ]
    one = merged(same)
    assert (one.text, one.source, one.domains, one.splits) == ("STOP", "a:1", ("A", "B"), ("train",))
    assert merged(reversed(same)) == one


def test_a_hundred_thousand_turns() -> None:
    """As many as SGD has, each asked for: seconds, where a comparison of all pairs would take hours."""
    vocabulary = [f"w{n * n % 4999}" for n in range(5000)]
    keys = [" ".join(vocabulary[(n * step) % 5000] for step in range(3, 12)) for n in range(20_000)]
    index = InDomain([(key, ("D",)) for key in keys], frozenset())
    started = time.process_time()
    assert all(index.is_near(key) for key in keys[:2000])
    assert time.process_time() - started < 5
