"""The server's data in one SQLite file: people, assigned forms and answers.

Answers are committed and on disk before :meth:`Store.submit` returns: SQLite's write-ahead log is synchronised at every
commit, so that a kill or power failure loses nothing that was acknowledged. The connection locks the file, so a second
server cannot use it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.crowd.serving.assign import Event, choose
from parapet.transforms.crowd.serving.forms import Form
from parapet.transforms.storage import disk

_FORMAT = "parapet-collect-1"
_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE people (
  id INTEGER PRIMARY KEY, worker_id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, platform TEXT NOT NULL,
  study TEXT NOT NULL, session TEXT NOT NULL);
CREATE TABLE assignments (
  n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, person INTEGER NOT NULL REFERENCES people, form TEXT NOT NULL,
  task_id TEXT NOT NULL, task TEXT NOT NULL, service TEXT NOT NULL, elements TEXT NOT NULL, state TEXT NOT NULL,
  accepted REAL NOT NULL, expires REAL NOT NULL, submitted REAL, answers TEXT, telemetry TEXT);
CREATE UNIQUE INDEX one_open ON assignments (person) WHERE state = 'open';
"""

Outcome = Literal["saved", "unknown", "other_answers", "too_late"]


class Full(Exception):
    """The disk is full, so nothing can be written."""


class Telemetry(msgspec.Struct, frozen=True):
    """How the answers were typed, by form field.

    Attributes:
      keystrokes: how often a key changed the text.
      pastes: how often text was pasted or dropped.
      seconds: how long the field had the focus.
    """

    keystrokes: dict[str, int] = {}
    pastes: dict[str, int] = {}
    seconds: dict[str, float] = {}


class Assignment(msgspec.Struct, frozen=True):
    """A form assigned to a person. ``expires`` is in seconds since 1970."""

    id: str
    form: str
    expires: float
    state: str


class PersonProgress(msgspec.Struct, frozen=True):
    """A person's progress; ``median_seconds`` is over their submissions."""

    number: int
    submitted: int
    is_open: bool
    given_up: int
    median_seconds: float | None


