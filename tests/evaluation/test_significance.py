"""Intervals, paired tests and agreement against plain loops and SciPy, and what chance does to a system's numbers."""

import math
import random
from itertools import combinations
from statistics import fmean, stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised
from scipy.stats import binomtest

from parapet.evaluation import statistics
from parapet.evaluation.ratings.task import fleiss_kappa, krippendorff_alpha
from parapet.evaluation.statistics import wilson_interval


def differences(pairs, numbers, replicates):
    """Tests system a against b: a pair of sums for each part, and the parts of each number."""
    parts = {(name, str(number)): tuple(pairs[part][i] for part in number)
             for i, name in enumerate("ab") for number in numbers}  # fmt: skip
    return statistics.paired(parts, [("a", "b")], {str(number): 100.0 for number in numbers}, "0", replicates)


def mean_of(sums, weight=lambda name: 1):
    count = sum(n * weight(name) for name, (_, n) in sums.items())
    return sum(value * weight(name) for name, (value, _) in sums.items()) / count if count else math.nan


def sums_of(seed, n, share):
    source = random.Random(seed)
    return {f"d{i}": (float(sum(source.random() < share for _ in range(3))), 3) for i in range(n)}


def test_equal_to_a_plain_loop():
    first, second = sums_of(1, 9, 0.6), sums_of(2, 9, 0.4)
    second |= {"d3": (0.0, 0), "d4": (1.5, 2)}  # rows that one system does not have
    (each,) = differences([(first, second)], [[0]], 300)
    difference = 100 * (mean_of(first) - mean_of(second))
    assert each.difference == pytest.approx(difference, abs=1e-9)
    coins = {name: statistics.coins_of("0", name, 300) for name in first}
    drawn = {name: statistics.weights("0", name) for name in first}
    larger = 0
    for r in range(300):
        ours = {name: (second if coins[name][r] else first)[name] for name in first}
        theirs = {name: (first if coins[name][r] else second)[name] for name in first}
        larger += abs(100 * (mean_of(ours) - mean_of(theirs))) >= abs(difference) - 1e-9
    weighted = [[mean_of(sums, lambda name: drawn[name][r]) for sums in (first, second)] for r in range(1000)]  # noqa: B023
    gaps = [100 * (ours - theirs) for ours, theirs in weighted]
    assert each.p == (1 + larger) / 301
    assert (each.interval, each.dialogues) == (pytest.approx(np.nanquantile(gaps, [0.025, 0.975]), abs=1e-6), 9)


def test_the_mean_over_parts_moves_dialogues_together():
    first, second = sums_of(1, 50, 0.6), sums_of(2, 50, 0.5)
    tests = differences([(first, second), (first, second)], [[0], [1], [0, 1]], 500)
    assert len({(test.difference, test.interval, test.p, test.dialogues) for test in tests}) == 1
    (mean,) = differences([(first, second), (second, first)], [[0, 1]], 500)
    assert (mean.difference, mean.p, mean.p_holm) == (0.0, 1.0, 1.0)


def test_intervals_are_those_of_a_plain_loop():
    first, second = sums_of(1, 9, 0.6), {f"d{i}": (float(i % 2), 1) for i in range(4, 12)}
    drawn = {name: statistics.weights("s", name) for name in {**first, **second}}
    values = [fmean(mean_of(sums, lambda name: drawn[name][r]) for sums in (first, second)) for r in range(1000)]  # noqa: B023
    of_first, of_both = statistics.intervals([(first,), (first, second)], "s")
    assert of_both == pytest.approx(np.nanquantile(values, [0.025, 0.975]), abs=1e-9)
    assert of_first != of_both
    assert statistics.intervals([], "s") == []


def test_holm_by_hand():
    assert statistics.holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert (statistics.holm([0.6, 0.9]), statistics.holm([])) == (pytest.approx([1.0, 1.0]), [])


def test_weighted_sums_are_exact():
    random = np.random.default_rng(3)
    for high in (2**20, 2**46, 2**54):
        values = random.integers(0, high, (statistics.CHUNK, 5, 2))
        drawn = random.poisson(1.0, (statistics.CHUNK, 30))
        assert (statistics.weighted(drawn, values) == np.einsum("dr,dsc->rsc", drawn, values)).all()
        assert (statistics.weighted(drawn, -values) == -np.einsum("dr,dsc->rsc", drawn, values)).all()


def test_the_bootstrap_has_the_spread_of_a_mean():
    values = np.random.default_rng(7).normal(0.6, 0.2, 400)
    replicates = statistics.replicated("0", [(list(map(str, range(400))), values)], 2000)
    error = 1.96 * np.std(values, ddof=1) / math.sqrt(400)
    between = statistics.interval(statistics.means(replicates)[:, 0])
    assert between == pytest.approx((values.mean() - error, values.mean() + error), abs=error / 8)
    assert statistics.interval(np.array([math.nan])) is None


def drawn(seed, shares, times):
    """Right or wrong answers to items, each with its share of right ones: shape (times, items)."""
    return (np.random.default_rng(seed).random((times, len(shares))) < shares).astype(float)


