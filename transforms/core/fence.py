"""Error handling for each record: an exception while handling a record loses only that record, not the run.

A loop over records catches ``Exception`` and passes it to :func:`bad_record`, which converts it to an InputError for
the record's dead letter. Its reason is ``internal_error`` for a fault of Parapet, or ``plugin_error`` for one of other
code, followed by the exception and the place where it was raised. ``--max_bad`` counts it like any bad record.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from parapet.schemas.errors import ISSUES, DiskError, InputError, MissingExtra, UserCodeError, storable

THIS_MACHINE = ("127.0.0.1", "::1", "localhost")  # hosts in addresses
# an address without a password, which would appear in messages
SERVER = re.compile(r"https?://[^\s/@?#]+(/[^\s@?#]*)?")


def in_one_line(message: str) -> str:
    """Puts a server's message on one line of at most 300 characters."""
    return " ".join(message.split())[:300]


class Refused(Exception):
    """A request failed permanently.

    Args:
      reason: an id (``invalid``, ``unavailable``, ``wrong_count``), and after a colon an explanation.
      splits: whether its parts may be sent separately; False if they would be charged twice.
    """

    def __init__(self, reason: str, splits: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.splits = reason, splits


class Stopped(Exception):
    """Further requests would fail, too; ``reason`` is as in :class:`Refused`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


INTERNAL, PLUGIN = "internal_error", "plugin_error"  # ids of reasons
REPORT = f"please report it at {ISSUES}"

# Errors that would also affect other records or attempts.
_OF_THE_RUN = (DiskError, MissingExtra, MemoryError, OSError, Stopped)
_NETWORK = {"aiohttp", "apache_beam", "azure", "botocore", "fsspec", "gcsfs", "google", "grpc", "http", "urllib3"}

_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")  # address of an object in memory, which differs from run to run
_LONGEST = 300  # of an exception's message
_DEEPEST = 12  # frames of a traceback, since those of an endless recursion are all the same


class Fault(InputError):
    """A record could not be handled, although its data are not the cause.

    Attributes:
      trace: the traceback below the loop over records.
    """

    trace = ""


def bad_record(error: Exception, code: object = None, *, is_private: bool = False) -> InputError:
    """Converts an exception to the error for the dead letter of a record; an InputError is returned as it is.

    Args:
      error: the exception raised while handling the record.
      code: the object whose code ran, or whose result was used, such as a perturbation. If its class is not Parapet's,
        the fault is attributed to the plug-in.
      is_private: whether to withhold messages of exceptions because they may quote private data.

    Raises:
      Exception: the exception itself, if it is not caused by a record: a full disk, a missing package, a lost
        connection.
    """
    is_of_network = any(base.__module__.partition(".")[0] in _NETWORK for base in type(error).__mro__)
    if isinstance(error, _OF_THE_RUN) or is_of_network:  # a retry may succeed
        raise error
    if isinstance(error, UserCodeError):
        headline, _, trace = error.reason.partition("\n")
        return _fault(f"{PLUGIN}: {headline.removesuffix(':')}", trace)
    if isinstance(error, InputError):
        return error
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    package = type(code).__module__.partition(".")[0] if is_plugin(code) else "parapet"
    own = [(frame, line) for frame, line in frames if f"{frame.f_globals.get('__name__')}.".startswith(f"{package}.")]
    frame, line = (own or frames)[-1] if frames else (None, 0)
    place = f" ({_file(frame)}:{line}, in {frame.f_code.co_name})" if frame else ""
    message = "" if is_private else _message(error)
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    trace = "".join(traceback.format_tb(error.__traceback__, -_DEEPEST))
    kind = PLUGIN if is_plugin(code) else INTERNAL
    return _fault(f"{kind}: {text}{place}", f"Traceback (most recent call last):\n{trace}{text}")


def is_plugin(code: object) -> bool:
    """Whether the class of an object is not Parapet's. None stands for Parapet's own code."""
    return type(code).__module__.partition(".")[0] not in ("parapet", "builtins")


def fatal(error: InputError) -> InputError:
    """Returns the error for a run that requires the record; for a fault, it asks to report it."""
    if not isinstance(error, Fault):
        return error
    kind, _, reason_text = error.reason.partition(": ")
    text = f"a bug in Parapet: {reason_text}; {REPORT}" if kind == INTERNAL else f"a bug in a plug-in: {reason_text}"
    return InputError(text, error.path, error.where)


@contextmanager
def needed(path: object, where: str = "") -> Iterator[None]:
    """Adds the place of a required record to exceptions raised while it is handled.

    Args:
      path: the path of its file, or another description.
      where: the place in the file.

    Raises:
      InputError: see :func:`fatal`; errors that already have a place are passed on unchanged.
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
    """Returns an exception's message on one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # a plug-in's class may do anything in __str__
        return ""
    text = _ADDRESS.sub("0x...", text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _file(frame: FrameType) -> str:
    """Returns the file of a frame below its package, the same on every machine: ``transforms/core/counts.py``."""
    if (name := str(frame.f_globals.get("__name__", ""))) == "__main__":
        return frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
    package = name.removeprefix("parapet.").replace(".", "/")
    return f"{package}/__init__.py" if frame.f_code.co_filename.endswith("__init__.py") else f"{package}.py"


def trace_of(error: InputError) -> str:
    """Returns the traceback of a fault; empty if the record is the cause."""
    return error.trace if isinstance(error, Fault) else ""
