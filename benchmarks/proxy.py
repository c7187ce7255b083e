"""Measures the time that ``parapet proxy`` adds to a request, its CPU time for each, and its memory.

    python -m benchmarks.proxy [--rounds 20] [--seed 0]

A scripted model calls one of ten tools. It, the proxy and the client are processes of their own. Its answers are

- whole, after 0.1 to 0.4 seconds;
- streamed, as models do it: 60 events over 0.6 to 1.2 seconds, at random moments;
- burst, the worst case: all clients begin in the same moment, and all events of all answers are sent in one moment.

Clients of whole and streamed answers begin at random moments.

Each request is sent to the model directly and through the proxy, with the same moments in both. The added time is the
difference, to the first event of an answer and to its end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from parapet.schemas.tools import ToolVariant, read_tools

EVENTS = 60  # of a streamed answer, the first of which has the name of the tool
_SECONDS_BEFORE = 0.1, 0.4  # until the model answers, at least and at most
_WINDOW = 1.0  # seconds within which clients begin
_PROPERTIES = {
    "user_id": {"type": "string", "description": "Who asks"},
    "filters": {
        "type": "array",
        "items": {"type": "object", "properties": {"field": {"type": "string"}, "values": {"type": "array"}}},
    },
}
_CITIES = [f"Oslo {i}" for i in range(12)]
_ARGUMENTS = {"user_id": "u7", "filters": [{"field": "city", "values": _CITIES}, {"field": "day", "values": [1]}]}
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"find_things_{i}",
            "description": f"Finds things of kind {i}, in any city and on any day",
            "parameters": {"type": "object", "properties": _PROPERTIES, "required": ["user_id"]},
        },
    }
    for i in range(10)
]
_LENGTH = re.compile(rb"^content-length: *(\d+)", re.IGNORECASE | re.MULTILINE)


class Taken(NamedTuple):
    """Milliseconds of a request until the first event of its answer, and until the end."""

    first: float
    end: float


def answer_to(request: dict[str, Any]) -> Iterator[bytes]:
    """Yields the answer of the scripted model: one text, or the events of a stream."""
    function = request["tools"][3]["function"]
    names = [*function["parameters"]["properties"]]
    arguments = json.dumps(dict(zip(names, _ARGUMENTS.values(), strict=True)))
    call = {"index": 0, "id": "1", "type": "function", "function": {"name": function["name"], "arguments": ""}}
    if not request["stream"]:
        call["function"]["arguments"] = arguments
        yield json.dumps({"choices": [{"message": {"role": "assistant", "tool_calls": [call]}}]}).encode()
        return
    cuts = [round(len(arguments) * i / (EVENTS - 2)) for i in range(EVENTS - 1)]
    pieces = [{"index": 0, "function": {"arguments": arguments[a:b]}} for a, b in pairwise(cuts)]
    fixed = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m"}
    for piece in [call, *pieces]:
        choice = {"index": 0, "delta": {"tool_calls": [piece]}, "logprobs": None, "finish_reason": None}
        yield f"data: {json.dumps({**fixed, 'choices': [choice]})}\n\n".encode()
    yield b"data: [DONE]\n\n"


async def answer_requests(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers the requests of a connection, as the scripted model does."""
    while head := await reader.read(65_536):
        while b"\r\n\r\n" not in head:
            head += await reader.read(65_536)
        head, _, body = head.partition(b"\r\n\r\n")
        match = _LENGTH.search(head)
        assert match is not None
        request = json.loads(body + await reader.readexactly(int(match[1]) - len(body)))
        draw = random.Random(request["seed"])
        await asyncio.sleep(draw.uniform(*_SECONDS_BEFORE) if request["is_paced"] else _SECONDS_BEFORE[0])
        events = [*answer_to(request)]
        if not request["stream"]:
            length = f"content-length: {len(events[0])}\r\n\r\n".encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + length + events[0])
            continue
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        moments = sorted(draw.random() for _ in events)
        seconds = draw.uniform(0.6, 1.2) if request["is_paced"] else 0
        begun = time.perf_counter()
        for event, moment in zip(events, moments, strict=True):
            if seconds:
                await asyncio.sleep(max(0, begun + moment * seconds - time.perf_counter()))
            writer.write(b"%x\r\n%b\r\n" % (len(event), event))
        writer.write(b"0\r\n\r\n")


async def serve_model() -> None:
    """Serves the scripted model, and prints its address."""
    server = await asyncio.start_server(answer_requests, "127.0.0.1", 0, limit=1 << 20)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


