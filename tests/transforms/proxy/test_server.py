"""The proxy between real clients and a real upstream."""

import asyncio
import gzip
import json
import threading
from collections import Counter
from contextlib import contextmanager

import httpx
import pytest
from apis import CHAT, DIALECTS
from starlette.responses import JSONResponse, Response, StreamingResponse
from upstream import event_of, proxy, upstream, wait_for
from wordings import in_variant, reworded, toolset

from parapet.schemas.tools import Tool, read_tools
from parapet.transforms.proxy import server
from parapet.transforms.proxy.conversation import Answer, RewordedTools
from parapet.transforms.proxy.server import ToolServerSide
from parapet.transforms.proxy.statistics import Statistics
from parapet.transforms.variants.tool_variants import TaskVariant


def events_in(text):
    data = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data:")]
    return [line if line == "[DONE]" else json.loads(line) for line in data]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("streamed", [False, True])
def test_random_calls_come_back_over_http(dialect, streamed):
    functions, variant = toolset(5)
    request = dialect.request([dialect.tool(each) for each in functions], [], functions[0]["name"])
    with upstream() as (app, address), proxy(f"{address}/v1", {"v1": variant}) as (_, own):
        with httpx.Client(base_url=own, trust_env=False) as client:
            n = 0
            for seed in map(str, range(40)):
                content = {**request, "stream": streamed}
                response = client.post(f"/v1{dialect.path}", json=content, headers={"x-seed": seed})
                assert response.status_code == 200
                calls = dialect.streamed(events_in(response.text)) if streamed else dialect.calls(response.json())
                assert in_variant(calls, functions, variant) == app.calls[seed]
                n += len(calls)
            table = client.get("/parapet/statistics").json()["v1"]
        assert (table["requests"], table["calls_mapped"]) == (40, n)
        assert not table["calls_unmapped"]


TOOLS = [CHAT.tool({"name": "search", "description": "Searches", "parameters": {
    "type": "object", "properties": {"query": {"type": "string"}}}})]  # fmt: skip
FIND = reworded(Tool(TOOLS[0]), "find", "Finds", {"/properties/query": "text"})
VARIANT = TaskVariant("v1", {"t": {"search": FIND}})
REQUEST = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": TOOLS}


@contextmanager
def between(script=None, **options):
    """A client of a proxy, and the upstream, which answers by a script."""
    with upstream() as (app, address):
        app.script = script
        with (
            proxy(f"{address}/v1", {"v1": VARIANT, "original": None}, **options) as (sides, own),
            httpx.Client(base_url=own, trust_env=False, timeout=20) as client,
        ):
            yield client, app, sides


def answering(content, status=200, kind="application/json", **headers):
    async def script(*_):
        return Response(content, status, {"content-type": kind, **headers})

    return script


def test_requests_pass_with_their_headers_query_and_bytes():
    answer = b'{"object": "list",  "x":1.10}'
    headers = {"authorization": "Bearer k", "x-own": "ä".encode(), "openai-organization": "o", "user-agent": "agent"}
    with between(answering(answer, 201, **{"x-request-id": "r"})) as (client, app, _):
        response = client.post("/v1/files?a=1&b=%2F", content=b"\xff\0raw", headers=headers)
        assert (response.status_code, response.content) == (201, answer)
        assert response.headers["x-request-id"] == "r"
        (request, body), *_ = app.requests
        assert body == b"\xff\0raw"
        assert (request.url.path, request.url.query) == ("/v1/files", "a=1&b=%2F")
        assert (request.headers["authorization"], request.headers["user-agent"]) == ("Bearer k", "agent")
        assert request.headers["accept-encoding"] == client.headers["accept-encoding"]
        assert request.headers["x-own"].encode("latin-1") == headers["x-own"]
        for path in ("/models", "/v1/models", "/x/original/models", "/x/v1/v1/models"):
            client.get(path)
            request, body = app.requests[-1]
            assert (request.method, request.url.path, body) == ("GET", "/v1/models", b"")
            assert "content-length" not in request.headers


def test_variants_by_path_and_statistics():
    with between(answering(b"{}")) as (client, app, _):
        for path in ("/x/v1/v1/chat/completions", "/x/v1/chat/completions", "/x/original/chat/completions"):
            client.post(path, json=REQUEST)
        names = [json.loads(body)["tools"][0]["function"]["name"] for _, body in app.requests]
        assert (names, json.loads(app.requests[-1][1])) == (["find", "find", "search"], REQUEST)
        spaced = json.dumps(REQUEST, indent=1).encode()
        client.post("/x/original/responses", content=spaced)
        assert app.requests[-1][1] == spaced
        assert client.post("/x/v9/chat/completions", json=REQUEST).status_code == 404
        tables = client.get("/parapet/statistics").json()
        assert (tables["v1"]["requests"], tables["v1"]["tools_reworded"]) == (2, 2)
        assert (tables["original"]["requests"], tables["original"]["tools_reworded"]) == (2, 0)
        assert 0 < tables["v1"]["milliseconds_added"]["p50"] < 100


