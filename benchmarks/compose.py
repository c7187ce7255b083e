"""Times ``parapet compose`` against ``parapet.crowd.compose``, the same in memory without Beam, on growing corpora.

    python benchmarks/compose.py [--answers 10000,100000,1000000] [--folder bench-output]

Both run as whole processes, one after the other, and must write the same bytes. CPU seconds are user and system
together, of all processes; memory is the sum of their peaks.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
from pathlib import Path

from benchmarks.measuring import measure

KEY = "a key for benchmarks only"


def main() -> int:
    """Prints the table; gives 1 where the two differ in what they write."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--answers", default="10000,100000,1000000")
    flags.add_argument("--folder", type=Path, default=Path("bench-output"))
    flags.add_argument("--reference", nargs=3, metavar=("SCHEMAS", "RESPONSES", "OUT"), help=argparse.SUPPRESS)
    args = flags.parse_args()
    if args.reference:
        return reference(*args.reference)
    from benchmarks import corpus

    print(f"{'answers':>10} {'pipeline':>20} {'reference':>20} {'ratio':>6} {'us/answer':>10} {'growth':>7}")
    before = None
    for n in map(int, args.answers.split(",")):
        root = args.folder / str(n)
        schemas, responses = corpus.make(root, n)
        given = ",".join(map(str, responses))
        out, ref = root / "out", root / "reference"
        for folder in (out, ref):
            shutil.rmtree(folder, ignore_errors=True)
        parapet = [
            sys.executable,
            "-m",
            "parapet",
            "compose",
            "--quiet",
            "--schemas",
            str(schemas),
            "--responses",
        ]
        cpu, memory = run([*parapet, *map(str, responses), "--output", str(out)])
        ref_cpu, ref_memory = run(
            [sys.executable, "-m", "benchmarks.compose", "--reference", str(schemas), given, str(ref)]
        )
        growth = f"{cpu / before[1] / (n / before[0]):7.2f}" if before else f"{'':>7}"
        print(
            f"{n:>10,} {cpu:>9.1f} s {memory:>5.0f} MB {ref_cpu:>9.1f} s {ref_memory:>5.0f} MB "
            f"{cpu / ref_cpu:>6.2f} {1e6 * cpu / n:>10.0f} {growth}",
            flush=True,
        )
        before = (n, cpu)
        if difference := differ(out, ref):
            print(f"the two differ in {difference}", file=sys.stderr)
            return 1
    print("growth: CPU seconds against the size before, divided by the growth of the corpus; 1.00 is linear")
    return 0


def run(command: list[str]) -> tuple[float, float]:
    """CPU seconds and megabytes of a command. Raises CalledProcessError where it fails."""
    cost = measure(command, {"PARAPET_WORKER_KEY": KEY})
    return cost.cpu, cost.memory


def differ(first: Path, second: Path) -> str:
    """The first file of ``second`` that is not the same in ``first``, or nothing."""
    for path in sorted(p.relative_to(second) for p in second.rglob("*") if p.is_file()):
        if not (first / path).exists() or digest(first / path) != digest(second / path):
            return str(path)
    return ""


def digest(path: Path) -> bytes:
    """The file's SHA-256."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").digest()


def reference(schemas: str, responses: str, out: str) -> int:
    """Composes in this process, in memory."""
    from parapet.crowd import compose

    compose(schemas, responses.split(",")).save(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
