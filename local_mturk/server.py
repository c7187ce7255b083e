"""The local MTurk: one state file, one port."""

from __future__ import annotations

import threading
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Self

from parapet.local_mturk.endpoint import HttpServer
from parapet.local_mturk.faults import Faults
from parapet.local_mturk.model import service_model
from parapet.local_mturk.service import DEFAULT_BALANCE, Service
from parapet.schemas.errors import InputError


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
