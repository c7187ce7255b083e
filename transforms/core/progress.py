"""The progress of a run: workers in any process on this machine append what they have done to a file.

The command reads it while it waits (``parapet.pipelines.progress``), because Beam's own counters are only visible after
a stage has ended, and worker processes cannot report otherwise. Without a reader, nothing is written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from parapet.schemas.dialogue import DialogueFile

VARIABLE = "PARAPET_PROGRESS"  # names the file; inherited by worker processes

ANALYSIS = "analysis"  # the stage before a corpus's dialogues are perturbed
BESIDES = "besides"  # for amounts spent meanwhile, such as tokens, which are shown after the progress
READING = "reading"  # for reading dialogues; not shown beside another stage with progress

_ID = b'"dialogue_id"'
_EVERY = 0.1  # seconds between two reports of a loop

Each = TypeVar("Each")


def expect(total: int, unit: str, stage: str = "") -> None:
    """Adds to the total of a stage.

    Args:
      total: the number of items.
      unit: the items, in the plural: ``dialogues``.
      stage: the name of the stage; empty for the main stage of a command.
    """
    _append(0, total, unit, stage)


def advance(n: int, unit: str, stage: str = "") -> None:
    """Adds to what a stage has done; see :func:`expect`."""
    _append(n, 0, unit, stage)


def spend(**amounts: int) -> None:
    """Adds to the amounts spent in any stage: ``tokens``, ``microdollars``, ``errors``."""
    for unit, n in amounts.items():
        _append(n, 0, unit, BESIDES)


def tracked(items: Iterable[Each], unit: str, stage: str = "") -> Iterator[Each]:
    """Yields the items, and reports each as done when the next one is requested; see :func:`advance`."""
    if VARIABLE not in os.environ:
        yield from items
        return
    done, reported = 0, time.monotonic()
    try:
        for item in items:
            yield item
            done += 1
            if (now := time.monotonic()) - reported > _EVERY:
                advance(done, unit, stage)
                done, reported = 0, now
    finally:
        advance(done, unit, stage)


def expect_dialogues(files: Iterable[DialogueFile], stage: str = "") -> None:
    """Adds the dialogues of files to the total of a stage."""
    expect(sum(file.dialogues for file in files), "dialogues", stage)


def expect_dialogues_in(paths: Iterable[str]) -> None:
    """Adds the dialogues of files to the total. If some are in a bucket, nothing: reading them takes too long."""
    listed = [*paths]
    if VARIABLE in os.environ and not any("://" in path for path in listed):
        expect(sum(map(_count_ids, listed)), "dialogues")


def _count_ids(path: str) -> int:
    """Counts dialogues in a hundredth of the time for processing them."""
    total, end = 0, b""
    with suppress(OSError), open(path, "rb") as file:  # the step that reads its dialogues reports errors
        while chunk := file.read(2**18):
            total += (end + chunk).count(_ID)
            end = chunk[1 - len(_ID) :]
    return total


def _append(done: int, total: int, unit: str, stage: str) -> None:
    if (done or total) and (path := os.environ.get(VARIABLE)):
        with suppress(OSError):  # a worker may outlive the command
            file = os.open(path, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(file, f"{done}\t{total}\t{unit}\t{stage}\n".encode())  # short enough for an atomic write
            finally:
                os.close(file)
