"""Killed anywhere, run again: each HIT exists once, each assignment is paid once, no bonus is sent twice."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_mturk import FakeMTurk, Faults, invented, play
from kit import json_of

from parapet.pipelines.main import main
from parapet.transforms.crowd.mturk import collect as collected

# Random points of all commands; PARAPET_KILLS=210 takes two minutes, and 742 is every point, twice.
KILLS = int(os.environ.get("PARAPET_KILLS", "12"))

DAY_AND_HOUR = 25 * 3_600  # after this no request token is known any more


class Runner:
    """The process that forks the commands."""

    def __init__(self, told):
        self.told = told
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.end_to_end.mturk.killable"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )

    def run(self, argv, kill_at=0):
        """The exit status (minus the signal for a killed one) and how many points there were."""
        assert self.process.stdin
        assert self.process.stdout
        self.told.write_text("")
        self.process.stdin.write(json.dumps({"argv": argv, "kill_at": kill_at, "told": str(self.told)}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["status"], answer["points"]

    def close(self):
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(30)


class Stage(msgspec.Struct):
    """A command with the state of the world before it.

    Attributes:
      world: folder with the server's state and the batch.
      points: at which it can be killed.
      after: what there is when it ran undisturbed.
    """

    name: str
    argv: list[str]
    world: Path
    points: int = 0
    after: Any = None


class World:
    """The server and the batch, which can be set back."""

    def __init__(self, place):
        self.place = place
        self.port = 0

    @property
    def batch(self):
        return self.place / "batch"

    def server(self, faults=None, seed=0):
        server = FakeMTurk(self.place / "mturk.sqlite", self.port, faults, seed)
        self.port = int(server.url.rpartition(":")[2])
        return server

    def keep(self, copy):
        shutil.copytree(self.place, copy)
        return copy

    def restore(self, copy):
        shutil.rmtree(self.place)
        shutil.copytree(copy, self.place)


def facts(server, batch):
    """What there is at MTurk and in the files, without what differs from run to run: ids of what is made, and times."""
    there = server.snapshot()
    hits = {
        hit_id: f"{hit['RequesterAnnotation']} {hashlib.sha256(hit['Question'].encode()).hexdigest()[:8]}"
        for hit_id, hit in there["hits"].items()
    }
    ledger = (batch / "ledger.csv").read_text().splitlines() if (batch / "ledger.csv").exists() else []
    return {
        "hits": sorted((hits[hit_id], hit["MaxAssignments"]) for hit_id, hit in there["hits"].items()),
        "types": len(there["qualification_types"]),
        "granted": len(there["qualifications"]),
        "assignments": {each: item["AssignmentStatus"] for each, item in there["assignments"].items()},
        "bonuses": Counter((bonus["AssignmentId"], str(bonus["BonusAmount"])) for bonus in there["bonuses"]),
        "balance": {name: str(amount) for name, amount in there["balance"].items()},
        "ledger": sorted(line.rsplit(",", 1)[0] for line in ledger),
        "collected": [(line["AssignmentId"], line["Answer"]) for line in collected.load(batch)],
    }


@pytest.fixture(scope="module")
def stages(tmp_path_factory, sample):
    """An undisturbed run over three services, with the world kept before each command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "tests")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "tests")
        folder = tmp_path_factory.mktemp("kills")
        world = World(folder / "world")
        world.place.mkdir()
        runner = Runner(folder / "told.txt")
        yield _undisturbed(folder, world, runner, sample), world, runner
        runner.close()


