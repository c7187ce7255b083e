"""Beam's runners: checks which can be used and what each needs, and waits for remote jobs."""

from __future__ import annotations

import logging
import os
import shlex
import socket
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parapet.pipelines import progress
from parapet.schemas.errors import InputError
from parapet.transforms.running.imports import without

if TYPE_CHECKING:
    from parapet.pipelines.app import Pipeline

# Beam's log message for each new state of a job.
STATE_MESSAGE = "Job %s is in state %s"

LOST = "a worker is lost: it was killed, or its machine or network is down; run the same command again"

_CONNECTING = 10.0  # seconds
_MOST_WORKERS = 8  # by default, since each needs memory
_LOOK_AGAIN = 0.1  # seconds between two looks of a worker for its command
_STORAGE = "storage.googleapis.com"
_NO_LIMIT = 10**8  # seconds; the default --job_server_timeout would also end Beam's wait for the job

_LOSE_DATA = {"dask": "DaskRunner", "bundlebaseddirect": "BundleBasedDirectRunner"}

# Runners that submit to a job service. A service that they start themselves runs the job on this machine.
_PORTABLE = ("portable", "flink", "spark", "prism")
_STARTED_HERE = {"flink": "flink_master", "spark": "spark_master_url"}


# Packages that Beam imports where they are installed, for clouds and notebooks. They take longer than Beam itself.
_OPTIONAL = (
    *("apitools", "azure", "boto3", "google.api_core", "google.auth", "google.cloud.dataflow"),
    *("IPython", "pandas", "pymongo", "requests"),
)

# The shell keeps Ctrl-C from the worker, because the command ends it. The command also reports each error, once.
_WORKER = "trap '' INT; exec env {memory} PYTHONPATH={paths} {python} -c {program} 2>{errors}"
# Beam exchanges megabytes at a time. By default, glibc and Arrow would keep these buffers once they are free.
_MEMORY = (
    "MALLOC_MMAP_THRESHOLD_=500000 MALLOC_TRIM_THRESHOLD_=500000 MALLOC_ARENA_MAX=1 ARROW_DEFAULT_MEMORY_POOL=system"
)


def import_beam(arguments: Iterable[str] = ()) -> None:
    """Imports Beam, with what it needs for clouds only if arguments select a runner or name a bucket."""
    if any(argument.startswith("--runner") or "://" in argument for argument in arguments):
        return
    with without(*_OPTIONAL):
        import apache_beam  # noqa: F401
        import pyarrow

        pyarrow.array([])  # the first array imports pandas, if it is installed


def local_runner(options: Any, flags: Iterable[str], command: Pipeline[Any], paths: Iterable[str]) -> Any:
    """Returns the runner for this machine; None if Beam's own flags select another.

    Args:
      options: Beam's ``PipelineOptions``.
      flags: Beam's own flags.
      command: the command.
      paths: the files and folders that workers read.

    Raises:
      InputError: ``--workers`` is combined with Beam's own flags for the same purpose.
    """
    from apache_beam.options.pipeline_options import DirectOptions, StandardOptions
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    from apache_beam.transforms.environments import SubprocessSDKEnvironment

    if of_beam := [flag for flag in flags if flag.startswith(("--runner", "--direct_"))]:
        if command.workers is not None:
            reason = "cannot be combined with --workers, which also says how Beam runs: give one of the two"
            raise InputError(reason, of_beam[0])
        standard = options.view_as(StandardOptions)
        # Beam's default looks for a Prism binary to download before it falls back to this runner.
        standard.runner = standard.runner or "FnApiRunner"
        return None
    workers = command.processes or _default_workers(paths, command.large)
    if workers == 1:
        return FnApiRunner()
    options.view_as(DirectOptions).direct_num_workers = workers
    buckets = [path for path in (command.output, *paths) if "://" in path]
    words = _WORKER.format(
        memory=_MEMORY,
        paths=shlex.quote(os.pathsep.join(map(os.path.abspath, sys.path))),  # with the folder of a user's perturbation
        python=shlex.quote(sys.executable),
        program=shlex.quote(f"from parapet.pipelines import runners; runners.work({os.getpid()}, {buckets})"),
        errors="&2" if os.environ.get("PARAPET_DEBUG") == "1" else os.devnull,
    )
    report_lost_workers()
    return FnApiRunner(default_environment=SubprocessSDKEnvironment.from_command_string(words))


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _default_workers(paths: Iterable[str], large: int) -> int:
    if progress.sink is not None:  # steps of a suite run side by side
        return 1
    local = [Path(path) for path in paths if "://" not in path]
    size = sum(file.stat().st_size for path in local for file in (path, *path.rglob("*")) if file.is_file())
    return min(cores(), _MOST_WORKERS) if size >= large else 1


