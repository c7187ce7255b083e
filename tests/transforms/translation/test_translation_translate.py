"""Batches through the Google engine and Beam: every text ends somewhere, and is paid for once."""

import signal
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import apache_beam as beam
import killed
import pytest
from apache_beam.testing import test_pipeline

pytest.importorskip("grpc", reason="google-cloud-translate is not installed")
pytest.importorskip("google.cloud.translate_v3")

from google_server import GoogleServer, Request
from libretranslate_server import LibreTranslateServer
from pseudo_translator import translate

from parapet.schemas.errors import InputError
from parapet.schemas.rows import Translation
from parapet.transforms.translation.google import Google
from parapet.transforms.translation.libretranslate import LibreTranslate
from parapet.transforms.translation.memory import Batch, Engine, Limits, make_batches
from parapet.transforms.translation.translate import DEAD, Translate, Untranslated, _Translate, in_groups, unescaped

TEXTS = [f"the city's number {n}" for n in range(10)]
LIMITS = Limits(texts=1024, codepoints=57)  # three texts
BATCHES = [tuple(TEXTS[i : i + 3]) for i in range(0, 10, 3)]

KEPT: list[Any] = []


def keep(outcome: Any) -> None:
    """In this module, which Beam pickles by its name."""
    KEPT.append(outcome)


def fail(_: Any) -> None:
    raise RuntimeError("downstream")


def google(server: GoogleServer, **given: Any) -> Google:
    quick = {"first_wait": 0.001, "longest_wait": 0.002, "codepoints": LIMITS.codepoints}
    return Google("my-project", endpoint=server.url, **{**quick, **given})


def run(engine: Engine, paid: Path, texts: list[str] = TEXTS, then: Any = keep) -> tuple[list[Any], list[Any], Any]:
    """What was translated, what was not, and the counters."""
    KEPT.clear()
    batches, _ = make_batches(texts, "en", "ko", engine.limits)
    with test_pipeline.TestPipeline(runner="FnApiRunner") as pipeline:
        outcomes = pipeline | beam.Create(in_groups(batches, engine), reshuffle=False) | Translate(engine, str(paid))
        _ = outcomes.translated | "Keep" >> beam.Map(then)
        _ = outcomes[DEAD] | "Keep dead" >> beam.Map(keep)
    counters = {one.key.metric.name: one.result for one in pipeline.result.metrics().query()["counters"]}
    translated = sorted(one for one in KEPT if isinstance(one, Translation))
    dead = sorted(one for one in KEPT if isinstance(one, Untranslated))
    assert sorted(one.text for one in [*translated, *dead]) == sorted(texts)  # each in one place
    return translated, dead, counters


def expected(texts: list[str] = TEXTS) -> list[Translation]:
    return [
        Translation("google", "general/nmt", "en", "ko", text, translate(text, "en", "ko")) for text in sorted(texts)
    ]


def contents(server: GoogleServer) -> list[tuple[str, ...]]:
    return sorted(one.contents for one in server.requests)


def test_each_text_once_in_the_batches_that_the_limits_ask_for(tmp_path):
    with GoogleServer() as server:
        translated, dead, counters = run(google(server), tmp_path)
        assert contents(server) == BATCHES
    assert (translated, dead) == (expected(), [])
    assert counters == {"requests": 4, "codepoints": sum(map(len, TEXTS))}


def test_no_request_has_more_texts_than_google_takes(tmp_path):
    texts = [f"{n:04}" for n in range(2_500)]
    with GoogleServer() as server:
        translated, _, _ = run(google(server, codepoints=30_000), tmp_path, texts)
        assert sorted(len(one.contents) for one in server.requests) == [452, 1024, 1024]
        assert set(server.texts.values()) == {1}
    assert translated == expected(texts)


def test_after_what_passes_all_is_translated(tmp_path):
    faults = ["unavailable", "internal", "", "exhausted", "rate_limit", "", "stall", "html", "cut"]
    with GoogleServer(faults) as server:
        translated, dead, _ = run(google(server, seconds=1.5, patience=60), tmp_path)
        cut = server.requests[8].contents
        charged = server.texts
    assert (translated, dead) == (expected(), [])
    # What a broken connection swallowed was charged, and is once more.
    assert charged == {("en", "ko", text): 2 if text in cut else 1 for text in TEXTS}


