"""Checks tool calls like the Berkeley Function Calling Leaderboard (BFCL v4, AST evaluation, Python).

An expected call lists the right values of each parameter; an empty text among them means that the parameter is
optional. Values are compared by type, texts without case, blanks and punctuation. Where the published checker is more
or less strict than expected (an empty list is right wherever a list is optional), so is this one: verdicts are to be
the same, task by task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from parapet.schemas.tasks import plain

Call = Mapping[str, Any]  # the function's name to its arguments
Kind = Literal[
    "wrong_function",
    "wrong_number_of_calls",
    "missing_parameter",
    "unexpected_parameter",
    "wrong_type",
    "wrong_value",
    "unreadable",
    "called",
]
KINDS: Mapping[Kind, str] = {
    "wrong_function": "wrong function",
    "wrong_number_of_calls": "wrong number of calls",
    "missing_parameter": "missing parameter",
    "unexpected_parameter": "unexpected parameter",
    "wrong_type": "wrong type",
    "wrong_value": "wrong value",
    "unreadable": "answer that is not a call",
    "called": "call where none is correct",
}

_TYPES: Mapping[str, type] = {
    "string": str, "integer": int, "float": float, "number": float, "boolean": bool, "array": list, "tuple": list,
    "dict": dict, "object": dict, "any": str,
}  # fmt: skip
_LISTS = ("array", "tuple")
_LEFT_OUT = ""  # among the right values of an optional parameter


class Fault(NamedTuple):
    """The reason why calls are wrong: the kind, the parameter, and the expected value."""

    kind: Kind
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


def _value_fault(schema: Any, value: Any, right: Sequence[Any]) -> Kind | None:
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
    if is_variable:
        is_right = value in right
    elif kind is dict:
        is_right = any(_same_dict(value, right_value) for right_value in right)
    elif kind is list and inner is dict:
        is_right = any(_same_dicts(items, right_value) for right_value in right)
    elif kind is str:
        is_right = plain(value) in [plain(right_value) for right_value in right if isinstance(right_value, str)]
    elif kind is list:
        is_right = [plain(item) for item in items] in [
            [plain(item) for item in right_value] for right_value in right if isinstance(right_value, list | str)
        ]
    else:
        is_right = value in right
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
    if not isinstance(right, list | str) or len(value) != len(right):
        return False
    return all(_same_dict(*pair) for pair in zip(value, right, strict=True))
