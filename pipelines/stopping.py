"""Ctrl-C: ends a command within seconds, and says what was published.

Beam's threads may swallow the interrupt, or wait for ever for workers that are gone. So the first Ctrl-C also sets a
deadline, at which the process ends. What is unfinished then is only staged, so the next run removes it.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

_PATIENCE = 2.5  # seconds in which a command may end by itself

outcome: Callable[[], str] = str  # says what a command that is stopped now has left; empty before it does anything

_is_ending = False
_said = threading.Lock()


def run_program(main: Callable[[], int]) -> int:
    """Runs a program; after Ctrl-C, ends this process with all of its threads."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored, as shells do in the background
        return main()
    signal.signal(signal.SIGINT, _interrupt)
    try:
        status = main()
    except KeyboardInterrupt:
        say()
        status = 1
    if _is_ending:
        _leave(status)
    return status


def say(detail: str = "") -> None:
    """Logs that the command was stopped, and what it has left; at most once after Ctrl-C.

    Args:
      detail: replaces the outcome of the command.
    """
    if _is_ending and not _said.acquire(blocking=False):
        return
    detail = detail or outcome()
    logging.error("%s", f"stopped; {detail}" if detail else "stopped before anything was done")


def _interrupt(*_: Any) -> None:
    global _is_ending
    if not _is_ending:
        _is_ending = True
        # What is broken off fails in its own way, in threads and destructors: that is no news.
        threading.excepthook = lambda _: None
        sys.unraisablehook = lambda _: None
        threading.Thread(target=_end, name="stop", daemon=True).start()
    raise KeyboardInterrupt


def _end() -> None:
    time.sleep(_PATIENCE)
    say()
    _leave(1)


def _leave(status: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
