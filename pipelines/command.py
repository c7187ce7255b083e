"""Runs commands, with messages and exit statuses, on the runner that Beam's flags select."""

from __future__ import annotations

import logging
import os
import re
import shlex
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parapet.pipelines import app, main, progress
from parapet.schemas.errors import DiskError, InputError, MissingExtra, UserCodeError
from parapet.schemas.layout import SplitSchemas, check_output, find_output, is_below, read_root, same_place
from parapet.transforms.core.disk import reading, writing
from parapet.transforms.core.libraries import without
from parapet.transforms.report.text import counted as counted

if TYPE_CHECKING:
    import apache_beam as beam

EXIT_FAILURE = 1

_locks: ContextVar[ExitStack | None] = ContextVar("_locks", default=None)  # those that the running command holds

# Text quoted from a file must not move the cursor of a terminal or reverse the direction of its text.
_RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_TRACEBACK = "Traceback (most recent call last):"
_DEBUG = ("PARAPET_DEBUG", "1")
_SHOW = " (PARAPET_DEBUG=1 shows the traceback)"
_READ_AGAIN = ("memory", "decisions")  # files that a run may read from its own output


class UsageError(InputError):
    """Input that cannot be used, detected before anything ran: exit status 2."""


def run(kind: type[app.Command[Any]], argv: Sequence[str] | None = None) -> int:
    """Runs a command with the flags of a command line. Returns the exit status."""
    configure_logging(quiet=True)  # Beam, which may be imported for its flags, logs warnings meanwhile
    parser = app.Parser(kind)
    try:
        args, runner_flags = parser.parse(argv)
        try:
            command = app.read_config(kind, vars(args) | {"runner_flags": tuple(runner_flags)})
        except InputError as error:
            parser.error(str(error))
    except SystemExit as stop:
        return int(stop.code or 0)
    return execute(command, runner_flags, args.quiet)


def execute(command: app.Command[Any], runner_flags: Sequence[str] = (), quiet: bool = False) -> int:
    """Checks the inputs of a command and runs it. Returns the exit status, and never shows a traceback.

    Args:
      command: the command.
      runner_flags: Beam's own flags.
      quiet: whether only errors are shown.
    """
    configure_logging(quiet)
    is_dry = getattr(command, "dry_run", False)
    is_checked, main.outcome = False, str
    with ExitStack() as locks:
        locks.callback(_locks.reset, _locks.set(locks))
        try:
            with progress.running(f"parapet {command.name}") as display:
                display.stage("starting")
                check_all_apart(command)
                output, before = "" if is_dry else _written(command), None
                if output:
                    locks.enter_context(writing(output))
                    before = manifest_identity(output)
                check_storage(path for flag, path in _inputs(command) if flag.reads)
                check_there(command)
                command = command.with_repeats(tuple(runner_flags))
                if isinstance(command, app.Pipeline):
                    import_beam([*runner_flags, command.output, *(path for _, path in _inputs(command))])
                settings = command.check()
                pipeline = None
                if isinstance(command, app.Pipeline) and not is_dry:
                    pipeline = _wired(command, settings, runner_flags)
                is_checked, main.outcome = True, lambda: (output and _left_by(output, before)) or command.stopped
                counters = _run_pipeline(pipeline, display) if pipeline else {}
            if not isinstance(command, app.Pipeline):
                return command.act(settings) or 0
            return 0 if counters is None else command.report(settings, counters) or 0
        except (InputError, DiskError) as error:
            logging.error("%s", str(error).partition(" [while running")[0])  # Beam appends the name of the step
            is_usage = isinstance(error, UsageError | MissingExtra) or not (
                is_checked or isinstance(error, UserCodeError | DiskError)
            )
            return app.EXIT_USAGE if is_usage else EXIT_FAILURE
        except KeyboardInterrupt as stop:
            main.say_stopped(str(stop))
        except Exception as error:
            if _was_interrupted(error):
                main.say_stopped()
            else:
                logging.error("%s", _reason(error))
                logging.debug("", exc_info=True)
        return EXIT_FAILURE


