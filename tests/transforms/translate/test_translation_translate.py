"""The Google engine, through the real client and Beam: every text ends somewhere, and is paid for once."""

import pickle
import sys

import apache_beam as beam
import kit
import pytest
from apache_beam.testing import test_pipeline
from kit import cases, raised

pytest.importorskip("grpc", reason="google-cloud-translate is not installed")
pytest.importorskip("google.cloud.translate_v3")

import grpc
from google_server import GoogleServer, translate

from parapet.schemas.errors import InputError
from parapet.schemas.rows import Translation
from parapet.transforms.core.fence import Refused, Stopped
from parapet.transforms.translate.google import Google
from parapet.transforms.translate.memory import Batch, Limits
from parapet.transforms.translate.translate import Known, OneWay, Untranslated, _Translate

TEXTS = [f"the city's number {n}" for n in range(10)]
BATCHES = [tuple(TEXTS[i : i + 3]) for i in range(0, 10, 3)]
LIMITS = Limits(texts=1024, codepoints=57)  # three texts
KEPT = []
QUICK = {"first_wait": 0.001, "longest_wait": 0.002, "patience": 5}


def keep(outcome):
    """In this module, which Beam pickles by its name."""
    KEPT.append(outcome)


def google(server, limits=LIMITS, **given):
    engine = Google("my-project", endpoint=server.url, **{**QUICK, **given})
    engine.limits = limits
    return engine


def run(engine, paid, texts=TEXTS):
    """What was translated, what was not, and the counters."""
    KEPT.clear()
    with test_pipeline.TestPipeline(runner="FnApiRunner") as pipeline:
        pairs = pipeline | beam.Create([("ko", text) for text in texts], reshuffle=False)
        translated, dead = pairs | OneWay(False, Known({}), engine, str(paid))
        _ = (translated, dead) | beam.Flatten() | beam.Map(keep)
    counters = {one.key.metric.name: one.result for one in pipeline.result.metrics().query()["counters"]}
    translated = sorted(one for one in KEPT if isinstance(one, Translation))
    dead = sorted(one for one in KEPT if isinstance(one, Untranslated))
    assert sorted(one.text for one in [*translated, *dead]) == sorted(texts)  # each in one place
    return translated, dead, counters


def expected(texts=TEXTS):
    said = {text: translate(text, "en", "ko") for text in sorted(texts)}
    return [Translation("google", "general/nmt", "en", "ko", *both) for both in said.items()]


def contents(server):
    return sorted(one.contents for one in server.requests)


def test_a_batch_that_fails_is_alone_in_it(tmp_path):
    reasons = {
        "wrong_count": "wrong_count: 3 texts were sent, but 2 were returned",
        "empty": "empty_answer: the engine returned an empty text",
        "language": "pair: en to ko: Target language is invalid.",
    }
    faults = dict(zip(BATCHES, reasons, strict=False))
    with GoogleServer(lambda request: faults.get(request.contents, "")) as server:
        translated, dead, counters = run(google(server), tmp_path)
        assert contents(server) == BATCHES
    assert dead == [Untranslated("en", "ko", text, reasons[faults[batch]]) for batch in faults for text in batch]
    assert (translated, counters["texts_not_translated"]) == (expected(list(BATCHES[3])), 9)


@cases("fault", "daily_limit", "unauthenticated")
def test_after_any_stop_nothing_more_is_asked(fault, tmp_path):
    with GoogleServer(["", fault]) as server:
        step = _Translate(google(server), str(tmp_path))
        outcomes = [list(step.process([Batch("en", "ko", batch)])) for batch in BATCHES]
        step.teardown()
        assert contents(server) == BATCHES[:2]
    assert outcomes[0] == expected(list(BATCHES[0]))
    dead = [one.value for batch in outcomes[1:] for one in batch]
    assert ([one.text for one in dead], len({one.reason for one in dead})) == (TEXTS[3:], 1)


def test_one_bad_text_is_found_by_halves_and_asked_again_by_a_rerun(tmp_path):
    bad = TEXTS[5]
    with GoogleServer(lambda request: "invalid" if request.number < 7 and bad in request.contents else "") as server:
        translated, dead, _ = run(google(server, limits=Limits(1024, 30_000)), tmp_path)
        assert [len(one.contents) for one in server.requests] == [10, 5, 5, 2, 1, 1, 3]
        assert set(server.texts.values()) == {1}
        assert dead == [Untranslated("en", "ko", bad, "invalid: Text is too long.")]
        assert translated == expected([text for text in TEXTS if text != bad])
        translated, dead, _ = run(google(server, limits=Limits(1024, 30_000)), tmp_path)
        assert server.requests[7].contents == (bad,), "a rerun asks for what was refused and nothing else"
    assert (translated, dead) == (expected(), [])


class Dying(Google):
    """Goes on for some requests only."""

    left = 0

    def translate(self, texts, source, target):
        if not self.left:
            raise KeyError("a bug, say")
        answers = super().translate(texts, source, target)
        self.left -= 1
        return answers


