"""Times ``parapet unseen_entities`` against a floor: parsing, writing and hashing the files once with orjson.

    python -m benchmarks.entities [--dialogues 1000] [--steps 3] [--sgd ROOT] [--folder bench-output]

The corpora repeat the dialogues of the bundled sample, or of ROOT, under new ids and with other values, so that the
number of distinct values grows with the dialogues. Half of them are the split train; both splits are perturbed. Time
should grow linearly: growth is the ratio of CPU time to the line above, divided by the growth of the corpus. The start
of Python and Beam, measured on one dialogue, is subtracted. CPU seconds are user and system time of one process.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import time
from itertools import islice
from pathlib import Path

import orjson

from benchmarks.measuring import measure
from parapet.schemas import layout
from parapet.transforms.perturbation.corpora import read_corpus
from parapet.transforms.perturbation.corpus import perturbed_sets
from parapet.transforms.perturbations.entities.perturbation import UnseenEntities

DIALOGUES_A_FILE = 64
SPLITS = ("train", "test")


def main() -> int:
    """Prints the table."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--dialogues", type=int, default=1000)
    flags.add_argument("--steps", type=int, default=3)
    flags.add_argument("--sgd", type=Path, default=layout.sample_root())
    flags.add_argument("--folder", type=Path, default=Path("bench-output"))
    args = flags.parse_args()
    root = args.folder / "entities"
    shutil.rmtree(root, ignore_errors=True)
    make(args.sgd, root / "one", 2)
    start = command(root / "one", root / "out")
    print(f"start of Python and Beam: {start:.1f} CPU s, taken off below")
    print(f"{'dialogues':>9}{'turns':>9}{'files alone':>13}{'CPU':>9}{'ratio':>7}{'a turn':>9}{'growth':>8}")
    before = 0.0
    for step in range(args.steps):
        dialogues = args.dialogues * 2**step
        corpus = root / str(dialogues)
        turns = make(args.sgd, corpus, dialogues)
        floor = files_alone(corpus)
        cpu = command(corpus, root / "out") - start
        growth = f"{cpu / before / 2:8.2f}" if before else ""
        ratio, micros = cpu / floor, 1e6 * cpu / turns
        print(f"{dialogues:9,}{turns:9,}{floor:11.2f} s{cpu:7.2f} s{ratio:7.1f}{micros:6.0f} µs{growth}", flush=True)
        before = cpu
    return 0


def make(source: Path, corpus: Path, dialogues: int) -> int:
    """Writes a corpus with this number of dialogues. Returns its number of turns."""
    original = read_corpus(source, None)
    schema = layout.schema_bytes(original.services())
    turns = 0
    written: list[dict] = []
    seed = 0
    while len(written) < dialogues:
        (copy,) = perturbed_sets(original, UnseenEntities(seed=seed, training=source)).values()
        for dialogue in islice(copy.dialogues(), dialogues - len(written)):
            written.append({**dialogue, "dialogue_id": f"1_{len(written):06}"})
            turns += len(dialogue["turns"])
        seed += 1
    for i, split in enumerate(SPLITS):
        (corpus / split).mkdir(parents=True)
        (corpus / split / "schema.json").write_bytes(schema)
        of_split = written[i::2]
        for n, first in enumerate(range(0, len(of_split), DIALOGUES_A_FILE), 1):
            path = corpus / split / f"dialogues_{n:03}.json"
            path.write_bytes(layout.dialogue_bytes(of_split[first : first + DIALOGUES_A_FILE]))
    return turns


def files_alone(corpus: Path) -> float:
    """Measures CPU seconds for reading, parsing, writing and hashing the dialogue files of a corpus."""
    started = time.process_time()
    for split in SPLITS:
        for path in layout.dialogue_files(corpus, split):
            data = orjson.dumps(orjson.loads(path.read_bytes()), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
            hashlib.sha256(data).hexdigest()
            (corpus / "copy.json").write_bytes(data)
    return time.process_time() - started


def command(corpus: Path, output: Path) -> float:
    """Measures CPU seconds of the command."""
    shutil.rmtree(output, ignore_errors=True)
    flags = ["--quiet", "--workers", "1", "--sgd", str(corpus), "--split", ",".join(SPLITS), "--output", str(output)]
    return measure([sys.executable, "-m", "parapet.pipelines.main", "unseen_entities", *flags]).cpu


if __name__ == "__main__":
    sys.exit(main())
