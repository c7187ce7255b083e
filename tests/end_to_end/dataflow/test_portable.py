"""A job service in a process of its own, and workers that take their work from it: nothing is shared by memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from folders import files_of

from dataflow.processes import wait_until
from parapet.pipelines.main import main

# The job service takes no number of workers from a job, and would use one.
SERVICE = """
import sys
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.local_job_service_main import run
make = FnApiRunner.__init__
def make_with_two_workers(self, *args, **options):
    make(self, *args, **options)
    self._num_workers = 2
FnApiRunner.__init__ = make_with_two_workers
run(sys.argv[1:])
"""


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[str]:
    """The address of a job service."""
    port, log = tmp_path / "port", tmp_path / "log"
    command = [sys.executable, "-c", SERVICE, "--port=0"]
    with log.open("wb") as handle:
        service = subprocess.Popen([*command, f"--port_file={port}"], stdout=handle, stderr=handle)
        try:
            wait_until(port.exists, service)
            yield f"localhost:{port.read_text().strip()}"
        finally:
            service.terminate()
            service.wait(30)


def test_a_job_service_with_two_workers_writes_the_same(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, started = BeamFnExternalWorkerPoolServicer.StartWorker, set()

    def starting(pool, request, context):
        started.add(request.worker_id)
        return start(pool, request, context)

    monkeypatch.setattr(BeamFnExternalWorkerPoolServicer, "StartWorker", starting)
    service = ["--runner=PortableRunner", f"--job_endpoint={endpoint}", "--environment_type=LOOPBACK"]
    flags = ["compose", "--allow_partial", "--quiet"]
    assert main([*flags, "--output", str(tmp_path / "here")]) == 0
    assert main([*flags, "--output", str(tmp_path / "there"), *service]) == 0
    assert len(started) == 2
    assert files_of(tmp_path / "there") == files_of(tmp_path / "here")
