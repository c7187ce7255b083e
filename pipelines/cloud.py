"""What a run on Dataflow needs besides the runner's name: places that its workers see, and a job to wait for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from parapet.schemas.errors import InputError

METRICS_EVERY = 20.0  # seconds between two questions for the metrics of a job

# What Beam logs of each state that a job comes to.
STATE_MESSAGE = "Job %s is in state %s"


def on_dataflow(options: Any) -> bool:
    """Whether Beam's ``PipelineOptions`` ask for Dataflow."""
    return "dataflow" in (options.get_all_options().get("runner") or "").lower()


def check(options: Any, output: str, inputs: Iterable[tuple[str, str]]) -> None:
    """Checks what can be known before a job is built.

    Args:
      options: Beam's ``PipelineOptions``.
      output: the folder to write.
      inputs: (flag, path) of what the workers read.

    Raises:
      InputError: a flag that Dataflow needs is missing, or a path is one that its workers cannot see.
    """
    given = options.get_all_options()
    for flag in ("project", "region", "temp_location"):
        if not given.get(flag):
            raise InputError("Dataflow cannot do without it", f"--{flag}")
    if not any(given.get(name) for name in ("setup_file", "sdk_container_image", "extra_packages")):
        reason = "Dataflow's workers need Parapet: give this from a checkout, or an image with --sdk_container_image"
        raise InputError(reason, "--setup_file=./setup.py")
    staging = given.get("staging_location") or given["temp_location"]
    places = [("--temp_location", given["temp_location"]), ("--staging_location", staging), ("--output", output)]
    for flag, path in (*places, *inputs):
        if not path.startswith("gs://"):
            raise InputError("Dataflow's workers cannot see it: a gs:// path, please", f"{flag} {path}")


def wait(job: Any, options: Any, show: Callable[[int, str], object]) -> str:
    """Waits for a Dataflow job, and says where to watch it; gives the state in which it ended.

    Args:
      job: the result of Beam.
      options: Beam's ``PipelineOptions``.
      show: is called from time to time with how many of what are done.

    Raises:
      RuntimeError: the job failed, or was cancelled; with its last error.
      KeyboardInterrupt: stopped waiting; says how to stop the job too.
    """
    from apache_beam.runners.dataflow.dataflow_runner import DataflowRuntimeException

    given = options.get_all_options()
    name, region, project = job.job_id(), given["region"], given["project"]
    logging.info("job %s: https://console.cloud.google.com/dataflow/jobs/%s/%s?project=%s", name, region, name, project)
    try:
        with _counting(job, show):
            return str(job.wait_until_finish())
    except DataflowRuntimeException as error:
        said = str(error).partition("Error:\n")[2]
        raise RuntimeError(f"job {name} ended in state {job.state}: {said}") from None
    except KeyboardInterrupt:
        cancel = f"gcloud dataflow jobs cancel {name} --region={region} --project={project}"
        raise KeyboardInterrupt(f"job {name} goes on without this command; to stop it: {cancel}") from None


@contextmanager
def _counting(job: Any, show: Callable[[int, str], object]) -> Iterator[None]:
    """Shows the job's counter of dialogues, or of files, while the block runs."""
    stopped = threading.Event()

    def count() -> None:
        while not stopped.wait(METRICS_EVERY):
            try:
                done = counters_of(job)
            except Exception as error:  # of the network, for one: the job runs all the same
                logging.debug("no metrics: %s", error)
                continue
            if stopped.is_set():
                return
            if units := [unit for unit in ("dialogues", "files") if done.get(unit)]:
                show(done[units[0]], units[0])

    thread = threading.Thread(target=count, name="metrics", daemon=True)  # a question may take long
    thread.start()
    try:
        yield
    finally:
        stopped.set()


def counters_of(result: Any) -> dict[str, int]:
    """The counters of a run, each summed over steps."""
    counters: dict[str, int] = {}
    for metric in result.metrics().query()["counters"]:
        if metric.key.metric.namespace == "parapet":
            name = metric.key.metric.name
            counters[name] = counters.get(name, 0) + int(metric.result or 0)  # Beam gives none for 0 of a job service
    return dict(sorted(counters.items()))
