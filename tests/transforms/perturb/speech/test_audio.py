"""Sound as arrays and files: recordings of every kind are read alike, what is written reads back exactly."""

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
from kit import raised

pytest.importorskip("soundfile")
pytest.importorskip("scipy")

import soundfile

from parapet.schemas.errors import InputError
from parapet.transforms.perturb.speech import sound as sounds

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
    good = file_of(tone(16000, 0.01), 16000)
    for one in (data, good[:at] + spoilt + good[at + len(spoilt) :]):
        rate = struct.unpack("<I", one[24:28].ljust(4, b"\0"))[0]
        if 16000 / math.gcd(rate, 16000) * rate > 2**32:
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
    assert sounds.to_samples(given).tolist() == [0, 1, -1, 32767, 32767, 32767, -32768, -32768, 32767, -32768]
    same = np.array([1, -2], np.int16)
    assert sounds.to_samples(same) is same


def test_resampling_keeps_length_level_and_silence():
    for rate, to in ((22050, 16000), (16000, 22050), (8000, 16000)):
        found = sounds.resampled(tone(rate) * 32767, rate, to)
        assert len(found) == math.ceil(len(tone(rate)) * to / rate)
        assert sounds.active_power(found) == pytest.approx(sounds.active_power(tone(rate) * 32767), rel=0.06)
    assert not sounds.resampled(np.zeros(500), 22050, 16000).any()
    assert len(sounds.resampled(np.zeros(0, np.int16), 22050, 16000)) == 0
    # What the lower rate cannot hold is gone, not folded down.
    high = np.sin(2 * np.pi * 10_000 * np.arange(22050) / 44100) * 20000
    assert np.abs(sounds.resampled(high, 44100, 16000)[500:-500]).max() < 200


def test_the_package_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    for ask in (
        lambda: sounds.decoded(b"", "x"),
        lambda: sounds.sound_bytes(np.zeros(3, np.int16), "wav"),
        lambda: sounds.read_sound(b""),
    ):
        raised(InputError, ask, match="soundfile is not installed: pip install")