def test_the_halves_of_a_batch_are_kept_one_by_one(tmp_path):
    batch = Batch("en", "ko", tuple(TEXTS))
    with GoogleServer(["invalid"]) as server:
        engine = Dying("my-project", endpoint=server.url)
        engine.left = 1
        outcomes = _Translate(engine, str(tmp_path)).process([batch])
        (reason,) = {one.value.reason for one in outcomes if hasattr(one, "tag")}
        assert reason.startswith("plugin_error: KeyError: 'a bug, say' (test_translation_translate.py:")
        engine.close()
        assert [one.contents for one in server.answered] == [tuple(TEXTS[:5])]
        step = _Translate(google(server), str(tmp_path))
        assert sorted(step.process([batch])) == expected()
        step.teardown()
        assert [one.contents for one in server.answered] == [tuple(TEXTS[:5]), tuple(TEXTS[5:])]


def test_each_text_once_in_the_batches_that_the_limits_ask_for(tmp_path):
    with GoogleServer(["html"]) as server:  # whose first answer has entities
        translated, dead, counters = run(google(server), tmp_path)
        assert (contents(server), translated, dead) == (BATCHES, expected(), [])
        assert counters == {"requests": 4, "codepoints": sum(map(len, TEXTS))}
        translated, _, _ = run(google(server, model="general/translation-llm"), tmp_path)
        assert set(server.texts.values()) == {2}, "another model is asked anew"
    assert {one.model for one in translated} == {"general/translation-llm"}


# The engine by itself.


NAMES = ["restaurant name", "the city's date"]


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
        raised(Stopped, engine.translate, NAMES, "en", "ko", match=f"^{reason}")
        assert len(server.requests) == 1


def test_what_is_refused_for_good():
    with GoogleServer(["unknown"]) as server, opened(server) as engine:
        refused = raised(Refused, engine.translate, NAMES, "en", "ko")
        assert (refused.reason, refused.splits) == ("failed: Something else. (Unknown)", False)
        assert raised(Refused, engine.translate, ["fine", "\ud800"], "en", "ko", match="invalid: ").splits  # no Unicode
        assert len(server.requests) == 1


def test_an_outage_is_waited_out_once():
    down = [True]
    with GoogleServer(lambda _: "unavailable" if down[0] else "") as server, opened(server, patience=0.2) as engine:
        refused = raised(Refused, engine.translate, NAMES, "en", "ko")
        assert refused.reason == "unavailable: The service is currently unavailable."
        assert not refused.splits
        tries = len(server.requests)
        assert tries > 2
        for _ in range(3):
            raised(Refused, engine.translate, NAMES, "en", "ko", match="unavailable")
        assert len(server.requests) == tries + 3  # one each
        down[0] = False
        assert engine.translate(NAMES, "en", "ko")
        down[0] = True
        raised(Refused, engine.translate, NAMES, "en", "ko", match="unavailable")
        assert len(server.requests) > tries + 5  # patient again
    with opened(server, patience=0.1) as engine:
        raised(Refused, engine.translate, NAMES, "en", "ko", match=r"unavailable: .*refused")  # nobody there


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


@cases("endpoint", "http://me:secret@host:1", "ftp://host:1")
def test_endpoints_that_cannot_be(endpoint):
    assert raised(InputError, Google, "p", endpoint=endpoint).path == "endpoint"


def test_what_is_asked_and_answered():
    with GoogleServer() as server, opened(server) as engine:
        there = engine.translate(NAMES, "en", "zh")
        back = engine.translate(there, "zh", "en")
    assert there == [translate(text, "en", "zh-CN") for text in NAMES]
    assert not any(letter.isascii() and letter.isalpha() for text in there for letter in text)
    assert back == [translate(text, "zh-CN", "en") for text in there]
    first, second = server.requests
    assert first.contents == tuple(NAMES)
    assert (first.source, first.target, second.source, second.target) == ("en", "zh-CN", "zh-CN", "en")
    assert (first.mime_type, first.parent) == ("text/plain", "projects/my-project/locations/global")
    assert first.model == "projects/my-project/locations/global/models/general/nmt"
    assert Google("p", model="general/translation-llm").model == "general/translation-llm"
    trained = Google("p", location="us-central1", model="TRL7")
    assert trained.model_name == "projects/p/locations/us-central1/models/TRL7"
    assert (engine.limits, engine.dollars_per_million) == (Limits(texts=1024, codepoints=5_000), 20.0)


def test_no_message_has_a_token():
    said = "Bearer ya29.a0Ab_c-d is no good, AIzaSyD-9t neither, nor eyJhbGci.eyJz.c2ln\n\nreally"
    with GoogleServer([(grpc.StatusCode.PERMISSION_DENIED, said)]) as server, opened(server) as engine:
        reason = raised(Stopped, engine.translate, NAMES, "en", "ko").reason
        assert reason.startswith("denied: … is no good, … neither, nor … really: ")
