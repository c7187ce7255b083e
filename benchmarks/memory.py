"""Shows how memory grows with the dialogues: the launcher and its workers should hold names of files, not texts.

    python -m benchmarks.memory [--dialogues 4000,8000,16000] [--only few_shot,reminders] [--folder bench-output]

Each command runs as a whole program, with one worker, at each size. Memory is the sum of the peaks of all processes;
"each" is the memory per additional dialogue between the first size and the last. CPU seconds are user and system time;
"growth" is their growth relative to that of the dialogues. "bad" is a run in which nine of ten dialogues are unusable,
"rerun" the same run over its own output. The status is 1 if a dialogue takes more than 2 KB.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.growth import make_corpus
from benchmarks.measuring import Cost, measure
from benchmarks.start import PROGRAM
from parapet.schemas import layout

MOST = 2_000  # bytes per dialogue

_BAD = "turns that are none " * 20


def main() -> int:
    """Prints the table; returns 1 if memory grows with the dialogues."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--dialogues", default="4000,8000,16000")
    flags.add_argument("--only", default=",".join(COMMANDS))
    flags.add_argument("--folder", type=Path, default=Path("bench-output"))
    args = flags.parse_args()
    sizes = [int(size) for size in args.dialogues.split(",")]
    print(f"{'':20}{''.join(f'{size:>12,}' for size in sizes)}{'each':>10}{'CPU':>10}{'growth':>8}")
    grows = False
    for name in args.only.split(","):
        costs = [cost(name, size, args.folder / "memory") for size in sizes]
        each = (costs[-1].memory - costs[0].memory) * 2**20 / (sizes[-1] - sizes[0])
        growth = costs[-1].cpu / costs[0].cpu / (sizes[-1] / sizes[0])
        memory = "".join(f"{of_size.memory:9.0f} MB" for of_size in costs)
        print(f"{name:20}{memory}{each:8.0f} B{costs[-1].cpu:8.1f} s{growth:8.2f}", flush=True)
        grows |= each > MOST
    return int(grows)


def cost(name: str, dialogues: int, folder: Path) -> Cost:
    """Measures a command on a corpus of this size; keeps the corpus, but not the output."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    command = [*PROGRAM, *COMMANDS[name](folder / str(dialogues), dialogues), "--workers", "1", "--quiet"]
    command += ["--output", str(out)]
    if name == "rerun":
        measure(command)
    found = measure(command)
    shutil.rmtree(out)
    return found


def _corpus(folder: Path, dialogues: int) -> str:
    make_corpus(folder / "sgd", {"train": dialogues * 4 // 5, "test": dialogues // 5})
    return str(folder / "sgd")


def _bad_corpus(folder: Path, dialogues: int) -> str:
    root = folder / "bad" / "test"
    sample = layout.sample_root() / "test"
    if not (root / "schema.json").exists():
        root.mkdir(parents=True)
        good = json.loads((sample / "dialogues_001.json").read_bytes())[0]
        for first in range(0, dialogues, 1000):
            bad = [{"dialogue_id": f"{first + i}", "services": [], "turns": _BAD} for i in range(1000)]
            (root / f"dialogues_{first // 1000:03}.json").write_bytes(layout.dialogue_bytes([good, *bad]))
        shutil.copy(sample / "schema.json", root)
    return str(root.parent)


def _variants(folder: Path) -> str:
    """Writes one variant: the originals with another suffix."""
    for split in layout.read_root(layout.sample_root()):
        place = folder / "variants" / "v1" / split.split
        place.mkdir(parents=True, exist_ok=True)
        renamed = [{**raw, "service_name": f"{raw['service_name']}1"} for raw in split.raw]
        (place / "schema.json").write_bytes(layout.schema_bytes(renamed))
    return str(folder / "variants")


def _rewrite(folder: Path, n: int) -> list[str]:
    return ["rewrite", "--sgd", _corpus(folder, n), "--variants", _variants(folder)]


def _simulated(n: int) -> str:
    return f"{n * 4 // 5},0,{n // 5}"


COMMANDS: dict[str, Callable[[Path, int], list[str]]] = {
    "rewrite": _rewrite,
    "rerun": _rewrite,
    "bad": lambda folder, n: ["perturb", "typos", "--sgd", _bad_corpus(folder, n), "--max_bad", "99.99%"],
    "augment": lambda folder, n: ["augment", "--sgd", _corpus(folder, n), "--oracle", _variants(folder)],
    "few_shot": lambda folder, n: ["few_shot", "--sgd", _corpus(folder, n)],
    "language_variations": lambda folder, n: [
        *("language_variations", "--sgd", _corpus(folder, n), "--split", "train", "--kinds", "typos")
    ],
    "hits": lambda folder, n: [
        *("hits", "--task", "rewrites", "--dialogues", _corpus(folder, n), "--split", "train", "--turns", "500")
    ],
    "reminders": lambda folder, n: ["reminders", "--dialogues", _simulated(n)],
    "restaurants": lambda folder, n: ["restaurants", "--sizes", str(n // 25)],
}


if __name__ == "__main__":
    sys.exit(main())
