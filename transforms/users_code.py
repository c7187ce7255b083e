"""Calls of code that is not ours, plug-ins and models: what it does to the process stays within the call."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

_calling = threading.local()
_exit = os._exit


def _leave(status: int) -> NoReturn:
    """In place of ``os._exit``: with it, a command would end in the middle as if it were done."""
    if getattr(_calling, "process", None) == os.getpid():
        sys.stderr.write(f"error: the process was ended by code that it ran, with os._exit({status})\n")
        sys.stderr.flush()
        status = 1
    _exit(status)


os._exit = _leave


@contextmanager
def calling() -> Iterator[None]:
    """Around a call: the working folder is put back, a process that it forks ends here, ``os._exit`` is a failure."""
    process, folder = os.getpid(), os.getcwd()
    outer, _calling.process = getattr(_calling, "process", None), process
    try:
        yield
    finally:
        _calling.process = outer
        if os.getpid() != process:
            _exit(0)
        if os.getcwd() != folder:
            os.chdir(folder)
