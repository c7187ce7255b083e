"""Values of calls that are written in another way than the right ones and mean the same, by the rules of docs/tools.md.

BFCL's checker takes such a call for wrong, so they only enter the second number of ``evaluate --task tool_calls
--by_meaning``, never the accuracy.
"""

from __future__ import annotations

import math
import re
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

from dateutil import parser

from parapet.evaluation.tools.checking import Call
from parapet.schemas.tasks import plain

# By dimension: the names of each unit, and its size.
_UNITS: Mapping[str, Mapping[str, float]] = {
    "length": {
        "mm millimeter millimetre": 0.001,
        "cm centimeter centimetre": 0.01,
        "m meter metre": 1,
        "km kilometer kilometre": 1000,
        "mi mile": 1609.344,
        "ft foot feet": 0.3048,
    },
    "mass": {"g gram": 1, "kg kilogram": 1000, "lb pound": 453.59237},
    "time": {"s sec second": 1, "min minute": 60, "h hr hour": 3600, "day": 86400},
    **{names: {names: 1} for names in ("% percent", "$ usd dollar", "€ eur euro", "°c celsius", "°f fahrenheit")},
}
_SIZES = {
    name: (dimension, size)
    for dimension, units in _UNITS.items()
    for names, size in units.items()
    for name in names.split()
}
_QUANTITY = re.compile(r"([$€]?)\s*([+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)\s*([^\W\d_]*|[%$€]|°[cf])")
# Parts that a date leaves out are taken from these, so that only dates with the same parts are equal under both.
_DEFAULTS = (datetime(2000, 1, 1, 1), datetime(2004, 12, 31, 23))


def with_right_values(
    calls: Sequence[Call], expected: Sequence[Mapping[str, Mapping[str, Sequence[Any]]]]
) -> list[Call]:
    """Replaces values of calls by the right values that mean the same."""
    right: dict[tuple[str, str], list[Any]] = {}
    for call in expected:
        for name, parameters in call.items():
            for parameter, values in parameters.items():
                right.setdefault((name, parameter), []).extend(values)
    return [
        {
            name: {key: _as_right(value, right.get((name, key), [])) for key, value in arguments.items()}
            if isinstance(arguments, Mapping)
            else arguments
            for name, arguments in call.items()
        }
        for call in calls
    ]


def _as_right(value: Any, right: Sequence[Any]) -> Any:
    if isinstance(value, list):
        for values in right:
            if isinstance(values, list) and len(values) == len(value):
                replaced = [_as_right(*pair) for pair in zip(value, ([item] for item in values), strict=True)]
                if replaced == values:
                    return replaced
        return value
    if isinstance(value, dict):
        of_keys = [values for values in right if isinstance(values, dict)]
        lists = {key: [values[key] for values in of_keys if isinstance(values.get(key), list)] for key in value}
        return {key: _as_right(item, [*chain.from_iterable(lists[key])]) for key, item in value.items()}
    return next((other for other in right if other != "" and mean_the_same(value, other)), value)


def mean_the_same(first: Any, second: Any) -> bool:
    """Whether two values are the same number, quantity or date, or the same text but for case and accents."""
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
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "", float(value)
    match = _QUANTITY.fullmatch(value.strip().casefold()) if isinstance(value, str) else None
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
