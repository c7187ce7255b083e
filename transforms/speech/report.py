"""The page of ``speech_errors``."""

from __future__ import annotations

from typing import Any


def report_page(numbers: Any, made_with: Any, examples: Any) -> str:
    return ""
