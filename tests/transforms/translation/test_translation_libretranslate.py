"""The LibreTranslate engine against a server on this machine."""

import logging
import pickle
import time

import kit
import pytest
from kit import cases, raised
from libretranslate_server import LibreTranslateServer

from parapet.schemas.errors import InputError
from parapet.transforms.running.fence import Refused, Stopped
from parapet.transforms.translation.libretranslate import KEY_VARIABLE, LibreTranslate

TEXTS = ["restaurant name", "the city's date"]
KEY = "0a1b2c3d-secret"


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def opened(server, **given):
    return kit.opened(LibreTranslate(server.url, **{"wait": 0, **given}))


def test_the_key_is_sent_and_nowhere_told(monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    with LibreTranslateServer(["", "down"], key=KEY) as server:
        assert KEY.encode() not in pickle.dumps(LibreTranslate(server.url))
        with opened(server, tries=1) as engine:
            assert engine.translate(["a"], "en", "ko")
            assert engine._cleaned(f"no such key: {KEY}") == "no such key: …"
            raised(Refused, engine.translate, ["a"], "en", "ko", match="unavailable: HTTP 503")
        assert server.requests[0].key == KEY
    assert KEY not in caplog.text


@cases("given said", ("", "Visit"), ("wrong", "Invalid API key"))
def test_a_wrong_key_stops(given, said, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, given)
    with LibreTranslateServer(key=KEY) as server, opened(server) as engine:
        raised(Stopped, engine.translate, TEXTS, "en", "ko", match=f"key: HTTP 40.: {said}.*: set {KEY_VARIABLE}")
        assert len(server.requests) == 1


@cases("asked waited", ("7", 7.0), ("86400", 60.0))
def test_it_waits_as_long_as_the_server_asks(asked, waited, monkeypatch):
    waits = []
    monkeypatch.setattr(time, "sleep", waits.append)
    with LibreTranslateServer(["busy"], retry_after=asked) as server, opened(server) as engine:
        assert engine.translate(["a"], "en", "ko")
    assert waits == [waited]


@cases(
    "fault said tries",
    ("busy", "HTTP 429: Slowdown: 20 per 1 minute", 3),
    ("down", "HTTP 503: Service unavailable", 3),
    ("html_page", "HTTP 502: text/html", 3),
    ("cut", "", 2),  # it may be the request that it cannot bear
    ("stall", "", 2),
)
def test_what_stays_so_is_unavailable(fault, said, tries):
    with LibreTranslateServer(lambda _: fault) as server, opened(server, tries=3, seconds=0.5) as engine:
        assert not raised(Refused, engine.translate, TEXTS, "en", "ko", match=f"^unavailable: {said}.*$").splits
        assert len(server.requests) == tries


@cases(
    "fault reason splits",
    ("too_long", "invalid: HTTP 400: Invalid request: request (5001) exceeds text limit (5000)", True),
    ("broken", "failed: HTTP 500: Cannot translate text", True),
    ("not_json", "not_json: HTTP 200: text/html", False),
    ("nulls", 'wrong_answer: {"translatedText": [null, null]}', False),
    ("one_text", 'wrong_answer: {"translatedText": "\\ud83d\\udc22"}', False),
    ("", "pair: en to tlh: HTTP 400: tlh is not supported", False),
)
def test_what_is_refused(fault, reason, splits):
    with LibreTranslateServer([fault]) as server, opened(server) as engine:
        refused = raised(Refused, engine.translate, TEXTS, "en", "ko" if fault else "tlh")
        assert (refused.reason, refused.splits, len(server.requests)) == (reason, splits, 1)
        assert engine.translate(TEXTS, "en", "ko")


@cases(
    "fault reason",
    ("banned", "denied: HTTP 403: Too many request limits violations"),
    ("elsewhere", "address: .*http://127.0.0.1"),
    ("redirect", "address: http://127.0.0.1:.* redirects to https://elsewhere.example/translate"),
)
def test_what_no_further_request_could_mend_stops(fault, reason):
    with LibreTranslateServer([fault]) as server, opened(server) as engine:
        raised(Stopped, engine.translate, TEXTS, "en", "ko", match=reason)
        assert len(server.requests) == 1


def test_nobody_there():
    with LibreTranslateServer() as server:
        pass
    with pytest.raises(InputError) as error, opened(server, tries=2):
        pass
    assert str(error.value).startswith(f"url: {server.url}: no LibreTranslate server answers at this address: ")
    assert "refused" in str(error.value)


@cases("url", "", "localhost:5000", "ftp://host", "http://me:secret@host", "http://host?x=1")
def test_an_address_that_is_none(url):
    raised(InputError, LibreTranslate, url, match="is not an address such as")