class Client:
    """A client with a connection of its own.

    Args:
      url: the API's address.
      kind: "whole", "streamed" or "burst".
    """

    def __init__(self, url: str, kind: str) -> None:
        self._url, self._kind = urlsplit(url), kind

    async def connect(self) -> None:
        """Opens the connection."""
        self._reader, self._writer = await asyncio.open_connection(self._url.hostname, self._url.port)

    async def ask(self, seed: str) -> Taken:
        """Sends a request, and returns the time that it takes."""
        messages = [{"role": "user", "content": "What is on in Oslo? " * 20} for _ in range(20)]
        is_streamed, is_paced = self._kind != "whole", self._kind != "burst"
        request = {"model": "m", "messages": messages, "tools": _TOOLS, "stream": is_streamed}
        body = json.dumps({**request, "seed": seed, "is_paced": is_paced}).encode()
        head = f"POST {self._url.path}/chat/completions HTTP/1.1\r\nhost: model\r\ncontent-length: {len(body)}\r\n\r\n"
        begun, first, data = time.perf_counter(), 0.0, b""
        self._writer.write(head.encode() + body)
        while not self._is_whole(data):
            piece = await self._reader.read(65_536)
            assert piece, data
            data += piece
            if not first and b'"find_things_3"' in data:  # the original name
                first = time.perf_counter()
        assert first, data
        return Taken(1000 * (first - begun), 1000 * (time.perf_counter() - begun))

    def _is_whole(self, data: bytes) -> bool:
        if self._kind != "whole":
            return data.endswith(b"\r\n0\r\n\r\n")
        head, _, body = data.partition(b"\r\n\r\n")
        match = _LENGTH.search(head)
        return match is not None and len(body) == int(match[1])


async def times(url: str, kind: str, connections: int, rounds: int, seed: str) -> list[Taken]:
    """Returns the times of all requests, of which each client sends one after another."""
    clients = [Client(url, kind) for _ in range(connections)]

    async def ask(i: int) -> list[Taken]:
        if kind != "burst":
            await asyncio.sleep(random.Random(f"{seed} {i}").uniform(0, _WINDOW))
        return [await clients[i].ask(f"{seed} {i} {j}") for j in range(rounds)]

    for client in clients:
        await client.connect()
    await asyncio.gather(*(client.ask("first") for client in clients))  # opens the proxy's connections
    if kind != "burst":
        return [taken for each in await asyncio.gather(*map(ask, range(connections))) for taken in each]
    together = [await asyncio.gather(*(client.ask("") for client in clients)) for _ in range(rounds)]
    return [taken for each in zip(*together, strict=True) for taken in each]


def write_variant(folder: Path) -> None:
    """Writes variant v1 of the tools, in which each name ends in ``_x``."""
    path = folder / "tools.json"
    path.write_text(json.dumps(_TOOLS))
    file = read_tools(path)
    names = {f"tool/{tool.name}": f"{tool.name}_x" for tool in file.toolsets["tools"].tools}
    for tool in file.toolsets["tools"].tools:
        names |= {f"parameter/{tool.name}{each.pointer}": f"{each.name}_x" for each in tool.parameters.all}
    (folder / "variants" / "v1").mkdir(parents=True)
    for name, data in file.variant_files({"tools": ToolVariant(names, {})}).items():
        (folder / "variants" / "v1" / name).write_bytes(data)


def cpu_seconds(pid: int) -> float:
    """Returns the user and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    """Returns the megabytes of a process."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024


def p50_p99(differences: list[float]) -> str:
    """Returns the median and the 99th percentile, as they are printed."""
    percentiles = statistics.quantiles(differences, n=100, method="inclusive")
    return f"{percentiles[49]:.1f} / {percentiles[98]:.1f}"


def main() -> int:
    """Prints the table."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--rounds", type=int, default=20, help="requests of each client")
    flags.add_argument("--seed", default="0")
    flags.add_argument("--model", action="store_true", help=argparse.SUPPRESS)
    args = flags.parse_args()
    if args.model:
        asyncio.run(serve_model())
        return 0
    own = [sys.executable, "-m", "benchmarks.proxy", "--model"]
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(own, stdout=subprocess.PIPE, text=True) as upstream:
        assert upstream.stdout is not None
        write_variant(Path(folder))
        address = upstream.stdout.readline().strip()
        command = [sys.executable, "-m", "parapet", "proxy", "--variants", f"{folder}/variants", "--variant=v1"]
        command += ["--port=0", "--upstream", address]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
            assert proxy.stdout is not None
            proxied = proxy.stdout.readline().split()[0]
            print("clients  answer    first event: p50 / p99    end: p50 / p99    CPU of an answer    memory")
            for kind, connections in (("whole", 1), ("whole", 32), ("streamed", 1), ("streamed", 32), ("burst", 32)):
                rounds = args.rounds if connections > 1 else 2 * args.rounds
                direct = asyncio.run(times(address, kind, connections, rounds, args.seed))
                before = cpu_seconds(proxy.pid)
                through = asyncio.run(times(proxied, kind, connections, rounds, args.seed))
                cpu = 1000 * (cpu_seconds(proxy.pid) - before) / (len(through) + connections)
                added = [Taken(b.first - a.first, b.end - a.end) for a, b in zip(direct, through, strict=True)]
                first, end = p50_p99([each.first for each in added]), p50_p99([each.end for each in added])
                line = f"{connections:7}  {kind:10}{first:>20} ms{end:>15} ms{cpu:>17.2f} ms"
                print(f"{line}{resident(proxy.pid):>7.0f} MB", flush=True)
            proxy.terminate()
            proxy.communicate()
        upstream.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
