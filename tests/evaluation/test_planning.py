"""Planning: variances by their definition, numbers by the formula, and the power that planned studies reach."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from compare_folders import intents, states
from kit import raised, write

from benchmarks.planning import REPLICATES, SCENARIOS, is_kept, p_values, plan, power, thresholds
from parapet.evaluation.compare.significance import paired
from parapet.evaluation.planning import Goal, Variance, analyse, guessed, read_pilot, studies
from parapet.schemas.errors import InputError

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def needed(variance, goal, wordings=1, repeats=1, dialogues=None):
    (study,) = studies(variance, goal, (wordings,), (repeats,), dialogues)
    return study


def test_the_number_of_examples_is_that_of_mcnemars_test():
    """Connor 1987, with the correction for continuity: 15 % flips, of which 9 % are won and 6 % are lost."""
    normal = NormalDist()
    z_level, z_power = normal.inv_cdf(0.975), normal.inv_cdf(0.8)
    expected = (z_level * math.sqrt(0.15) + z_power * math.sqrt(0.15 - 0.03**2)) ** 2 / 0.03**2 + 2 / 0.03
    assert needed(guessed(0.03, 0.6, 0.15), Goal(0.03)).dialogues == math.ceil(expected) == 1373
    z_level, z_power = normal.inv_cdf(1 - 0.05 / 2 / 10), normal.inv_cdf(0.9)
    expected = (z_level * math.sqrt(0.15) + z_power * math.sqrt(0.15 - 0.03**2)) ** 2 / 0.03**2 + 2 / 0.03
    assert needed(guessed(0.03, 0.6, 0.15), Goal(0.03, 0.9, 0.05 / 10)).dialogues == math.ceil(expected)


@pytest.mark.parametrize("variance", [Variance(0.15, has_difference=True), Variance(0.02, 0.05, 0.01, 0.2, items=7.5)])
@pytest.mark.parametrize("dialogues", [60, 384, 4201])
def test_the_difference_that_a_study_shows_is_the_smallest_for_which_it_is_large_enough(variance, dialogues):
    shown = needed(variance, Goal(0.03), 2, 3, dialogues).shown
    assert needed(variance, Goal(shown), 2, 3).dialogues <= dialogues
    assert needed(variance, Goal(shown - 0.0001), 2, 3).dialogues > dialogues


def test_few_dialogues_show_nothing():
    assert needed(Variance(0.2, has_difference=True), Goal(0.03), dialogues=10).shown is None


def test_guesses():
    assert guessed(0.03, 0.6, None).dialogue == pytest.approx(2 * 0.6 * 0.4)
    assert guessed(0.03, None, 0.2) == Variance(0.2, has_difference=True)
    assert guessed(0.1, 0.99, None).dialogue == 0.1  # the difference itself


def normals(wordings, repeats, dialogues, deviations, seed=0):
    """Draws two systems' results whose differences have the deviations of dialogue, wording, repeat and both."""
    random = np.random.default_rng(seed)
    shapes = [(1, 1, dialogues), (wordings, 1, dialogues), (1, repeats, dialogues), (wordings, repeats, dialogues)]
    parts = [sd * random.standard_normal(shape) for sd, shape in zip(deviations, shapes, strict=True)]
    differences = 0.1 + sum(parts)
    return np.stack([differences, np.zeros_like(differences)], axis=2)


def test_components_are_those_that_were_drawn():
    deviations = 0.3, 0.2, 0.1, 0.25
    variance = analyse("m", ["v1", "v2", "v3"], normals(3, 4, 20_000, deviations), range(20_000)).variance
    components = [variance.dialogue, variance.wording, variance.repeat, variance.both]
    assert components == pytest.approx(np.square(deviations), rel=0.05)


@pytest.mark.parametrize(("wordings", "repeats"), [(1, 1), (3, 1), (1, 4), (3, 4)])
def test_the_variance_of_the_pilots_own_mean_is_that_of_its_dialogues(wordings, repeats):
    results = normals(wordings, repeats, 50, (0.5, 0.3, 0.3, 0.2))
    pilot = analyse("m", ["v"] * wordings, results, range(50))
    means = (results[:, :, 0] - results[:, :, 1]).mean(axis=(0, 1))
    assert pilot.variance.of_mean(wordings, repeats) == pytest.approx(means.var(ddof=1))
    assert pilot.difference == pytest.approx(means.mean())
    assert pilot.design_effect == pytest.approx(1)
    unknown = [pilot.variance.wording] * (wordings == 1) + [pilot.variance.repeat] * (repeats == 1)
    assert not any(unknown)


def test_items_of_a_dialogue_that_are_always_alike_count_once():
    first, second = [1, 0, 0, 1, 0, 1, 1, 0, 0, 1, 1, 1], [0] * 12
    single = analyse("m", ["v"], np.array([[[first, second]]], float), range(12))
    thrice = analyse("m", ["v"], np.repeat([[[first, second]]], 3, axis=3).astype(float), np.repeat(range(12), 3))
    assert thrice.variance.of_mean(1, 1) == pytest.approx(single.variance.of_mean(1, 1))
    assert (thrice.dialogues, thrice.items) == (12, 36)
    assert thrice.design_effect == pytest.approx(3)
    assert (single.flips, single.difference) == (7 / 12, 7 / 12)


