"""Paired tests over dialogues, held against plain loops."""

from __future__ import annotations

import math
import random
from itertools import product

import numpy as np
import pytest

from parapet.evaluation import bootstrap
from parapet.evaluation.compare.results import Sums
from parapet.evaluation.compare.significance import coins_of, differences, holm


def mean_of(sums: Sums) -> float:
    return sum(value for value, _ in sums.values()) / sum(n for _, n in sums.values())


def drawn(seed: int, n: int, share: float) -> Sums:
    source = random.Random(seed)
    return {f"d{i}": (float(sum(source.random() < share for _ in range(3))), 3) for i in range(n)}


def test_equal_to_a_plain_loop() -> None:
    first, second = drawn(1, 9, 0.6), drawn(2, 9, 0.4)
    second |= {"d3": (0.0, 0), "d4": (1.5, 2)}  # rows that one system does not have
    ((each, mean),) = differences([[(first, second)]], [100.0], "0", 300)
    seen = 100 * (mean_of(first) - mean_of(second))
    assert each == [mean]
    assert each[0].difference == pytest.approx(seen, abs=1e-9)
    coins = {name: coins_of("0", name, 300) for name in first}
    weights = {name: bootstrap.weights("0", name) for name in first}
    larger, gaps = 0, []
    for r in range(300):
        one = {name: (second if coins[name][r] else first)[name] for name in first}
        other = {name: (first if coins[name][r] else second)[name] for name in first}
        larger += abs(100 * (mean_of(one) - mean_of(other))) >= abs(seen) - 1e-9
    for r in range(bootstrap.REPLICATES):
        heavy = [
            {name: (value * weights[name][r], n * weights[name][r]) for name, (value, n) in sums.items()}
            for sums in (first, second)
        ]
        if all(sum(n for _, n in sums.values()) for sums in heavy):
            gaps.append(100 * (mean_of(heavy[0]) - mean_of(heavy[1])))
    assert each[0].p == (1 + larger) / 301
    assert each[0].interval == pytest.approx(tuple(np.quantile(gaps, [0.025, 0.975])), abs=1e-6)
    assert each[0].dialogues == 9


def test_near_the_exact_permutation_test() -> None:
    first = {f"d{i}": (value, 1) for i, value in enumerate([1.0, 0.9, 0.8, 1.0, 0.7, 0.9, 0.2])}
    second = {f"d{i}": (value, 1) for i, value in enumerate([0.5, 0.8, 0.2, 0.9, 0.8, 0.1, 0.4])}
    gaps = [first[name][0] - second[name][0] for name in first]
    exact = sum(
        abs(sum(sign * gap for sign, gap in zip(signs, gaps, strict=True))) >= abs(sum(gaps)) - 1e-9
        for signs in product((1, -1), repeat=len(gaps))
    ) / 2 ** len(gaps)
    ((each, _),) = differences([[(first, second)]], [1.0], "seed", 20_000)
    assert each[0].p == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 20_000))


def test_a_system_against_itself_and_one_that_is_better_throughout() -> None:
    first = drawn(1, 200, 0.5)
    better = {name: (value + 0.3, n) for name, (value, n) in first.items()}
    pairs = [[(first, first)], [(better, first)], [(first, better)]]
    (same, _), (up, _), (down, _) = differences(pairs, [1.0], "0", 999)
    assert (same[0].difference, same[0].interval, same[0].p) == (0.0, (0.0, 0.0), 1.0)
    assert (up[0].p, down[0].p) == (0.001, 0.001)
    assert up[0].difference == pytest.approx(0.1)
    assert up[0].difference == -down[0].difference
    assert up[0].interval == pytest.approx((0.1, 0.1))


def test_p_is_uniform_where_nothing_differs() -> None:
    found = []
    for i in range(60):
        pairs = [[(drawn(2 * i, 40, 0.5), drawn(2 * i + 1, 40, 0.5))]]
        ((each, _),) = differences(pairs, [1.0], str(i), 199)
        found.append(each[0].p)
    assert 0.35 < sum(found) / len(found) < 0.68
    assert sum(p < 0.1 for p in found) <= 14


def test_neither_order_nor_other_dialogues_and_pairs_matter() -> None:
    first, second = drawn(1, 150, 0.6), drawn(2, 150, 0.5)
    backwards = dict(reversed(first.items())), dict(reversed(second.items()))
    ((alone, _),) = differences([[(first, second)]], [1.0], "0", 500)
    more = [[(drawn(3, 9, 0.5), drawn(4, 9, 0.5)), backwards], [backwards, backwards]]
    assert alone[0] == differences(more, [1.0, 1.0], "0", 500)[0][0][1]
    ((other, _),) = differences([[(first, second)]], [1.0], "1", 500)
    assert other[0].difference == alone[0].difference
    assert other[0] != alone[0]


def test_the_mean_over_metrics_moves_dialogues_together() -> None:
    first, second = drawn(1, 50, 0.6), drawn(2, 50, 0.5)
    ((each, mean),) = differences([[(first, second), (first, second)]], [1.0, 1.0], "0", 500)
    assert each[0] == each[1] == mean
    ((each, mean),) = differences([[(first, second), (second, first)]], [1.0, 1.0], "0", 500)
    assert (mean.difference, mean.p) == (0.0, 1.0)


def test_coins_are_fair_and_of_the_dialogue() -> None:
    heads = np.stack([coins_of("0", f"d{i}", 1001) for i in range(100)])
    assert set(np.unique(heads)) == {0, 1}
    assert abs(heads.mean() - 0.5) < 0.01
    assert (coins_of("0", "d1", 7) == heads[1][:7]).all()
    assert not (coins_of("1", "d1", 1001) == heads[1]).all()
    assert len(coins_of("0", "\ud800", 9)) == 9


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert holm([0.6, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []
