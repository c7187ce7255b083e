"""The client of language models, against a real server: what it keeps, what it tries again, what it never says."""

import json
import pickle
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest
from chat_server import ChatServer
from kit import cases, opened, raised
from local_http import Answer

from parapet.schemas.errors import InputError
from parapet.transforms.core.chat import LARGEST, Chat, Endpoint
from parapet.transforms.core.fence import Refused, Stopped
from parapet.transforms.core.replies import Unreadable

pytest.importorskip("httpx", reason="the extra llm is not installed")
HELLO = [{"role": "user", "content": "Hello"}]


def asked(server, cache=None, messages=HELLO, parameters=None, **endpoint):
    """One answer of a client of its own, that has been pickled."""
    url = server if isinstance(server, str) else server.url
    with opened(pickle.loads(pickle.dumps(Chat(Endpoint(url, "m", **endpoint), cache)))) as chat:
        return chat.ask(messages, **(parameters or {}))


def echo(body):
    return body["messages"][-1]["content"].upper()


def test_an_answer_is_paid_for_once(tmp_path):
    cache = tmp_path / "new" / "answers.sqlite"
    with ChatServer(echo) as server:
        first, again = asked(server, cache), asked(server, cache)
        assert (first.text, first.tokens, first.kept) == ("HELLO", (7, 3), False)
        assert (again.text, again.tokens, again.kept) == ("HELLO", (7, 3), True)
        assert not asked(server, cache, temperature=0.5).kept  # another request
        assert asked(server).kept is False
        assert len(server.requests) == 3
        assert server.requests[0] == {"model": "m", "temperature": 0, "seed": 0, "messages": HELLO}


def test_repetitions_are_kept_apart(tmp_path):
    """Each has another seed, and a key of its own where the user or the server decides about seeds."""
    cache = tmp_path / "a.sqlite"
    with ChatServer(echo) as server:
        asked(server, cache)  # an answer of a run without repeats is the first
        for extra_body in ({}, {"seed": 7}):
            with opened(Chat(Endpoint(server.url, "m", extra_body=extra_body), cache)) as chat:
                kept = [chat.ask(HELLO, repetition).kept for repetition in (0, 1, 2, 1)]
                assert kept == [not extra_body, False, False, True]
                assert (chat.knows(HELLO, 2), chat.knows(HELLO, 3)) == (True, False)
        assert [body["seed"] for body in server.requests] == [0, 1, 2, 7, 7, 7]


@cases("fault", "busy", "down", "broken", "cut", "stall")
def test_what_may_pass_is_tried_again(fault, tmp_path):
    with ChatServer(echo, [fault]) as server:
        assert (asked(server, tmp_path / "a.sqlite", seconds=1).text, len(server.requests)) == ("HELLO", 2)


@cases(
    "faults kind reason",
    (["down"] * 9, Refused, "unavailable"),
    (["bad"], Refused, "invalid"),
    (["not_json"], Refused, "wrong_answer"),
    (["key"], Stopped, "key"),
    (["denied"], Stopped, "denied"),
    (["gone"], Stopped, "address"),
)
def test_refusals_name_the_reason_and_no_key(faults, kind, reason, monkeypatch, tmp_path):
    monkeypatch.setenv("MY_KEY", "sk-verysecret123")
    with ChatServer(echo, faults) as server:
        refusal = raised(kind, asked, server, tmp_path / "a.sqlite", key_variable="MY_KEY", retries=1)
        assert server.keys[0] == "Bearer sk-verysecret123"
        assert refusal.reason.startswith(f"{reason}: ")
        assert "secret" not in str(refusal.reason)
        # A refusal is no answer: the next run asks again.
        assert asked(server, tmp_path / "a.sqlite", retries=9).text == "HELLO"
    assert b"secret" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_no_more_calls_than_allowed(tmp_path):
    with (
        ChatServer(echo) as server,
        opened(Chat(Endpoint(server.url, "m", max_calls=3), tmp_path / "a.sqlite")) as chat,
    ):

        def ask(i):
            try:
                return chat.ask([{"role": "user", "content": str(i)}]).text
            except Stopped as error:
                return error.reason.partition(":")[0]

        with ThreadPoolExecutor(8) as pool:
            said = sorted(pool.map(ask, range(20)))
        assert (said.count("max_calls"), len(server.requests)) == (17, 3)
        known = next(one for one in said if one != "max_calls")
        assert ask(known) == known  # what is known costs no call


