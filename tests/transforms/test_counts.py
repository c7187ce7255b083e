"""Typed counts, and what must hold of them."""

import pickle

from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised

from parapet.transforms.core.counts import Balance, CountKey, Counts, Exact, Zero, check_invariants

NAMES = st.sampled_from(["turns", "dialogues", "reason"])
PARTS = st.sampled_from(["", "typos", "test", "no_rule"])
KEYS = st.builds(CountKey, NAMES, PARTS, PARTS, PARTS)
RATE_OF_AVAILABLE = Exact("varied", "turns", "r", lambda n: n // 2, total_set="k", available="able")


def counts_of(**numbers):
    """``dialogues__typos`` is of the set typos."""
    counts = Counts()
    for name, n in numbers.items():
        counts.add(*name.split("__")[:1], n, set="".join(name.split("__")[1:]))
    return counts


@given(st.dictionaries(KEYS, st.integers(1, 9)))
def test_sums_are_those_of_a_plain_loop(numbers):
    counts = Counts.of_pairs((tuple(key), n) for key, n in numbers.items())
    assert counts.sum("turns") == sum(n for key, n in numbers.items() if key.name == "turns")
    of_typos = (n for key, n in numbers.items() if key[:3] == ("turns", "typos", ""))
    assert counts.sum("turns", set="typos", split="") == sum(of_typos)
    by_value = counts.by("value", "reason")
    assert list(by_value) == sorted({key.value for key in numbers if key.name == "reason"})
    assert (sum(by_value.values()), pickle.loads(pickle.dumps(counts))) == (counts.sum("reason"), counts)


@given(st.dictionaries(KEYS, st.integers(1, 9)))
def test_a_manifest_has_the_counts_without_a_value(numbers):
    assert Counts.of_json(Counts(numbers).as_json()) == {key: n for key, n in numbers.items() if not key.value}


@cases("invariant counts wrong",
        (Balance("turns", ("changed", "kept")), counts_of(turns=4, changed=1, kept=2), ["turns"]),
        (Balance("dialogues", ("dialogues",), ("a", "b"), shared=("left_out",)),
         counts_of(dialogues=3, dialogues__a=2, dialogues__b=3, left_out=1), ["dialogues of b"]),
        (Balance("turns", ("kept",), ("a", "b"), by_set=True), counts_of(turns__a=3, turns__b=2, kept__a=3, kept__b=3),
         ["turns of b"]),
        (Zero("leaks", "values that occur in training"), counts_of(leaks=1), ["values that occur in training"]),
        (Exact("ood", "turns", "r", lambda n: n // 2, total_set="r"), counts_of(ood__r=3, turns__r=5), ["ood of r"]),
        (Exact("ood", "turns", "r", lambda n: n // 2, total_set="r"), counts_of(turns__r=5), ["ood of r"]),
        (RATE_OF_AVAILABLE, counts_of(varied__r=1, turns__k=6, able__k=1), []),
        (RATE_OF_AVAILABLE, counts_of(varied__r=3, turns__k=6, able__k=4), []),
        (RATE_OF_AVAILABLE, counts_of(varied__r=1, turns__k=6, able__k=4), ["varied of r"]),
        (RATE_OF_AVAILABLE, counts_of(varied__r=2, turns__k=6, able__k=1), ["varied of r"]))  # fmt: skip
def test_invariants(invariant, counts, wrong):
    assert list(invariant(counts)) == wrong
    if wrong:
        raised(RuntimeError, check_invariants, counts, [invariant], match=f"do not balance for {wrong[0]}")
    else:
        check_invariants(counts, [invariant])
