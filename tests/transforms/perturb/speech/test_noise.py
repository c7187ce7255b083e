"""Noise: as loud as is asked, of the colour asked for, the same for the same key, named by what it is made of."""

import math

import numpy as np
import pytest
from kit import raised, write

pytest.importorskip("hibari")
pytest.importorskip("soundfile")
pytest.importorskip("scipy")

from parapet.schemas.errors import InputError
from parapet.transforms.perturb.speech import sound as sounds
from parapet.transforms.perturb.speech.embedded import Hibari
from parapet.transforms.perturb.speech.sound import Mixer, make_noise, to_samples

RATE = 16000
SILENCE = math.inf  # dB: no noise at all
TEXTS = ["i want a table at seven", "no thank you", "find me a flight to seattle on march first", "what about lunch"]


@pytest.fixture(scope="module")
def speech():
    """Half a minute, with pauses."""
    speaker = Hibari()
    pause = np.zeros(RATE // 2, np.int16)
    said = [part for i in range(4) for text in TEXTS for part in (speaker.speak(f"{text} {i}", "heart"), pause)]
    return np.concatenate(said)


def hiss(n, seed=0):
    return to_samples(np.random.default_rng(seed).normal(0, 2000, n))


def folder_of(place, **files):
    place.mkdir(parents=True)
    for name, sound in files.items():
        kind = "flac" if name.endswith("_flac") else "wav"
        (place / f"{name}.{kind}").write_bytes(sounds.sound_bytes(sound, kind))
    return str(place)


def decibels(power):
    return 10 * math.log10(power)


def through_noise(speech, noise, snr, key):
    return Mixer(speech, noise, key).at(snr)


def added(speech, noise, snr, key="k"):
    """The noise alone: what is there with it, less what is there without."""
    return through_noise(speech, noise, snr, key).astype(float) - through_noise(speech, noise, SILENCE, key)


def test_quiet_and_loud_speech_are_brought_to_one_level(speech):
    quiet = to_samples(speech / 20)
    loud = through_noise(speech, make_noise("white"), SILENCE, "k")
    assert np.abs(through_noise(quiet, make_noise("white"), SILENCE, "k").astype(int) - loud).max() < 60
    assert decibels(sounds.LEVEL**2 / 32768**2) == pytest.approx(-26)


def test_the_same_key_has_the_same_noise_and_no_other(speech, tmp_path):
    short = speech[: RATE // 2]
    noises = [make_noise("white"), make_noise("pink"), sounds.recordings(folder_of(tmp_path / "r", a=hiss(RATE)))]
    found = set()
    for noise in noises:
        one, other = (through_noise(sound, noise, 10, "a") for sound in (short, short.copy()))
        assert sounds.digest(one) == sounds.digest(other)
        found |= {sounds.digest(through_noise(short, noise, snr, key)) for snr in (10, 12) for key in ("a", "b", "")}
    assert len(found) == len(noises) * 6
    louder, quieter = added(short, make_noise("pink"), 5), added(short, make_noise("pink"), 15)
    assert np.abs(louder - quieter * math.sqrt(10)).max() < 5, "one ratio has another's noise, louder"


def test_each_key_has_one_of_the_recordings(tmp_path):
    at = 2 * np.pi * np.arange(RATE) / RATE
    tones = {f"t{hertz}": to_samples(8000 * np.sin(hertz * at)) for hertz in (500, 2000)}
    noise = sounds.recordings(folder_of(tmp_path / "r", **tones))
    found = []
    for key in map(str, range(12)):
        spectrum = np.abs(np.fft.rfft(added(np.zeros(RATE // 2, np.int16), noise, 0, key)))
        found.append(round(int(spectrum.argmax()) * RATE / (RATE // 2 + 9600)))
    assert {min((500, 2000), key=lambda hertz: abs(hertz - one)) for one in found} == {500, 2000}
    assert all(min(abs(one - 500), abs(one - 2000)) < 5 for one in found)


def test_folders_that_are_of_no_use(tmp_path):
    write(tmp_path / "empty/notes.txt", "none")
    folder_of(tmp_path / "bad", a=hiss(3000))
    write(tmp_path / "bad/b.WAV", "none")
    folder_of(tmp_path / "silent", a=np.zeros(3000, np.int16))
    for folder, said in (
        ("gone", r"--noise: is neither a kind of noise \(white, pink\) nor a folder"),
        ("empty", r"empty: --noise: contains no recordings: \.wav, \.flac"),
        ("empty/notes.txt", "nor a folder of recordings"),
        ("bad", r"bad/b\.WAV: cannot be read as audio"),
        ("silent", r"silent/a\.wav: contains no sound"),
    ):
        raised(InputError, make_noise, str(tmp_path / folder), match=said)


def test_a_recording_that_cannot_be_opened(tmp_path):
    (tmp_path / "a.wav").mkdir()
    raised(InputError, sounds.recordings, str(tmp_path), match=r"a\.wav")
