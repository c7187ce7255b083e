"""Times ``parapet rewrite`` against a plain loop that works like the published SGD-X generator.

    python -m benchmarks.rewrite [--files 137] [--folder bench-output]

The corpus is made from the bundled sample, with files of SGD's size and five variants; if PARAPET_DATA is set, also
from SGD's own files with SGD-X. One process, two processes and the loop run as whole programs, one after the other, and
must write the same bytes. CPU seconds are user and system time of the program and its children; memory is the sum of
the peaks of all processes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

from benchmarks.compose import differ
from benchmarks.measuring import measure
from parapet.schemas import layout
from parapet.transforms.variants.matching import compose_variant

BYTES_OF_A_FILE = 2_800_000  # SGD: 386 MB in 137 files
TWO_PROCESSES = ["--workers=2"]

_WORDS = ("wanted", "chosen", "local", "given", "usual")


def main() -> int:
    """Prints the table; returns 1 if two of the three outputs differ."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--files", type=int, default=137)
    flags.add_argument("--folder", type=Path, default=Path("bench-output"))
    args = flags.parse_args()
    root = args.folder / f"rewrite-{args.files}"
    corpora = {"sample": (root / "sgd", root / "variants")}
    make(*corpora["sample"], args.files)
    if place := os.environ.get("PARAPET_DATA"):
        corpora["SGD"] = (root / "real", Path(place) / "sgd" / "sgd_x" / "data")
        repeat(Path(place) / "sgd", corpora["SGD"][0], args.files)
    print(f"{'corpus':8}{'':16}{'CPU':>9}{'ratio':>7}{'wall':>9}{'ratio':>7}{'memory':>10}")
    for name, (sgd, variants) in corpora.items():
        if difference := compare(name, sgd, variants, root):
            print(f"two of the three differ in {difference}", file=sys.stderr)
            return 1
    print("ratio: the line's against one process's")
    return 0


def compare(name: str, sgd: Path, variants: Path, root: Path) -> str:
    """Runs all three on a corpus and prints a line for each; returns the first file in which they differ, if any."""
    corpus = ["--sgd", str(sgd), "--variants", str(variants), "--output"]
    parapet = [sys.executable, "-m", "parapet", "rewrite", "--workers=1", "--quiet", *corpus]
    outs = {what: root / what.replace(" ", "-") for what in ("one process", "two processes", "reference")}
    reference = [sys.executable, "-m", "benchmarks.rewrite_reference", str(sgd), str(variants)]
    commands = {
        "one process": [*parapet, str(outs["one process"])],
        "two processes": [*parapet, str(outs["two processes"]), *TWO_PROCESSES],
        "reference": [*reference, str(outs["reference"])],
    }
    first: tuple[float, float] | None = None
    for what, command in commands.items():
        shutil.rmtree(outs[what], ignore_errors=True)
        cpu, wall, memory, _ = measure(command)
        first = first or (cpu, wall)
        print(
            f"{name:8}{what:16}{cpu:7.1f} s{cpu / first[0]:7.2f}{wall:7.1f} s{wall / first[1]:7.2f}{memory:7.0f} MB",
            flush=True,
        )
    return differ(outs["two processes"], outs["one process"]) or differ(outs["one process"], outs["reference"])


def make(sgd: Path, variants: Path, files: int) -> None:
    """Writes a corpus of this number of files below ``sgd`` and five variants below ``variants``, unless they exist.

    The files repeat the sample's dialogues under new ids, each file beginning with another; four of five are train's.
    """
    done = sgd / "done"
    if done.exists():
        return
    splits = {split.split: split for split in layout.read_root(layout.sample_root())}
    for name, split in splits.items():
        (sgd / name).mkdir(parents=True, exist_ok=True)
        (sgd / name / "schema.json").write_bytes(layout.schema_bytes(split.raw))
        for k, word in enumerate(_WORDS, 1):
            place = variants / f"v{k}" / name
            place.mkdir(parents=True, exist_ok=True)
            (place / "schema.json").write_bytes(layout.schema_bytes([_variant(raw, k, word) for raw in split.raw]))
    dialogues = {
        name: [
            dialogue
            for path in layout.dialogue_files(layout.sample_root(), name)
            for dialogue in json.loads(path.read_bytes())
        ]
        for name in splits
    }
    for i in range(files):
        name = "train" if i % 5 else ("dev", "test")[i % 2]
        (sgd / name / f"dialogues_{i:03}.json").write_bytes(_file(dialogues[name], i))
    done.touch()


def _variant(raw: dict, k: int, word: str) -> dict:
    names = {f"slot_{i}": f"{word}_{slot['name']}" for i, slot in enumerate(raw["slots"])}
    names |= {f"intent_{i}": f"{word.capitalize()}{intent['name']}" for i, intent in enumerate(raw["intents"])}
    return compose_variant(raw, k, names, dict.fromkeys((*names, "service"), "what it is"))


def _file(dialogues: list[dict], i: int) -> bytes:
    texts: list[dict] = []
    size = 0
    while size < BYTES_OF_A_FILE:
        n = len(texts)
        texts.append({**dialogues[(i + n) % len(dialogues)], "dialogue_id": f"{i}_{n:05}"})
        size += len(json.dumps(texts[-1], indent=2)) if n < len(dialogues) else size // n
    return layout.dialogue_bytes(texts)


def repeat(source: Path, sgd: Path, files: int) -> None:
    """Links the files of ``source`` repeatedly, until there are enough, unless that is done."""
    done = sgd / "done"
    if done.exists():
        return
    paths = [(name, path) for name in layout.SPLITS for path in layout.dialogue_files(source, name)]
    for name in {name for name, _ in paths}:
        (sgd / name).mkdir(parents=True, exist_ok=True)
        (sgd / name / "schema.json").write_bytes((source / name / "schema.json").read_bytes())
    for i in range(files):
        name, path = paths[i % len(paths)]
        (sgd / name / f"dialogues_{i:03}.json").symlink_to(path.resolve())
    done.touch()


if __name__ == "__main__":
    sys.exit(main())
