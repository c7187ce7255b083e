"""Texts in batches that one request may hold; no more of them than it takes in the order of the texts."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from parapet.transforms.translation.engine import Limits


class Batch(msgspec.Struct, frozen=True):
    """What is sent in one request."""

    source: str
    target: str
    texts: tuple[str, ...]


def make_batches(texts: Iterable[str], source: str, target: str, limits: Limits) -> tuple[list[Batch], list[str]]:
    """Texts, sorted, filled into batches one after the other.

    Returns:
      The batches; the texts that are too long for any.
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
