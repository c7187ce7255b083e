"""What chance does to numbers: pass^k, the noise floor, noise in sensitivity, systems compared with themselves."""

from itertools import combinations
from statistics import fmean, stdev

import numpy as np
import pytest
from kit import cases

from parapet.evaluation.statistics import floor_of_difference, noise_floor, paired, pass_power, sensitivities


def drawn(seed, shares, times):
    """Right or wrong answers to items, each with its share of right ones: shape (times, items)."""
    return (np.random.default_rng(seed).random((times, len(shares))) < shares).astype(float)


def test_pass_power_is_the_mean_over_all_choices_of_runs():
    runs = drawn(0, np.linspace(0, 1, 12), 5)
    for k in range(1, 6):
        chosen = [fmean(runs[list(some)].all(axis=0)) for some in combinations(range(5), k)]
        assert pass_power([int(n) for n in runs.sum(axis=0)], 5, k) == pytest.approx(fmean(chosen))


def contributions(runs):
    return [{f"t{i}": value / len(run) for i, value in enumerate(run)} for run in runs], [run.mean() for run in runs]


def test_the_noise_floor_by_hand():
    # One item of four is right in one of two runs: its variance is 1/2, that of the share of right items 1/32.
    assert noise_floor(*contributions(np.array([[1, 0, 1, 1], [1, 0, 1, 0]]))) == pytest.approx(1.96 / 4, abs=1e-4)
    assert noise_floor(*contributions(np.ones((3, 5)))) == pytest.approx(0, abs=1e-9)
    # Runs that are right everywhere or nowhere do not vary item by item, so their own deviation counts.
    runs = np.repeat([[1.0], [0.0]], 100, axis=1)
    assert noise_floor(*contributions(runs)) == pytest.approx(12.71 * 2**0.5 * stdev([0, 1]))
    runs = np.repeat([[1.0], [0.0], [1.0]], 100, axis=1)
    assert noise_floor(*contributions(runs)) == pytest.approx(4.30 * 2**0.5 * stdev([0, 1, 1]))
    assert floor_of_difference(0.3, 0.4) == pytest.approx(0.25 * 2**0.5)


@cases("items runs", (40, 2), (40, 5), (300, 3))
def test_one_difference_in_twenty_exceeds_the_noise_floor(items, runs):
    shares = np.random.default_rng(items).random(items)
    exceeded = []
    for seed in range(600):
        *known, first, second = drawn(seed, shares, runs + 2)
        floor = noise_floor(*contributions(known))
        exceeded.append(abs(first.mean() - second.mean()) > floor + 1e-9)
    assert fmean(exceeded) == pytest.approx(0.05, abs=0.025)


def coefficient(values):
    return stdev(values) / fmean(values) if any(values) else 0.0


def test_sensitivity_of_some_wordings_at_a_time():
    values = drawn(1, np.linspace(0, 0.9, 9), 5)
    columns = [list(column) for column in values.T]
    assert sensitivities(values, 5) == pytest.approx([*map(coefficient, columns)])
    some = [[[*column, *column][start : start + 3] for start in range(5)] for column in columns]
    assert sensitivities(values, 3) == pytest.approx([fmean(map(coefficient, windows)) for windows in some])
    known = [[coefficient(window) for window in windows if any(window)] for windows in some]
    assert not all(known)
    expected = [fmean(of_item) if of_item else np.nan for of_item in known]
    assert sensitivities(values, 3, "drop") == pytest.approx(expected, nan_ok=True)


def test_noise_has_no_excess_over_repeats():
    """An agent that is right by chance: the variants of its tools vary as much as repeats of the original."""
    shares = np.random.default_rng(2).random(40)
    excess, published = [], []
    for seed in range(300):
        answers = drawn(seed, shares, 8)
        published.append(sensitivities(answers[:5], 5).mean())
        excess.append(fmean(sensitivities(answers[:5], 3) - sensitivities(answers[5:], 3)))
    assert fmean(published) > 0.5
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
                    floors[name, str(column)] = noise_floor(*contributions(runs)) / len(runs) ** 0.5
        tests = paired(parts, [("a", "b")], {str(n): 100.0 for n in range(6)}, str(seed), 400, floors)
        different += any(not test.is_noise for test in tests)
    assert different <= 8  # of 100; more than 8 have a chance of 6 % if 5 of 100 are expected