def test_a_batch_that_fails_is_alone_in_it(tmp_path):
    reasons = {
        "wrong_count": "wrong_count: 3 texts were sent, 2 came back",
        "empty": "empty_answer: the engine answered nothing",
        "language": "pair: en to ko: Target language is invalid.",
    }
    faults = dict(zip(BATCHES, reasons, strict=False))
    with GoogleServer(lambda request: faults.get(request.contents, "")) as server:
        translated, dead, counters = run(google(server), tmp_path)
        assert contents(server) == BATCHES
    assert dead == [Untranslated("en", "ko", text, reasons[faults[batch]]) for batch in faults for text in batch]
    assert translated == expected(list(BATCHES[3]))
    assert counters["texts_not_translated"] == 9


def test_after_a_stop_nothing_more_is_asked(tmp_path):
    with GoogleServer(["", "daily_limit"]) as server:
        translated, dead, counters = run(google(server), tmp_path)
        answered, refused = server.requests
    assert translated == expected(list(answered.contents))
    assert refused.contents != answered.contents
    assert len(dead) == 10 - len(translated) == counters["texts_not_translated"]
    assert len({one.reason for one in dead}) == 1
    assert dead[0].reason.startswith("daily_limit: ")


@pytest.mark.parametrize("fault", ["exhausted_day", "disabled", "unauthenticated", "no_token", "not_found"])
def test_after_any_stop_nothing_more_is_asked(fault, tmp_path):
    with GoogleServer(["", fault]) as server:
        step = _Translate(google(server), str(tmp_path))
        outcomes = [list(step.process([Batch("en", "ko", batch)])) for batch in BATCHES]
        step.teardown()
        assert contents(server) == BATCHES[:2]
    assert outcomes[0] == expected(list(BATCHES[0]))
    dead = [one.value for batch in outcomes[1:] for one in batch]
    assert [one.text for one in dead] == TEXTS[3:]
    assert len({one.reason for one in dead}) == 1


def test_an_outage_to_the_end(tmp_path):
    with GoogleServer(lambda _: "unavailable") as server:
        translated, dead, _ = run(google(server, patience=0.05), tmp_path)
        tried = Counter(one.contents for one in server.requests)
    assert translated == []
    assert {one.reason for one in dead} == {"unavailable: The service is currently unavailable."}
    assert sorted(tried.values())[:3] == [1, 1, 1]  # only the first batch was waited for


def test_one_bad_text_is_found_by_halves(tmp_path):
    bad = TEXTS[5]
    with GoogleServer(lambda request: "invalid" if bad in request.contents else "") as server:
        translated, dead, _ = run(google(server, codepoints=30_000), tmp_path)
        assert [len(one.contents) for one in server.requests] == [10, 5, 5, 2, 1, 1, 3]
        assert set(server.texts.values()) == {1}
    assert dead == [Untranslated("en", "ko", bad, "invalid: Text is too long.")]
    assert translated == expected([text for text in TEXTS if text != bad])


def test_a_bundle_that_is_tried_again_asks_nothing_twice(tmp_path):
    batch = Batch("en", "ko", BATCHES[0])
    with GoogleServer() as server:
        outcomes = []
        for _ in range(2):
            step = _Translate(google(server), str(tmp_path))
            outcomes += [list(step.process([batch])), list(step.process([batch]))]
            step.teardown()
        assert contents(server) == [BATCHES[0]]
    assert outcomes == [expected(list(batch.texts))] * 4


def test_after_a_failure_downstream_the_rerun_asks_for_the_rest(tmp_path):
    with GoogleServer() as server:
        with pytest.raises(RuntimeError, match="downstream"):
            run(google(server), tmp_path, then=fail)
        assert len(server.requests) == 1
        translated, dead, counters = run(google(server), tmp_path)
        assert contents(server) == BATCHES
    assert (translated, dead) == (expected(), [])
    assert counters["requests"] == 3


