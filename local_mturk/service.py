"""What the local MTurk knows and does, whoever asks: its state, its hooks, what tests may look at and change."""

from __future__ import annotations

import threading
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import orjson

from parapet.local_mturk import assignments, hits, qualifications
from parapet.local_mturk.errors import no_assignment
from parapet.local_mturk.faults import Faults, Hook
from parapet.local_mturk.qualifications import Profile
from parapet.local_mturk.store import Store

DEFAULT_BALANCE = Decimal(10_000)


class Service:
    """MTurk for one requester, without its port.

    Args:
      state_path: the SQLite file of all that it knows; an existing one is continued.
      faults: what goes wrong, and how often.
      seed: of ids and faults. A state that exists keeps its own for ids.
      balance: dollars in the account of a new state.
      accepted_keys: the access key ids that it knows; None knows them all but ``refused_keys``.
      refused_keys: access key ids that it does not know.

    Attributes:
      url: the endpoint for boto3, and the address of the workers' page; empty where nothing listens.

    Raises:
      InputError: the state cannot be used.
    """

    def __init__(
        self,
        state_path: Path | str,
        faults: Faults | None,
        seed: int,
        balance: Decimal,
        accepted_keys: frozenset[str] | set[str] | None,
        refused_keys: frozenset[str] | set[str],
    ) -> None:
        self.path, self.faults, self.seed = Path(state_path), faults or Faults(), seed
        self.accepted_keys, self.refused_keys = accepted_keys, refused_keys
        self.request_hooks: list[Hook] = []
        self.response_hooks: list[Hook] = []
        self.stopping = threading.Event()
        self.url = ""
        self.store = Store(self.path, seed, balance)
        self._index = sum(self._all_calls().values())
        self._index_lock = threading.Lock()

    def on_request(self, hook: Hook) -> None:
        """Calls the hook before each API request is handled. It may raise Drop or MTurkError, or do anything."""
        self.request_hooks.append(hook)

    def on_response(self, hook: Hook) -> None:
        """Calls the hook after each API request was handled and before its answer is sent. It may raise Drop."""
        self.response_hooks.append(hook)

    def next_index(self) -> int:
        """The number of the request that has just come in."""
        with self._index_lock:
            self._index += 1
            return self._index

    def count_call(self, operation: str, outcome: str) -> None:
        """Adds a call to those that ``calls`` tells of."""
        with self.store.transaction():
            sql = "INSERT INTO calls VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET n = n + 1"
            self.store.do(sql, operation, outcome)

    def now(self) -> int:
        """The server's clock, in seconds since 1970."""
        return self.store.now()

    def advance(self, seconds: int) -> None:
        """Sets the clock forward; what falls due happens."""
        with self.store.transaction():
            self.store.advance(seconds)
            assignments.pass_time(self.store)

    def set_worker(self, worker_id: str, profile: Profile) -> None:
        """Says what MTurk knows of a worker."""
        with self.store.transaction():
            text = msgspec.json.encode(profile).decode()
            self.store.do("INSERT OR REPLACE INTO workers VALUES (?, ?)", worker_id, text)

    @property
    def calls(self) -> dict[str, Counter[str]]:
        """How often each operation was called, by outcome; kept in the state."""
        found: dict[str, Counter[str]] = {}
        for (operation, outcome), n in sorted(self._all_calls().items()):
            found.setdefault(operation, Counter())[outcome] = n
        return found

    def _all_calls(self) -> Counter[tuple[str, str]]:
        with self.store.transaction():
            rows = self.store.all("SELECT * FROM calls")
        return Counter({(row["operation"], row["outcome"]): row["n"] for row in rows})

    def count(self, operation: str, outcome: str = "") -> int:
        """How often an operation was called, with any outcome or with this one."""
        outcomes = self.calls.get(operation, Counter())
        return outcomes[outcome] if outcome else outcomes.total()

    def snapshot(self) -> dict[str, Any]:
        """Everything there is, as the API would show it: ``hits`` and ``assignments`` by id, ``bonuses``,
        ``qualification_types``, ``qualifications``, ``blocks``, ``notices``, and ``balance`` (available, held, paid).

        Assignments in workers' hands, returned and abandoned ones are in it too.
        """
        store = self.store
        with store.transaction():
            assignments.pass_time(store)
            return {
                "now": store.now(),
                "hits": {row["id"]: hits.hit_answer(store, row) for row in store.all("SELECT * FROM hits ORDER BY n")},
                "assignments": {
                    row["id"]: assignments.assignment_answer(row)
                    for row in store.all("SELECT * FROM assignments ORDER BY n")
                },
                "bonuses": [assignments.bonus_answer(row) for row in store.all("SELECT * FROM bonuses ORDER BY n")],
                "qualification_types": {
                    row["id"]: orjson.loads(row["properties"]) for row in store.all("SELECT * FROM qualification_types")
                },
                "qualifications": [
                    qualifications.qualification_answer(row)
                    for row in store.all("SELECT * FROM qualifications ORDER BY n")
                ],
                "blocks": {row["worker_id"]: row["reason"] for row in store.all("SELECT * FROM blocks ORDER BY n")},
                "notices": [dict(row) for row in store.all("SELECT * FROM notices ORDER BY n")],
                "balance": hits.balance_of(store),
            }

    def delete_hit(self, hit_id: str) -> None:
        """Takes a HIT with all its assignments away, as if it had never been; held money is free again."""
        store = self.store
        with store.transaction():
            hits.find_hit(store, hit_id)
            store.do("UPDATE hits SET disposed = 1, accepted = 0, submitted = 0 WHERE id = ?", hit_id)
            hits.settle(store, hit_id)
            store.do("DELETE FROM assignments WHERE hit_id = ?", hit_id)
            store.do("DELETE FROM questions WHERE hit_id = ?", hit_id)
            store.do("DELETE FROM hits WHERE id = ?", hit_id)

    def approve_elsewhere(self, assignment_id: str) -> None:
        """Approves an assignment as if the requester had done so on the web site."""
        with self.store.transaction():
            assignments.pass_time(self.store)
            assignments.approve_assignment(self.store, {"AssignmentId": assignment_id, "OverrideRejection": True})

    def recycle(self, assignment_id: str, new_worker: str, answer: str | None = None) -> None:
        """Lets an assignment id be that of another worker, as after a return: MTurk gives them out again.

        Args:
          assignment_id: keeps its status.
          new_worker: whose it is from now on.
          answer: their QuestionFormAnswers; None leaves the answer as it is.
        """
        with self.store.transaction():
            sql = "UPDATE assignments SET worker_id = ?, answer = coalesce(?, answer) WHERE id = ?"
            done = self.store.do(sql, new_worker, answer, assignment_id)
            if not done:
                raise no_assignment(assignment_id)
