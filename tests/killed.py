"""Commands that are killed on the way, each in a process of its own.

A new process takes four seconds to load Beam; these are forked from one that has loaded it, once for each worker of
the test run, and has run nothing. ``make test-all``, which sets PARAPET_THOROUGH, starts each from nothing.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from kit import THOROUGH


def start(call: Callable[..., Any], *given: Any) -> BaseProcess:
    """Calls a function, which another process can import, with the environment that there is now."""
    context: Any = multiprocessing.get_context("spawn" if THOROUGH else "forkserver")
    context.set_forkserver_preload(["apache_beam.runners.portability.fn_api_runner", "pyarrow.parquet"])
    process: BaseProcess = context.Process(target=_called, args=(dict(os.environ), os.getcwd(), call, given))
    process.start()
    return process


def _called(environment: dict[str, str], folder: str, call: Callable[..., Any], given: tuple[Any, ...]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    call(*given)


def ended(process: BaseProcess, seconds: float = 120) -> int | None:
    """Its exit status: minus the signal for a killed one, none if it goes on."""
    process.join(seconds)
    return process.exitcode


def command(argv: list[str]) -> None:
    """``parapet`` with these arguments."""
    from parapet.pipelines.main import main

    raise SystemExit(main(argv))


def at_rename(renames: int, argv: list[str]) -> int | None:
    """Runs ``parapet`` and kills it before it renames a file once more than so many times; its exit status."""
    return ended(start(_command_until, renames, argv))


def _command_until(renames: int, argv: list[str]) -> None:
    left = iter(range(renames))

    def or_die(rename: Callable[..., None]) -> Callable[..., None]:
        def renamed(source: str | Path, target: str | Path) -> None:
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            rename(source, target)

        return renamed

    os.rename, os.replace = or_die(os.rename), or_die(os.replace)
    command(argv)
