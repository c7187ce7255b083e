"""How far a run is: workers, in whatever process of this machine, append what they have done to a file.

The command reads it while it waits (``parapet.pipelines.progress``): Beam's own counters are not visible before a stage
has ended, and worker processes have no other way to it. Where nobody reads, nothing is written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from parapet.schemas.errors import InputError
from parapet.schemas.limits import open_file

if TYPE_CHECKING:
    from parapet.schemas.dialogue import DialogueFile

VARIABLE = "PARAPET_PROGRESS"  # the environment variable that names the file; worker processes inherit it

ANALYSIS = "analysis"  # the stage before the dialogues of a corpus are perturbed
BESIDES = "besides"  # no stage: what is spent meanwhile, such as tokens; shown behind what is done
READING = "reading"  # of dialogues, for whatever; not shown beside another stage that counts

_ID = b'"dialogue_id"'
_EVERY = 0.1  # seconds between two records of a loop

Each = TypeVar("Each")


def expect(total: int, unit: str, stage: str = "") -> None:
    """Adds to what a stage will do.

    Args:
      total: how many.
      unit: of what, in the plural: ``dialogues``.
      stage: the name of the stage; none for the main one of a command.
    """
    _append(0, total, unit, stage)


def advance(n: int, unit: str, stage: str = "") -> None:
    """Adds to what a stage has done; see :func:`expect`."""
    _append(n, 0, unit, stage)


def spend(**amounts: int) -> None:
    """Adds to what is spent while whatever stage runs: ``tokens``, ``microdollars``, ``errors``."""
    for unit, n in amounts.items():
        _append(n, 0, unit, BESIDES)


def tracked(items: Iterable[Each], unit: str, stage: str = "") -> Iterator[Each]:
    """The same items. Each is done when the next one is asked for; see :func:`advance`."""
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


def expect_dialogues(files: Iterable[DialogueFile | str], stage: str = "") -> None:
    """Adds the dialogues of some files to what a stage will do, unless a file is in a bucket: reading it takes long."""
    if VARIABLE not in os.environ:
        return
    total = 0
    for file in files:
        path, content = (file, None) if isinstance(file, str) else (file.path, file.content)
        if content is not None:
            total += content.count(_ID)
        elif "://" in path:
            return
        else:
            total += _count_ids(path)
    expect(total, "dialogues", stage)


def _count_ids(path: str) -> int:
    """A hundredth of the time that it takes to do anything with the dialogues."""
    total, end = 0, b""
    with suppress(OSError, InputError), open_file(path) as file:  # whoever reads its dialogues will report it
        while chunk := file.read(2**18):
            total += (end + chunk).count(_ID)
            end = chunk[1 - len(_ID) :]
    return total


def _append(done: int, total: int, unit: str, stage: str) -> None:
    if (done or total) and (path := os.environ.get(VARIABLE)):
        with suppress(OSError):  # a worker may outlive the command
            file = os.open(path, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(file, f"{done}\t{total}\t{unit}\t{stage}\n".encode())  # whole: it is short
            finally:
                os.close(file)
