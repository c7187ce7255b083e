"""Worker processes that are forked from the command: they begin with all that it has imported.

Beam's own worker processes (``--direct_running_mode=multi_processing``) are started from nothing, and each imports Beam
and Parapet again. A process can be forked safely only while it has one thread, so the workers are forked before the run
begins, wait for Beam's local runner to call them, and end with the command, also where that is killed.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import grpc
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.portability.fn_api_runner.worker_handlers import GrpcWorkerHandler, WorkerHandler
from apache_beam.runners.worker import sdk_worker_main
from apache_beam.transforms.environments import Environment, python_sdk_capabilities
from google.protobuf import json_format, text_format

URN = "parapet:env:forked:v1"

_LOOK_AGAIN = 0.2  # seconds


class Worker:
    """A forked process that waits for its orders."""

    def __init__(self, inherited: list[int]) -> None:
        orders, self.to_worker = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            for number in (*inherited, self.to_worker):
                os.close(number)
            _obey(orders)
        os.close(orders)
        self.ended = False
        self.lock = threading.Lock()

    def order(self, environment: Mapping[str, str]) -> None:
        """Has it call the runner, with these variables as its environment and with the paths of this process."""
        with open(self.to_worker, "wb", closefd=False) as pipe:
            pipe.write(json.dumps([dict(environment), sys.path]).encode() + b"\n")

    def wait(self) -> int:
        """Its exit status, once it has ended."""
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with self.lock:
            _, status = os.waitpid(self.pid, 0)
            self.ended = True
        return os.waitstatus_to_exitcode(status)

    def kill(self) -> None:
        """Ends it, whatever it does."""
        with self.lock:
            if not self.ended:  # its number may be another's by now
                os.kill(self.pid, signal.SIGKILL)


def _obey(orders: int) -> None:
    """The life of a worker process. It never returns."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command hears of a Ctrl-C, and ends the workers
        pipe = open(orders, "rb")  # noqa: SIM115 (open as long as the process)
        if line := pipe.readline():
            environment, sys.path[:] = json.loads(line)
            os.environ.clear()
            os.environ.update(environment)
            threading.excepthook = lambda _: None  # of connections that break when the command is gone
            threading.Thread(target=_end_with_command, args=(pipe,), daemon=True).start()
            logging.getLogger().handlers.clear()  # what a worker logs goes to the command, or nowhere when it is gone
            logging.lastResort = None
            sdk_worker_main.main([])
        status = 0
    finally:
        os._exit(status)


def _end_with_command(pipe: Any) -> None:
    pipe.read()  # until the other end is closed
    os._exit(1)


class ForkedEnvironment(Environment):
    """Where the functions of a pipeline run: in forked processes."""

    def to_runner_api_parameter(self, context: Any) -> tuple[str, bytes]:
        """As Beam describes it in a pipeline."""
        return URN, b""

    @staticmethod
    def from_runner_api_parameter(payload: bytes, capabilities: Any, artifacts: Any, hints: Any, context: Any) -> Any:
        """Of such a description."""
        return ForkedEnvironment(capabilities, artifacts, hints)


class _Handler(GrpcWorkerHandler):
    """What Beam's local runner knows of a worker."""

    waiting: ClassVar[list[Worker]] = []  # forked, and not called yet
    deaths: ClassVar[list[str]] = []  # how workers have ended while they had work

    def __init__(self, payload: bytes, state: Any, provision_info: Any, grpc_server: Any) -> None:
        super().__init__(state, provision_info, grpc_server)
        self.closing = threading.Event()

    def start_worker(self) -> None:
        """Calls a waiting one."""
        self.worker = self.waiting.pop()
        control, log = (
            text_format.MessageToString(descriptor)
            for descriptor in (self.control_api_service_descriptor(), self.logging_api_service_descriptor())
        )
        described = {
            "WORKER_ID": self.worker_id,
            "CONTROL_API_SERVICE_DESCRIPTOR": control,
            "LOGGING_API_SERVICE_DESCRIPTOR": log,
            "PIPELINE_OPTIONS": json_format.MessageToJson(self.provision_info.provision_info.pipeline_options),
        }
        self.worker.order({**os.environ, **described})
        self.watcher = threading.Thread(target=self._watch, daemon=True)
        self.watcher.start()

    def _watch(self) -> None:
        """Answers for a worker that has died: Beam would wait for it for ever."""
        status = self.worker.wait()
        if self.closing.is_set():
            return
        reason = signal.Signals(-status).name if status < 0 else f"status {status}"
        hint = ": out of memory? --workers 1 needs less of it" if status == -signal.SIGKILL else ""
        self.deaths.append(reason + hint)
        while not self.closing.wait(_LOOK_AGAIN):
            for instruction, future in [*self.control_conn._futures_by_id.items()]:
                if not future.is_done():
                    future.set(beam_fn_api_pb2.InstructionResponse(instruction_id=instruction, error=reason))

    def close(self) -> None:
        """Says goodbye to it."""
        self.closing.set()
        if self.watcher.is_alive():
            super().close()
        else:  # nobody is there to say goodbye to
            self.data_conn.close()

    def stop_worker(self) -> None:
        """Waits for its end."""
        self.watcher.join()


Environment.register_urn(URN, bytes)(ForkedEnvironment)
WorkerHandler.register_environment(URN, bytes)(_Handler)


def _report_of_thread(failure: threading.ExceptHookArgs) -> None:
    """Silent on the connections that break where a worker has died: the command says why."""
    if not issubclass(failure.exc_type, grpc.RpcError):
        threading.__excepthook__(failure)


@contextmanager
def forked(number: int) -> Iterator[ForkedEnvironment]:
    """The environment of so many forked workers. They have ended when the block has.

    Args:
      number: of workers. The process must have a single thread.

    Raises:
      RuntimeError: a worker ended before its work was done.
    """
    workers: list[Worker] = []
    for _ in range(number):
        workers.append(Worker([worker.to_worker for worker in workers]))
    _Handler.waiting = [*workers]
    before, threading.excepthook = threading.excepthook, _report_of_thread
    try:
        yield ForkedEnvironment(python_sdk_capabilities(), (), None)
    except Exception:
        if _Handler.deaths:
            raise RuntimeError(f"a worker process ended with {_Handler.deaths[0]}") from None
        raise
    finally:
        threading.excepthook = before
        for worker in workers:
            os.close(worker.to_worker)
            worker.kill()
        for worker in _Handler.waiting:
            worker.wait()
        _Handler.waiting = []
