"""Journals of calls that cost money: JSON lines, appended and fsynced, from which every later run knows what was done.

A call that changes something elsewhere is written down before it is made (``begun``) and after (``done``, ``failed``).
What is begun and not done when a run starts may or may not have happened, even where it was refused in the end (an
earlier attempt may have succeeded and its answer been lost): it is looked up, never guessed.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.storage import disk

FILE = "journal.jsonl"

# Raised whenever an older program would misread what a newer one writes.
FORMAT = 1

Event = Literal["batch", "begun", "done", "failed", "noted"]


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the journal.

    Attributes:
      at: when, ISO 8601, UTC.
      event: ``batch`` opens the journal; ``begun``, ``done`` and ``failed`` belong to a call; ``noted`` keeps a fact.
      key: what the call does, the same on every run: ``hit:Banks_1:names:1:4f0c…``, ``approve:3XYZ``.
      operation: boto3's name of the call.
      facts: what later runs need. No worker ids: workers are known by keyed hashes.
    """

    at: str
    event: Event
    key: str
    operation: str = ""
    facts: dict[str, Any] = {}


class Journal:
    """The open journal of a folder. One process at a time.

    Args:
      folder: that the journal is of.
      writable: False only reads: nothing is made, mended or locked, and writing is an error.
      recover: begins a journal that is lost again; what there is of it is kept as ``journal.jsonl.lost``.

    Attributes:
      done: key to facts of what is done, those of ``begun`` and ``done`` together, and when (``at``). ``noted`` facts
        are here too.
      open: key to facts of what was begun and is not done; those that MTurk refused have its ``message``.

    Raises:
      InputError: another process works on the folder, a line cannot be read, or the journal is lost.
    """

    program = "parapet"  # whose journal it is
    what = "folder"  # what it calls the folder

    def __init__(self, folder: Path, writable: bool = True, recover: bool = False) -> None:
        self.path = folder / FILE
        self.done: dict[str, dict[str, Any]] = {}
        self.open: dict[str, dict[str, Any]] = {}
        self.batch: dict[str, Any] = {}
        if not (self.path.exists() or recover):
            self.refuse_lost("is missing")
        self._handle = self._locked() if writable else None
        try:
            if recover:
                self._begin_again()
            elif self.path.exists():
                self._read()
        except BaseException:
            self.close()
            raise

    def refuse_lost(self, what: str, always: bool = False) -> None:
        """Raises InputError where calls may have been made that the journal does not have.

        Args:
          what: what is the matter with the journal.
          always: whether the journal itself shows that there were some.
        """
        if always:
            raise InputError(f"the journal {what}: restore it from a backup", self.path)

    def _locked(self) -> int:
        try:
            disk.make_folder(self.path.parent)
            handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            disk.sync(self.path.parent)  # without its name in the folder, the lines of a journal are lost
        except OSError as error:
            raise InputError(f"cannot write the journal: {error.strerror}", self.path) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            reason = f"another '{self.program}' is using this {self.what}; wait until it ends"
            raise InputError(reason, self.path.parent) from None
        return handle

    def _begin_again(self) -> None:
        """Puts what there is aside: a second lost journal replaces the first, which it holds."""
        assert self._handle is not None
        data = self.path.read_bytes()
        if data:
            with open(self.path.with_name(f"{FILE}.lost"), "ab", opener=_private) as lost:
                lost.write(data)
                lost.flush()
                os.fsync(lost.fileno())
            disk.sync(self.path.parent)
        os.truncate(self.path, 0)

    def _read(self) -> None:
        data = self.path.read_bytes()
        whole, _, torn = data.rpartition(b"\n")
        if data and not data.strip(b"\0 \t\r\n"):
            nothing = f"contains {len(data):,} empty bytes, as after a power failure"
            self.refuse_lost(nothing, always=True)
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                self._take(msgspec.json.decode(line, type=Entry))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise InputError(f"not a line of the journal: {error}", self.path, f"row {number}") from None
        if not self.batch:
            self.refuse_lost("lacks its first line" if data else "is empty")
        if torn and self._handle is not None:
            # A killed run's last line: what it was about to say is not known, so its call counts as open (or unmade).
            logging.info(
                "%s: the last line is incomplete, because the previous run was interrupted; the line is ignored",
                self.path,
            )
            os.truncate(self.path, len(whole) + 1 if whole else 0)

    def _take(self, entry: Entry) -> None:
        if entry.event == "batch":
            self.batch = entry.facts
            if self.batch.get("format") != FORMAT:
                raise InputError(
                    f"this {self.what} was made by Parapet {self.batch.get('parapet', '(unknown)')}, whose "
                    "journal has another format: continue with that version",
                    self.path,
                )
        elif entry.event == "begun":
            self.open[entry.key] = {"operation": entry.operation, **entry.facts}
        elif entry.event == "done":
            # Popped first: what is done again comes last.
            before = {**self.done.pop(entry.key, {}), **self.open.pop(entry.key, {})}
            self.done[entry.key] = {**before, **entry.facts, "at": entry.at}
        elif entry.event == "noted":
            self.done[entry.key] = {**self.done.get(entry.key, {}), **entry.facts, "at": entry.at}
        else:
            self.open[entry.key] = {**self.open.get(entry.key, {}), **entry.facts}

    def write(self, entries: Iterable[tuple[Event, str, str, Mapping[str, Any]]]) -> None:
        """Appends (event, key, operation, facts), all with one fsync; returns when they are on the disk."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        lines = [Entry(at, event, key, operation, dict(facts)) for event, key, operation, facts in entries]
        if not lines:
            return
        if self._handle is None:
            raise AssertionError("a journal opened for reading is not written")
        data = b"".join(msgspec.json.encode(entry) + b"\n" for entry in lines)
        try:
            while data:
                data = data[os.write(self._handle, data) :]
            os.fsync(self._handle)
        except OSError as error:
            reason = f"cannot be written: {error.strerror}; make room, then run the same command again"
            raise InputError(reason, self.path) from None
        for entry in lines:
            self._take(entry)

    def with_prefix(self, prefix: str) -> dict[str, dict[str, Any]]:
        """What is done under keys that begin with ``prefix:``, without the prefix, in the journal's order."""
        return {
            key.removeprefix(f"{prefix}:"): facts for key, facts in self.done.items() if key.startswith(f"{prefix}:")
        }

    def close(self) -> None:
        """Lets other processes in."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
