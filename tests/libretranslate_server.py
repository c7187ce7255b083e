"""LibreTranslate on this machine, over HTTP, with faults by order."""

from dataclasses import dataclass
from typing import Any

from local_http import Answer, LocalService
from pseudo_translator import FIRST, knows, translate

# Faults with their status and what ``error`` says. Others: html_page, not_json, redirect, nulls, one_text, stall, cut.
REFUSALS = {
    "busy": (429, "Slowdown: 20 per 1 minute"),
    "down": (503, "Service unavailable"),
    "gateway": (502, "Bad gateway"),
    "broken": (500, "Cannot translate text"),
    "banned": (403, "Too many request limits violations"),
    "too_long": (400, "Invalid request: request (5001) exceeds text limit (5000)"),
    "elsewhere": (404, "Not found"),
}
PAGES = {
    "html_page": Answer("<html>proxy</html>", 502),
    "not_json": Answer("<html>log in first</html>"),
    "redirect": Answer("", 301, {"Location": "https://elsewhere.example/translate"}),
}


@dataclass(frozen=True)
class Request:
    texts: tuple[str, ...]
    source: str
    target: str
    format: str
    key: str


class LibreTranslateServer(LocalService):
    """Answers ``POST /translate`` with the pseudo translator.

    Args:
      faults: what goes wrong, request by request, or a function of the request; "" is nothing.
      key: the API key that is required.
      retry_after: how many seconds a busy server asks clients to wait.
    """

    def __init__(self, faults: Any = (), key: str = "", retry_after: str = "") -> None:
        super().__init__(faults)
        self.key, self.retry_after = key, retry_after

    def answer(self, request):
        if request.path != "/translate":
            return Answer([{"code": code, "name": code, "targets": ["en"]} for code in ["en", *FIRST]])
        body = request.json
        languages = body["source"], body["target"]
        asked = Request(tuple(body["q"]), *languages, body.get("format", ""), body.get("api_key", ""))
        with self.lock:
            self.requests.append(asked)
            fault = self.fault(asked)
        if fault in ("stall", "cut"):
            return self.break_off(fault == "stall")
        refusal = REFUSALS.get(fault)
        for language in languages:
            if not knows(language):
                refusal = 400, f"{language} is not supported"
        if self.key and asked.key != self.key:
            refusal = (403, "Invalid API key") if asked.key else (400, "Visit http://example.org to get an API key")
        if refusal:
            headers = {"Retry-After": self.retry_after} if fault == "busy" and self.retry_after else {}
            return Answer({"error": refusal[1]}, refusal[0], headers)
        texts = [translate(text, *languages) for text in asked.texts]
        changed = {"nulls": [None for _ in texts], "one_text": "🐢"}
        return PAGES.get(fault) or Answer({"translatedText": changed.get(fault, texts)})
