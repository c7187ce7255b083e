"""What speaks and what listens. ``espeak``, ``sphinx`` and ``azure`` are modules beside this one.

Sound is everywhere an array of 16-bit samples, int16 of shape (n,), one channel, 16,000 a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

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
    """

    name: str
    parallel: int
    dollars_per_million: float

    def open(self) -> None:
        """Connects, or loads, once per worker.

        Raises:
          InputError: what the user gave (a voice, a key, an address) cannot be used.
        """

    def close(self) -> None:
        """Lets go of it. Once more does nothing."""

    def speak(self, text: str, voice: str) -> Samples:
        """The sound of a text: words parted by spaces, nothing else.

        Raises:
          Refused: this text cannot be spoken.
          Stopped: nothing can be, now or in a while: a wrong key, a quota.
        """


class Recogniser(Protocol):
    """Listens; otherwise as `Synthesiser`.

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
