"""The proxy between clients and one upstream: over HTTP, with an address below ``/x/`` for each variant, and stdio."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar, cast
from urllib.parse import urlsplit

import httpx
from msgspec import Raw
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from parapet.schemas.errors import InputError
from parapet.transforms.core import disk, fence, web
from parapet.transforms.proxy import conversation, raw_json, statistics
from parapet.transforms.proxy.raw_json import fields_of, text_of
from parapet.transforms.proxy.statistics import Statistics
from parapet.transforms.variants.tool_variants import TaskVariant

_PATHS = ("/chat/completions", "/responses", "/responses/input_tokens", "/messages", "/messages/count_tokens")
_NO_TOOLS = Raw(b"[]")
_CALL = "tools/call"
_TOOLS = re.compile(rb'"tools"|' + raw_json.ESCAPED_LETTER)
_MOST_TOOLSETS = 256  # that are remembered, since an agent sends the same tools with each request


class Forwarded(NamedTuple):
    """A request as it is sent upstream.

    Attributes:
      body: its body.
      answer: maps its answer; None to pass it as it is.
      headers: those that change.
    """

    body: bytes
    answer: Mapped | None
    headers: Mapping[str, str] = {}


class Record:
    """The tools that pass by, under their original names, in a file that ``--schemas`` takes.

    Args:
      path: the file; None to write none.

    Attributes:
      offered: requests by the original name of the tools in them.
      called: calls by the original name of the tool.
    """

    def __init__(self, path: Path | None) -> None:
        self._path, self._definitions = path, dict[str, Any]()
        self.offered, self.called = Counter[str](), Counter[str]()

    def add(self, tools: conversation.RewordedTools) -> None:
        """Records tools; of several with one name, the first. A new one is written at once."""
        self.offered.update([*tools.definitions])
        if new := {name: raw for name, raw in tools.definitions.items() if name not in self._definitions}:
            self._definitions |= new
            self.write()

    def write(self) -> None:
        """Writes the file, with how often each tool was offered and called."""
        usage = [
            {"tool": tool, "offered": self.offered[tool], "called": self.called[tool]} for tool in self._definitions
        ]
        if self._path and usage:
            content = json.dumps({"tools": [*self._definitions.values()], "usage": usage}, indent=2)
            try:
                disk.write(self._path, f"{content}\n".encode())
            except OSError as error:  # requests pass all the same
                logging.error("--record: %s cannot be written: %s", self._path, error.strerror)


class Side(ABC):
    """The requests of one variant.

    Attributes:
      statistics: what was done.

    Args:
      variant: the variant of the tools; None for the original.
      record: records the tools.
    """

    def __init__(self, variant: TaskVariant | None, record: Record) -> None:
        self.statistics, self.record = statistics.Statistics(record.called), record
        self._rewording = lru_cache(_MOST_TOOLSETS)(partial(conversation.RewordedTools, variant=variant))

    def reworded(self, data: Raw) -> conversation.RewordedTools:
        """Returns tools in the variant; counts and records them."""
        tools = self._rewording(bytes(data))
        self.statistics.count_tools(tools)
        self.record.add(tools)
        return tools

    @abstractmethod
    def request(self, path: str, body: bytes, headers: Mapping[str, str]) -> Forwarded:
        """Returns a request as it is sent upstream."""


class ModelSide(Side):
    """The requests to a model's API.

    Args:
      variant, record: see :class:`Side`.
      perturb: changes what users say; None to pass it as it is.
    """

    def __init__(self, variant: TaskVariant | None, record: Record, perturb: conversation.Change | None = None) -> None:
        super().__init__(variant, record)
        self._perturb = perturb

    def request(self, path: str, body: bytes, headers: Mapping[str, str]) -> Forwarded:
        """Rewords a request of the APIs that are known."""
        if not path.endswith(_PATHS) or not body:
            return Forwarded(body, None)
        self.statistics.counts["requests"] += 1
        fields = raw_json.fields_of(body) or raw_json.fields_of(raw_json.without_halves(body))
        if fields is None:
            return Forwarded(body, None)
        tools = self.reworded(fields.get("tools", _NO_TOOLS))
        reworded = conversation.reworded_request(fields, tools, self._perturb)
        repeated = {name: value for name, value in fields.items() if reworded[name] is not value}
        new = body if reworded is fields else bytes(raw_json.encoded(reworded))
        return Forwarded(new, conversation.Answer(tools, self.statistics, repeated))


class ToolServerSide(Side):
    """The messages between an MCP client, under the variant's names, and a server, under the original ones."""

    def __init__(self, variant: TaskVariant | None, record: Record) -> None:
        super().__init__(variant, record)
        self._tools: dict[str, conversation.OtherTool] = {}  # by name in the variant; a list of tools may come in pages

    def request(self, path: str, body: bytes, headers: Mapping[str, str]) -> Forwarded:
        """Maps a request over HTTP, of which newer clients repeat the name of the tool in a header."""
        tool = self._tools.get(headers.get("mcp-name", "")) if headers.get("mcp-method") == _CALL else None
        return Forwarded(bytes(self.to_server(Raw(body))), self, {"mcp-name": tool.name} if tool else {})

    def to_server(self, data: Raw) -> Raw:
        """Maps a call of a tool in a message of the client."""

        def call(params: raw_json.Fields) -> raw_json.Fields:
            called = conversation.Call(raw_json.text_of(params.get("name")) or "", self._tools)
            params = called.renamed(params)
            called.count(self.statistics)
            return params

        def message(fields: raw_json.Fields) -> raw_json.Fields:
            self.statistics.counts["requests"] += "id" in fields and "method" in fields
            return (
                raw_json.edited_fields(fields, ("params",), call)
                if raw_json.text_of(fields.get("method")) == _CALL
                else fields
            )

        return raw_json.edited(data, (), message)

    def whole(self, data: Raw) -> Raw:
        """Rewords the tools in a message of the server."""
        return raw_json.edited(data, ("result",), self._result)

    def concerns(self, data: bytes) -> bool:
        """Whether a part of a stream may list tools."""
        return _TOOLS.search(data) is not None

    def events(self, data: Raw) -> list[Raw]:
        """Rewords the tools in a message of a stream."""
        return [self.whole(data)]

    def end(self) -> None:
        """Does nothing: messages are whole."""

    def _result(self, fields: raw_json.Fields) -> raw_json.Fields:
        if "tools" not in fields:
            return fields
        tools = self.reworded(fields["tools"])
        self._tools |= tools.by_name
        return {**fields, "tools": tools.sent} if tools.reworded else fields


