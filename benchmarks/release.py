"""Times ``parapet release build`` and ``verify`` against plain loops, on corpora of growing size.

    python -m benchmarks.release [--dialogues 2000,4000,8000] [--folder bench-output]

The loop of ``build`` parses each file with orjson, makes rows of its dialogues, converts them with Arrow, writes
Parquet and a copy of the file, and hashes files and rows. That of ``verify`` hashes all files of the release, parses
the JSON with orjson and reads Parquet, without comparing anything. All run as whole programs in one process, start
included; CPU seconds are user and system time, memory is the peak. "growth" is the ratio of CPU seconds to the previous
size, divided by that of the dialogues: 1.00 is linear.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
from pathlib import Path

from benchmarks.growth import make_corpus
from benchmarks.measuring import Cost, measure
from benchmarks.start import PROGRAM

_TOML = """\
name = "bench"
version = "1.0.0"
licence = "CC-BY-SA-4.0"
description = "A corpus to measure with."
allow_problems = ["span_value", "span", "reference"]
authors = [{{ name = "Ada Example" }}]
corpora = [{{ path = "{sgd}", name = "original", kind = "original" }}]
"""


def main() -> int:
    """Prints the table."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--dialogues", default="2000,4000,8000")
    flags.add_argument("--folder", type=Path, default=Path("bench-output"))
    flags.add_argument("--loop", nargs=3, metavar=("ACTION", "IN", "OUT"), help=argparse.SUPPRESS)
    args = flags.parse_args()
    if args.loop:
        LOOPS[args.loop[0]](Path(args.loop[1]), Path(args.loop[2]))
        return 0
    print(f"{'dialogues':>10} {'':8}{'parapet':>18}{'plain loop':>18}{'ratio':>7}{'growth':>8}")
    before: dict[str, tuple[int, float]] = {}
    for size in map(int, args.dialogues.split(",")):
        root = args.folder / "release" / str(size)
        make_corpus(root / "sgd", {"train": size * 4 // 5, "test": size // 5})
        for action, cost, loop in measured(root):
            growth = cost.cpu / before[action][1] / (size / before[action][0]) if action in before else None
            before[action] = size, cost.cpu
            columns = "".join(f"{one.cpu:8.1f} s{one.memory:5.0f} MB" for one in (cost, loop))
            print(
                f"{size:>10,} {action:8}{columns}{cost.cpu / loop.cpu:7.2f}{f'{growth:8.2f}' if growth else ''}",
                flush=True,
            )
    return 0


def measured(root: Path) -> list[tuple[str, Cost, Cost]]:
    """Builds a release of the corpus below ``root`` and verifies it; returns (action, its cost, its loop's cost)."""
    for out in ("out", "loop"):
        shutil.rmtree(root / out, ignore_errors=True)
    (root / "release.toml").write_text(_TOML.format(sgd="sgd"))
    one_process = ["--workers", "1", "--quiet"]
    release = root / "out" / "bench" / "1.0.0"
    loop = [sys.executable, "-m", "benchmarks.release", "--loop"]
    build = [*PROGRAM, "release", "build", "--config", str(root / "release.toml"), "--output", str(root / "out")]
    costs = [
        ("build", measure([*build, *one_process]), measure([*loop, "build", str(root / "sgd"), str(root / "loop")]))
    ]
    verify = [*PROGRAM, "release", "verify", str(release)]
    costs.append(("verify", measure([*verify, "--quiet"]), measure([*loop, "verify", str(release), ""])))
    return costs


def build_plainly(sgd: Path, out: Path) -> None:
    """Writes Parquet and copies of a corpus and hashes them, one file after the other."""
    import orjson
    import pyarrow as pa
    import pyarrow.parquet as pq

    from parapet.schemas.rows import DIALOGUES, dialogue_lines

    for split in sorted(path.parent for path in sgd.glob("*/schema.json")):
        (out / split.name).mkdir(parents=True)
        rows, digests = hashlib.sha256(), []
        with pq.ParquetWriter(out / f"{split.name}.parquet", DIALOGUES, compression="zstd") as writer:
            for path in sorted(split.glob("dialogues_*.json")):
                data = path.read_bytes()
                digests.append(hashlib.sha256(data).hexdigest())
                (out / split.name / path.name).write_bytes(data)
                rows_of_file = map(orjson.loads, dialogue_lines(data, path.name, path).lines)
                table = pa.Table.from_pylist(list(rows_of_file), DIALOGUES)
                writer.write_table(table)
                for row in table.to_pylist():
                    rows.update(orjson.dumps(row, option=orjson.OPT_SORT_KEYS))
        (out / f"{split.name}.sha256").write_text("\n".join([rows.hexdigest(), *digests]))


def verify_plainly(release: Path, _: Path) -> None:
    """Hashes all files, parses the JSON and reads Parquet."""
    import orjson
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in sorted(path for path in release.rglob("*") if path.is_file()):
        data = path.read_bytes()
        hashlib.sha256(data).hexdigest()
        if path.suffix == ".json":
            orjson.loads(data)
        elif path.suffix == ".parquet":
            pq.read_table(pa.BufferReader(data))


LOOPS = {"build": build_plainly, "verify": verify_plainly}

if __name__ == "__main__":
    sys.exit(main())
