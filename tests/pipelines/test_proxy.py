"""``parapet proxy`` as a command: its addresses, what it says at the end, and MCP servers."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from chat_server import ChatServer
from kit import cases, lacking, refused, write
from tool_files import of_fields

from parapet.schemas.tools import ToolVariant, read_tools

GUEST = of_fields([], user_id={"type": "string"})
ROOMS = of_fields(["nights"], guest=GUEST, nights={"type": "integer"})
FIND = {"name": "find_rooms", "description": "Finds rooms", "inputSchema": ROOMS}
NEW = {"find_rooms": "seek_places", "guest": "visitor", "user_id": "customer", "nights": "stay"}
CALL = {"guest": {"user_id": "u7"}, "nights": 2}
RENAMED = {"visitor": {"customer": "u7"}, "stay": 2}

# An MCP server without the package: two tools, of which the second comes after a call of the first.
SERVER = """
import json, sys
tools = [json.loads(sys.argv[1])]
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "stop":
        sys.exit(3)
    if "id" not in message:
        continue
    result = {}
    if message["method"] == "tools/list":
        result = {"tools": tools, "nextCursor": "n", "_meta": {"x": 1.10}}
    if message["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": json.dumps(message["params"])}]}
        tools.append({"name": "late", "inputSchema": {"type": "object"}})
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), flush=True)
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def write_variants(file, folder, tool, names, description=None):
    """Writes a variant of the first tool of a file."""
    old, *_ = file.toolsets["tools"].tools
    elements = {f"tool/{old.name}": tool}
    elements |= {f"parameter/{old.name}{each.pointer}": names[each.name] for each in old.parameters.all}
    variant = ToolVariant(elements, {f"tool/{old.name}": description} if description else {})
    for path, data in file.variant_files({"tools": variant}).items():
        write(folder / path, data)


@pytest.fixture(scope="module")
def variants(tmp_path_factory):
    """Two variants of the tool, as back_translate writes them."""
    folder = tmp_path_factory.mktemp("variants")
    file = read_tools(write(folder / "tools.json", {"tools": [FIND]}))
    for name, ending in {"v1": "", "v2": "_2"}.items():
        names = {old: new + ending for old, new in NEW.items()}
        write_variants(file, folder / "out" / name, names["find_rooms"], names, "Looks for places to stay")
    return str(folder / "out")


@contextmanager
def program(*argv, **more):
    command = [sys.executable, "-m", "parapet", "proxy", *map(str, argv)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes, **more) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def served(*argv):
    """A proxy on a free port, and its address."""
    with program("--port=0", *argv) as process:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield process, next(word for word in line.replace(";", " ").split() if word.startswith("http://127.0.0.1"))


def reply_of(body):
    function = body["tools"][0]["function"]
    first, second = function["parameters"]["properties"]
    (inner,) = function["parameters"]["properties"][first]["properties"]
    arguments = {first: {inner: "u7"}, second: 2}
    return {"tool_calls": [{"id": "1", "type": "function", "function": {
        "name": function["name"], "arguments": json.dumps(arguments)}}]}  # fmt: skip


def test_an_agent_under_two_wordings(variants, tmp_path):
    function = {"name": FIND["name"], "description": FIND["description"], "parameters": FIND["inputSchema"]}
    request = {"model": "m", "messages": [], "tools": [{"type": "function", "function": function}]}
    record = tmp_path / "tools.json"
    with ChatServer(reply_of) as upstream:
        flags = ["--variants", variants, "--variant=v1", "--upstream", upstream.url, "--record", record]
        with served(*flags) as (process, address):
            for path in ("", "/x/v2", "/x/original"):
                answer = httpx.post(f"{address}{path}/chat/completions", json=request, trust_env=False).json()
                called = answer["choices"][0]["message"]["tool_calls"][0]["function"]
                assert (called["name"], json.loads(called["arguments"])) == ("find_rooms", CALL)
            process.send_signal(signal.SIGINT)
            said, problems = process.communicate(timeout=30)
        assert process.returncode == 0, problems
        names = [body["tools"][0]["function"]["name"] for body in upstream.requests]
    assert names == ["seek_places", "seek_places_2", "find_rooms"]
    assert not lacking(said, "v1: 1 request, 1 tool reworded, 1 call mapped, 0 not", "v2: 1 request", "original: 1 req")
    written = json.loads(record.read_text())
    assert written["tools"] == request["tools"]
    assert written["usage"] == [{"tool": "find_rooms", "offered": 3, "called": 3}]


def test_what_users_say_is_perturbed_in_the_same_way_each_time():
    messages = [{"role": "user", "content": f"I need a taxi to the station at {n} o'clock, please"} for n in range(9)]
    with (
        ChatServer(lambda body: "ok") as upstream,
        served("--perturb=typos", "--upstream", upstream.url) as (_, address),
    ):
        for n in (5, 9):
            body = {"model": "m", "messages": messages[:n]}
            httpx.post(f"{address}/chat/completions", json=body, trust_env=False, timeout=60)
        first, second = (body["messages"] for body in upstream.requests)
    assert first == second[:5]
    assert first != messages[:5]


def rpc(process, method, params=None, number=None):
    message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    process.stdin.write(json.dumps({**message, **({} if number is None else {"id": number})}) + "\n")
    process.stdin.flush()
    return None if number is None else json.loads(process.stdout.readline())