Mapped = conversation.Answer | ToolServerSide


def write_log(log: IO[str], source: str, **texts: bytes) -> None:
    """Appends a line: the path or the sender of messages, and their texts."""
    line = {name: text.decode("utf-8", "replace") for name, text in texts.items()}
    log.write(json.dumps({"from": source, **line}) + "\n")
    log.flush()


_MOST_TEXTS = 10_000  # that are remembered, since a conversation is sent again with each request


def perturbing(name: str, seed: str) -> conversation.Change:
    """Returns a function that perturbs a text, always in the same way; one that cannot be perturbed stays.

    Raises:
      InputError: there is no such perturbation, or it needs more than texts.
    """
    from parapet.transforms.perturb.apply import perturb_texts

    perturb_texts(["I need a taxi"], name, None, (), {"seed": seed})

    @lru_cache(_MOST_TEXTS)
    def perturbed(text: str) -> str:
        try:
            return perturb_texts([text], name, None, (), {"seed": seed})[0]
        except (InputError, UnicodeError):  # halves of surrogate pairs
            return text

    return perturbed


LARGEST = 64 << 20  # bytes of a request, of an answer that is not streamed, and of an event or message
STATISTICS = "/parapet/statistics"

_CONNECT_SECONDS = 30
_MOST_CONNECTIONS = 1_000
_MOST_PIECES = 256  # of a stream that wait for a slow client
_OF_VARIANT = re.compile(r"/x/([^/]+)(/.*|)")
# Headers of one connection, and those that are made anew.
_OWN = (
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer"),
    *("transfer-encoding", "upgrade", "expect", "host", "content-length"),
)
_DATA = re.compile(rb"^data:[ ]?([^\r\n]*)", re.MULTILINE)
_END_OF_EVENT = re.compile(rb"\n\r?\n|\r\r")
_COMPLETE_EVENTS = re.compile(rb".*(?:\n\r?\n|\r\r)", re.DOTALL)

Result = TypeVar("Result")
Header = tuple[bytes, bytes]


class TooLarge(Exception):
    """A request, an answer or an event exceeds the limit."""


