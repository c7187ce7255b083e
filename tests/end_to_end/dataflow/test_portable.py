"""A job service in a process of its own, and workers that take their work from it: nothing is shared by memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from folders import files_of

from dataflow.commands import every, write_inputs
from dataflow.processes import wait_until
from parapet.pipelines.main import main

# Two workers: the job service takes no number of them from a job, and would use one.
SERVICE = [sys.executable, "-m", "cluster.services", "jobs"]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The flags of a job service."""
    folder = tmp_path_factory.mktemp("service")
    port = folder / "port"
    path = os.pathsep.join(str(Path(__file__).parents[n]) for n in (1, 2))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*SERVICE, f"--port_file={port}"], stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": path}
        )
        try:
            wait_until(port.exists, process)
            endpoint = f"localhost:{port.read_text().strip()}"
            yield ["--runner=PortableRunner", f"--job_endpoint={endpoint}", "--environment_type=LOOPBACK"]
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The workers that the job service has started."""
    start, ids = BeamFnExternalWorkerPoolServicer.StartWorker, set()

    def starting(pool, request, context):
        ids.add(request.worker_id)
        return start(pool, request, context)

    monkeypatch.setattr(BeamFnExternalWorkerPoolServicer, "StartWorker", starting)
    return ids


Run = tuple[int, str, list[str]]


def run(command: list[str], out: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """The status, results and messages of a command, without places and the time that it took."""
    status = main([argument for argument in command if argument != "--quiet"])
    captured = capsys.readouterr()
    lines = [re.sub(r"^done in \S+ s", "done", line) for line in captured.err.replace(str(out), "OUT").splitlines()]
    return status, captured.out.replace(str(out), "OUT"), lines


def compare(place: Path, folder: Path, service: list[str], names: Iterable[str], capsys: Any) -> None:
    """Runs pipelines here and on the service: the same status, results, messages, counters and bytes."""
    here, there = folder / "here", folder / "there"
    for name in names:
        expected = run(every(str(place), str(here))[name], here, capsys)
        assert expected[0] == 0
        assert run([*every(str(place), str(there))[name], *service], there, capsys) == expected, name
        assert files_of(there / name) == files_of(here / name), name


def test_a_job_service_with_two_workers_writes_the_same(
    service: list[str], started: set[str], sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sgd").symlink_to(sample)
    compare(tmp_path, tmp_path, service, ["compose", "rewrite"], capsys)
    assert len(started) == 4


@pytest.mark.thorough
def test_every_pipeline_on_a_job_service(
    service: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_inputs(tmp_path / "in")
    compare(tmp_path / "in", tmp_path, service, every("", ""), capsys)
