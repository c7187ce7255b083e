"""Shows a command's progress: a live display on a terminal, else a line every 30 seconds, or events for a suite.

Counts come from a file to which workers append, see ``parapet.transforms.running.progress``.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, NamedTuple, Self

from parapet.transforms.running.progress import BESIDES, READING, VARIABLE

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

HEARTBEAT = 30.0  # seconds between two lines without a terminal
POLL = 0.25  # seconds between two readings of the counts

_BAR = 16  # columns


class Event(NamedTuple):
    """The progress of a command.

    Attributes:
      stage: the current stage; empty for the main work of a command.
      done: how many units the stage has finished.
      total: how many there are; None if unknown.
      unit: in the plural, such as ``dialogues``; empty if the stage counts nothing.
      spent: the formatted expenses so far: ``1,204 tokens, $0.02``.
    """

    stage: str
    done: int
    total: int | None
    unit: str
    spent: str = ""


# Replaces the command's display if set: it receives a few events a second. Suites use it.
sink: Callable[[Event], None] | None = None

# Whether a terminal gets a live display; ``command.configure_logging`` sets it.
live_wanted = True

# When the command began, by the monotonic clock; the command may show several displays one after the other.
began: float | None = None

_console: Console | None = None  # of the live display, while it is shown


_NOTHING = Event("", 0, None, "")


@dataclass
class _Step:
    """A step of a display: when it started, when its stage began, its last event, and the time of that."""

    started: float
    began: float
    updated: float
    event: Event = _NOTHING


class Display:
    """Shows steps that run side by side: live lines on a terminal, regular log messages elsewhere.

    A context manager. Its methods may be called from any thread. Log messages and output to ``sys.stderr`` appear above
    the live lines, which ``--quiet`` and ``--log_format=json`` switch off.

    Args:
      title: the title of the line for all steps.
      total: the number of steps; None: there is no line for all of them.
      clock: returns the time in seconds.
    """

    def __init__(self, title: str = "", total: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.title, self.total, self.clock = title, total, clock
        self.stream = sys.stderr
        self.live = live_wanted and _console is None and self.stream.isatty()
        self.steps: dict[str, _Step] = {}
        self.finished = 0
        self._lock = threading.RLock()
        self._stopped = threading.Event()

    def __enter__(self) -> Self:
        global _console
        if self.live:
            from rich.console import Console
            from rich.live import Live
            from rich.spinner import Spinner

            self._spinner = Spinner("dots")
            _console = Console(file=self.stream)
            self._live = Live(
                console=_console,
                get_renderable=self._lines,
                refresh_per_second=8,
                transient=True,
                redirect_stdout=sys.stdout.isatty(),  # only if stdout is the same terminal
            )
            self._live.start(refresh=True)
        else:
            self._thread = threading.Thread(target=self._keep_beating, name="heartbeat", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        global _console
        if self.live:
            self._live.stop()
            _console = None
        else:
            self._stopped.set()
            self._thread.join()

    def start(self, step: str, since: float | None = None) -> None:
        """Adds a step that began at the time ``since`` of the clock, by default now."""
        now = self.clock()
        with self._lock:
            self.steps[step] = _Step(now if since is None else since, now, now)
        if self.live:
            self._live.refresh()

    def update(self, step: str, event: Event) -> None:
        """Shows the progress of a step; events of finished steps are ignored."""
        with self._lock:
            if of := self.steps.get(step):
                if (event.stage, event.unit) != (of.event.stage, of.event.unit):
                    # A stage starts at the last event of the previous one: its own first event comes after some work.
                    of.began = of.updated
                of.event, of.updated = event, self.clock()

    def finish(self, step: str, text: str = "") -> None:
        """Removes a step, and logs ``text`` unless it is empty."""
        with self._lock:
            self.steps.pop(step, None)
            self.finished += 1
        if text:
            logging.info("%s", text, extra={"fields": {"step": step}})

    def beat(self) -> None:
        """Logs a message for each running step, and one for all steps."""
        if self.total is not None:
            done: dict[str, object] = {"steps_done": self.finished, "steps": self.total}
            logging.info("%s: %d of %d steps", self.title, self.finished, self.total, extra={"fields": done})
        for name, event, rate, left, seconds in self._states():
            text = text_of(event, rate, left) or f"{_clock(seconds)} so far"
            fields = {"step": name, **event._asdict(), "rate": rate, "seconds_left": left}
            line = ": ".join(part for part in (name, event.stage, text) if part)
            logging.info("%s", line, extra={"fields": fields})

    def _keep_beating(self) -> None:
        while not self._stopped.wait(HEARTBEAT):
            self.beat()

    def _states(self) -> list[tuple[str, Event, float | None, float | None, float]]:
        """Lists (step, its last event, units per second, estimated seconds left, seconds so far)."""
        states, now = [], self.clock()
        with self._lock:
            for name, step in self.steps.items():
                event, seconds = step.event, now - step.began
                rate = event.done / seconds if event.done and seconds > 0 else None
                left = (event.total - event.done) / rate if event.total is not None and rate else None
                states.append((name, event, rate, left, now - step.started))
        return states

    def _lines(self) -> Table:
        """Makes the live lines: step and stage, a bar, counts, and elapsed time."""
        from rich.progress_bar import ProgressBar
        from rich.table import Column, Table
        from rich.text import Text

        columns = (Column(), Column(no_wrap=True, overflow="ellipsis", ratio=1), Column(), Column(no_wrap=True))
        lines = Table.grid(*columns, Column(justify="right"), padding=(0, 1), expand=True)
        if self.total is not None:
            bar = ProgressBar(self.total, self.finished, width=_BAR)
            lines.add_row("", Text(self.title, "bold"), bar, Text(f"{self.finished} of {self.total} steps"), "")
        for name, event, rate, left, seconds in self._states():
            label = Text(": ".join(part for part in (name, event.stage) if part))
            bar = ProgressBar(event.total, event.done, width=_BAR, pulse=not event.total)
            lines.add_row(self._spinner, label, bar, Text(text_of(event, rate, left)), Text(_clock(seconds), "dim"))
        return lines


def text_of(event: Event, rate: float | None = None, seconds_left: float | None = None) -> str:
    """Formats progress as ``1,204 of 2,482 dialogues, 310/s, 0:04 left``; without a count, only the expenses."""
    if not event.unit:
        return event.spent
    if event.total is None:
        parts = [f"{event.done:,} {event.unit.removesuffix('s') if event.done == 1 else event.unit}"]
    else:
        parts = [f"{event.done:,} of {event.total:,} {event.unit}"]
    if rate is not None:
        parts.append(f"{rate:,.0f}/s" if rate >= 1 else f"{60 * rate:,.0f}/min")
    if seconds_left:
        parts.append(f"{_clock(seconds_left)} left")
    if event.spent:
        parts.append(event.spent)
    return ", ".join(parts)


def _spent(amounts: dict[str, int]) -> str:
    """Formats amounts as ``1,204 tokens, $0.02, 3 errors``."""
    return ", ".join(
        f"${n / 1e6:,.2f}" if unit == "microdollars" else f"{n:,} {unit.removesuffix('s') if n == 1 else unit}"
        for unit, n in amounts.items()
        if n
    )


def _clock(seconds: float) -> str:
    """Formats seconds as ``0:04`` or ``1:02:03``."""
    minutes, whole = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{whole:02}" if hours else f"{minutes}:{whole:02}"


def write(text: str) -> None:
    """Writes to ``sys.stderr``, above the live display if there is one."""
    console = _console
    if console is None:
        sys.stderr.write(text)
        sys.stderr.flush()
    else:
        console.out(text, end="", highlight=False)  # neither wrapped nor coloured


class MessageHandler(logging.Handler):
    """Writes messages to ``sys.stderr``, above the live display if there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a message."""
        try:
            write(self.format(record) + "\n")
        except Exception:
            self.handleError(record)


class Run:
    """The progress of one command: reads the counts, and passes events on."""

    def __init__(self, show: Callable[[Event], None], counts: IO[bytes]) -> None:
        self.show, self.file = show, counts
        self._rest = b""  # of a line that is being written
        self.event = _NOTHING
        self._counts: dict[tuple[str, str], list[int]] = {}  # (stage, unit) -> done, total
        self._spent: dict[str, int] = {}
        self._counting = False  # whether the stage counts its own work, besides the records it reads
        self._shown: Event | None = None
        self._lock = threading.RLock()

    def stage(self, name: str) -> None:
        """Shows the next stage, which counts nothing."""
        with self._lock:
            self.poll()
            self.event, self._counting = Event(name, 0, None, "", _spent(self._spent)), False
            self._counts.pop((READING, "dialogues"), None)
            self.poll()

    def count(self, done: int, unit: str, total: int = 0) -> None:
        """Shows the progress of the main stage, for commands that count by themselves or poll remote jobs."""
        with self._lock:
            counts = self._counts.setdefault(("", unit), [0, 0])
            counts[:] = done, total or counts[1]
            self._count("", unit)
            self.poll()

    def _count(self, stage: str, unit: str) -> None:
        self._counting = stage != READING
        done, total = self._counts[stage, unit]
        # Work that was repeated after a worker died is counted twice.
        self.event = Event(stage, min(done, total) if total else done, total or None, unit, _spent(self._spent))

    def poll(self) -> None:
        """Reads new counts, and shows them."""
        with self._lock:
            *records, self._rest = (self._rest + self.file.read()).split(b"\n")
            for record in records:
                done, total, unit, stage = record.decode().split("\t")
                if stage == BESIDES:
                    self._spent[unit] = self._spent.get(unit, 0) + int(done)
                    self.event = self.event._replace(spent=_spent(self._spent))
                    continue
                counts = self._counts.setdefault((stage, unit), [0, 0])
                counts[0] += int(done)
                counts[1] += int(total)
                if int(done) and (stage != READING or not self._counting):
                    self._count(stage, unit)
            if self.event != self._shown:
                self._shown = self.event
                self.show(self.event)


@contextmanager
def running(title: str) -> Iterator[Run]:
    """Shows the command's progress while the block runs: on the terminal, in log messages, or to :data:`sink`."""
    stopped = threading.Event()

    def poll() -> None:
        while not stopped.wait(POLL):
            run.poll()

    with tempfile.NamedTemporaryFile(prefix="parapet-progress-") as counts, ExitStack() as stack:
        show = sink
        if show is None:
            display = stack.enter_context(Display())
            display.start(title, began)
            show = partial(display.update, title)
        if show is sink or live_wanted or logging.getLogger().isEnabledFor(logging.INFO):
            os.environ[VARIABLE] = counts.name
        run, thread = Run(show, counts.file), threading.Thread(target=poll, name="progress counts", daemon=True)
        thread.start()
        try:
            yield run
        finally:
            stopped.set()
            thread.join()
            run.poll()
            os.environ.pop(VARIABLE, None)