def _undisturbed(folder, world, runner, sample):
    found = []
    schemas, hits, top_up, audit = (folder / name for name in ("schemas.json", "hits", "top_up", "audit"))
    services = json_of(sample / "train" / "schema.json")[:2]
    schemas.write_text(json.dumps(services))
    assert main(["hits", "--schemas", str(schemas), "--output", str(hits), "--assignments", "3", "--quiet"]) == 0
    shortfall = folder / "shortfall.csv"
    rows = [f"{service['service_name']},names,slot_0,4,5" for service in services]
    shortfall.write_text("\n".join(["service_name,task,field,have,need", *rows, ""]))
    bonuses = folder / "bonuses.csv"

    def stage(name, *flags, workers=0):
        argv = ["mturk", name, *flags]
        with world.server() as server:
            if name == "publish":
                argv += ["--endpoint_url", server.url]
            kept = world.keep(folder / f"before {len(found)}")
            status, points = runner.run(argv)
            assert status == 0, runner.told.read_text()
            found.append(Stage(name, argv, kept, points, facts(server, world.batch)))
            if workers:
                assert play(server, invented(server, len(found), workers))

    at = ("--batch", str(world.batch))
    stage("publish", "--hits", str(hits), *at, workers=4)
    stage("collect", *at)
    stage("topup", "--shortfall", str(shortfall), *at, workers=9)
    stage("collect", *at)
    flags = ["--schemas", str(schemas), "--shortfall", str(shortfall), "--output", str(top_up), "--quiet"]
    assert main(["hits", *flags]) == 0
    stage("topup", "--hits", str(top_up), *at, workers=20)
    stage("collect", *at)
    responses = str(world.batch / collected.FILE)
    flags = ["--schemas", str(schemas), "--responses", responses, "--output", str(audit), "--quiet"]
    assert main(["compose", *flags]) == 1  # of made-up words no service is composed; the audit is there
    ids = [line["AssignmentId"] for line in collected.load(world.batch)]
    rows = [f"{each},0.{10 + i},for a good answer" for i, each in enumerate(ids[::3])]
    bonuses.write_text("\n".join(["assignment_id,amount,reason", *rows, ""]))
    rejections = folder / "rejections.csv"
    rejections.write_text(f"assignment_id,feedback\n{ids[1]},copied the question\n")
    stage("pay", *at, "--audit", str(audit), "--rejections", str(rejections), "--bonuses", str(bonuses))
    return found


def test_nothing_is_made_or_paid_twice(stages):
    commands, world, runner = stages
    chosen = random.Random(7)
    # Every point of every command, tokens forgotten or not, in random order.
    places = [(stage, at, late) for stage in commands for at in range(1, stage.points + 1) for late in (False, True)]
    chosen.shuffle(places)
    places = [places[i % len(places)] for i in range(KILLS)]
    killed = Counter()
    for trial, (stage, at, late) in enumerate(places):
        world.restore(stage.world)
        # A lost answer or a refusal now and then, so that kills and retries meet.
        faults = Faults(throttle=0.05, drop_after=0.03) if trial % 3 == 2 else None
        told = f"trial {trial}: {stage.name} killed at {at} of {stage.points}{', a day later' if late else ''}"
        with world.server(faults, seed=trial) as server:
            status, _ = runner.run(stage.argv, at)
            assert status in (0, -signal.SIGKILL), runner.told.read_text()
            killed[stage.name] += status == -signal.SIGKILL
            if trial % 4 == 3:  # the rerun is killed as well
                killed[stage.name] += runner.run(stage.argv, chosen.randint(1, stage.points))[0] == -signal.SIGKILL
            if late:
                server.advance(DAY_AND_HOUR)
            assert runner.run(stage.argv)[0] == 0, f"{told}: {runner.told.read_text()}"
            assert facts(server, world.batch) == stage.after, told
            if trial % 8 == 0:  # once more changes nothing either
                assert runner.run(stage.argv)[0] == 0, told
                assert facts(server, world.batch) == stage.after, f"{told}, run once more"
    print(f"{sum(killed.values())} kills: {dict(killed)} of {sum(stage.points for stage in commands)} points")
    assert sum(killed.values()) >= 0.9 * KILLS
    assert all(killed[stage.name] for stage in commands)
