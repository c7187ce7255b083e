"""The proxy as a server: one upstream, and an address below ``/x/`` for each variant."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from itertools import pairwise
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

import httpx
from msgspec import Raw
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from parapet.transforms.core import web
from parapet.transforms.core.fence import THIS_MACHINE
from parapet.transforms.proxy.raw_json import fields_of, text_of
from parapet.transforms.proxy.sides import Forwarded, Mapped, Side, write_log

LARGEST = 64 << 20  # bytes of a request, of an answer that is not streamed, and of an event
STATISTICS = "/parapet/statistics"

_CONNECT_SECONDS = 30
_MOST_CONNECTIONS = 1_000
_OF_VARIANT = re.compile(r"/x/([^/]+)(/.*|)")
# Headers of one connection, and those that are made anew.
_OWN = (
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer"),
    *("transfer-encoding", "upgrade", "expect", "host", "content-length"),
)
_DATA = re.compile(rb"^data:[ ]?(.*?)\r?$", re.MULTILINE)
_END_OF_EVENT = re.compile(rb"\n\r?\n|\r\r")

Result = TypeVar("Result")
Header = tuple[bytes, bytes]


class TooLarge(Exception):
    """A request, an answer or an event exceeds the limit."""


class Proxy:
    """The ASGI application.

    Args:
      upstream: the address that requests go to.
      sides: what is done with the requests of each variant, by its name.
      plain: the variant of addresses that name none.
      client: the client for the upstream.
      log: receives requests and answers, a line each; None to keep none.
    """

    def __init__(
        self, upstream: str, sides: Mapping[str, Side], plain: str, client: httpx.AsyncClient, log: IO[str] | None
    ) -> None:
        self._url, self._base = httpx.URL(upstream), urlsplit(upstream).path.rstrip("/")
        self._sides, self._plain, self.client, self.log = sides, plain, client, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI request; if the client goes away, end its upstream request."""
        request, path, variant = Request(scope, receive), scope["raw_path"].decode("ascii", "replace"), self._plain
        if path == STATISTICS:
            tables = {name: side.statistics.table() for name, side in self._sides.items()}
            return await JSONResponse(tables)(scope, receive, send)
        if match := _OF_VARIANT.fullmatch(path):
            variant, path = match.groups()
        if variant not in self._sides:
            return await _error(404, f"there is no variant {variant!r}")(scope, receive, send)
        try:
            body = await _whole(request.stream())
        except TooLarge as error:
            return await _error(413, f"the request {error}")(scope, receive, send)
        except ClientDisconnect:
            return None
        exchange = _Exchange(self, self._sides[variant], request, path, body)
        tasks = [asyncio.create_task(exchange.answer(send)), asyncio.create_task(_disconnected(receive))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        return None

    def address(self, path: str, query: bytes) -> httpx.URL:
        """Return the address for a path, which may repeat that of the upstream, such as ``/v1``."""
        below = path.removeprefix(self._base) if f"{path}/".startswith(f"{self._base}/") else path
        target = f"{self._base}{'' if below == '/' else below}" or "/"
        return self._url.copy_with(raw_path=target.encode() + (b"?" + query if query else b""))


class _Exchange:
    """A request and its answer.

    Args:
      proxy: see there.
      side: what is done with the request.
      request: the request.
      path: its path without the variant.
      body: its body.
    """

    def __init__(self, proxy: Proxy, side: Side, request: Request, path: str, body: bytes) -> None:
        self._proxy, self._side, self._request, self._path, self._body = proxy, side, request, path, body
        self._has_begun = False
        self._seconds = 0.0  # that the proxy itself needed
        self._passed = bytearray()  # for the log

    async def answer(self, send: Send) -> None:
        """Send the request, and pass its answer on as it arrives."""
        forwarded = self._timed(self._side.request, self._path, self._body, self._request.headers)
        try:
            response = await self._proxy.client.send(self._upstream_request(forwarded), stream=True)
            async with aclosing(response):
                await self._pass(response, forwarded.answer, send)
        except (httpx.HTTPError, httpx.InvalidURL, TooLarge) as error:
            if not self._has_begun:  # otherwise the server closes the connection, as the upstream did
                status = 504 if isinstance(error, httpx.TimeoutException) else 502
                reason = _error(status, f"the upstream cannot be reached, or read: {error or type(error).__name__}")
                await reason(self._request.scope, self._request.receive, send)
        finally:
            if forwarded.answer is not None:
                forwarded.answer.end()
                self._side.statistics.count_time(self._seconds)
                if self._proxy.log:
                    texts = {"received": self._body, "sent": forwarded.body, "answer": bytes(self._passed)}
                    write_log(self._proxy.log, self._request.url.path, **texts)

    def _timed(self, work: Callable[..., Result], *arguments: Any) -> Result:
        begun = time.perf_counter()
        result = work(*arguments)
        self._seconds += time.perf_counter() - begun
        return result

    def _upstream_request(self, forwarded: Forwarded) -> httpx.Request:
        request = self._request
        changed = {**forwarded.headers, **({"accept-encoding": "identity"} if forwarded.answer else {})}
        headers = [*_without(request.headers.raw, *changed), *((k.encode(), v.encode()) for k, v in changed.items())]
        url = self._proxy.address(self._path, request.scope["query_string"])
        return httpx.Request(request.method, url, headers=headers, content=forwarded.body or None)

    async def _pass(self, response: httpx.Response, answer: Mapped | None, send: Send) -> None:
        kind, length = response.headers.get("content-type", ""), response.headers.get("content-length")
        pieces, decoded = response.aiter_raw(), list[str]()
        if answer is not None and kind.startswith("text/event-stream"):
            pieces, length, decoded = self._events(response, answer), None, ["content-encoding"]
        elif answer is not None and "json" in kind:
            data = bytes(self._timed(answer.whole, Raw(await _whole(response.aiter_bytes()))))
            pieces, length, decoded = _single(data), str(len(data)), ["content-encoding"]
        headers = _without(response.headers.raw, *decoded)
        headers += [(b"content-length", length.encode())] if length is not None else []
        self._has_begun = True
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        async for piece in pieces:
            if self._proxy.log:
                self._passed += piece[: LARGEST - len(self._passed)]
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})

    async def _events(self, response: httpx.Response, answer: Mapped) -> AsyncIterator[bytes]:
        """Yield the events of a stream as each is complete. The beginning of one that breaks off is left out."""
        rest, searched = b"", 0
        async for piece in response.aiter_bytes():
            rest += piece
            if ends := [match.end() for match in _END_OF_EVENT.finditer(rest, searched)]:
                events = [rest[start:end] for start, end in pairwise([0, *ends])]
                rest = rest[ends[-1] :]
                yield self._timed(_mapped_events, events, answer)
            searched = max(0, len(rest) - 3)
            if len(rest) > LARGEST:
                raise TooLarge
        yield self._timed(_mapped_events, [rest], answer)


