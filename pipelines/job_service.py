"""Beam's job service for workers on several machines: ``python -m parapet.pipelines.job_service --port 8099``.

It is the service of ``python -m apache_beam.runners.portability.local_job_service_main``, with two differences. A job
has a worker of each pool in ``--environment_config HOST:PORT,HOST:PORT``, or several with ``--sdk_worker_parallelism``,
where Beam's has one in all. And it fails where a worker is lost, where Beam's may wait for ever.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

from apache_beam.options.pipeline_options import PortableOptions
from apache_beam.runners.portability import local_job_service_main
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.fn_api_runner.worker_handlers import ExternalWorkerHandler

from parapet.pipelines import lost_workers


@cache
def install() -> None:
    """Has Beam's local runner use several pools, and notice lost workers, from now on, in this process."""
    lost_workers.notice()
    run, start = FnApiRunner.run_via_runner_api, ExternalWorkerHandler.start_worker

    def run_on_all(runner: Any, pipeline: Any, options: Any) -> Any:
        portable = options.view_as(PortableOptions)
        if portable.job_endpoint:  # of a job service: the command's own process may run others without
            pools = len((portable.environment_config or "").split(","))
            runner._num_workers = pools * max(1, int(portable.sdk_worker_parallelism))
        return run(runner, pipeline, options)

    def start_on_next(handler: Any) -> None:
        pools = handler._external_payload.endpoint.url.split(",")
        handler._external_payload.endpoint.url = pools[int(handler.worker_id.rpartition("_")[2]) % len(pools)]
        start(handler)

    FnApiRunner.run_via_runner_api = run_on_all
    ExternalWorkerHandler.start_worker = start_on_next


def main(argv: Sequence[str]) -> None:
    """Serves jobs until it is stopped."""
    install()
    local_job_service_main.run(list(argv))


if __name__ == "__main__":
    main(sys.argv[1:])