class Store:
    """The store. All methods are thread-safe.

    Args:
      path: the file; created if it does not exist.
      platform: the origin of people: ``in_house`` or ``prolific``.
      now: the clock, in seconds since 1970.

    Raises:
      InputError: the file belongs to another program, another server uses it, or it cannot be written.
    """

    def __init__(self, path: Path, platform: str = "in_house", now: Callable[[], float] = time.time) -> None:
        self.path, self.now, self._lock = path, now, threading.Lock()
        is_new = not path.exists()
        try:
            if is_new:
                disk.make_folder(path.parent)
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=2)
            self._db.row_factory = sqlite3.Row
            for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
                self._db.execute(f"PRAGMA {pragma}")
            self._db.execute("BEGIN IMMEDIATE")
            self._open(platform)
            self._db.execute("COMMIT")
            disk.sync(path.parent)
        except (sqlite3.Error, OSError) as error:
            raise InputError(_why(error), path, "--db") from None

    def _open(self, platform: str) -> None:
        tables = {row["name"] for row in self._db.execute("SELECT name FROM sqlite_master")}
        if not tables:
            for statement in _TABLES.split(";\n"):
                self._db.execute(statement)
            rows = {"format": _FORMAT, "key": secrets.token_hex(32), "platform": platform}
            self._db.executemany("INSERT INTO meta VALUES (?, ?)", rows.items())
        meta = dict(self._db.execute("SELECT name, value FROM meta")) if not tables or "meta" in tables else {}
        if meta.get("format") != _FORMAT:
            raise InputError("was not written by 'parapet collect serve': choose another file", self.path, "--db")
        self.key, self.platform = bytes.fromhex(meta["key"]), meta["platform"]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a block that is committed durably or not at all. Raises Full if the disk is full."""
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
                self._db.execute("COMMIT")
            except BaseException as error:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                if getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_FULL, *_IO_ERRORS):
                    raise Full from None
                raise

    def invite(self, people: Sequence[str] | int) -> None:
        """Add people: by name unless they exist, or unnamed ones up to a total number."""
        with self._transaction() as db:
            if isinstance(people, int):
                n = db.execute("SELECT count(*) FROM people WHERE platform = 'in_house'").fetchone()[0]
                rows = [("", f"{self.key.hex()} {number}") for number in range(n, people)]
            else:
                rows = [(name, f"name {name.casefold()}") for name in people]
            sql = "INSERT INTO people (worker_id, name, platform, study, session) VALUES (?, ?, 'in_house', '', '')"
            for name, identity in rows:
                worker_id = f"p{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
                db.execute(f"{sql} ON CONFLICT DO NOTHING", (worker_id, name))

    def people(self) -> list[tuple[int, str]]:
        """Return (number, name) of the invited people."""
        with self._lock:
            rows = self._db.execute("SELECT id, name FROM people WHERE platform = 'in_house' ORDER BY id").fetchall()
        return [(row["id"], row["name"]) for row in rows]

    def is_person(self, number: int) -> bool:
        """Whether the person exists."""
        with self._lock:
            return self._db.execute("SELECT 1 FROM people WHERE id = ?", (number,)).fetchone() is not None

    def participant(self, worker_id: str, study: str, session: str) -> int:
        """Return the number of a participant of a Prolific study, who is added at the first visit."""
        with self._transaction() as db:
            values = (worker_id, study, session)
            db.execute(
                "INSERT INTO people (worker_id, name, platform, study, session) VALUES (?, '', 'prolific', ?, ?) "
                "ON CONFLICT DO UPDATE SET study = excluded.study, session = excluded.session",
                values,
            )
            number: int = db.execute("SELECT id FROM people WHERE worker_id = ?", (worker_id,)).fetchone()[0]
            return number

    def begin(self, person: int, forms: Sequence[Form], limit: int | None = None) -> Assignment | None:
        """Return the person's open form or assign a new one; None if there is currently none."""
        with self._transaction() as db:
            self._expire(db)
            if row := db.execute(f"{_SELECT} WHERE person = ? AND state = 'open'", (person,)).fetchone():
                return Assignment(**row)
            form = choose(person, forms, _events(db), limit)
            if form is None:
                return None
            now, elements = self.now(), msgspec.json.encode(sorted(form.elements)).decode()
            assignment = Assignment(secrets.token_hex(20), form.key, now + form.seconds, "open")
            db.execute(
                "INSERT INTO assignments (id, person, form, task_id, task, service, elements, state, accepted, "
                "expires) VALUES (?, ?, ?, ?, ?, ?, ?, 'open', ?, ?)",
                (
                    assignment.id,
                    person,
                    form.key,
                    form.task_id,
                    form.task,
                    form.service,
                    elements,
                    now,
                    assignment.expires,
                ),
            )
            return assignment

    def _expire(self, db: sqlite3.Connection) -> None:
        db.execute("UPDATE assignments SET state = 'expired' WHERE state = 'open' AND expires < ?", (self.now(),))

    def find(self, person: int, assignment_id: str) -> Assignment | None:
        """Return an assignment of this person; None if it belongs to someone else."""
        with self._lock:
            row = self._db.execute(f"{_SELECT} WHERE id = ? AND person = ?", (assignment_id, person)).fetchone()
        return Assignment(**row) if row else None

    def submit(
        self, person: int, assignment_id: str, form: Form, answers: Mapping[str, str], telemetry: Telemetry
    ) -> Outcome:
        """Save answers once. Repeating the same answers also returns ``saved``; different ones are refused.

        An expired form is accepted as long as nobody else has taken its place.

        Raises:
          Full: the disk is full; nothing is saved.
        """
        text = msgspec.json.encode({field: answers[field] for field in form.fields}).decode()
        with self._transaction() as db:
            sql = "SELECT * FROM assignments WHERE id = ? AND person = ?"
            row = db.execute(sql, (assignment_id, person)).fetchone()
            if row is None or row["form"] != form.key:
                return "unknown"
            if row["state"] == "submitted":
                return "saved" if row["answers"] == text else "other_answers"
            if row["state"] != "open":
                sql = "SELECT count(*) FROM assignments WHERE form = ? AND state IN ('open', 'submitted')"
                mine = f"{sql} AND person = ?"
                if db.execute(sql, (form.key,)).fetchone()[0] >= form.wanted or row["state"] == "returned":
                    return "too_late"
                if db.execute(mine, (form.key, person)).fetchone()[0]:
                    return "too_late"
            db.execute(
                "UPDATE assignments SET state = 'submitted', submitted = ?, answers = ?, telemetry = ? WHERE id = ?",
                (self.now(), text, msgspec.json.encode(telemetry).decode(), assignment_id),
            )
            return "saved"

    def give_back(self, person: int, assignment_id: str) -> None:
        """Return an open form so that others can get it."""
        with self._transaction() as db:
            sql = "UPDATE assignments SET state = 'returned' WHERE id = ? AND person = ? AND state = 'open'"
            db.execute(sql, (assignment_id, person))

    def done(self, person: int) -> int:
        """Count the forms that the person has submitted."""
        with self._lock:
            sql = "SELECT count(*) FROM assignments WHERE person = ? AND state = 'submitted'"
            n: int = self._db.execute(sql, (person,)).fetchone()[0]
        return n

    def has_work(self, person: int, forms: Sequence[Form], limit: int | None = None) -> bool:
        """Whether the person has an open form or could get one."""
        with self._transaction() as db:
            self._expire(db)
            sql = "SELECT 1 FROM assignments WHERE person = ? AND state = 'open'"
            is_open = db.execute(sql, (person,)).fetchone() is not None
            return is_open or choose(person, forms, _events(db), limit) is not None

    def by_form(self) -> dict[str, dict[str, int]]:
        """Return form key → state → number of assignments."""
        counts: dict[str, dict[str, int]] = {}
        with self._transaction() as db:
            self._expire(db)
            for row in db.execute("SELECT form, state, count(*) AS n FROM assignments GROUP BY form, state"):
                counts.setdefault(row["form"], {})[row["state"]] = row["n"]
        return counts

    def by_person(self) -> list[PersonProgress]:
        """Return the progress of everyone who was invited or has visited."""
        with self._lock:
            numbers = [row["id"] for row in self._db.execute("SELECT id FROM people ORDER BY id")]
            rows = self._db.execute("SELECT person, state, submitted - accepted AS seconds FROM assignments").fetchall()
        theirs: dict[int, list[sqlite3.Row]] = {number: [] for number in numbers}
        for row in rows:
            theirs[row["person"]].append(row)
        return [_progress(number, rows) for number, rows in theirs.items()]

    def submissions(self) -> int:
        """Count the submitted forms."""
        with self._lock:
            n: int = self._db.execute("SELECT count(*) FROM assignments WHERE state = 'submitted'").fetchone()[0]
        return n

    def export(self) -> bytes:
        """Export all submitted answers in the format of ``--responses``: one per line, in order of submission."""
        sql = """SELECT a.*, p.worker_id, p.platform FROM assignments AS a JOIN people AS p ON p.id = a.person
            WHERE a.state = 'submitted' ORDER BY a.submitted, a.n"""
        with self._lock:
            return b"".join(msgspec.json.encode(_line(row)) + b"\n" for row in self._db.execute(sql))


