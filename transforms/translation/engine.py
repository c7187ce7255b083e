"""What a translation engine is. ``google``, ``libretranslate`` and ``local`` are modules beside this one."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """What one request may hold.

    Attributes:
      texts: at most so many.
      codepoints: all of them together at most so long; a single text that is longer is refused.
    """

    texts: int
    codepoints: int


class Engine(Protocol):
    """Translates batches. It is pickled to the workers: what holds a connection or a model is made in ``open``.

    Attributes:
      provider: its name in the memory.
      model: its model's name there; another model's translations are not taken for it.
      limits: of one request.
      dollars_per_million: what a million codepoints cost.
      parallel: requests that may be under way at a time in one worker; 1 where ``translate`` is for one thread.
    """

    provider: str
    model: str
    limits: Limits
    dollars_per_million: float
    parallel: int

    def open(self) -> None:
        """Connects, or loads the model, once per worker.

        Raises:
          InputError: what the user gave (a model's folder, an address) cannot be used.
        """

    def close(self) -> None:
        """Lets go of it."""

    def translate(self, texts: list[str], source: str, target: str) -> list[str]:
        """The translations, in order. Retries what is worth it itself, with the deadlines of its own.

        Raises:
          Refused: these texts cannot be translated.
          Stopped: nothing can be, now or in a while: a wrong key, a daily limit.
        """
