"""The Azure engines, through the real SDK, against a server on this machine."""

import logging
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("azure.cognitiveservices.speech", reason="azure-cognitiveservices-speech is not installed")
pytest.importorskip("websockets")

import numpy as np
from azure_speech_server import KEY, PCM, AzureSpeechServer, sound_of, text_of

from parapet.schemas.errors import InputError
from parapet.transforms.perturbations.speech import azure
from parapet.transforms.perturbations.speech.azure import AzureRecogniser, AzureSynthesiser, is_voice
from parapet.transforms.running.fence import Refused, Stopped

VOICE = "en-US-JennyNeural"
TEXTS = ["hello there", "i'd like a table for two", "at seven", "in san jose please", "thank you"]
QUICK: dict[str, Any] = {"patience": 20, "seconds": 20}
both = pytest.mark.parametrize("kind", [AzureSynthesiser, AzureRecogniser])
Engine = AzureSynthesiser | AzureRecogniser


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("AZURE_SPEECH_KEY", KEY)
    monkeypatch.delenv("AZURE_SPEECH_REGION", raising=False)
    monkeypatch.setattr(azure, "WAITS", (0.001, 0.002))


@contextmanager
def opened(kind: type[Any], server: AzureSpeechServer, **given: Any) -> Iterator[Any]:
    engine = kind(endpoint=server.url, **{**QUICK, **given})
    engine.open()
    try:
        yield engine
    finally:
        engine.close()
        engine.close()


def asked(engine: Engine, text: str = TEXTS[0]) -> str:
    """What comes back, as text, of speaking it or of hearing it."""
    if isinstance(engine, AzureSynthesiser):
        return text_of(engine.speak(text, VOICE))[0]
    return engine.hear(sound_of(text))


def noisy(sound: Any, snr: float, seed: int = 0) -> Any:
    """With 0.1 s before and after."""
    sound = np.pad(sound.astype(float), 1600)
    noise = np.random.default_rng(seed).normal(0, 6_000 * 10 ** (-snr / 20), len(sound))
    return np.clip(sound + noise, -32_768, 32_767).astype(np.int16)


def test_there_and_back():
    kind = AzureRecogniser
    with AzureSpeechServer() as server, opened(AzureSynthesiser, server) as speaks, opened(kind, server) as hears:
        for text in TEXTS:
            sound = speaks.speak(text, VOICE)
            assert (sound.dtype, sound.ndim) == (np.int16, 1)
            assert hears.hear(sound) == text
            assert hears.hear(noisy(sound, snr=10)) == text
        assert server.connections == 3 * len(TEXTS)  # one each
        assert [one.text for one in server.requests] == [text for text in TEXTS for _ in range(3)]
        assert set(server.keys) == {KEY}
    spoken, heard = server.requests[:2]
    assert spoken.voice == VOICE
    assert (speaks.name, speaks.dollars_per_million) == ("azure:neural", 15.0)
    assert (hears.name, hears.dollars_per_hour) == ("azure:en-US", 1.0)
    assert AzureRecogniser(language="en-GB", parallel=3).name == "azure:en-GB"
    assert AzureRecogniser(parallel=3).parallel == 3
    assert spoken.options["synthesis.context"]["synthesis"]["audio"]["outputFormat"] == PCM
    assert (heard.options["language"], heard.options["format"]) == ("en-US", "detailed")


def test_the_lexical_form_of_all_phrases_is_what_is_heard():
    listens = AzureSpeechServer(mishears={"seven": "eleven", "the": ""}, phrase_words=2)
    with listens as server, opened(AzureRecogniser, server) as engine:
        assert engine.hear(sound_of("at seven in the evening please")) == "at eleven in evening please"
        assert len(server.requests) == 1


@pytest.mark.parametrize("fault", ["nothing", "silence", "babble"])
def test_where_no_words_are_nothing_is_heard(fault):
    with AzureSpeechServer([fault]) as server, opened(AzureRecogniser, server) as engine:
        assert engine.hear(sound_of("hm")) == ""
        assert engine.hear(np.zeros(0, np.int16)) == ""
        assert len(server.requests) == 1


@pytest.mark.parametrize("fault", ["nothing", "silence"])
def test_an_empty_or_silent_answer_is_refused(fault):
    refused = pytest.raises(Refused, match=f"empty_answer: .* from {VOICE}")
    with AzureSpeechServer([fault]) as server, opened(AzureSynthesiser, server) as engine, refused:
        engine.speak("hm", VOICE)