_SELECT = "SELECT id, form, expires, state FROM assignments"
_IO_ERRORS = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC)


def _events(db: sqlite3.Connection) -> list[Event]:
    rows = db.execute("SELECT person, form, task, service, elements, state FROM assignments ORDER BY n")
    return [
        Event(row["person"], row["form"], row["task"], row["service"], _elements(row["elements"]), row["state"])
        for row in rows
    ]


@lru_cache(maxsize=1 << 14)
def _elements(text: str) -> frozenset[str]:
    return frozenset(msgspec.json.decode(text, type=list[str]))


def _progress(number: int, rows: Sequence[sqlite3.Row]) -> PersonProgress:
    states = [row["state"] for row in rows]
    seconds = [row["seconds"] for row in rows if row["state"] == "submitted"]
    median = statistics.median(seconds) if seconds else None
    given_up = states.count("returned") + states.count("expired")
    return PersonProgress(number, len(seconds), "open" in states, given_up, median)


def _line(row: sqlite3.Row) -> dict[str, Any]:
    telemetry = msgspec.json.decode(row["telemetry"], type=Telemetry)
    return {
        "AssignmentId": row["id"],
        "WorkerId": row["worker_id"],
        "AssignmentStatus": "Submitted",
        "RequesterAnnotation": row["task_id"],
        "AcceptTime": _iso(row["accepted"]),
        "SubmitTime": _iso(row["submitted"]),
        "Source": row["platform"],
        "Answers": msgspec.json.decode(row["answers"]),
        "Keystrokes": telemetry.keystrokes,
        "Pastes": telemetry.pastes,
        "Seconds": telemetry.seconds,
    }


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _why(error: sqlite3.Error | OSError) -> str:
    if isinstance(error, OSError):
        return f"cannot be written: {error.strerror}"
    if getattr(error, "sqlite_errorcode", 0) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "is in use by another 'parapet collect serve': stop it first"
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
        return "was not written by 'parapet collect serve': choose another file"
    return f"cannot be used: {error}"
