"""The pages and their addresses, around the store; the server, and what protects it.

An invitation link ends with a signed number, the person's token, which is also the session cookie. The requester, who
may see the progress page, has number 0.
"""

import asyncio
import hashlib
import hmac
import logging
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import uvicorn
from msgspec.structs import replace
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from parapet.schemas.decisions import csv_bytes
from parapet.schemas.errors import InputError
from parapet.schemas.limits import read_whole
from parapet.transforms.core import disk, web
from parapet.transforms.crowd.answer_files import MAX_ANSWER, FilledForm
from parapet.transforms.crowd.serving.store import Form, Store, page, policy
from parapet.transforms.report.report import render
from parapet.transforms.report.text import counted

HEADERS = {
    "Connection": "close",  # a connection is for one request, so that its deadline is the request's
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # "no-referrer" would make browsers send "Origin: null"
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Strict-Transport-Security": "max-age=31536000",  # which browsers ignore without TLS
}
MAX_BYTES = 512 * 1024  # of a request's body
MAX_CONNECTIONS = 1_000
MAX_SECONDS = 30.0  # of a connection
MAX_AT_ONCE = 100  # requests of one address that are being answered
MAX_PER_MINUTE = 300  # requests of a person, or of an address of unknown clients
MAX_NEWCOMERS = 5  # participants of a study who are new, from one address in an hour


class Rate:
    """Counts the events of each client in a window of time, which begins with the first event after the last window.

    Args:
      most: maximum number of events in a window.
      seconds: the length of a window.
      now: the clock, in seconds.
    """

    def __init__(self, most: int, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self.most, self.seconds, self.now = most, seconds, now
        self._until, self._counts = 0.0, Counter[str]()

    def exceeded(self, client: str) -> bool:
        """Counts an event, and returns whether the client has had more than allowed."""
        if (now := self.now()) >= self._until:
            self._until, self._counts = now + self.seconds, Counter()
        self._counts[client] += 1
        return self._counts[client] > self.most


class Protocol(H11Protocol):
    """uvicorn's protocol with limits on the number of connections and their time, which uvicorn lacks."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins a connection."""
        super().connection_made(transport)
        self.deadline = self.loop.call_later(MAX_SECONDS, transport.abort)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends a connection."""
        self.deadline.cancel()
        super().connection_lost(exc)


class Refused(Exception):
    """A request is answered by a message: its arguments are the status, a title and perhaps a text."""


async def read_body(request: Request) -> bytes:
    """Reads the body of a request, to its end so that the client sees the reason of a refusal.

    Raises Refused if it is too large.
    """
    body = b""
    async for part in request.stream():
        body = (body + part)[: MAX_BYTES + 1]
    if len(body) > MAX_BYTES:
        raise Refused(413, "The request is too large")
    return body


def check_origin(request: Request, origin: str) -> None:
    """Raises Refused if a request is not for this server, or another site sends it in a person's name.

    A POST needs our own origin, as every browser sends it, and cookies are SameSite.
    """
    if request.headers.get("host", "").lower() != origin.partition("://")[2]:
        raise Refused(421, "This server does not serve this address", "See --public_url.")
    if request.method == "POST" and request.headers.get("origin") != origin:
        raise Refused(403, "The request was sent from another site")


def address(request: Request) -> str:
    """Returns the client's address, or its network of 64 bits with IPv6; may be empty."""
    host = request.client.host if request.client else ""
    with suppress(ValueError):  # of other addresses
        return str(ip_network(f"{host}/64", strict=False))
    return host[:64]


def sign(key: bytes, text: str) -> str:
    """Signs a text with a key (HMAC-SHA256, 40 hex digits)."""
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:40]


_PROLIFIC_ID = re.compile(r"[A-Za-z0-9]{8,40}")
REQUESTER = 0  # people begin with 1
PARAMETERS = ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID")


