"""The local MTurk: one state file, one port; what tests may look at and change; what the two practice commands run."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import FrameType
from typing import Any, Self

import msgspec
import orjson

from parapet.local_mturk import assignments, hits, qualifications
from parapet.local_mturk.endpoint import HttpServer
from parapet.local_mturk.errors import no_assignment
from parapet.local_mturk.faults import Faults, Hook
from parapet.local_mturk.operations import service_model
from parapet.local_mturk.qualifications import Profile
from parapet.local_mturk.store import Store
from parapet.local_mturk.workers import Report, invented, play, scripts_from_jsonl
from parapet.schemas.errors import InputError, MissingExtra

DEFAULT_BALANCE = Decimal(10_000)


class LocalMTurk:
    """MTurk on this machine, for one requester. Use it as a context manager, or with ``start`` and ``stop``.

    Args:
      state_path: the SQLite file of all that it knows; an existing one is continued.
      port: on 127.0.0.1; 0 takes a free one.
      faults: what goes wrong, and how often.
      seed: of ids and faults. A state that exists keeps its own for ids.
      balance: dollars in the account of a new state.
      accepted_keys: the access key ids that it knows; None knows them all but ``refused_keys``.
      refused_keys: access key ids that it does not know.

    Attributes:
      url: the endpoint for boto3, and the address of the workers' page.

    Raises:
      InputError: the state cannot be used, or the port.
    """

    def __init__(
        self,
        state_path: Path | str,
        port: int = 0,
        faults: Faults | None = None,
        seed: int = 0,
        balance: Decimal = DEFAULT_BALANCE,
        accepted_keys: frozenset[str] | set[str] | None = None,
        refused_keys: frozenset[str] | set[str] = frozenset(),
    ) -> None:
        self.path, self.faults, self.seed = Path(state_path), faults or Faults(), seed
        self.accepted_keys, self.refused_keys = accepted_keys, refused_keys
        self.request_hooks: list[Hook] = []
        self.response_hooks: list[Hook] = []
        self.stopping = threading.Event()
        self.store = Store(self.path, seed, balance)
        self._index = sum(self._all_calls().values())
        self._index_lock = threading.Lock()
        self._thread: threading.Thread | None = None
        try:
            self._http = HttpServer(self, port)
        except (OSError, OverflowError) as error:
            self.store.close()
            why = getattr(error, "strerror", None) or error
            raise InputError(f"cannot listen there: {why}", "--port", str(port)) from None
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def start(self) -> Self:
        """Begins to answer, in threads of its own."""
        service_model()  # now, so that the first request is as quick as the others
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True, name="local-mturk")
        self._thread.start()
        return self

    def stop(self) -> None:
        """Closes all connections and the state. Once more does nothing."""
        if self.stopping.is_set():
            return
        self.stopping.set()
        if self._thread:
            self._http.shutdown()
            self._thread.join()
        self._http.server_close()
        self.store.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

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


def serve(
    state: Path,
    port: int = 8765,
    seed: int = 0,
    faults: Faults | None = None,
    balance: Decimal = DEFAULT_BALANCE,
    on_ready: Callable[[LocalMTurk], None] | None = None,
) -> int:
    """Runs a local MTurk until Ctrl-C or a termination signal. Returns the exit status, 0.

    Args:
      state: its SQLite file; what is there is gone on with.
      port: on 127.0.0.1; 0 takes a free one.
      seed: of ids and faults.
      faults: what goes wrong, and how often.
      balance: dollars in the account of a new state.
      on_ready: called with the server once it answers.

    Raises:
      InputError: boto3 is not installed, the port is taken, or the state is the file of something else.
    """
    ended = threading.Event()
    with _server(state, port, seed, faults, balance) as server:
        before = _end_on_signals(ended)
        try:
            print(greeting(server), flush=True)
            if on_ready:
                on_ready(server)
            # With a time, because a wait without one would not let a signal's handler run on every system.
            while not ended.wait(1):
                pass
        except KeyboardInterrupt:
            pass
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    print(f"Stopped. All is kept in {state}.", flush=True)
    return 0


def _server(state: Path, port: int, seed: int, faults: Faults | None, balance: Decimal) -> LocalMTurk:
    try:
        import botocore  # noqa: F401
    except ImportError:
        raise MissingExtra("boto3", "mturk") from None
    return LocalMTurk(state, port, faults, seed, balance)


def _end_on_signals(ended: threading.Event) -> dict[int, Callable[[int, FrameType | None], object] | int | None]:
    if threading.current_thread() is not threading.main_thread():
        return {}

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    return {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}


def greeting(server: LocalMTurk) -> str:
    """What a user needs to know: the address, and what to export for boto3."""
    return "\n".join(
        [
            f"A local MTurk answers at {server.url} until Ctrl-C; nothing here is real, and no money is spent.",
            f"Workers' page: {server.url}/",
            "For clients, in another terminal:",
            f"export AWS_ENDPOINT_URL_MTURK={server.url}",
            "export AWS_ACCESS_KEY_ID=practice",
            "export AWS_SECRET_ACCESS_KEY=practice",
        ]
    )


def simulate(url: str, scripts: Path | None = None, workers: int = 20, seed: int = 0) -> Report:
    """Plays workers against a local MTurk.

    Args:
      url: its address.
      scripts: JSON lines of boto3 assignments to be played again; None invents answers to all that is on offer.
      workers: how many are invented. ``seed`` decides which, and their words.
      seed: of the invented ones.

    Raises:
      InputError: nothing answers there, or the file cannot be read.
    """
    if scripts is None:
        return play(url, invented(url, seed, workers))
    found, unusable = scripts_from_jsonl(scripts)
    report = play(url, found)
    report.reasons.update({f"unusable_row ({reason})": n for reason, n in unusable.items()})
    return report
