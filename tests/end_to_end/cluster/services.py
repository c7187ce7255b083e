"""What runs on the machines: Beam's job service with two workers, and two worker pools behind one address."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from apache_beam.portability.api import beam_fn_api_pb2_grpc


def serve_jobs(flags: list[str]) -> None:
    """Beam's job service. It takes no number of workers from a job, and would use one."""
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    from apache_beam.runners.portability.local_job_service_main import run

    make = FnApiRunner.__init__

    def make_with_two_workers(self: Any, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        self._num_workers = 2

    FnApiRunner.__init__ = make_with_two_workers  # type: ignore[method-assign]
    run(flags)


class _Pools(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """Asks one pool after the other for a worker: a job has one address of a pool, and its workers one machine."""

    def __init__(self, addresses: Sequence[str]) -> None:
        stubs = [
            beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(grpc.insecure_channel(address)) for address in addresses
        ]
        self._next = itertools.cycle(stubs)

    def StartWorker(self, request: Any, _: Any) -> Any:
        return next(self._next).StartWorker(request)


def serve_pools(port: int, addresses: Sequence[str]) -> None:
    """A worker pool that has its workers from others."""
    server = grpc.server(ThreadPoolExecutor(2))
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(_Pools(addresses), server)
    server.add_insecure_port(f"[::]:{port}")
    server.start()
    threading.Event().wait()


if __name__ == "__main__":
    if sys.argv[1] == "jobs":
        serve_jobs(sys.argv[2:])
    else:
        serve_pools(int(sys.argv[2]), sys.argv[3:])
