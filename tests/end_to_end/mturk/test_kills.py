"""Killed anywhere and run again: each HIT exists once, each assignment and bonus is paid once.

A command is killed before anything that it does to a file or sends, or when half of a piece of a file is written.
"""

import hashlib
import os
import random
import shutil
import signal
from collections import Counter
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_mturk import FakeMTurk, Faults, invented, play
from faults.operations import ENVIRONMENT, KILL_BEFORE, KILL_HALF, KINDS, Machine
from kit import argv_of, json_of, run, write

from parapet.transforms.crowd.mturk import batch as batches

# Random points of all commands; PARAPET_KILLS=210 takes two minutes.
KILLS = int(os.environ.get("PARAPET_KILLS", "12"))


class Stage(msgspec.Struct):
    """A command with the state of the world before it.

    Attributes:
      world: folder with the server's state and the batch.
      operations: how many there were of each kind.
      after: what there is when it ran undisturbed.
    """

    name: str
    argv: list[str]
    world: Path
    operations: Counter[str]
    after: Any


class World:
    """The server and the batch, in a folder that can be set back."""

    def __init__(self, place):
        self.place, self.batch, self.port = place, place / "batch", 0

    def server(self, faults=None, seed=0):
        server = FakeMTurk(self.place / "mturk.sqlite", self.port, faults, seed)
        self.port = int(server.url.rpartition(":")[2])
        return server


def facts(server, batch):
    """What there is at MTurk and in the files, without what differs from run to run: ids of what is made, and times."""
    there = server.snapshot()
    digest = lambda text: hashlib.sha256(text.encode()).hexdigest()[:8]  # noqa: E731
    hits = {key: f"{hit['RequesterAnnotation']} {digest(hit['Question'])}" for key, hit in there["hits"].items()}
    ledger = (batch / "ledger.csv").read_text().splitlines() if (batch / "ledger.csv").exists() else []
    return {
        "hits": sorted((hits[hit_id], hit["MaxAssignments"]) for hit_id, hit in there["hits"].items()),
        "types": len(there["qualification_types"]),
        "granted": len(there["qualifications"]),
        "assignments": {each: item["AssignmentStatus"] for each, item in there["assignments"].items()},
        "bonuses": Counter((bonus["AssignmentId"], str(bonus["BonusAmount"])) for bonus in there["bonuses"]),
        "balance": {name: str(amount) for name, amount in there["balance"].items()},
        "ledger": sorted(line.rsplit(",", 1)[0] for line in ledger),
        "collected": [(line["AssignmentId"], line["Answer"]) for line in batches.load(batch)],
    }


@pytest.fixture(scope="module")
def stages(tmp_path_factory, sample):
    """An undisturbed run over three services, with the world kept before each command."""
    folder = tmp_path_factory.mktemp("kills")
    world = World(folder / "world")
    world.place.mkdir()
    environment = {**ENVIRONMENT, "AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests"}
    with Machine(folder / "machine", environment, ["tests.end_to_end.mturk.preloaded"]) as machine:
        yield _undisturbed(folder, world, machine, sample), world, machine


def _undisturbed(folder, world, machine, sample):
    found = []
    services = json_of(sample / "train" / "schema.json")[:2]
    schemas = write(folder / "schemas.json", services)
    hits = run("hits", "--quiet", schemas=schemas, output=folder / "hits", assignments=3).folder
    slot = {"task": "names", "field": "slot_0", "have": "4", "need": "5"}
    missing = [{"service_name": service["service_name"], **slot} for service in services]
    shortfall = write(folder / "shortfall.csv", missing)

    def stage(name, workers=0, **flags):
        argv = argv_of("mturk", name, batch=world.batch, **flags)
        with world.server() as server:
            if name == "publish":
                argv += ["--endpoint_url", server.url]
            kept = Path(shutil.copytree(world.place, folder / f"before {len(found)}"))
            ended = machine.run(world.place, argv, kinds=KINDS)
            assert ended.status == 0, ended.log
            found.append(Stage(name, argv, kept, ended.operations, facts(server, world.batch)))
            if workers:
                assert play(server, invented(server, len(found), workers))

    stage("publish", hits=hits, workers=4)
    stage("collect")
    stage("topup", hits=hits, shortfall=shortfall, workers=9)
    stage("collect")
    top_up = run("hits", "--quiet", schemas=schemas, shortfall=shortfall, output=folder / "top_up").folder
    stage("topup", hits=top_up, workers=20)
    stage("collect")
    # Of made-up words no service is composed; the audit is there.
    answers = {"schemas": schemas, "responses": world.batch / batches.ASSIGNMENTS}
    audit = run("compose", "--quiet", **answers, output=folder / "audit", status=1).folder
    ids = [line["AssignmentId"] for line in batches.load(world.batch)]
    paid = [{"assignment_id": each, "amount": f"0.{10 + i}", "reason": "good"} for i, each in enumerate(ids[::3])]
    bonuses = write(folder / "bonuses.csv", paid)
    rejections = write(folder / "rejections.csv", [{"assignment_id": ids[1], "feedback": "copied the question"}])
    stage("pay", audit=audit, rejections=rejections, bonuses=bonuses)
    return found


def test_nothing_is_made_or_paid_twice(stages):
    commands, world, machine = stages
    chosen = random.Random(7)
    # Every point of each command in random order, tokens forgotten or not; the commands by turns.
    ways = [(KILL_BEFORE, KINDS), (KILL_HALF, ("write",))]
    turns = []
    for stage in commands:
        counts = [(mode, kinds, sum(stage.operations[kind] for kind in kinds)) for mode, kinds in ways]
        points = [(mode, kinds, at) for mode, kinds, count in counts for at in range(1, count + 1)]
        places = [(stage, *point, late) for point in points for late in (False, True)]
        turns.append(chosen.sample(places, len(places)))
    places = [place for turn in zip_longest(*turns) for place in turn if place]
    places = [places[i % len(places)] for i in range(KILLS)]
    killed = Counter()
    for trial, (stage, mode, kinds, at, late) in enumerate(places):
        shutil.rmtree(world.place)
        shutil.copytree(stage.world, world.place)
        # A lost answer or a refusal now and then, so that kills and retries meet.
        faults = Faults(throttle=0.05, drop_after=0.03) if trial % 3 == 2 else None
        where = f"trial {trial}: {stage.name} killed at {at}, mode {mode}{', a day later' if late else ''}"
        with world.server(faults, seed=trial) as server:

            def once(mode=0, at=0, kinds=KINDS, argv=stage.argv, where=where):
                ended = machine.run(world.place, argv, mode=mode, at=at, kinds=kinds)
                assert ended.status in ((0, -signal.SIGKILL) if mode else (0,)), f"{where}: {ended.log}"
                return ended.status == -signal.SIGKILL

            killed[stage.name] += once(mode, at, kinds)
            if trial % 4 == 3:  # the rerun is killed as well
                killed[stage.name] += once(KILL_BEFORE, chosen.randint(1, stage.operations.total()))
            if late:
                server.advance(25 * 3_600)  # after this no request token is known any more
            for _ in range(2 if trial % 8 == 0 else 1):  # once more changes nothing either
                once()
                assert facts(server, world.batch) == stage.after, where
    print(f"{killed.total()} kills: {dict(killed)} of {sum(stage.operations.total() for stage in commands)} operations")
    assert killed.total() >= 0.9 * KILLS
    assert all(killed[stage.name] for stage in commands)
