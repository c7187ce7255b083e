"""Run the site: socket, invitations, continuous export of answers, and shutdown on signals."""

from __future__ import annotations

import logging
import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import msgspec
import uvicorn

from parapet.schemas.decisions import csv_bytes
from parapet.schemas.errors import InputError
from parapet.schemas.limits import read_text, read_whole
from parapet.transforms.crowd.serving.guard import connections
from parapet.transforms.crowd.serving.site import Run, Site
from parapet.transforms.crowd.serving.store import Store
from parapet.transforms.reports.text import counted
from parapet.transforms.storage import disk

_EXPORT_SECONDS = 5.0
_INVITATION = ("person", "name", "link")


class Exporter:
    """Keeps the export up to date in a thread, with atomic renames.

    Args:
      store: the store to export.
      path: the output file.

    Raises:
      InputError: on entry or exit, the file cannot be written, or has lines that are not of this store: these would be
        lost.
    """

    def __init__(self, store: Store, path: Path) -> None:
        self.store, self.path, self._exported = store, path, -1
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="export", daemon=True)

    def __enter__(self) -> Exporter:
        self.write()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self.write()

    def _follow(self) -> None:
        while not self._stopping.wait(_EXPORT_SECONDS):
            try:
                self.write()
            except InputError as error:
                logging.error("%s", error)

    def write(self) -> None:
        """Export new submissions."""
        if (n := self.store.submissions()) == self._exported:
            return
        data = self.store.export()
        if self.path.exists():
            others = {*read_whole(self.path, where="--export").splitlines(), b""} - {*data.splitlines(), b""}
            if others:
                reason = (
                    f"contains {counted(len(others), 'line')} that {self.store.path} does not have, which would be "
                    "lost: give another --export, or the --db that wrote it"
                )
                raise InputError(reason, self.path, "--export")
        _write(self.path, data, "--export", f"; all answers are in {self.store.path}, see --export_only")
        self._exported = n


def _write(path: Path, data: bytes, flag: str, hint: str = "") -> None:
    """Write a file that only its owner can read; if it is a link, the file that it leads to."""
    try:
        disk.write(path.resolve(), data, private=True)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}{hint}", path, flag) from None


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
        server(site, run.public_url != "").run(sockets=[listener])
        return site.store.submissions()


@contextmanager
def opened(run: Run, port: int) -> Iterator[Site]:
    """Open the site with its store, invitations and export, for the caller to serve.

    Args:
      run: the forms to serve, and their settings.
      port: the port that the server listens on.
    """
    store = Store(run.db, run.platform)
    try:
        if store.platform != run.platform:
            raise InputError(f"is of a collection with people from {store.platform}: give another file", run.db, "--db")
        with Exporter(store, run.export):
            secret = run.secret or secrets.token_urlsafe(18)
            site = Site(store, msgspec.structs.replace(run, port=port, secret=secret))
            if run.platform != "prolific":
                store.invite(run.people)
                write_invitations(site, run.invitations)
            yield site
    finally:
        store.close()


class _Server(uvicorn.Server):
    """Ends in an orderly way on Ctrl-C and termination signals, which uvicorn would raise again after stopping."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.should_exit = True


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
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=32 * 1024,
    )
    return _Server(config)


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


def write_invitations(site: Site, path: Path) -> None:
    """Write the links of all people to a file that only its owner can read.

    Raises:
      InputError: the file has other content than invitations of this site, or cannot be written.
    """
    rows: Sequence[Sequence[str]] = [(str(n), name, site.invitation(n)) for n, name in site.store.people()]
    tokens = {_token(link) for *_, link in rows}
    text = read_text(path, where="--invitations").replace('"', "") if path.exists() else ""
    header, *links = text.splitlines() or [",".join(_INVITATION)]
    if header != ",".join(_INVITATION) or not tokens.issuperset(map(_token, links)):
        reason = f"contains something else than invitations of {site.store.path}: give another file"
        raise InputError(reason, path, "--invitations")
    _write(path, csv_bytes(_INVITATION, rows), "--invitations")


def _token(link: str) -> str:
    return link.rpartition("/")[2]


def export_only(db: Path, path: Path) -> int:
    """Write the export and return the number of forms in it. Raises InputError if a file cannot be used."""
    store = Store(db)
    try:
        Exporter(store, path).write()
        return store.submissions()
    finally:
        store.close()
