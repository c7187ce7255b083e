"""HTTP on 127.0.0.1: API calls with their faults and hooks, pages for everything else."""

from __future__ import annotations

import contextlib
import re
import socket
import socketserver
import sys
import threading
import uuid
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from sqlite3 import ProgrammingError
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson

from parapet.local_mturk import web
from parapet.local_mturk.calls import Call, Drop
from parapet.local_mturk.errors import MTurkError
from parapet.local_mturk.model import TARGET, operations
from parapet.local_mturk.operations import checked, perform
from parapet.local_mturk.service import Service

_API = "application/x-amz-json-1.1"
_MOST_BYTES = 4 << 20
_CREDENTIAL = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/,\s]+)/")
_HERE = re.compile(r"(127\.0\.0\.1|localhost)(:\d+)?")


class HttpServer(ThreadingHTTPServer):
    """Listens on this machine only, one thread a connection."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, mturk: Service, port: int) -> None:
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
        answer = web.reply(
            self.server.mturk,
            web.Request(
                self.command,
                parts.path,
                dict(parse_qsl(parts.query, keep_blank_values=True)),
                self.headers.get("Content-Type", ""),
                body,
                self.headers.get("Accept", "").startswith(web.JSON),
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
        found = _CREDENTIAL.match(self.headers.get("Authorization", ""))
        if found is None:
            raise MTurkError("Request is missing Authentication Token", code="MissingAuthenticationTokenException")
        known = mturk.accepted_keys is None or found[1] in mturk.accepted_keys
        if not known or found[1] in mturk.refused_keys:
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
