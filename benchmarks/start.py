"""Measures the start of each command: run on the bundled sample, against a plain import of Beam.

    python -m benchmarks.start [--runs 5] [--folder bench-output]

CPU seconds are user and system time of all processes, the median of the runs; memory is the sum of the peaks.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
from pathlib import Path

from benchmarks.measuring import measure
from parapet.schemas.layout import sample_root

PROGRAM = [sys.executable, "-m", "parapet"]


def main() -> int:
    """Prints the table."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--runs", type=int, default=5)
    flags.add_argument("--folder", type=Path, default=Path("bench-output"))
    args = flags.parse_args()
    crowd = sample_root() / "crowd"
    commands = {
        "import apache_beam": [sys.executable, "-c", "import apache_beam"],
        "--help": [*PROGRAM, "rewrite", "--help"],
        "perturb typos": [*PROGRAM, "perturb", "typos"],
        "perturb ood": [*PROGRAM, "perturb", "ood"],
        "perturb unseen_entities": [*PROGRAM, "perturb", "unseen_entities"],
        "hits": [*PROGRAM, "hits"],
        "compose": [*PROGRAM, "compose", "--responses", str(crowd / "names.csv"), str(crowd / "descriptions.csv")],
    }
    peer = 0.0
    print(f"{'':24}{'CPU':>9}{'ratio':>7}{'memory':>10}")
    for name, command in commands.items():
        cpu, memory = cost(name, command, args.folder / "start", args.runs)
        peer = peer or cpu
        print(f"{name:24}{cpu:7.2f} s{cpu / peer:7.2f}{memory:7.0f} MB", flush=True)
    print("ratio: CPU seconds against the first line")
    return 0


def cost(name: str, command: list[str], out: Path, runs: int) -> tuple[float, float]:
    """Measures CPU seconds and megabytes, the medians of several runs."""
    if command[:3] == PROGRAM and "--help" not in command:
        command = [*command, "--quiet", "--output", str(out)]
    costs = []
    for _ in range(runs + 1):  # the first run fills the file cache
        shutil.rmtree(out, ignore_errors=True)
        costs.append(measure(command, {"PARAPET_WORKER_KEY": "a key for benchmarks only"}))
    shutil.rmtree(out, ignore_errors=True)
    return statistics.median(c.cpu for c in costs[1:]), statistics.median(c.memory for c in costs[1:])


if __name__ == "__main__":
    sys.exit(main())
