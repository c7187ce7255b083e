"""The state: one SQLite file, with a clock that can be advanced; money, and pages of long lists.

Everything else works inside its transactions.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import ROUND_DOWN, Decimal
from pathlib import Path
from typing import Any

from parapet.local_mturk.errors import MTurkError
from parapet.schemas.errors import InputError

_UNIT = Decimal("0.0001")
_CENT = Decimal("0.01")
_MINIMUM_FEE = _CENT  # per assignment and per bonus

FEE = Decimal("0.20")
EXTRA_FEE = Decimal("0.20")
EXTRA_FEE_FROM = 10  # assignments of a HIT


def units(amount: Decimal) -> int:
    """Dollars as stored."""
    return int((amount / _UNIT).to_integral_value(ROUND_DOWN))


def dollars(stored: int) -> Decimal:
    """What is stored as dollars, exactly."""
    return stored * _UNIT


def shown(stored: int) -> str:
    """What is stored as the API says it: dollars and cents, a broken cent left out."""
    return f"{dollars(stored).quantize(_CENT, rounding=ROUND_DOWN):f}"


def cost_of_assignment(reward: Decimal, assignments: int) -> Decimal:
    """Reward and fee for one assignment of a HIT that has so many."""
    rate = FEE + (EXTRA_FEE if assignments >= EXTRA_FEE_FROM else 0)
    return reward + max(reward * rate, _MINIMUM_FEE)


def cost_of_bonus(amount: Decimal) -> Decimal:
    """A bonus and its fee."""
    return amount + max(amount * FEE, _MINIMUM_FEE)


_VERSION = 1
_TOKEN_SECONDS = 24 * 3_600

_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

# "due" is when time alone changes an assignment: the deadline of an accepted one, the auto-approval of a submitted one.
# "expired" says that a HIT's expiry has been dealt with; "unit" is what one assignment costs with its fee; "remaining"
# are the assignments that nobody has, expired or not.
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE hit_types (id TEXT PRIMARY KEY, properties TEXT NOT NULL);
CREATE TABLE hits (
  n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, type_id TEXT NOT NULL, created INTEGER NOT NULL,
  expiration INTEGER NOT NULL, annotation TEXT, assignments INTEGER NOT NULL,
  unit INTEGER NOT NULL, held INTEGER NOT NULL DEFAULT 0, expired INTEGER NOT NULL DEFAULT 0,
  reviewing INTEGER NOT NULL DEFAULT 0, disposed INTEGER NOT NULL DEFAULT 0, accepted INTEGER NOT NULL DEFAULT 0,
  submitted INTEGER NOT NULL DEFAULT 0, approved INTEGER NOT NULL DEFAULT 0, rejected INTEGER NOT NULL DEFAULT 0,
  remaining INTEGER GENERATED ALWAYS AS (max(0, assignments - accepted - submitted - approved - rejected)) VIRTUAL);
CREATE TABLE questions (hit_id TEXT PRIMARY KEY, question TEXT NOT NULL);
CREATE INDEX hits_type ON hits (type_id);
CREATE INDEX hits_expiring ON hits (expiration) WHERE NOT expired;
CREATE TABLE assignments (
  n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, hit_id TEXT NOT NULL, worker_id TEXT NOT NULL,
  status TEXT NOT NULL, accepted INTEGER NOT NULL, deadline INTEGER NOT NULL, submitted INTEGER,
  auto_approval INTEGER, approved INTEGER, rejected INTEGER, answer TEXT, feedback TEXT, due INTEGER);
CREATE INDEX assignments_hit ON assignments (hit_id, n);
CREATE INDEX assignments_worker ON assignments (worker_id, hit_id);
CREATE INDEX assignments_due ON assignments (due) WHERE due IS NOT NULL;
CREATE TABLE bonuses (
  n INTEGER PRIMARY KEY AUTOINCREMENT, assignment_id TEXT NOT NULL, hit_id TEXT NOT NULL, worker_id TEXT NOT NULL,
  amount INTEGER NOT NULL, reason TEXT NOT NULL, granted INTEGER NOT NULL);
CREATE INDEX bonuses_assignment ON bonuses (assignment_id);
CREATE INDEX bonuses_hit ON bonuses (hit_id);
CREATE TABLE qualification_types (
  n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE, created INTEGER NOT NULL,
  properties TEXT NOT NULL);
CREATE TABLE qualifications (
  n INTEGER PRIMARY KEY AUTOINCREMENT, type_id TEXT NOT NULL, worker_id TEXT NOT NULL, value INTEGER,
  granted INTEGER NOT NULL, status TEXT NOT NULL, UNIQUE (type_id, worker_id));
CREATE TABLE blocks (n INTEGER PRIMARY KEY AUTOINCREMENT, worker_id TEXT NOT NULL UNIQUE, reason TEXT NOT NULL);
CREATE TABLE workers (worker_id TEXT PRIMARY KEY, profile TEXT NOT NULL);
CREATE TABLE notices (
  n INTEGER PRIMARY KEY AUTOINCREMENT, worker_id TEXT NOT NULL, subject TEXT NOT NULL, text TEXT NOT NULL,
  sent INTEGER NOT NULL);
CREATE TABLE tokens (
  scope TEXT NOT NULL, token TEXT NOT NULL, made INTEGER NOT NULL, result TEXT NOT NULL,
  PRIMARY KEY (scope, token)) WITHOUT ROWID;
CREATE TABLE calls (
  operation TEXT NOT NULL, outcome TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (operation, outcome)) WITHOUT ROWID;
"""


