"""``make fuzz``: damaged inputs of every command for as long as asked; findings become seeds, which the tests try.

The target that has had the least time goes next. One that dies takes the run with it: its name is the last in the log.
"""

import argparse
import faulthandler
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from fuzzing import functions, rounds

MEMORY = 12 * 2**30  # bytes of addresses that the process may have; an eighth of it is used
STUCK = 15 * 60.0  # seconds of a round, with all that it takes to find the fewest records


def main() -> int:
    """Runs for the time that is asked for; 1 where anything was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzzing", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", default="0", help="of the damage: the same seed damages in the same way")
    parser.add_argument("--only", default="", help="targets whose names have this")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.environ["PARAPET_WORKER_KEY"] = "a worker key for fuzzing only"
    lines = {f"{line} {position}": (line, position) for line, position in rounds.TARGETS}
    targets = [name for name in (*lines, *functions.FUNCTIONS) if args.only in name]
    seconds, number, known, count = Counter[str](), Counter[str](), set[str](), 0
    end = time.monotonic() + 60 * args.minutes
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        while time.monotonic() < end and targets:
            target = min(targets, key=lambda name: seconds[name])
            began, rng = time.process_time(), Random(f"{args.seed}:{target}:{number[target]}")
            number[target] += 1
            print(f"{target}, round {number[target]}", flush=True)
            faulthandler.dump_traceback_later(STUCK, exit=True)
            if target in lines:
                for found in rounds.round_of(Path(folder), *lines[target], rng, known):
                    path, count = rounds.keep(found), count + 1
                    print(f"FOUND {found.finding.kind}\n{found.finding.details[-1_500:]}\n{path}", flush=True)
            else:
                for record, finding in functions.round_of(target, rng, known):
                    count += 1
                    print(f"FOUND {finding.kind} by {record!r}\n{finding.details[-1_500:]}", flush=True)
            faulthandler.cancel_dump_traceback_later()
            seconds[target] += time.process_time() - began
    print("\n".join(f"{name}: {number[name]:,} rounds, {seconds[name]:,.0f} CPU s" for name in targets))
    print(f"{sum(number.values()):,} rounds, {count} findings")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
