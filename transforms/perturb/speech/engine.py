"""The interface of speech engines: modules with a ``Synthesiser`` (TTS), a ``Recogniser`` (ASR) or both.

Sound is always an array of 16-bit samples, int16 of shape (n,), one channel, 16 kHz.
"""

from __future__ import annotations

import math
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from parapet.schemas.errors import MissingExtra

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Samples = NDArray[np.int16]

RATE = 16_000  # samples per second


class Synthesiser(Protocol):
    """Text to speech. Objects are pickled and sent to workers, so connections and libraries are created in ``open``.

    Attributes:
      name: engine and model; part of the key of cached transcripts.
      parallel: maximum number of threads per worker that call ``speak``.
      dollars_per_million: the price of a million characters; 0 for a local engine.
      default_voice: the voice without ``--voices``; several are separated by commas.
    """

    name: str
    parallel: int
    dollars_per_million: float
    default_voice: str

    def check(self, voices: list[str]) -> None:
        """Raises InputError for a voice that the engine does not have."""

    def open(self) -> None:
        """Connects, or load the library; called once per worker.

        Raises:
          InputError: a voice, a key or an address is invalid.
        """

    def close(self) -> None:
        """Closes the connection. A second call does nothing."""

    def speak(self, text: str, voice: str) -> Samples:
        """Synthesises a text that consists of words separated by spaces.

        Raises:
          Refused: this text cannot be synthesised.
          Stopped: further requests would fail, too, because of a wrong key or a quota.
        """


class Recogniser(Protocol):
    """Speech recognition; like `Synthesiser` in other respects.

    Attributes:
      name: engine and model.
      parallel: maximum number of threads per worker that call ``hear``.
      dollars_per_hour: the price of an hour of sound; 0 for a local engine.
    """

    name: str
    parallel: int
    dollars_per_hour: float

    def open(self) -> None:
        """Sees `Synthesiser.open`."""

    def close(self) -> None:
        """Sees `Synthesiser.close`."""

    def hear(self, sound: Samples) -> str:
        """Returns the transcript of a sound; empty if it contains no words.

        Raises:
          Refused: this sound cannot be recognised.
          Stopped: further requests would fail, too.
        """


def version_of(package: str) -> str:
    """Returns a package's version, since versions may synthesise or recognise differently.

    Raises InputError if missing.
    """
    try:
        return version(package)
    except PackageNotFoundError:
        raise MissingExtra(package, "speech") from None


def resampled(sound: NDArray[Any], rate: int, to: int) -> Samples:
    """Resamples a sound from ``rate`` to ``to`` samples per second with a polyphase filter."""
    from scipy.signal import resample_poly

    if rate != to and len(sound):
        step = math.gcd(rate, to)
        sound = resample_poly(sound.astype(np.float32), to // step, rate // step)
    return to_samples(sound)


def to_samples(sound: NDArray[Any]) -> Samples:
    """Rounds and clip to 16 bits."""
    if sound.dtype == np.int16:
        return sound
    clipped: Samples = np.clip(np.rint(sound), -32768, 32767).astype(np.int16)
    return clipped
