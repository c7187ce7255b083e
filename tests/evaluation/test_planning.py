"""Planning: variances by their definition, the power that planned studies reach, and ``parapet plan``."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from compare_folders import intents, states
from kit import cases, raised, refused, run, write

from benchmarks.planning import REPLICATES, SCENARIOS, is_kept, p_values, plan, power
from parapet.evaluation.planning import Study, Variance, estimate, read_pilot
from parapet.evaluation.repeats import over_runs
from parapet.evaluation.results import results_bytes, sha256_of
from parapet.evaluation.statistics import paired
from parapet.schemas.errors import InputError

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def test_the_number_of_examples_is_that_of_mcnemars_test():
    """Connor 1987, with the correction for continuity: 15 % flips, of which 9 % are won and 6 % are lost."""
    z, flips = NormalDist().inv_cdf, Variance(0.15, has_difference=True)
    for alpha, power_ in ((0.05, 0.8), (0.005, 0.9)):
        root = z(1 - alpha / 2) * math.sqrt(0.15) + z(power_) * math.sqrt(0.15 - 0.03**2)
        assert Study(flips, power=power_, alpha=alpha).dialogues(0.03) == math.ceil(root**2 / 0.03**2 + 2 / 0.03)
    assert Study(flips).dialogues(0.03) == 1373


@pytest.mark.parametrize("variance", [Variance(0.15, has_difference=True), Variance(0.02, 0.05, 0.01, 0.2, items=7.5)])
@pytest.mark.parametrize("dialogues", [60, 384, 4201])
def test_the_difference_that_a_study_shows_is_the_smallest_for_which_it_is_large_enough(variance, dialogues):
    study = Study(variance, 2, 3)
    difference = study.difference(dialogues)
    assert study.dialogues(difference) <= dialogues < study.dialogues(difference - 0.0001)
    assert Study(Variance(0.2, has_difference=True)).difference(10) is None  # few dialogues show nothing


def normals(wordings, repeats, dialogues, deviations, seed=0):
    """Draws differences with the standard deviations of dialogue, wording, repeat and both."""
    random = np.random.default_rng(seed)
    shapes = [(1, 1, dialogues), (wordings, 1, dialogues), (1, repeats, dialogues), (wordings, repeats, dialogues)]
    return 0.1 + sum(sd * random.standard_normal(shape) for sd, shape in zip(deviations, shapes, strict=True))


def test_components_are_those_that_were_drawn():
    deviations = 0.3, 0.2, 0.1, 0.25
    variance = estimate(normals(3, 4, 20_000, deviations), range(20_000))
    components = [variance.dialogue, variance.wording, variance.repeat, variance.both]
    assert components == pytest.approx(np.square(deviations), rel=0.05)


@pytest.mark.parametrize(("wordings", "repeats"), [(1, 1), (3, 1), (1, 4), (3, 4)])
def test_the_variance_of_the_pilots_own_mean_is_that_of_its_dialogues(wordings, repeats):
    differences = normals(wordings, repeats, 50, (0.5, 0.3, 0.3, 0.2))
    variance = estimate(differences, range(50))
    of_dialogues = differences.mean(axis=(0, 1)).var(ddof=1)
    assert Study(variance, wordings, repeats).variance_of_mean == pytest.approx(of_dialogues)
    unknown = [variance.wording] * (wordings == 1) + [variance.repeat] * (repeats == 1)
    assert not any(unknown)


def test_items_of_a_dialogue_that_are_always_alike_count_once():
    differences = np.array([[[1, 0, 0, 1, 0, 1, 1, 0, 0, 1, 1, 1]]], float)
    single, thrice = (estimate(np.repeat(differences, n, axis=2), np.repeat(range(12), n)) for n in (1, 3))
    assert thrice.dialogue == pytest.approx(single.dialogue) == pytest.approx(differences.var(ddof=1))
    assert (single.items, thrice.items) == (1, 3)


@cases(
    "name",
    "tasks, half right, no noise",
    "dialogues of 12 turns, large effect",
    "the same, 10 comparisons",
    "original and 5 wordings, 3 runs",
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
    assert p_values((right[0].astype(float) - right[1])[None], random)[0] == pytest.approx(test.p, abs=0.02)
    assert 0.01 < test.p < 0.9


# Twelve dialogues of two frames: ten are right in all variants, the eleventh in v1, the last in none.
RIGHT = [1.0] * 20


def test_two_systems_on_their_variants(tmp_path):
    ours = states(tmp_path / "ours", {"original": [*RIGHT, 1, 1, 0, 0], "v1": [*RIGHT, 1, 1, 0, 0], "v2": [0.0] * 24})
    theirs = states(tmp_path / "theirs", {"original": [0.0] * 24, "v1": [*RIGHT, 0, 1, 0, 1], "v2": [0.0] * 24})
    pilot = read_pilot([ours, theirs])
    assert (pilot.metric, pilot.sets, pilot.differences.shape) == ("joint_goal_accuracy", ["v1", "v2"], (2, 1, 24))
    assert pilot.dialogue_ids == sorted(pilot.dialogue_ids)
    assert sorted(pilot.differences.flat) == [-1.0, *[0.0] * 46, 1.0]


def test_one_system_in_several_runs(tmp_path):
    states(tmp_path / "ours/run-0", {"original": [*RIGHT, 1, 1, 0, 0], "v1": [*RIGHT, 0, 0, 0, 0]})
    states(tmp_path / "ours/run-1", {"original": [*RIGHT, 1, 1, 0, 0], "v1": [*RIGHT, 1, 0, 0, 0]})
    digests = {name: sha256_of(tmp_path / "ours" / name / "run.json") for name in ("run-0", "run-1")}
    rows = over_runs([str(tmp_path / "ours" / name) for name in digests])
    write(tmp_path / "ours/results.parquet", results_bytes(rows))
    write(tmp_path / "ours/run.json", {"pipeline": "evaluate_dst", "runs": digests})
    pilot = read_pilot([str(tmp_path / "ours")])
    assert (pilot.sets, pilot.differences.shape, len(set(pilot.dialogue_ids))) == (["v1"], (1, 2, 24), 12)
    assert pilot.differences.sum(axis=2).tolist() == [[2.0, 1.0]]


def test_what_cannot_be_a_pilot(tmp_path):
    sets = {"original": [0.0] * 24, "v1": [1.0] * 24}
    ours, few = states(tmp_path / "ours", sets), states(tmp_path / "few", {"original": [0.0] * 6, "v1": [1.0] * 6})
    alone = states(tmp_path / "alone", {"original": [0.0] * 24})
    keys = [("original", f"d{i}", 0) for i in range(12)]
    other = intents(tmp_path / "intents", {"original": {"accuracy": 1.0, "macro_f1": 0.5}}, [1.0] * 12, keys)
    fewer = "fewer than 10 dialogues or tasks have '{}' of single examples in all of original"
    for paths, metric, reason in (
        ([ours, ours], "", "the two have the same joint_goal_accuracy everywhere"),
        ([few], "", f"{fewer.format('joint_goal_accuracy')}, v1"),
        ([alone], "", "has no variants: give the scores of a second system, too"),
        ([ours, other], "", "different tasks, dst and intent"),
        ([other, other], "macro_f1", fewer.format("macro_f1")),
    ):
        raised(InputError, read_pilot, paths, metric, match=reason)


def test_a_pilot_of_two_systems(tmp_path):
    """On twelve dialogues of two frames they differ on four of 24 frames, in both variants."""
    values = {"ours": [*RIGHT, 1, 1, 1, 1], "theirs": [*RIGHT[2:], 0, 0, 1, 1, 0, 0]}
    ours, theirs = (states(tmp_path / name, dict.fromkeys(("original", "v1", "v2"), of)) for name, of in values.items())
    assert run("plan", scores=[ours, theirs], difference=10).output.splitlines() == [
        f"pilot: joint_goal_accuracy of {ours} and {theirs} on v1, v2",
        "12 dialogues, 24 examples, 1 run",
        "difference +16.7 points; the two differ on 16.7% of the examples",
        "power 80% in a paired, two-sided test at the level 0.05",
        "repeats  wordings  dialogues for 10 points  points that 12 dialogues show",
        "1               1                      135                           49.4",
        "1               5                      127                           43.2",
        "what repeats would bring is unknown: a pilot with repeats shows it",
    ]


def test_a_pilot_of_one_system(tmp_path):
    variant = [0, 0, *RIGHT[2:], 1, 1, 1, 0]
    lines = run("plan", scores=states(tmp_path / "ours", {"original": [1.0] * 24, "v1": variant})).output.splitlines()
    assert lines[0] == f"pilot: joint_goal_accuracy of the original and variants of {tmp_path / 'ours'} on v1"
    assert lines[2] == "difference +12.5 points; the two differ on 12.5% of the examples"
    assert lines[-1] == "what more wordings would bring is unknown: a pilot with variants shows it"


def test_a_guess_without_a_pilot():
    output = run("plan", flips=15, examples=400).output
    assert "guess: the two differ on 15.0% of the examples" in output
    assert "1               1                  1,373                            5.7" in output
    assert "points that 200 examples show" in run("plan", flips=15).output
    output = run("plan", flips=15, alpha=0.005, power=0.9).output
    assert "power 90% in a paired, two-sided test at the level 0.005" in output
    assert f" {Study(Variance(0.15, has_difference=True), power=0.9, alpha=0.005).dialogues(0.03):,} " in output


@cases(
    "flags reason",
    ({}, "--scores, --flips: give either a pilot, or a guess"),
    ({"flips": 2}, "--flips: must be at least 3, the difference: it consists of flips"),
    ({"flips": 0}, "0.0: must be above 0 and at most 100"),
    ({"scores": "nowhere"}, "there is no such file or folder"),
    ({"scores": [".", ".", "."]}, "3 folders: give those of two systems, or one"),
)
def test_mistakes(flags, reason):
    assert reason in " ".join(refused("plan", **flags).split())
