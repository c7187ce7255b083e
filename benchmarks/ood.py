"""Times ``parapet ood`` at two rates on corpora of three sizes, against a floor of parsing and writing files twice.

    python -m benchmarks.ood [--dialogues 1000] [--folder bench-output]

The corpora are made from the bundled sample, see ``benchmarks.growth``, with this number of dialogues, and two and four
times as many; a tenth of them are in a second split. The floor parses each file with orjson, and writes and hashes it
for each rate, which any program that writes the sets must do. CPU seconds are user and system time of all processes,
minus those of a run over a few dialogues, the start. Memory is the sum of the peaks of all processes.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
from pathlib import Path

import orjson

from benchmarks.growth import make_corpus
from benchmarks.measuring import Cost, measure

RATES = ("0.05", "0.1")
SIZES = (1, 2, 4)
SMALLEST = 100  # number of dialogues, to measure the start


def main() -> int:
    """Prints the table."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--dialogues", type=int, default=1000)
    flags.add_argument("--folder", type=Path, default=Path("bench-output"))
    flags.add_argument("--floor", nargs=2, type=Path, metavar=("ROOT", "OUT"), help="write the floor's files, and end")
    args = flags.parse_args()
    if args.floor:
        write_twice(*args.floor)
        return 0
    root = args.folder / f"ood-{args.dialogues}"
    start = {name: cost(name, SMALLEST, root).cpu for name in ("ood", "floor")}
    print(f"without the start, {start['ood']:.1f} and {start['floor']:.1f} s of CPU")
    print(f"{'dialogues':>9}{'ood':>9}{'floor':>10}{'ratio':>7}{'growth':>8}{'memory':>10}")
    before = 0.0
    for size in SIZES:
        n = size * args.dialogues
        ood, floor = cost("ood", n, root), cost("floor", n, root)
        cpu, least = ood.cpu - start["ood"], floor.cpu - start["floor"]
        growth = f"{cpu / before / 2:8.2f}" if before else " " * 8
        print(f"{n:9,}{cpu:7.1f} s{least:8.2f} s{cpu / least:7.1f}{growth}{ood.memory:7.0f} MB", flush=True)
        before = cpu
    print("ratio: against the floor; growth: CPU against the size before, divided by the growth of the corpus")
    return 0


def cost(name: str, dialogues: int, root: Path) -> Cost:
    """Measures the command or the floor on a corpus with this number of dialogues."""
    corpus, out = root / str(dialogues), root / "out"
    make_corpus(corpus, {"train": dialogues * 9 // 10, "test": dialogues // 10})
    shutil.rmtree(out, ignore_errors=True)
    if name == "ood":
        command = ["-m", "parapet.pipelines.main", "ood", "--quiet", "--sgd", str(corpus), "--output", str(out)]
        command += ["--split", "train,test", "--rates", ",".join(RATES)]
    else:
        command = ["-m", "benchmarks.ood", "--floor", str(corpus), str(out)]
    try:
        return measure([sys.executable, *command])
    finally:
        shutil.rmtree(out, ignore_errors=True)


def write_twice(root: Path, out: Path) -> None:
    """Parses each dialogue file, and writes and hashes it for each rate."""
    for path in sorted(root.glob("*/dialogues_*.json")):
        parsed = orjson.loads(path.read_bytes())
        for rate in RATES:
            data = orjson.dumps(parsed, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
            hashlib.sha256(data).hexdigest()
            to = out / rate / path.relative_to(root)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(data)


if __name__ == "__main__":
    sys.exit(main())
