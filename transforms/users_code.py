"""Calls of code that is not ours, plug-ins and models: what it does to the process stays within the call."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple, NoReturn

_calling = threading.local()
_exit = os._exit


class _Command(NamedTuple):
    process: int
    folder: str | None  # None where it was removed


_commands: list[_Command] = []  # that run in this process, or ran where it was forked


def _leave(status: int) -> NoReturn:
    """In place of ``os._exit``: with it, a command would end in the middle as if it were done."""
    if os.getpid() in {getattr(_calling, "process", None), *(command.process for command in _commands)}:
        sys.stderr.write(f"error: the process was ended by code that it ran, with os._exit({status})\n")
        sys.stderr.flush()
        status = 1
    _exit(status)


os._exit = _leave


@contextmanager
def commanding() -> Iterator[None]:
    """Around a command: its process does not end with ``os._exit``, and :func:`calling` knows its working folder."""
    command = _Command(os.getpid(), _working_folder())
    _commands.append(command)
    try:
        yield
    finally:
        _commands.remove(command)


@contextmanager
def calling() -> Iterator[None]:
    """Around a call: the working folder is put back, a process that it forks ends here, to end ours is a failure.

    Raises:
      RuntimeError: it called ``sys.exit``, which would end the command as if it were done.
    """
    process = os.getpid()
    folder = _commands[-1].folder if _commands else _working_folder()
    outer, _calling.process = getattr(_calling, "process", None), process
    _go(folder)  # code of a plug-in that Beam calls may have left it
    try:
        yield
    except SystemExit as stop:
        raise RuntimeError(f"called sys.exit({stop.code!r})") from stop
    finally:
        _calling.process = outer
        if os.getpid() != process:
            _exit(0)
        _go(folder)


def _working_folder() -> str | None:
    with suppress(FileNotFoundError):
        return os.getcwd()
    return None


def _go(folder: str | None) -> None:
    if folder is not None and _working_folder() != folder:
        os.chdir(folder)
