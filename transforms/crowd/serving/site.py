"""The pages and their addresses: a Starlette application around the store."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from parapet.transforms.crowd.ingest import MAX_ANSWER
from parapet.transforms.crowd.serving.forms import Form, page
from parapet.transforms.crowd.serving.guard import Guard, Limits, Rate, TooLarge, address, is_same, plain, sign
from parapet.transforms.crowd.serving.store import Full, Store, Telemetry
from parapet.transforms.reports.report import render

_DAY = 24 * 3600
_PERSON, _REQUESTER = "person", "requester"
_LASTS = {_PERSON: 30 * _DAY, _REQUESTER: _DAY // 2}
_PARTICIPANT = re.compile(r"[A-Za-z0-9]{8,40}")
_MOST_FIELDS = 2_000
_MOST = 1_000_000  # maximum keystrokes, pastes or seconds of a field

_TYPES = {"collect.js": "text/javascript", "collect.css": "text/css"}
_FULL = (
    "The server's disk is full, so your answers are not saved there. They are kept in this browser: try again later."
)
_REFUSALS = {
    "unknown": (404, "This task is not available to you."),
    "other_answers": (409, "You have already handed in this task, with other answers; those count."),
    "too_late": (409, "The time for this task is over, and somebody else has done it."),
}


class Settings(msgspec.Struct, frozen=True):
    """The settings of the site.

    Attributes:
      origin: the public scheme, host and port.
      secret: the secret that unlocks the progress page.
      completion_url: the address that people are sent to at the end; may be empty.
      tasks_per_person: maximum number of forms that a person may submit; None for no limit.
    """

    origin: str
    secret: str
    completion_url: str = ""
    tasks_per_person: int | None = None
    limits: Limits = Limits()


class _Row(NamedTuple):
    """A row of the progress page: a form and its numbers of assignments."""

    task: str
    wanted: int
    done: int
    open: int


class Refused(Exception):
    """A request is answered by a page with a message."""

    def __init__(self, status: int, title: str, text: str) -> None:
        super().__init__(title)
        self.status, self.title, self.text = status, title, text


_NO_LINK = Refused(403, "Your invitation link is needed", "Open this page with the link that you were sent.")
_NO_TASK = Refused(404, "There is no such task", "It may be somebody else's. Go to the start page to get one of yours.")


class Site:
    """The pages of the site.

    Args:
      store: people, assignments and answers.
      forms: the available forms.
      settings: see :class:`Settings`.
    """

    def __init__(self, store: Store, forms: tuple[Form, ...], settings: Settings) -> None:
        self.store, self.forms, self.settings = store, forms, settings
        self._by_key = {form.key: form for form in forms}
        self._failures = Rate(settings.limits.failures_per_minute)
        secure = settings.origin.startswith("https:")
        self._cookie = {name: f"{'__Host-' if secure else ''}parapet-{name}" for name in _LASTS}
        self._cookie_flags: dict[str, Any] = {"httponly": True, "samesite": "lax", "secure": secure, "path": "/"}

    @cached_property
    def app(self) -> ASGIApp:
        """Return the ASGI application with its guard."""
        pages = [
            ("/", self.home, "GET"),
            ("/join/{token}", self.join, "GET"),
            ("/begin", self.begin, "POST"),
            ("/task", self.task, "GET"),
            ("/submit", self.submit, "POST"),
            ("/return", self.give_back, "POST"),
            ("/done", self.done, "GET"),
            ("/progress", self.progress, "GET"),
            ("/progress", self.unlock, "POST"),
            ("/static/{name}", self.static, "GET"),
        ]
        if self.store.platform == "prolific":
            pages.append(("/start", self.start, "GET"))
        routes = [Route(path, _answering(endpoint), methods=[method]) for path, endpoint, method in pages]
        return Guard(Starlette(routes=routes), self.settings.origin, self.settings.limits, self._client)

    def invitation(self, person: int) -> str:
        """Return a person's invitation link."""
        return f"{self.settings.origin}/join/{person}-{sign(self.store.key, 'invitation', str(person))}"

    # Sessions.

    def _client(self, request: HTTPConnection) -> str:
        """Identify the sender of a request: the person, or else the address."""
        session = self._session(request, _PERSON)
        return f"person {session.split('.')[1]}" if session else f"address {address(request.scope)}"

    def _failed(self, request: Request) -> None:
        """Count a wrong link or secret. Raises Refused after too many from one address."""
        client = address(request.scope)
        self._failures.add(client)
        if self._failures.is_over(client):
            raise Refused(429, "Too many wrong tries", "Wait a minute, then try again.")

    def _log_in(self, response: Response, kind: str, who: str) -> Response:
        issued = str(int(time.time()))
        parts = (kind, who, issued, secrets.token_hex(8))
        value = ".".join((*parts, sign(self.store.key, "session", *parts)))
        response.set_cookie(self._cookie[kind], value, max_age=_LASTS[kind], **self._cookie_flags)
        return response

    def _session(self, request: HTTPConnection, kind: str) -> str | None:
        """Return the session cookie of a person or of the requester, if it is valid and not expired."""
        value = request.cookies.get(self._cookie[kind], "")
        *parts, signature = value.split(".")
        if len(parts) != 4 or not value.isascii() or not is_same(sign(self.store.key, "session", *parts), signature):
            return None
        return value if parts[0] == kind and time.time() - int(parts[2]) < _LASTS[kind] else None

    async def _person(self, request: Request) -> int:
        session = self._session(request, _PERSON)
        if session is None:
            raise _NO_LINK
        number = int(session.split(".")[1])
        if not await run_in_threadpool(self.store.is_person, number):
            raise _NO_LINK  # the store was deleted since the cookie was set
        return number

    def _csrf(self, request: Request, kind: str = _PERSON) -> str:
        return sign(self.store.key, "csrf", self._session(request, kind) or "")

    async def _form(self, request: Request, kind: str = _PERSON) -> dict[str, str]:
        """Parse the submitted fields. Raises Refused if they were not sent from a page of this session."""
        body = (await request.body()).decode("utf-8", "replace")
        try:
            fields = dict(parse_qsl(body, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
        except ValueError:
            raise Refused(413, "Too many fields", "No form has so many.") from None
        if kind == _PERSON and not is_same(fields.pop("csrf_token", ""), self._csrf(request)):
            raise Refused(403, "This page is out of date", "Reload it, and send it again. Your answers are kept.")
        return fields

    # Pages for people.

    async def join(self, request: Request) -> Response:
        """Log in the person of an invitation link."""
        number, _, signature = request.path_params["token"].partition("-")
        expected = sign(self.store.key, "invitation", number)
        if not number.isascii() or not number.isdigit() or not is_same(expected, signature):
            self._failed(request)
            raise Refused(403, "This is not an invitation", "The link is not complete. Copy it again, all of it.")
        return self._log_in(RedirectResponse("/", 303), _PERSON, str(int(number)))

    async def start(self, request: Request) -> Response:
        """Log in a participant sent by Prolific, and redirect to an address without their ids."""
        names = ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID")
        ids = [request.query_params.get(name, "") for name in names]
        if not all(map(_PARTICIPANT.fullmatch, ids)):
            self._failed(request)
            raise Refused(403, "Open this study from Prolific", f"The address lacks {', '.join(names)}.")
        number = await run_in_threadpool(self.store.participant, *ids)
        return self._log_in(RedirectResponse("/", 303), _PERSON, str(number))

    async def home(self, request: Request) -> Response:
        """Show a person's progress, and whether there are more tasks."""
        person = await self._person(request)
        has_work = await self._has_work(person)
        done = await run_in_threadpool(self.store.done, person)
        csrf, platform = self._csrf(request), self.store.platform
        return _html("collect_home.html.jinja", done=done, has_work=has_work, csrf=csrf, platform=platform)

    async def _has_work(self, person: int) -> bool:
        return await run_in_threadpool(self.store.has_work, person, self.forms, self.settings.tasks_per_person)

    async def begin(self, request: Request) -> Response:
        """Assign a task to a person, or return to the open one."""
        person = await self._person(request)
        await self._form(request)
        assignment = await run_in_threadpool(self.store.begin, person, self.forms, self.settings.tasks_per_person)
        return RedirectResponse(f"/task?assignmentId={assignment.id}" if assignment else "/", 303)

    async def task(self, request: Request) -> Response:
        """Show a person's form."""
        person = await self._person(request)
        assignment = await run_in_threadpool(self.store.find, person, request.query_params.get("assignmentId", ""))
        form = self._by_key.get(assignment.form) if assignment else None
        if assignment is None or form is None or assignment.state in ("submitted", "returned"):
            raise _NO_TASK
        minutes = max(0, round((assignment.expires - self.store.now()) / 60))
        html = page(form, assignment.id, self._csrf(request), minutes)
        return HTMLResponse(html, headers={"Content-Security-Policy": form.policy})

    async def submit(self, request: Request) -> Response:
        """Save the answers of a form, and return the next page."""
        try:
            person = await self._person(request)
            fields = await self._form(request)
            next_page = await self._save(person, fields)
        except Full:
            return JSONResponse({"message": _FULL}, 507)
        except Refused as refused:
            return JSONResponse({"message": f"{refused.title}. {refused.text}"}, refused.status)
        return JSONResponse({"next": next_page})

    async def _save(self, person: int, fields: Mapping[str, str]) -> str:
        assignment_id = fields.get("assignmentId", "")
        assignment = await run_in_threadpool(self.store.find, person, assignment_id)
        form = self._by_key.get(assignment.form) if assignment else None
        if form is None:
            raise _NO_TASK
        answers = {field: fields.get(field, "").replace("\r\n", "\n").replace("\0", "") for field in form.fields}
        if wrong := [field for field, text in answers.items() if not text.strip() or len(text) > MAX_ANSWER]:
            which = ", ".join(wrong[:5])
            raise Refused(422, "Some answers are missing or too long", f"Look at these again: {which}.")
        telemetry = read_telemetry(fields.get("telemetry", ""), form.fields)
        outcome = await run_in_threadpool(self.store.submit, person, assignment_id, form, answers, telemetry)
        if outcome in _REFUSALS:
            status, text = _REFUSALS[outcome]
            raise Refused(status, "Not saved", text)
        try:
            return "/" if await self._has_work(person) else "/done"
        except Full:  # the answers are already saved
            return "/"

    async def give_back(self, request: Request) -> Response:
        """Return a task."""
        person = await self._person(request)
        fields = await self._form(request)
        await run_in_threadpool(self.store.give_back, person, fields.get("assignmentId", ""))
        return RedirectResponse("/", 303)

    async def done(self, request: Request) -> Response:
        """Show the final page with the completion code, or redirect back to Prolific."""
        person = await self._person(request)
        if not await run_in_threadpool(self.store.done, person):
            return RedirectResponse("/", 303)
        if self.store.platform == "prolific":
            return RedirectResponse(self.settings.completion_url, 303)
        code = sign(self.store.key, "completion", str(person))[:8].upper()
        return _html("collect_done.html.jinja", code=code, url=self.settings.completion_url)

    # Pages for the requester.

    async def progress(self, request: Request) -> Response:
        """Show the progress page, or ask for the secret."""
        if self._session(request, _REQUESTER) is None:
            return _html("collect_unlock.html.jinja", wrong=False)
        return _html("collect_progress.html.jinja", **await run_in_threadpool(self._progress))

    async def unlock(self, request: Request) -> Response:
        """Unlock the progress page with the secret."""
        fields = await self._form(request, _REQUESTER)
        if not is_same(fields.get("secret", ""), self.settings.secret):
            self._failed(request)
            return _html("collect_unlock.html.jinja", status=403, wrong=True)
        return self._log_in(RedirectResponse("/progress", 303), _REQUESTER, "0")

    def _progress(self) -> dict[str, Any]:
        by_form, rows = self.store.by_form(), []
        for form in self.forms:
            states = by_form.get(form.key, {})
            rows.append(_Row(form.task_id, form.wanted, states.get("submitted", 0), states.get("open", 0)))
        totals = _Row("", sum(row.wanted for row in rows), sum(row.done for row in rows), sum(row.open for row in rows))
        return {"rows": rows, "totals": totals, "people": self.store.by_person()}

    async def static(self, request: Request) -> Response:
        """Return a script or style sheet of the site."""
        name = request.path_params["name"]
        if name not in _TYPES:
            raise Refused(404, "There is no such page", "")
        return Response(_static(name), media_type=_TYPES[name])


Endpoint = Callable[[Request], Awaitable[Response]]


def _answering(endpoint: Endpoint) -> Endpoint:
    """Wrap an endpoint to show pages for its exceptions."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Refused as refused:
            texts = {"title": refused.title, "text": refused.text}
            return _html("collect_message.html.jinja", status=refused.status, **texts)
        except TooLarge:
            return plain("too large", 413)
        except Full:
            return _html("collect_message.html.jinja", status=507, title="The server's disk is full", text=_FULL)

    return answer


def read_telemetry(text: str, fields: tuple[str, ...]) -> Telemetry:
    """Parse the typing data of a page and drop invalid values, since a browser may send anything."""
    try:
        raw = msgspec.json.decode(text or "{}", type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return Telemetry()
    kinds: dict[str, dict[str, Any]] = {"keystrokes": {}, "pastes": {}, "seconds": {}}
    for kind, values in kinds.items():
        for field in fields:
            value = raw[kind].get(field) if isinstance(raw.get(kind), dict) else None
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST:
                values[field] = round(float(value), 1) if kind == "seconds" else int(value)
    return Telemetry(**kinds)


def _static(name: str) -> bytes:
    return (files("parapet.crowd_templates") / name).read_bytes()


def _html(template: str, status: int = 200, **context: Any) -> Response:
    return HTMLResponse(render(template, **context), status)