class Store:
    """The file and the lock on it. A process that is killed leaves it whole, and the next one goes on with it.

    Args:
      path: the SQLite file; made where it is missing.
      seed: of the ids, for a new file.
      balance: dollars in the account, for a new file.

    Raises:
      InputError: the file is something else.
    """

    def __init__(self, path: Path, seed: int, balance: Decimal) -> None:
        self._lock = threading.RLock()
        try:
            self.db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
            self.db.row_factory = sqlite3.Row
            self.db.execute("PRAGMA journal_mode = WAL")
            # Whole after a kill, and after a power cut too, though that may cost the last calls.
            self.db.execute("PRAGMA synchronous = NORMAL")
            self._prepare(seed, units(balance))
        except sqlite3.Error as error:
            raise InputError(f"not usable as the state of a local MTurk: {error}", path) from None
        self.seed, self._offset = self.meta("seed"), self.meta("offset")

    def _prepare(self, seed: int, balance: int) -> None:
        version = self.db.execute("PRAGMA user_version").fetchone()[0]
        if version == _VERSION:
            return
        if version or self.db.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise sqlite3.DatabaseError("it is the database of something else, or of another version")
        self.db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {_VERSION};")
        start = {"seed": seed, "offset": 0, "ids": 0, "available": balance, "held": 0, "paid": 0}
        self.db.executemany("INSERT INTO meta VALUES (?, ?)", start.items())
        self.db.execute("COMMIT")

    def close(self) -> None:
        """Waits for the transaction under way."""
        with self._lock:
            self.db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, one at a time. Inside another one: undone alone where it fails."""
        with self._lock:
            inner = self.db.in_transaction
            self.db.execute("SAVEPOINT inner" if inner else "BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self.db.execute("ROLLBACK TO inner" if inner else "ROLLBACK")
                raise
            self.db.execute("RELEASE inner" if inner else "COMMIT")

    def one(self, sql: str, *values: Any) -> sqlite3.Row | None:
        """The first row."""
        row: sqlite3.Row | None = self.db.execute(sql, values).fetchone()
        return row

    def all(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """All rows."""
        return self.db.execute(sql, values).fetchall()

    def do(self, sql: str, *values: Any) -> int:
        """Runs a change and returns the number of rows that it concerned."""
        return self.db.execute(sql, values).rowcount

    def insert(self, table: str, **columns: Any) -> None:
        """Adds a row."""
        marks = ", ".join("?" * len(columns))
        self.do(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", *columns.values())  # noqa: S608 (ours)

    def meta(self, key: str) -> int:
        """One of the figures of the account as a whole."""
        row = self.one("SELECT value FROM meta WHERE key = ?", key)
        return int(row[0]) if row else 0

    def add(self, key: str, amount: int) -> int:
        """Adds to such a figure and returns it."""
        row = self.one("UPDATE meta SET value = value + ? WHERE key = ? RETURNING value", amount, key)
        return int(row[0]) if row else 0

    def milliseconds(self) -> int:
        """The server's clock, in milliseconds since 1970."""
        return int(time.time() * 1_000) + self._offset * 1_000

    def now(self) -> int:
        """The server's clock, in seconds since 1970."""
        return self.milliseconds() // 1_000

    def advance(self, seconds: int) -> None:
        """Sets the clock forward."""
        if seconds < 0:
            raise InputError("the clock goes forward only", "seconds")
        with self.transaction():
            self._offset = self.add("offset", seconds)

    def new_id(self, length: int = 30) -> str:
        """An id that was never given before: capital letters and digits, the first one a 3 as on MTurk."""
        digest = hashlib.sha512(f"{self.seed}:{self.add('ids', 1)}".encode()).digest()
        number, text = int.from_bytes(digest), "3"
        while len(text) < length:
            number, place = divmod(number, 36)
            text += _LETTERS[place]
        return text

    def token_result(self, scope: str, token: str) -> str | None:
        """What a request with this token made within the last 24 hours; None where there was none."""
        row = self.one("SELECT made, result FROM tokens WHERE scope = ? AND token = ?", scope, token)
        return str(row["result"]) if row and self.now() - row["made"] < _TOKEN_SECONDS else None

    def keep_token(self, scope: str, token: str, result: str = "") -> None:
        """Remembers what a token has made."""
        self.do("INSERT OR REPLACE INTO tokens VALUES (?, ?, ?, ?)", scope, token, self.now(), result)


