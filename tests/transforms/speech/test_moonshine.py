"""Moonshine and Flite, the one in a package and the other in a system library: the same whatever came before."""

import pickle
from importlib.util import find_spec

import numpy as np
import pytest

pytest.importorskip("scipy")

from heard_sets import three_dialogues
from kit import refused, run

from parapet.schemas.errors import InputError, install_line
from parapet.transforms.perturbations.speech import engine, flite, moonshine
from parapet.transforms.perturbations.speech.alignment import align
from parapet.transforms.perturbations.speech.embedded import Espeak
from parapet.transforms.perturbations.speech.engine import RATE
from parapet.transforms.perturbations.speech.sound import active_power, plain, through_noise
from parapet.transforms.perturbations.speech.spoken import load_normalisation, spoken_words

TEXTS = ["i want a table for two", "no thank you", "book a cab to the airport please", "yes that sounds good"]


def opened_speaker():
    try:
        engine = pickle.loads(pickle.dumps(flite.Synthesiser()))
        engine.check(list(flite.VOICES))
    except InputError as error:
        pytest.skip(error.reason)
    engine.open()
    return engine


def test_flite_says_the_same_whatever_it_said_before():
    one = opened_speaker()
    order = [(text, voice) for text in TEXTS for voice in flite.VOICES]
    first = {asked: one.speak(*asked) for asked in order}
    again = {asked: one.speak(*asked) for asked in reversed(order)}
    for asked in order:
        assert np.array_equal(first[asked], again[asked]), asked
        assert first[asked].dtype == np.int16
        assert 0.3 < len(first[asked]) / RATE < 4
        assert active_power(first[asked]) > 100
    assert len({sound.tobytes() for sound in first.values()}) == len(order)

    with pytest.raises(InputError, match="--voices: 'nobody' is no voice of Flite; there are rms, awb, slt, kal16"):
        one.check(["rms", "nobody"])


def opened_listener():
    if find_spec("moonshine_voice") is None:
        pytest.skip("moonshine-voice is not installed")
    engine = pickle.loads(pickle.dumps(moonshine.Recogniser()))
    engine.open()
    return engine


def test_moonshine_hears_whole_turns_and_the_same_in_any_order():
    """No stray first line, nothing cut off: silence, or nothing at all, is nothing."""
    pytest.importorskip("espeakng_loader")
    listener, speaker, rules = opened_listener(), Espeak(), load_normalisation()
    speaker.open()
    sounds = [through_noise(speaker.speak(text, "plain"), plain("pink"), 30, text) for text in TEXTS]
    first = [listener.hear(sound) for sound in sounds]
    assert [listener.hear(sound) for sound in reversed(sounds)] == first[::-1]
    errors = words = 0
    for text, heard in zip(TEXTS, first, strict=True):
        aligned = align(text.split(), [word.text for word in spoken_words(heard, rules)])
        errors += aligned.substitutions + aligned.deletions + aligned.insertions
        words += len(text.split())
    assert errors / words < 0.5, first
    assert listener.hear(np.zeros(RATE, np.int16)) == ""
    listener.close()
    listener.close()


@pytest.mark.skipif(find_spec("moonshine_voice") is not None, reason="it is installed")
def test_a_package_that_is_missing_is_named(tmp_path):
    told = refused("speech_errors", output=tmp_path / "out", listener="moonshine")
    assert f"--listener: moonshine-voice is not installed: {install_line('moonshine')}" in told


def test_one_only_speaks_and_the_other_only_listens():
    with pytest.raises(InputError, match="--speaker: moonshine has no Synthesiser"):
        engine.make("speaker", engine.choose("speaker", "moonshine"), {})
    with pytest.raises(InputError, match="--listener: flite has no Recogniser"):
        engine.make("listener", engine.choose("listener", "flite"), {})


def test_a_set_that_moonshine_hears(tmp_path, tmp_path_factory):
    """Of nine turns and a voice that is hard for it; how near it comes to a rate other tests say."""
    opened_listener().close()
    sgd, out = three_dialogues(tmp_path_factory)[0], tmp_path / "out"
    made = run("speech_errors", "--quiet", sgd=sgd, output=out, listener="moonshine", voices="plain", snr="30,6,-4",
               wer="0.6", sample=9)  # fmt: skip
    numbers = made.json("statistics.json")
    assert numbers["made_with"]["recogniser"].startswith("moonshine tiny-en (moonshine-voice ")
    assert numbers["made_with"]["language_model"] == ""
    assert 0.4 < numbers["sets"]["SR-60"]["wer"] < 0.8
