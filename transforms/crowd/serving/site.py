"""The pages and their addresses, around the store.

An invitation link ends with a signed number, the person's token, which is also the session cookie. The requester, who
may see the progress page, has number 0.
"""

from __future__ import annotations

import hmac
import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from parapet.schemas.errors import InputError
from parapet.transforms.crowd.answer_files import MAX_ANSWER, FilledForm
from parapet.transforms.crowd.serving import guard
from parapet.transforms.crowd.serving.forms import Form, page, policy
from parapet.transforms.crowd.serving.guard import Rate, Refused
from parapet.transforms.crowd.serving.store import Store
from parapet.transforms.report.report import render

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
        self._requests = Rate(guard.MAX_PER_MINUTE, 60)
        self._newcomers = Rate(guard.MAX_NEWCOMERS, 3600)
        self._current = Counter[str]()  # requests that are being answered, by address
        self._secure = settings.origin.startswith("https:")
        self._cookie = "__Host-parapet" if self._secure else "parapet"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI request."""
        request = Request(scope, receive)
        sender = guard.address(request)
        self._current[sender] += 1
        try:
            if self._current[sender] > guard.MAX_AT_ONCE:
                raise Refused(429, "Too many requests at once", "Wait a minute, then try again.")
            response = await run_in_threadpool(self.answer, request, await guard.read_body(request))
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
        for name, value in guard.HEADERS.items():
            response.headers.setdefault(name, value)
        await response(scope, receive, send)

    def answer(self, request: Request, body: bytes) -> Response:
        """Answer a request by the method that is named after its own method and the first part of its path."""
        person = self._visitor(request)
        sender = f"address {guard.address(request)}" if person is None else f"person {person}"
        if self._requests.exceeded(sender):
            raise Refused(429, "Too many requests", "Wait a minute, then try again.")
        guard.check_origin(request, self.settings.origin)
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
        """Return the link with which a person, or the requester, begins a session."""
        return f"{self.settings.origin}/join/{self._token(person)}"

    def _token(self, person: int | str) -> str:
        return f"{person}-{guard.sign(self.store.key, f'invitation {person}')}"

    def _number(self, token: str) -> int | None:
        """Return the number of the person with a token; None if it is not valid."""
        person = token.partition("-")[0]
        return int(person) if hmac.compare_digest(token.encode(), self._token(person).encode()) else None

    def _log_in(self, person: int) -> Response:
        """Start a session, and redirect to an address without the token."""
        response = RedirectResponse("/progress" if person == REQUESTER else "/", 303)
        token = self._token(person)
        response.set_cookie(self._cookie, token, 30 * 86_400, secure=self._secure, httponly=True, samesite="lax")
        return response

    def _visitor(self, request: Request) -> int | None:
        """Return the number of the person who sends a request; None without a session."""
        return self._number(request.cookies.get(self._cookie, ""))

    def _person(self, request: Request) -> int:
        """Return the number of the person who sends a request. Raises Refused for others, and for the requester."""
        if number := self._visitor(request):
            return number
        raise Refused(403, "Your invitation link is needed", "Open this page with the link that you were sent.")

    # Pages for people.

    def get_join(self, request: Request) -> Response:
        """Log in the person of an invitation link."""
        number = self._number(request.scope["path"].removeprefix("/join/"))
        if number is None:
            raise Refused(403, "This is not an invitation", "The link is not complete. Copy it again, all of it.")
        return self._log_in(number)

    def get_start(self, request: Request) -> Response:
        """Log in a participant sent by Prolific."""
        if self.store.platform != "prolific":
            raise Refused(404, "There is no such page")
        participant, study, session = (request.query_params.get(name, "") for name in PARAMETERS)
        if study != self.settings.study or not all(map(_PROLIFIC_ID.fullmatch, (participant, study, session))):
            raise Refused(403, "Open this study from Prolific", f"The address lacks the right {', '.join(PARAMETERS)}.")
        number = self.store.participant(participant)
        if number is None and self._newcomers.exceeded(guard.address(request)):
            logging.warning("too many new participants from one address: does the proxy send X-Forwarded-For?")
            raise Refused(429, "Too many participants from your network", "Try again in an hour.")
        return self._log_in(number or self.store.add_participant(participant))

    def get_home(self, request: Request) -> Response:
        """Show a person's progress and offer a task, or say goodbye."""
        person = self._person(request)
        done = self.store.submissions(person)
        has_work = self.store.has_work(person)
        if done and not has_work:
            return RedirectResponse("/done", 303)
        return _html("collect_home.html.jinja", done=done, has_work=has_work, platform=self.store.platform)

    def post_begin(self, request: Request, _: Mapping[str, str]) -> Response:
        """Assign a task to a person, or return to the open one."""
        assignment_id = self.store.begin(self._person(request))
        return RedirectResponse(f"/task?assignmentId={assignment_id}" if assignment_id else "/", 303)

    def get_task(self, request: Request) -> Response:
        """Show a person's form."""
        assignment_id = request.query_params.get("assignmentId", "")
        form, state, expires = self._task(self._person(request), assignment_id)
        if state in ("submitted", "returned"):
            raise Refused(404, "This task is done", "Go to the start page to get another one.")
        html = page(form, assignment_id, max(0, round((expires - self.store.now()) / 60)))
        return HTMLResponse(html, headers={"Content-Security-Policy": policy(html)})

    def _task(self, person: int, assignment_id: str) -> tuple[Form, str, float]:
        """Return the form, the state and the deadline of a person's assignment. Raises Refused if there is none."""
        if task := self.store.assignment(person, assignment_id):
            return task
        raise Refused(404, "There is no such task", "Go to the start page to get one of yours.")

    def post_submit(self, request: Request, fields: Mapping[str, str]) -> Response:
        """Save the answers of a form."""
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
        """Return a task."""
        if not self.store.give_back(self._person(request), fields.get("assignmentId", "")):
            raise Refused(429, "You have given back many tasks", "Send this one, or leave it to somebody else.")
        return RedirectResponse("/", 303)

    def get_done(self, request: Request) -> Response:
        """Show the final page with the completion code, or redirect back to Prolific."""
        person = self._person(request)
        if not self.store.submissions(person):
            return RedirectResponse("/", 303)
        if self.store.platform == "prolific":
            return RedirectResponse(self.settings.completion_url, 303)
        code = guard.sign(self.store.key, f"completion {person}")[:8].upper()
        return _html("collect_done.html.jinja", code=code, url=self.settings.completion_url)

    # Pages for the requester.

    def get_progress(self, request: Request) -> Response:
        """Show the progress page."""
        if self._visitor(request) != REQUESTER:
            raise Refused(403, "The requester's link is needed", "'parapet collect serve' prints it when it starts.")
        counts, rows = self.store.by_form(), []
        for form in self.forms:
            done, wanted = counts[form.key, "submitted"], form.assignments  # more may be done than wanted
            row = {"task": form.requester_annotation, "wanted": wanted, "done": done, "missing": max(0, wanted - done)}
            rows.append({**row, "open": counts[form.key, "open"]})
        return _html("collect_progress.html.jinja", rows=rows, people=self.store.by_person())


def read_telemetry(text: str) -> FilledForm:
    """Parse how a form was typed; empty if it is not as the page's script sends it."""
    try:
        typed = msgspec.json.decode(text, type=FilledForm)
    except (msgspec.MsgspecError, RecursionError):
        return FilledForm()
    return msgspec.structs.replace(typed, seconds={field: round(n, 1) for field, n in typed.seconds.items()})


def _message(request: Request, status: int, title: str, text: str = "") -> Response:
    """Return a page with a message, or JSON for the form's script."""
    if request.scope["path"] == "/submit":
        return JSONResponse({"message": f"{title}. {text}"}, status)
    return _html("collect_message.html.jinja", status, title=title, text=text)


def _html(template: str, status: int = 200, **context: Any) -> Response:
    html = render(template, **context)
    return HTMLResponse(html, status, {"Content-Security-Policy": policy(html)})
