"""Dataflow's API on this machine: takes a job, runs what was staged for it (or only says so), and tells its state."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.portability.python_urns import SUBPROCESS_SDK
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from local_http import Answer, LocalService, Request

from dataflow.bucket import Bucket

JOB = "2026-01-01_00_00_00-1234567890"

# A worker that has Parapet from the staged package and from nowhere else; and no half minute to look for credentials.
WORKER = """
import runpy, sys
sys.meta_path = [finder for finder in sys.meta_path if "editable" not in getattr(finder, "__name__", repr(finder))]
sys.path[:] = [{package!r}, *(path for path in sys.path if path not in ("", {checkout!r}))]
import parapet.pipelines, parapet.schemas
assert all(module.__file__.startswith({package!r}) for module in (parapet, parapet.pipelines, parapet.schemas))
from apache_beam.internal.gcp import auth
auth._Credentials._credentials_init = True
runpy.run_module("apache_beam.runners.worker.sdk_worker_main", run_name="__main__")
"""


def install(package: bytes, folder: Path) -> Path:
    """Installs a staged package; the folder that it is in."""
    archive, root = folder / "workflow.tar.gz", folder / "site"
    archive.write_bytes(package)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*install, "--target", str(root), str(archive)], check=True, capture_output=True)  # as a worker does
    return root


def run_staged(pipeline: bytes, root: Path, folder: Path) -> Any:
    """Runs a staged ``pipeline.pb`` on a local runner, its workers separate processes with the installed package."""
    worker = folder / "worker.py"
    worker.write_text(WORKER.format(package=str(root), checkout=str(Path(__file__).parents[3])))
    proto = beam_runner_api_pb2.Pipeline.FromString(pipeline)
    command = f"cd {folder} && {sys.executable} {worker}".encode()
    for environment in proto.components.environments.values():
        environment.CopyFrom(beam_runner_api_pb2.Environment(urn=SUBPROCESS_SDK, payload=command))
    from apache_beam.options.pipeline_options import PipelineOptions

    return FnApiRunner().run_via_runner_api(proto, PipelineOptions([]))


class Dataflow(LocalService):
    """The service. Use as a context manager.

    Attributes:
      work: what a job does: given its request; its error, or nothing where it ends well.
      submitted: the jobs as they were posted.
      counters: what the service says it counted.
      on_poll: called whenever somebody asks for the state of a job.
      stopped: for jobs that wait to be told to end.
    """

    def __init__(self, work: Callable[[dict[str, Any]], str] = lambda job: "") -> None:
        super().__init__()
        self.url = f"http://localhost:{self.server_port}"  # to a service of this name Beam speaks REST
        self.work = work
        self.submitted: list[dict[str, Any]] = []
        self.counters: dict[str, int] = {}
        self.on_poll: Callable[[], None] = lambda: None
        self.state, self.error = "JOB_STATE_RUNNING", ""
        self.stopped = threading.Event()

    def answer(self, request: Request) -> Answer:
        if request.method == "POST":
            return Answer(self.submit(request.path, request.json))
        return Answer(self.tell(request.path.rpartition("/")[2]))

    def stop(self) -> None:
        # Beam's thread goes on asking after Ctrl-C, and would print a traceback into another test: it is let end.
        self.state = "JOB_STATE_DONE"
        for thread in threading.enumerate():
            if "poll_for_job_completion" in thread.name:
                thread.join(30)
                assert not thread.is_alive()
        super().stop()

    def submit(self, path: str, job: dict[str, Any]) -> dict[str, Any]:
        """Takes a job and sets to work."""
        self.submitted.append({"path": path, **job})

        def run() -> None:
            self.error = self.work(job)
            self.state = "JOB_STATE_FAILED" if self.error else "JOB_STATE_DONE"

        threading.Thread(target=run, daemon=True).start()
        return {"id": JOB, "name": job["name"], "currentState": "JOB_STATE_PENDING"}

    def tell(self, what: str) -> dict[str, Any]:
        """The job, its messages or its metrics."""
        if what == "messages":
            at, importance = "2026-01-01T00:00:00Z", "JOB_MESSAGE_ERROR"
            said = {"id": "1", "time": at, "messageText": self.error, "messageImportance": importance}
            return {"jobMessages": [said] if self.error else []}
        if what == "metrics":
            return {"metrics": list(self._metrics())}
        self.on_poll()
        return {"id": JOB, "currentState": self.state}

    def _metrics(self) -> Iterator[dict[str, Any]]:
        for name, n in self.counters.items():
            for tentative in ({}, {"tentative": "true"}):
                context = {"namespace": "parapet", "step": "s1", **tentative}
                yield {"name": {"origin": "user", "name": name, "context": context}, "scalar": n}


# ``time`` for Beam's waiting, which asks every five seconds.
HURRIED = SimpleNamespace(time=time.time, sleep=lambda _: time.sleep(0.02))


def staged(bucket: Bucket, prefix: str, name: str) -> bytes:
    """The one staged file of that name below a prefix."""
    (found,) = [data for path, data in bucket.tree(prefix).items() if path.rpartition("/")[2] == name]
    return found
