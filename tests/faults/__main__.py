"""Kills commands, and lets their disk fail, at many points; prints a table of what came of it.

``make test-faults``, or with flags ``PYTHONPATH=tests python -m faults --kills 10 --failures 2``.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from faults.operations import Machine, library
from faults.points import Trial, failures, kills, moments, table
from faults.world import commands, make_world, readers

MODULES = (
    "parapet.pipelines.suite.running",
    "parapet.transforms.crowd.composing",
    "parapet.transforms.release.building",
)
BEFORE = ("nothing", "another")
HEAD = "| command | at the operation | kind | points | status | output | wrong |\n|---|---|---|---|---|---|---|"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="points at which each command is killed")
    parser.add_argument("--moments", type=int, default=30, help="random moments at which it is killed as well")
    parser.add_argument("--failures", type=int, default=12, help="points for each error, once and for good")
    parser.add_argument("--commands", nargs="+", default=["compose", "perturb", "release", "suite"])
    parser.add_argument("--before", nargs="+", choices=BEFORE, default=BEFORE, help="what is in the output's place")
    parser.add_argument("--minutes", type=float, default=600, help="time for each command")
    parser.add_argument("--part", default="1/1", help="which of the points, for several processes side by side: 2/3")
    args = parser.parse_args()
    place = library()
    if place is None:
        print("there is no C compiler, or this is not Linux")
        return 1
    wrong, counted, began = 0, 0, time.monotonic()
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory(prefix="parapet-faults-") as folder:
        root = Path(folder) / "world"
        make_world(root)
        (Path(folder) / "machine").mkdir()
        known, reading = commands(root), readers(root)
        environment = {"PARAPET_WORKER_KEY": "a worker key for tests only"}
        with Machine(place, Path(folder) / "machine", environment, MODULES) as machine:
            assert machine.run(root, known["compose"].argv(root / "variants")).status == 0
            for name in args.commands:
                for over in [before == BEFORE[1] for before in args.before if before == BEFORE[0] or known[name].other]:
                    trial = Trial(machine, known[name], root / name, over, reading[name])
                    results, end = [], time.monotonic() + 60 * args.minutes
                    points = [*kills(trial, args.kills), *moments(trial, args.moments), *failures(trial, args.failures)]
                    part, parts = map(int, args.part.split("/"))
                    for point in points[part - 1 :: parts]:
                        if time.monotonic() > end:
                            break
                        result = trial.run(point)
                        results.append(result)
                        for fault in result.faults:
                            where = f"{name} {point.error} mode {point.mode} at {point.at}, {result.kind}"
                            print(f"WRONG {where}: {fault}", file=sys.stderr, flush=True)
                    print("\n".join(table(f"{name}{', over another' if over else ''}", results)), flush=True)
                    wrong += sum(bool(result.faults) for result in results)
                    counted += len(results)
    print(f"\n{counted:,} points, {wrong} wrong, {time.monotonic() - began:,.0f} s")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
