"""The fence around each record: whatever is raised while one is handled costs that record, and not the run.

A loop over records catches ``Exception`` and gives it to :func:`bad_record`, which makes an InputError of it: the dead
letter of the record. Its reason is ``internal_error`` for a fault of Parapet, ``plugin_error`` for one of code that is
not Parapet's, followed by the exception and the place where it was raised. ``--max_bad`` counts it as any bad record.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NamedTuple, NoReturn

from parapet.schemas.errors import ISSUES, DiskError, InputError, MissingExtra, UserCodeError, storable

THIS_MACHINE = ("127.0.0.1", "::1", "localhost")  # as host of an address
SERVER = re.compile(r"https?://[^\s/@?#]+(/[^\s@?#]*)?")  # an address; a password in it would appear in messages


def in_one_line(message: str, secret: str = "") -> str:
    """What a server said, in one line of 300 characters at most, without a secret."""
    message = message.replace(secret, "…") if secret else message
    return " ".join(message.split())[:300]


class Refused(Exception):
    """A request failed permanently.

    Args:
      reason: an id (``invalid``, ``unavailable``, ``wrong_count``), and after a colon an explanation.
      splits: whether its parts may be sent separately; not where they would be charged twice.
    """

    def __init__(self, reason: str, splits: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.splits = reason, splits


class Stopped(Exception):
    """No further request can succeed: ``reason`` as in :class:`Refused`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


INTERNAL, PLUGIN = "internal_error", "plugin_error"  # ids of reasons
REPORT = f"please report it at {ISSUES}"

# What another record, or another try, would meet as well.
_OF_THE_RUN = (DiskError, MissingExtra, MemoryError, OSError, Stopped)
_NETWORK = {
    "aiohttp",
    "apache_beam",
    "azure",
    "botocore",
    "fsspec",
    "gcsfs",
    "google",
    "grpc",
    "hdfs",
    "http",
    "urllib3",
}

_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")  # of an object in memory: another one in each run
_LONGEST = 300  # characters of an exception's message
_DEEPEST = 12  # lines of a traceback: those of an endless recursion are all the same

_Frames = Sequence[tuple[FrameType, int]]  # with their lines, the outermost first


class Fault(InputError):
    """A record that could not be handled, through no fault of its own.

    Attributes:
      trace: the traceback below the loop over records, as Python prints it, with the names of modules for files.
    """

    trace = ""


def bad_record(error: Exception, code: object = None, *, is_private: bool = False) -> InputError:
    """The error that becomes the dead letter of a record; an InputError is that itself.

    Args:
      error: what was raised while the record was handled.
      code: the object whose code ran, or whose result was used: a perturbation. Where it is no class of Parapet's the
        fault is the plug-in's.
      is_private: whether messages of exceptions are withheld: they may quote what nobody is to see.

    Raises:
      Exception: the error, where it is no fault of a record: a full disk, a missing package, a lost connection.
    """
    if isinstance(error, _OF_THE_RUN) or is_of_network(error):
        raise error
    if isinstance(error, UserCodeError):
        headline, _, trace = error.reason.partition("\n")
        return _fault(f"{PLUGIN}: {headline.removesuffix(':')}", trace)
    if isinstance(error, InputError):
        return error
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    package = type(code).__module__.partition(".")[0] if is_plugin(code) else "parapet"
    own = [(frame, line) for frame, line in frames if _package(frame) == package]
    frame, line = (own or frames)[-1] if frames else (None, 0)
    place = f" ({_file(frame)}:{line}, in {frame.f_code.co_name})" if frame else ""
    message = "" if is_private else _message(error)
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return _fault(f"{PLUGIN if is_plugin(code) else INTERNAL}: {text}{place}", _trace(frames, text))


def is_plugin(code: object) -> bool:
    """Whether the class of an object is not Parapet's. None stands for Parapet's own code."""
    return type(code).__module__.partition(".")[0] not in ("parapet", "builtins")


def is_of_network(error: BaseException) -> bool:
    """Whether a client of a storage or service has raised it: the same may go well another time."""
    return any(of.__module__.partition(".")[0] in _NETWORK for of in type(error).__mro__)