class Run(msgspec.Struct, frozen=True):
    """What to serve, and where.

    Attributes:
      people: names of people to invite, or their number; not used with platform ``prolific``.
      platform: ``in_house`` or ``prolific``.
      public_url: the address for people; empty for ``host`` and ``port``.
      completion_url: the address that people are sent to at the end; may be empty.
      tasks_per_person: maximum number of forms that a person may submit; None for no limit.
      study: the id of the study whose participants are let in with platform ``prolific``.
    """

    forms: Sequence[Form]
    db: Path
    export: Path
    invitations: Path
    people: Sequence[str] | int
    platform: str = "in_house"
    host: str = "127.0.0.1"
    port: int = 8000
    public_url: str = ""
    completion_url: str = ""
    tasks_per_person: int | None = None
    study: str = ""

    @property
    def origin(self) -> str:
        """Scheme, host and port in the form of the ``Origin`` header: lower case, without default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        url = (self.public_url or f"http://{host}:{self.port}").lower()
        return url.removesuffix(":443" if url.startswith("https:") else ":80")


class Site:
    """The pages of the site.

    Args:
      store: people, assignments and answers.
      settings: the available forms, and everything else; with the port.
    """

    def __init__(self, store: Store, settings: Run) -> None:
        self.store, self.forms, self.settings = store, settings.forms, settings
        store.offer(settings.forms, settings.tasks_per_person)
        self._requests = Rate(MAX_PER_MINUTE, 60)
        self._newcomers = Rate(MAX_NEWCOMERS, 3600)
        self._current = Counter[str]()  # requests that are being answered, by address
        self._secure = settings.origin.startswith("https:")
        self._cookie = "__Host-parapet" if self._secure else "parapet"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles an ASGI request."""
        request = Request(scope, receive)
        sender = address(request)
        self._current[sender] += 1
        try:
            if self._current[sender] > MAX_AT_ONCE:
                raise Refused(429, "Too many requests at once", "Wait a minute, then try again.")
            response = await run_in_threadpool(self.answer, request, await read_body(request))
        except ClientDisconnect:
            return
        except Refused as error:
            response = _message(request, *error.args)
        except InputError as error:
            text = "Your answers are kept in this browser: try again later."
            response = _message(request, 503, f"The server cannot save answers now: {error.reason}", text)
        except Exception as error:
            # The traceback and the address could identify the person.
            logging.error("a request failed: %s", type(error).__name__)
            response = _message(request, 500, "The server failed", "Try again later.")
        finally:
            self._current -= Counter([sender])  # which drops zeros
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        await response(scope, receive, send)

    def answer(self, request: Request, body: bytes) -> Response:
        """Answers a request by the method that is named after its own method and the first part of its path."""
        person = self._visitor(request)
        sender = f"address {address(request)}" if person is None else f"person {person}"
        if self._requests.exceeded(sender):
            raise Refused(429, "Too many requests", "Wait a minute, then try again.")
        check_origin(request, self.settings.origin)
        name = request.scope["path"].lstrip("/").partition("/")[0] or "home"
        method = "post" if request.method == "POST" else "get"
        endpoint: Callable[..., Response] | None = getattr(self, f"{method}_{name}", None)
        if endpoint is None:
            raise Refused(404, "There is no such page")
        if method == "get":
            return endpoint(request)
        return endpoint(request, dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)))

    # Sessions.

    def invitation(self, person: int) -> str:
        """Returns the link with which a person, or the requester, begins a session."""
        return f"{self.settings.origin}/join/{self._token(person)}"

    def _token(self, person: int | str) -> str:
        return f"{person}-{sign(self.store.key, f'invitation {person}')}"

    def _number(self, token: str) -> int | None:
        """Returns the number of the person with a token; None if it is not valid."""
        person = token.partition("-")[0]
        return int(person) if hmac.compare_digest(token.encode(), self._token(person).encode()) else None

    def _log_in(self, person: int) -> Response:
        """Starts a session, and redirects to an address without the token."""
        response = RedirectResponse("/progress" if person == REQUESTER else "/", 303)
        token = self._token(person)
        response.set_cookie(self._cookie, token, 30 * 86_400, secure=self._secure, httponly=True, samesite="lax")
        return response

    def _visitor(self, request: Request) -> int | None:
        """Returns the number of the person who sends a request; None without a session."""
        return self._number(request.cookies.get(self._cookie, ""))

    def _person(self, request: Request) -> int:
        """Returns the number of the person who sends a request. Raises Refused for others, and for the requester."""
        if number := self._visitor(request):
            return number
        raise Refused(403, "Your invitation link is needed", "Open this page with the link that you were sent.")

    # Pages for people.

    def get_join(self, request: Request) -> Response:
        """Logs in the person of an invitation link."""
        if (number := self._number(request.scope["path"].removeprefix("/join/"))) is None:
            raise Refused(403, "This is not an invitation", "The link is not complete. Copy it again, all of it.")
        return self._log_in(number)

    def get_start(self, request: Request) -> Response:
        """Logs in a participant sent by Prolific."""
        if self.store.platform != "prolific":
            raise Refused(404, "There is no such page")
        participant, study, session = (request.query_params.get(name, "") for name in PARAMETERS)
        if study != self.settings.study or not all(map(_PROLIFIC_ID.fullmatch, (participant, study, session))):
            raise Refused(403, "Open this study from Prolific", f"The address lacks the right {', '.join(PARAMETERS)}.")
        number = self.store.participant(participant)
        if number is None and self._newcomers.exceeded(address(request)):
            logging.warning("too many new participants from one address: does the proxy send X-Forwarded-For?")
            raise Refused(429, "Too many participants from your network", "Try again in an hour.")
        return self._log_in(number or self.store.add_participant(participant))

    def get_home(self, request: Request) -> Response:
        """Shows a person's progress and offers a task, or says goodbye."""
        person = self._person(request)
        done = self.store.submissions(person)
        has_work = self.store.has_work(person)
        if done and not has_work:
            return RedirectResponse("/done", 303)
        return _html("collect_home.html.jinja", done=done, has_work=has_work, platform=self.store.platform)

    def post_begin(self, request: Request, _: Mapping[str, str]) -> Response:
        """Assigns a task to a person, or returns to the open one."""
        assignment_id = self.store.begin(self._person(request))
        return RedirectResponse(f"/task?assignmentId={assignment_id}" if assignment_id else "/", 303)

    def get_task(self, request: Request) -> Response:
        """Shows a person's form."""
        assignment_id = request.query_params.get("assignmentId", "")
        form, state, expires = self._task(self._person(request), assignment_id)
        if state in ("submitted", "returned"):
            raise Refused(404, "This task is done", "Go to the start page to get another one.")
        html = page(form, assignment_id, max(0, round((expires - self.store.now()) / 60)))
        return HTMLResponse(html, headers={"Content-Security-Policy": policy(html)})

    def _task(self, person: int, assignment_id: str) -> tuple[Form, str, float]:
        """Returns the form, the state and the deadline of a person's assignment. Raises Refused if there is none."""
        if task := self.store.assignment(person, assignment_id):
            return task
        raise Refused(404, "There is no such task", "Go to the start page to get one of yours.")

    def post_submit(self, request: Request, fields: Mapping[str, str]) -> Response:
        """Saves the answers of a form."""
        person, assignment_id = self._person(request), fields.get("assignmentId", "")
        form, _, _ = self._task(person, assignment_id)
        answers = {field: fields.get(field, "").replace("\r\n", "\n").replace("\0", "") for field in form.fields}
        if wrong := [field for field, text in answers.items() if not text.strip() or len(text) > MAX_ANSWER]:
            raise Refused(422, "Some answers are missing or too long", f"Look at these again: {', '.join(wrong[:5])}.")
        filled = msgspec.structs.replace(read_telemetry(fields.get("telemetry", "")), answers=answers)
        if refusal := self.store.submit(person, assignment_id, filled):
            raise Refused(409, "Not saved", refusal)
        return JSONResponse({"next": "/"})

    def post_return(self, request: Request, fields: Mapping[str, str]) -> Response:
        """Returns a task."""
        if not self.store.give_back(self._person(request), fields.get("assignmentId", "")):
            raise Refused(429, "You have given back many tasks", "Send this one, or leave it to somebody else.")
        return RedirectResponse("/", 303)

    def get_done(self, request: Request) -> Response:
        """Shows the final page with the completion code, or redirects back to Prolific."""
        person = self._person(request)
        if not self.store.submissions(person):
            return RedirectResponse("/", 303)
        if self.store.platform == "prolific":
            return RedirectResponse(self.settings.completion_url, 303)
        code = sign(self.store.key, f"completion {person}")[:8].upper()
        return _html("collect_done.html.jinja", code=code, url=self.settings.completion_url)

    # Pages for the requester.

    def get_progress(self, request: Request) -> Response:
        """Shows the progress page."""
        if self._visitor(request) != REQUESTER:
            raise Refused(403, "The requester's link is needed", "'parapet collect serve' prints it when it starts.")
        counts, rows = self.store.by_form(), []
        for form in self.forms:
            done, wanted = counts[form.key, "submitted"], form.assignments  # more may be done than wanted
            row = {"task": form.requester_annotation, "wanted": wanted, "done": done, "missing": max(0, wanted - done)}
            rows.append({**row, "open": counts[form.key, "open"]})
        return _html("collect_progress.html.jinja", rows=rows, people=self.store.by_person())


