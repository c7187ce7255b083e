"""Measures the time that ``parapet proxy`` adds to a request, its CPU time for each, and its memory.

    python -m benchmarks.proxy [--requests 600] [--seconds 0.1]

A scripted model answers after a fixed time with a call of one of ten tools, whole and streamed. It, the proxy and the
client are processes of their own. The added time is the difference of the percentiles of the same requests with the
proxy and without.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse

from parapet.schemas.tools import ToolVariant, read_tools
from parapet.transforms.core import web

_PROPERTIES = {
    "user_id": {"type": "string", "description": "Who asks"},
    "filters": {
        "type": "array",
        "items": {"type": "object", "properties": {"field": {"type": "string"}, "values": {"type": "array"}}},
    },
}
_ARGUMENTS = {"user_id": "u7", "filters": [{"field": "city", "values": ["Oslo"]}, {"field": "day", "values": [1]}]}
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


def model(seconds: float) -> Any:
    """Returns the scripted model, an ASGI application."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        request = await Request(scope, receive).json()
        function = request["tools"][3]["function"]
        names = [*function["parameters"]["properties"]]
        arguments = json.dumps(dict(zip(names, _ARGUMENTS.values(), strict=True)))
        call = {"index": 0, "id": "1", "type": "function", "function": {"name": function["name"], "arguments": ""}}
        await asyncio.sleep(seconds)
        if not request.get("stream"):
            call["function"]["arguments"] = arguments
            await JSONResponse({"choices": [{"message": {"tool_calls": [call]}}]})(scope, receive, send)
            return
        pieces = [{"index": 0, "function": {"arguments": arguments[i : i + 4]}} for i in range(0, len(arguments), 4)]
        chunks = ({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in [call, *pieces])
        events = (f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
        await StreamingResponse(events, media_type="text/event-stream")(scope, receive, send)

    return app


def serve_model(seconds: float) -> None:
    """Serves the scripted model, and prints its address."""
    listener = web.listen("127.0.0.1", 0)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", flush=True)
    web.Server(model(seconds)).run(sockets=[listener])


async def times(url: str, connections: int, requests: int, is_streamed: bool) -> list[float]:
    """Returns the milliseconds of each request."""
    messages = [{"role": "user", "content": "What is on in Oslo? " * 20} for _ in range(20)]
    content = {"model": "m", "messages": messages, "tools": _TOOLS, "stream": is_streamed}
    taken: list[float] = []
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:

        async def ask(n: int) -> None:
            for _ in range(n):
                begun = time.perf_counter()
                (await client.post(f"{url}/chat/completions", json=content)).raise_for_status()
                taken.append(1000 * (time.perf_counter() - begun))

        await asyncio.gather(*(ask(3) for _ in range(connections)))
        taken.clear()
        await asyncio.gather(*(ask(requests // connections) for _ in range(connections)))
    return sorted(taken)


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


def main() -> int:
    """Prints the table."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--requests", type=int, default=600)
    flags.add_argument("--seconds", type=float, default=0.1, help="the time in which the model answers")
    flags.add_argument("--model", action="store_true", help=argparse.SUPPRESS)
    args = flags.parse_args()
    if args.model:
        serve_model(args.seconds)
        return 0
    own = [sys.executable, "-m", "benchmarks.proxy", "--model", f"--seconds={args.seconds}"]
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(own, stdout=subprocess.PIPE, text=True) as upstream:
        assert upstream.stdout is not None
        write_variant(Path(folder))
        address = upstream.stdout.readline().strip()
        command = [
            sys.executable,
            "-m",
            "parapet",
            "proxy",
            "--variants",
            f"{folder}/variants",
            "--variant=v1",
            "--port=0",
        ]
        with subprocess.Popen([*command, "--upstream", address], stdout=subprocess.PIPE, text=True) as proxy:
            assert proxy.stdout is not None
            proxied = proxy.stdout.readline().split()[0]
            print(f"{'connections':12}{'answer':>10}{'p50 added':>14}{'p99 added':>14}{'CPU':>12}{'memory':>12}")
            for connections in (1, 32):
                for is_streamed in (False, True):
                    count = args.requests if connections > 1 else args.requests // 6
                    direct = asyncio.run(times(address, connections, count, is_streamed))
                    before = cpu_seconds(proxy.pid)
                    through = asyncio.run(times(proxied, connections, count, is_streamed))
                    cpu = 1000 * (cpu_seconds(proxy.pid) - before) / (len(through) + 3 * connections)
                    added = [through[int(len(through) * q)] - direct[int(len(direct) * q)] for q in (0.5, 0.99)]
                    kind = "streamed" if is_streamed else "whole"
                    line = f"{connections:<12}{kind:>10}{added[0]:>11.1f} ms{added[1]:>11.1f} ms"
                    print(f"{line}{cpu:>9.1f} ms{resident(proxy.pid):>9.0f} MB", flush=True)
            proxy.terminate()
            proxy.communicate()
        upstream.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