def test_an_mcp_server_that_is_a_command(variants, tmp_path):
    server = [sys.executable, "-c", SERVER, json.dumps(FIND)]
    log = ["--log", tmp_path / "log"]
    with program("--variants", variants, "--variant=v1", *log, "--mcp", "--", *server) as process:
        (tool,) = (listed := rpc(process, "tools/list", number=1)["result"])["tools"]
        assert (listed["nextCursor"], listed["_meta"]) == ("n", {"x": 1.1})
        assert (tool["name"], tool["description"]) == ("seek_places", "Looks for places to stay")
        assert tool["inputSchema"]["required"] == ["stay"]
        call = {"name": "seek_places", "arguments": RENAMED, "_meta": {"progressToken": 1}}
        assert rpc(process, "tools/call", call, number=2)["method"] == "notifications/tools/list_changed"
        text = json.loads(process.stdout.readline())["result"]["content"][0]["text"]
        assert json.loads(text) == {**call, "name": "find_rooms", "arguments": CALL}
        tools = rpc(process, "tools/list", number=3)["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["seek_places", "late"]
        process.stdin.write("no JSON passes\n")
        process.stdin.close()
        assert process.wait(30) == 1  # the server fails on what is no JSON, with its own status
        problems = process.stderr.read()
    assert not lacking(problems, "v1: 3 requests, 2 tools reworded, 1 call mapped, 0 not", "'late' has no variant")
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    call = next(line for line in lines if "tools/call" in line["received"])
    assert [json.loads(call[text])["params"]["name"] for text in ("received", "sent")] == ["seek_places", "find_rooms"]
    assert [line["from"] for line in lines].count("server") == 4


def test_the_end_of_an_mcp_server_is_ours(variants):
    server = [sys.executable, "-c", SERVER, json.dumps(FIND)]
    with program("--variants", variants, "--variant=v1", "--mcp", "--", *server) as process:
        rpc(process, "stop")
        assert process.wait(30) == 3


UPSTREAM = "--upstream=http://127.0.0.1:1/v1"


@cases(
    "flags reason",
    ([], "give the address of a model's API, or an MCP server"),
    ([UPSTREAM, "--mcp=python x.py"], "give the address"),
    (["--upstream=127.0.0.1:1"], "is not an address"),
    (["--variants", "{}", "--variant=v7", UPSTREAM], "there is no variant 'v7' (found: original, v1, v2)"),
    (["--variants", "{}", "--mcp=python x.py"], "is required with the command"),
    (["--mcp=python x.py", "--perturb=typos"], "does not receive what users say"),
    ([UPSTREAM, "--record", __file__], "exists already"),
    ([UPSTREAM, "--perturb=unseen_entities"], "needs a corpus"),
)
def test_options_that_do_not_go_together(flags, reason, variants):
    assert reason in refused("proxy", *(flag.format(variants) for flag in flags))


def wait_until_listening(port):
    for _ in range(600):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.1)
    raise TimeoutError


def test_the_agent_of_the_page_prints_the_same_under_another_wording(tmp_path):
    page = (Path(__file__).parents[2] / "docs/proxy.md").read_text()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for name in ("agent.py", "model.py", "variants/v1/tools.json", "variants/v1/names.json"):
        (code,) = re.findall(rf"```\w+\n# {re.escape(name)}\n(.*?)```", page, re.DOTALL)
        write(tmp_path / name, code.replace("8080", str(port)))
    command = [sys.executable, str(tmp_path / "model.py")]
    upstream = f"--upstream=http://127.0.0.1:{port}/v1"

    def run_agent(address):
        env = {**os.environ, "OPENAI_BASE_URL": f"{address}/v1"}
        agent = [sys.executable, str(tmp_path / "agent.py")]
        return subprocess.run(agent, env=env, capture_output=True, text=True, check=True).stdout

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as model:
        try:
            wait_until_listening(port)
            with served(upstream) as (_, address):
                original = run_agent(address)
            with served("--variants", tmp_path / "variants", "--variant=v1", upstream) as (_, address):
                assert run_agent(address) == original
        finally:
            model.terminate()
        seen = model.communicate()[0].splitlines()
    assert original == 'get_weather {"place": {"city": "Oslo"}, "days": 2}\n12 degrees, rain, for 2 days\n'
    assert seen[1] == 'calls look_up_forecast {"where": {"town": "Oslo"}, "days_ahead": 2}'


# A server of the package "mcp", which is not installed with the tests.
PACKAGED = """
from pydantic import BaseModel
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

class Guest(BaseModel):
    user_id: str

server = MCPServer("inn")

@server.tool()
async def find_rooms(guest: Guest, nights: int, ctx: Context) -> str:
    "Finds rooms"
    server.add_tool(lambda: "late", name="late")
    await ctx.session.send_tool_list_changed()
    return f"{guest.user_id} {nights}"

server.run()
"""


def test_client_and_server_of_the_package(tmp_path):
    mcp = pytest.importorskip("mcp")
    record = ["--record", tmp_path / "tools.json"]
    server = ["--mcp", "--", sys.executable, write(tmp_path / "a.py", PACKAGED)]

    async def use(tool, arguments, *argv):
        heard = []

        async def hear(message):
            heard.append(getattr(message, "method", ""))

        command = ["-m", "parapet", "proxy", *map(str, argv), *map(str, server)]
        parameters = mcp.StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
        async with (
            mcp.stdio_client(parameters) as streams,
            mcp.ClientSession(*streams, message_handler=hear) as session,
        ):
            await session.initialize()
            (listed,) = (await session.list_tools()).tools
            assert (listed.name, [*listed.input_schema["properties"]]) == (tool, [*arguments])
            assert (await session.call_tool(tool, arguments)).content[0].text == "u7 2"
            assert [each.name for each in (await session.list_tools()).tools] == [tool, "late"]
            assert "notifications/tools/list_changed" in heard

    asyncio.run(use("find_rooms", CALL, *record))
    write_variants(read_tools(tmp_path / "tools.json"), tmp_path / "variants" / "v1", "seek_places", NEW)
    asyncio.run(use("seek_places", RENAMED, "--variants", tmp_path / "variants", "--variant=v1"))
