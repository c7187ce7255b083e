"""Protect the server: limits on connections, time, size and rate, and checks of hosts and origins."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import time
from collections import Counter
from collections.abc import Callable
from ipaddress import IPv6Address, IPv6Network, ip_address

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from parapet.transforms.crowd.serving.forms import policy

_HEADERS = {
    "Connection": "close",  # a connection is for one request, so that its deadline is the request's
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # "no-referrer" would make browsers send "Origin: null"
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_READ = 16  # a body that is too large is read up to this multiple of the limit, so that the client sees the reason


class Limits(msgspec.Struct, frozen=True):
    """Limits for a single client or for all together. An address is a whole network of 64 bits with IPv6.

    Attributes:
      connections: maximum number of open connections.
      connections_per_address: maximum number of open connections of one address.
      request_seconds: maximum time of a connection, which is for one request.
      body_bytes: maximum size of a request's body.
      requests_per_minute: the limit for a person, or for an address of unknown clients.
      failures_per_minute: wrong links and secrets per address.
      newcomers_per_hour: new participants of a study per address.
    """

    connections: int = 1_000
    connections_per_address: int = 100
    request_seconds: float = 30
    body_bytes: int = 512 * 1024
    requests_per_minute: int = 300
    failures_per_minute: int = 20
    newcomers_per_hour: int = 5


class Rate:
    """Counts the events of each client in a window of time, which begins with the first event after the last window.

    Args:
      most: maximum number of events in a window.
      seconds: the length of a window.
      now: the clock, in seconds.
    """

    def __init__(self, most: int, seconds: float = 60, now: Callable[[], float] = time.monotonic) -> None:
        self.most, self.seconds, self.now = most, seconds, now
        self._until, self._counts = 0.0, Counter[str]()

    def is_over(self, client: str) -> bool:
        """Whether the client has reached the limit."""
        return self._counts[client] >= self.most and self.now() < self._until

    def add(self, client: str, n: int = 1) -> None:
        """Count events."""
        if (now := self.now()) >= self._until:
            self._until, self._counts = now + self.seconds, Counter()
        self._counts[client] += n


def connections(limits: Limits) -> type[H11Protocol]:
    """Return uvicorn's protocol class with limits on the number of connections and their time, which uvicorn lacks."""

    class Limited(H11Protocol):
        address = ""
        deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.deadline = self.loop.call_later(limits.request_seconds, transport.abort)
            peer = self.client[0] if self.client else ""
            if peer not in getattr(self.config.loaded_app, "trusted_hosts", ()):  # not the proxy
                self.address = _network(peer)
            same = sum(getattr(other, "address", "") == self.address for other in self.connections)
            if len(self.connections) > limits.connections or (self.address and same > limits.connections_per_address):
                transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            if self.deadline is not None:
                self.deadline.cancel()
            super().connection_lost(exc)

    return Limited


Answer = Callable[[Request, bytes], Response]


class Guard:
    """ASGI application that checks every request before it is answered, and adds security headers to every response.

    Args:
      answer: answers a request, whose body is the second argument. It is called in a thread.
      client: identifies the sender of a request. A team may share an address, so known people have their own limits.
      origin: scheme, host and port under which browsers reach the server.
      limits: see :class:`Limits`.
    """

    def __init__(self, answer: Answer, client: Callable[[Request], str], origin: str, limits: Limits) -> None:
        self.answer, self.client, self.origin, self.limits = answer, client, origin, limits
        self.host = origin.partition("://")[2]
        self._requests = Rate(limits.requests_per_minute)
        self._current = Counter[str]()  # requests in work, by address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI request."""
        request = Request(scope)
        sender = address(request)
        self._current[sender] += 1
        try:
            response = await self._response(request, sender, receive)
        except ClientDisconnect:
            return
        finally:
            self._current -= Counter([sender])  # which drops zeros
        response.headers.setdefault("Content-Security-Policy", policy())
        response.headers.update(_HEADERS)
        if self.origin.startswith("https:"):
            response.headers["Strict-Transport-Security"] = "max-age=31536000"
        await response(scope, receive, send)

    async def _response(self, request: Request, sender: str, receive: Receive) -> Response:
        if self._current[sender] > self.limits.connections_per_address:
            return plain("too many requests at once", 429)
        refusal = self._refusal(request)
        body = await _body(receive, self.limits.body_bytes)
        if refusal or body is None:
            return refusal or plain("the request is too large", 413)
        try:
            return await run_in_threadpool(self.answer, request, body)
        except Exception as error:
            # The traceback and the address could identify the person.
            logging.error("a request failed: %s", type(error).__name__)
            return plain("the server failed", 500)

    def _refusal(self, request: Request) -> Response | None:
        headers, client = request.headers, self.client(request)
        if self._requests.is_over(client):
            return plain("too many requests: wait a minute", 429)
        self._requests.add(client)
        if headers.get("host", "").lower() != self.host:
            return plain("this server does not serve this address: see --public_url", 421)
        if request.method not in ("GET", "HEAD", "POST"):
            return plain("only GET and POST are allowed", 405)
        if request.method == "POST" and headers.get("origin") != self.origin:
            return plain("the request was sent from another site", 403)
        if "transfer-encoding" in headers and "content-length" in headers:
            return plain("the length of the request is not clear", 400)
        return None


async def _body(receive: Receive, limit: int) -> bytes | None:
    """Read the body of a request; None if it exceeds the limit. Raises ClientDisconnect if it does not come."""
    parts, size, more = [], 0, True
    while more and size <= _READ * limit:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part, more = message.get("body", b""), message.get("more_body", False)
        size += len(part)
        if size <= limit:
            parts.append(part)
    return b"".join(parts) if size <= limit else None


def plain(text: str, status: int) -> Response:
    """Return a plain-text response of one line."""
    return PlainTextResponse(f"{text}\n", status)


def address(request: Request) -> str:
    """Return the client's address, or its network with IPv6; may be empty."""
    return _network(request.client.host) if request.client else ""


def _network(host: str) -> str:
    try:
        ip = ip_address(host)
    except ValueError:
        return host[:64]
    if isinstance(ip, IPv6Address):
        return str(ip.ipv4_mapped or IPv6Network((int(ip), 64), strict=False))
    return str(ip)


def sign(key: bytes, *parts: str) -> str:
    """Sign several texts, without NULs, with a key (HMAC-SHA256, 40 hex digits)."""
    return hmac.new(key, "\0".join(parts).encode(), hashlib.sha256).hexdigest()[:40]


def is_same(one: str, other: str) -> bool:
    """Compare two texts in constant time."""
    return hmac.compare_digest(one.encode(), other.encode())
