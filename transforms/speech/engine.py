"""What speaks and what listens. An engine is a module with a ``Synthesiser``, a ``Recogniser`` or both.

Sound is everywhere an array of 16-bit samples, int16 of shape (n,), one channel, 16,000 a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

from parapet.transforms import plugins

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Samples = NDArray[np.int16]

RATE = 16_000  # samples a second


class Synthesiser(Protocol):
    """Speaks. It is pickled to the workers: what holds a connection or a library is made in ``open``.

    Attributes:
      name: engine and model; what another has spoken is not taken for it.
      parallel: how many threads of one worker may speak at a time.
      dollars_per_million: what a million characters cost; nothing where it runs here.
      default_voice: where no ``--voices`` are given.
    """

    name: str
    parallel: int
    dollars_per_million: float
    default_voice: str

    def check(self, voices: list[str]) -> None:
        """Raises InputError for a voice that it does not have."""

    def open(self) -> None:
        """Connects, or loads, once per worker.

        Raises:
          InputError: what the user gave (a voice, a key, an address) cannot be used.
        """

    def close(self) -> None:
        """Lets go of it. Once more does nothing."""

    def speak(self, text: str, voice: str) -> Samples:
        """The sound of a text: words separated by spaces, nothing else.

        Raises:
          Refused: this text cannot be spoken.
          Stopped: nothing can be, now or in a while: a wrong key, a quota.
        """


class Recogniser(Protocol):
    """Listens; otherwise as `Synthesiser`.

    One that has ``uses_language_model = True`` is made with the options ``models``, a folder, and ``language_model``,
    the name of ``NAME.arpa`` and ``NAME.dict`` in it; they are there when it is opened by a worker, and not before.

    Attributes:
      name: engine and model.
      parallel: how many threads of one worker may listen at a time.
      dollars_per_hour: what an hour of sound costs; nothing where it runs here.
    """

    name: str
    parallel: int
    dollars_per_hour: float

    def open(self) -> None:
        """As `Synthesiser.open`."""

    def close(self) -> None:
        """As `Synthesiser.close`."""

    def hear(self, sound: Samples) -> str:
        """The words that are heard; nothing where there are none.

        Raises:
          Refused: this sound cannot be recognised.
          Stopped: nothing can be, now or in a while.
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
