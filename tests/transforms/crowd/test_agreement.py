from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parapet.schemas.decisions import VERDICTS, Decision
from parapet.transforms.crowd.merge import merge_reviewers


def sheet(labels, reviewer="EL", text="x"):
    return [
        Decision(f"A{i:03}:slot_0", label, text if label == "fix" else "", "", reviewer, f"{reviewer}.csv: row {i + 2}")
        for i, label in enumerate(labels)
        if label
    ]


def merged(first, second):
    return merge_reviewers(sheet(first), sheet(second, "MK"))


def kappa(pairs):
    """Cohen 1960, from the definition."""
    n = len(pairs)
    observed = Fraction(sum(a == b for a, b in pairs), n)
    one, two = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    expected = sum(Fraction(one[k] * two[k], n * n) for k in one)
    return None if expected == 1 else float((observed - expected) / (1 - expected))


def alpha(pairs):
    """Krippendorff's nominal alpha of two observers, from the coincidence matrix."""
    totals = Counter(label for pair in pairs for label in pair)
    n = sum(totals.values())
    observed = Fraction(2 * sum(a != b for a, b in pairs), n)
    expected = Fraction(sum(totals[c] * totals[k] for c in totals for k in totals if c != k), n * (n - 1))
    return None if expected == 0 else float(1 - observed / expected)


def test_krippendorffs_alpha_of_the_textbook():
    """Krippendorff, Computing Krippendorff's Alpha-Reliability, example A: binary data, two observers: 0.095."""
    word = {"0": "reject", "1": "accept"}
    meg, owen = "0100000010", "1110010000"
    agreement = merged([word[x] for x in meg], [word[x] for x in owen]).agreement
    assert agreement.krippendorff_alpha == pytest.approx(0.095, abs=5e-4)


@given(st.lists(st.tuples(st.sampled_from(["", *VERDICTS]), st.sampled_from(["", *VERDICTS])), max_size=40))
def test_both_follow_their_definitions_and_nothing_is_lost(pairs):
    result = merged([a for a, _ in pairs], [b for _, b in pairs])
    both = [(a, b) for a, b in pairs if a and b]
    agreement = result.agreement
    assert agreement.items == len(both)
    assert agreement.disagreements == len(result.adjudicate) == sum(a != b for a, b in both)
    assert len(result.agreed) + len(result.adjudicate) == len(both)
    assert len(result.single) == sum(bool(a) != bool(b) for a, b in pairs)
    if len({label for pair in both for label in pair}) < 2:
        assert agreement.cohen_kappa is agreement.krippendorff_alpha is None
        assert agreement.undefined
    else:
        assert agreement.cohen_kappa == pytest.approx(kappa(both))
        assert (agreement.krippendorff_alpha, agreement.undefined) == (pytest.approx(alpha(both)), "")


def test_the_first_of_a_reviewers_two_decisions_counts():
    result = merge_reviewers([Decision("a:b", "accept"), Decision("a:b", "reject")], [Decision("a:b", "accept")])
    assert [d.decision for d in result.agreed] == ["accept"]
