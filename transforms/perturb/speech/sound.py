"""Sound as arrays and files: levels and noise, reading recordings, writing WAV and FLAC."""

from __future__ import annotations

import hashlib
import io
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from parapet.schemas import layout, limits
from parapet.schemas.errors import InputError, MissingExtra
from parapet.transforms.core.files import read_bytes
from parapet.transforms.perturb.speech.engine import RATE, resampled, to_samples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from parapet.transforms.perturb.speech.engine import Samples

    Sound = NDArray[np.float64]

FRAME = RATE // 50  # 20 ms

# Frames this far below the loudest count as pauses. ITU-T P.56 follows the envelope and sets its threshold 15.9 dB
# below the mean level of speech, which is some 10 to 15 dB below the peaks of an envelope.
_PAUSE = 30.0

_RATES = 4_000, 400_000  # samples per second of recordings


def active_power(sound: NDArray[Any]) -> float:
    """Returns the mean square of 20 ms frames within 30 dB of the loudest, which excludes pauses; 0 for silence."""
    if not len(sound):
        return 0.0
    whole = sound[: len(sound) // FRAME * FRAME].astype(np.float64).reshape(-1, FRAME)
    frames = np.mean(whole**2, axis=1) if len(whole) else np.array([np.mean(sound.astype(np.float64) ** 2)])
    return float(np.mean(frames[frames >= frames.max() * 10 ** (-_PAUSE / 10)]))


def digest(sound: Samples) -> str:
    """Returns the SHA-256 of the samples, little-endian: the data of a WAV file without its header."""
    return hashlib.sha256(sound.astype("<i2").tobytes()).hexdigest()


def decoded(data: bytes, path: str) -> Samples:
    """Decodes a sound file of any format that libsndfile supports, 8 to 32 bits, to mono at 16 kHz.

    Args:
      data: the content of the file.
      path: its path for messages.

    Raises:
      InputError: it is not a sound file, or is silent.
    """
    soundfile = _soundfile()
    try:
        sound, rate = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    except (soundfile.SoundFileError, ValueError, TypeError) as error:
        reason = str(error).rpartition(": ")[2].rstrip(".")
        raise InputError(f"cannot be read as audio: {reason}", path) from None
    if not _RATES[0] <= rate <= _RATES[1]:
        raise InputError(f"has {rate:,} samples per second: must be between {_RATES[0]:,} and {_RATES[1]:,}", path)
    mono = resampled(np.nan_to_num(sound.mean(axis=1), posinf=1, neginf=-1) * 32767, rate, RATE)
    if not np.any(mono):
        raise InputError("contains no sound", path)
    return mono


def sound_bytes(sound: Samples, kind: str) -> bytes:
    """Encodes a sound as ``wav`` or ``flac``."""
    handle = io.BytesIO()
    _soundfile().write(handle, sound, RATE, format=kind.upper(), subtype="PCM_16")
    return handle.getvalue()


def read_sound(data: bytes) -> Samples:
    """Decodes the result of :func:`sound_bytes`."""
    sound, _ = _soundfile().read(io.BytesIO(data), dtype="int16")
    return np.asarray(sound, np.int16)


def _soundfile() -> Any:
    try:
        import soundfile
    except ImportError:
        raise MissingExtra("soundfile", "speech") from None
    return soundfile


# Part of the key of cached transcripts: must be increased when anything here changes.
VERSION = "2"

# ITU-T P.56 and G.191: the level to which speech is normalised, 26 dB below the maximum of 16 bits.
LEVEL = 32768 * 10 ** (-26 / 20)

KINDS = ("white", "pink")
SUFFIXES = (".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif", ".au")

_LOUDEST = 8192.0  # RMS of noise: its peaks are some four times higher, and 16 bits end at 32,768

_PADDING = RATE * 3 // 10  # silence before and after: recognisers cut off speech that begins immediately


class Noise(msgspec.Struct, frozen=True):
    """The noise to add.

    Attributes:
      kind: ``white``, ``pink`` or ``recordings``.
      name: the kind, followed for recordings by a hash of their sounds.
      sources: the paths of recordings.
    """

    kind: str
    name: str
    sources: tuple[str, ...] = ()


def make_noise(kind: str) -> Noise:
    """Creates the noise of ``--noise``: a kind, or a folder of recordings. Raises InputError if there are none."""
    return Noise(kind, kind) if kind in KINDS else recordings(kind)


def recordings(folder: str) -> Noise:
    """Returns the recordings in a folder. Raises InputError if there are none, or a file is not a recording."""
    place = layout.as_path(folder)
    if not place.is_dir():
        known = ", ".join(KINDS)
        raise InputError(f"is neither a kind of noise ({known}) nor a folder of recordings", folder, "--noise")
    files = sorted(str(path) for path in place.iterdir() if path.suffix.lower() in SUFFIXES)
    if not files:
        raise InputError(f"contains no recordings: {', '.join(SUFFIXES)}", folder, "--noise")
    digests = [hashlib.sha256(_recording(file).tobytes()).hexdigest() for file in files]
    return Noise("recordings", f"recordings:{_hash(*digests).hex()[:12]}", tuple(files))


class Mixer:
    """Speech at a normalised level, with silence around it, and noise at any signal-to-noise ratio.

    Args:
      speech: the samples.
      noise: the noise to add.
      key: determines the noise.
    """

    def __init__(self, speech: Samples, noise: Noise, key: str) -> None:
        drawn = np.random.default_rng(int.from_bytes(_hash(VERSION, noise.name, key), "big"))
        padded = np.pad(speech.astype(np.float64), _PADDING)
        power = active_power(padded)
        self._speech = padded * (LEVEL / np.sqrt(power) if power else 0.0)
        self._noise = _stretch(noise, len(self._speech), drawn)

    def at(self, snr: float) -> Samples:
        """Returns the sound at a ratio in dB: the mean power of speech without pauses to the mean power of noise."""
        louder = LEVEL * 10 ** (-snr / 20)
        sound = self._noise * louder
        sound += self._speech
        return to_samples(sound / max(1.0, louder / _LOUDEST))


def _stretch(noise: Noise, n: int, drawn: np.random.Generator) -> Sound:
    """Returns ``n`` samples of noise, with mean power 1 over the whole that they are taken from."""
    if noise.kind == "white":
        return drawn.standard_normal(n)
    if noise.kind == "pink":
        return _pink(drawn.standard_normal(n))
    track = _recording(noise.sources[int(drawn.integers(len(noise.sources)))])
    start = int(drawn.integers(len(track)))
    return np.take(track, np.arange(start, start + n), mode="wrap")


def _pink(white: Sound) -> Sound:
    """Filters white noise so that its power is inversely proportional to the frequency, above 20 Hz."""
    shape = np.fft.rfft(white)
    hertz = np.arange(len(shape)) * (RATE / len(white))
    shape /= np.sqrt(np.maximum(hertz, 20.0))
    shape[0] = 0
    return _unit(np.fft.irfft(shape, len(white)))


@lru_cache(maxsize=32)
def _recording(path: str) -> Sound:
    try:
        data = read_bytes(path, limits.MAX_FILE)
    except OSError as error:
        if error.strerror is None:  # a network error, which the runner retries
            raise
        raise InputError(f"cannot be read: {error.strerror}", path) from None
    return _unit(decoded(data, path).astype(np.float64))


def _unit(sound: Sound) -> Sound:
    scaled: Sound = sound / np.sqrt(np.mean(sound**2))
    return scaled


def _hash(*parts: Any) -> bytes:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
