"""The server's data in one SQLite file: forms, people, assigned forms and answers; and who gets which form.

Names and descriptions stay blind to each other: a person who has seen one task of a service never gets the other one,
even if nothing was submitted, since the page has shown what the other one hides.

Answers are committed and on disk before :meth:`Store.submit` returns. SQLite uses a rollback journal, so that between
two commits the file is complete by itself: a copy of it has all answers. ``synchronous = EXTRA`` also puts the removal
of the journal, which is the commit, on disk. A lock on the file keeps a second server out, but not readers such as
``sqlite3 answers.sqlite '.backup copy.sqlite'``.
"""

import base64
import fcntl
import hashlib
import os
import re
import secrets
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict

from parapet.schemas import layout, limits
from parapet.schemas.errors import InputError
from parapet.schemas.service import TASKS
from parapet.transforms.core import disk
from parapet.transforms.crowd.answer_files import FilledForm
from parapet.transforms.crowd.hits.page import PageRecord, read_manifest
from parapet.transforms.report.report import render
from parapet.transforms.report.text import clean

_FORM = re.compile(r'<form id="mturk_form" method="post" action="[^"]*" autocomplete="off">')
_INLINE = re.compile(r"<(style|script)(?: type=\"module\")?>(.*?)</\1>", re.DOTALL)


class Form(PageRecord, frozen=True):
    """A page for several people to fill in. All of its fields are required.

    Attributes:
      html: the page, in which a task is not a HIT.
    """

    html: str = ""

    @property
    def key(self) -> str:
        """Returns what identifies the form."""
        return self.sha256[:32]

    @property
    def hides(self) -> str:
        """Returns the service whose other task hides what this one shows; empty if nothing is hidden."""
        return self.service_name if self.task in TASKS else ""

    @property
    def elements(self) -> frozenset[str]:
        """Returns the elements that it asks about; nobody is asked about an element twice."""
        return frozenset(self.element_ids or [f"{self.task_id} {self.part}"])


def read_forms(folder: str) -> list[Form]:
    """Reads the forms in an output folder of ``parapet hits``. Raises InputError if a page is missing or differs."""
    forms = []
    for record in read_manifest(folder):
        path = layout.as_path(folder) / record.page
        html = limits.read_text(path, limits.MAX_DIALOGUE_FILE)
        if len(_FORM.findall(html)) != 1:
            raise InputError("is not a page of this version of 'parapet hits': make the pages again", path, "--hits")
        html = html.replace("or return the HIT", "or give the task back")
        forms.append(Form(**asdict(record), html=html.replace("Accept the HIT to", "Begin the task to")))
    if not forms:
        raise InputError("contains no pages: 'parapet hits' found nothing to ask", folder, "--hits")
    return forms


def page(form: Form, assignment_id: str, minutes: int) -> str:
    """Returns the HTML of a form for one assignment, with the remaining time, and the server's style and script."""
    bar = render("collect_bar.html.jinja", assignment_id=assignment_id, minutes=minutes)
    return _FORM.sub(lambda _: f'{bar}<form id="mturk_form" method="post" action="/submit">', form.html)


def policy(html: str) -> str:
    """Returns a Content-Security-Policy that allows the styles and scripts that stand in a page, and no others."""
    hashes = {"script": "", "style": ""}
    for kind, text in _INLINE.findall(html):
        hashes[kind] += f" 'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
    sources = f"script-src{hashes['script']}; style-src{hashes['style']}; connect-src 'self'"
    return f"default-src 'none'; {sources}; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"


class Event(NamedTuple):
    """A form that a person was given, in this collection or an earlier one with the same store.

    Attributes:
      state: ``open``, ``late`` (open for long), ``submitted``, ``returned`` or ``expired``. Whatever it is, the person
        has seen the form.
    """

    person: int
    form: Form
    state: str


