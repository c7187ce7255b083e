"""The engine of wheels: the same sound and the same words whatever came before, and who is there to speak."""

import pickle
import re
from importlib.util import find_spec

import numpy as np
import pytest

pytest.importorskip("hibari")
pytest.importorskip("scipy")
if find_spec("moonshine_voice") is None:
    pytest.skip("moonshine-voice is not installed", allow_module_level=True)

from kit import cases, opened, raised

from parapet.schemas.errors import InputError
from parapet.transforms.perturb.speech.alignment import align, respelled, word_errors
from parapet.transforms.perturb.speech.embedded import SPEAKERS, Hibari, Moonshine
from parapet.transforms.perturb.speech.engine import RATE
from parapet.transforms.perturb.speech.sound import Mixer, active_power, make_noise
from parapet.transforms.perturb.speech.spoken import spoken_words

TEXTS = ["i want a table for two at ten a m", "no thank you"]
TEXTS += ["book a cab to the airport please", "yes that sounds good"]
VOICES = SPEAKERS.split(",")


@pytest.fixture(scope="module")
def speaker():
    """As it comes to a worker, pickled."""
    speaker = pickle.loads(pickle.dumps(Hibari()))
    speaker.check(VOICES)
    return speaker


@pytest.fixture(scope="module")
def listener():
    with opened(pickle.loads(pickle.dumps(Moonshine()))) as listener:
        yield listener


@pytest.mark.thorough
def test_the_same_text_has_the_same_sound_whatever_was_said_before(speaker):
    order = [(text, voice) for text in TEXTS[1:3] for voice in VOICES]
    first = {asked: speaker.speak(*asked) for asked in order}
    assert all(np.array_equal(Hibari().speak(*asked), first[asked]) for asked in order[::-5])
    assert len({sound.tobytes() for sound in first.values()}) == len(order)
    assert all(sound.dtype == np.int16 and active_power(sound) > 100 for sound in first.values())


@cases("voice longer higher", ("heart:0.8", 1.25, 1), ("heart:1.25:1.2", 0.8, 1.2))
def test_speed_and_pitch(voice, longer, higher, speaker):
    """Pitch is the distance between the peaks of the autocorrelation of a vowel."""

    def pitch(sound):
        middle = sound[len(sound) // 3 :][: RATE // 5].astype(float)
        lags = np.correlate(middle, middle, "full")[len(middle) - 1 :][RATE // 400 : RATE // 100]
        return RATE / (RATE // 400 + int(lags.argmax()))

    own, other = speaker.speak("no no no", "heart"), speaker.speak("no no no", voice)
    assert len(other) / len(own) == pytest.approx(longer, rel=0.15)
    assert pitch(other) / pitch(own) == pytest.approx(higher, rel=0.15)


@cases(
    "voice told",
    ("klatt4", "'klatt4' is not a voice: give a name, a speed"),
    ("heart:3", "'heart:3' is not a voice"),
    ("heart:1:0.5", "'heart:1:0.5' is not a voice"),
    ("fenrir", "the voice 'fenrir' is not installed (no file "),
)
def test_voices_that_cannot_be_used(voice, told, speaker, tmp_path, monkeypatch):
    monkeypatch.setenv("HIBARI_HOME", str(tmp_path))
    raised(InputError, speaker.check, ["heart", voice], match=re.escape(f"--voices: {told}"))


def words_of(listener, text, sound):
    reference = text.split()
    return align(reference, respelled(reference, [word.text for word in spoken_words(listener.hear(sound))]))


def test_whole_turns_are_heard_and_the_same_in_any_order(listener, speaker):
    sounds = [Mixer(speaker.speak(text, VOICES[i]), make_noise("pink"), text).at(30) for i, text in enumerate(TEXTS)]
    first = [listener.hear(sound) for sound in sounds]
    assert [listener.hear(sound) for sound in sounds[::-1]] == first[::-1]
    assert sum(word_errors(words_of(listener, *pair)).total() for pair in zip(TEXTS, sounds, strict=True)) <= 2, first
    for n in (0, 1, 100, 16000):
        assert listener.hear(np.zeros(n, np.int16)) == ""
    for loud in (np.full(4000, 32767, np.int16), sounds[0][:500]):
        assert isinstance(listener.hear(loud), str)
