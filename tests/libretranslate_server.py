"""LibreTranslate on this machine, over HTTP, with faults by order."""

import html
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from local_http import LocalHandler, LocalServer
from pseudo_translator import FIRST, knows, translate

# status and what ``error`` says. Faults besides these: not_json, html_page, wrong_count, empty, html, nulls, one_text,
# redirect, stall, cut.
REFUSALS = {
    "busy": (429, "Slowdown: 20 per 1 minute"),
    "down": (503, "Service unavailable"),
    "gateway": (502, "Bad gateway"),
    "broken": (500, "Cannot translate text"),
    "banned": (403, "Too many request limits violations"),
    "too_long": (400, "Invalid request: request (5001) exceeds text limit (5000)"),
    "elsewhere": (404, "Not found"),
}


@dataclass(frozen=True)
class Request:
    """One that came in; ``number`` counts from 0."""

    number: int
    texts: tuple[str, ...]
    source: str
    target: str
    format: str
    key: str


Faults = Sequence[str] | Callable[[Request], str]


class LibreTranslateServer:
    """Answers ``POST /translate`` with the pseudo translator.

    Args:
      faults: what goes wrong, request by request, or a function of the request; "" is nothing.
      key: the API key that is wanted.
      retry_after: what a server that is busy says of how long.
      most_texts: of one request.
    """

    def __init__(self, faults: Faults = (), key: str = "", retry_after: str = "", most_texts: int = 1_000) -> None:
        self.faults, self.key, self.retry_after, self.most_texts = faults, key, retry_after, most_texts
        self.requests: list[Request] = []
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._http = LocalServer(self, _Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()

    def received(self, body: dict[str, Any]) -> tuple[Request, str]:
        """Writes a request down; gives it and what is to go wrong with it."""
        with self._lock:
            texts = tuple(body.get("q", ()))
            how = body.get("format", ""), body.get("api_key", "")
            request = Request(len(self.requests), texts, body["source"], body["target"], *how)
            self.requests.append(request)
        if callable(self.faults):
            return request, self.faults(request)
        return request, self.faults[request.number] if request.number < len(self.faults) else ""

    def refusal(self, request: Request, fault: str) -> tuple[int, str] | None:
        """What the real one refuses, too."""
        if self.key and request.key != self.key:
            return (403, "Invalid API key") if request.key else (400, "Visit http://example.org to get an API key")
        if len(request.texts) > self.most_texts:
            return 400, f"Invalid request: request ({len(request.texts)}) exceeds text limit ({self.most_texts})"
        for language in (request.source, request.target):
            if not knows(language):
                return 400, f"{language} is not supported"
        return REFUSALS.get(fault)


class _Handler(LocalHandler):
    def do_GET(self) -> None:
        self._send(200, [{"code": code, "name": code, "targets": ["en"]} for code in ["en", *FIRST]])

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/translate":
            self._send(404, "<!doctype html>")
            return
        owner = self.server.owner
        request, fault = owner.received(body)
        if fault == "stall":
            owner.stopping.wait(60)
        if fault in ("stall", "cut"):
            self.close_connection = True
        elif fault == "redirect":
            self._send(301, "", {"Location": "https://elsewhere.example/translate"})
        elif fault == "html_page":
            self._send(502, "<html>proxy</html>")
        elif fault == "not_json":
            self._send(200, "<html>log in first</html>")
        elif refusal := owner.refusal(request, fault):
            headers = {"Retry-After": owner.retry_after} if fault == "busy" and owner.retry_after else {}
            self._send(refusal[0], {"error": refusal[1]}, headers)
        else:
            self._send(200, {"translatedText": _answer(request, fault)})


def _answer(request: Request, fault: str) -> Any:
    texts = [translate(text, request.source, request.target) for text in request.texts]
    changed: dict[str, Any] = {
        "wrong_count": texts[1:],
        "empty": ["" for _ in texts],
        "html": [html.escape(text) for text in texts],
        "nulls": [None for _ in texts],
        "one_text": "🐢",
    }
    return changed.get(fault, texts)
