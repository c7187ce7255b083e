"""Run the site: socket, invitations, continuous export of answers, and shutdown on signals."""

from __future__ import annotations

import logging
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

import msgspec
import uvicorn

from parapet.schemas.decisions import csv_bytes
from parapet.schemas.errors import InputError
from parapet.transforms.crowd.serving.forms import Form
from parapet.transforms.crowd.serving.guard import Limits, connections
from parapet.transforms.crowd.serving.practice import PracticeStore
from parapet.transforms.crowd.serving.site import Settings, Site
from parapet.transforms.crowd.serving.store import Store
from parapet.transforms.reports.text import counted
from parapet.transforms.storage import disk

_EXPORT_SECONDS = 5.0
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Run(msgspec.Struct, frozen=True):
    """What to serve, and where.

    Attributes:
      people: names of people to invite, or their number; only used with platform ``in_house``.
      practice: whether the people are simulated, see :mod:`practice`.
      public_url: the address for people; empty for ``host`` and ``port``.
      secret: the secret of the progress page; if empty, a new one is created and printed.
    """

    forms: tuple[Form, ...]
    db: Path
    export: Path
    invitations: Path
    people: tuple[str, ...] | int
    platform: str = "in_house"
    practice: bool = False
    host: str = "127.0.0.1"
    port: int = 8000
    public_url: str = ""
    completion_url: str = ""
    tasks_per_person: int | None = None
    secret: str = ""
    limits: Limits = Limits()


class Exporter:
    """Keeps the export up to date in a thread, with atomic renames.

    Raises InputError on exit if the last answers could not be exported.

    Args:
      store: the store to export.
      path: the output file.
    """

    def __init__(self, store: Store, path: Path) -> None:
        self.store, self.path = store, path
        self._exported = -1
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="export", daemon=True)

    def __enter__(self) -> Exporter:
        self.update()
        self._thread.start()
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        if not self.update() and error is None:
            raise InputError(
                "the last answers are not in this file: free some disk space, then use --export_only",
                self.path,
                "--export",
            )

    def _follow(self) -> None:
        while not self._stopping.wait(_EXPORT_SECONDS):
            self.update()

    def update(self) -> bool:
        """Export new submissions. Returns False if the file cannot be written; the next call tries again."""
        if (n := self.store.submissions()) == self._exported:
            return True
        try:
            disk.write(self.path, self.store.export(), private=True)
            self._exported = n
        except OSError as error:
            logging.error(
                "%s cannot be written: %s; the answers are safe in %s", self.path, error.strerror, self.store.path
            )
            return False
        return True


def serve(run: Run, say: Callable[[str], None]) -> int:
    """Serve until Ctrl-C or a termination signal. Returns the total number of submitted forms.

    Raises:
      InputError: the server cannot listen on the address, or a file cannot be used.
    """
    with listening(run.host, run.port) as listener, opened(run, listener.getsockname()[1]) as site:
        origin = site.settings.origin
        say(f"{counted(len(run.forms), 'form')} served at {origin}; press Ctrl-C to stop")
        if run.platform == "prolific":
            address = f"{origin}/start?PROLIFIC_PID={{{{%PROLIFIC_PID%}}}}&STUDY_ID={{{{%STUDY_ID%}}}}"
            say(f"address of the study: {address}&SESSION_ID={{{{%SESSION_ID%}}}}")
        else:
            say(f"invitations: {run.invitations}, one link for each person")
        say(f"progress: {origin}/progress" + ("" if run.secret else f", secret: {site.settings.secret}"))
        say(f"answers: {run.export}")
        with _ended_by_signals():
            server(site, run.public_url != "").run(sockets=[listener])
        return site.store.submissions()


@contextmanager
def opened(run: Run, port: int) -> Iterator[Site]:
    """Open the site with its store, invitations and export, for the caller to serve.

    Args:
      run: the forms to serve, and their settings.
      port: the port that the server listens on.
    """
    store = PracticeStore(run.db) if run.practice else Store(run.db, run.platform)
    try:
        if store.platform != run.platform:
            raise InputError(f"contains answers of --platform {store.platform}: give another file", run.db, "--db")
        host = f"[{run.host}]" if ":" in run.host else run.host
        origin = origin_of(run.public_url or f"http://{host}:{port}")
        secret = run.secret or secrets.token_urlsafe(18)
        site = Site(store, run.forms, Settings(origin, secret, run.completion_url, run.tasks_per_person, run.limits))
        if run.platform == "in_house":
            store.invite(run.people)
            write_invitations(site, run.invitations)
        with Exporter(store, run.export):
            yield site
    finally:
        store.close()


def server(site: Site, is_behind_proxy: bool) -> uvicorn.Server:
    """Configure uvicorn with our limits and without logs of requests, whose addresses identify people.

    Args:
      site: the site to serve.
      is_behind_proxy: whether to trust X-Forwarded-For from 127.0.0.1, or from FORWARDED_ALLOW_IPS.
    """
    config = uvicorn.Config(
        site.app,
        http=connections(site.settings.limits),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=is_behind_proxy,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=32 * 1024,
    )
    return uvicorn.Server(config)


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Open a listening socket. Raises InputError if the address is in use or not on this machine."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise InputError(f"cannot listen at {host} port {port}: {error.strerror or error}", "--port") from None
    with listener:
        yield listener


def origin_of(url: str) -> str:
    """Return scheme, host and port in the form of the ``Origin`` header: lower case, without default port."""
    parts = urlsplit(url)
    netloc = parts.netloc.lower()
    return f"{parts.scheme}://{netloc.removesuffix(f':{_DEFAULT_PORTS[parts.scheme]}')}"


def write_invitations(site: Site, path: Path) -> None:
    """Write the links of all people to a file that only its owner can read. Raises InputError if that fails."""
    rows: Sequence[Sequence[str]] = [(str(n), name, site.invitation(n)) for n, name in site.store.people()]
    try:
        disk.write(path, csv_bytes(("person", "name", "link"), rows), private=True)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path, "--invitations") from None


def export_only(db: Path, path: Path) -> int:
    """Write the export and return the number of forms in it. Raises InputError if a file cannot be used."""
    store = Store(db)
    try:
        disk.write(path, store.export(), private=True)
        return store.submissions()
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path, "--export") from None
    finally:
        store.close()


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """End the block in an orderly way on Ctrl-C and termination signals, which uvicorn raises again after stopping."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
