"""A job service in a process of its own, and workers that take their work from it: nothing is shared by memory."""

import re
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from commands import ONE_PROCESS, ended, lines, write_inputs
from kit import files_of, run

BEAM = {name for name, argv in lines("", "").items() if argv[0] not in ONE_PROCESS}
SERVICE = "apache_beam.runners.portability.local_job_service_main"


@contextmanager
def serving(folder):
    """A job service; the flags of a command that uses it."""
    port = folder / "port"
    command = [sys.executable, "-m", SERVICE, "--port=0", f"--port_file={port}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            while process.poll() is None and not port.exists():
                time.sleep(0.01)
            endpoint = f"--job_endpoint=localhost:{port.read_text().strip()}"
            # Beam would end its wait for a job after that many seconds.
            yield ["--runner=PortableRunner", endpoint, "--environment_type=LOOPBACK", "--job_server_timeout=0"]
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture
def started(monkeypatch):
    """The workers that the job service has started."""
    start, ids = BeamFnExternalWorkerPoolServicer.StartWorker, set()

    def starting(pool, request, context):
        ids.add(request.worker_id)
        return start(pool, request, context)

    monkeypatch.setattr(BeamFnExternalWorkerPoolServicer, "StartWorker", starting)
    return ids


def outcome(command, folder):
    """The status, results and messages of a command, without places and the time that it took."""
    ended = run(*[argument for argument in command if argument != "--quiet"], status=None)
    output, errors = (text.replace(f"{folder}/there", f"{folder}/here") for text in (ended.output, ended.errors))
    return ended.status, output, re.sub(r"^done in \S+ s", "done", errors, flags=re.M)


def compare(place, folder, service, names):
    """Runs lines here, and pipelines on the service too: the same status, results, messages, counters and bytes."""
    here, there = folder / "here", folder / "there"
    for name in names:
        argv = lines(str(place), str(here))[name]
        expected = outcome(ended(argv, f"{here}/{name}"), folder)
        assert expected[0] == 0
        if name in BEAM:
            assert outcome([*ended(argv, f"{there}/{name}"), *service], folder) == expected, name
            assert files_of(there / name) == files_of(here / name), name


@pytest.mark.thorough
def test_every_pipeline_on_beams_own_job_service(started, tmp_path):
    write_inputs(tmp_path / "in")
    names = [name for name in lines("", "") if name not in ("suite", "leaderboard")]
    with serving(tmp_path) as service:
        compare(tmp_path / "in", tmp_path, service, names)
    assert len(started) == sum(name in BEAM for name in names)


@pytest.mark.thorough
def test_the_command_is_its_own_job_service(started, sample, tmp_path):
    (tmp_path / "sgd").symlink_to(sample)
    service = ["--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK"]
    compare(tmp_path, tmp_path, service, ["compose"])
    assert len(started) == 1
