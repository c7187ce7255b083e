"""Exact shares of a corpus: those of a plain sort, however turns are divided among files and workers."""

from hypothesis import given
from hypothesis import strategies as st

from parapet.transforms.perturbation.base import level_of, size_of, thresholds

RATES = ("0.1", "0.5", "0.8")
WIDTH = 4
# Of few different first bytes, so that buckets are shared, and of any.
KEYS = st.one_of(
    st.lists(st.binary(min_size=2, max_size=2).map(b"\0\7".__add__), max_size=60, unique=True),
    st.lists(st.binary(min_size=WIDTH, max_size=WIDTH), max_size=60, unique=True),
)


def divided(keys, others, parts, drawn):
    """Keys in random order in so many parts; ``others`` are turns that cannot be taken."""
    shuffled = drawn.sample(keys, len(keys))
    of_parts = [shuffled[i::parts] for i in range(parts)]
    return [(len(part) + len(range(i, others, parts)), part) for i, part in enumerate(of_parts)]


def reference(keys, turns):
    """The turns of each rate by a plain sort of all of them."""
    return [set(sorted(keys)[: size_of(rate, turns)]) for rate in RATES]


@given(KEYS, st.integers(0, 30), st.integers(1, 6), st.randoms(use_true_random=False))
def test_exact_nested_and_however_divided(keys, others, parts, drawn):
    divided_keys = divided(keys, others, parts, drawn)
    found = thresholds(divided_keys, RATES)
    taken = [{key for key in keys if 0 < level_of(key, found) <= i} for i in range(1, len(RATES) + 1)]
    assert taken == reference(keys, len(keys) + others)