@pytest.mark.parametrize(
    "name",
    [
        "tasks, half right, no noise",
        "dialogues of 12 turns, large effect",
        "the same, 10 comparisons",
        "original and 5 wordings, 3 runs",
    ],
)
def test_planned_studies_reach_their_power(name):
    """``python -m benchmarks.planning`` has more of them."""
    random = np.random.default_rng(3)
    dialogues, _ = plan(BY_NAME[name], random, dialogues=10_000)
    assert is_kept(BY_NAME[name], dialogues, power(BY_NAME[name], dialogues, random, count=1000))


def test_the_benchmark_tests_as_compare_does():
    random = np.random.default_rng(0)
    right = random.random((2, 150)) < [[0.6], [0.5]]
    sums_of = [{f"d{i}": (float(is_right), 1) for i, is_right in enumerate(row)} for row in right]
    parts = {("a", "c"): (sums_of[0],), ("b", "c"): (sums_of[1],)}
    (test,) = paired(parts, [("a", "b")], {"c": 100.0}, "0", REPLICATES)
    sums = (right[0].astype(float) - right[1])[None]
    assert p_values(sums, random)[0] == pytest.approx(test.p, abs=0.02)
    assert 0.01 < test.p < 0.9


def test_the_known_difference_is_that_of_the_accuracies():
    means, difference = thresholds(BY_NAME["tasks, 60 % right"])
    assert difference == pytest.approx(0.05)
    assert means.shape == (1, 2)


# Twelve dialogues of two frames: ten are right in all variants, the eleventh in v1, the last in none.
RIGHT = [1.0] * 20


def test_two_systems_on_their_variants(tmp_path):
    ours = states(tmp_path / "ours", {"original": [*RIGHT, 1, 1, 0, 0], "v1": [*RIGHT, 1, 1, 0, 0], "v2": [0.0] * 24})
    theirs = states(tmp_path / "theirs", {"original": [0.0] * 24, "v1": [*RIGHT, 0, 1, 0, 1], "v2": [0.0] * 24})
    pilot = read_pilot([ours, theirs])
    assert (pilot.metric, pilot.sets, pilot.runs) == ("joint_goal_accuracy", ["v1", "v2"], 1)
    assert (pilot.dialogues, pilot.items) == (12, 24)
    assert (pilot.flips, pilot.difference, pilot.flips_of_runs) == (2 / 48, 0.0, None)
    assert read_pilot([ours, theirs], sets=["original"]).difference == pytest.approx(22 / 24)


def test_one_system_in_several_runs(tmp_path):
    states(tmp_path / "ours/run-0", {"original": [*RIGHT, 1, 1, 0, 0], "v1": [*RIGHT, 0, 0, 0, 0]})
    states(tmp_path / "ours/run-1", {"original": [*RIGHT, 1, 1, 0, 0], "v1": [*RIGHT, 1, 0, 0, 0]})
    write(tmp_path / "ours/run.json", (tmp_path / "ours/run-0/run.json").read_bytes())
    write(tmp_path / "ours/results.parquet", (tmp_path / "ours/run-0/results.parquet").read_bytes())
    pilot = read_pilot([str(tmp_path / "ours")])
    assert (pilot.sets, pilot.runs, pilot.items) == (["v1"], 2, 24)
    assert (pilot.flips, pilot.difference) == (3 / 48, 3 / 48)
    assert pilot.flips_of_runs == 1 / 48  # of the original and v1


def test_what_cannot_be_a_pilot(tmp_path):
    sets = {"original": [0.0] * 24, "v1": [1.0] * 24}
    ours, few = states(tmp_path / "ours", sets), states(tmp_path / "few", {"original": [0.0] * 6, "v1": [1.0] * 6})
    alone = states(tmp_path / "alone", {"original": [0.0] * 24})
    keys = [("original", f"d{i}", 0) for i in range(12)]
    other = intents(tmp_path / "intents", {"original": {"accuracy": 1.0, "macro_f1": 0.5}}, [1.0] * 12, keys)
    for paths, options, reason in (
        ([ours, ours], {}, "the two have the same joint_goal_accuracy everywhere"),
        ([few], {}, "fewer than 10 dialogues or tasks are in all of original, v1"),
        ([alone], {}, "has no variants: choose from original"),
        ([ours], {"sets": ["typos"]}, "there is no set 'typos': must be one of original, v1"),
        ([ours, other], {}, "different tasks, dst and intent"),
        ([other, other], {"metric": "macro_f1"}, "no metric of single examples 'macro_f1': must be one of accuracy"),
    ):
        raised(InputError, read_pilot, paths, match=reason, **options)
