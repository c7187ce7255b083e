"""Files of agents' tasks in BFCL's format.

They are JSON Lines, with the expected calls in a file of the same name beside them.
"""

import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

from parapet.schemas.errors import InputError, pointer_of
from parapet.schemas.limits import parse_json_line

ANSWERS = "possible_answer"  # the folder beside a file of tasks, with the expected calls in a file of the same name

# How the right calls of a task contradict the schemas of its tools.
CONTRADICTIONS = {
    "value_outside_enum": "every right value is outside the enum",
    "value_of_other_type": "every right value is of another type",
    "unknown_parameter": "a parameter of the right call is not in the schema",
    "required_left_out": "a required parameter must be left out",
    "required_missing": "the right call lacks a required parameter",
    "unknown_function": "a right call of a function that the task does not have",
}
_PUNCTUATION = re.compile(r"[ ,./\-_*^]")
_LEFT_OUT = ("", None)  # among the right values of a parameter that may be left out
# The types of BFCL and JSON Schema, with those of their values.
TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "float": (int, float), "number": (int, float), "boolean": (bool,),
    "array": (list,), "tuple": (list,), "dict": (dict,), "object": (dict,), "null": (NoneType,),
}  # fmt: skip


def answers_beside(path: Path) -> Path:
    """Returns the path of the expected calls for a file of tasks."""
    return path.parent / ANSWERS / path.name


def is_task(item: Any) -> bool:
    """Whether parsed JSON is a BFCL task: it has an id and the definitions of its functions."""
    return isinstance(item, dict) and isinstance(item.get("id"), str) and isinstance(item.get("function"), list)


def records(data: bytes) -> Iterator[tuple[str, Any]]:
    """Yields (place, object with an id, or the error) for each line."""
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        where = f"line {number}"
        try:
            record = parse_json_line(line)
            if not isinstance(record, dict) or not isinstance(record.get("id"), str):
                raise InputError("not_a_task: expected an object with an id")
        except InputError as error:
            yield where, InputError(error.reason, "", where)
        except ValueError as error:
            yield where, InputError(f"not_json: {error}", "", where)
        else:
            yield where, record


def by_id(data: bytes, path: object) -> dict[str, Any]:
    """Reads the objects of a file by id. Raises InputError with the line if one is invalid or duplicated."""
    answers: dict[str, Any] = {}
    for where, record in records(data):
        if isinstance(record, InputError):
            raise InputError(record.reason.partition(": ")[2] or record.reason, path, where)
        if record["id"] in answers:
            raise InputError(f"{record['id']!r} appears twice", path, where)
        answers[record["id"]] = record
    return answers


# For each call, the name of a tool to its parameters, each with its right values.
RightCalls = list[dict[str, dict[str, list[Any]]]]


class Contradiction(NamedTuple):
    """A right call that contradicts its own schema.

    Attributes:
      kind: one of :data:`CONTRADICTIONS`.
      pointer: the JSON Pointer of the parameter in the list of right calls.
      reason: what contradicts what.
    """

    kind: str
    pointer: str
    reason: str


def plain(value: Any) -> Any:
    """Normalises a text as BFCL's checker does: without case, blanks and punctuation, one kind of quotation marks."""
    if not isinstance(value, str):
        return value
    return _PUNCTUATION.sub("", value).lower().replace("'", '"')


def contradictions(schemas: Mapping[str, Mapping[str, Any]], calls: RightCalls) -> Iterator[Contradiction]:
    """Yields how the right calls of a task contradict the schemas of its tools, so that no call is right and valid.

    Also yields parameters that may be left out, but whose right values are all invalid: a valid value is wrong there.

    Args:
      schemas: the name of each tool to the JSON Schema of its parameters, in BFCL's types or the usual ones.
      calls: the right calls.
    """
    for position, call in enumerate(calls):
        for name, arguments in call.items():
            if name not in schemas:
                yield Contradiction(
                    "unknown_function", pointer_of(position, name), f"the task has no function {name!r}"
                )
                continue
            for parameter, kind, reason in _of_call(schemas[name], arguments):
                yield Contradiction(kind, pointer_of(position, name, parameter), f"{parameter!r} {reason}")


def _of_call(schema: Mapping[str, Any], arguments: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, str, str]]:
    """Yields (parameter, kind, reason)."""
    properties, required = schema.get("properties"), schema.get("required")
    properties = properties if isinstance(properties, Mapping) else {}
    required = required if isinstance(required, list) else []
    for parameter in required:
        if parameter not in arguments:
            yield parameter, "required_missing", "is required, but not in the right call"
    for parameter, right in arguments.items():
        values = [value for value in right if value not in _LEFT_OUT]
        if parameter not in properties:
            yield parameter, "unknown_parameter", "is in the right call, but not in the schema"
        elif not values and parameter in required:
            yield parameter, "required_left_out", "is required, but has no right value"
        elif values and all(faults := [_fault(value, properties[parameter]) for value in values]):
            key = min(faults)
            kind = {"enum": "value_outside_enum", "type": "value_of_other_type"}[key]
            parts = (properties[parameter], properties[parameter].get("items"))
            allowed = [reprlib.repr(part[key]) for part in parts if isinstance(part, Mapping) and key in part]
            hint = "; a call without it is right" if "" in right and parameter not in required else ""
            must = " or ".join(map(reprlib.repr, values))
            yield parameter, kind, f"must be {must}, but its {key} is {' of '.join(allowed)}{hint}"


def _fault(value: Any, schema: Any) -> str:
    """Returns the key of a schema that a value or an item of it contradicts: ``type``, ``enum``, or an empty text."""
    if not isinstance(schema, Mapping):
        return ""
    names: list[Any] = schema["type"] if isinstance(schema.get("type"), list) else [schema.get("type")]
    if all(name in TYPES for name in names) and not any(type(value) in TYPES[name] for name in names):
        return "type"
    items = value if isinstance(value, list) else []
    listed = [*map(plain, schema.get("enum") or ())]
    # in BFCL, the enum of an array may list its items
    is_listed = not listed or all(plain(item) in listed for item in (items if isinstance(value, list) else [value]))
    return max((_fault(item, schema.get("items")) for item in items), default="") or ("" if is_listed else "enum")
