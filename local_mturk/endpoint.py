"""HTTP on 127.0.0.1: API calls with their faults and hooks, the workers' pages, and the controls."""

from __future__ import annotations

import contextlib
import re
import socket
import socketserver
import sys
import threading
import uuid
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from sqlite3 import ProgrammingError
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import msgspec
import orjson

from parapet.local_mturk import marketplace
from parapet.local_mturk.errors import MTurkError
from parapet.local_mturk.faults import Call, Drop, faults_from
from parapet.local_mturk.marketplace import PREVIEW, Accepted, Refusal
from parapet.local_mturk.operations import TARGET, checked, operations, perform
from parapet.local_mturk.qualifications import Profile
from parapet.local_mturk.question import SUBMIT_PATH, as_served, html_of
from parapet.schemas.errors import InputError
from parapet.transforms.reports.report import render

if TYPE_CHECKING:
    from parapet.local_mturk.server import LocalMTurk

HTML, JSON = "text/html; charset=utf-8", "application/json"

_MOST_FIELDS = 10_000
_FORM = "application/x-www-form-urlencoded"


class Request(msgspec.Struct):
    """A request: what the address asks for, and what was posted."""

    method: str
    path: str
    query: dict[str, str]
    content_type: str = ""
    body: bytes = b""
    wants_json: bool = False

    def posted(self) -> list[tuple[str, str]]:
        """The fields of a form, blank ones included, in the order of the page."""
        if self.content_type.partition(";")[0].strip().lower() != _FORM:
            raise Refusal("no_answers", f"Forms are sent as {_FORM}.")
        try:
            return parse_qsl(self.body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
        except ValueError:
            raise Refusal("no_answers") from None


class Reply(msgspec.Struct):
    """An answer. A ``location`` makes it a redirection."""

    status: int = 200
    content_type: str = HTML
    body: bytes = b""
    location: str = ""


def reply(mturk: LocalMTurk, request: Request) -> Reply:
    """The answer to anything that is not an API call."""
    handler = _ROUTES.get((request.method, request.path))
    if handler is None:
        return _message(404, "There is no such page", "The list of HITs is at /.")
    try:
        return handler(mturk, request)
    except Refusal as refusal:
        if request.wants_json:
            return _json({"reason": refusal.reason, "detail": str(refusal)}, 400)
        return _message(400, "This is not possible", str(refusal))
    except (InputError, msgspec.ValidationError, msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        return _json({"error": str(error)}, 400)


def _index(mturk: LocalMTurk, request: Request) -> Reply:
    worker_id = request.query.get("worker_id", "").strip()
    marketplace.check_worker(worker_id, needed=False)
    groups: dict[str, dict[str, Any]] = {}
    for hit in marketplace.on_offer(mturk.store, worker_id):
        group = groups.setdefault(hit["group_id"], {**hit, "hits": 0, "left": 0, "open": 0})
        group["hits"] += 1
        group["left"] += hit["left"]
        group["open"] += hit["can_accept"]
    held = marketplace.in_hand(mturk.store, worker_id) if worker_id else []
    mine = [(each, _place(mturk, Accepted(each["assignment_id"], each["hit_id"], worker_id))) for each in held]
    page = render("mturk_server.html.jinja", groups=list(groups.values()), worker_id=worker_id, mine=mine)
    return Reply(body=page.encode())


def _listing(mturk: LocalMTurk, request: Request) -> Reply:
    return _json(marketplace.on_offer(mturk.store, request.query.get("worker_id", "")))


def _preview(mturk: LocalMTurk, request: Request) -> Reply:
    hit_id, worker_id = request.query.get("hit_id", ""), request.query.get("worker_id", "")
    marketplace.question_for(mturk.store, hit_id, worker_id)
    known = {"workerId": worker_id} if worker_id else {}
    return Reply(303, location=f"/page?{urlencode({'assignmentId': PREVIEW, 'hitId': hit_id, **known})}")


def _page(mturk: LocalMTurk, request: Request) -> Reply:
    question = marketplace.question_for(mturk.store, request.query.get("hitId", ""), request.query.get("workerId", ""))
    return Reply(body=as_served(html_of(question)).encode())


def _accept(mturk: LocalMTurk, request: Request) -> Reply:
    given = dict(request.query)
    if request.method == "POST" and request.body:
        given |= dict(request.posted())
    worker_id = given.get("worker_id", "").strip()
    if group := given.get("group_id"):
        accepted = marketplace.accept_in_group(mturk.store, group, worker_id)
    else:
        seconds = given.get("seconds", "0")
        if not (seconds.isascii() and seconds.isdecimal() and len(seconds) < 10):
            raise ValueError("seconds is a whole number")
        accepted = marketplace.accept(mturk.store, given.get("hit_id", ""), worker_id, int(seconds))
    place = _place(mturk, accepted)
    if request.wants_json:
        return _json({**msgspec.structs.asdict(accepted), "page": place})
    return Reply(303, location=place)


def _place(mturk: LocalMTurk, accepted: Accepted) -> str:
    query = {
        "assignmentId": accepted.assignment_id,
        "hitId": accepted.hit_id,
        "workerId": accepted.worker_id,
        "turkSubmitTo": mturk.url,
    }
    return f"/page?{urlencode(query, quote_via=quote)}"


def _submit(mturk: LocalMTurk, request: Request) -> Reply:
    fields = request.posted()
    assignment_id = dict(fields).get("assignmentId") or request.query.get("assignmentId", "")
    marketplace.submit(mturk.store, assignment_id, fields)
    if request.wants_json:
        return _json({"submitted": assignment_id})
    return _message(200, "Thank you", "Your answers have arrived. They will be reviewed by the requester.")


def _return(mturk: LocalMTurk, request: Request) -> Reply:
    given = {**request.query, **(dict(request.posted()) if request.body else {})}
    assignment_id = given.get("assignmentId") or given.get("assignment_id") or ""
    marketplace.give_back(mturk.store, assignment_id)
    if request.wants_json:
        return _json({"returned": assignment_id})
    return _message(200, "Returned", "Somebody else can do this HIT now.")


def _calls(mturk: LocalMTurk, _request: Request) -> Reply:
    return _json({operation: dict(outcomes) for operation, outcomes in mturk.calls.items()})


def _snapshot(mturk: LocalMTurk, _request: Request) -> Reply:
    return _json(mturk.snapshot())


def _advance(mturk: LocalMTurk, request: Request) -> Reply:
    seconds = _object(request)["seconds"]
    if isinstance(seconds, bool) or not isinstance(seconds, int) or seconds > 1 << 31:
        raise ValueError("seconds is a whole number")
    mturk.advance(seconds)
    return _json({"now": mturk.now()})


def _faults(mturk: LocalMTurk, request: Request) -> Reply:
    mturk.faults = faults_from(_object(request))
    return _json(msgspec.to_builtins(mturk.faults))


def _worker(mturk: LocalMTurk, request: Request) -> Reply:
    given = _object(request)
    worker_id = given.pop("worker_id")
    mturk.set_worker(worker_id, msgspec.convert(given, Profile))
    return _json(given)


def _object(request: Request) -> dict[str, Any]:
    found = orjson.loads(request.body)
    if not isinstance(found, dict):
        raise TypeError("expected a JSON object")
    return found


def _message(status: int, title: str, text: str) -> Reply:
    return Reply(status, body=render("mturk_server_message.html.jinja", title=title, text=text).encode())


def _json(value: Any, status: int = 200) -> Reply:
    return Reply(status, JSON, orjson.dumps(value, default=str))


_ROUTES: dict[tuple[str, str], Callable[[LocalMTurk, Request], Reply]] = {
    ("GET", "/"): _index,
    ("GET", "/hits.json"): _listing,
    ("GET", "/preview"): _preview,
    ("GET", "/page"): _page,
    ("GET", "/accept"): _accept,
    ("POST", "/accept"): _accept,
    ("POST", SUBMIT_PATH): _submit,
    ("POST", "/return"): _return,
    ("GET", "/control/calls"): _calls,
    ("GET", "/control/snapshot"): _snapshot,
    ("POST", "/control/advance"): _advance,
    ("POST", "/control/faults"): _faults,
    ("POST", "/control/worker"): _worker,
}


_API = "application/x-amz-json-1.1"
_MOST_BYTES = 4 << 20
_CREDENTIAL = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/,\s]+)/")
_HERE = re.compile(r"(127\.0\.0\.1|localhost)(:\d+)?")


