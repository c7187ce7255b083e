"""Beam's runners: which of them can be used, what each needs besides its name, and the wait for a job elsewhere."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

from parapet.schemas.errors import InputError

METRICS_EVERY = 20.0  # seconds between two questions for the metrics of a job

# What Beam logs of each state that a job comes to.
STATE_MESSAGE = "Job %s is in state %s"

LOST = "a worker is lost: it was killed, or its machine or network is down; run the same command again"

_CONNECTING = 10.0  # seconds
_NO_LIMIT = 10**8  # seconds: Beam ends its wait for a job after --job_server_timeout, too

_LOSE_DATA = {"dask": "DaskRunner", "bundlebaseddirect": "BundleBasedDirectRunner"}

# Runners that hand a job to a job service. What they start themselves runs it on this machine.
_PORTABLE = ("portable", "flink", "spark", "prism", "kafkastreams")
_STARTED_HERE = {"flink": "flink_master", "spark": "spark_master_url"}


def refused(argv: Sequence[str]) -> str:
    """Why the runner of a command line cannot be used; empty where it can."""
    values = dict(pairwise(argv)) | dict(flag.split("=", 1) for flag in argv if "=" in flag)
    name = _short(values.get("--runner", ""))
    if any(flag.startswith("--dask_") for flag in argv):
        name = "dask"
    if name not in _LOSE_DATA:
        return ""
    return (
        f"{_LOSE_DATA[name]} loses data without an error: it does not run all branches of a pipeline, and "
        "mixes up the outputs of steps that have several. Leave --runner out to run on this machine"
    )


def _short(runner: str) -> str:
    """``flink`` of ``FlinkRunner`` and of its full name."""
    return runner.rpartition(".")[2].lower().removesuffix("runner")


def _name(options: Any) -> str:
    return _short(str(options.get_all_options().get("runner") or ""))


def on_dataflow(options: Any) -> bool:
    """Whether Beam's ``PipelineOptions`` ask for Dataflow."""
    return "dataflow" in _name(options)


def on_job_service(options: Any) -> bool:
    """Whether they ask for a runner that hands the job to a job service."""
    return _name(options) in _PORTABLE


def check(options: Any, output: str, inputs: Iterable[tuple[str, str]]) -> None:
    """Checks what can be known before a job is built.

    Args:
      options: Beam's ``PipelineOptions``.
      output: the folder to write.
      inputs: (flag, path) of what the workers read.

    Raises:
      InputError: a flag that the runner needs is missing, nobody answers, or a path is one that workers cannot see.
    """
    places = [("--output", output), *inputs]
    if on_dataflow(options):
        _check_dataflow(options, places)
    elif on_job_service(options):
        _check_job_service(options, [(flag, path) for flag, path in places if path and "://" not in path])


def _check_dataflow(options: Any, places: list[tuple[str, str]]) -> None:
    given = options.get_all_options()
    for flag in ("project", "region", "temp_location"):
        if not given.get(flag):
            raise InputError("is required by Dataflow", f"--{flag}")
    if not any(given.get(name) for name in ("setup_file", "sdk_container_image", "extra_packages")):
        reason = (
            "is required by Dataflow, whose workers need Parapet: run from a checkout with this flag, or give "
            "an image with --sdk_container_image"
        )
        raise InputError(reason, "--setup_file=./setup.py")
    staging = given.get("staging_location") or given["temp_location"]
    for flag, path in [("--temp_location", given["temp_location"]), ("--staging_location", staging), *places]:
        if not path.startswith("gs://"):
            raise InputError(
                "is a local path, which Dataflow's workers cannot read: give a gs:// path", f"{flag} {path}"
            )


def _check_job_service(options: Any, local: list[tuple[str, str]]) -> None:
    """``local``: (flag, path) of the files that only machines with the same file system see."""
    given = options.get_all_options()
    endpoint = given.get("job_endpoint")
    if not endpoint and _name(options) == "portable":
        raise InputError("is required by PortableRunner: give the address of a job service", "--job_endpoint")
    if endpoint and endpoint != "embed":
        _check_answers(endpoint)
    workers = environment_type(options)
    if not local or workers == "LOOPBACK":
        return
    flag, path = local[0]
    if workers == "DOCKER":
        reason = (
            "is a local path, which workers in containers cannot read: give a gs:// path, or run the "
            "workers in this process with --environment_type=LOOPBACK"
        )
        raise InputError(reason, f"{flag} {path}")
    if not (_is_here(endpoint) and workers == "EXTERNAL" and _is_here(given.get("environment_config"))):
        logging.warning(
            "these local paths must be the same for every worker: %s", ", ".join(f"{f} {p}" for f, p in local)
        )


