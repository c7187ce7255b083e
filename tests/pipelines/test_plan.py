"""``parapet plan`` from the command line: a pilot, a guess, and what people get wrong."""

import math
from statistics import NormalDist

import pytest
from compare_folders import states
from kit import refused, run

RIGHT = [1.0] * 20


@pytest.fixture
def scores(tmp_path):
    """Two systems on twelve dialogues of two frames; they differ on four of 24 frames, in both variants."""
    ours = {name: [*RIGHT, 1, 1, 1, 1] for name in ("original", "v1", "v2")}
    theirs = {name: [*RIGHT[2:], 0, 0, 1, 1, 0, 0] for name in ("original", "v1", "v2")}
    return [states(tmp_path / "ours", ours), states(tmp_path / "theirs", theirs)]


def test_a_pilot_of_two_systems(scores):
    output = run("plan", scores=scores, difference=10).output
    ours, theirs = scores
    assert output.splitlines() == [
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


def test_level_and_power():
    normal = NormalDist()
    levels = normal.inv_cdf(1 - 0.005 / 2) * 0.5**0.5 + normal.inv_cdf(0.9) * (0.5 - 0.1**2) ** 0.5
    output = run("plan", flips=50, difference=10, alpha=0.005, power=0.9).output
    assert f" {math.ceil((levels / 0.1) ** 2 + 2 / 0.1)} " in output
    assert "power 90% in a paired, two-sided test at the level 0.005" in output


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ({}, "--scores, --flips: give either a pilot, or a guess"),
        ({"flips": 2}, "--flips: must be at least 3, the difference: it consists of flips"),
        ({"flips": 0}, "0.0: must be above 0 and at most 100"),
        ({"scores": "nowhere"}, "there is no such file or folder"),
    ],
)
def test_mistakes(flags, reason):
    assert reason in " ".join(refused("plan", **flags).split())


def test_more_than_two_folders(scores):
    assert "3 folders: give those of two systems, or one" in refused("plan", scores=[*scores, scores[0]])
