"""Cloud Translation on this machine: the real client's own messages over gRPC, and faults by order.

``with GoogleServer(faults=["unavailable", "", "html"]) as server: Google("project", endpoint=server.url)``.
"""

import hashlib
import html
import re
import string
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import Self

import grpc
from google.cloud.translate_v3.types import TranslateTextRequest, TranslateTextResponse

SERVICE = "google.cloud.translation.v3.TranslationService"
_Status = tuple[grpc.StatusCode, str]
_Code = grpc.StatusCode
_DAY = "Quota exceeded for quota metric 'v2 and v3 general model characters' and limit 'characters per day'"
_UNUSED = "Cloud Translation API has not been used in project 42 before or it is disabled."
_NO_TOKEN = "Getting metadata from plugin failed with error: ('invalid_grant: Token has been expired or revoked.', {})"

# What is refused, and how Google says so. Faults besides these: wrong_count, empty, html.
REFUSALS: dict[str, _Status] = {
    "unavailable": (_Code.UNAVAILABLE, "The service is currently unavailable."),
    "exhausted_day": (_Code.RESOURCE_EXHAUSTED, _DAY),
    "daily_limit": (_Code.PERMISSION_DENIED, "Daily Limit Exceeded"),
    "disabled": (_Code.PERMISSION_DENIED, _UNUSED),
    "unauthenticated": (_Code.UNAUTHENTICATED, "Request had invalid authentication credentials."),
    "no_token": (_Code.UNAVAILABLE, _NO_TOKEN),
    "not_found": (_Code.NOT_FOUND, "The model is not found."),
    "invalid": (_Code.INVALID_ARGUMENT, "Text is too long."),
    "language": (_Code.INVALID_ARGUMENT, "Target language is invalid."),
    "unknown": (_Code.UNKNOWN, "Something else."),
}


@dataclass(frozen=True)
class Request:
    """One that came in; ``number`` counts from 0."""

    number: int
    contents: tuple[str, ...]
    source: str
    target: str
    mime_type: str
    parent: str
    model: str


# "" and what lies beyond the end of a list is no fault; a status of one's own is possible.
Fault = str | _Status
Faults = Sequence[Fault] | Callable[[Request], Fault]


class GoogleServer:
    """Answers ``TranslateText`` with the pseudo translator.

    Args:
      faults: what goes wrong, request by request, or a function of the request.
    """

    def __init__(self, faults: Faults = ()) -> None:
        self.faults = faults
        self.requests: list[Request] = []
        self.answered: list[Request] = []  # and charged for
        self._lock = threading.Lock()
        handler = grpc.unary_unary_rpc_method_handler(
            self._translate_text, TranslateTextRequest.deserialize, TranslateTextResponse.serialize
        )
        handlers = [grpc.method_handlers_generic_handler(SERVICE, {"TranslateText": handler})]
        self._server = grpc.server(futures.ThreadPoolExecutor(8), handlers=handlers)
        self.url = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(0).wait()

    @property
    def texts(self) -> Counter[tuple[str, str, str]]:
        """How often each (source, target, text) was charged."""
        return Counter((one.source, one.target, text) for one in self.answered for text in one.contents)

    def _translate_text(self, message: TranslateTextRequest, context: grpc.ServicerContext) -> TranslateTextResponse:
        languages = message.source_language_code, message.target_language_code
        how = message.mime_type, message.parent, message.model
        with self._lock:
            request = Request(len(self.requests), tuple(message.contents), *languages, *how)
            self.requests.append(request)
        fault = self._fault(request)
        ordered = REFUSALS.get(fault) if isinstance(fault, str) else fault
        if refusal := ordered or self._refusal(request):
            context.abort(*refusal)
        answer = self._answer(request, fault)
        with self._lock:
            self.answered.append(request)
        return answer

    def _fault(self, request: Request) -> Fault:
        if callable(self.faults):
            return self.faults(request)
        return self.faults[request.number] if request.number < len(self.faults) else ""

    def _refusal(self, request: Request) -> _Status | None:
        """What the real one refuses, too."""
        if len(request.contents) > 1024:
            return _Code.INVALID_ARGUMENT, "Too many text segments."
        if sum(map(len, request.contents)) > 30_000:
            return REFUSALS["invalid"]
        return None if knows(request.source) and knows(request.target) else REFUSALS["language"]

    def _answer(self, request: Request, fault: Fault) -> TranslateTextResponse:
        texts = [translate(text, request.source, request.target) for text in request.contents]
        if fault == "html" or request.mime_type != "text/plain":
            texts = list(map(html.escape, texts))
        texts = {"wrong_count": texts[1:], "empty": [""] * len(texts)}.get(str(fault), texts)
        return TranslateTextResponse(translations=[{"translated_text": text} for text in texts])


# A translator for tests: the same answers each time; back in English, some words are others.


ALPHABET = string.ascii_letters + string.digits

# The first of the letters that stand for the alphabet, by language; a language without one is not known.
FIRST = {"ko": "가", "ja": "ァ", "zh": "一", "zh-CN": "一", "ru": "А", "fr": "Ā"}

SYNONYMS = {
    **{"account": "bank", "amount": "sum", "city": "town", "date": "day", "destination": "target", "find": "search"},
    **{"get": "receive", "location": "place", "name": "title", "number": "count", "price": "cost"},
    **{"restaurant": "diner", "time": "hour", "type": "kind", "whether": "if"},
}


def knows(language: str) -> bool:
    """Whether it translates from and into it."""
    return language == "en" or language in FIRST


def translate(text: str, source: str, target: str) -> str:
    """Letters and digits in another script, everything else as it is; into English, back with other words."""
    plain = text if source == "en" else text.translate(_letters(source, back=True))
    if target != "en":
        return plain.translate(_letters(target))
    return re.sub(r"[A-Za-z]+", lambda word: _reworded(word[0], source), plain)


def _letters(language: str, back: bool = False) -> dict[int, int]:
    first = ord(FIRST[language])
    there = {ord(letter): first + i for i, letter in enumerate(ALPHABET)}
    return {other: letter for letter, other in there.items()} if back else there


def _reworded(word: str, pivot: str) -> str:
    """Another word for about a third of them, not the same third for each language."""
    low = word.lower()
    if len(word) < 3 or hashlib.sha256(f"{pivot}:{low}".encode()).digest()[0] % 3:
        return word
    other = SYNONYMS.get(low) or (low[:-1] if low.endswith("s") else f"{low}s")
    return other.capitalize() if word[0].isupper() else other
