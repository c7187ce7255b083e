"""Cloud Translation on this machine: the real client's own messages over gRPC, and faults by order.

``with GoogleServer(faults=["unavailable", "", "cut"]) as server: Google("project", endpoint=server.url)``.
"""

import html
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import grpc
from google.cloud.translate_v3.types import TranslateTextRequest, TranslateTextResponse
from pseudo_translator import knows, translate

SERVICE = "google.cloud.translation.v3.TranslationService"
_Status = tuple[grpc.StatusCode, str]
_QUOTA = "Quota exceeded for quota metric 'v2 and v3 general model characters' and limit '{} per {}'"

# What is refused, and how Google says so. Faults besides these: wrong_count, empty, html, stall, cut.
REFUSALS: dict[str, _Status] = {
    "unavailable": (grpc.StatusCode.UNAVAILABLE, "The service is currently unavailable."),
    "internal": (grpc.StatusCode.INTERNAL, "Internal error encountered."),
    "exhausted": (grpc.StatusCode.RESOURCE_EXHAUSTED, _QUOTA.format("characters", "minute")),
    "exhausted_day": (grpc.StatusCode.RESOURCE_EXHAUSTED, _QUOTA.format("characters", "day")),
    "rate_limit": (grpc.StatusCode.PERMISSION_DENIED, "User Rate Limit Exceeded"),
    "daily_limit": (grpc.StatusCode.PERMISSION_DENIED, "Daily Limit Exceeded"),
    "disabled": (
        grpc.StatusCode.PERMISSION_DENIED,
        "Cloud Translation API has not been used in project 42 before or it is disabled.",
    ),
    "unauthenticated": (grpc.StatusCode.UNAUTHENTICATED, "Request had invalid authentication credentials."),
    "no_token": (
        grpc.StatusCode.UNAVAILABLE,
        "Getting metadata from plugin failed with error: ('invalid_grant: Token has been expired or revoked.', {})",
    ),
    "not_found": (grpc.StatusCode.NOT_FOUND, "The model is not found."),
    "invalid": (grpc.StatusCode.INVALID_ARGUMENT, "Text is too long."),
    "language": (grpc.StatusCode.INVALID_ARGUMENT, "Target language is invalid."),
    "unknown": (grpc.StatusCode.UNKNOWN, "Something else."),
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
    glossary: str

    @property
    def codepoints(self) -> int:
        return sum(map(len, self.contents))


# "" and what lies beyond the end of a list is no fault; a status of one's own is possible.
Fault = str | _Status
Faults = Sequence[Fault] | Callable[[Request], Fault]


class GoogleServer:
    """Answers ``TranslateText`` with the pseudo translator.

    Args:
      faults: what goes wrong, request by request, or a function of the request.
      glossaries: full name -> word -> what is to be said in its place.
    """

    def __init__(self, faults: Faults = (), glossaries: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self.faults, self.glossaries = faults, glossaries or {}
        self.requests: list[Request] = []
        self.answered: list[Request] = []  # and charged for
        self._lock = threading.Lock()
        handler = grpc.unary_unary_rpc_method_handler(
            self._translate_text, TranslateTextRequest.deserialize, TranslateTextResponse.serialize
        )
        handlers = [grpc.method_handlers_generic_handler(SERVICE, {"TranslateText": handler})]
        self._server = grpc.server(futures.ThreadPoolExecutor(8), handlers=handlers)
        self._wire = _Wire(self._server.add_insecure_port("127.0.0.1:0"))
        self.url = f"http://127.0.0.1:{self._wire.port}"

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._wire.close()
        self._server.stop(0).wait()

    @property
    def texts(self) -> Counter[tuple[str, str, str]]:
        """How often each (source, target, text) was charged."""
        return Counter((one.source, one.target, text) for one in self.answered for text in one.contents)

    def _translate_text(self, message: TranslateTextRequest, context: grpc.ServicerContext) -> TranslateTextResponse:
        with self._lock:
            request = _request(len(self.requests), message)
            self.requests.append(request)
        fault = self._fault_of(request)
        if fault == "stall":
            given_up = threading.Event()
            context.add_callback(given_up.set)
            given_up.wait(60)
            _abort(context, (grpc.StatusCode.CANCELLED, "Too late."))
        ordered = REFUSALS.get(fault) if isinstance(fault, str) else fault
        if refusal := ordered or _refusal(request, self.glossaries):
            _abort(context, refusal)
        answer = self._answer(request, fault)
        with self._lock:
            self.answered.append(request)
        if fault == "cut":
            self._wire.cut()
        return answer

    def _fault_of(self, request: Request) -> Fault:
        if callable(self.faults):
            return self.faults(request)
        return self.faults[request.number] if request.number < len(self.faults) else ""

    def _answer(self, request: Request, fault: Fault) -> TranslateTextResponse:
        texts = [translate(text, request.source, request.target) for text in request.contents]
        if fault == "html" or request.mime_type != "text/plain":
            texts = [html.escape(text) for text in texts]
        if fault == "wrong_count":
            texts = texts[1:]
        if fault == "empty":
            texts = ["" for _ in texts]
        followed = self.glossaries.get(request.glossary, {})
        sent = zip(request.contents, texts, strict=False) if request.glossary else ()
        return TranslateTextResponse(
            translations=[{"translated_text": text} for text in texts],
            glossary_translations=[{"translated_text": followed.get(asked, text)} for asked, text in sent],
        )


def _request(number: int, message: TranslateTextRequest) -> Request:
    languages = message.source_language_code, message.target_language_code
    how = message.mime_type, message.parent, message.model, message.glossary_config.glossary
    return Request(number, tuple(message.contents), *languages, *how)


def _refusal(request: Request, glossaries: Mapping[str, Any]) -> _Status | None:
    """What the real one refuses, too."""
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    if len(request.contents) > 1024:
        return invalid, "Too many text segments."
    if request.codepoints > 30_000:
        return invalid, "Text is too long."
    if not knows(request.source) or not knows(request.target):
        return REFUSALS["language"]
    if request.glossary and request.glossary not in glossaries:
        return grpc.StatusCode.NOT_FOUND, "Glossary not found."
    return None


def _abort(context: grpc.ServicerContext, status: _Status) -> NoReturn:
    context.abort(*status)
    raise AssertionError  # abort raises


class _Wire:
    """What lies between client and server, and can be cut: the next connection is whole again."""

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self._ends: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def cut(self) -> None:
        ends, self._ends = self._ends, []
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                near = self._listener.accept()[0]
                far = socket.create_connection(("127.0.0.1", self.server_port))
                self._ends += [near, far]
                for a, b in ((near, far), (far, near)):
                    threading.Thread(target=_pass_on, args=(a, b), daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
