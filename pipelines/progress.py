"""Shows a command's progress: a line on a terminal, else a message every 30 seconds, or events for a suite.

Counts come from a file to which workers append, see ``parapet.transforms.core.progress``.
"""

import logging
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import IO, NamedTuple, Self

from parapet.transforms.core.progress import BESIDES, READING, VARIABLE

HEARTBEAT = 30.0  # seconds between two messages without a terminal
POLL = 0.25  # seconds between two readings of the counts

_CLEAR = "\r\x1b[K"  # the line of a terminal


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

# Whether a terminal gets a line of progress; ``command.configure_logging`` sets it.
live_wanted = True


@dataclass
class _Step:
    """A step of a display: when it started, when its stage began, and its last event with its time."""

    started: float
    began: float
    updated: float
    event: Event = Event("", 0, None, "")


class Display:
    """Shows steps that run side by side, on the last line of a terminal or in messages; a context manager.

    Args:
      title: the title of the steps together.
      total: the number of steps; None if they are not counted.
    """

    def __init__(self, title: str = "", total: int | None = None) -> None:
        self.title, self.total, self.finished = title, total, 0
        self.steps: dict[str, _Step] = {}
        self._lock = threading.RLock()
        self._messaged = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        write("")

    def start(self, step: str) -> None:
        """Adds a step."""
        now = time.monotonic()
        with self._lock:
            self.steps[step] = _Step(now, now, now)
            self._show(now)

    def update(self, step: str, event: Event) -> None:
        """Shows the progress of a step; events of finished steps are ignored."""
        now = time.monotonic()
        with self._lock:
            if of := self.steps.get(step):
                if (event.stage, event.unit) != (of.event.stage, of.event.unit):
                    # A stage starts at the last event of the previous one: its own first event comes after some work.
                    of.began = of.updated
                of.event, of.updated = event, now
                self._show(now)

    def finish(self, step: str, text: str = "") -> None:
        """Removes a step, and logs ``text`` unless it is empty."""
        with self._lock:
            self.steps.pop(step, None)
            self.finished += 1
        if text:
            logging.info("%s", text)

    def _show(self, now: float) -> None:
        parts = [] if self.total is None else [f"{self.title}: {self.finished} of {self.total} steps"]
        for name, step in self.steps.items():
            text = text_of(step.event, now - step.began) or f"{_clock(now - step.started)} so far"
            parts.append(": ".join(filter(None, (name, step.event.stage, text))))
        if live_wanted and sys.stderr.isatty():
            write("; ".join(parts)[: shutil.get_terminal_size().columns - 1])
        elif now - self._messaged >= HEARTBEAT:
            self._messaged = now
            for part in parts:
                logging.info("%s", part)


def text_of(event: Event, seconds: float = 0) -> str:
    """Formats the progress of a stage that began some seconds ago, as ``1,204 of 2,482 dialogues, 310/s, 0:04 left``.

    Without a count, these are only the expenses.
    """
    if not event.unit:
        return event.spent
    whole = f"{event.done:,} of {event.total:,} {event.unit}" if event.total is not None else ""
    parts = [whole or _counted(event.done, event.unit)]
    if event.done and seconds:
        rate = event.done / seconds
        parts.append(f"{rate:,.0f}/s" if rate >= 1 else f"{60 * rate:,.0f}/min")
        if event.total is not None and event.total > event.done:
            parts.append(f"{_clock((event.total - event.done) / rate)} left")
    return ", ".join(filter(None, (*parts, event.spent)))


def _counted(n: int, unit: str) -> str:
    return f"${n / 1e6:,.2f}" if unit == "microdollars" else f"{n:,} {unit.removesuffix('s') if n == 1 else unit}"


def _clock(seconds: float) -> str:
    """Formats seconds as ``0:04`` or ``1:02:03``."""
    minutes, whole = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{whole:02}" if hours else f"{minutes}:{whole:02}"


def write(text: str) -> None:
    """Writes to ``sys.stderr``, over the line of progress on a terminal."""
    sys.stderr.write(_CLEAR * sys.stderr.isatty() + text)
    sys.stderr.flush()


class MessageHandler(logging.Handler):
    """Writes messages to ``sys.stderr``, above the line of progress."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a message."""
        write(self.format(record) + "\n")


class Run:
    """The progress of one command: reads the counts, and passes events on."""

    def __init__(self, show: Callable[[Event], None], counts: IO[bytes]) -> None:
        self.show, self.file = show, counts
        self._rest = b""  # of a line that is being written
        self._done: Counter[tuple[str, str]] = Counter()  # by stage and unit
        self._total: Counter[tuple[str, str]] = Counter()
        self._spent: Counter[str] = Counter()
        self._shown = "", ""  # the stage and unit that are shown
        self._lock = threading.RLock()

    def stage(self, name: str) -> None:
        """Shows the next stage, which counts nothing."""
        with self._lock:
            self.poll()
            self._shown = name, ""
            self._done.pop((READING, "dialogues"), None)
            self.poll()

    def count(self, done: int, unit: str, total: int = 0) -> None:
        """Shows the progress of the main stage, for commands that count by themselves or poll remote jobs."""
        with self._lock:
            self._shown = "", unit
            self._done[self._shown], self._total[self._shown] = done, total
            self.poll()

    def poll(self) -> None:
        """Reads new counts, and shows the progress."""
        with self._lock:
            *records, self._rest = (self._rest + self.file.read()).split(b"\n")
            for record in records:
                done, total, unit, stage = record.decode().split("\t")
                if stage == BESIDES:
                    self._spent[unit] += int(done)
                    continue
                self._done[stage, unit] += int(done)
                self._total[stage, unit] += int(total)
                # A total is shown before anything is done; reading is not, beside a stage that counts its own work.
                if (int(done) and stage != READING) or not self._shown[1]:
                    self._shown = stage, unit
            (stage, unit), n, most = self._shown, self._done[self._shown], self._total[self._shown]
            spent = ", ".join(_counted(amount, name) for name, amount in self._spent.items() if amount)
            # Work that was repeated after a worker died is counted twice.
            self.show(Event(stage, min(n, most) if most else n, most or None, unit, spent))


@contextmanager
def running(title: str) -> Iterator[Run]:
    """Shows the command's progress while the block runs: on the terminal, in messages, or to :data:`sink`."""
    stopped = threading.Event()

    def poll() -> None:
        while not stopped.wait(POLL):
            run.poll()

    with tempfile.NamedTemporaryFile(prefix="parapet-progress-") as counts, ExitStack() as stack:
        show = sink
        if show is None:
            display = stack.enter_context(Display())
            display.start(title)
            show = partial(display.update, title)
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
