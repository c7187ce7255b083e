"""The interface of translation engines, and the batches that they translate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """The limits of one request.

    Attributes:
      texts: the maximum number of texts.
      codepoints: their maximum total length; a single text that is longer is refused.
    """

    texts: int
    codepoints: int


class Engine(Protocol):
    """Translates batches. It is pickled and sent to the workers: a connection or a model is created in ``open``.

    Attributes:
      provider: its name in the memory.
      model: the name of its model there; translations of other models are not reused.
      limits: of one request.
      dollars_per_million: what a million codepoints cost.
      parallel: the maximum number of concurrent requests of one worker; 1 if ``translate`` is not thread-safe.
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
        """Closes the connection, or unloads the model."""

    def translate(self, texts: list[str], source: str, target: str) -> list[str]:
        """The translations, in order. It retries and sets deadlines itself.

        Raises:
          Refused: these texts cannot be translated.
          Stopped: no further request can succeed: a wrong key, a daily limit.
        """


class Batch(msgspec.Struct, frozen=True):
    """The texts of one request."""

    source: str
    target: str
    texts: tuple[str, ...]


def make_batches(texts: Iterable[str], source: str, target: str, limits: Limits) -> tuple[list[Batch], list[str]]:
    """Sorts texts and fills them into batches.

    Returns:
      The batches; the texts that are too long for any batch.
    """
    batches: list[list[str]] = []
    too_long: list[str] = []
    size = 0
    for text in sorted(texts):
        if len(text) > limits.codepoints:
            too_long.append(text)
            continue
        if not batches or len(batches[-1]) == limits.texts or size + len(text) > limits.codepoints:
            batches.append([])
            size = 0
        batches[-1].append(text)
        size += len(text)
    return [Batch(source, target, tuple(batch)) for batch in batches], too_long