class Upstream:
    """Sends requests, each over a connection that no other uses meanwhile.

    A client with many connections looks at all of them whenever a request begins or ends. So each has only one.

    Args:
      uses_proxies: whether to use the proxies that the environment names.
    """

    def __init__(self, uses_proxies: bool) -> None:
        self._uses_proxies, self._certificates = uses_proxies, httpx.create_ssl_context()
        self._idle: list[httpx.AsyncClient] = []

    @asynccontextmanager
    async def response_to(self, request: httpx.Request) -> AsyncIterator[httpx.Response]:
        """Sends a request. Its connection is kept until the end of the program, or until the upstream closes it."""
        timeout = httpx.Timeout(None, connect=_CONNECT_SECONDS)  # a model may think for long
        client = (
            self._idle.pop()
            if self._idle
            else httpx.AsyncClient(timeout=timeout, trust_env=self._uses_proxies, verify=self._certificates)
        )
        try:
            async with aclosing(await client.send(request, stream=True)) as response:
                yield response
        finally:
            self._idle.append(client)

    async def aclose(self) -> None:
        """Closes the connections."""
        for client in self._idle:
            await client.aclose()


class Proxy:
    """The ASGI application.

    Args:
      upstream: the address that requests go to.
      sides: what is done with the requests of each variant, by its name.
      plain: the variant of addresses that name none.
      client: sends requests to the upstream.
      log: receives requests and answers, a line each; None to keep none.
    """

    def __init__(
        self, upstream: str, sides: Mapping[str, Side], plain: str, client: Upstream, log: IO[str] | None
    ) -> None:
        self._url, self._base = httpx.URL(upstream), urlsplit(upstream).path.rstrip("/")
        self._sides, self._plain, self.client, self.log = sides, plain, client, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles an ASGI request; if the client goes away, ends its upstream request."""
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
        """Returns the address for a path, which may repeat that of the upstream, such as ``/v1``."""
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
        """Sends the request, and passes its answer on as it arrives."""
        forwarded = self._timed(self._side.request, self._path, self._body, self._request.headers)
        try:
            async with self._proxy.client.response_to(self._upstream_request(forwarded)) as response:
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
        pieces, decoded = cast("AsyncGenerator[bytes, None]", response.aiter_raw()), list[str]()
        if answer is not None and kind.startswith("text/event-stream"):
            pieces, length, decoded = self._events(response, answer), None, ["content-encoding"]
        elif answer is not None and "json" in kind:
            data = bytes(self._timed(answer.whole, Raw(await _whole(response.aiter_bytes()))))
            pieces, length, decoded = _single(data), str(len(data)), ["content-encoding"]
        headers = _without(response.headers.raw, *decoded)
        headers += [(b"content-length", length.encode())] if length is not None else []
        self._has_begun = True
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        async with aclosing(pieces):
            async for piece in pieces:
                if self._proxy.log:
                    self._passed += piece[: LARGEST - len(self._passed)]
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})

    async def _events(self, response: httpx.Response, answer: Mapped) -> AsyncGenerator[bytes, None]:
        """Yields the events of a stream as they are complete; those that arrive together, in one piece."""
        rest, searched = b"", 0
        async with aclosing(_joined(response.aiter_bytes())) as pieces:
            async for piece in pieces:
                rest += piece
                if match := _COMPLETE_EVENTS.match(rest, searched):
                    complete, rest = rest[: match.end()], rest[match.end() :]
                    yield self._timed(mapped_events, complete, answer)
                searched = max(0, len(rest) - 3)
                if len(rest) > LARGEST:
                    raise TooLarge
        yield self._timed(mapped_events, rest, answer)  # a last event that is not ended


async def _joined(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yields what has arrived since the last time. A network's packet may contain many pieces."""
    queue = asyncio.Queue[bytes | Exception | None](_MOST_PIECES)

    async def read() -> None:  # does not yield to other tasks until it waits for the network
        end = None
        try:
            async for piece in pieces:
                await queue.put(piece)
        except Exception as error:
            end = error
        await queue.put(end)

    reader = asyncio.create_task(read())
    try:
        end: bytes | Exception | None = b""
        while isinstance(end, bytes):
            arrived = [await queue.get(), *(queue.get_nowait() for _ in range(queue.qsize()))]
            end = arrived[-1]
            if data := b"".join(piece for piece in arrived if isinstance(piece, bytes)):
                yield data
        if end is not None:
            raise end
    finally:
        reader.cancel()
        await asyncio.wait([reader])


def _without(headers: Iterable[Header], *names: str) -> list[Header]:
    """Returns the headers that are passed on, without some more."""
    left_out = {name.encode() for name in (*_OWN, *names)}
    return [(name.lower(), value) for name, value in headers if name.lower() not in left_out]


