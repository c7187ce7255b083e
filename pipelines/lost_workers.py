"""A worker that is gone ends the run: Beam's local runner would wait for ever for one that was killed, or switched off.

The runner is in the process that calls :func:`notice`: that of the command, or of :mod:`parapet.pipelines.job_service`.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import cache
from typing import Any

import grpc
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.portability import local_job_service
from apache_beam.runners.portability.fn_api_runner.worker_handlers import (
    BeamFnControlServicer,
    ControlConnection,
    SubprocessSdkWorkerHandler,
)

from parapet.pipelines.runners import LOST

# A machine that is switched off says nothing: it is asked after so many seconds of silence, and has so many to answer.
ASK_AFTER, ANSWER_WITHIN = 10, 60


@cache
def notice() -> None:
    """Has Beam's local runner notice lost workers from now on, in this process."""
    read, push, close = ControlConnection._read, ControlConnection.push, ControlConnection.close
    server = grpc.server

    def read_until_lost(connection: Any) -> None:
        with suppress(grpc.RpcError):
            read(connection)
        _lose(connection)

    def push_unless_lost(connection: Any, request: Any) -> Any:
        future = push(connection, request)
        if request is not BeamFnControlServicer._DONE_MARKER and getattr(connection, "lost", False):
            _lose(connection)
        return future

    def close_before_it_begins(connection: Any) -> None:
        if connection._state == BeamFnControlServicer.UNSTARTED_STATE:
            connection.push(BeamFnControlServicer._DONE_MARKER)  # of the others one may not have begun yet
        close(connection)

    def start_worker(handler: Any) -> None:
        handler.worker = local_job_service.SubprocessSdkWorker(
            handler._worker_command_line, handler.control_address, handler.provision_info, handler.worker_id
        )

        def run() -> None:
            with suppress(RuntimeError):  # it ended with another status than 0
                handler.worker.run()
            _lose(handler.control_conn)

        handler.worker_thread = threading.Thread(name="run_worker", target=run)
        handler.worker_thread.start()

    def asking_server(*args: Any, options: Any = (), **more: Any) -> Any:
        times = {"time": ASK_AFTER, "timeout": ANSWER_WITHIN}
        asking = [(f"grpc.keepalive_{name}_ms", seconds * 1000) for name, seconds in times.items()]
        return server(*args, options=[*(options or ()), *asking], **more)

    ControlConnection._read = read_until_lost
    ControlConnection.push = push_unless_lost
    ControlConnection.close = close_before_it_begins
    SubprocessSdkWorkerHandler.start_worker = start_worker
    grpc.server = asking_server


def _lose(connection: Any) -> None:
    """Answers for a worker: all that it was asked has failed."""
    connection.lost = True
    while connection._futures_by_id:
        with suppress(KeyError):  # another thread may do the same
            instruction, future = connection._futures_by_id.popitem()
            future.set(beam_fn_api_pb2.InstructionResponse(instruction_id=instruction, error=LOST))
