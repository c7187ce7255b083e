"""The power fails while a command runs: whatever the disk has kept, running it again makes and pays nothing twice."""

import random
import shutil

import pytest
from faults.operations import KILL_BEFORE, Machine, library
from faults.points import spread
from faults.power_loss import Disk, put, read_tree
from kit import THOROUGH

from .test_kills import Runner, World, _undisturbed, facts

POINTS = 12 if THOROUGH else 2  # of each command
STATES = 4 if THOROUGH else 2  # of the disk, at each of them

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "tests",
    "AWS_SECRET_ACCESS_KEY": "tests",
    "PARAPET_WORKER_KEY": "a worker key for tests only",
}


@pytest.fixture(scope="module")
def stages(tmp_path_factory, sample):
    """An undisturbed run, with the world kept before each command."""
    place = library()
    if place is None:
        pytest.skip("there is no C compiler, or this is not Linux: what fails below a program cannot be shown")
    folder = tmp_path_factory.mktemp("power")
    (folder / "machine").mkdir()
    world = World(folder / "world")
    world.place.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        runner = Runner(folder / "told.txt")
        try:
            found = _undisturbed(folder, world, runner, sample)
        finally:
            runner.close()
    with Machine(place, folder / "machine", ENVIRONMENT, ["boto3", "parapet.pipelines.mturk.ask"]) as machine:
        yield found, world, machine


@pytest.mark.thorough
def test_a_power_failure_makes_nothing_twice(stages, tmp_path):
    commands, world, machine = stages
    drawn, fates = random.Random(3), {"as undisturbed": 0, "refused": 0}
    for stage in commands:
        world.restore(stage.world)
        with world.server():
            count = machine.run(world.place, stage.argv).operations.total()
        for at in spread(count, POINTS):
            world.restore(stage.world)
            start = read_tree(world.place)
            with world.server():
                machine.run(world.place, stage.argv, mode=KILL_BEFORE, at=at, traced=True)
            disk = Disk(world.place, *start)
            for operation in machine.trace():
                disk.apply(operation)
            states = {str(sorted(tree.items())): (kept, tree) for kept, tree in disk.states(drawn, 5)}
            after = world.keep(tmp_path / "after")
            for kept, tree in drawn.sample(list(states.values()), min(STATES, len(states))):
                where = f"{stage.name}, the power fails at {at} of {count}, kept: {kept}"
                world.restore(after)  # MTurk has what was sent
                shutil.rmtree(world.batch, ignore_errors=True)
                put(world.place, {path: data for path, data in tree.items() if path.startswith("batch/")})
                with world.server() as server:
                    again = machine.run(world.place, stage.argv)
                    there = facts(server, world.batch)
                    if again.status == 0:
                        assert there == stage.after, where
                        fates["as undisturbed"] += 1
                    else:  # what is out is not known: nothing more is made, and a person decides
                        assert "journal" in again.log, f"{where}: {again.log}"
                        assert again.log.count("error: ") == 1, f"{where}: {again.log}"
                        assert len(there["hits"]) <= len(stage.after["hits"]), where
                        assert there["bonuses"] <= stage.after["bonuses"], where
                        fates["refused"] += 1
            shutil.rmtree(after)
    print(f"{sum(fates.values())} power failures: {fates}")
    assert fates["as undisturbed"] > fates["refused"]
