"""Fleiss' kappa against published examples and a slow reference; intervals against SciPy and simulation."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from parapet.evaluation.ratings.judgements import fleiss_kappa, krippendorff_alpha
from parapet.evaluation.statistics import wilson_interval

# Fleiss (1971), table 1: 30 patients, 6 psychiatrists, 5 diagnoses; it reports kappa 0.430.
PSYCHIATRISTS = """00060 03003 01401 00006 03030 20400 00402 20310 20040 00006 10050 11040 03300 10050 02031
00501 30012 51000 02040 10203 00006 01050 02013 20040 10041 05010 40002 02040 10500 00006"""
# The worked example of Wikipedia's article: 10 subjects, 14 raters, 5 categories; kappa 0.210.
WORKED = [
    *((0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1)),
    *((7, 7, 0, 0, 0), (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7)),
]


def by_pairs(counts):
    """The same from its definition: agreeing pairs of raters, against pairs drawn from all labels."""
    items = [[category for category, n in enumerate(item) for _ in range(n)] for item in counts]
    observed = np.mean([np.mean([a == b for a, b in combinations(item, 2)]) for item in items])
    labels = [label for item in items for label in item]
    expected = sum((labels.count(label) / len(labels)) ** 2 for label in set(labels))
    return None if expected == 1 else (observed - expected) / (1 - expected)


def labelled(counts):
    return [
        (f"rater {i}", item, str(label))
        for item, of_item in enumerate(counts)
        for i, label in enumerate(category for category, n in enumerate(of_item) for _ in range(n))
    ]


def test_the_published_examples():
    psychiatrists = [[int(n) for n in row] for row in PSYCHIATRISTS.split()]
    assert [sum(column) for column in zip(*psychiatrists, strict=True)] == [26, 26, 30, 55, 43]
    assert fleiss_kappa(psychiatrists) == pytest.approx(0.430, abs=5e-4)
    assert fleiss_kappa(WORKED) == pytest.approx(0.210, abs=5e-4)


@given(st.integers(2, 5), st.data())
def test_kappa_is_that_of_its_definition_and_of_nltk(raters, data):
    from nltk.metrics.agreement import AnnotationTask

    votes = data.draw(st.lists(st.lists(st.integers(0, 2), min_size=raters, max_size=raters), min_size=1, max_size=8))
    counts = [[of_item.count(category) for category in range(3)] for of_item in votes]
    slow = by_pairs(counts)
    assert fleiss_kappa(counts) == (None if slow is None else pytest.approx(slow, abs=1e-9))
    if slow is not None:
        assert AnnotationTask(labelled(counts)).pi() == pytest.approx(slow, abs=1e-9)


def test_what_is_not_defined_is_none():
    assert fleiss_kappa([]) is None
    assert fleiss_kappa([(3, 0), (3, 0)]) is None
    assert krippendorff_alpha([("a", 1, "yes"), ("b", 2, "no")]) is None
    assert krippendorff_alpha([("a", 1, "yes"), ("b", 1, "yes")]) is None
    with pytest.raises(ValueError, match="same number of raters"):
        fleiss_kappa([(3, 0), (2, 0)])


@pytest.mark.parametrize(("right", "n"), [(0, 5), (19, 25), (25, 25), (361, 400)])
def test_wilsons_interval_is_scipys(right, n):
    expected = binomtest(right, n).proportion_ci(method="wilson")
    assert wilson_interval(right, n) == pytest.approx((expected.low, expected.high))
    assert wilson_interval(0, 0) is None
