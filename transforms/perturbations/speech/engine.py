"""The interface of speech engines. An engine is a module with a ``Synthesiser`` (TTS), a ``Recogniser`` (ASR) or both.

Sound is always an array of 16-bit samples, int16 of shape (n,), one channel, 16 kHz.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from parapet.schemas.errors import MissingExtra
from parapet.transforms.running import plugins

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Samples = NDArray[np.int16]

RATE = 16_000  # samples a second


class Synthesiser(Protocol):
    """Text to speech. It is pickled and sent to the workers: a connection or a library is created in ``open``.

    Attributes:
      name: engine and model; the key of cached transcripts has it.
      parallel: how many threads of one worker may call ``speak`` at a time.
      dollars_per_million: the price of a million characters; 0 for a local engine.
      default_voice: used without ``--voices``; several are separated by commas.
    """

    name: str
    parallel: int
    dollars_per_million: float
    default_voice: str

    def check(self, voices: list[str]) -> None:
        """Raises InputError for a voice that the engine does not have."""

    def open(self) -> None:
        """Connects, or loads the library, once per worker.

        Raises:
          InputError: a voice, a key or an address cannot be used.
        """

    def close(self) -> None:
        """Closes the connection. A second call does nothing."""

    def speak(self, text: str, voice: str) -> Samples:
        """The sound of a text: words separated by spaces, nothing else.

        Raises:
          Refused: this text cannot be spoken.
          Stopped: no further request can succeed: a wrong key, a quota.
        """


class Recogniser(Protocol):
    """Speech recognition; otherwise as `Synthesiser`.

    Attributes:
      name: engine and model.
      parallel: how many threads of one worker may call ``hear`` at a time.
      dollars_per_hour: the price of an hour of sound; 0 for a local engine.
    """

    name: str
    parallel: int
    dollars_per_hour: float

    def open(self) -> None:
        """As `Synthesiser.open`."""

    def close(self) -> None:
        """As `Synthesiser.close`."""

    def hear(self, sound: Samples) -> str:
        """The transcript of a sound; empty where there are no words.

        Raises:
          Refused: this sound cannot be recognised.
          Stopped: no further request can succeed.
        """


Part = Literal["speaker", "listener"]

_PARTS: dict[Part, tuple[str, type]] = {
    "speaker": ("Synthesiser", Synthesiser),
    "listener": ("Recogniser", Recogniser),
}


def choose(part: Part, named: str) -> plugins.Chosen:
    """The engine that ``--speaker`` or ``--listener`` names. Raises InputError where there is none."""
    return plugins.choose(plugins.SPEECH_ENGINES, named, f"--{part}")


def class_of(part: Part, chosen: plugins.Chosen) -> Any:
    """The engine's class for a part. Raises InputError where it has none."""
    return plugins.target_of(chosen, _PARTS[part][0])


def make(part: Part, chosen: plugins.Chosen, options: Mapping[str, Any]) -> Any:
    """The engine's synthesiser or recogniser. Raises InputError where it cannot be made, or lacks something."""
    name, protocol = _PARTS[part]
    return plugins.make(chosen, plugins.members(protocol), name, options)


def version_of(package: str) -> str:
    """Its version: another one may speak, or hear, otherwise. Raises InputError where it is missing."""
    try:
        return version(package)
    except PackageNotFoundError:
        raise MissingExtra(package, "speech") from None


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
