"""The Azure engines, through the real SDK, against a server on this machine."""

import logging
import sys

import kit
import pytest
from kit import cases, lacking, raised

pytest.importorskip("azure.cognitiveservices.speech", reason="azure-cognitiveservices-speech is not installed")
pytest.importorskip("websockets")

import numpy as np
from azure_speech_server import KEY, AzureSpeechServer, sound_of, text_of

from parapet.schemas.errors import InputError
from parapet.transforms.core.fence import Refused, Stopped
from parapet.transforms.perturb.speech import azure
from parapet.transforms.perturb.speech.azure import AzureRecogniser, AzureSynthesiser

VOICE = "en-US-JennyNeural"
TEXTS = ["hello there", "i'd like a table for two", "at seven", "in san jose please", "thank you"]
both = cases("kind", AzureSynthesiser, AzureRecogniser)


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("AZURE_SPEECH_KEY", KEY)
    monkeypatch.delenv("AZURE_SPEECH_REGION", raising=False)
    monkeypatch.setattr(azure, "WAITS", (0.001, 0.002))


def opened(kind, server, **given):
    return kit.opened(kind(endpoint=server.url, **{"patience": 20, **given}))


def asked(engine, text=TEXTS[0]):
    """What comes back, as text, of speaking it or of hearing it."""
    if isinstance(engine, AzureSynthesiser):
        return text_of(engine.speak(text, VOICE))[0]
    return engine.hear(sound_of(text))


@cases("fault", "nothing", "silence", "babble")
def test_where_no_words_are_nothing_is_heard(fault):
    with AzureSpeechServer([fault]) as server, opened(AzureRecogniser, server) as engine:
        assert (engine.hear(sound_of("hm")), engine.hear(np.zeros(0, np.int16))) == ("", "")
        assert len(server.requests) == 1


@cases("fault", "nothing", "silence")
def test_an_empty_or_silent_answer_is_refused(fault):
    refused = pytest.raises(Refused, match=f"empty_answer: .* from {VOICE}")
    with AzureSpeechServer([fault]) as server, opened(AzureSynthesiser, server) as engine, refused:
        engine.speak("hm", VOICE)


@cases("fault", "tail", "stall", "1000", "1011", "cut")
def test_nothing_of_a_sound_is_left_in_the_next(fault, monkeypatch):
    texts = ["one fish", "two fish"]
    sounds = [np.pad(sound_of(text), (0, 8_000)) for text in texts]
    monkeypatch.setattr(azure, "DEADLINE", 0.5 if fault in ("stall", "1000") else 20)
    with AzureSpeechServer([fault]) as server, opened(AzureRecogniser, server, patience=0) as engine:
        if fault == "tail":
            assert engine.hear(sounds[0]) == texts[0]
        else:
            raised(Refused, engine.hear, sounds[0], match="unavailable: ")
        monkeypatch.setattr(azure, "DEADLINE", 20)
        assert [engine.hear(sound) for sound in sounds] == texts
        assert [one.text for one in server.requests[-2:]] == texts
        for one in server.requests[-2:]:
            assert np.array_equal(one.samples[: len(sounds[0])], sounds[texts.index(one.text)])


@pytest.mark.thorough
@both
@cases("fault", "429", "500", "503", "1011", "throttled", "cut")
def test_what_may_pass_is_tried_again(kind, fault, caplog):
    caplog.set_level(logging.INFO)
    # Twice, as the SDK itself tries some a second time.
    with AzureSpeechServer([fault, fault]) as server, opened(kind, server) as engine:
        assert asked(engine) == TEXTS[0]
        assert len(server.keys) == 3
        assert [one.answered for one in server.requests][-1:] == [True]
        assert {one.text for one in server.requests if one.answered} == {TEXTS[0]}
    assert not lacking(caplog.text, "Azure Speech: ", "trying again")
    assert KEY not in caplog.text


