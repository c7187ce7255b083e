"""Sound as arrays and files: recordings of every kind are read alike, what is written reads back exactly.

Noise: as loud as is asked, of the colour asked for, the same for the same key, named by what it is made of.
"""

import hashlib
import io
import math
import struct
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import raised, write

pytest.importorskip("hibari")
pytest.importorskip("soundfile")
pytest.importorskip("scipy")

import soundfile

from parapet.schemas.errors import InputError
from parapet.transforms.perturb.speech import sound as sounds
from parapet.transforms.perturb.speech.embedded import Hibari
from parapet.transforms.perturb.speech.sound import Mixer, make_noise, to_samples

RATE = 16000
SILENCE = math.inf  # dB: no noise at all
TEXTS = ["i want a table at seven", "no thank you", "find me a flight to seattle on march first", "what about lunch"]

SAMPLES = st.lists(st.integers(-32768, 32767), max_size=700).map(lambda some: np.array(some, np.int16))


def tone(rate, seconds=0.5):
    """Two tones that swell, below what 8 kHz can hold; -1 to 1."""
    at = np.arange(int(rate * seconds)) / rate
    both = 0.3 * np.sin(2 * np.pi * 440 * at) + 0.2 * np.sin(2 * np.pi * 1500 * at)
    return np.asarray(both * np.sin(np.pi * at / seconds))


def file_of(sound, rate, kind="WAV", subtype="PCM_16"):
    handle = io.BytesIO()
    soundfile.write(handle, sound, rate, format=kind, subtype=subtype)
    return handle.getvalue()


@given(st.binary(max_size=200), st.integers(0, 60), st.binary(max_size=8))
def test_any_bytes_are_sound_or_told(data, at, spoilt):
    good = file_of(tone(RATE, 0.01), RATE)
    for one in (data, good[:at] + spoilt + good[at + len(spoilt) :]):
        rate = struct.unpack("<I", one[24:28].ljust(4, b"\0"))[0]
        if RATE / math.gcd(rate, RATE) * rate > 2**32:
            continue  # a filter of so many taps takes too long
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert sounds.decoded(one, "x").dtype == np.int16
        except InputError as error:
            assert error.path == "x"  # noqa: PT017


@given(SAMPLES, st.sampled_from(["wav", "flac"]))
def test_what_is_written_reads_back(sound, kind):
    if kind == "flac" and not len(sound):
        return
    found = sounds.read_sound(sounds.sound_bytes(sound, kind))
    assert found.dtype == np.int16
    assert np.array_equal(found, sound)
    assert sounds.sound_bytes(sound, kind) == sounds.sound_bytes(sound.copy(), kind)


@given(SAMPLES)
def test_the_digest_is_of_the_samples_in_little_endian(sound):
    plain = hashlib.sha256(b"".join(struct.pack("<h", int(one)) for one in sound)).hexdigest()
    assert (sounds.digest(sound), sounds.digest(sound.astype(">i2").astype(np.int16))) == (plain, plain)
    if len(sound):
        assert sounds.digest(sound[1:]) != plain
        assert sounds.digest(np.append(sound, np.int16(0))) != plain


def plain_power(sound):
    frames = [sound[i : i + sounds.FRAME] for i in range(0, len(sound) - sounds.FRAME + 1, sounds.FRAME)] or [sound]
    powers = [sum(float(one) ** 2 for one in frame) / len(frame) for frame in frames]
    loud = [power for power in powers if power >= max(powers) / 1000]
    return sum(loud) / len(loud)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(1, 900), st.integers(0, 20000)), min_size=1, max_size=5), st.integers(0, 2**32))
def test_the_power_is_that_of_the_loud_frames(parts, seed):
    drawn = np.random.default_rng(seed)
    sound = np.concatenate([drawn.uniform(-high - 1, high + 1, n) for n, high in parts]).astype(np.int16)
    assert sounds.active_power(sound) == pytest.approx(plain_power(sound), rel=1e-9)


def test_the_power_of_little():
    assert sounds.active_power(np.zeros(0, np.int16)) == sounds.active_power(np.zeros(5 * sounds.FRAME, np.int16)) == 0
    assert sounds.active_power(np.array([3, -4], np.int16)) == 12.5
    assert sounds.active_power(np.full(sounds.FRAME, -32768, np.int16)) == 32768**2


def test_rounded_and_clipped():
    given = np.array([0.4, 0.6, -0.6, 32767.4, 32768.0, 1e30, -32768.6, -1e30, np.inf, -np.inf])
    assert to_samples(given).tolist() == [0, 1, -1, 32767, 32767, 32767, -32768, -32768, 32767, -32768]
    same = np.array([1, -2], np.int16)
    assert to_samples(same) is same


def test_resampling_keeps_length_level_and_silence():
    for rate, to in ((22050, RATE), (RATE, 22050), (8000, RATE)):
        found = sounds.resampled(tone(rate) * 32767, rate, to)
        assert len(found) == math.ceil(len(tone(rate)) * to / rate)
        assert sounds.active_power(found) == pytest.approx(sounds.active_power(tone(rate) * 32767), rel=0.06)
    assert not sounds.resampled(np.zeros(500), 22050, RATE).any()
    assert len(sounds.resampled(np.zeros(0, np.int16), 22050, RATE)) == 0
    # What the lower rate cannot hold is gone, not folded down.
    high = np.sin(2 * np.pi * 10_000 * np.arange(22050) / 44100) * 20000
    assert np.abs(sounds.resampled(high, 44100, RATE)[500:-500]).max() < 200


def test_the_package_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    told = "soundfile is not installed: pip install"
    raised(InputError, sounds.decoded, b"", "x", match=told)
    raised(InputError, sounds.sound_bytes, np.zeros(3, np.int16), "wav", match=told)
    raised(InputError, sounds.read_sound, b"", match=told)


# Noise.


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


def through_noise(speech, noise, snr, key):
    return Mixer(speech, noise, key).at(snr)


def added(speech, noise, snr, key="k"):
    """The noise alone: what is there with it, less what is there without."""
    return through_noise(speech, noise, snr, key).astype(float) - through_noise(speech, noise, SILENCE, key)


def test_quiet_and_loud_speech_are_brought_to_one_level(speech):
    quiet = to_samples(speech / 20)
    loud = through_noise(speech, make_noise("white"), SILENCE, "k")
    assert np.abs(through_noise(quiet, make_noise("white"), SILENCE, "k").astype(int) - loud).max() < 60
    assert 20 * math.log10(sounds.LEVEL / 32768) == pytest.approx(-26)


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
