"""The journal of a batch: JSON Lines, appended and fsynced, which tell later runs which calls were made and paid for.

A call with side effects is logged before it is sent (``begun``) and after (``done``, ``failed``). A call that was begun
but is not done when a run starts may have taken effect, even if MTurk refused it in the end: an earlier attempt may
have succeeded while its response was lost. The run looks up the outcome instead of guessing.
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
from parapet.transforms.core import disk

FILE = "journal.jsonl"

# Increased whenever this program would misread the journals of an older one, or the reverse.
FORMAT = 2

# Files beside a journal. If they exist without it, it is unknown what is published and paid.
TRACES = ("assignments.jsonl", "ledger.csv", "status.html")

Event = Literal["batch", "begun", "done", "failed"]


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the journal.

    Attributes:
      at: the time, ISO 8601, UTC.
      event: ``batch`` opens the journal; ``begun``, ``done`` and ``failed`` belong to a call.
      key: identifies the call across runs: ``hit:Banks_1:names:1:4f0c…``, ``pay:3XYZ``.
      operation: boto3's name for the call.
      facts: the facts for later runs. Contains no worker ids: workers are identified by keyed hashes.
    """

    at: str
    event: Event
    key: str
    operation: str = ""
    facts: dict[str, Any] = {}


class Journal:
    """The open journal of a folder, for one process at a time.

    Args:
      folder: the folder of the journal.
      writable: if False, the journal is only read: nothing is created, repaired or locked, and writing is an error.

    Attributes:
      batch: the facts of the batch; empty if none was begun.
      done: key to facts of completed calls: those of ``begun`` and ``done`` together, and the time (``at``).
      open: key to facts of calls that were begun and are not done.

    Raises:
      InputError: another process uses the folder, a line cannot be read, or the journal is lost.
    """

    def __init__(self, folder: Path, writable: bool = True) -> None:
        self.path = folder / FILE
        self.batch: dict[str, Any] = {}
        self.done: dict[str, dict[str, Any]] = {}
        self.open: dict[str, dict[str, Any]] = {}
        self._handle: int | None = None
        if not self.path.exists():
            self._refuse_if_lost()
        try:
            if writable:
                self._open_and_lock()
            self._read()
        except BaseException:
            self.close()
            raise

    def _refuse_if_lost(self) -> None:
        traces = [name for name in TRACES if self.path.with_name(name).exists()]
        if traces:
            raise InputError(
                f"the journal is lost, although the folder has {traces[0]} of a batch: it is not known what was "
                "published and paid, and publishing again would cost twice; restore the journal from a backup, or "
                "choose another folder to begin another batch",
                self.path,
            )

    def _open_and_lock(self) -> None:
        try:
            disk.make_folder(self.path.parent)
            self._handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            disk.sync(self.path.parent)  # unless the folder's entry is synced, too, a crash can lose the whole journal
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            reason = "another 'parapet mturk' is using this batch; wait until it ends"
            raise InputError(reason, self.path.parent) from None

    def _read(self) -> None:
        data = self.path.read_bytes() if self.path.exists() else b""
        complete, _, torn = data.rpartition(b"\n")
        for number, line in enumerate(complete.splitlines(), 1):
            try:
                self._apply(msgspec.json.decode(line, type=Entry))
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise InputError(f"not a line of the journal: {error}", self.path, f"row {number}") from None
        if not self.batch:
            self._refuse_if_lost()
        if torn and self._handle is not None:
            # A killed run's last line: what it was about to say is not known, so its call counts as open (or unmade).
            logging.info("%s: the last line, of an interrupted run, is incomplete and is ignored", self.path)
            os.truncate(self.path, len(data) - len(torn))

    def _apply(self, entry: Entry) -> None:
        if entry.event == "batch":
            self.batch = entry.facts
            if self.batch.get("format") != FORMAT:
                version = self.batch.get("parapet", "(unknown)")
                reason = f"this batch was made by Parapet {version}, whose journal has another format"
                raise InputError(f"{reason}: continue with that version", self.path)
        elif entry.event == "begun":
            self.open[entry.key] = {"operation": entry.operation, **entry.facts}
        elif entry.event == "done":
            # Removed first so that a repeated key moves to the end.
            before = {**self.done.pop(entry.key, {}), **self.open.pop(entry.key, {})}
            self.done[entry.key] = {**before, **entry.facts, "at": entry.at}

    def write(self, entries: Iterable[tuple[Event, str, str, Mapping[str, Any]]]) -> None:
        """Append (event, key, operation, facts) with one fsync; returns when they are on disk.

        Raises:
          OSError: they cannot be written; names the file.
        """
        assert self._handle is not None, "the journal was opened for reading"
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        lines = [Entry(at, event, key, operation, dict(facts)) for event, key, operation, facts in entries]
        data = b"".join(msgspec.json.encode(entry) + b"\n" for entry in lines)
        try:
            while data:
                data = data[os.write(self._handle, data) :]
            os.fsync(self._handle)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None
        for entry in lines:
            self._apply(entry)

    def with_prefix(self, prefix: str) -> dict[str, dict[str, Any]]:
        """Return what is done under keys that begin with ``prefix:``, without the prefix, in journal order."""
        start = f"{prefix}:"
        return {key.removeprefix(start): facts for key, facts in self.done.items() if key.startswith(start)}

    def close(self) -> None:
        """Unlock the journal for other processes."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
