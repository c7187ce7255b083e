"""Paired tests over dialogues, held against plain loops."""

import math
import random

import numpy as np
import pytest

from parapet.evaluation import statistics
from parapet.evaluation.statistics import coins_of, holm, intervals, paired


def differences(pairs, numbers, replicates):
    """Tests system a against b: a pair of sums for each part, and the parts of each number."""
    parts = {(name, str(number)): tuple(pairs[part][i] for part in number)
             for i, name in enumerate("ab") for number in numbers}  # fmt: skip
    return paired(parts, [("a", "b")], {str(number): 100.0 for number in numbers}, "0", replicates)


def mean_of(sums):
    return sum(value for value, _ in sums.values()) / sum(n for _, n in sums.values())


def drawn(seed, n, share):
    source = random.Random(seed)
    return {f"d{i}": (float(sum(source.random() < share for _ in range(3))), 3) for i in range(n)}


def test_equal_to_a_plain_loop():
    first, second = drawn(1, 9, 0.6), drawn(2, 9, 0.4)
    second |= {"d3": (0.0, 0), "d4": (1.5, 2)}  # rows that one system does not have
    (each,) = differences([(first, second)], [[0]], 300)
    seen = 100 * (mean_of(first) - mean_of(second))
    assert each.difference == pytest.approx(seen, abs=1e-9)
    coins = {name: coins_of("0", name, 300) for name in first}
    weights = {name: statistics.weights("0", name) for name in first}
    larger, gaps = 0, []
    for r in range(300):
        one = {name: (second if coins[name][r] else first)[name] for name in first}
        other = {name: (first if coins[name][r] else second)[name] for name in first}
        larger += abs(100 * (mean_of(one) - mean_of(other))) >= abs(seen) - 1e-9
    for r in range(statistics.REPLICATES):
        heavy = [
            {name: (value * weights[name][r], n * weights[name][r]) for name, (value, n) in sums.items()}
            for sums in (first, second)
        ]
        if all(sum(n for _, n in sums.values()) for sums in heavy):
            gaps.append(100 * (mean_of(heavy[0]) - mean_of(heavy[1])))
    assert each.p == (1 + larger) / 301
    assert (each.interval, each.dialogues) == (pytest.approx(tuple(np.quantile(gaps, [0.025, 0.975])), abs=1e-6), 9)


def test_the_mean_over_parts_moves_dialogues_together():
    first, second = drawn(1, 50, 0.6), drawn(2, 50, 0.5)
    tests = differences([(first, second), (first, second)], [[0], [1], [0, 1]], 500)
    assert len({(test.difference, test.interval, test.p, test.dialogues) for test in tests}) == 1
    (mean,) = differences([(first, second), (second, first)], [[0, 1]], 500)
    assert (mean.difference, mean.p, mean.p_holm) == (0.0, 1.0, 1.0)


def test_intervals_are_those_of_a_plain_loop():
    first, second = drawn(1, 9, 0.6), {f"d{i}": (float(i % 2), 1) for i in range(4, 12)}
    values = []
    for r in range(statistics.REPLICATES):
        means = []
        for sums in (first, second):
            weights = {name: statistics.weights("s", name)[r] for name in sums}
            count = sum(n * weights[name] for name, (_, n) in sums.items())
            means.append(sum(value * weights[name] for name, (value, _) in sums.items()) / count if count else math.nan)
        values.append(sum(means) / 2)
    known = [value for value in values if not math.isnan(value)]
    found = intervals([(first,), (first, second)], "s")
    assert found[1] == pytest.approx(tuple(np.quantile(known, [0.025, 0.975])), abs=1e-9)
    assert found[0] != found[1]
    assert intervals([], "s") == []


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert (holm([0.6, 0.9]), holm([])) == (pytest.approx([1.0, 1.0]), [])
