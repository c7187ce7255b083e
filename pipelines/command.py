"""Runs commands, with progress, messages and exit statuses."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parapet.pipelines import progress, runners, stopping
from parapet.pipelines.app import Command, Flag, Pipeline, flags_of, paths_of, read_config
from parapet.pipelines.flags import EXIT_USAGE, Parser
from parapet.schemas.errors import DiskError, InputError, MissingExtra, UserCodeError
from parapet.schemas.layout import SplitSchemas, check_output, find_output, is_below, read_root, same_place
from parapet.transforms.core.disk import reading, writing
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


def run(kind: type[Command[Any]], argv: Sequence[str] | None = None) -> int:
    """Runs a command with the flags of a command line. Returns the exit status."""
    configure_logging(quiet=True)  # Beam, which may be imported for its flags, logs warnings meanwhile
    parser = Parser(kind)
    try:
        args, runner_flags = parser.parse(argv)
        try:
            command = read_config(kind, vars(args) | {"runner_flags": tuple(runner_flags)})
        except InputError as error:
            parser.error(str(error))
    except SystemExit as stop:
        return int(stop.code or 0)
    return execute(command, runner_flags, args.quiet)


def execute(command: Command[Any], runner_flags: Sequence[str] = (), quiet: bool = False) -> int:
    """Checks the inputs of a command and runs it. Returns the exit status, and never shows a traceback.

    Args:
      command: the command.
      runner_flags: Beam's own flags.
      quiet: whether only errors are shown.
    """
    configure_logging(quiet)
    is_dry = getattr(command, "dry_run", False)
    is_checked, stopping.outcome = False, str
    with ExitStack() as locks:
        locks.callback(_locks.reset, _locks.set(locks))
        try:
            with progress.running(f"parapet {command.name}") as display:
                display.stage("starting")
                check_all_apart(command)
                output, before = "" if is_dry else _written(command), None
                if output:
                    locks.enter_context(writing(output))
                    before = runners.manifest_identity(output)
                runners.check_storage(path for flag, path in _inputs(command) if flag.reads)
                check_there(command)
                command = command.with_repeats(tuple(runner_flags))
                if isinstance(command, Pipeline):
                    runners.import_beam([*runner_flags, command.output, *(path for _, path in _inputs(command))])
                settings = command.check()
                pipeline = None
                if isinstance(command, Pipeline) and not is_dry:
                    pipeline = _wired(command, settings, runner_flags)
                is_checked, stopping.outcome = True, lambda: (output and _left_by(output, before)) or command.stopped
                counters = _run_pipeline(pipeline, display) if pipeline else {}
            if not isinstance(command, Pipeline):
                return command.act(settings) or 0
            return 0 if counters is None else command.report(settings, counters) or 0
        except (InputError, DiskError) as error:
            logging.error("%s", str(error).partition(" [while running")[0])  # Beam appends the name of the step
            is_usage = isinstance(error, UsageError | MissingExtra) or not (
                is_checked or isinstance(error, UserCodeError | DiskError)
            )
            return EXIT_USAGE if is_usage else EXIT_FAILURE
        except KeyboardInterrupt as stop:
            stopping.say(str(stop))
        except Exception as error:
            if _was_interrupted(error):
                stopping.say()
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
    after = runners.manifest_identity(output)
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


def _written(command: Command[Any]) -> str:
    """Returns the output folder; empty if the command writes none."""
    output = next((flag for flag in flags_of(type(command)) if flag.name == "output"), None)
    value = getattr(command, "output", None)
    is_folder = output is not None and output.facts["metavar"] == "OUT" and value != output.default
    return str(value) if is_folder else ""


def check_there(command: Command[Any], made_in: str = "") -> None:
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


def _inputs(command: Command[Any]) -> Iterator[tuple[Flag, str]]:
    """Yields the files and folders that the options name, except for the output."""
    for flag, path in paths_of(command):
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


def check_all_apart(command: Command[Any]) -> None:
    """Raises InputError if the output is one of the inputs, or one lies inside the other.

    Publishing would replace the input, or make it unreadable: it would have files that its run.json does not list.
    """
    output = str(getattr(command, "output", None) or "")
    for flag, path in _inputs(command) if output else ():
        if flag.name in _READ_AGAIN:
            continue
        if is_below(output, path):
            raise InputError(
                f"is the same as --{flag.name} or lies inside it: choose another folder", output, "--output"
            )
        if is_below(path, output):
            raise InputError(f"contains --{flag.name}: choose a folder beside it", output, "--output")


def _wired(command: Pipeline[Any], settings: Any, runner_flags: Sequence[str]) -> beam.Pipeline:
    """Wires the pipeline of a command for its runner. Raises InputError if the flags or inputs cannot be used."""
    import apache_beam as beam

    inputs, options = command.inputs(settings), runners.parsed(runner_flags)
    local_runner = runners.local_runner(options, runner_flags, command, [path for _, path in inputs])
    if runners.on_dataflow(options):
        runners.check_dataflow(options, [("--output", command.output), *inputs])
    runners.check_storage([command.output])
    pipeline = beam.Pipeline(local_runner, options=options)
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
    state = runners.wait(result, pipeline.options)
    if state not in (None, "DONE"):
        raise RuntimeError(f"the runner ended in state {state}")
    counters = runners.counters_of(result)
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
    return _DEBUG in os.environ.items() or not others or record.msg == runners.STATE_MESSAGE


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
