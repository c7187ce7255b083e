"""The Google engine, through the real client, against a server on this machine."""

import pickle
import sys

import kit
import pytest
from kit import cases, raised

from parapet.transforms.translate.memory import Limits

translate_v3 = pytest.importorskip("google.cloud.translate_v3")

from google_server import GoogleServer, translate  # noqa: E402

from parapet.schemas.errors import InputError  # noqa: E402
from parapet.transforms.core.fence import Refused, Stopped  # noqa: E402
from parapet.transforms.translate.google import Google  # noqa: E402

TEXTS = ["restaurant name", "the city's date"]
QUICK = {"first_wait": 0.001, "longest_wait": 0.002, "patience": 5}


def opened(server, **given):
    return kit.opened(pickle.loads(pickle.dumps(Google("my-project", endpoint=server.url, **{**QUICK, **given}))))


@cases(
    "fault reason",
    ("daily_limit", "daily_limit: Daily Limit Exceeded"),
    ("exhausted_day", "daily_limit: "),
    ("disabled", "denied: .*my-project"),
    ("unauthenticated", "credentials: "),
    ("no_token", "credentials: "),
    ("not_found", "not_found: "),
)
def test_what_no_further_request_could_mend_stops(fault, reason):
    with GoogleServer([fault]) as server, opened(server) as engine:
        raised(Stopped, engine.translate, TEXTS, "en", "ko", match=f"^{reason}")
        assert len(server.requests) == 1


def test_what_is_refused_for_good():
    with GoogleServer(["unknown"]) as server, opened(server) as engine:
        refused = raised(Refused, engine.translate, TEXTS, "en", "ko")
        assert (refused.reason, refused.splits) == ("failed: Something else. (Unknown)", False)
        assert raised(Refused, engine.translate, ["fine", "\ud800"], "en", "ko", match="invalid: ").splits  # no Unicode
        assert len(server.requests) == 1


def test_an_outage_is_waited_out_once():
    down = [True]
    with GoogleServer(lambda _: "unavailable" if down[0] else "") as server, opened(server, patience=0.2) as engine:
        refused = raised(Refused, engine.translate, TEXTS, "en", "ko")
        assert refused.reason == "unavailable: The service is currently unavailable."
        assert not refused.splits
        tries = len(server.requests)
        assert tries > 2
        for _ in range(3):
            raised(Refused, engine.translate, TEXTS, "en", "ko", match="unavailable")
        assert len(server.requests) == tries + 3  # one each
        down[0] = False
        assert engine.translate(TEXTS, "en", "ko")
        down[0] = True
        raised(Refused, engine.translate, TEXTS, "en", "ko", match="unavailable")
        assert len(server.requests) > tries + 5  # patient again
    with pytest.raises(Refused, match=r"unavailable: .*refused"), opened(server, patience=0.1) as engine:
        engine.translate(TEXTS, "en", "ko")  # nobody there


def test_without_credentials_there_is_one_clear_line(monkeypatch, tmp_path):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    error = raised(InputError, Google("my-project").open)
    assert "none.json was not found" in str(error)
    assert "\n" not in str(error)
    monkeypatch.delattr(sys.modules["google.cloud"], "translate_v3")
    monkeypatch.setitem(sys.modules, "google.cloud.translate_v3", None)
    raised(InputError, Google("my-project").open, match=r"pip install .*\[google\]'")


def test_another_endpoint_is_by_tls_with_credentials(monkeypatch):
    from google.auth.credentials import AnonymousCredentials

    monkeypatch.setattr("google.auth.default", lambda *_, **__: (AnonymousCredentials(), None))
    engine = Google("my-project", endpoint="https://translate-eu.googleapis.com")
    engine.open()
    assert engine._client.transport.host == "translate-eu.googleapis.com:443"
    engine.close()


@cases("given named", ({"endpoint": "http://me:secret@host:1"}, "endpoint"), ({"endpoint": "ftp://host:1"}, "endpoint"))
def test_arguments_that_cannot_be(given, named):
    assert raised(InputError, Google, **{"project": "p", **given}).path == named


def test_what_is_asked_and_answered():
    with GoogleServer() as server, opened(server) as engine:
        there = engine.translate(TEXTS, "en", "zh")
        back = engine.translate(there, "zh", "en")
    assert there == [translate(text, "en", "zh-CN") for text in TEXTS]
    assert not any(letter.isascii() and letter.isalpha() for text in there for letter in text)
    assert back == [translate(text, "zh-CN", "en") for text in there]
    first, second = server.requests
    assert first.contents == tuple(TEXTS)
    assert (first.source, first.target, second.source, second.target) == ("en", "zh-CN", "zh-CN", "en")
    assert (first.mime_type, first.parent) == ("text/plain", "projects/my-project/locations/global")
    assert first.model == "projects/my-project/locations/global/models/general/nmt"
    assert Google("p", model="general/translation-llm").model == "general/translation-llm"
    trained = Google("p", location="us-central1", model="TRL7")
    assert trained.model_name == "projects/p/locations/us-central1/models/TRL7"
    assert (engine.limits, engine.dollars_per_million) == (Limits(texts=1024, codepoints=5_000), 20.0)


grpc = pytest.importorskip("grpc", reason="google-cloud-translate is not installed")


def test_no_message_has_a_token():
    said = "Bearer ya29.a0Ab_c-d is no good, AIzaSyD-9t neither, nor eyJhbGci.eyJz.c2ln\n\nreally"
    with GoogleServer([(grpc.StatusCode.PERMISSION_DENIED, said)]) as server, opened(server) as engine:
        reason = raised(Stopped, engine.translate, TEXTS, "en", "ko").reason
        assert reason.startswith("denied: … is no good, … neither, nor … really: ")
