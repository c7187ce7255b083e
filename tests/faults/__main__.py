"""Kills commands, and lets their disk fail, at many points; prints a table of what came of it.

``make test-faults``, or with flags ``PYTHONPATH=tests python -m faults --kills 10 --failures 2``.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from faults.operations import Machine
from faults.points import Trial, failures, kills, moments, table
from faults.world import commands_of, make_world, readers

MODULES = (
    "parapet.pipelines.suite.running",
    "parapet.transforms.crowd.task",
    "parapet.transforms.release.building",
)
HEAD = "| command | at the operation | kind | points | status | output | wrong |\n|---|---|---|---|---|---|---|"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="points at which each command is killed")
    parser.add_argument("--moments", type=int, default=30, help="random moments at which it is killed as well")
    parser.add_argument("--failures", type=int, default=12, help="points for each error, once and for good")
    parser.add_argument("--commands", nargs="+", default=["compose", "perturb", "release", "suite"])
    args = parser.parse_args()
    wrong, counted, began = 0, 0, time.monotonic()
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory(prefix="parapet-faults-") as folder:
        root = Path(folder) / "world"
        make_world(root)
        known, reading = commands_of(root), readers(root)
        with Machine(Path(folder) / "machine", modules=MODULES) as machine:
            assert machine.run(root, known["compose"].argv(root / "variants")).status == 0
            for name in args.commands:
                for over in [False, True] if known[name].other else [False]:
                    trial = Trial(machine, known[name], root / name, over, reading[name])
                    points = [*kills(trial, args.kills), *moments(trial, args.moments), *failures(trial, args.failures)]
                    results = []
                    for point in points:
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