def choose(person: int, forms: Sequence[Form], history: Sequence[Event], limit: int | None = None) -> Form | None:
    """Chooses the next form for a person; None if there is currently none.

    If no place is free, those of late forms are. What these people send is saved, too, so a form may get more answers
    than wanted.

    Args:
      person: a person without an open form.
      forms: the available forms, in order.
      history: all events; several for the same person and form if it was returned.
      limit: maximum number of forms that a person may submit.
    """
    own = [event for event in history if event.person == person]
    if limit is not None and sum(event.state == "submitted" for event in own) >= limit:
        return None
    taken = Counter(event.form.key for event in history if event.state in ("open", "submitted"))
    late = Counter(event.form.key for event in history if event.state == "late")
    seen = Counter(key for _, key in {(event.person, event.form.key) for event in history})
    given_back = {event.form.key for event in own}
    possible = [form for form in forms if taken[form.key] < form.assignments and _is_allowed(form, own)]
    free = [form for form in possible if taken[form.key] + late[form.key] < form.assignments]
    # The form that the fewest people have seen comes first, so that both tasks of a service proceed alike.
    return min(free or possible, key=lambda form: (form.key in given_back, seen[form.key]), default=None)


def _is_allowed(form: Form, own: Sequence[Event]) -> bool:
    """Whether a person may see a form: its elements are not answered yet, and its hidden texts were not shown."""
    for _, other, state in own:
        if other.hides and other.hides == form.hides and other.task != form.task:
            return False
        if state in ("submitted", "open") and other.task == form.task and other.elements & form.elements:
            return False
    return True


_FOREIGN = "was not written by 'parapet collect serve', or by another version of it: choose another file"
_SECONDS = 5  # to wait while another program has locked the file
_MOST_RETURNS = 20  # tasks that a person may give back, besides one for each submitted
_FORMAT = 0x70617204  # the application id of the file: "par", version 4
_TABLES = """
CREATE TABLE collection (key BLOB NOT NULL, platform TEXT NOT NULL);
CREATE TABLE forms (key TEXT PRIMARY KEY, form BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE people (id INTEGER PRIMARY KEY, worker_id TEXT NOT NULL UNIQUE, name TEXT NOT NULL);
CREATE TABLE assignments (
  n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, person INTEGER NOT NULL REFERENCES people,
  form TEXT NOT NULL REFERENCES forms, state TEXT NOT NULL, accepted REAL NOT NULL, expires REAL NOT NULL,
  submitted REAL, filled BLOB);
CREATE UNIQUE INDEX one_open ON assignments (person) WHERE state = 'open';
"""


