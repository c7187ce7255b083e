"""What the HTTP servers of tests have in common: on this machine, on a free port, a thread a connection, no log."""

import json
import socketserver
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class LocalServer(ThreadingHTTPServer):
    """Serves ``owner``, which its handlers find there."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, owner: Any, handler: type[BaseHTTPRequestHandler]) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), handler)

    def server_bind(self) -> None:
        """Without asking name servers who we are."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]


class LocalHandler(BaseHTTPRequestHandler):
    """Keeps connections open, and writes no log."""

    server: LocalServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        pass

    def _send(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if isinstance(content, str) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
