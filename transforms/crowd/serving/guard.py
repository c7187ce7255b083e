"""Protect the server: limits on connections, time, size and rate, and checks of hosts and origins."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import time
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from parapet.transforms.crowd.serving.forms import policy


class Limits(msgspec.Struct, frozen=True):
    """Limits for a single client or for all together.

    Attributes:
      connections: maximum number of open connections.
      request_seconds: maximum time from the first byte of a request to the last of its response.
      body_bytes: maximum size of a request's body.
      requests_per_minute: the limit for a person, or for an address of unknown clients.
      failures_per_minute: wrong links and secrets per address.
    """

    connections: int = 1_000
    request_seconds: float = 30
    body_bytes: int = 512 * 1024
    requests_per_minute: int = 300
    failures_per_minute: int = 20


class Rate:
    """A rate limiter that counts each client's events in windows of a minute, beginning with its first event.

    Args:
      per_minute: maximum number of events.
      now: the clock, in seconds.
    """

    MOST_CLIENTS = 50_000

    def __init__(self, per_minute: int, now: Callable[[], float] = time.monotonic) -> None:
        self.per_minute, self.now = per_minute, now
        self._counts: dict[str, tuple[float, int]] = {}

    def is_over(self, client: str) -> bool:
        """Whether the client has reached the limit."""
        since, n = self._counts.get(client, (0.0, 0))
        return n >= self.per_minute and self.now() - since < 60

    def add(self, client: str) -> None:
        """Count an event."""
        now = self.now()
        since, n = self._counts.get(client, (now, 0))
        self._counts[client] = (now, 1) if now - since >= 60 else (since, n + 1)
        if len(self._counts) > self.MOST_CLIENTS:
            self._counts = {person: count for person, count in self._counts.items() if now - count[0] < 60}


def connections(limits: Limits) -> type[H11Protocol]:
    """Return uvicorn's protocol class with limits on connections and request time, which uvicorn lacks."""

    class Limited(H11Protocol):
        deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.abort()
                return
            self._begin()

        def data_received(self, data: bytes) -> None:
            if self.deadline is None:
                self._begin()
            super().data_received(data)

        def on_response_complete(self) -> None:
            self._end()
            super().on_response_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._end()
            super().connection_lost(exc)

        def _begin(self) -> None:
            self.deadline = self.loop.call_later(limits.request_seconds, self.transport.abort)

        def _end(self) -> None:
            if self.deadline is not None:
                self.deadline.cancel()
                self.deadline = None

    return Limited


class TooLarge(Exception):
    """The body of a request is larger than any form."""


class Guard:
    """ASGI middleware that checks every request before the application, and adds security headers to every response.

    Args:
      app: the application.
      origin: scheme, host and port under which browsers reach the server.
      limits: see :class:`Limits`.
      client: identifies the sender of a request. A team may share an address, so known people have their own limits.
    """

    def __init__(self, app: ASGIApp, origin: str, limits: Limits, client: Callable[[HTTPConnection], str]) -> None:
        self.app, self.origin, self.limits, self.client = app, origin, limits, client
        self.host = origin.partition("://")[2]
        self._requests = Rate(limits.requests_per_minute)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def respond(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = {**message, "headers": self._headers(message.get("headers", []))}
            await send(message)

        if refusal := self._refusal(scope):
            await refusal(scope, receive, respond)
            return
        try:
            await self.app(scope, self._limited(receive), respond)
        except ClientDisconnect:
            pass
        except Exception as error:
            # The traceback and the address could identify the person.
            logging.error("a request failed: %s", type(error).__name__)
            if not started:
                await plain("the server failed", 500)(scope, receive, respond)

    def _refusal(self, scope: Scope) -> Response | None:
        headers, client = Headers(scope=scope), self.client(HTTPConnection(scope))
        if self._requests.is_over(client):
            return plain("too many requests: wait a minute", 429, {"Retry-After": "60"})
        self._requests.add(client)
        if headers.get("host", "").lower() != self.host:
            return plain("this server does not serve this address: see --public_url", 421)
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return plain("only GET and POST are allowed", 405)
        if scope["method"] == "POST" and headers.get("origin") != self.origin:
            return plain("the request was sent from another site", 403)
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self.limits.body_bytes:
            return plain("the request is too large", 413)
        return None

    def _limited(self, receive: Receive) -> Receive:
        size = 0

        async def receive_part() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self.limits.body_bytes:  # chunked bodies do not announce their length
                raise TooLarge
            return message

        return receive_part

    def _headers(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        own = {
            b"content-security-policy": policy().encode(),
            b"x-content-type-options": b"nosniff",
            b"referrer-policy": b"same-origin",  # "no-referrer" would make browsers send "Origin: null"
            b"cross-origin-opener-policy": b"same-origin",
            b"cross-origin-resource-policy": b"same-origin",
            b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
            b"cache-control": b"no-store",
        }
        if self.origin.startswith("https:"):
            own[b"strict-transport-security"] = b"max-age=31536000"
        header_names = {name.lower() for name, _ in headers}
        return [*headers, *((name, value) for name, value in own.items() if name not in header_names)]


def plain(text: str, status: int, headers: dict[str, str] | None = None) -> Response:
    """Return a plain-text response of one line."""
    return PlainTextResponse(f"{text}\n", status, headers)


def address(scope: Scope) -> str:
    """Return the client's address, or an empty string."""
    client: Any = scope.get("client")
    return str(client[0]) if client else ""


def sign(key: bytes, *parts: str) -> str:
    """Sign several texts, without NULs, with a key (HMAC-SHA256, 40 hex digits)."""
    return hmac.new(key, "\0".join(parts).encode(), hashlib.sha256).hexdigest()[:40]


def is_same(one: str, other: str) -> bool:
    """Compare two texts in constant time."""
    return hmac.compare_digest(one.encode(), other.encode())
