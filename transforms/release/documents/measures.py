"""What documents show of statistics that pipelines wrote: measures of variants, answers, or plain numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from parapet.transforms.crowd.report import DISPOSITIONS
from parapet.transforms.table1_report import MEASURES

_MOST_NUMBERS = 60  # a table of more is no summary; all are in the manifest


class Measured(msgspec.Struct):
    """The part of ``statistics.json`` of ``statistics`` and ``compose`` that both have, and that of one."""

    variants: dict[str, dict[str, float | None]]
    average: dict[str, float | None]
    original: dict[str, float | None] | None = None
    self_bleu: float | None = None
    answers: dict[str, int] | None = None

    @property
    def rows(self) -> dict[str, dict[str, float | None]]:
        """Name to measures; the original first, the average last, where they are there."""
        original = {"Original": self.original} if self.original else {}
        average = {"Average": self.average} if self.average and len(self.variants) > 1 else {}
        return {**original, **self.variants, **average}

    @property
    def keys(self) -> list[str]:
        """The measures that there are, of ``MEASURES``."""
        return [key for key in MEASURES if any(key in row for row in self.rows.values())]


def measured(found: Any) -> Measured | None:
    """Statistics of ``statistics`` or ``compose``; None where they are of another pipeline."""
    try:
        return msgspec.convert(found, Measured)
    except msgspec.ValidationError:
        return None


def dispositions(found: Mapping[str, int]) -> dict[str, int]:
    """Answers by what became of them: each of ``DISPOSITIONS``, and their ``total``; empty where there are none."""
    numbers = {key: found.get(key, 0) for key in DISPOSITIONS}
    total = sum(numbers.values())
    return {"total": total, **numbers} if total else {}


def numbers(found: Any) -> tuple[list[tuple[str, str]], int]:
    """Numbers and words of any JSON by their path, such as ``train.rows``, and how many more there are."""
    shown = list(_scalars("", found))
    return shown[:_MOST_NUMBERS], max(len(shown) - _MOST_NUMBERS, 0)


def _scalars(path: str, found: Any) -> Iterator[tuple[str, str]]:
    if isinstance(found, Mapping):
        for key, value in found.items():
            yield from _scalars(f"{path}.{key}" if path else str(key), value)
    elif isinstance(found, bool) or found is None:
        yield path, {True: "yes", False: "no", None: "–"}[found]
    elif isinstance(found, int):
        yield path, f"{found:,}"
    elif isinstance(found, float):
        yield path, f"{found:,.4g}"
    elif isinstance(found, Sequence) and not isinstance(found, str):
        yield path, f"{len(found):,} entries"
    else:
        yield path, str(found)