@both
@cases("fault reason", ("401", "credentials: "), ("403", "denied: "), ("404", "not_found: "), ("quota", "quota: "))
def test_what_no_further_request_could_mend_stops(kind, fault, reason):
    with AzureSpeechServer([fault, fault]) as server, opened(kind, server) as engine:
        raised(Stopped, asked, engine, match=f"^{reason}")
        # The SDK itself tries again to speak.
        assert len(server.keys) == (2 if fault == "404" and kind is AzureSynthesiser else 1)


@both
@cases("fault", "400", "1007")
def test_a_bad_request_is_refused(kind, fault):
    with AzureSpeechServer([fault]) as server, opened(kind, server) as engine:
        assert server.url not in raised(Refused, asked, engine, match="invalid: ").reason
        assert asked(engine) == TEXTS[0]


@both
def test_an_outage_is_waited_out_once(kind, monkeypatch):
    monkeypatch.setattr(azure, "WAITS", (0.05, 0.05))
    down = [True]
    with AzureSpeechServer(lambda: "503" if down[0] else "") as server, opened(kind, server, patience=0.4) as engine:
        raised(Refused, asked, engine, match=r"unavailable: .*503")
        tries = len(server.keys)
        assert tries > 3
        # The SDK speaks twice by itself.
        once = 2 if kind is AzureSynthesiser else 1
        for _ in range(2):
            raised(Refused, asked, engine, match="unavailable")
        assert len(server.keys) == tries + 2 * once
        down[0] = False
        assert asked(engine) == TEXTS[0]
    assert not engine._down


def test_what_is_spoken_is_escaped():
    text = """<break time="9s"/> fish & 'chips' ]]> &lt;"""
    with AzureSpeechServer() as server, opened(AzureSynthesiser, server) as engine:
        assert text_of(engine.speak(text, VOICE))[0] == text
        (request,) = server.requests
    assert request.text == text
    assert '&lt;break time="9s"/&gt; fish &amp; ' in request.ssml


def test_names_that_no_voice_can_have():
    markup = "en-US-Jenny'/><audio src='http://elsewhere/'/>"
    for voice in ["", "Jenny", "en-US", f"{VOICE}\n", "en-US-Jenny Neural", markup]:
        raised(InputError, AzureSynthesiser().check, [VOICE, voice], match="--voices: .* is not a voice of Azure's")
    AzureSynthesiser().check([VOICE, "zh-CN-liaoning-XiaobeiNeural", "en-US-Ava:DragonHDLatestNeural"])


@both
def test_without_a_key_or_region_there_is_one_clear_line(kind, monkeypatch):
    raised(InputError, kind().open, match=r"^--azure_region: must be the region .* set AZURE_SPEECH_REGION\)$")
    monkeypatch.setenv("AZURE_SPEECH_REGION", "http://elsewhere")
    raised(InputError, kind().open, match=r"^--azure_region: http://elsewhere: must be the region")
    monkeypatch.setenv("AZURE_SPEECH_REGION", "westeurope")
    engine = kind()
    engine.open()
    engine.close()
    for value in ("", " \n"):
        monkeypatch.setenv("AZURE_SPEECH_KEY", value)
        for given in ({"region": "westeurope"}, {"endpoint": "wss://example.org"}):
            raised(InputError, kind(**given).open, match=r"^AZURE_SPEECH_KEY: is not set: ")
    monkeypatch.setitem(sys.modules, "azure.cognitiveservices.speech", None)
    raised(InputError, kind(region="westeurope").open, match=r"pip install .*\[azure\]'")


@cases(
    "given named",
    ({"region": "evil.org/#"}, "--azure_region"),
    ({"endpoint": "wss://me:secret@host"}, "--azure_endpoint"),
    ({"endpoint": "wss://host/?key=secret"}, "--azure_endpoint"),
)
@both
def test_arguments_that_cannot_be(kind, given, named):
    error = raised(InputError, kind, **given)
    assert error.path == named
    assert "secret" not in str(error)