def test_pass_power_is_the_mean_over_all_choices_of_runs():
    runs = drawn(0, np.linspace(0, 1, 12), 5)
    for k in range(1, 6):
        chosen = [fmean(runs[list(some)].all(axis=0)) for some in combinations(range(5), k)]
        assert statistics.pass_power([int(n) for n in runs.sum(axis=0)], 5, k) == pytest.approx(fmean(chosen))


def contributions(runs):
    return [{f"t{i}": value / len(run) for i, value in enumerate(run)} for run in runs], [run.mean() for run in runs]


@cases(
    "runs floor",
    # One item of four is right in one of two runs: its variance is 1/2, that of the share of right items 1/32.
    ([[1, 0, 1, 1], [1, 0, 1, 0]], 1.96 / 4),
    ([[1] * 5] * 3, 0),
    # Runs that are right everywhere or nowhere do not vary item by item, so their own deviation counts.
    ([[1] * 100, [0] * 100], 12.71 * 2**0.5 * stdev([0, 1])),
    ([[1] * 100, [0] * 100, [1] * 100], 4.30 * 2**0.5 * stdev([0, 1, 1])),
)
def test_the_noise_floor_by_hand(runs, floor):
    assert statistics.noise_floor(*contributions(np.array(runs, float))) == pytest.approx(floor, abs=1e-4)
    assert statistics.floor_of_difference(0.3, 0.4) == pytest.approx(0.25 * 2**0.5)


@cases("items runs", (40, 2), (40, 5), (300, 3))
def test_one_difference_in_twenty_exceeds_the_noise_floor(items, runs):
    shares = np.random.default_rng(items).random(items)
    exceeded = []
    for seed in range(600):
        *known, first, second = drawn(seed, shares, runs + 2)
        exceeded.append(abs(first.mean() - second.mean()) > statistics.noise_floor(*contributions(known)) + 1e-9)
    assert fmean(exceeded) == pytest.approx(0.05, abs=0.025)


def coefficient(values):
    return stdev(values) / fmean(values) if any(values) else 0.0


def test_sensitivity_of_some_wordings_at_a_time():
    values = drawn(1, np.linspace(0, 0.9, 9), 5)
    columns = [list(column) for column in values.T]
    assert statistics.sensitivities(values, 5) == pytest.approx([*map(coefficient, columns)])
    some = [[[*column, *column][start : start + 3] for start in range(5)] for column in columns]
    assert statistics.sensitivities(values, 3) == pytest.approx([fmean(map(coefficient, windows)) for windows in some])
    known = [[coefficient(window) for window in windows if any(window)] for windows in some]
    assert not all(known)
    expected = [fmean(of_item) if of_item else np.nan for of_item in known]
    assert statistics.sensitivities(values, 3, "drop") == pytest.approx(expected, nan_ok=True)


def test_noise_has_no_excess_over_repeats():
    """An agent that is right by chance: the variants of its tools vary as much as repeats of the original."""
    shares = np.random.default_rng(2).random(40)
    answers = [drawn(seed, shares, 8) for seed in range(300)]
    assert fmean(statistics.sensitivities(runs[:5], 5).mean() for runs in answers) > 0.5
    excess = [fmean(statistics.sensitivities(runs[:5], 3) - statistics.sensitivities(runs[5:], 3)) for runs in answers]
    assert fmean(excess) == pytest.approx(0, abs=0.02)


@cases("first second", (1, 1), (3, 1))
def test_a_system_is_rarely_called_different_from_itself(first, second):
    """Two times the same random system, on six sets: in at most one comparison of twenty is any set different."""
    shares = np.random.default_rng(3).random(60)
    different = 0
    for seed in range(100):
        parts, floors = {}, {}
        for column in range(6):
            answers = drawn(100 * seed + column, shares, first + second)
            for name, runs in (("a", answers[:first]), ("b", answers[first:])):
                parts[name, str(column)] = tuple({f"t{i}": (v, 1) for i, v in enumerate(run)} for run in runs.tolist())
                if len(runs) > 1:
                    floors[name, str(column)] = statistics.noise_floor(*contributions(runs)) / len(runs) ** 0.5
        tests = statistics.paired(parts, [("a", "b")], {str(n): 100.0 for n in range(6)}, str(seed), 400, floors)
        different += any(not test.is_noise for test in tests)
    assert different <= 8  # of 100; more than 8 have a chance of 6 % if 5 of 100 are expected


# Fleiss' kappa against published examples and a slow reference; Wilson's interval.


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
    labels = [[label for label, n in enumerate(of_item) for _ in range(n)] for of_item in counts]
    return [(f"rater {i}", item, str(one)) for item, some in enumerate(labels) for i, one in enumerate(some)]


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
    raised(ValueError, fleiss_kappa, [(3, 0), (2, 0)], match="same number of raters")


@pytest.mark.parametrize(("right", "n"), [(0, 5), (19, 25), (25, 25), (361, 400)])
def test_wilsons_interval_is_scipys(right, n):
    expected = binomtest(right, n).proportion_ci(method="wilson")
    assert wilson_interval(right, n) == pytest.approx((expected.low, expected.high))
    assert wilson_interval(0, 0) is None