def environment_type(options: Any) -> str:
    """Where the workers of a job service run: ``LOOPBACK``, in this process; ``DOCKER``, ``EXTERNAL``, ``PROCESS``."""
    given, name = options.get_all_options(), _name(options)
    if given.get("environment_type"):
        return str(given["environment_type"]).upper()
    master = given.get(_STARTED_HERE.get(name, ""), "")
    return "LOOPBACK" if name in ("prism", "kafkastreams") or str(master).startswith(("[", "local")) else "DOCKER"


def _check_answers(endpoint: str) -> None:
    host, _, port = endpoint.rpartition(":")
    if not port.isdecimal():
        raise InputError("must be an address of the form HOST:PORT", f"--job_endpoint {endpoint}")
    try:
        socket.create_connection((host.strip("[]") or "localhost", int(port)), timeout=_CONNECTING).close()
    except OSError as error:
        raise InputError(f"no job service answers there: {error}", f"--job_endpoint {endpoint}") from None


def _is_here(address: str | None) -> bool:
    host = (address or "").rpartition(":")[0].strip("[]")
    return host in ("localhost", "::1") or host.startswith("127.")


@contextmanager
def written_here(options: Any, output: str) -> Iterator[None]:
    """Raises RuntimeError after a run whose workers have written a folder of their own in place of a local output."""
    if not on_job_service(options) or environment_type(options) == "LOOPBACK" or "://" in output:
        yield
        return
    before = _manifest(output)
    yield
    after = _manifest(output)
    if after == before if before else not any(names for _, _, names in os.walk(output)):
        raise RuntimeError(
            f"{output}: the workers wrote to their own local folders; give a gs:// path, or a folder that "
            "all of them share"
        )


def _manifest(output: str) -> tuple[int, int] | None:
    """What tells one ``run.json`` from the next."""
    with suppress(OSError):
        found = os.stat(os.path.join(output, "run.json"))
        return found.st_ino, found.st_mtime_ns
    return None


def start(pipeline: Any, options: Any) -> Any:
    """Starts a Beam pipeline, or runs it to its end; gives Beam's result."""
    if on_job_service(options):
        from apache_beam.options.pipeline_options import PortableOptions

        pipeline.options.view_as(PortableOptions).job_server_timeout = _NO_LIMIT
    return pipeline.run()


def wait(job: Any, options: Any, show: Callable[[int, str], object]) -> str | None:
    """Waits for a job, and says where to watch it; gives the state in which it ended.

    Args:
      job: the result of Beam.
      options: Beam's ``PipelineOptions``.
      show: is called from time to time with how many of what are done, where others know.

    Raises:
      RuntimeError: the job failed, or was cancelled; with its last error.
      KeyboardInterrupt: stopped waiting; says what has become of a job that others run.
    """
    if on_dataflow(options):
        return _wait_for_dataflow(job, options, show)
    if on_job_service(options):
        return _wait_for_service(job)
    state: str | None = job.wait_until_finish()
    return state


def _wait_for_dataflow(job: Any, options: Any, show: Callable[[int, str], object]) -> str:
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
        raise KeyboardInterrupt(f"job {name} continues without this command; to stop it, run: {cancel}") from None


def _wait_for_service(job: Any) -> str:
    import grpc

    silence_connections()
    try:
        return str(job.wait_until_finish())
    except grpc.RpcError as error:
        details = error.details() if isinstance(error, grpc.Call) else error
        raise RuntimeError(
            f"the connection to the job service is lost, and the job may have ended: {details}"
        ) from None
    except KeyboardInterrupt:
        with suppress(grpc.RpcError):
            job.cancel()
        raise KeyboardInterrupt(
            "the job service was asked to cancel the job, but Beam's own service does not do so: wait until "
            "it ends before you run this again"
        ) from None


def silence_connections() -> None:
    """Has threads of Beam's that read from a connection end silently with it: the command reports the reason.

    It lasts as long as the process: Beam's threads end later than the job.
    """
    import grpc

    def report(failure: threading.ExceptHookArgs) -> None:
        if not issubclass(failure.exc_type, grpc.RpcError):
            threading.__excepthook__(failure)

    threading.excepthook = report


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