class Store:
    """The store. All methods are thread-safe, and raise InputError if the file cannot be used for the moment.

    Args:
      path: the file; created if it does not exist.
      platform: the origin of people: ``in_house`` or ``prolific``.
      now: the clock, in seconds since 1970.

    Raises:
      InputError: the file belongs to another program, another server uses it, or it cannot be written.
    """

    def __init__(self, path: Path, platform: str = "in_house", now: Callable[[], float] = time.time) -> None:
        self.path, self.now, self._lock = path, now, threading.Lock()
        with ExitStack() as resources:
            try:
                disk.make_folder(path.parent)
                descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
                resources.callback(os.close, descriptor)  # after the connection: this ends SQLite's own locks, too
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError("is in use by another 'parapet collect serve': stop it first", path, "--db") from None
            except OSError as error:
                raise InputError(f"cannot be used: {error.strerror}", path, "--db") from None
            self._db = resources.enter_context(closing(sqlite3.connect(path, _SECONDS, check_same_thread=False)))
            self._db.row_factory = sqlite3.Row
            with self._transaction() as db:
                db.execute("PRAGMA synchronous = EXTRA")
                if not db.execute("SELECT 1 FROM sqlite_master").fetchone():
                    db.executescript(f"BEGIN; {_TABLES} PRAGMA application_id = {_FORMAT};")
                    db.execute("INSERT INTO collection VALUES (?, ?)", (secrets.token_bytes(32), platform))
                if db.execute("PRAGMA application_id").fetchone()[0] != _FORMAT:
                    raise InputError(_FOREIGN, path, "--db")
                self.key, self.platform = db.execute("SELECT key, platform FROM collection").fetchone()
                forms = db.execute("SELECT key, form FROM forms")
                self.forms = {key: msgspec.json.decode(form, type=Form) for key, form in forms}
            self._resources = resources.pop_all()

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._resources.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Runs a block whose changes are committed durably or not at all."""
        with self._lock:
            try:
                with self._db:
                    yield self._db
            except sqlite3.Error as error:
                raise InputError(str(error), self.path, "--db") from None

    def _rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        with self._transaction() as db:
            return db.execute(sql, values).fetchall()

    def offer(self, forms: Sequence[Form], limit: int | None = None) -> None:
        """Offers these forms, so many to one person. Earlier ones stay valid, since people may have them open."""
        rows = [(form.key, msgspec.json.encode(form)) for form in forms]
        with self._transaction() as db:
            db.executemany("INSERT OR IGNORE INTO forms VALUES (?, ?)", rows)
        self.forms |= {form.key: form for form in forms}
        self._offer = (forms, limit)

    def invite(self, people: Iterable[str] | int) -> None:
        """Adds people: by name unless they exist, or unnamed ones up to a total number."""
        with self._transaction() as db:
            if isinstance(people, int):
                n = db.execute("SELECT count(*) FROM people").fetchone()[0]
                identities = [("", f"{self.key.hex()} {number}") for number in range(n, people)]
            else:
                identities = [(name, f"name {same_name(name)}") for name in people]
            for name, identity in identities:
                worker_id = f"p{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
                db.execute("INSERT OR IGNORE INTO people (worker_id, name) VALUES (?, ?)", (worker_id, name))

    def people(self) -> list[tuple[int, str]]:
        """Returns (number, name) of all people."""
        return [(row["id"], row["name"]) for row in self._rows("SELECT id, name FROM people ORDER BY id")]

    def participant(self, worker_id: str) -> int | None:
        """Returns the number of a participant of a Prolific study; None before the first visit."""
        rows = self._rows("SELECT id FROM people WHERE worker_id = ?", worker_id)
        return rows[0]["id"] if rows else None

    def add_participant(self, worker_id: str) -> int:
        """Adds a participant of a Prolific study, and returns their number."""
        self._rows("INSERT OR IGNORE INTO people (worker_id, name) VALUES (?, '')", worker_id)
        return self.participant(worker_id) or 0

    def begin(self, person: int) -> str:
        """Returns the id of the person's open assignment or of a new one; empty if there is currently none."""
        with self._transaction() as db:
            assignment_id, form = self._next(db, person)
            if form is not None:
                assignment_id, now = secrets.token_hex(20), self.now()
                sql = "INSERT INTO assignments (id, person, form, state, accepted, expires) VALUES (?, ?, ?, ?, ?, ?)"
                db.execute(sql, (assignment_id, person, form.key, "open", now, now + form.assignment_duration_seconds))
            return assignment_id

    def has_work(self, person: int) -> bool:
        """Whether the person has an open form or could get one."""
        with self._transaction() as db:
            return any(self._next(db, person))

    def _next(self, db: sqlite3.Connection, person: int) -> tuple[str, Form | None]:
        """Returns the id of the person's open assignment, or else the form that is next."""
        db.execute("UPDATE assignments SET state = 'expired' WHERE state = 'open' AND expires < ?", (self.now(),))
        if row := db.execute("SELECT id FROM assignments WHERE person = ? AND state = 'open'", (person,)).fetchone():
            return row["id"], None
        # An open form is late after a quarter of its time.
        sql = """SELECT person, form, iif(state = 'open' AND accepted + (expires - accepted) / 4 < ?, 'late', state)
            FROM assignments"""
        history = [Event(other, self.forms[key], state) for other, key, state in db.execute(sql, (self.now(),))]
        forms, limit = self._offer
        return "", choose(person, forms, history, limit)

    def assignment(self, person: int, assignment_id: str) -> tuple[Form, str, float] | None:
        """Returns the form, the state and the deadline of a person's assignment; None if it belongs to someone else."""
        sql = "SELECT form, state, expires FROM assignments WHERE id = ? AND person = ?"
        rows = self._rows(sql, assignment_id, person)
        return (self.forms[rows[0]["form"]], rows[0]["state"], rows[0]["expires"]) if rows else None

    def submit(self, person: int, assignment_id: str, filled: FilledForm) -> str:
        """Saves the answers of a person's assignment once. Returns why they are not saved; empty if they are.

        The same answers may be sent again. An expired form is accepted as long as nobody else has taken its place.
        """
        with self._transaction() as db:
            sql = """SELECT form, state, accepted, filled, worker_id FROM assignments AS a
                JOIN people ON person = people.id WHERE a.id = ? AND person = ?"""
            row = db.execute(sql, (assignment_id, person)).fetchone()
            form, state, now = self.forms[row["form"]], row["state"], self.now()
            if state == "submitted":
                is_same = msgspec.json.decode(row["filled"], type=FilledForm).answers == filled.answers
                return "" if is_same else "You have already handed in this task, with other answers; those count."
            if state != "open":
                sql = "SELECT person FROM assignments WHERE form = ? AND state IN ('open', 'submitted')"
                others = [other for (other,) in db.execute(sql, (form.key,))]
                if state == "returned" or len(others) >= form.assignments or person in others:
                    return "The time for this task is over, and somebody else has done it."
            line = msgspec.structs.replace(
                filled,
                assignment_id=assignment_id,
                worker_id=row["worker_id"],
                assignment_status="Submitted",
                requester_annotation=form.requester_annotation,
                accept_time=_iso(row["accepted"]),
                submit_time=_iso(now),
                source=self.platform,
            )
            sql = "UPDATE assignments SET state = 'submitted', submitted = ?, filled = ? WHERE id = ?"
            db.execute(sql, (now, msgspec.json.encode(line), assignment_id))
            return ""

    def give_back(self, person: int, assignment_id: str) -> bool:
        """Returns an open form so that others can get it. Returns False if the person has done so too often."""
        with self._transaction() as db:
            sql = "SELECT total((state = 'returned') - (state = 'submitted')) FROM assignments WHERE person = ?"
            if db.execute(sql, (person,)).fetchone()[0] >= _MOST_RETURNS:
                return False
            sql = "UPDATE assignments SET state = 'returned' WHERE id = ? AND person = ? AND state = 'open'"
            db.execute(sql, (assignment_id, person))
            return True

    def by_form(self) -> Counter[tuple[str, str]]:
        """Returns the number of assignments by form key and state."""
        sql = "SELECT form, iif(state = 'open' AND expires < ?, 'expired', state) FROM assignments"
        return Counter((form, state) for form, state in self._rows(sql, self.now()))

    def by_person(self) -> list[dict[str, Any]]:
        """Returns the progress of everyone who was invited or has visited."""
        sql = """SELECT p.id AS number, count(submitted) AS submitted, sum(state = 'open') AS open,
            sum(state IN ('returned', 'expired')) AS given_up, group_concat((submitted - accepted) / 60) AS minutes
            FROM people AS p LEFT JOIN assignments ON person = p.id GROUP BY p.id ORDER BY p.id"""
        people = self._rows(sql)
        return [{**row, "minutes": row["minutes"] and median(map(float, row["minutes"].split(",")))} for row in people]

    def submissions(self, person: int | None = None) -> int:
        """Counts the submitted forms, of all people or one."""
        sql = "SELECT count(*) FROM assignments WHERE state = 'submitted' AND person = coalesce(?, person)"
        return int(self._rows(sql, person)[0][0])

    def export(self) -> bytes:
        """Exports all submitted answers in the format of ``--responses``: one per line, in order of submission."""
        sql = "SELECT filled FROM assignments WHERE state = 'submitted' ORDER BY submitted, n"
        return b"".join(filled + b"\n" for (filled,) in self._rows(sql))


def same_name(name: str) -> str:
    """Returns a name in a form that is the same for all spellings of one person: case, composition, invisible marks."""
    return clean(name).casefold()


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