def work(command: int, buckets: Sequence[str]) -> None:
    """Runs this process as a worker of a command, given its process id, and ends with it."""

    def end_with_command() -> None:
        while os.getppid() == command:
            time.sleep(_LOOK_AGAIN)
        os._exit(1)

    threading.Thread(target=end_with_command, daemon=True).start()
    import_beam(buckets)
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main([])


def refused(argv: Sequence[str]) -> str:
    """Returns why the command line's runner cannot be used; empty if it can."""
    name = "dask" if any(flag.startswith("--dask_") for flag in argv) else _runner_in(argv)
    if name not in _LOSE_DATA:
        return ""
    return (
        f"{_LOSE_DATA[name]} loses data without an error: it does not run all branches of a pipeline, and "
        "mixes up the outputs of steps that have several. Leave --runner out to run on this machine"
    )


def names_dataflow(flags: Sequence[str]) -> bool:
    """Whether Beam's flags select Dataflow; does not import Beam."""
    return "dataflow" in _runner_in(flags)


def _runner_in(argv: Sequence[str]) -> str:
    values = dict(pairwise(argv)) | dict(flag.split("=", 1) for flag in argv if "=" in flag)
    return _short(values.get("--runner", ""))


def _short(runner: str) -> str:
    """Returns ``flink`` for ``FlinkRunner`` and for its full name."""
    return runner.rpartition(".")[2].lower().removesuffix("runner")


def _name(options: Any) -> str:
    return _short(str(options.get_all_options().get("runner") or ""))


def parsed(flags: Sequence[str]) -> Any:
    """Returns Beam's ``PipelineOptions``."""
    from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions

    options = PipelineOptions(list(flags))
    if on_job_service(options):
        options.view_as(PortableOptions).job_server_timeout = _NO_LIMIT
    return options


def check_storage(paths: Iterable[str], run: progress.Run) -> None:
    """Raises InputError if there are paths in buckets, but Google's storage cannot be reached.

    Its client would try again for minutes.
    """
    from urllib.request import getproxies

    bucket = next((path for path in paths if path.startswith("gs://")), "")
    if not bucket or os.environ.get("STORAGE_EMULATOR_HOST") or getproxies().get("https"):
        return
    run.stage(f"connecting to {bucket}")
    try:
        socket.create_connection((_STORAGE, 443), timeout=_CONNECTING).close()
    except OSError as error:
        reason = f"{_STORAGE} cannot be reached ({error}): check the network and the proxy (HTTPS_PROXY); on "
        reason += "Dataflow, --dry_run checks the flags without a network"
        raise InputError(reason, bucket) from None


def on_dataflow(options: Any) -> bool:
    """Whether Beam's ``PipelineOptions`` select Dataflow."""
    return "dataflow" in _name(options)


def on_job_service(options: Any) -> bool:
    """Whether the options select a runner that submits to a job service."""
    return _name(options) in _PORTABLE


def check(options: Any, output: str, inputs: Iterable[tuple[str, str]]) -> None:
    """Checks the options before a job is built.

    Args:
      options: Beam's ``PipelineOptions``.
      output: the folder to write.
      inputs: (flag, path) of the files that workers read.

    Raises:
      InputError: a required flag is missing, the job service does not answer, or workers cannot reach a path.
    """
    places = [("--output", output), *inputs]
    if on_dataflow(options):
        _check_dataflow(options, places)
    elif on_job_service(options):
        _check_job_service(options, [(flag, path) for flag, path in places if path and "://" not in path])


def _check_dataflow(options: Any, places: list[tuple[str, str]]) -> None:
    beam_options = options.get_all_options()
    for flag in ("project", "region", "temp_location"):
        if not beam_options.get(flag):
            raise InputError("is required by Dataflow", f"--{flag}")
    if not any(beam_options.get(name) for name in ("setup_file", "sdk_container_image", "extra_packages")):
        reason = (
            "is required by Dataflow, whose workers need Parapet: run from a checkout with this flag, or give "
            "an image with --sdk_container_image"
        )
        raise InputError(reason, "--setup_file=./setup.py")
    setup = beam_options.get("setup_file")
    if setup and not os.path.isfile(setup):
        raise InputError("there is no such file: run from a checkout of Parapet", f"--setup_file {setup}")
    staging = beam_options.get("staging_location") or beam_options["temp_location"]
    for flag, path in [("--temp_location", beam_options["temp_location"]), ("--staging_location", staging), *places]:
        if not path.startswith("gs://"):
            raise InputError(
                "is a local path, which Dataflow's workers cannot read: give a gs:// path", f"{flag} {path}"
            )


