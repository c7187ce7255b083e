"""Runs the matrix: ``python -m matrix FOLDER [--only TEXT]`` with ``tests`` and ``tests/end_to_end`` on the path.

Writes FOLDER/cells.csv, and the table and the picture of the documentation: docs/inputs_outputs.json and
docs/images/inputs_outputs.svg. What was tried is in FOLDER, and is not tried again.
"""

import csv
import itertools
import json
import os
import sys
from pathlib import Path

import beam_memo

from matrix.cells import Cell, parts_of, ranked, run_cell, tried
from matrix.inputs import command_lines
from matrix.picture import label_of, summary_of, svg_of, table_of
from matrix.producers import play_batch, produce
from parapet.local_mturk.server import LocalMTurk

DOCS = Path(__file__).parents[3] / "docs"
PORT = 18_650  # of the local MTurk: a batch remembers it


def main(folder: Path, only: str = "", share: str = "0/1") -> int:
    """Makes the outputs, and tries them all."""
    beam_memo.install()
    place = folder.resolve()
    for name, status in produce(place):
        print(name, status, flush=True)
        assert status == 0, name
    i, n = map(int, share.split("/"))
    os.environ.update(dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "practice"))
    with LocalMTurk(place / "mturk.sqlite", PORT + i) as server:
        play_batch(place, server)
        try_all(place, only, i, n)
    return write(place)


def write(place: Path) -> int:
    """Writes what was found; 1 where a cell has a fault."""
    lines = {line for path in place.glob("cells-*.jsonl") for line in path.read_text().splitlines()}
    cells = sorted(Cell(*json.loads(line)) for line in lines)
    with (place / "cells.csv").open("w", newline="") as file:
        csv.writer(file).writerows([Cell._fields, *cells])
    table = table_of(cells)
    outputs = sorted({cell.producer for cell in cells})
    (DOCS / "images/inputs_outputs.svg").write_text(svg_of(table, outputs))
    (DOCS / "inputs_outputs.json").write_text(json.dumps(summary_of(cells, table), indent=1) + "\n")
    faults = [cell for cell in cells if cell.fault]
    for cell in faults:
        print(f"{cell.fault}: {cell.producer}/{cell.relative} as {label_of(cell[2:5])}: {cell.message.strip()[:200]}")
    ran = sum(cell.status == 0 for cell in cells)
    print(f"{len(cells):,} cells: {ran:,} ran, {len(cells) - ran - len(faults):,} refused, {len(faults)} faults")
    return int(bool(faults))


def try_all(place: Path, only: str, i: int, n: int) -> None:
    """Every ``n``-th input; cells that are in the file already are not tried again."""
    producers = sorted(path.name for path in (place / "out").iterdir())
    parts = [part for producer in producers for part in parts_of(place, producer)]
    ranks = ranked(parts)
    cells = place / f"cells-{i}.jsonl"
    done = {tuple(json.loads(line)[:5]) for line in cells.read_text().splitlines()} if cells.exists() else set()
    lines = [pair for pair in command_lines(str(place)).items() if only in " ".join(pair[0])][i::n]
    lines.sort(key=lambda pair: pair[0][0] in ("train", "predict"))  # which take longest
    with cells.open("a") as file:
        # The outputs as a whole first, then a corpus in each, then the other parts.
        for rank, (key, line) in itertools.product(range(3), lines):
            for part in tried(parts, key):
                if (part.producer, part.relative, *key) not in done and rank == ranks[part]:
                    cell = run_cell(place, key, line, part, place / f"scratch-{i}")
                    file.write(json.dumps(cell) + "\n")
                    file.flush()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
