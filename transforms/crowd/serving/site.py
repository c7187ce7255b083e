"""The pages and their addresses, around the store."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from parapet.transforms.crowd.answer_files import MAX_ANSWER
from parapet.transforms.crowd.serving.forms import Form, page
from parapet.transforms.crowd.serving.guard import Guard, Limits, Rate, address, is_same, sign
from parapet.transforms.crowd.serving.store import Assignment, Store, Telemetry, Unavailable
from parapet.transforms.reports.report import render

_DAY = 24 * 3600
_HOUR = 3600
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_PERSON, _REQUESTER = "person", "requester"
_LASTS = {_PERSON: 30 * _DAY, _REQUESTER: _DAY // 2}
_PROLIFIC_ID = re.compile(r"[A-Za-z0-9]{8,40}")
_MOST_FIELDS = 2_000
_MOST = 1_000_000  # maximum keystrokes, pastes or seconds of a field

_TYPES = {"collect.js": "text/javascript", "collect.css": "text/css"}
_TROUBLES = {507: "The server's disk is full", 503: "The server is busy"}
_KEPT = "Your answers are not saved there, but kept in this browser: try again later."
_CROWD = (
    "a new participant was refused, because %d had come from the same address within an hour; if this happens to "
    "everybody, the reverse proxy does not send X-Forwarded-For"
)
_REFUSALS = {
    "unknown": (404, "This task is not available to you."),
    "other_answers": (409, "You have already handed in this task, with other answers; those count."),
    "too_late": (409, "The time for this task is over, and somebody else has done it."),
}


class Run(msgspec.Struct, frozen=True):
    """What to serve, and where.

    Attributes:
      people: names of people to invite, or their number; not used with platform ``prolific``.
      platform: ``in_house`` or ``prolific``.
      public_url: the address for people; empty for ``host`` and ``port``.
      completion_url: the address that people are sent to at the end; may be empty.
      tasks_per_person: maximum number of forms that a person may submit; None for no limit.
      secret: the secret of the progress page; if empty, a new one is created and printed.
      study: the id of the study whose participants are let in with platform ``prolific``.
    """

    forms: tuple[Form, ...]
    db: Path
    export: Path
    invitations: Path
    people: tuple[str, ...] | int
    platform: str = "in_house"
    host: str = "127.0.0.1"
    port: int = 8000
    public_url: str = ""
    completion_url: str = ""
    tasks_per_person: int | None = None
    secret: str = ""
    study: str = ""
    limits: Limits = Limits()

    @property
    def origin(self) -> str:
        """Scheme, host and port in the form of the ``Origin`` header: lower case, without default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        parts = urlsplit(self.public_url or f"http://{host}:{self.port}")
        return f"{parts.scheme}://{parts.netloc.lower().removesuffix(_DEFAULT_PORTS[parts.scheme])}"


class Refused(Exception):
    """A request is answered by a page with a message. Raise a new one each time: an exception keeps its frames."""

    def __init__(self, status: int, title: str, text: str) -> None:
        super().__init__(title)
        self.status, self.title, self.text = status, title, text


