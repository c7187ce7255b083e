"""Values of calls that are written in another way than the right ones and mean the same, by the rules of docs/tools.md.

BFCL's checker takes such a call for wrong, so they only enter the second number of ``evaluate --task tool_calls
--by_meaning``, never the accuracy.
"""

from __future__ import annotations

import math
import re
import unicodedata
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from dateutil import parser

from parapet.evaluation.tools.checking import Call
from parapet.schemas.tasks import RightCalls, plain

_UNITS: Mapping[str, Mapping[str, float]] = {
    "length": {"mm": 0.001, "cm": 0.01, "m": 1, "meter": 1, "km": 1000, "kilometer": 1000, "mile": 1609.344},
    "mass": {"g": 1, "gram": 1, "kg": 1000, "kilogram": 1000, "pound": 453.59237},
    "time": {"second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "day": 86400, "week": 604800},
    "share": {"%": 1, "percent": 1},
    "dollars": {"$": 1, "dollar": 1},
    "euros": {"€": 1, "euro": 1},
}
_SIZES = {name: (dimension, size) for dimension, sizes in _UNITS.items() for name, size in sizes.items()}
_QUANTITY = re.compile(r"([$€]?)\s*([+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)\s*([^\W\d_]*|[%$€])")
# Parts that a date leaves out are taken from these, so that only dates with the same parts are equal under both.
_DEFAULTS = (datetime(2000, 1, 1, 1), datetime(2004, 12, 31, 23))


def with_right_values(calls: Sequence[Call], expected: RightCalls) -> list[Call]:
    """Replaces values of calls by the right values that mean the same."""
    right: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for call in expected:
        for name, parameters in call.items():
            for parameter, values in parameters.items():
                right[name, parameter] += values
    return [
        {
            name: {key: _as_right(value, right[name, key]) for key, value in arguments.items()}
            if isinstance(arguments, Mapping)
            else arguments
            for name, arguments in call.items()
        }
        for call in calls
    ]


def _as_right(value: Any, right: Sequence[Any]) -> Any:
    return next((other for other in right if mean_the_same(value, other)), value)


def mean_the_same(first: Any, second: Any) -> bool:
    """Whether two values are the same number, quantity or date, the same text but for case and accents, or such lists.

    Other values, such as objects, are not compared.
    """
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(mean_the_same, first, second))
    if (left := _quantity(first)) and (right := _quantity(second)):
        return left[0] == right[0] and math.isclose(left[1], right[1])
    if not isinstance(first, str) or not isinstance(second, str):
        return False
    return _folded(first) == _folded(second) or _date(first) == _date(second) != []


def _folded(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text)
    return str(plain("".join(letter for letter in decomposed if not unicodedata.combining(letter))))


def _quantity(value: Any) -> tuple[str, float] | None:
    """Returns dimension and size of a number, or of a text with a number and perhaps a unit."""
    match = None if isinstance(value, bool) else _QUANTITY.fullmatch(str(value).strip().casefold())
    if match is None or (match[1] and match[3]):
        return None
    number, unit = float(match[2].replace(",", "")), match[1] or match[3]
    if not unit:
        return "", number
    dimension, size = _SIZES.get(unit) or _SIZES.get(unit.removesuffix("s"), ("", 0.0))
    return (dimension, size * number) if dimension else None


def _date(text: str) -> list[datetime]:
    """Reads a date or time, month before day where both are numbers; empty for other texts."""
    if not any(letter.isdigit() for letter in text):
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an unknown time zone
            return [parser.parse(text, default=default) for default in _DEFAULTS]
    except (ValueError, OverflowError, RuntimeWarning):
        return []