def _left_by(output: str, before: object) -> str:
    """Stops publishing, and describes what a stopped run has changed in its output; empty if nothing.

    Args:
      output: the output folder.
      before: identifies the manifest before the run.
    """
    if "://" in output:
        return f"run the same command again, unless {output} was complete by then"
    if "apache_beam" in sys.modules:  # otherwise nothing has been written
        from parapet.transforms.core.files import withhold

        withhold(output)
    after = manifest_identity(output)
    if after == before:
        return ""
    replaced = f"some files of {output} were replaced already: run the same command again to complete it"
    return f"{output} was complete by then" if after else replaced


def say(line: str) -> None:
    """Prints a line of a command's results; nothing with ``--quiet``."""
    if logging.getLogger().isEnabledFor(logging.INFO):
        progress.write("")
        print(line)


def _was_interrupted(error: BaseException | None) -> bool:
    """Checks whether the error comes from Ctrl-C during a step: Beam then raises an error of the step instead."""
    return error is not None and (isinstance(error, KeyboardInterrupt) or _was_interrupted(error.__context__))


def read_good(root: str | Path) -> list[SplitSchemas]:
    """Reads the schemas of a corpus, and leaves out invalid services with a warning about each."""
    splits = read_root(root, leave_out_bad=True)
    for bad in (bad for split in splits for bad in split.bad):
        logging.warning("left out: %s", bad.error)
    for split in splits:
        if split.tools is not None and (n := split.tools.hosted):
            logging.info("%s: %s that the API runs will stay unchanged", split.path, counted(n, "tool"))
    return splits


def _written(command: app.Command[Any]) -> str:
    """Returns the output folder; empty if the command writes none."""
    output = next((flag for flag in app.flags_of(type(command)) if flag.name == "output"), None)
    value = getattr(command, "output", None)
    is_folder = output is not None and output.facts["metavar"] == "OUT" and value != output.default
    return str(value) if is_folder else ""


def check_there(command: app.Command[Any], made_in: str = "") -> None:
    """Raises InputError if a local input does not exist, or lies in an incomplete output of Parapet's.

    Runs before anything heavy is imported, so it is immediate. Inputs below the folder ``made_in`` may be made later.
    """
    for flag, path in _inputs(command):
        if not flag.reads or (made_in and path.startswith(made_in)):
            continue
        metavar = flag.facts["metavar"]
        if "://" not in path and not os.path.exists(path):
            kind = {"FILE": "file", "DIR": "folder"}.get(metavar, "file or folder")
            raise InputError(f"there is no such {kind}", path, f"--{flag.name}")
        if metavar == "FILE" and os.path.isdir(path):
            raise InputError("is a folder: give a file", path, f"--{flag.name}")
        check_input(path, f"--{flag.name}", getattr(command, "output", None))


def _inputs(command: app.Command[Any]) -> Iterator[tuple[app.Flag, str]]:
    """Yields the files and folders that the options name, except for the output."""
    for flag, path in app.paths_of(command):
        if path and path not in flag.facts["metavar"].split("|"):  # such as PATH|reference
            yield flag, path


def check_input(path: str, flag: str, output: str | None = None) -> None:
    """Raises InputError if an input lies in an incomplete output of Parapet's, or one that another run is writing.

    Locks that output against writing until the command ends.

    Args:
      path: the path of the input.
      flag: the flag that names it.
      output: the output of the command: an interrupted run there may use what it has already written.
    """
    parent = find_output(path)
    if parent is None or (output and same_place(parent.folder, output)):
        return
    locks = _locks.get()
    if locks is not None and "://" not in path:
        locks.enter_context(reading(parent.folder))
        parent = find_output(path) or parent  # read again under the lock, as it may have changed
    check_output(parent, flag)


def check_all_apart(command: app.Command[Any]) -> None:
    """Raises InputError if the output is one of the inputs, or one lies inside the other.

    Publishing would replace the input, or make it unreadable: it would have files that its run.json does not list.
    """
    output = str(getattr(command, "output", None) or "")
    for flag, path in _inputs(command) if output else ():
        if flag.name in _READ_AGAIN:
            continue
        if is_below(output, path):
            reason = f"is the same as --{flag.name} or lies inside it: choose another folder"
            raise InputError(reason, output, "--output")
        if is_below(path, output):
            raise InputError(f"contains --{flag.name}: choose a folder beside it", output, "--output")