def test_calls_of_threads_are_at_the_same_time():
    barrier = threading.Barrier(4, timeout=10)

    def together(_):
        barrier.wait()
        return "ok"

    with ChatServer(together) as server, ThreadPoolExecutor(4) as pool, opened(Chat(Endpoint(server.url, "m"))) as chat:
        assert list(pool.map(lambda _: chat.ask(HELLO).text, range(4))) == ["ok"] * 4


def refusing(*names, error):
    """Refuses requests with one of these parameters, and answers others."""

    def reply(body):
        there = [name for name in names if name in body]
        return error(there[0]) if there else echo(body)

    return reply


def words(text, status=400, **more):
    """An error in these words, with the name of the parameter in place of {}."""
    named = {key: value for key, value in more.items() if value == "{}"}
    return lambda name: Answer({"error": {"message": text.format(name), **more, **dict.fromkeys(named, name)}}, status)


of_openai = words("Unsupported value: '{}' does not support 0 with this model.", param="{}", code="unsupported_value")


def of_mistral(name):
    detail = [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted", "input": 0}]
    return Answer({"object": "error", "message": {"detail": detail}}, 422)


@cases(
    "error",
    of_openai,
    of_mistral,
    lambda name: Answer({"detail": [{"loc": ["body", name], "msg": "Extra inputs are not permitted"}]}, 422),
    words("Unrecognized request argument supplied: {}", param=None),
    words("property `{}` is unsupported"),
    lambda name: Answer([{"error": {"code": 400, "message": f'Unknown name "{name}": Cannot find field.'}}], 400),
    lambda name: Answer({"object": "error", "message": f"('body', '{name}') is not permitted", "code": 400}, 400),
    lambda name: Answer({"error": f"{name} is not supported"}, 400),
    words("{} is not supported", status=200, code=400),  # as some servers have it
    words("UnsupportedParamsError: bedrock does not support parameters: ['{}']", status=500),  # as proxies have it
    lambda name: Answer({"error": f"Unsupported field: {name.capitalize()}"}, 400),
)
def test_parameters_that_the_endpoint_names_are_left_out_once_for_the_run(error, tmp_path):
    cache = tmp_path / "a.sqlite"
    with ChatServer(refusing("temperature", "seed", error=error)) as server:
        with opened(Chat(Endpoint(server.url, "m"), cache)) as chat:
            texts = [chat.ask([{"role": "user", "content": text}]).text for text in "ab"]
            assert (texts, chat.left_out) == (["A", "B"], {"temperature", "seed"})
        assert ["temperature" in body for body in server.requests] == [True, False, False, False]
        assert ["seed" in body for body in server.requests] == [True, True, False, False]
        assert asked(server, cache, [{"role": "user", "content": "b"}]).kept  # as it was asked for
        assert asked(server, cache).text == "HELLO"
        assert server.requests[4].keys() == {"model", "messages"}  # known from the first run


def test_another_name_of_a_parameter_is_tried():
    names = ("max_tokens", "max_completion_tokens")
    for refused_names, sent in ((names[:1], names[1:]), (names, ())):
        with ChatServer(refusing(*refused_names, error=of_openai)) as server:
            asked(server, parameters={"max_tokens": 9})
            assert [server.requests[-1].get(name) for name in sent] == [9] * len(sent)
            assert not {*refused_names} & server.requests[-1].keys()


@cases(
    "parameter text",
    ("response_format", "Invalid schema for response_format: In context=('properties',), 'additionalProperties' is"),
    ("response_format", "This model does not support response format `json_schema`."),
    ("response_format", "JSON mode is not supported for this model"),
    ("response_format", "Structured output is not supported."),
    ("response_format", "json_schema is unavailable now"),
    ("tool_choice", "reasoner does not support this {}"),
)
def test_phrases_for_formats(parameter, text):
    with ChatServer(refusing(parameter, error=words(text))) as server:
        assert asked(server, parameters={parameter: {"type": "json_schema"}}).text == "HELLO"


def choosing(**choice):
    return Answer({"choices": [{"index": 0, **choice}]})


def test_what_a_server_cannot_parse_is_an_answer():
    with ChatServer(refusing("tools", error=words("no", code="tool_use_failed", failed_generation="<f>"))) as server:
        assert asked(server, parameters={"tools": []}).text == "<f>"


@cases(
    "error reason",
    (words("registry.example/tiny does not support tools"), "invalid: HTTP 400: registry.example/tiny does not"),
    (words("max_tokens is too large: 9", param="max_tokens"), "invalid: HTTP 400: max_tokens is too large"),
    (words("Invalid schema for seed", param="tools[0].function.parameters"), "invalid: HTTP 400: Invalid schema"),
    (words("bad gateway", status=200, code=502), "unavailable: HTTP 502: bad gateway"),
    (lambda _: Answer({"detail": [{"loc": ["body", "tools", 0], "msg": "Field required"}]}, 422),
     "invalid: HTTP 422: body.tools.0: Field required"),
    (lambda _: Answer({"error": {"message": "Provider error", "metadata": {"raw": "no tools"}}}, 400),
     "invalid: HTTP 400: Provider error: no tools"),
    (lambda _: Answer("<html>\nlog in first</html>", 400), "invalid: HTTP 400: <html> log in first</html>"),
    (lambda _: Answer(b"", 400), "invalid: HTTP 400: no explanation"),
    (lambda _: Answer(b"[" * 200_000, 500), "unavailable: HTTP 500: [[["),
    (lambda _: choosing(message={"content": ""}, error={"code": 502, "message": "lost"}),
     "unavailable: HTTP 502: lost"),
    (lambda _: choosing(message={"role": "assistant"}, finish_reason="content_filter"),
     "invalid: HTTP 400: finish_reason content"),
    (lambda _: Answer({"detail": "the model is loading"}),
     "wrong_answer: HTTP 200: no chat completion: the model is loading"),
    (lambda _: Answer({"message": {"content": "Hi"}, "done": True}), "wrong_answer: HTTP 200: no chat completion: {"),
    (lambda _: Answer(b"data: {}\n\ndata: [DONE]"), "wrong_answer: HTTP 200: no chat completion: data: {}"),
)  # fmt: skip
def test_the_endpoints_own_words(error, reason):
    with ChatServer(refusing("tools", error=error)) as server:
        refusal = raised(Refused, asked, server, parameters={"tools": [], "max_tokens": 9}, retries=0)
    assert refusal.reason.startswith(reason)
    assert len(server.requests) == 1


@cases(
    "error reason requests",
    (words("You exceeded your current quota", 429, code="insufficient_quota"), "quota: HTTP 429: You exceeded", 1),
    (words("Insufficient Balance", 402), "quota: HTTP 402: Insufficient", 1),
    (words("request 12ab failed"), "invalid: HTTP 400: request 12ab failed (10 requests in a row)", 10),
)
def test_what_will_not_pass_ends_the_run(error, reason, requests):
    with ChatServer(refusing("model", error=error)) as server, opened(Chat(Endpoint(server.url, "m"))) as chat:
        with suppress(Refused):
            for _ in range(requests - 1):
                with suppress(Refused):
                    chat.ask(HELLO)
        assert raised(Stopped, chat.ask, HELLO).reason.startswith(reason)
        assert len(server.requests) == requests


def test_refusals_in_a_row_are_counted_anew_after_an_answer():
    turns = iter(range(99))

    def reply(body):
        return echo(body) if next(turns) % 10 == 9 else Answer({"error": "no"}, 400)

    with ChatServer(reply) as server, opened(Chat(Endpoint(server.url, "m"))) as chat:
        for i in range(30):
            if i % 10 == 9:
                chat.ask(HELLO)
            else:
                raised(Refused, chat.ask, HELLO)


def test_a_dead_server():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
    assert raised(Refused, asked, url, retries=1).reason == "unavailable: cannot be reached: Connection refused"


def test_redirects_are_not_followed(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-verysecret123")
    with ChatServer(echo) as other:
        away = Answer(b"", 307, {"Location": f"{other.url}/chat/completions"})
        with ChatServer(lambda _: away) as server:
            assert f"redirects to {other.url}" in raised(Stopped, asked, server).reason
    assert other.requests == []


@cases("sent", "temperature", "max_tokens", "extra_body")
def test_what_is_sent_is_part_of_the_answers_key(sent, tmp_path):
    chosen = {"temperature": None, "max_tokens": 7, "extra_body": {"top_k": 1, "temperature": 1}}[sent]
    with ChatServer(echo) as server:
        asked(server, tmp_path / "a.sqlite", parameters={"max_tokens": 9})
        assert not asked(server, tmp_path / "a.sqlite", parameters={"max_tokens": 9}, **{sent: chosen}).kept
        assert asked(server, tmp_path / "a.sqlite", parameters={"max_tokens": 9}, **{sent: chosen}).kept
        body = server.requests[1]
    assert {"temperature": "temperature" not in body, "max_tokens": body["max_tokens"] == 7}.get(sent, True)
    assert sent != "extra_body" or (body["top_k"], body["temperature"]) == (1, 1)


def test_limits_that_are_none_are_not_sent():
    with ChatServer(echo) as server:
        asked(server, parameters={"max_tokens": 9, "temperature": 0.7}, max_tokens=None, temperature=None)
        assert server.requests[0].keys() == {"model", "seed", "messages"}


@contextmanager
def raw_server(chunks):
    """A server that answers each request with these bytes, one after the other."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    threading.Thread(target=answer, args=(connection,), daemon=True).start()

        def answer(connection):
            with suppress(OSError), connection:
                connection.recv(1 << 16)
                for chunk in chunks():
                    connection.sendall(chunk)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def slowly(start, byte):
    def chunks():
        yield start
        for _ in range(100):
            time.sleep(0.1)
            yield byte

    return chunks


@cases("start byte", (HEAD + b"\r\n", b" "), (HEAD, b"X"), (b"", b""))
def test_the_time_is_that_of_the_whole_answer(start, byte):
    began = time.monotonic()
    with raw_server(slowly(start, byte)) as url:
        refusal = raised(Refused, asked, url, seconds=0.5, retries=0)
    assert refusal.reason == "unavailable: no complete answer within 0.5 seconds"
    assert time.monotonic() - began < 3


def test_an_answer_without_end_is_unreadable():
    sent = []

    def chunks():
        yield HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
        for _ in range(64):
            yield b"100000\r\n" + b"a" * (1 << 20) + b"\r\n"
            sent.append(1)

    with raw_server(chunks) as url:
        raised(Unreadable, asked, url, match="too_long")
        assert len(sent) << 20 < 2 * LARGEST


@cases(
    "body reason",
    (b"[" * 200_000, "too_deep"),
    (b'{"choices": ' + b'{"a":' * 200_000, "too_deep"),
    (b'{"choices": []}', "no_message"),
    (json.dumps({"choices": [{"message": {"content": "a" * (1 << 21)}}]}).encode(), "too_long"),
)
def test_answers_that_are_none_are_unreadable(body, reason):
    with ChatServer(lambda _: Answer(body)) as server:
        raised(Unreadable, asked, server, match=reason)


@cases(
    "url flags reason",
    ("http://10.0.0.1:8000/v1", {}, "--insecure_key"),
    ("http://example.org/v1", {}, "--insecure_key"),
    ("http://127.0.0.1.example.org/v1", {}, "--insecure_key"),
    ("http://10.0.0.1:8000/v1", {"insecure_key": True}, ""),
    ("http://10.0.0.1:8000/v1", {"key_variable": ""}, ""),
    ("https://example.org/v1", {}, ""),
    ("http://localhost:8000/v1", {}, ""),
    ("http://[::1]:8000/v1", {}, ""),
)
def test_a_key_goes_unencrypted_only_to_this_machine(url, flags, reason, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-verysecret123")
    endpoint = Endpoint(url, "m", **flags)
    if reason:
        assert "verysecret" not in str(raised(InputError, Chat, endpoint, match=reason))
    else:
        Chat(endpoint)
    monkeypatch.delenv("OPENAI_API_KEY")
    Chat(endpoint)


@cases("url model", ("localhost:80", "m"), ("http://user:pw@host/v1", "m"), ("http://127.0.0.1/v1", " "))
def test_an_endpoint_that_is_none(url, model):
    raised(InputError, Chat, Endpoint(url, model))