def _without(headers: Iterable[Header], *names: str) -> list[Header]:
    """Return the headers that are passed on, without some more."""
    left_out = {name.encode() for name in (*_OWN, *names)}
    return [(name.lower(), value) for name, value in headers if name.lower() not in left_out]


def _mapped_events(events: Sequence[bytes], answer: Mapped) -> bytes:
    return b"".join(mapped_event(event, answer) for event in events)


def mapped_event(event: bytes, answer: Mapped) -> bytes:
    """Map the data of a server-sent event, which APIs write on one line. Further events may come before it."""
    match = _DATA.search(event)
    if match is None:
        return event
    data = Raw(match[1])
    *before, new = answer.events(data)
    mapped = event if new is data else event[: match.start(1)] + bytes(new) + event[match.end(1) :]
    return b"".join([*map(_event, before), mapped])


def _event(data: Raw) -> bytes:
    """Return an event. Those of Anthropic, which have a type, are named after it."""
    kind = text_of((fields_of(data) or {}).get("type"))
    return (f"event: {kind}\n".encode() if kind else b"") + b"data: " + bytes(data) + b"\n\n"


async def _whole(pieces: AsyncIterator[bytes]) -> bytes:
    """Read everything. Raises TooLarge."""
    data = bytearray()
    async for piece in pieces:
        data += piece
        if len(data) > LARGEST:
            raise TooLarge(f"exceeds {LARGEST >> 20} MiB")
    return bytes(data)


async def _single(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _error(status: int, message: str) -> JSONResponse:
    """Return an error in the form of both OpenAI's and Anthropic's."""
    error = {"type": "proxy_error", "message": f"parapet proxy: {message}"}
    return JSONResponse({"type": "error", "error": error}, status)


async def serve(
    listener: socket.socket, upstream: str, sides: Mapping[str, Side], plain: str, log: IO[str] | None = None
) -> None:
    """Serve until Ctrl-C or a termination signal, without logs of requests. For arguments see :class:`Proxy`."""
    for name in ("httpx", "httpcore"):  # otherwise they log each request
        logging.getLogger(name).setLevel(logging.WARNING)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=_MOST_CONNECTIONS)
    timeout = httpx.Timeout(None, connect=_CONNECT_SECONDS)  # a model may think for long
    uses_proxies = urlsplit(upstream).hostname not in THIS_MACHINE
    async with httpx.AsyncClient(timeout=timeout, limits=limits, trust_env=uses_proxies) as client:
        proxy = Proxy(upstream, sides, plain, client, log)
        # Connections are kept as long as APIs do, so that clients do not use one that is about to be closed.
        kept = {"limit_concurrency": _MOST_CONNECTIONS, "timeout_keep_alive": 75}
        await web.Server(proxy, http="h11", date_header=False, **kept).serve(sockets=[listener])