class Site:
    """The pages of the site.

    Args:
      store: people, assignments and answers.
      settings: the available forms, and everything else; with the port and the secret.
    """

    def __init__(self, store: Store, settings: Run) -> None:
        self.store, self.forms, self.settings = store, settings.forms, settings
        store.keep(settings.forms)
        self._tries = Rate(settings.limits.failures_per_minute)
        self._newcomers = Rate(settings.limits.newcomers_per_hour, _HOUR)
        secure = settings.origin.startswith("https:")
        self._cookie = {name: f"{'__Host-' if secure else ''}parapet-{name}" for name in _LASTS}
        self.app = Guard(self.answer, self._client, settings.origin, settings.limits)
        self._cookie_flags: dict[str, Any] = {"httponly": True, "samesite": "lax", "secure": secure, "path": "/"}

    def answer(self, request: Request, body: bytes) -> Response:
        """Answer a request by the method that is named after its own method and the first part of its path."""
        name = request.scope["path"].partition("/")[2].partition("/")[0] or "home"
        method = "post" if request.method == "POST" else "get"
        try:
            endpoint: Callable[..., Response] | None = getattr(self, f"{method}_{name}", None)
            if endpoint is None:
                raise Refused(404, "There is no such page", "")
            return endpoint(request, _fields(body)) if method == "post" else endpoint(request)
        except Unavailable as error:
            status, title, text = error.status, _TROUBLES[error.status], _KEPT
        except Refused as refused:
            status, title, text = refused.status, refused.title, refused.text
        if name == "submit":  # sent by the form's script
            return JSONResponse({"message": f"{title}. {text}"}, status)
        return _html("collect_message.html.jinja", status=status, title=title, text=text)

    def invitation(self, person: int) -> str:
        """Return a person's invitation link."""
        return f"{self.settings.origin}/join/{person}-{sign(self.store.key, 'invitation', str(person))}"

    # Sessions.

    def _client(self, request: Request) -> str:
        """Identify the sender of a request: the person, or else the address."""
        session = self._session(request, _PERSON)
        return f"person {session.split('.')[1]}" if session else f"address {address(request)}"

    def _try(self, request: Request) -> None:
        """Count a try to get in before it is judged. Raises Refused after too many from one address."""
        self._tries.add(address(request))
        if self._tries.is_over(address(request)):
            raise Refused(429, "Too many wrong tries", "Wait a minute, then try again.")

    def _log_in(self, request: Request, path: str, kind: str, who: str) -> Response:
        """Start a session, whose try does not count as a wrong one."""
        self._tries.add(address(request), -1)
        issued = str(int(time.time()))
        parts = (kind, who, issued, secrets.token_hex(8))
        value = ".".join((*parts, sign(self.store.key, "session", *parts)))
        response = RedirectResponse(path, 303)
        response.set_cookie(self._cookie[kind], value, max_age=_LASTS[kind], **self._cookie_flags)
        return response

    def _session(self, request: Request, kind: str) -> str | None:
        """Return the session cookie of a person or of the requester, if it is valid and not expired."""
        value = request.cookies.get(self._cookie[kind], "")
        *parts, signature = value.split(".")
        if len(parts) != 4 or not value.isascii() or not is_same(sign(self.store.key, "session", *parts), signature):
            return None
        return value if parts[0] == kind and time.time() - int(parts[2]) < _LASTS[kind] else None

    def _person(self, request: Request, fields: Mapping[str, str] | None = None) -> int:
        """Return the number of the person. Raises Refused without a session, or for fields from another's page."""
        session = self._session(request, _PERSON) or ""
        number = int(session.split(".")[1]) if session else 0
        if not self.store.is_person(number):  # or the database is another one since
            raise Refused(403, "Your invitation link is needed", "Open this page with the link that you were sent.")
        if fields is not None and not is_same(fields.get("csrf_token", ""), self._csrf(session)):
            raise Refused(403, "This page is out of date", "Reload it, and send it again. Your answers are kept.")
        return number

    def _csrf(self, session: str | None) -> str:
        return sign(self.store.key, "csrf", session or "")

    # Pages for people.

    def get_join(self, request: Request) -> Response:
        """Log in the person of an invitation link."""
        self._try(request)
        number, _, signature = request.scope["path"].removeprefix("/join/").partition("-")
        expected = sign(self.store.key, "invitation", number)
        if not number.isascii() or not number.isdigit() or not is_same(expected, signature):
            raise Refused(403, "This is not an invitation", "The link is not complete. Copy it again, all of it.")
        return self._log_in(request, "/", _PERSON, str(int(number)))

    def get_start(self, request: Request) -> Response:
        """Log in a participant sent by Prolific, and redirect to an address without their ids."""
        if self.store.platform != "prolific":
            raise Refused(404, "There is no such page", "")
        self._try(request)
        names = ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID")
        participant, study, session = (request.query_params.get(name, "") for name in names)
        if study != self.settings.study or not all(map(_PROLIFIC_ID.fullmatch, (participant, study, session))):
            raise Refused(403, "Open this study from Prolific", f"The address lacks the right {', '.join(names)}.")
        number = self.store.participant(participant)
        if number is None:
            if self._newcomers.is_over(address(request)):
                logging.warning(_CROWD, self.settings.limits.newcomers_per_hour)
                raise Refused(429, "Too many participants from your network", "Try again in an hour.")
            self._newcomers.add(address(request))
            number = self.store.add_participant(participant)
        return self._log_in(request, "/", _PERSON, str(number))

    def get_home(self, request: Request) -> Response:
        """Show a person's progress, and whether there are more tasks."""
        person = self._person(request)
        csrf, platform = self._csrf(self._session(request, _PERSON)), self.store.platform
        done, has_work = self.store.done(person), self._has_work(person)
        return _html("collect_home.html.jinja", done=done, has_work=has_work, csrf=csrf, platform=platform)

    def _has_work(self, person: int) -> bool:
        return self.store.has_work(person, self.forms, self.settings.tasks_per_person)

    def post_begin(self, request: Request, fields: Mapping[str, str]) -> Response:
        """Assign a task to a person, or return to the open one."""
        person = self._person(request, fields)
        assignment = self.store.begin(person, self.forms, self.settings.tasks_per_person)
        return RedirectResponse(f"/task?assignmentId={assignment.id}" if assignment else "/", 303)

    def _task(self, person: int, assignment_id: str) -> tuple[Assignment, Form]:
        """Return an assignment of the person and its form. Raises Refused if there is none."""
        assignment = self.store.find(person, assignment_id)
        if assignment is None:
            text = "It may be somebody else's. Go to the start page to get one of yours."
            raise Refused(404, "There is no such task", text)
        return assignment, self.store.forms[assignment.form]

    def get_task(self, request: Request) -> Response:
        """Show a person's form."""
        person = self._person(request)
        assignment, form = self._task(person, request.query_params.get("assignmentId", ""))
        if assignment.state in ("submitted", "returned"):
            raise Refused(404, "This task is done", "Go to the start page to get another one.")
        minutes = max(0, round((assignment.expires - self.store.now()) / 60))
        html = page(form, assignment.id, self._csrf(self._session(request, _PERSON)), minutes)
        return HTMLResponse(html, headers={"Content-Security-Policy": form.policy})

    def post_submit(self, request: Request, fields: Mapping[str, str]) -> Response:
        """Save the answers of a form, and return the next page."""
        person = self._person(request, fields)
        assignment, form = self._task(person, fields.get("assignmentId", ""))
        answers = {field: fields.get(field, "").replace("\r\n", "\n").replace("\0", "") for field in form.fields}
        if wrong := [field for field, text in answers.items() if not text.strip() or len(text) > MAX_ANSWER]:
            which = ", ".join(wrong[:5])
            raise Refused(422, "Some answers are missing or too long", f"Look at these again: {which}.")
        telemetry = read_telemetry(fields.get("telemetry", ""), form.fields)
        outcome = self.store.submit(person, assignment.id, form, answers, telemetry)
        if outcome in _REFUSALS:
            status, text = _REFUSALS[outcome]
            raise Refused(status, "Not saved", text)
        try:
            return JSONResponse({"next": "/" if self._has_work(person) else "/done"})
        except Unavailable:  # the answers are already saved
            return JSONResponse({"next": "/"})

    def post_return(self, request: Request, fields: Mapping[str, str]) -> Response:
        """Return a task."""
        person = self._person(request, fields)
        if not self.store.give_back(person, fields.get("assignmentId", "")):
            raise Refused(429, "You have given back many tasks", "Send this one, or leave it to somebody else.")
        return RedirectResponse("/", 303)

    def get_done(self, request: Request) -> Response:
        """Show the final page with the completion code, or redirect back to Prolific."""
        person = self._person(request)
        if not self.store.done(person):
            return RedirectResponse("/", 303)
        if self.store.platform == "prolific":
            return RedirectResponse(self.settings.completion_url, 303)
        code = sign(self.store.key, "completion", str(person))[:8].upper()
        return _html("collect_done.html.jinja", code=code, url=self.settings.completion_url)

    # Pages for the requester.

    def get_progress(self, request: Request) -> Response:
        """Show the progress page, or ask for the secret."""
        if self._session(request, _REQUESTER) is None:
            return _html("collect_unlock.html.jinja", wrong=False)
        counts, rows = self.store.by_form(), []
        for form in self.forms:
            done = counts[form.key, "submitted"]  # which may be more than wanted
            row = {"task": form.task_id, "wanted": form.wanted, "done": done, "open": counts[form.key, "open"]}
            rows.append({**row, "missing": max(0, form.wanted - done)})
        return _html("collect_progress.html.jinja", rows=rows, people=self.store.by_person())

    def post_progress(self, request: Request, fields: Mapping[str, str]) -> Response:
        """Unlock the progress page with the secret."""
        self._try(request)
        if not is_same(fields.get("secret", ""), self.settings.secret):
            return _html("collect_unlock.html.jinja", status=403, wrong=True)
        return self._log_in(request, "/progress", _REQUESTER, "0")

    def get_static(self, request: Request) -> Response:
        """Return a script or style sheet of the site."""
        name = request.scope["path"].removeprefix("/static/")
        if name not in _TYPES:
            raise Refused(404, "There is no such page", "")
        return Response((files("parapet.crowd_templates") / name).read_bytes(), media_type=_TYPES[name])


def _fields(body: bytes) -> dict[str, str]:
    """Parse the fields of a form. Raises Refused if there are too many."""
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError:
        raise Refused(413, "Too many fields", "No form has so many.") from None


def read_telemetry(text: str, fields: tuple[str, ...]) -> Telemetry:
    """Parse the typing data of a page and drop invalid values, since a browser may send anything."""
    try:
        raw = msgspec.json.decode(text or "{}", type=dict[str, dict[str, Any]])
    except (msgspec.MsgspecError, RecursionError):
        return Telemetry()
    kinds: dict[str, dict[str, Any]] = {"keystrokes": {}, "pastes": {}, "seconds": {}}
    for kind, numbers in kinds.items():
        for field, n in raw.get(kind, {}).items():
            if field in fields and type(n) in (int, float) and 0 <= n <= _MOST:
                numbers[field] = round(float(n), 1) if kind == "seconds" else int(n)
    return Telemetry(**kinds)


def _html(template: str, status: int = 200, **context: Any) -> Response:
    return HTMLResponse(render(template, **context), status)
