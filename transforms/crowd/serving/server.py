"""Run the site: socket, invitations, continuous export of answers, and shutdown on signals."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import uvicorn
from msgspec.structs import replace
from starlette.concurrency import run_in_threadpool

from parapet.schemas.decisions import csv_bytes
from parapet.schemas.errors import InputError
from parapet.schemas.limits import read_whole
from parapet.transforms.core import disk, web
from parapet.transforms.crowd.serving.guard import Protocol
from parapet.transforms.crowd.serving.site import PARAMETERS, REQUESTER, Run, Site
from parapet.transforms.crowd.serving.store import Store
from parapet.transforms.report.text import counted

_EXPORT_SECONDS = 5
_INVITATION = ("person", "name", "link")


def export(store: Store, path: Path) -> int:
    """Write all answers to a file, and return the number of submitted forms.

    Raises:
      InputError: the file cannot be written, or has lines that are not of this store: these would be lost.
    """
    data = store.export()
    others = {*_content(path, "--export").splitlines()} - {*data.splitlines(), b""}
    if others:
        reason = f"contains {counted(len(others), 'line')} that {store.path} does not have, which would be lost"
        raise InputError(f"{reason}: give another --export, or the --db that wrote it", path, "--export")
    _write(path, data, "--export", f"; all answers are in {store.path}, see --export_only")
    return data.count(b"\n")


def write_invitations(site: Site, path: Path) -> None:
    """Write the links of all people to a file that only its owner can read.

    Raises:
      InputError: the file has other content than invitations, or cannot be written.
    """
    content = _content(path, "--invitations")
    if content and not content.startswith(csv_bytes(_INVITATION, ())):
        raise InputError("contains something else than invitations: give another file", path, "--invitations")
    rows = [(str(number), name, site.invitation(number)) for number, name in site.store.people()]
    _write(path, csv_bytes(_INVITATION, rows), "--invitations")


def _content(path: Path, flag: str) -> bytes:
    return read_whole(path, where=flag) if path.exists() else b""


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
    with opened(run) as (site, listener):
        origin = site.settings.origin
        say(f"{counted(len(run.forms), 'form')} served at {origin}; press Ctrl-C to stop")
        if run.platform == "prolific":
            say(f"address of the study: {origin}/start?{'&'.join(f'{name}={{{{%{name}%}}}}' for name in PARAMETERS)}")
        else:
            say(f"invitations: {run.invitations}, one link for each person")
        say(f"progress: {site.invitation(REQUESTER)}")
        say(f"answers: {run.export}")
        server(site).run(sockets=[listener])
        return site.store.submissions()


@contextmanager
def opened(run: Run) -> Iterator[tuple[Site, socket.socket]]:
    """Open the site with its store, invitations and export, and a listening socket.

    Raises:
      InputError: the address is in use or not on this machine, or a file cannot be used.
    """
    with web.listen(run.host, run.port) as listener, closing(Store(run.db, run.platform)) as store:
        if store.platform != run.platform:
            raise InputError(f"is of a collection with people from {store.platform}: give another file", run.db, "--db")
        export(store, run.export)
        site = Site(store, replace(run, port=listener.getsockname()[1]))
        if run.platform != "prolific":
            store.invite(run.people)
            write_invitations(site, run.invitations)
        yield site, listener
        export(store, run.export)


def server(site: Site) -> uvicorn.Server:
    """Configure uvicorn with our limits, a continuous export, and without logs of requests: these identify people.

    With ``--public_url`` it trusts X-Forwarded-For from 127.0.0.1, or from FORWARDED_ALLOW_IPS.
    """
    exported = 0

    def follow() -> None:
        nonlocal exported
        try:
            if exported != site.store.submissions():
                exported = export(site.store, site.settings.export)
        except InputError as error:
            logging.error("%s", error)

    return web.Server(
        site,
        http=Protocol,
        proxy_headers=bool(site.settings.public_url),
        callback_notify=partial(run_in_threadpool, follow),
        timeout_notify=_EXPORT_SECONDS,
    )
