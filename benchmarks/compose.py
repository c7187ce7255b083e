"""Times ``parapet compose`` against ``parapet.compose``, its in-memory version without Beam, on growing corpora.

    python -m benchmarks.compose [--answers 10000,100000,1000000] [--per_service 25000,50000,100000] [--folder DIR]

In the first table, services grow with the answers; in the second, there are six services with ever more answers. Both
run as whole processes, one after the other, and must write the same bytes. CPU seconds are user and system time of all
processes; memory is the sum of their peaks.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measuring import measure

KEY = "a key for benchmarks only"


def main() -> int:
    """Prints the table; returns 1 if the two outputs differ."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--answers", default="10000,100000,1000000")
    flags.add_argument("--per_service", default="25000,50000,100000", help="answers to six services together")
    flags.add_argument("--folder", type=Path, default=Path("bench-output"))
    flags.add_argument("--reference", nargs=3, metavar=("SCHEMAS", "RESPONSES", "OUT"), help=argparse.SUPPRESS)
    args = flags.parse_args()
    if args.reference:
        return reference(*args.reference)
    for title, sizes, services in (("answers", args.answers, 0), ("to six services", args.per_service, 6)):
        if difference := table(title, [int(size) for size in sizes.split(",") if size], services, args.folder):
            print(f"the two differ in {difference}", file=sys.stderr)
            return 1
    print("growth: CPU seconds against the size before, divided by the growth of the corpus; 1.00 is linear")
    return 0


def table(title: str, sizes: Sequence[int], services: int, folder: Path) -> str:
    """Prints a row for each number of answers; returns the first file in which the outputs differ, if any."""
    from benchmarks import corpus

    print(f"{title:>15} {'pipeline':>20} {'reference':>20} {'ratio':>6} {'us/answer':>10} {'growth':>7}")
    before = None
    for n in sizes:
        root = folder / (f"compose-{n}-{services}" if services else str(n))
        schemas, responses = corpus.make(root, n, services)
        inputs = ["--schemas", str(schemas), "--responses", *map(str, responses)]
        out, ref = root / "out", root / "reference"
        for made in (out, ref):
            shutil.rmtree(made, ignore_errors=True)
        parapet = [sys.executable, "-m", "parapet", "compose", "--quiet"]
        cpu, memory = run([*parapet, *inputs, "--output", str(out)])
        plain = [sys.executable, "-m", "benchmarks.compose", "--reference", str(schemas), ",".join(map(str, responses))]
        ref_cpu, ref_memory = run([*plain, str(ref)])
        growth = f"{cpu / before[1] / (n / before[0]):7.2f}" if before else f"{'':>7}"
        print(
            f"{n:>15,} {cpu:>9.1f} s {memory:>5.0f} MB {ref_cpu:>9.1f} s {ref_memory:>5.0f} MB "
            f"{cpu / ref_cpu:>6.2f} {1e6 * cpu / n:>10.0f} {growth}",
            flush=True,
        )
        before = (n, cpu)
        if difference := differ(out, ref):
            return difference
    return ""


def run(command: list[str]) -> tuple[float, float]:
    """Measures CPU seconds and megabytes of a command. Raises CalledProcessError if it fails."""
    cost = measure(command, {"PARAPET_WORKER_KEY": KEY})
    return cost.cpu, cost.memory


def differ(first: Path, second: Path) -> str:
    """Returns the first file of ``second`` that differs in ``first``; empty if none does."""
    for path in sorted(p.relative_to(second) for p in second.rglob("*") if p.is_file()):
        if not (first / path).exists() or digest(first / path) != digest(second / path):
            return str(path)
    return ""


def digest(path: Path) -> bytes:
    """Computes the file's SHA-256."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").digest()


def reference(schemas: str, responses: str, out: str) -> int:
    """Composes in memory, in this process."""
    from parapet import compose

    compose(schemas, responses.split(",")).save(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
