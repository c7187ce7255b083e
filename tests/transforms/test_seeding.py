"""Seeded randomness: the numbers are fixed for good, and distributed as they should be."""

import hashlib
from collections import Counter
from itertools import islice
from math import prod

from hypothesis import example, given
from hypothesis import strategies as st
from kit import THOROUGH

from parapet.transforms.core import seeding
from parapet.transforms.core.seeding import NumberRng, SeededRng, StratifiedRng, key_of, stable_digest, stable_hash
from parapet.transforms.perturb.mixes import level_of, size_of, thresholds

ANY_TEXT = st.text(alphabet=st.characters(codec=None, categories=None), max_size=8)


@given(st.lists(ANY_TEXT, max_size=4), st.lists(ANY_TEXT, max_size=4))
@example(["a", "b"], ["a\0b"])
def test_hashes_depend_on_all_parts(first, second):
    """Parts are separated by a NUL, which people's ids and seeds do not contain."""
    digest = hashlib.sha256("\0".join(first).encode("utf-8", "surrogatepass"))
    assert stable_digest(*first) == digest.hexdigest()
    assert stable_hash(*first) == int.from_bytes(digest.digest()[:8], "big")
    assert (stable_hash(*first) == stable_hash(*second)) == ("\0".join(first) == "\0".join(second))


def test_numbers_are_fixed():
    """Releases depend on them: a change here changes every published set."""
    assert stable_digest("0", "e", "names", "é") == "9ecca69a1b78bbc9949aeb6e809adfaf91f37a65b2a9dc88707a90c696c3ebd0"
    assert stable_digest("1", "2", "3", "4") != stable_digest("12", "", "3", "4")
    assert list(islice(seeding.draws(key_of("0", "typos", "1_00000", "4")), 30, 34)) == [64750, 9298, 11351, 21016]
    assert [SeededRng("0", "x").below(100), NumberRng(12345).below(100)] == [26, 45]
    assert [StratifiedRng("seed", "task2", number=n).below(7) for n in range(7)] == [4, 0, 3, 6, 2, 5, 1]


def test_chances():
    rng = SeededRng("seed")
    assert not any(rng.chance(0) for _ in range(200))
    assert all(rng.chance(1) for _ in range(200))
    assert abs(sum(rng.chance(0.25) for _ in range(1000)) - 250) < 60
    assert [NumberRng(23).choice("abcde"), NumberRng(23).chance(0.24), NumberRng(23).chance(0.23)] == ["d", True, False]


@given(st.integers(1, 5000), st.text(max_size=5), st.integers(0, 10**6 if THOROUGH else 2000))
def test_stratified_choices(n, key, number):
    rng = StratifiedRng("seed", key, number=number)
    assert 0 <= rng.below(n) < n
    assert sorted(rng.shuffled(range(n % 50))) == list(range(n % 50))
    assert len(set(rng.sample(range(n), 3))) == min(n, 3)
    assert [StratifiedRng("seed", key).below(n) for _ in range(2)] == [StratifiedRng("seed", key).below(n)] * 2
    assert not rng.chance(0)
    assert rng.chance(1)
    assert rng.weighted("abc", (0.0, 1.0, 0.0)) == "b"


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.text(max_size=5))
def test_each_path_is_taken_before_one_is_taken_again(sizes, key):
    """How many branches there are may depend on the branch before, as far as its number is even or odd."""

    def path(number):
        rng, found = StratifiedRng(key, number=number), [0]
        for size in sizes:
            found.append(rng.below(size + found[-1] % 2))
        return tuple(found)

    least = prod(sizes)
    paths = [path(number) for number in range(2 * least)]
    assert len(set(paths[:least])) == least
    if len(sizes) == 1:
        assert set(Counter(paths).values()) == {2}


# Exact shares of a corpus: those of a plain sort, however turns are divided among files and workers.


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


@given(KEYS, st.integers(0, 30), st.integers(1, 6), st.randoms(use_true_random=False))
def test_exact_nested_and_however_divided(keys, others, parts, drawn):
    found = thresholds(divided(keys, others, parts, drawn), RATES)
    taken = [{key for key in keys if 0 < level_of(key, found) <= i} for i in range(1, len(RATES) + 1)]
    assert taken == [set(sorted(keys)[: size_of(rate, len(keys) + others)]) for rate in RATES]
