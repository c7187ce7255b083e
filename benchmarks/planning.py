"""Does ``parapet plan`` keep its word? Studies with known effects are planned from a pilot, drawn, and tested.

An answer is right if a sum of normal effects exceeds a threshold: effects of the dialogue and the item, shared by both
systems or of one alone; of an item's wording; and of the run. So the difference of the accuracies is known exactly. The
planned number of dialogues is drawn many times, and each study is tested as ``parapet compare`` does: whole dialogues
change places by chance. With fewer than 100 dialogues the plan is cautious, and more studies succeed than planned.
"""

from __future__ import annotations

import math
import sys
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parapet.evaluation.planning import Study, Variance, estimate

STUDIES, PILOT, REPLICATES = 4000, 40_000, 9999
_BATCH = 400  # studies that share their coins
TOLERANCE = 0.03
SMALL = 100  # dialogues: plans with fewer are cautious
_BETWEEN_WORDINGS = 0.15  # how much harder each wording is than the one before it

Real = NDArray[np.float64]


class Scenario(NamedTuple):
    """Two systems, or the original and other wordings of one.

    Attributes:
      accuracy: of the second; the first is better by ``difference``, in a wording of medium difficulty.
      shares: the shares of the variance: dialogue, item, system's dialogue, system's item, wording of an item; the rest
        is the run's.
      items: the mean number of items of a dialogue; 1 for tasks.
      of_one: whether the first is the original of the second.
      from_flips: whether the share of flips is guessed, without other parts of the pilot.
    """

    name: str
    accuracy: float
    difference: float
    shares: tuple[float, float, float, float, float]
    items: int = 1
    wordings: int = 1
    repeats: int = 1
    power: float = 0.8
    comparisons: int = 1
    of_one: bool = False
    from_flips: bool = False


SCENARIOS = [
    Scenario("tasks, half right, no noise", 0.5, 0.1, (0.0, 0.6, 0.0, 0.4, 0.0)),
    Scenario("tasks, 60 % right", 0.6, 0.05, (0.0, 0.6, 0.0, 0.2, 0.0)),
    Scenario("tasks, 88 % right, few flips", 0.88, 0.03, (0.0, 0.85, 0.0, 0.05, 0.0)),
    Scenario("tasks, guessed flips", 0.7, 0.08, (0.0, 0.5, 0.0, 0.3, 0.0), from_flips=True),
    Scenario("tasks, 5 runs", 0.6, 0.05, (0.0, 0.3, 0.0, 0.2, 0.0), repeats=5),
    Scenario("dialogues of 6 turns", 0.4, 0.05, (0.3, 0.1, 0.3, 0.1, 0.0), items=6),
    Scenario("dialogues of 12 turns, large effect", 0.3, 0.15, (0.2, 0.1, 0.4, 0.1, 0.0), items=12),
    Scenario("dialogues, 5 wordings", 0.5, 0.04, (0.2, 0.1, 0.1, 0.1, 0.4), items=6, wordings=5),
    Scenario("dialogues, 5 wordings, 3 runs", 0.5, 0.04, (0.2, 0.1, 0.1, 0.1, 0.2), items=6, wordings=5, repeats=3),
    Scenario("the same, 10 comparisons", 0.5, 0.06, (0.2, 0.1, 0.1, 0.1, 0.2), 6, 5, 3, comparisons=10),
    Scenario("original and 5 wordings, 3 runs", 0.5, 0.05, (0.2, 0.3, 0.0, 0.0, 0.2), 3, 5, 3, of_one=True),
    Scenario("tasks, power 90 %", 0.7, 0.06, (0.0, 0.5, 0.0, 0.3, 0.0), power=0.9),
    Scenario("tasks, large effect, small study", 0.3, 0.4, (0.0, 0.3, 0.0, 0.3, 0.0)),
]


def thresholds(scenario: Scenario) -> tuple[Real, float]:
    """Returns the means of the two in each wording, shape (wordings, 2), and the exact difference of accuracies."""
    normal = NormalDist()
    first = normal.inv_cdf(scenario.accuracy + scenario.difference)
    harder = _BETWEEN_WORDINGS * (np.arange(scenario.wordings) - (scenario.wordings - 1) / 2)
    means = np.stack([first - (0 if scenario.of_one else 1) * harder, normal.inv_cdf(scenario.accuracy) - harder], 1)
    shares = np.vectorize(normal.cdf)(means)
    return means, float((shares[:, 0] - shares[:, 1]).mean())


