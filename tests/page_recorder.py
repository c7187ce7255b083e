"""A local server in place of MTurk's: shows HIT pages, and keeps what their forms send."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit


class Recorder(ThreadingHTTPServer):
    """Serves a folder's pages, with the form's address turned to itself, and keeps what is posted."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.posted = folder, list[list[tuple[str, str]]]()
        self.address = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Recorder

    def do_GET(self) -> None:
        path = self.server.folder / unquote(urlsplit(self.path).path).lstrip("/")
        if not path.is_file():
            self.send_error(404)
            return
        self._answer(path.read_text(encoding="utf-8").replace("https://www.mturk.com", self.server.address))

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.posted.append(parse_qsl(data, keep_blank_values=True))
        self._answer("<title>thanks</title>")

    def _answer(self, html: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(html.encode())

    def log_message(self, *args: object) -> None:
        """Nobody reads it."""


def serve(folder: Path) -> Iterator[Recorder]:
    serving = Recorder(folder)
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    yield serving
    serving.shutdown()
    serving.server_close()