class HttpServer(ThreadingHTTPServer):
    """Listens on this machine only, one thread a connection."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, mturk: LocalMTurk, port: int) -> None:
        self.mturk = mturk
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    def server_bind(self) -> None:
        """Without asking name servers who we are."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Remembers the connection, to close it when the server stops."""
        with self._open_lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forgets the connection."""
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Stops listening and closes what clients keep alive."""
        super().server_close()
        with self._open_lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone away is no error; anything else is shown."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: HttpServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "LocalMTurk", ""
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        body = self._body()
        if body is None:
            return
        if not _HERE.fullmatch(self.headers.get("Host", "")):
            # A page of some web site that has its own name pointing here.
            self._send(403, "text/plain", b"this server is for this machine only")
            return
        try:
            if self.command == "POST" and self.headers.get("X-Amz-Target"):
                self._api(body)
            else:
                self._web(body)
        except ProgrammingError:
            if not self.server.mturk.stopping.is_set():
                raise
            self.close_connection = True  # the state was closed meanwhile

    def _body(self) -> bytes | None:
        length = self.headers.get("Content-Length", "0")
        if self.headers.get("Transfer-Encoding") or not (length.isascii() and length.isdecimal()):
            self._refuse(411, b"a Content-Length is needed")
            return None
        if int(length) > _MOST_BYTES:
            self._refuse(413, b"too large")
            return None
        return self.rfile.read(int(length))

    def _refuse(self, status: int, why: bytes) -> None:
        # What the client goes on to send is not read.
        self.close_connection = True
        self._send(status, "text/plain", why)

    def _web(self, body: bytes) -> None:
        parts = urlsplit(self.path)
        answer = reply(
            self.server.mturk,
            Request(
                self.command,
                parts.path,
                dict(parse_qsl(parts.query, keep_blank_values=True)),
                self.headers.get("Content-Type", ""),
                body,
                self.headers.get("Accept", "").startswith(JSON),
            ),
        )
        self._send(answer.status, answer.content_type, answer.body, location=answer.location)

    def _api(self, body: bytes) -> None:
        mturk = self.server.mturk
        operation = self.headers["X-Amz-Target"].removeprefix(TARGET)
        try:
            params = orjson.loads(body)
        except orjson.JSONDecodeError:
            params = None
        call = Call(mturk.next_index(), operation, params)
        fault, late = mturk.faults.draw(mturk.seed, call.index, operation)
        try:
            self._handle(call, fault)
            lost = False
        except Drop:
            call.outcome, lost = "dropped_before", True
        try:
            for hook in mturk.response_hooks:
                hook(call)
            lost |= call.outcome == "ok" and fault == "dropped_after"
        except Drop:
            lost = True
        if lost and call.outcome == "ok":
            call.outcome = "dropped_after"
        # An operation that MTurk does not have is counted under one name: a client may make up many.
        mturk.count_call(operation if operation in operations() else "unknown", call.outcome)
        if late:
            mturk.stopping.wait(late)
        if lost:
            self._drop()
        else:
            self._send(call.status, _API, call.answer, request_id=call.index)

    def _handle(self, call: Call, fault: str) -> None:
        mturk = self.server.mturk
        try:
            for hook in mturk.request_hooks:
                hook(call)
            if fault == "dropped_before":
                raise Drop
            if fault == "throttled":
                raise MTurkError("Rate exceeded", code="ThrottlingException")
            if fault == "failed":
                raise MTurkError("Service fault. Please try again.", code="ServiceFault", status=500)
            self._check_key()
            if call.params is None:
                raise MTurkError("The request is not JSON.", code="SerializationException")
            params = checked(call.operation, call.params)
            with mturk.store.transaction():
                answer = perform(mturk.store, call.operation, params)
            call.status, call.outcome, call.answer = 200, "ok", orjson.dumps(answer)
        except MTurkError as error:
            body = error.body(mturk.store.milliseconds())
            call.status, call.outcome, call.answer = error.status, error.outcome, orjson.dumps(body)

    def _check_key(self) -> None:
        mturk = self.server.mturk
        match = _CREDENTIAL.match(self.headers.get("Authorization", ""))
        if match is None:
            raise MTurkError("Request is missing Authentication Token", code="MissingAuthenticationTokenException")
        known = mturk.accepted_keys is None or match[1] in mturk.accepted_keys
        if not known or match[1] in mturk.refused_keys:
            message = "The security token included in the request is invalid."
            raise MTurkError(message, code="UnrecognizedClientException")

    def _drop(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _send(self, status: int, content_type: str, body: bytes, location: str = "", request_id: int = 0) -> None:
        head = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"Content-Type: {content_type}"]
        head += [f"Content-Length: {len(body)}", "Cache-Control: no-store"]
        if location:
            head.append(f"Location: {location}")
        if request_id:
            head.append(f"x-amzn-RequestId: {uuid.UUID(int=request_id)}")
        if self.close_connection:
            head.append("Connection: close")
        with contextlib.suppress(OSError):  # the client may have gone
            self.wfile.write("\r\n".join([*head, "", ""]).encode() + body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: addresses of pages have worker ids in them."""
