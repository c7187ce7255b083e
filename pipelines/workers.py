"""``--workers``: the number of local processes that run a pipeline."""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parapet.pipelines import progress, runners, worker_process
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

AUTO = "auto"
LARGE = 24 << 20  # bytes of dialogues from which on more workers are worth their start, for a quick pipeline

_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_MEMORY = 1 << 30  # bytes that each worker should have


def number(text: str) -> str | int:
    """Parses the value of ``--workers``, for argparse."""
    if text == AUTO:
        return text
    with suppress(ValueError):
        if (n := int(text)) > 0:
            return n
    raise argparse.ArgumentTypeError(f"{text!r} is neither {AUTO} nor a number from 1 on")


def count(args: argparse.Namespace, paths: Iterable[str], large: int | None) -> int:
    """Returns the number of workers of a pipeline; 0 if Beam's own flags determine it.

    Args:
      args: the flags; ``runner_flags`` are Beam's.
      paths: the files and folders that workers read.
      large: the total size in bytes from which on the default is more than one worker; None for always one.

    Raises:
      InputError: ``--workers`` is combined with Beam's own flags for the same purpose.
    """
    of_beam = [flag for flag in args.runner_flags if flag.startswith(("--runner", "--direct_"))]
    if args.workers != AUTO:
        if of_beam:
            raise InputError("says how Beam runs, and so does --workers: give one of the two", of_beam[0])
        return int(args.workers)
    if of_beam:
        return 0
    if large is None or progress.sink is not None or not _is_larger(paths, large):  # suite steps run side by side
        return 1
    memory = memory_bytes()
    cores = len(os.sched_getaffinity(0))
    return cores if memory is None else max(1, min(cores, memory // _MEMORY))


def memory_bytes() -> int | None:
    """Returns the memory that this process may use, limited by its container; None if unknown."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None
    limits = [total]
    for path in _LIMITS:
        with suppress(OSError, ValueError):
            limits.append(int(path.read_text(encoding="utf-8")))
    return min(limits)


def _is_larger(paths: Iterable[str], limit: int) -> bool:
    """Whether local files and folders have at least ``limit`` bytes together; stops listing once they do."""
    total = 0
    for size in (size for path in paths for size in _sizes(path)):
        total += size
        if total >= limit:
            return True
    return False


def _sizes(path: str) -> Iterator[int]:
    if os.path.isdir(path):
        for folder, _, names in os.walk(path):
            for name in names:
                with suppress(OSError):
                    yield os.stat(os.path.join(folder, name)).st_size
    else:
        with suppress(OSError):
            yield os.stat(path).st_size


def _lose_worker(*_: object) -> None:
    """Ends the command, since Beam can neither continue nor close its connections without the worker."""
    logging.error("a worker process was killed: out of memory? --workers 1 needs less of it")
    os._exit(1)


@contextmanager
def started(options: PipelineOptions, workers: int) -> Iterator[Any]:
    """Yields the local runner with this number of workers; None if Beam's own flags determine it."""
    from apache_beam.options.pipeline_options import DirectOptions, StandardOptions
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    from apache_beam.transforms.environments import SubprocessSDKEnvironment

    if not workers:
        standard = options.view_as(StandardOptions)
        # Beam's default looks for a Prism binary to download before it falls back to this runner.
        standard.runner = standard.runner or "FnApiRunner"
        yield None
        return
    if workers == 1:
        yield FnApiRunner()
        return
    options.view_as(DirectOptions).direct_num_workers = workers
    paths = os.pathsep.join(map(os.path.abspath, sys.path))  # includes the folder of a user's perturbation
    words = ["env", f"PYTHONPATH={paths}", sys.executable, "-m", worker_process.__name__, str(os.getpid())]
    environment = SubprocessSDKEnvironment.from_command_string(f"exec {shlex.join(words)}")
    runners.silence_connections()
    before = signal.signal(worker_process.WORKER_LOST, _lose_worker)
    try:
        yield FnApiRunner(default_environment=environment)
    finally:
        signal.signal(worker_process.WORKER_LOST, before)
