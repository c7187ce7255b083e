"""The local MTurk: one state file, one port; and what the two practice commands run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from parapet.local_mturk.endpoint import HttpServer
from parapet.local_mturk.faults import Faults
from parapet.local_mturk.operations import service_model
from parapet.local_mturk.service import DEFAULT_BALANCE, Service
from parapet.local_mturk.workers import Report, invented, play, scripts_from_jsonl
from parapet.schemas.errors import InputError, MissingExtra


class LocalMTurk(Service):
    """MTurk on this machine, for one requester. Use it as a context manager, or with ``start`` and ``stop``.

    Args:
      state_path: the SQLite file of all that it knows; an existing one is continued.
      port: on 127.0.0.1; 0 takes a free one.
      faults: what goes wrong, and how often.
      seed: of ids and faults. A state that exists keeps its own for ids.
      balance: dollars in the account of a new state.
      accepted_keys: the access key ids that it knows; None knows them all but ``refused_keys``.
      refused_keys: access key ids that it does not know.

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
        super().__init__(state_path, faults, seed, balance, accepted_keys, refused_keys)
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

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


_DEFAULT_BALANCE = Decimal(10_000)


def serve(
    state: Path,
    port: int = 8765,
    seed: int = 0,
    faults: Faults | None = None,
    balance: Decimal = _DEFAULT_BALANCE,
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