@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
def test_errors_of_the_upstream_pass(status):
    error = b'{"error": {"message": "find is bad"}}'
    with between(answering(error, status, **{"retry-after": "7"})) as (client, *_):
        response = client.post("/chat/completions", json=REQUEST)
        assert (response.status_code, response.content, response.headers["retry-after"]) == (status, error, "7")


def test_no_upstream_is_a_bad_gateway():
    with proxy("http://127.0.0.1:9/v1", {"v1": VARIANT}) as (_, own):
        response = httpx.post(f"{own}/chat/completions", json=REQUEST, trust_env=False)
    assert response.status_code == 502
    assert "cannot be reached" in response.json()["error"]["message"]


def test_redirects_are_not_followed_and_other_encodings_are_read():
    with between(answering(b"", 307, location="http://example.org/")) as (client, *_):
        assert client.post("/chat/completions", json=REQUEST).headers["location"] == "http://example.org/"
    answer = {"choices": [{"message": {"tool_calls": [{"function": {"name": "find", "arguments": "{}"}}]}}]}
    packed = gzip.compress(json.dumps(answer).encode())
    with between(answering(packed, **{"content-encoding": "gzip"})) as (client, app, _):
        response = client.post("/chat/completions", json=REQUEST)
        assert response.json()["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "search"
        assert app.requests[0][0].headers["accept-encoding"] == "identity"
        assert client.get("/models").json() == answer


def test_sizes_are_limited(monkeypatch):
    monkeypatch.setattr(server, "LARGEST", 1 << 20)
    long = json.dumps({**REQUEST, "x": "a" * (1 << 20)}).encode()
    with between(answering(long)) as (client, app, _):
        assert client.post("/chat/completions", content=long).status_code == 413
        assert not app.requests
        assert client.post("/chat/completions", json=REQUEST).status_code == 502
        assert client.get("/models").content == long  # passes as it arrives
    reply = answering(b"data: " + long, kind="text/event-stream")
    with between(reply) as (client, *_), pytest.raises(httpx.RemoteProtocolError):
        client.post("/chat/completions", json=REQUEST)


def chunk(**function):
    return {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": function}]}}]}


CHUNKS = [chunk(name="find", arguments=""), *(chunk(arguments=text) for text in ('{"te', 'xt": "a', 'b"}'))]


@pytest.mark.parametrize("tool_calls", ["tool_calls", "\\u0074ool_calls"])
def test_events_that_arrive_together_are_mapped_where_they_concern_calls(tool_calls):
    text = b'data: {"choices": [{"index":0, "delta":{"content":"say \\"tool_calls\\" \xc3\xa9"}}]}\n\n'
    event = '{"choices": [{"delta": {"%s": [{"index":0, "function": %s}]}}], "obfuscation":"\\"arguments\\":"}'
    functions = ['{"name":"find", "arguments":""}', '{ "arguments" : "{\\"te"}', '{"arguments":"xt\\":\\"text\\"}"}']
    calls = [f"event: x\r\ndata: {event % (tool_calls, each)}\r\n\r\n".encode() for each in functions]
    statistics = Statistics(Counter())
    answer = Answer(RewordedTools(json.dumps(TOOLS).encode(), VARIANT), statistics, {})
    assert server.mapped_events(text * 2, answer) == text * 2
    mapped = server.mapped_events(b"".join([text, *calls, b": comment\n\n", text]), answer)
    assert mapped.startswith(text + b"event: x\r\ndata: {")
    assert mapped.endswith(b"\r\n\r\n: comment\n\n" + text)
    received = [event["choices"][0]["delta"] for event in events_in(mapped.decode().replace("\r", ""))]
    functions = [delta["tool_calls"][0]["function"] for delta in received[1:-1]]
    assert functions == [{"name": "search", "arguments": ""}, {"arguments": "{"}, {"arguments": '"query":"text"}'}]
    answer.end()
    assert statistics.table()["calls_mapped"] == 1


def streaming(end, stopped=None):
    async def pieces():
        try:
            for each in CHUNKS:
                yield event_of(each).encode()
                await asyncio.sleep(0.05)
            await end()
        finally:
            if stopped:
                stopped.set()

    async def script(*_):
        return StreamingResponse(pieces(), media_type="text/event-stream")

    return script


def test_events_arrive_one_by_one():
    async def end():
        await asyncio.sleep(60)

    stopped = threading.Event()
    with between(streaming(end, stopped)) as (client, _, sides):
        with client.stream("POST", "/chat/completions", json={**REQUEST, "stream": True}) as response:
            lines, received = response.iter_lines(), []
            while len(received) < 4:
                if line := next(lines):
                    received.append(json.loads(line.removeprefix("data: "))["choices"][0]["delta"]["tool_calls"][0])
            assert not stopped.is_set()
        assert [call["function"]["arguments"] for call in received] == ["", "{", '"query": "a', 'b"}']
        assert received[0]["function"]["name"] == "search"
        assert stopped.wait(5)  # the client has gone, so the upstream's request is ended
        wait_for(lambda: sides["v1"].statistics.counts["calls_mapped"] == 1)


def test_a_client_that_goes_before_the_answer_begins_ends_the_request():
    stopped = threading.Event()

    async def script(request, _):
        while (await request.receive())["type"] != "http.disconnect":
            pass
        stopped.set()

    with between(script) as (client, *_):
        with pytest.raises(httpx.ReadTimeout):
            client.post("/chat/completions", json=REQUEST, timeout=0.5)
        assert stopped.wait(5)


def test_a_stream_that_breaks_off_does_so_for_the_client():
    async def end():
        raise OSError

    with between(streaming(end)) as (client, _, sides):
        with client.stream("POST", "/chat/completions", json={**REQUEST, "stream": True}) as response:
            pieces = response.iter_lines()
            assert sum(line.startswith("data: ") for line in (next(pieces) for _ in range(8))) == 4
            with pytest.raises(httpx.RemoteProtocolError):
                next(pieces)
        wait_for(lambda: sides["v1"].statistics.counts["calls_mapped"] == 1)


def test_the_record_is_read_by_other_commands_and_the_log_has_no_credentials(tmp_path):
    answer = {"choices": [{"message": {"tool_calls": [{"function": {"name": "find", "arguments": '{"text": 1}'}}]}}]}
    reply = answering(json.dumps(answer))
    with open(tmp_path / "log", "a") as log, between(reply, path=tmp_path / "tools.json", log=log) as (client, *_):
        for _ in range(3):
            client.post("/chat/completions", json=REQUEST, headers={"authorization": "Bearer secret"})
        wait_for(lambda: (tmp_path / "log").read_text().count("\n") == 3)
    line = json.loads((tmp_path / "log").read_text().splitlines()[0])
    assert json.loads(line["received"]) == REQUEST
    assert '"find"' in line["sent"]
    assert '"search"' in line["answer"]
    assert "secret" not in (tmp_path / "log").read_text() + (tmp_path / "tools.json").read_text()
    assert read_tools(tmp_path / "tools.json").toolsets["tools"].tools[0].raw == TOOLS[0]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_an_mcp_server_over_http(is_streamed):
    definition = {"name": "search", "inputSchema": TOOLS[0]["function"]["parameters"], "annotations": {"x": 1}}

    async def script(request, body):
        message = json.loads(body or b"{}")
        if "id" not in message:
            return Response(status_code=202)
        params = message.get("params")
        result = {"tools": [definition]} if message["method"] == "tools/list" else {"content": [params]}
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        if is_streamed:
            data = f"event: message\r\nid: 7\r\ndata: {json.dumps(answer)}\r\n\r\n"
            return Response(data, media_type="text/event-stream")
        return JSONResponse(answer, headers={"mcp-session-id": "s"})

    def ask(client, method, params=None, **headers):
        content = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        response = client.post("/mcp", json=content, headers=headers)
        return events_in(response.text.replace("\r", ""))[0] if is_streamed else response.json()

    with upstream() as (app, address):
        app.script = script
        with (
            proxy(f"{address}/mcp", {"v1": VARIANT}, kind=ToolServerSide) as (sides, own),
            httpx.Client(base_url=own, trust_env=False) as client,
        ):
            (tool,) = ask(client, "tools/list")["result"]["tools"]
            assert (tool["name"], [*tool["inputSchema"]["properties"]]) == ("find", ["text"])
            call = {"name": "find", "arguments": {"text": {"text": 1}}, "_meta": {"progressToken": 1}}
            headers = {"mcp-method": "tools/call", "mcp-name": "find"}
            (params,) = ask(client, "tools/call", call, **headers)["result"]["content"]
            assert params == {**call, "name": "search", "arguments": {"query": {"text": 1}}}
            assert (app.requests[-1][0].headers["mcp-name"], app.requests[-1][0].url.path) == ("search", "/mcp")
            prompt = {"name": "find", "arguments": {"text": "1"}}
            assert ask(client, "prompts/get", prompt, **{"mcp-name": "find"})["result"]["content"] == [prompt]
            assert app.requests[-1][0].headers["mcp-name"] == "find"
            notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert client.post("/mcp", json=notice).status_code == 202
        table = sides["v1"].statistics.table()
        assert (table["requests"], table["tools_reworded"], table["calls_mapped"]) == (3, 1, 1)