def draw(
    scenario: Scenario, dialogues: int, repeats: int, random: np.random.Generator
) -> tuple[Real, NDArray[np.intp]]:
    """Draws right and wrong answers, of shape (wordings, repeats, 2, items), and the dialogue of each item."""
    sizes = 1 + random.poisson(scenario.items - 1, dialogues)
    place = np.repeat(np.arange(dialogues), sizes)
    dialogue, item, own_dialogue, own_item, wording = np.sqrt(scenario.shares)
    run = math.sqrt(max(1 - sum(scenario.shares), 0))
    n, wordings, systems = len(place), scenario.wordings, 1 if scenario.of_one else 2
    shared = dialogue * random.standard_normal(dialogues)[place] + item * random.standard_normal(n)
    own = own_dialogue * random.standard_normal((systems, dialogues))[:, place]
    own = own + own_item * random.standard_normal((systems, n))
    # An effect of the wording for each system; the original of one system has one, and one answer in each run.
    worded = wording * random.standard_normal((wordings, 1, 2, n))
    noise = run * random.standard_normal((wordings, repeats, 2, n))
    if scenario.of_one:
        worded[:, :, 0], noise[:, :, 0] = worded[:1, :, 0], noise[:1, :, 0]
    means, _ = thresholds(scenario)
    return (means[:, None, :, None] + shared + own + worded + noise > 0).astype(float), place


def plan(scenario: Scenario, random: np.random.Generator, dialogues: int = PILOT) -> tuple[int, float]:
    """Plans the number of dialogues from a pilot; returns also the share of flips in it."""
    results, place = draw(scenario, dialogues, max(scenario.repeats, 2), random)
    differences = results[:, :, 0] - results[:, :, 1]
    flips = float((differences != 0).mean())
    _, difference = thresholds(scenario)
    variance = Variance(flips, has_difference=True) if scenario.from_flips else estimate(differences, place)
    alpha = 0.05 / scenario.comparisons
    study = Study(variance, scenario.wordings, scenario.repeats, scenario.power, alpha)
    return study.dialogues(difference), flips


def p_values(sums: Real, random: np.random.Generator) -> Real:
    """Tests studies as ``parapet compare`` does, which swaps the systems' results on each dialogue by a random coin.

    Args:
      sums: the difference of each dialogue, summed over its items: shape (studies, dialogues).
      random: draws the coins.
    """
    values = []
    for batch in np.array_split(sums, math.ceil(len(sums) / _BATCH)):
        coins = random.integers(0, 2, (REPLICATES, batch.shape[1]), np.int8).astype(np.float32) * 2 - 1
        extreme = np.abs(coins @ batch.T) >= np.abs(batch.sum(axis=1)) - 1e-4  # of whole numbers, and thirds or fifths
        values.append((1 + extreme.sum(axis=0)) / (1 + REPLICATES))
    return np.concatenate(values)


def power(scenario: Scenario, dialogues: int, random: np.random.Generator, count: int = STUDIES) -> float:
    """Returns the share of studies in which the difference is significant."""
    sums = np.empty((count, dialogues), np.float32)
    for study in sums:
        results, place = draw(scenario, dialogues, scenario.repeats, random)
        differences = (results[:, :, 0] - results[:, :, 1]).mean(axis=(0, 1))
        study[:] = np.bincount(place, differences, dialogues)
    return float((p_values(sums, random) <= 0.05 / scenario.comparisons).mean())


def is_kept(scenario: Scenario, dialogues: int, reached: float) -> bool:
    """Whether the power is within three points of the planned one, or above it in a small study."""
    excess = reached - scenario.power
    return excess >= -TOLERANCE and (excess <= TOLERANCE or dialogues < SMALL)


def main() -> int:
    """Prints the power of each scenario; returns 1 if a plan is not kept."""
    random, misses = np.random.default_rng(66), 0
    print(f"{'':38}{'flips':>7}{'points':>8}{'dialogues':>11}{'planned':>9}{'reached':>9}")
    for scenario in SCENARIOS:
        dialogues, flips = plan(scenario, random)
        reached = power(scenario, dialogues, random)
        _, difference = thresholds(scenario)
        misses += not is_kept(scenario, dialogues, reached)
        numbers = f"{flips:7.1%}{100 * difference:8.1f}{dialogues:11,}"
        print(f"{scenario.name:38}{numbers}{scenario.power:9.0%}{reached:9.1%}", flush=True)
    print(f"{misses} of {len(SCENARIOS)} plans are not kept within {100 * TOLERANCE:.0f} points")
    return int(misses > 0)


if __name__ == "__main__":
    sys.exit(main())