def test_what_was_refused_is_asked_again_by_a_rerun_and_nothing_else(tmp_path):
    bad = TEXTS[5]
    with GoogleServer(lambda request: "invalid" if request.number < 7 and bad in request.contents else "") as server:
        run(google(server, codepoints=30_000), tmp_path)
        assert len(server.requests) == 7
        translated, dead, _ = run(google(server, codepoints=30_000), tmp_path)
        assert server.requests[7].contents == (bad,)
    assert (translated, dead) == (expected(), [])


def test_another_model_is_asked_anew(tmp_path):
    with GoogleServer() as server:
        run(google(server), tmp_path)
        translated, _, _ = run(google(server, model="general/translation-llm"), tmp_path)
        assert set(server.texts.values()) == {2}
    assert {one.model for one in translated} == {"general/translation-llm"}


def test_without_credentials_the_run_fails_with_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(InputError) as error:
        run(Google("my-project"), tmp_path)
    assert str(error.value).startswith("no Google credentials: run 'gcloud auth")


class Dying(Google):
    """Goes on for some requests only."""

    left = 0

    def translate(self, texts: list[str], source: str, target: str) -> list[str]:
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
        reasons = {
            one.value.reason for one in _Translate(engine, str(tmp_path)).process([batch]) if hasattr(one, "tag")
        }
        (reason,) = reasons
        assert reason.startswith("plugin_error: KeyError: 'a bug, say' (test_translation_translate.py:")
        engine.close()
        assert [one.contents for one in server.answered] == [tuple(TEXTS[:5])]
        step = _Translate(google(server), str(tmp_path))
        assert sorted(step.process([batch])) == expected()
        step.teardown()
        assert [one.contents for one in server.answered] == [tuple(TEXTS[:5]), tuple(TEXTS[5:])]


def a_run(url: str, paid: str, texts: list[str]) -> None:
    """In a process of its own."""
    engine = Google("my-project", endpoint=url, codepoints=57)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        groups = in_groups(make_batches(texts, "en", "ko", engine.limits)[0], engine)
        _ = pipeline | beam.Create(groups, reshuffle=False) | Translate(engine, paid)


def test_a_run_that_is_killed_has_paid_for_nothing_in_vain(tmp_path):
    processes: list[BaseProcess] = []

    def kill(request: Request) -> str:
        if request.number == 2:
            processes[0].kill()
            return "unavailable"
        return ""

    with GoogleServer(kill) as server:
        processes.append(killed.start(a_run, server.url, str(tmp_path), list(TEXTS)))
        assert killed.ended(processes[0]) == -signal.SIGKILL
        assert len(server.requests) == 3
        translated, dead, counters = run(google(server), tmp_path)
        assert set(server.texts.values()) == {1}
        assert len(server.requests) == 3 + 2
    assert (translated, dead) == (expected(), [])
    assert counters["requests"] == 2
    assert not list(tmp_path.glob("*.tmp-*"))


def test_libretranslate_by_the_same_way(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with LibreTranslateServer(["", "", "busy", "html"], most_texts=4) as server:
        translated, dead, _ = run(LibreTranslate(server.url, wait=0), tmp_path)
        assert [len(one.texts) for one in server.requests] == [10, 5, 2, 2, 3, 5, 2, 3]
    assert dead == []
    assert [(one.provider, one.model) for one in translated] == [("libretranslate", "libretranslate")] * 10
    assert [one.translation for one in translated] == [translate(text, "en", "ko") for text in TEXTS]


@pytest.mark.parametrize(
    ("text", "answer", "found"),
    [
        ("it's", "c&#39;est", "c'est"),
        ("R & D", "R &amp; D", "R & D"),
        ("a &amp; b", "가 &amp; 나", "가 &amp; 나"),
        ("1 < 2", "1 < 2", "1 < 2"),
    ],
)
def test_entities_are_text_again_unless_they_were_sent(text, answer, found):
    assert unescaped(text, answer) == found
