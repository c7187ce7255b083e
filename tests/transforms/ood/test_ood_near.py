"""Near-duplicates against every pair compared, what is generic."""

from hypothesis import given
from hypothesis import strategies as st

from parapet.transforms.perturbations.ood.language import Vocabulary, WordCounts, key_of
from parapet.transforms.perturbations.ood.pool import Compared, judged, merged, near_duplicates, utterance_of

domains = st.sampled_from([("Bars",), ("Cars",), ("Bars", "Cars"), ("Dogs",)])
# Few words, so that sets are near; short sets, and long ones with a few words less or more.
short = st.frozensets(st.integers(0, 9), min_size=1, max_size=10)
long = st.builds(
    lambda size, less, more: frozenset(range(size)) - less | more,
    st.integers(36, 56),
    st.frozensets(st.integers(0, 55), max_size=8),
    st.frozensets(st.integers(100, 108), max_size=8),
).filter(bool)
sets = st.one_of(short, long)


def vocabulary_of(turns):
    """Of (key, domains of its dialogue)."""
    counts = WordCounts()
    same = {}
    for key, of in turns:
        same.setdefault(frozenset(key.split()), set()).add(of)
    for tokens, spoken_in in same.items():
        counts.add(tokens, spoken_in)
    return Vocabulary(counts)


def jaccard(one, other):
    return len(one & other) / len(one | other)


@given(
    st.lists(st.tuples(sets, st.lists(domains, min_size=1, max_size=2)), max_size=12),
    st.lists(st.tuples(sets, st.one_of(st.just(()), domains)), max_size=5),
)
def test_near_duplicates_are_those_of_a_loop(turns, asked):
    spoken_in = {}
    for tokens, of in turns:
        spoken_in.setdefault(tokens, set()).update(of)
    ids = {}
    for i, (tokens, of) in enumerate(asked):
        ids.setdefault(tokens, []).append((i, of))
    texts = [
        Compared(tuple(sorted(tokens)), tuple(sorted(spoken_in.get(tokens, ()))), tuple(ids.get(tokens, ())))
        for tokens in spoken_in.keys() | ids.keys()
    ]
    found = set(near_duplicates(texts))
    wanted = {
        i
        for i, (tokens, of) in enumerate(asked)
        if any(
            jaccard(tokens, other) >= 0.8
            for other, dialogues in spoken_in.items()
            if not of or any(not {*of} & {*one} for one in dialogues)
        )
    }
    assert found == wanted


def test_what_an_utterance_is_about():
    """A word that four in five of ten turns or more have in one domain is of that domain, whoever says it."""
    turns = [(f"yoga number {n}", ("Gyms",)) for n in range(8)]
    turns += [("yoga by bike", ("Bikes",)), ("yoga on a bike", ("Bikes", "Cars"))]
    turns += [(f"bike number {n}", ("Bikes", "Gyms")) for n in range(7)]
    index = vocabulary_of(turns)
    assert index.about(key_of("Where is the YOGA?")) == ("Gyms",)
    assert index.about("bike") == ()  # nine turns
    assert vocabulary_of([*turns, ("bike", ("Bikes",))]).about("a bike") == ("Bikes",)
    assert vocabulary_of([*turns, ("yoga", ("Cars",))]).about("yoga") == ()  # eight of eleven


def test_what_becomes_of_a_text():
    vocabulary = vocabulary_of([("find me a cheap french restaurant", ("Restaurants",))])
    found = {
        text: judged(utterance_of(text, "x:1"), vocabulary, None)
        for text in ("🙂 ...", "many words " * 50, "Okay, thanks.", "Why do wolves howl?")
    }
    assert [one.status for one in found.values()] == ["empty", "too_long", "generic", "kept"]
    assert [one.unless_near for one in found.values()] == [False, False, True, True]


def test_the_same_words_are_one_utterance():
    same = [utterance_of("stop", "a:2", ("A",)), utterance_of("STOP", "a:1", ("A",))]
    same.insert(0, utterance_of("Stop!", "b:1", ("B",), ("train",)))
    one = merged(same)
    assert (one.text, one.source, one.domains, one.splits) == ("STOP", "a:1", ("A", "B"), ("train",))
    assert merged(reversed(same)) == one