def read_telemetry(text: str) -> FilledForm:
    """Parses how a form was typed; empty if it is not as the page's script sends it."""
    try:
        typed = msgspec.json.decode(text, type=FilledForm)
    except (msgspec.MsgspecError, RecursionError):
        return FilledForm()
    return msgspec.structs.replace(typed, seconds={field: round(n, 1) for field, n in typed.seconds.items()})


def _message(request: Request, status: int, title: str, text: str = "") -> Response:
    """Returns a page with a message, or JSON for the form's script."""
    if request.scope["path"] == "/submit":
        return JSONResponse({"message": f"{title}. {text}"}, status)
    return _html("collect_message.html.jinja", status, title=title, text=text)


def _html(template: str, status: int = 200, **context: Any) -> Response:
    html = render(template, **context)
    return HTMLResponse(html, status, {"Content-Security-Policy": policy(html)})


_EXPORT_SECONDS = 5
_INVITATION = ("person", "name", "link")


def export(store: Store, path: Path) -> int:
    """Writes all answers to a file, and returns the number of submitted forms.

    Raises:
      InputError: the file cannot be written, or has lines that are not of this store: these would be lost.
    """
    data = store.export()
    if others := {*_content(path, "--export").splitlines()} - {*data.splitlines(), b""}:
        reason = f"contains {counted(len(others), 'line')} that {store.path} does not have, which would be lost"
        raise InputError(f"{reason}: give another --export, or the --db that wrote it", path, "--export")
    _write(path, data, "--export", f"; all answers are in {store.path}, see --export_only")
    return data.count(b"\n")


def write_invitations(site: Site, path: Path) -> None:
    """Writes the links of all people to a file that only its owner can read.

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
    """Writes a file that only its owner can read; if it is a link, the file that it leads to."""
    try:
        disk.write(path.resolve(), data, private=True)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}{hint}", path, flag) from None


def serve(run: Run, say: Callable[[str], None]) -> int:
    """Serves until Ctrl-C or a termination signal. Returns the total number of submitted forms.

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
    """Opens the site with its store, invitations and export, and a listening socket.

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
    """Configures uvicorn with our limits, a continuous export, and without logs of requests: these identify people.

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
