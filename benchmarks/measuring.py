"""Measures the CPU seconds and the memory of all processes of a command."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_EVERY = 0.02  # seconds between two readings of the processes' peaks


class Cost(NamedTuple):
    """The cost of a command.

    Attributes:
      cpu: seconds, user and system, of all processes.
      wall: seconds.
      memory: megabytes: the sum of each process's own peak (its ``ru_maxrss``).
      largest: megabytes: the peak of the largest process.
    """

    cpu: float
    wall: float
    memory: float
    largest: float


def measure(command: Sequence[str], env: Mapping[str, str] | None = None) -> Cost:
    """Runs a command to its end.

    Args:
      command: the program and its arguments. Its stdout is discarded.
      env: variables in addition to those of this process.

    Raises:
      CalledProcessError: the command failed.
    """
    peaks: dict[int, int] = {}
    ended = threading.Event()
    started = time.monotonic()
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": ".", **(env or {})}, stdout=subprocess.DEVNULL)
    watcher = threading.Thread(target=_watch, args=(process.pid, peaks, ended))
    watcher.start()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - started
    ended.set()
    watcher.join()
    if status:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), list(command))
    largest = usage.ru_maxrss  # exact, unlike the last reading
    memory = sum(peaks.values()) - max(peaks.values(), default=0) + largest
    return Cost(usage.ru_utime + usage.ru_stime, wall, memory / 1024, largest / 1024)


def _watch(root: int, peaks: dict[int, int], ended: threading.Event) -> None:
    """Records the peak of each process below ``root`` in kilobytes, until the end."""
    while not ended.wait(_EVERY):
        waiting = [root]
        while waiting:
            pid = waiting.pop()
            try:
                status = Path(f"/proc/{pid}/status").read_text()
                children = [Path(thread, "children").read_text() for thread in Path(f"/proc/{pid}/task").iterdir()]
            except OSError:  # the process has ended
                continue
            waiting += [int(child) for of_thread in children for child in of_thread.split()]
            peak = status.partition("VmHWM:")[2].split(maxsplit=1)
            if peak:
                peaks[pid] = max(peaks.get(pid, 0), int(peak[0]))