def _wired(command: app.Pipeline[Any], settings: Any, runner_flags: Sequence[str]) -> beam.Pipeline:
    """Wires the pipeline of a command for its runner. Raises InputError if the flags or inputs cannot be used."""
    import apache_beam as beam

    inputs, options = command.inputs(settings), beam_options(runner_flags)
    runner = local_runner(options, runner_flags, command, [path for _, path in inputs])
    if on_dataflow(options):
        check_dataflow(options, [("--output", command.output), *inputs])
    check_storage([command.output])
    pipeline = beam.Pipeline(runner, options=options)
    command.build(pipeline, settings)
    return pipeline


def _run_pipeline(pipeline: beam.Pipeline, display: progress.Run) -> dict[str, int] | None:
    """Runs a pipeline to its end. Returns its counters; None if it only made a template."""
    display.stage("running")
    started = time.monotonic()
    result = pipeline.run()
    if template := pipeline.options.get_all_options().get("template_location"):
        logging.info("wrote the template %s", template)
        return None
    state = wait(result, pipeline.options)
    if state not in (None, "DONE"):
        raise RuntimeError(f"the runner ended in state {state}")
    counters = counters_of(result)
    summary = ", ".join(f"{name} {n:,}" for name, n in counters.items())
    logging.info("done in %.1f s%s", time.monotonic() - started, f": {summary}" if summary else "")
    return counters


def configure_logging(quiet: bool) -> None:
    """Sends messages to stderr: Parapet's from level INFO on; with PARAPET_DEBUG=1 all, including Beam's."""
    handler = progress.MessageHandler()
    handler.addFilter(_no_chatter)
    handler.setFormatter(_Formatter())
    logging.basicConfig(level=logging.ERROR if quiet else logging.INFO, handlers=[handler], force=True)
    progress.live_wanted = not quiet
    if _DEBUG in os.environ.items():
        logging.getLogger().setLevel(logging.DEBUG)


def _no_chatter(record: logging.LogRecord) -> bool:
    """Filters messages of libraries by path, since Beam uses the root logger, too."""
    others = "apache_beam" in record.pathname or record.name.startswith(("fsspec", "gcsfs", "google"))
    return _DEBUG in os.environ.items() or not others or record.msg == STATE_MESSAGE


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = _RAW.sub(lambda match: ascii(match[0])[1:-1], super().format(record))
        return text if record.levelno == logging.INFO else f"{record.levelname.lower()}: {text}"


def _reason(error: BaseException) -> str:
    """Returns the last informative line of an error; Beam puts a worker's traceback into the message."""
    text = str(error)
    _, of_worker, reason = text.rpartition("parapet.schemas.errors.")
    if of_worker:  # Beam appends the name of the step
        kind, _, reason = reason.partition(": ")
        reason = reason.partition(" [while running")[0]
        return reason if kind == "UserCodeError" else reason.partition("\n")[0]
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename2 or error.filename}: {error.strerror}"
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.endswith(_TRACEBACK)]
    errors = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception"))]
    return f"{(errors or lines or [type(error).__name__])[-1]}{_SHOW}"


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


def local_runner(options: Any, flags: Iterable[str], command: app.Pipeline[Any], paths: Iterable[str]) -> Any:
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
        program=shlex.quote(f"from parapet.pipelines import command; command.work({os.getpid()}, {buckets})"),
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


def beam_options(flags: Sequence[str]) -> Any:
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
    values = options.get_all_options()
    for flag in ("project", "region", "temp_location"):
        if not values.get(flag):
            raise InputError("is required by Dataflow", f"--{flag}")
    if not any(values.get(name) for name in ("setup_file", "sdk_container_image", "extra_packages")):
        reason = (
            "is required by Dataflow, whose workers need Parapet: run from a checkout with this flag, or give "
            "an image with --sdk_container_image"
        )
        raise InputError(reason, "--setup_file=./setup.py")
    staging = values.get("staging_location") or values["temp_location"]
    for flag, path in [("--temp_location", values["temp_location"]), ("--staging_location", staging), *places]:
        if not path.startswith("gs://"):
            reason = "is a local path, which Dataflow's workers cannot read: give a gs:// path"
            raise InputError(reason, f"{flag} {path}")


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

    values = options.get_all_options()
    name, region, project = job.job_id(), values["region"], values["project"]
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
