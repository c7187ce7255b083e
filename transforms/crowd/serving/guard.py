"""Protect the server: limits on connections, time, size and rate, and checks of hosts and origins."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_network

from starlette.requests import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS = {
    "Connection": "close",  # a connection is for one request, so that its deadline is the request's
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # "no-referrer" would make browsers send "Origin: null"
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Strict-Transport-Security": "max-age=31536000",  # which browsers ignore without TLS
}
MAX_BYTES = 512 * 1024  # of a request's body
MAX_CONNECTIONS = 1_000
MAX_SECONDS = 30.0  # of a connection
MAX_AT_ONCE = 100  # requests of one address that are being answered
MAX_PER_MINUTE = 300  # requests of a person, or of an address of unknown clients
MAX_NEWCOMERS = 5  # participants of a study who are new, from one address in an hour


class Rate:
    """Counts the events of each client in a window of time, which begins with the first event after the last window.

    Args:
      most: maximum number of events in a window.
      seconds: the length of a window.
      now: the clock, in seconds.
    """

    def __init__(self, most: int, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self.most, self.seconds, self.now = most, seconds, now
        self._until, self._counts = 0.0, Counter[str]()

    def exceeded(self, client: str) -> bool:
        """Count an event, and return whether the client has had more than allowed."""
        if (now := self.now()) >= self._until:
            self._until, self._counts = now + self.seconds, Counter()
        self._counts[client] += 1
        return self._counts[client] > self.most


class Protocol(H11Protocol):
    """uvicorn's protocol with limits on the number of connections and their time, which uvicorn lacks."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection."""
        super().connection_made(transport)
        self.deadline = self.loop.call_later(MAX_SECONDS, transport.abort)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        self.deadline.cancel()
        super().connection_lost(exc)


class Refused(Exception):
    """A request is answered by a message: its arguments are the status, a title and perhaps a text."""


async def read_body(request: Request) -> bytes:
    """Read the body of a request, to its end so that the client sees the reason of a refusal.

    Raises Refused if it is too large.
    """
    body = b""
    async for part in request.stream():
        body = (body + part)[: MAX_BYTES + 1]
    if len(body) > MAX_BYTES:
        raise Refused(413, "The request is too large")
    return body


def check_origin(request: Request, origin: str) -> None:
    """Raise Refused if a request is not for this server, or another site sends it in a person's name.

    A POST needs our own origin, as every browser sends it, and cookies are SameSite.
    """
    if request.headers.get("host", "").lower() != origin.partition("://")[2]:
        raise Refused(421, "This server does not serve this address", "See --public_url.")
    if request.method == "POST" and request.headers.get("origin") != origin:
        raise Refused(403, "The request was sent from another site")


def address(request: Request) -> str:
    """Return the client's address, or its network of 64 bits with IPv6; may be empty."""
    host = request.client.host if request.client else ""
    with suppress(ValueError):  # of other addresses
        return str(ip_network(f"{host}/64", strict=False))
    return host[:64]


def sign(key: bytes, text: str) -> str:
    """Sign a text with a key (HMAC-SHA256, 40 hex digits)."""
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:40]
