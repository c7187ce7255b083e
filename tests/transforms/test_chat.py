"""The client of language models, against a real server: what it keeps, what it tries again, what it never says."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from chat_server import ChatServer
from kit import cases, opened, raised

from parapet.schemas.errors import InputError
from parapet.transforms.running.chat import Chat, Endpoint
from parapet.transforms.running.fence import Refused, Stopped

pytest.importorskip("httpx", reason="the extra llm is not installed")
HELLO = [{"role": "user", "content": "Hello"}]


def asked(server, cache=None, messages=HELLO, **endpoint):
    """One answer of a client of its own, that has been pickled."""
    with opened(pickle.loads(pickle.dumps(Chat(Endpoint(server.url, "m", **endpoint), cache)))) as chat:
        return chat.ask(messages)


def echo(body):
    return body["messages"][-1]["content"].upper()


def test_an_answer_is_paid_for_once(tmp_path):
    cache = tmp_path / "new" / "answers.sqlite"
    with ChatServer(echo) as server:
        first, again = asked(server, cache), asked(server, cache)
        other = asked(server, cache, temperature=0.5)
        assert (first.text, first.tokens, first.kept) == ("HELLO", (7, 3), False)
        assert (again.text, again.tokens, again.kept) == ("HELLO", (7, 3), True)
        assert not other.kept  # another request
        assert asked(server).kept is False
        assert len(server.requests) == 3
        assert server.requests[0] == {"model": "m", "temperature": 0, "seed": 0, "messages": HELLO}


@cases("fault", "busy", "down", "broken", "cut", "stall")
def test_what_may_pass_is_tried_again(fault, tmp_path):
    with ChatServer(echo, [fault]) as server:
        assert (asked(server, tmp_path / "a.sqlite", seconds=1).text, len(server.requests)) == ("HELLO", 2)


@cases(
    "faults kind reason",
    (["down"] * 9, Refused, "unavailable"),
    (["bad"], Refused, "invalid"),
    (["not_json"], Refused, "wrong_answer"),
    (["empty"], Refused, "wrong_answer"),
    (["long"], Refused, "too_long"),
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

    with (
        ChatServer(together) as server,
        ThreadPoolExecutor(4) as pool,
        opened(Chat(Endpoint(server.url, "m"))) as chat,
    ):
        assert list(pool.map(lambda _: chat.ask(HELLO).text, range(4))) == ["ok"] * 4


@cases("url model", ("localhost:80", "m"), ("http://user:pw@host/v1", "m"), ("http://127.0.0.1/v1", " "))
def test_an_endpoint_that_is_none(url, model):
    raised(InputError, Chat, Endpoint(url, model))