def fatal(error: InputError) -> InputError:
    """The error of a run that cannot do without the record: where it is a fault, with a request to report it."""
    if not isinstance(error, Fault):
        return error
    kind, _, what = error.reason.partition(": ")
    text = f"a bug in Parapet: {what}; {REPORT}" if kind == INTERNAL else f"a bug in a plug-in: {what}"
    return InputError(text, error.path, error.where)


@contextmanager
def needed(path: object, where: str = "") -> Iterator[None]:
    """Names a record that a run cannot do without in what is raised while it is handled.

    Args:
      path: the file, or what else the record is of.
      where: its place there.

    Raises:
      InputError: see :func:`fatal`; one that says its place already is passed on as it is.
    """
    try:
        yield
    except Exception as error:
        bad = bad_record(error)
        if isinstance(bad, Fault):
            raise InputError(fatal(bad).reason, path, where) from error
        raise


def _fault(reason: str, trace: str) -> Fault:
    fault = Fault(storable(reason))
    fault.trace = storable(trace)
    return fault


def _message(error: Exception) -> str:
    """What an exception says, on one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # a class of a plug-in's may be anything
        return ""
    text = _ADDRESS.sub("0x...", text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _file(frame: FrameType) -> str:
    """The file of a frame below its package, the same on every machine: ``transforms/running/counts.py``."""
    name = str(frame.f_globals.get("__name__", ""))
    if name == "__main__":
        return frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
    package = name.removeprefix("parapet.").replace(".", "/")
    return f"{package}/__init__.py" if frame.f_code.co_filename.endswith("__init__.py") else f"{package}.py"


def _trace(frames: _Frames, last: str) -> str:
    lines = ["Traceback (most recent call last):"]
    for frame, number in frames[-_DEEPEST:]:
        lines.append(f'  File "{_file(frame)}", line {number}, in {frame.f_code.co_name}')
        if code := linecache.getline(frame.f_code.co_filename, number, frame.f_globals).strip():
            lines.append(f"    {code}")
    return "\n".join([*lines, last])


def trace_of(error: InputError) -> str:
    """The traceback of a fault; nothing where the record is to blame."""
    return error.trace if isinstance(error, Fault) else ""


# Calls of code that is not ours, plug-ins and models: what it does to the process stays within the call.

_calling = threading.local()
_exit = os._exit


class _Command(NamedTuple):
    process: int
    folder: str | None  # None where it was removed


_commands: list[_Command] = []  # that run in this process, or ran where it was forked


def _leave(status: int) -> NoReturn:
    """In place of ``os._exit``: with it, a command would end in the middle as if it were done."""
    if os.getpid() in {getattr(_calling, "process", None), *(command.process for command in _commands)}:
        sys.stderr.write(f"error: code that was run ended the process with os._exit({status})\n")
        sys.stderr.flush()
        status = 1
    _exit(status)


os._exit = _leave


@contextmanager
def commanding() -> Iterator[None]:
    """Around a command: its process does not end with ``os._exit``, and :func:`calling` knows its working folder."""
    command = _Command(os.getpid(), _working_folder())
    _commands.append(command)
    try:
        yield
    finally:
        _commands.remove(command)


@contextmanager
def calling() -> Iterator[None]:
    """Around a call: the working folder is put back, a process that it forks ends here, to end ours is a failure.

    Raises:
      RuntimeError: it called ``sys.exit``, which would end the command as if it were done.
    """
    process = os.getpid()
    folder = _commands[-1].folder if _commands else _working_folder()
    outer, _calling.process = getattr(_calling, "process", None), process
    _go(folder)  # code of a plug-in that Beam calls may have left it
    try:
        yield
    except SystemExit as stop:
        raise RuntimeError(f"called sys.exit({stop.code!r})") from stop
    finally:
        _calling.process = outer
        if os.getpid() != process:
            _exit(0)
        _go(folder)


def _working_folder() -> str | None:
    with suppress(FileNotFoundError):
        return os.getcwd()
    return None


def _go(folder: str | None) -> None:
    if folder is not None and _working_folder() != folder:
        os.chdir(folder)