def mapped_events(data: bytes, answer: Mapped) -> bytes:
    """Maps server-sent events. What has nothing to do with calls passes without being read."""
    if not answer.concerns(data):
        return data
    ends = [0, *(match.end() for match in _END_OF_EVENT.finditer(data)), len(data)]
    return b"".join(_mapped_event(data[start:end], answer) for start, end in pairwise(ends))


def _mapped_event(event: bytes, answer: Mapped) -> bytes:
    """Maps the data of an event, which APIs write on one line. Further events may come before it."""
    if (match := _DATA.search(event)) is None:
        return event
    data = Raw(match[1])
    *before, new = answer.events(data)
    mapped = event if new is data else event[: match.start(1)] + bytes(new) + event[match.end(1) :]
    return b"".join([*map(_event, before), mapped]) if before else mapped


def _event(data: Raw) -> bytes:
    """Returns an event. Those of Anthropic, which have a type, are named after it."""
    kind = text_of((fields_of(data) or {}).get("type"))
    return (f"event: {kind}\n".encode() if kind else b"") + b"data: " + bytes(data) + b"\n\n"


async def _whole(pieces: AsyncIterator[bytes]) -> bytes:
    """Reads everything. Raises TooLarge."""
    data = bytearray()
    async for piece in pieces:
        data += piece
        if len(data) > LARGEST:
            raise TooLarge(f"exceeds {LARGEST >> 20} MiB")
    return bytes(data)


async def _single(data: bytes) -> AsyncGenerator[bytes, None]:
    yield data


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _error(status: int, message: str) -> JSONResponse:
    """Returns an error in the form of both OpenAI's and Anthropic's."""
    error = {"type": "proxy_error", "message": f"parapet proxy: {message}"}
    return JSONResponse({"type": "error", "error": error}, status)


async def serve(
    listener: socket.socket, upstream: str, sides: Mapping[str, Side], plain: str, log: IO[str] | None = None
) -> None:
    """Serves until Ctrl-C or a termination signal, without logs of requests. For arguments see :class:`Proxy`."""
    for name in ("httpx", "httpcore"):  # otherwise they log each request
        logging.getLogger(name).setLevel(logging.WARNING)
    async with aclosing(Upstream(urlsplit(upstream).hostname not in fence.THIS_MACHINE)) as client:
        proxy = Proxy(upstream, sides, plain, client, log)
        # Connections are kept as long as APIs do, so that clients do not use one that is about to be closed.
        kept = {"limit_concurrency": _MOST_CONNECTIONS, "timeout_keep_alive": 75}
        await web.Server(proxy, http="h11", date_header=False, **kept).serve(sockets=[listener])


def serve_stdio(command: Sequence[str], side: ToolServerSide, log: IO[str] | None) -> int:
    """Passes messages until the server ends, as it does when the client closes its stdin. Returns its exit status.

    Args:
      command: the server's command.
      side: what is done with messages.
      log: receives all messages; None to keep none.

    Raises:
      InputError: the command cannot be run.
    """
    try:
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
    except OSError as error:
        raise InputError(f"cannot be run: {error.strerror}", command[0], "--mcp") from None
    assert server.stdin is not None
    assert server.stdout is not None
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    # Not sys.stdin: Python would wait at its end for the thread that reads it.
    from_client = open(sys.stdin.fileno(), "rb", closefd=False)  # noqa: SIM115
    relay = partial(_relay, statistics=side.statistics, log=log)
    threading.Thread(target=relay, args=("client", from_client, server.stdin, side.to_server), daemon=True).start()
    relay("server", server.stdout, sys.stdout.buffer, side.whole)
    return server.wait()


def _relay(
    sender: str,
    source: IO[bytes],
    target: IO[bytes],
    change: Callable[[Raw], Raw],
    statistics: Statistics,
    log: IO[str] | None,
) -> None:
    """Passes messages, a line each, until the source ends or the target is closed."""
    with suppress(OSError, ValueError), target:
        for line in iter(lambda: source.readline(LARGEST), b""):
            message = Raw(line.rstrip(b"\r\n"))
            begun = time.perf_counter()
            changed = change(message)
            statistics.count_time(time.perf_counter() - begun)
            target.write(line if changed is message else bytes(changed) + b"\n")
            target.flush()
            if log:
                write_log(log, sender, received=bytes(message), sent=bytes(changed))
