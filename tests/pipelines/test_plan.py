"""``parapet plan`` from the command line: a pilot, guesses, JSON, and what people get wrong."""

import json

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
    told = run("plan", scores=scores, difference=10).output
    ours, theirs = scores
    assert told.splitlines() == [
        f"pilot: joint_goal_accuracy of {ours} and {theirs} on v1, v2",
        "12 dialogues with 24 examples, 1 run; difference +16.7 points",
        "the two differ on 16.7% of the examples",
        "design effect 2.0: examples of a dialogue are not independent, so dialogues count",
        "the numbers of dialogues have a standard error of 52%",
        "power 80% in a paired, two-sided test at the level 0.05",
        "repeats  wordings  dialogues for 10 points  points that 12 dialogues show",
        "1               1                      135                           49.4",
        "1               5                      127                           43.2",
        "the pilot has one run, so what repeats would bring is unknown: evaluate it with repeats",
    ]


def test_guesses_without_a_pilot():
    told = run("plan", flips=15, examples=400).output
    assert "guess: the two differ on 15.0% of the examples" in told
    assert "1               1                  1,373                            5.7" in told
    assert "guesses say nothing about repeats and wordings: a pilot does (--scores)" in told


def test_json(scores):
    told = json.loads(run("plan", "--json", scores=scores, comparisons=10).output)
    assert told["goal"] == {"difference": 0.03, "power": 0.8, "alpha": 0.005}
    assert (told["pilot"]["flips"], told["pilot"]["runs"], told["flips"]) == (pytest.approx(1 / 6), 1, None)
    assert [(study["repeats"], study["wordings"]) for study in told["studies"]] == [(1, 1), (1, 5)]
    told = json.loads(run("plan", "--json", accuracy=60).output)
    assert (told["pilot"], told["flips"], told["studies"][0]["shown"]) == (None, pytest.approx(0.48), None)


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ({}, "--scores, --accuracy, --flips: give either a pilot, or guesses"),
        ({"flips": 2}, "--flips: must be at least the difference, 3, which consists of flips"),
        ({"flips": 50, "accuracy": 5}, "--flips: must be at most 13, as both are right or wrong together on the rest"),
        ({"flips": 0}, "0.0: must be above 0 and at most 100"),
        ({"scores": "nowhere"}, "there is no such file or folder"),
    ],
)
def test_mistakes(flags, reason):
    assert reason in " ".join(refused("plan", **flags).split())


def test_more_than_two_folders(scores):
    assert "3 folders: give those of two systems, or one" in refused("plan", scores=[*scores, scores[0]])
