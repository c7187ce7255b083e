"""Beam's runners: which can be used, the local workers, and what Dataflow needs."""

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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parapet.pipelines import progress
from parapet.schemas.errors import InputError
from parapet.transforms.core.imports import without

if TYPE_CHECKING:
    from parapet.pipelines.app import Pipeline

# Beam's log message for each new state of a job.
STATE_MESSAGE = "Job %s is in state %s"

_CONNECTING = 10.0  # seconds
_MOST_WORKERS = 8  # by default, since each needs memory
_LOOK_AGAIN = 0.1  # seconds between two looks of a worker for its command
_STORAGE = "storage.googleapis.com"
_NO_LIMIT = 10**8  # seconds; the default --job_server_timeout would also end Beam's wait for the job

_LOSE_DATA = ("dask", "bundlebaseddirect")

# Packages that Beam imports where they are installed, for clouds and notebooks. They take longer than Beam itself.
_OPTIONAL = (
    *("apitools", "azure", "boto3", "google.api_core", "google.auth", "google.cloud.dataflow"),
    *("IPython", "pandas", "pymongo", "requests"),
)

# Beam's own workers (multi_processing) print tracebacks after Ctrl-C, and outlive a killed command.
# Here the shell keeps Ctrl-C from the worker, and the command reports each error, once.
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
      InputError: ``--workers`` is combined with Beam's own flags for the same purpose, or the runner loses data.
    """
    from apache_beam.options.pipeline_options import DirectOptions, StandardOptions
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    from apache_beam.transforms.environments import SubprocessSDKEnvironment

    report_lost_workers()
    if of_beam := [flag for flag in flags if flag.startswith(("--runner", "--direct_"))]:
        standard = options.view_as(StandardOptions)
        # Beam's default looks for a Prism binary to download before it falls back to this runner.
        standard.runner = standard.runner or "FnApiRunner"
        if standard.runner.rpartition(".")[2].lower().removesuffix("runner") in _LOSE_DATA:
            reason = "loses data without an error: it does not run all branches of a pipeline. Leave it out"
            raise InputError(reason, of_beam[0])
        if command.workers is not None:
            reason = "cannot be combined with --workers, which also says how Beam runs: give one of the two"
            raise InputError(reason, of_beam[0])
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


def parsed(flags: Sequence[str]) -> Any:
    """Returns Beam's ``PipelineOptions``."""
    from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions

    options = PipelineOptions(list(flags))
    options.view_as(PortableOptions).job_server_timeout = _NO_LIMIT
    return options


def check_storage(paths: Iterable[str]) -> None:
    """Raises InputError if there are paths in buckets, but Google's storage cannot be reached.

    Its client would try again for minutes.
    """
    from urllib.request import getproxies

    bucket = next((path for path in paths if path.startswith("gs://")), "")
    if not bucket or os.environ.get("STORAGE_EMULATOR_HOST") or getproxies().get("https"):
        return
    try:
        socket.create_connection((_STORAGE, 443), timeout=_CONNECTING).close()
    except OSError as error:
        reason = f"{_STORAGE} cannot be reached ({error}): check the network and the proxy (HTTPS_PROXY)"
        raise InputError(reason, bucket) from None


def on_dataflow(options: Any) -> bool:
    """Whether Beam's ``PipelineOptions`` select Dataflow."""
    return "dataflow" in str(options.get_all_options().get("runner")).lower()


def check_dataflow(options: Any, places: Iterable[tuple[str, str]]) -> None:
    """Checks the options of a job on Dataflow before it is built.

    Args:
      options: Beam's ``PipelineOptions``.
      places: (flag, path) of the output and of the files that workers read.

    Raises:
      InputError: a required flag is missing, or workers cannot reach a path.
    """
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
    staging = beam_options.get("staging_location") or beam_options["temp_location"]
    for flag, path in [("--temp_location", beam_options["temp_location"]), ("--staging_location", staging), *places]:
        if not path.startswith("gs://"):
            raise InputError(
                "is a local path, which Dataflow's workers cannot read: give a gs:// path", f"{flag} {path}"
            )


def manifest_identity(output: str) -> tuple[int, int] | None:
    """Identifies the current ``run.json`` by inode and modification time; None if there is none."""
    with suppress(OSError):
        status = os.stat(os.path.join(output, "run.json"))
        return status.st_ino, status.st_mtime_ns
    return None


def wait(job: Any, options: Any) -> str | None:
    """Waits for a job, and prints where to watch one on Dataflow; returns its final state.

    Raises:
      RuntimeError: the job failed or was cancelled; the message has its last error.
      KeyboardInterrupt: the wait was interrupted; the message says how to stop a job on Dataflow.
    """
    if not on_dataflow(options):
        state: str | None = job.wait_until_finish()
        return state
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
