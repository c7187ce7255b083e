"""Checks tool calls like the Berkeley Function Calling Leaderboard (BFCL v4, AST evaluation, Python).

An expected call lists the right values of each parameter; an empty text among them means that the parameter is
optional. Values are compared by type, texts without case, blanks and punctuation. Where the published checker is more
or less strict than expected (an empty list is right wherever a list is optional), so is this one: verdicts are to be
the same, task by task.

Values that are written in another way and mean the same, by the rules of docs/tools.md, are wrong there, so they only
enter the second number of ``evaluate --task tool_calls --by_meaning``, never the accuracy.
"""

import math
import re
import unicodedata
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from dateutil import parser

from parapet.schemas.tasks import TYPES, RightCalls, plain

Call = Mapping[str, Any]  # the function's name to its arguments
KINDS = {
    "wrong_function": "wrong function",
    "wrong_number_of_calls": "wrong number of calls",
    "missing_parameter": "missing parameter",
    "unexpected_parameter": "unexpected parameter",
    "wrong_type": "wrong type",
    "wrong_value": "wrong value",
    "unreadable": "answer that is not a call",
    "called": "call where none is correct",
}

# BFCL compares a number without a fraction as a float where the type is one, and takes an unknown type for a text.
_TYPES: Mapping[str, type] = {**{name: kinds[-1] for name, kinds in TYPES.items() if name != "null"}, "any": str}
_LISTS = ("array", "tuple")
_LEFT_OUT = ""  # among the right values of an optional parameter


class Fault(NamedTuple):
    """The reason why calls are wrong: the kind (a key of :data:`KINDS`), the parameter, and the expected value."""

    kind: str
    where: str = ""
    expected: str = ""


def fault_of(functions: Sequence[Mapping[str, Any]], calls: Sequence[Call], expected: Sequence[Call]) -> Fault | None:
    """Returns what is wrong with the calls of an answer; None if they are right. Their order is irrelevant.

    Args:
      functions: the tools, in BFCL's format.
      calls: the calls.
      expected: the right calls, with the right values of each parameter; empty if no call is right.
    """
    if not expected:
        return Fault("called", next(iter(calls[0]), "")) if calls else None
    if len(calls) != len(expected):
        return Fault("wrong_number_of_calls", expected=str(len(expected)))
    by_name = {function["name"]: function for function in functions}
    left = list(calls)
    for right in expected:
        (name, answers) = next(iter(right.items()))
        faults = []
        for i, call in enumerate(left):
            fault = _fault(by_name.get(name, {"name": name}), call, answers)
            if fault is None:
                del left[i]  # not an equal one: 30.0 equals 30 but has another type
                break
            faults.append(fault)
        else:
            return next((fault for fault in faults if fault.kind != "wrong_function"), faults[0])
    return None


def _fault(function: Mapping[str, Any], call: Call, answers: Mapping[str, Any]) -> Fault | None:
    name = function["name"]
    if name not in call:
        return Fault("wrong_function", next(iter(call), ""), name)
    arguments, parameters = call[name], function.get("parameters") or {}
    if not isinstance(arguments, Mapping):
        return Fault("unreadable", name)
    for parameter in parameters.get("required") or ():
        if parameter not in arguments:
            return Fault("missing_parameter", parameter)
    properties = parameters.get("properties") or {}
    for parameter, value in arguments.items():
        if parameter not in properties or parameter not in answers:
            return Fault("unexpected_parameter", parameter)
        if kind := _value_fault(properties[parameter], value, answers[parameter]):
            return Fault(kind, parameter, " or ".join(map(repr, answers[parameter])))
    for parameter, right in answers.items():
        if parameter not in arguments and _LEFT_OUT not in right:
            return Fault("missing_parameter", parameter)
    return None


def _value_fault(schema: Any, value: Any, right: Sequence[Any]) -> str | None:
    """Returns what is wrong with a value; None if it is right."""
    kind: type = _TYPES[_named(schema)]
    if isinstance(value, tuple) and _named(schema) == "tuple":
        value = list(value)
    inner = _TYPES[_named(schema.get("items"))] if _named(schema) in _LISTS else None
    if kind is float and type(value) is int and abs(value) < 2**1023:
        value = float(value)
    items: Any = value
    # The right values may have another type than the schema's: a variable, which is a text.
    type_name = _type_of(right)
    is_variable = type_name is not None and type_name is not kind
    if type(value) is not kind:
        if type(value) is not type_name:
            return "wrong_type"
        is_variable = True
    elif inner is not None and not any(_fits(items, right_value, inner) for right_value in right):
        return "wrong_type"
    if is_variable or kind not in (dict, list, str):
        is_right = value in right
    elif kind is dict:
        is_right = any(_same_dict(value, right_value) for right_value in right)
    elif kind is list and inner is dict:
        is_right = any(_same_dicts(items, right_value) for right_value in right)
    elif kind is str:
        is_right = plain(value) in [plain(right_value) for right_value in right if isinstance(right_value, str)]
    else:
        is_right = [plain(item) for item in items] in [
            [plain(item) for item in right_value] for right_value in right if isinstance(right_value, list | str)
        ]
    return None if is_right else "wrong_value"


def _named(schema: Any) -> str:
    """Returns the type of a schema; ``any`` if it has none, or one that BFCL does not know."""
    name = schema.get("type") if isinstance(schema, Mapping) else None
    return name if isinstance(name, str) and name in _TYPES else "any"


def _type_of(values: Sequence[Any]) -> type | None:
    """Returns the type of the first right value; None if there is none."""
    return next((type(value) for value in values if value != _LEFT_OUT), None)


def _fits(value: Sequence[Any], right: Any, inner: type) -> bool:
    """Whether the items of a list have the type of the schema or of the right values."""
    if not isinstance(right, list):
        return True
    type_name = _type_of(right)
    return all(type(item) is inner or (type_name is not None and type(item) is type_name) for item in value)


def _same_dict(value: Any, right: Any) -> bool:
    """Whether all keys have one of their right values; ``right`` lists these, as in an expected call."""
    if right == _LEFT_OUT or not isinstance(value, dict) or not isinstance(right, dict):
        return False
    for key, item in value.items():
        if not isinstance(right.get(key), list | str) or plain(item) not in [*map(plain, right[key])]:
            return False
    return all(key in value or (isinstance(items, list | str) and _LEFT_OUT in items) for key, items in right.items())


def _same_dicts(value: Sequence[Any], right: Any) -> bool:
    """Whether a list has the right dictionaries in order."""
    return isinstance(right, list | str) and len(value) == len(right) and all(map(_same_dict, value, right))


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
