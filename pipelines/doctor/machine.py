"""The machine: Python, cores, memory, disk, a GPU. Looked up in files and metadata; torch is not imported."""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from parapet.pipelines.doctor.packages import Finding, installed, python_is_enough
from parapet.schemas.errors import install_line

_GPUS = Path("/proc/driver/nvidia/gpus")
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_FEW = 4 * 2**30  # below this, Beam and a model at once are tight


def machine(folder: Path) -> list[Finding]:
    """What is said of this machine.

    Args:
      folder: where outputs would go, the current one.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    detail = f"{cores}; large inputs use them all" if cores > 1 else f"{cores}"
    return [_python(), Finding("cores", "there", detail=detail), _memory(), _torch(), _writable(folder)]


def _python() -> Finding:
    running = platform.python_version()
    enough, wanted = python_is_enough(running)
    detail = f"{running} on {platform.system()} {platform.machine()}"
    if enough:
        return Finding("Python", "there", detail=detail)
    return Finding("Python", "wrong", "everything", f"{detail}, and {wanted} is needed", "install another Python")


def _memory() -> Finding:
    total = memory_bytes()
    if total is None:
        return Finding("memory", "there", detail="not known on this system")
    detail = f"{total / 2**30:.1f} GiB"
    if total < _FEW:
        return Finding("memory", "missing", detail=f"{detail}: large corpora and models may not fit")
    return Finding("memory", "there", detail=detail)


def memory_bytes() -> int | None:
    """What this process may use: of the machine, or of its container if that is less; None where nobody says."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None
    limits = [int(text) for path in _LIMITS if (text := _read(path).strip()).isdigit()]
    return min([total, *limits])


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _torch() -> Finding:
    """Whether models would be computed on a GPU: there is one, and the torch that is installed is built for it."""
    cards, there = gpus(), installed("torch")
    has = ", ".join(cards) or "no NVIDIA GPU"
    if there is None:
        enables = "train and predict with nets, --engine local, --scorer nli"
        return Finding("torch", "missing", enables, f"not installed; {has}", install_line("local"))
    cuda = torch_cuda()
    built = f"torch {there}, built for {f'CUDA {cuda}' if cuda else 'the CPU'}; {has}"
    if cards and not cuda:
        fix = "pip install --force-reinstall torch   (a build for CUDA: https://pytorch.org/get-started/locally)"
        return Finding("torch", "missing", "training on the GPU", built, fix)
    return Finding("torch", "there", detail=f"{built}: computes on the {'GPU' if cards else 'CPU'}")


def gpus(folder: Path = _GPUS) -> list[str]:
    """The models of NVIDIA GPUs that the driver lists."""
    models = [re.search(r"^Model:\s*(.+)$", _read(path / "information"), re.M) for path in sorted(folder.glob("*"))]
    cards = [model[1].strip() if model else "a GPU" for model in models]
    # In a container the driver's files may not be there, and its devices are.
    return cards or ["a GPU" for path in Path("/dev").glob("nvidia*") if path.name[6:].isdigit()]


def torch_cuda() -> str:
    """The version of CUDA that torch is built for, empty for a build for the CPU; read from its ``version.py``."""
    spec = find_spec("torch")
    places: Sequence[str] = spec.submodule_search_locations or () if spec is not None else ()
    versions = [re.search(r"^cuda[^=]*=\s*'([\d.]+)'", _read(Path(place) / "version.py"), re.M) for place in places]
    return next((version[1] for version in versions if version), "")


def _writable(folder: Path) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=folder):  # whether a file can be made shows only when one is
            pass
        free = shutil.disk_usage(folder).free
    except OSError as error:
        reason = f"{folder} cannot be written: {error.strerror}"
        how = "cd elsewhere, or --output elsewhere"
        return Finding("folder", "missing", "outputs in the current folder", reason, how)
    return Finding("folder", "there", detail=f"{folder} can be written, {free / 2**30:,.1f} GiB are free")
