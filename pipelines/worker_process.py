"""A local worker process of Beam: ``python -m parapet.pipelines.worker_process``, started by :mod:`workers`.

It is Beam's own worker, except that it imports Beam without its optional libraries and prints no tracebacks: the
command receives each error and reports it once. PARAPET_DEBUG=1 shows what the worker prints. Beam would wait for ever
for a worker that was killed, for example for lack of memory, so this module then sends :data:`WORKER_LOST` to the
command.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time

from parapet.pipelines import lean_imports

WORKER_LOST = signal.SIGUSR1
_LOOK_AGAIN = 0.2  # seconds


def main(command: int) -> None:
    """Serves the runner until it closes the connection.

    Args:
      command: process id of the command, which is the parent.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command receives Ctrl-C, too, and ends the workers
    if worker := os.fork():
        _supervise(worker, command)
    else:
        _work()


def _supervise(worker: int, command: int) -> None:
    """Kills the worker if the command has ended; signals the command if the worker was killed."""
    while not (ended := os.waitpid(worker, os.WNOHANG))[0]:
        if os.getppid() != command:
            os.kill(worker, signal.SIGKILL)
            return
        time.sleep(_LOOK_AGAIN)
    if os.WIFSIGNALED(ended[1]) and os.getppid() == command:
        os.kill(command, WORKER_LOST)


def _work() -> None:
    if os.environ.get("PARAPET_DEBUG") != "1":
        logging.disable(logging.WARNING)
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (open as long as the process)
    lean_imports.lean([])
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main([])


if __name__ == "__main__":
    main(int(sys.argv[1]))
