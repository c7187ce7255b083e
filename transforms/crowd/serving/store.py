"""The server's data in one SQLite file: forms, people, assigned forms and answers.

Answers are committed and on disk before :meth:`Store.submit` returns. SQLite uses a rollback journal, so that between
two commits the file is complete by itself: a copy of it has all answers. ``synchronous = EXTRA`` also puts the removal
of the journal, which is the commit, on disk. A lock on the file keeps a second server out, but not readers such as
``sqlite3 answers.sqlite '.backup copy.sqlite'``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import sqlite3
import statistics
import threading
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.crowd.serving.assign import Event, State, choose
from parapet.transforms.crowd.serving.forms import Form
from parapet.transforms.storage import disk

_FORMAT = "parapet-collect-2"
_FOREIGN = "was not written by 'parapet collect serve', or by another version of it: choose another file"
_SECONDS = 5  # to wait while another program has locked the file
_MOST_RETURNS = 20  # tasks that a person may give back, besides one for each submitted
_PATIENCE = 4  # when places are short, an open one counts as free for others after this part of its time
_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE forms (key TEXT PRIMARY KEY, form BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE people (id INTEGER PRIMARY KEY, worker_id TEXT NOT NULL UNIQUE, name TEXT NOT NULL);
CREATE TABLE assignments (
  n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, person INTEGER NOT NULL REFERENCES people,
  form TEXT NOT NULL REFERENCES forms, state TEXT NOT NULL, accepted REAL NOT NULL, expires REAL NOT NULL,
  submitted REAL, answers TEXT, telemetry TEXT);
CREATE UNIQUE INDEX one_open ON assignments (person) WHERE state = 'open';
"""
_SELECT = "SELECT id, form, expires, state, answers FROM assignments"
_DISK = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC)
_STATUSES = {**dict.fromkeys(_DISK, 507), sqlite3.SQLITE_BUSY: 503, sqlite3.SQLITE_LOCKED: 503}

Outcome = Literal["saved", "unknown", "other_answers", "too_late"]


class Unavailable(InputError):
    """Nothing was written, because the disk is full (status 507) or another program has locked the file (503)."""

    def __init__(self, status: int, path: Path) -> None:
        super().__init__("the disk is full" if status == 507 else "another program has locked it", path, "--db")
        self.status = status


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
    """A form assigned to a person. ``expires`` is in seconds since 1970, ``answers`` is JSON once it is submitted."""

    id: str
    form: str
    expires: float
    state: str
    answers: str | None = None


