"""Kills and failing disks at some points of each kind; hundreds of each in ``make test-all``."""

import pytest
from kit import THOROUGH

from faults.operations import COUNT, FAIL
from faults.points import ERRORS, Point, Trial, failures, kills
from faults.world import commands_of, make_world, readers


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    root = tmp_path_factory.mktemp("world")
    make_world(root)
    return root


def check(trial, points):
    results = [trial.run(point) for point in points]
    faults = [f"{result.point}, {result.kind}: {fault}" for result in results for fault in result.faults]
    assert not faults, "\n".join(faults)
    assert {result.fate for result in results} > {"new"}


@pytest.mark.parametrize("over", [False, True], ids=["fresh", "over another"])
def test_what_every_pipeline_ends_with(machine, world, over):
    trial = Trial(machine, commands_of(world)["publish"], world / "publish", over)
    check(trial, kills(trial, 200 if THOROUGH else 7) + failures(trial, 200 if THOROUGH else 1))


@pytest.mark.parametrize("name", ["perturb", pytest.param("release", marks=pytest.mark.thorough)])
def test_commands(machine, world, name):
    known = commands_of(world)
    if name == "release":
        assert machine.run(world, known["compose"].argv(world / "variants")).status == 0
    trial = Trial(machine, known[name], world / name, name == "perturb", readers(world)[name] if THOROUGH else {})
    few = kills(trial, 5)[2::2]  # while files are moved, and at the end
    check(trial, kills(trial, 8) + failures(trial, 2) if THOROUGH else few)


def test_an_error_that_is_not_reported_is_found(machine, world):
    """A test of the tests: what prints a traceback, or leaves another output, does not pass."""
    out = world / "itself"
    trial = Trial(machine, commands_of(world)["publish"], out)
    ended = machine.run(out, trial.argv, mode=FAIL, at=1, error=ERRORS["EIO"][0], kinds=("write",))
    assert (ended.at[0], ended.at[1].startswith(str(out)), ended.fired) == ("write", True, 1)
    point = Point(FAIL, 1, "EIO", ("write",))
    assert not list(trial._faults_of(ended, point))
    assert list(trial._faults_of(ended._replace(log="Traceback (most recent call last):"), point))
    assert list(trial._faults_of(ended._replace(status=0), point))
    trial.new = {"report.html": b"another"}
    assert any("other bytes" in fault for fault in trial.run(Point(COUNT, 0)).faults)
