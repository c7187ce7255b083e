"""The base of the tests' HTTP services: they listen on this machine, on a free port, and write no log."""

import json
import socket
import socketserver
import sys
import threading
import urllib.parse
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: Message
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Answer:
    """Text is sent as a page, bytes as they are, other content as JSON."""

    content: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class LocalService(ThreadingHTTPServer):
    """A service; a context manager. Subclasses say what it answers.

    Args:
      faults: what goes wrong, request by request, or a function that says so; "" is nothing.
      port: on 127.0.0.1; 0 takes a free one.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, faults: Sequence[Any] | Callable[..., Any] = (), port: int = 0) -> None:
        self.faults = faults if callable(faults) else list(faults)
        self.requests: list[Any] = []
        self.lock, self.stopping = threading.RLock(), threading.Event()
        self.connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def server_bind(self) -> None:
        """Asks no name server who we are."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def answer(self, request: Request) -> Answer | None:
        """Returns None to close the connection without an answer."""
        raise NotImplementedError

    def fault(self, *request: Any) -> Any:
        """Takes what is to go wrong now."""
        if callable(self.faults):
            return self.faults(*request)
        return self.faults.pop(0) if self.faults else ""

    def break_off(self, stall: bool) -> None:
        """Closes the connection of a request; after a stall not before the service stops."""
        if stall:
            self.stopping.wait(60)

    def start(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Closes all connections, as clients keep them open."""
        self.stopping.set()
        self.shutdown()
        self.server_close()
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that were killed."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: LocalService
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        address = urllib.parse.urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        query = dict(urllib.parse.parse_qsl(address.query))
        answer = self.server.answer(Request(self.command, address.path, query, self.headers, body))
        if answer is None:
            self.close_connection = True
            return
        content, headers = answer.content, {"Content-Type": "application/json"}
        if isinstance(content, str):
            content, headers = content.encode(), {"Content-Type": "text/html"}
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(answer.status)
        for name, value in {**headers, "Content-Length": str(len(data)), **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_HEAD = do_POST = do_PUT = do_GET

    def log_message(self, *_: object) -> None:
        pass