class Store:
    """The store. All methods are thread-safe, and raise Unavailable if the file cannot be used for the moment.

    Args:
      path: the file; created if it does not exist.
      platform: the origin of people: ``in_house`` or ``prolific``.
      now: the clock, in seconds since 1970.

    Raises:
      InputError: the file belongs to another program, another server uses it, or it cannot be written.
    """

    def __init__(self, path: Path, platform: str = "in_house", now: Callable[[], float] = time.time) -> None:
        self.path, self.now, self._lock, self._resources = path, now, threading.Lock(), ExitStack()
        try:
            self._open(platform)
        except BaseException as error:
            self.close()
            if isinstance(error, sqlite3.Error | OSError):
                raise InputError(_why(error), path, "--db") from None
            raise

    def _open(self, platform: str) -> None:
        disk.make_folder(self.path.parent)
        descriptor = os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self._resources.callback(os.close, descriptor)  # after the connection: this ends SQLite's own locks, too
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._db = sqlite3.connect(self.path, _SECONDS, isolation_level=None, check_same_thread=False)
        self._resources.callback(self._db.close)
        self._db.row_factory = sqlite3.Row
        for pragma in ("synchronous = EXTRA", "foreign_keys = ON"):
            self._db.execute(f"PRAGMA {pragma}")
        with self._transaction() as db:
            tables = {row["name"] for row in db.execute("SELECT name FROM sqlite_master")}
            if not tables:
                for statement in _TABLES.split(";\n"):
                    db.execute(statement)
                rows = {"format": _FORMAT, "key": secrets.token_hex(32), "platform": platform}
                db.executemany("INSERT INTO meta VALUES (?, ?)", rows.items())
            meta = dict(db.execute("SELECT name, value FROM meta")) if not tables or "meta" in tables else {}
            if meta.get("format") != _FORMAT:
                raise InputError(_FOREIGN, self.path, "--db")
            forms = db.execute("SELECT form FROM forms").fetchall()
        self._db.execute("PRAGMA journal_mode = DELETE")
        disk.sync(self.path.parent)
        self.key, self.platform = bytes.fromhex(meta["key"]), meta["platform"]
        self.forms = {form.key: form for row in forms for form in [msgspec.json.decode(row["form"], type=Form)]}

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._resources.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a block that is committed durably or not at all."""
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
                self._db.execute("COMMIT")
            except BaseException as error:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                if status := _STATUSES.get(getattr(error, "sqlite_errorcode", -1)):
                    raise Unavailable(status, self.path) from None
                raise

    def _rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        with self._transaction() as db:
            return db.execute(sql, values).fetchall()

    def keep(self, forms: Sequence[Form]) -> None:
        """Add forms. Those of earlier batches stay in ``self.forms``, since people may have them open."""
        rows = [(form.key, msgspec.json.encode(form)) for form in forms]
        with self._transaction() as db:
            db.executemany("INSERT OR IGNORE INTO forms VALUES (?, ?)", rows)
        self.forms |= {form.key: form for form in forms}

    def invite(self, people: Sequence[str] | int) -> None:
        """Add people: by name unless they exist, or unnamed ones up to a total number."""
        with self._transaction() as db:
            if isinstance(people, int):
                n = db.execute("SELECT count(*) FROM people").fetchone()[0]
                rows = [("", f"{self.key.hex()} {number}") for number in range(n, people)]
            else:
                rows = [(name, f"name {same_name(name)}") for name in people]
            sql = "INSERT OR IGNORE INTO people (worker_id, name) VALUES (?, ?)"
            for name, identity in rows:
                db.execute(sql, (f"p{hashlib.sha256(identity.encode()).hexdigest()[:16]}", name))

    def people(self) -> list[tuple[int, str]]:
        """Return (number, name) of all people."""
        return [(row["id"], row["name"]) for row in self._rows("SELECT id, name FROM people ORDER BY id")]

    def is_person(self, number: int) -> bool:
        """Whether the person exists."""
        return bool(self._rows("SELECT 1 FROM people WHERE id = ?", number))

    def participant(self, worker_id: str) -> int | None:
        """Return the number of a participant of a Prolific study; None before the first visit."""
        rows = self._rows("SELECT id FROM people WHERE worker_id = ?", worker_id)
        return rows[0]["id"] if rows else None

    def add_participant(self, worker_id: str) -> int:
        """Add a participant of a Prolific study, and return their number."""
        self._rows("INSERT OR IGNORE INTO people (worker_id, name) VALUES (?, '')", worker_id)
        return self.participant(worker_id) or 0

    def begin(self, person: int, forms: Sequence[Form], limit: int | None = None) -> Assignment | None:
        """Return the person's open form or assign a new one; None if there is currently none."""
        with self._transaction() as db:
            assignment, form = self._current(db, person, forms, limit)
            if form is not None:
                now = self.now()
                assignment = Assignment(secrets.token_hex(20), form.key, now + form.seconds, "open")
                sql = "INSERT INTO assignments (id, person, form, state, accepted, expires) VALUES (?, ?, ?, ?, ?, ?)"
                db.execute(sql, (assignment.id, person, form.key, "open", now, assignment.expires))
            return assignment

    def has_work(self, person: int, forms: Sequence[Form], limit: int | None = None) -> bool:
        """Whether the person has an open form or could get one."""
        with self._transaction() as db:
            return any(self._current(db, person, forms, limit))

    def _current(
        self, db: sqlite3.Connection, person: int, forms: Sequence[Form], limit: int | None
    ) -> tuple[Assignment | None, Form | None]:
        """Return the person's open assignment, or else the form that is next.

        If none is left, those that others have had open for long count as free. What these people send is saved, too,
        so a form may get more answers than wanted.
        """
        self._expire(db)
        if row := db.execute(f"{_SELECT} WHERE person = ? AND state = 'open'", (person,)).fetchone():
            return Assignment(**row), None
        sql = """SELECT person, form, CASE WHEN state = 'open' AND accepted + (expires - accepted) / ? < ? THEN 'late'
            ELSE state END AS state FROM assignments ORDER BY n"""
        rows = db.execute(sql, (_PATIENCE, self.now())).fetchall()
        readings: tuple[State, ...] = ("open", "expired")  # of those that are late
        for late in readings:
            states: dict[str, State] = {**{state: state for state in get_args(State)}, "late": late}
            history = [Event(row["person"], self.forms[row["form"]], states[row["state"]]) for row in rows]
            if form := choose(person, forms, history, limit):
                return None, form
        return None, None

    def _expire(self, db: sqlite3.Connection) -> None:
        db.execute("UPDATE assignments SET state = 'expired' WHERE state = 'open' AND expires < ?", (self.now(),))

    def find(self, person: int, assignment_id: str) -> Assignment | None:
        """Return an assignment of this person; None if it belongs to someone else."""
        rows = self._rows(f"{_SELECT} WHERE id = ? AND person = ?", assignment_id, person)
        return Assignment(**rows[0]) if rows else None

    def submit(
        self, person: int, assignment_id: str, form: Form, answers: Mapping[str, str], telemetry: Telemetry
    ) -> Outcome:
        """Save answers once. Repeating the same answers also returns ``saved``; different ones are refused.

        An expired form is accepted as long as nobody else has taken its place.
        """
        text = msgspec.json.encode({field: answers[field] for field in form.fields}).decode()
        with self._transaction() as db:
            sql = f"{_SELECT} WHERE id = ? AND person = ? AND form = ?"
            row = db.execute(sql, (assignment_id, person, form.key)).fetchone()
            if row is None:
                return "unknown"
            if row["state"] == "submitted":
                return "saved" if row["answers"] == text else "other_answers"
            if row["state"] != "open":
                sql = "SELECT person FROM assignments WHERE form = ? AND state IN ('open', 'submitted')"
                others = [other["person"] for other in db.execute(sql, (form.key,))]
                if row["state"] == "returned" or len(others) >= form.wanted or person in others:
                    return "too_late"
            db.execute(
                "UPDATE assignments SET state = 'submitted', submitted = ?, answers = ?, telemetry = ? WHERE id = ?",
                (self.now(), text, msgspec.json.encode(telemetry).decode(), assignment_id),
            )
            return "saved"

    def give_back(self, person: int, assignment_id: str) -> bool:
        """Return an open form so that others can get it. Returns False if the person has done so too often."""
        with self._transaction() as db:
            sql = "SELECT total((state = 'returned') - (state = 'submitted')) FROM assignments WHERE person = ?"
            if db.execute(sql, (person,)).fetchone()[0] >= _MOST_RETURNS:
                return False
            sql = "UPDATE assignments SET state = 'returned' WHERE id = ? AND person = ? AND state = 'open'"
            db.execute(sql, (assignment_id, person))
            return True

    def done(self, person: int) -> int:
        """Count the forms that the person has submitted."""
        return len(self._rows("SELECT 1 FROM assignments WHERE person = ? AND state = 'submitted'", person))

    def by_form(self) -> Counter[tuple[str, str]]:
        """Return the number of assignments by form key and state."""
        with self._transaction() as db:
            self._expire(db)
            return Counter(tuple(row) for row in db.execute("SELECT form, state FROM assignments"))

    def by_person(self) -> list[dict[str, Any]]:
        """Return the progress of everyone who was invited or has visited."""
        rows = self._rows(
            """SELECT p.id AS number, count(submitted) AS submitted, coalesce(sum(state = 'open'), 0) AS open,
            coalesce(sum(state IN ('returned', 'expired')), 0) AS given_up,
            group_concat(submitted - accepted) AS seconds
            FROM people AS p LEFT JOIN assignments ON person = p.id GROUP BY p.id ORDER BY p.id"""
        )
        return [
            {**row, "minutes": row["seconds"] and statistics.median(map(float, row["seconds"].split(","))) / 60}
            for row in rows
        ]

    def submissions(self) -> int:
        """Count the submitted forms."""
        return int(self._rows("SELECT count(*) FROM assignments WHERE state = 'submitted'")[0][0])

    def export(self) -> bytes:
        """Export all submitted answers in the format of ``--responses``: one per line, in order of submission."""
        sql = """SELECT a.*, p.worker_id FROM assignments AS a JOIN people AS p ON p.id = a.person
            WHERE a.state = 'submitted' ORDER BY a.submitted, a.n"""
        return b"".join(msgspec.json.encode(self._line(row)) + b"\n" for row in self._rows(sql))

    def _line(self, row: sqlite3.Row) -> dict[str, Any]:
        telemetry = msgspec.json.decode(row["telemetry"], type=Telemetry)
        return {
            "AssignmentId": row["id"],
            "WorkerId": row["worker_id"],
            "AssignmentStatus": "Submitted",
            "RequesterAnnotation": self.forms[row["form"]].task_id,
            "AcceptTime": _iso(row["accepted"]),
            "SubmitTime": _iso(row["submitted"]),
            "Source": self.platform,
            "Answers": msgspec.json.decode(row["answers"]),
            "Keystrokes": telemetry.keystrokes,
            "Pastes": telemetry.pastes,
            "Seconds": telemetry.seconds,
        }


def same_name(name: str) -> str:
    """Return a name in a form that is the same for all spellings of one person: case, composition, invisible marks."""
    visible = "".join(char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf")
    return " ".join(unicodedata.normalize("NFKC", visible.casefold()).split())


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _why(error: Exception) -> str:
    if isinstance(error, BlockingIOError):
        return "is in use by another 'parapet collect serve': stop it first"
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
        return _FOREIGN
    return f"cannot be used: {getattr(error, 'strerror', None) or error}"
