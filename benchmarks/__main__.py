"""Runs the benchmarks one after the other, each in its own process: ``python -m benchmarks [NAME ...]``.

These are the modules here that have a ``main``. If one fails, the others still run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path


def main() -> int:
    """Prints the benchmarks' output and durations; returns 1 if one failed."""
    modules = sorted(path for path in Path(__file__).parent.glob("*.py") if "\ndef main(" in path.read_text())
    names = [path.stem for path in modules if path.stem != Path(__file__).stem]
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)} (default: all)")
    chosen = flags.parse_args().names or names
    if unknown := set(chosen) - set(names):
        flags.error(f"there is no benchmark {', '.join(sorted(unknown))}: there are {', '.join(names)}")
    lines = []
    for name in chosen:
        print(f"\n== {name}", flush=True)
        began = time.monotonic()
        status = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode
        lines.append((name, time.monotonic() - began, status))
    print("\n== all")
    for name, seconds, status in lines:
        print(f"{name:16}{seconds:8.0f} s{'' if status == 0 else f'  failed, status {status}'}")
    return int(any(status for _, _, status in lines))


if __name__ == "__main__":
    sys.exit(main())
