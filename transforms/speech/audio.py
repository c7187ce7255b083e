"""Sound as arrays and as files: resampling, levels, reading recordings of any kind, writing WAV and FLAC."""

from __future__ import annotations

import hashlib
import io
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from parapet.schemas.errors import InputError, MissingExtra
from parapet.transforms.speech.engine import RATE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from parapet.transforms.speech.engine import Samples

FRAME = RATE // 50  # 20 ms

# Frames further below the loudest count as pauses. ITU-T P.56 follows the envelope and puts its threshold 15.9 dB below
# the mean level of speech, which is some 10 to 15 dB below the peaks of an envelope.
_PAUSE = 30.0

_RATES = 4_000, 400_000  # samples a second, of recordings


def resampled(sound: NDArray[Any], rate: int, to: int) -> Samples:
    """Sound of ``rate`` samples a second with ``to`` of them, by a polyphase filter."""
    from scipy.signal import resample_poly

    if rate != to and len(sound):
        step = math.gcd(rate, to)
        sound = resample_poly(sound.astype(np.float32), to // step, rate // step)
    return to_samples(sound)


def to_samples(sound: NDArray[Any]) -> Samples:
    """Rounded and clipped to 16 bits."""
    if sound.dtype == np.int16:
        return sound
    clipped: Samples = np.clip(np.rint(sound), -32768, 32767).astype(np.int16)
    return clipped


def active_power(sound: NDArray[Any]) -> float:
    """The mean square of what is no pause: frames of 20 ms within 30 dB of the loudest; 0 where all is silent."""
    if not len(sound):
        return 0.0
    whole = sound[: len(sound) // FRAME * FRAME].astype(np.float64).reshape(-1, FRAME)
    frames = np.mean(whole**2, axis=1) if len(whole) else np.array([np.mean(sound.astype(np.float64) ** 2)])
    return float(np.mean(frames[frames >= frames.max() * 10 ** (-_PAUSE / 10)]))


def digest(sound: Samples) -> str:
    """The SHA-256 of the samples, little-endian: what a WAV file holds after its header."""
    return hashlib.sha256(sound.astype("<i2").tobytes()).hexdigest()


def decoded(data: bytes, path: str) -> Samples:
    """A sound file of any kind that libsndfile knows, 8 to 32 bits, mixed down to one channel, at 16 kHz.

    Args:
      data: the file.
      path: where it is, for messages.

    Raises:
      InputError: not a sound file, or one without sound.
    """
    soundfile = _soundfile()
    try:
        sound, rate = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    except (soundfile.SoundFileError, ValueError, TypeError) as error:
        reason = str(error).rpartition(": ")[2].rstrip(".")
        raise InputError(f"cannot be read as sound: {reason}", path) from None
    if not _RATES[0] <= rate <= _RATES[1]:
        raise InputError(f"has {rate:,} samples a second; between {_RATES[0]:,} and {_RATES[1]:,} can be used", path)
    mono = resampled(np.nan_to_num(sound.mean(axis=1), posinf=1, neginf=-1) * 32767, rate, RATE)
    if not np.any(mono):
        raise InputError("has no sound in it", path)
    return mono


def sound_bytes(sound: Samples, kind: str) -> bytes:
    """A file of the sound: ``wav`` or ``flac``."""
    handle = io.BytesIO()
    _soundfile().write(handle, sound, RATE, format=kind.upper(), subtype="PCM_16")
    return handle.getvalue()


def read_sound(data: bytes) -> Samples:
    """A file that :func:`sound_bytes` made."""
    sound, _ = _soundfile().read(io.BytesIO(data), dtype="int16")
    return np.asarray(sound, np.int16)


def _soundfile() -> Any:
    try:
        import soundfile
    except ImportError:
        raise MissingExtra("soundfile", "speech") from None
    return soundfile