Params = dict[str, Any]
Answer = dict[str, Any]

_DEFAULT_SIZE = 10


def page(
    store: Store, params: Params, operation: str, sql: str, values: Sequence[Any], newest_first: bool = False
) -> tuple[list[sqlite3.Row], Answer]:
    """The rows of one page, and ``NumResults`` and ``NextToken`` for the answer.

    A full page has a token even where nothing follows, so a client must stand an empty last page. Assumption: it is
    what clients of MTurk are written for.

    Args:
      store: the state.
      params: the request, with ``NextToken`` and ``MaxResults``.
      operation: makes the tokens of one list useless for others.
      sql: selects rows with a column ``n`` and ends in a condition.
      values: for its placeholders.
      newest_first: goes down in ``n``.
    """
    size = params.get("MaxResults", _DEFAULT_SIZE)
    token = params.get("NextToken")
    condition, order = ("n < ?", "DESC") if newest_first else ("n > ?", "ASC")
    start = (1 << 62) if newest_first else 0
    place = _place(token, operation) if token else start
    rows = store.all(f"{sql} AND {condition} ORDER BY n {order} LIMIT ?", *values, place, size)
    answer: Answer = {"NumResults": len(rows)}
    if rows and len(rows) == size:
        answer["NextToken"] = base64.urlsafe_b64encode(f"{operation}:{rows[-1]['n']}".encode()).decode()
    return rows, answer


def _place(token: str, operation: str) -> int:
    try:
        name, _, place = base64.urlsafe_b64decode(token.encode()).decode().partition(":")
        if name == operation:
            return int(place)
    except (binascii.Error, ValueError):
        pass
    # Assumption: the code; the documentation names none.
    raise MTurkError("The NextToken is not valid for this request.", "InvalidParameterValue")