def test_a_sound_is_sent_whole_and_alone():
    lengths = (1, 159, 160, 1601, 16_000)
    sounds = [np.full(length, number + 1, np.int16) for number, length in enumerate(lengths)]
    with AzureSpeechServer() as server, opened(AzureRecogniser, server) as engine:
        assert [engine.hear(sound) for sound in sounds] == [""] * len(sounds)
        for sent, came in zip(sounds, server.sounds, strict=True):
            assert len(came) == -(-len(sent) // 160) * 160
            assert np.array_equal(came[: len(sent)], sent)
            assert not came[len(sent) :].any()


@pytest.mark.parametrize("fault", ["tail", "stall", "1000", "1011", "cut"])
def test_nothing_of_a_sound_is_left_in_the_next(fault):
    texts = ["one fish", "two fish"]
    sounds = [np.pad(sound_of(text), (0, 8_000)) for text in texts]
    seconds = 0.5 if fault in ("stall", "1000") else 20
    with AzureSpeechServer([fault]) as server, opened(AzureRecogniser, server, seconds=seconds, patience=0) as engine:
        if fault == "tail":
            assert engine.hear(sounds[0]) == texts[0]
        else:
            with pytest.raises(Refused, match="unavailable: "):
                engine.hear(sounds[0])
        engine.seconds = 20
        assert [engine.hear(sound) for sound in sounds] == texts
        assert [one.text for one in server.requests[-2:]] == texts
        for one in server.requests[-2:]:
            assert np.array_equal(one.samples[: len(sounds[0])], sounds[texts.index(one.text)])


@both
@pytest.mark.parametrize("fault", ["429", "500", "503", "1011", "throttled", "cut", "stall", "1000"])
def test_what_may_pass_is_tried_again(kind, fault, caplog):
    caplog.set_level(logging.INFO)
    # Twice, as the SDK itself tries some a second time.
    seconds = 1 if fault in ("stall", "1000") else 20
    with AzureSpeechServer([fault, fault]) as server, opened(kind, server, seconds=seconds) as engine:
        assert asked(engine) == TEXTS[0]
        assert len(server.keys) == 3 or seconds == 1
        assert [one.answered for one in server.requests][-1:] == [True]
        assert {one.text for one in server.requests if one.answered} == {TEXTS[0]}
    assert "Azure Speech: " in caplog.text
    assert "trying again" in caplog.text
    assert KEY not in caplog.text


@both
@pytest.mark.parametrize(
    ("fault", "reason"), [("401", "credentials: "), ("403", "denied: "), ("404", "not_found: "), ("quota", "quota: ")]
)
def test_what_no_further_request_could_mend_stops(kind, fault, reason):
    with AzureSpeechServer([fault, fault]) as server, opened(kind, server) as engine:
        with pytest.raises(Stopped, match=f"^{reason}"):
            asked(engine)
        # The SDK itself tries again to speak.
        assert len(server.keys) == (2 if fault == "404" and kind is AzureSynthesiser else 1)


@both
@pytest.mark.parametrize("fault", ["400", "1007"])
def test_a_bad_request_is_refused(kind, fault):
    with AzureSpeechServer([fault]) as server, opened(kind, server) as engine:
        with pytest.raises(Refused, match="invalid: ") as refused:
            asked(engine)
        assert server.url not in refused.value.reason
        assert asked(engine) == TEXTS[0]


@both
def test_an_outage_is_waited_out_once(kind, monkeypatch):
    monkeypatch.setattr(azure, "WAITS", (0.05, 0.05))
    down = [True]
    with AzureSpeechServer(lambda: "503" if down[0] else "") as server, opened(kind, server, patience=0.4) as engine:
        with pytest.raises(Refused, match=r"unavailable: .*503"):
            asked(engine)
        tries = len(server.keys)
        assert tries > 3
        # The SDK speaks twice by itself.
        once = 2 if kind is AzureSynthesiser else 1
        for _ in range(2):
            with pytest.raises(Refused, match="unavailable"):
                asked(engine)
        assert len(server.keys) == tries + 2 * once
        down[0] = False
        assert asked(engine) == TEXTS[0]
    assert not engine._down


@both
def test_two_at_a_time(kind):
    both_at_once = AzureSpeechServer(together=2)
    with both_at_once as server, opened(kind, server, parallel=2) as engine, ThreadPoolExecutor(2) as threads:
        assert list(threads.map(lambda text: asked(engine, text), TEXTS * 2)) == TEXTS * 2


def test_what_is_spoken_is_escaped():
    text = """<break time="9s"/> fish & 'chips' ]]> &lt;"""
    with AzureSpeechServer() as server, opened(AzureSynthesiser, server) as engine:
        assert text_of(engine.speak(text, VOICE))[0] == text
        (request,) = server.requests
    assert request.text == text
    assert "&lt;break time=&quot;9s&quot;/&gt; fish &amp; &apos;chips&apos;" in request.ssml


def test_what_cannot_be_spoken_is_not_sent():
    markup = "en-US-Jenny'/><audio src='http://elsewhere/'/>"
    voices = ["", "Jenny", "en-US", f"{VOICE}\n", "en-US-Jenny Neural", markup]
    with AzureSpeechServer() as server, opened(AzureSynthesiser, server) as engine:
        for text, voice in [*((text, VOICE) for text in ("  ", "a\0b", "\ud800")), *(("hello", one) for one in voices)]:
            with pytest.raises(Refused, match="invalid: "):
                engine.speak(text, voice)
        assert server.keys == []
    assert all(map(is_voice, [VOICE, "zh-CN-liaoning-XiaobeiNeural", "en-US-Ava:DragonHDLatestNeural"]))


@both
def test_it_travels_pickled_without_the_key(kind):
    with AzureSpeechServer() as server:
        engine = kind(endpoint=server.url, **QUICK)
        packed = pickle.dumps(engine)
        assert KEY.encode() not in packed
        engine = pickle.loads(packed)
        engine.open()
        assert asked(engine) == TEXTS[0]
        assert KEY not in repr(engine)
        assert KEY not in repr(vars(engine))
        assert KEY not in engine.name
        engine.close()


@both
def test_no_message_has_a_secret(kind, monkeypatch):
    # As if Azure told them: the server's answer to a wrong one is what the client shows.
    short = "s3cret"
    monkeypatch.setenv("AZURE_SPEECH_KEY", short)
    reason = f"{short}, {KEY}, bearer abc eyJhbGci.eyJz and wss://me:pass@host/?key=1"
    telling = AzureSpeechServer(["1007"], key=short, closed={"1007": (1007, reason)})
    with telling as server, opened(kind, server) as engine, pytest.raises(Refused) as refused:
        asked(engine)
    assert refused.value.reason.endswith("Error details: …, …, … … and …")
    with AzureSpeechServer(host="127.0.0.2") as server, opened(kind, server) as engine:
        with pytest.raises(Stopped, match="credentials"):
            asked(engine)
        assert set(server.keys) == {""}, "unencrypted the key stays on this machine"


@both
def test_without_a_key_or_region_there_is_one_clear_line(kind, monkeypatch):
    with pytest.raises(InputError, match=r"^--azure_region: is not given: .* or set AZURE_SPEECH_REGION$"):
        kind().open()
    monkeypatch.setenv("AZURE_SPEECH_REGION", "http://elsewhere")
    with pytest.raises(InputError, match=r"^AZURE_SPEECH_REGION: is no region"):
        kind().open()
    monkeypatch.setenv("AZURE_SPEECH_REGION", "westeurope")
    engine = kind()
    engine.open()
    engine.close()
    for value in ("", " \n"):
        monkeypatch.setenv("AZURE_SPEECH_KEY", value)
        for given in ({"region": "westeurope"}, {"endpoint": "wss://example.org"}):
            with pytest.raises(InputError, match=r"^AZURE_SPEECH_KEY: is not set: "):
                kind(**given).open()
    monkeypatch.setitem(sys.modules, "azure.cognitiveservices.speech", None)
    with pytest.raises(InputError, match=r"pip install .*\[azure\]'"):
        kind(region="westeurope").open()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"region": "evil.org/#"}, "--azure_region"),
        ({"endpoint": "http://host"}, "--azure_endpoint"),
        ({"endpoint": "wss://me:secret@host"}, "--azure_endpoint"),
        ({"endpoint": "wss://host/?key=secret"}, "--azure_endpoint"),
        ({"language": "english"}, "language"),
        ({"language": "en-US'/>"}, "language"),
        ({"parallel": 0}, "parallel"),
    ],
)
@both
def test_arguments_that_cannot_be(kind, given, named):
    with pytest.raises(InputError) as error:
        kind(**given)
    assert error.value.path == named
    assert "secret" not in str(error.value)


ENDS = """
from parapet.transforms.running.fence import Refused
from parapet.transforms.perturbations.speech.azure import AzureRecogniser, AzureSynthesiser
import numpy as np
import sys
hears, speaks = (kind(endpoint=sys.argv[1], patience=0, seconds=0.3) for kind in (AzureRecogniser, AzureSynthesiser))
hears.open(), speaks.open()
for ask in (lambda: hears.hear(np.ones(160, np.int16)), lambda: speaks.speak("hello", "en-US-JennyNeural")):
    try:
        ask()
    except Refused as refused:
        print(refused.reason)
"""


@pytest.mark.parametrize("faults", [["stall", "stall"], ["cut", "cut"]])
def test_a_process_ends_whatever_hangs(faults):
    root = Path(__file__).parents[3]
    with AzureSpeechServer(faults) as server:
        ended = subprocess.run([sys.executable, "-c", ENDS, server.url], cwd=root, capture_output=True, timeout=30)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.count(b"unavailable: ") == len(faults)