def _check_job_service(options: Any, local: list[tuple[str, str]]) -> None:
    """Checks the job service, and that its workers can reach the ``local`` paths, a list of (flag, path)."""
    beam_options, name = options.get_all_options(), _name(options)
    endpoint = beam_options.get("job_endpoint")
    if not endpoint and name == "portable":
        raise InputError("is required by PortableRunner: give the address of a job service", "--job_endpoint")
    if endpoint and endpoint != "embed":
        _check_answers(endpoint)
    master = str(beam_options.get(_STARTED_HERE.get(name, ""), ""))
    runs_locally = name == "prism" or master.startswith(("[", "local"))
    workers = (beam_options.get("environment_type") or ("LOOPBACK" if runs_locally else "DOCKER")).upper()
    if local and workers == "DOCKER":
        flag, path = local[0]
        reason = (
            "is a local path, which workers in containers cannot read: give a gs:// path, or run the "
            "workers in this process with --environment_type=LOOPBACK"
        )
        raise InputError(reason, f"{flag} {path}")
    if local and workers != "LOOPBACK":
        paths = ", ".join(f"{flag} {path}" for flag, path in local)
        logging.warning("these local paths must be the same for every worker: %s", paths)


def _check_answers(endpoint: str) -> None:
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host.strip("[]") or "localhost", int(port)), timeout=_CONNECTING).close()
    except (OSError, ValueError) as error:  # ValueError: there is no port
        raise InputError(f"no job service answers there: {error}", f"--job_endpoint {endpoint}") from None


def manifest_identity(output: str) -> tuple[int, int] | None:
    """Identifies the current ``run.json`` by inode and modification time; None if there is none."""
    with suppress(OSError):
        status = os.stat(os.path.join(output, "run.json"))
        return status.st_ino, status.st_mtime_ns
    return None


def wait(job: Any, options: Any) -> str | None:
    """Waits for a job and prints where to watch it; returns its final state.

    Args:
      job: Beam's result.
      options: Beam's ``PipelineOptions``.

    Raises:
      RuntimeError: the job failed or was cancelled; the message has its last error.
      KeyboardInterrupt: the wait was interrupted; the message says what happens to a remote job.
    """
    if on_dataflow(options):
        return _wait_for_dataflow(job, options)
    if on_job_service(options):
        return _wait_for_service(job)
    state: str | None = job.wait_until_finish()
    return state


def _wait_for_dataflow(job: Any, options: Any) -> str:
    from apache_beam.runners.dataflow.dataflow_runner import DataflowRuntimeException

    beam_options = options.get_all_options()
    name, region, project = job.job_id(), beam_options["region"], beam_options["project"]
    logging.info("job %s: https://console.cloud.google.com/dataflow/jobs/%s/%s?project=%s", name, region, name, project)
    try:
        return str(job.wait_until_finish())
    except DataflowRuntimeException as error:
        reason = str(error).partition("Error:\n")[2]
        raise RuntimeError(f"job {name} ended in state {job.state}: {reason}") from None
    except KeyboardInterrupt:
        cancel = f"gcloud dataflow jobs cancel {name} --region={region} --project={project}"
        raise KeyboardInterrupt(f"job {name} continues without this command; to stop it, run: {cancel}") from None


def _wait_for_service(job: Any) -> str:
    import grpc

    report_lost_workers()
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


def report_lost_workers() -> None:
    """Ends the command if a local worker is killed, for which Beam would wait for ever.

    Exceptions of Beam's threads that read from a closed connection are not shown, as the command reports the reason.
    This lasts as long as the process, because Beam's threads outlive the job.
    """
    import grpc

    def report(failure: threading.ExceptHookArgs) -> None:
        if "Worker subprocess exited" in str(failure.exc_value):
            logging.error("a worker process was killed, perhaps because memory ran out: --workers 1 needs less memory")
            os._exit(1)
        if not issubclass(failure.exc_type, grpc.RpcError):
            threading.__excepthook__(failure)

    threading.excepthook = report


def counters_of(result: Any) -> dict[str, int]:
    """Returns Parapet's counters of a run, summed over steps."""
    counters: dict[str, int] = {}
    for metric in result.metrics().query()["counters"]:
        if metric.key.metric.namespace == "parapet":
            name = metric.key.metric.name
            counters[name] = counters.get(name, 0) + int(metric.result or 0)  # job services report None for 0
    return dict(sorted(counters.items()))
