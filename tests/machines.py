"""The tests that train, or ask a net, under what differs from machine to machine; prints a table of it.

``make test-machines``. What a test trains is never the same on two machines: kernels, libraries and threads round
otherwise, and training makes much of that. These settings change all three on one machine; seeds change what is drawn,
and the reversed order what ran before.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SETTINGS = (
    {},
    {"ATEN_CPU_CAPABILITY": "default"},
    {"MKL_CBWR": "COMPATIBLE"},
    {"OMP_NUM_THREADS": "2"},  # tests/conftest.py sets 1 otherwise
    *({"PARAPET_TEST_SEED": number} for number in "123"),
    {"PARAPET_TEST_ORDER": "reversed"},
)
PAGES = ("models", "ratings")  # whose examples train
_NETS = re.compile(
    r"""^(?:import|from) (?:torch|tiny_\w+)\b|^from kit import .*\b(?:SEED|train)\b|importorskip\("torch"|"""
    r"""run\("train", (?!"rules")""",
    re.M,
)


def tests() -> list[str]:
    """The test files that use a net, and the pages whose examples train one."""
    files = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if _NETS.search(path.read_text())]
    example = "tests/end_to_end/test_docs.py::test_examples_run_and_say_what_is_shown"
    return [*(str(path.relative_to(ROOT)) for path in files), *(f"{example}[docs/{page}.md]" for page in PAGES)]


def main(chosen: list[str]) -> int:
    """Runs them under each setting; 1 where a test failed."""
    failed = False
    print("| setting | result |\n|---|---|", flush=True)
    flags = ["-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=", "-q", "-m", "not thorough"]
    command = [sys.executable, "-m", "pytest", *flags, *(chosen or tests())]
    for setting in SETTINGS:
        run = subprocess.run(command, cwd=ROOT, env={**os.environ, **setting}, capture_output=True, text=True)
        failed |= run.returncode != 0
        lines = run.stdout.splitlines()
        name = " ".join(f"{key}={value}" for key, value in setting.items()) or "as it is"
        wrong = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        print(f"| {name} | {lines[-1] if lines else run.stderr[-300:]} |", flush=True)
        print("".join(f"| | {line} |\n" for line in wrong), end="", flush=True)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
