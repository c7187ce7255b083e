"""What must not be: an exception that is no InputError, a run without end, output that nobody can read."""

import contextlib
import csv
import io
import json
import re
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import defusedxml.ElementTree
import kit
import pyarrow as pa
import pyarrow.parquet as pq

from fuzzing.mutations import CANARY
from parapet.pipelines import command
from parapet.schemas.errors import InputError

HANGS = "it takes too long"
_OURS = re.compile(
    r'File "[^"\n]*?/((?:schemas|transforms|evaluation|pipelines|parapet)/[^"\n]*\.py)", line \d+, in (\S+)'
)
_PLACES = re.compile(r"(\w+(?:Error|Exception|Iteration)\b|[\w/]+\.py)")
# Raw control characters in a message can write anything on a terminal.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Finding(NamedTuple):
    """What a target must not do.

    Attributes:
      kind: the same for the same defect: the exception and the place in our code where it was raised, or what is wrong.
      details: a traceback, or what was expected.
    """

    kind: str
    details: str = ""


class TooLong(BaseException):
    """The time of a record or a run is over. No Exception: what is tested must not catch it."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises TooLong in the main thread when the time is over; a regular expression is interrupted, too."""

    def over(_: int, frame: FrameType | None) -> None:
        # Of a pipeline the main thread only waits: the place is in the other thread whose innermost code is ours.
        frames = [frame, *(one for name, one in sys._current_frames().items() if name != threading.get_ident())]
        stacks = ["".join(traceback.format_stack(one)) for one in frames if one is not None]
        ours = [stack for stack in stacks if _OURS.search(stack)]
        innermost = [stack for stack in ours if _OURS.search(stack, stack.rindex('File "'))]
        raise TooLong((innermost or ours or stacks)[-1])

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def kind_of(text: str, name: str) -> str:
    """The exception and the innermost place in our code of a traceback, as text."""
    places = _OURS.findall(text)
    return f"{name} in {':'.join(places[-1]) if places else ':'}"


def unexpected(error: BaseException) -> Finding:
    """The finding that an exception is."""
    text = "".join(traceback.format_exception(error))
    return Finding(kind_of(text, HANGS if isinstance(error, TooLong) else type(error).__name__), text[-6_000:])


def call(function: Callable[[], Any], seconds: float = 5.0) -> Finding | None:
    """Calls a function, which may return or raise InputError in time."""
    try:
        with time_limit(seconds):
            function()
    except InputError as error:
        return Finding("an InputError with a traceback", str(error)) if "Traceback" in str(error) else None
    except (TooLong, Exception) as error:
        return unexpected(error)
    return None


def message_problem(text: str) -> str:
    """What is wrong with a message to a user; nothing in most."""
    if found := _CONTROL.search(text.replace("\n", "")):
        return f"the control character {found[0]!a}"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "half a surrogate pair"
    return "Traceback" if "Traceback (most" in text else ""


def run(argv: Sequence[str], seconds: float = 60.0) -> tuple[int | None, Finding | None]:
    """Runs a command in this process: its status, and the finding where it must not have ended in that way."""
    failures: list[BaseException] = []
    real = command._reason

    def failed(error: BaseException) -> str:
        failures.append(error)
        return real(error)

    command._reason = failed
    try:
        with time_limit(seconds):
            ran = kit.run(*argv, status=None)
    except (TooLong, Exception) as error:
        return None, unexpected(error)
    except SystemExit as stop:
        return None, Finding(f"SystemExit({stop.code})", "".join(traceback.format_exception(stop)))
    finally:
        command._reason = real
    return ran.status, _of_failure(failures[0]) if failures else _of_end(ran.status, ran.errors)


def _of_failure(error: BaseException) -> Finding:
    """What is nobody's input, by the innermost exception: Beam wraps what a step raised, as text."""
    text = "".join(traceback.format_exception(error))
    last = [line for line in str(error).splitlines() if re.match(r"[\w.]*(Error|Exception|Warning)\b", line.strip())]
    name = (last[-1].strip() if last else type(error).__name__).partition(":")[0].partition(" [while")[0]
    return Finding(kind_of(text, name.rpartition(".")[2]), f"{str(error)[-300:]}\n{text[-6_000:]}")


def _of_end(status: int, errors: str) -> Finding | None:
    if status not in (0, 1, 2):
        return Finding(f"exit status {status}", errors[-2_000:])
    if status and not re.search(r"^error: \S", errors, re.M):
        return Finding(f"exit status {status} without an error that says why", errors[-2_000:])
    if "PARAPET_DEBUG=1" in errors:
        return Finding("an unexpected error: " + errors[-200:], errors[-4_000:])
    if "internal_error" in errors or "a fault of Parapet" in errors:
        return Finding(f"internal_error: {' '.join(sorted({*_PLACES.findall(errors)}))[:120]}", errors[-4_000:])
    if problem := message_problem(errors):
        return Finding(f"{problem} in a message", repr(errors)[-2_000:])
    return None


class _Elements(HTMLParser):
    bad = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if any(name.startswith("on") and "fuzz" in str(value) for name, value in attrs):
            self.bad = f"markup of the input: <{tag} {attrs}>"


def output_findings(folder: Path) -> Iterator[Finding]:
    """What nobody can read of an output, and what of the input stands unescaped in a page."""
    for name, data in kit.files_of(folder).items():
        suffix = Path(name).suffix
        try:
            problem = _PROBLEMS[suffix](data) if suffix in _PROBLEMS and ".incomplete" not in name else ""
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            place = re.sub(r"[0-9]+|(?<=pages/)[^.]*", "N", name)
            kind = f"{suffix[1:]} output that cannot be used: {place}: {problem.partition(':')[0][:60]}"
            yield Finding(kind, f"{folder / name}: {problem[:2_000]}")


def _internal(data: bytes) -> str:
    rows = [json.loads(line) for line in data.decode().split("\n") if line]
    for reason in (str(row.get("reason", "")) for row in rows if isinstance(row, dict)):
        if "internal_error" in reason:
            return f"internal_error {' '.join(dict.fromkeys(_PLACES.findall(reason)))}: {reason}"
    return ""


def _markup(data: bytes) -> str:
    page = _Elements()
    page.feed(data.decode())
    return page.bad


def _widths(data: bytes) -> str:
    csv.field_size_limit(2**31 - 1)
    widths = Counter(map(len, list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")))))
    return f"rows of several widths: {dict(widths)}" if len(widths) > 1 else ""


# What is wrong with the bytes of a file: a text, or an error.
_PROBLEMS: dict[str, Callable[[bytes], Any]] = {
    ".html": _markup,
    ".md": lambda data: "markup of the input: the canary" if CANARY in data.decode() else "",
    ".json": lambda data: json.loads(data) and "",
    ".jsonl": _internal,
    ".csv": _widths,
    ".parquet": lambda data: pq.read_table(pa.BufferReader(data)).to_pylist() and "",
    ".xml": lambda data: defusedxml.ElementTree.fromstring(data) is None,
    ".txt": lambda data: data.decode() and "",
}
