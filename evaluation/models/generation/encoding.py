"""Texts as token ids: tokenised once, and cut where they are too long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Row = list[int]


def inputs_of(tokenizer: Any, texts: Sequence[str], most: int) -> tuple[list[Row], list[bool]]:
    """The tokens of each input, the end token with them; of long ones the last ``most``. And whether it was cut."""
    rows = _ids(tokenizer, texts)
    return [row[-most:] for row in rows], [len(row) > most for row in rows]


def targets_of(tokenizer: Any, texts: Sequence[str], most: int) -> tuple[list[Row], list[bool]]:
    """The tokens of each utterance; of long ones the first ``most``, without an end. And whether it was cut."""
    rows = _ids(tokenizer, texts)
    return [row[:most] for row in rows], [len(row) > most for row in rows]


def _ids(tokenizer: Any, texts: Sequence[str]) -> list[Row]:
    found: list[Row] = tokenizer(list(texts), add_special_tokens=True, truncation=False)["input_ids"] if texts else []
    return found
