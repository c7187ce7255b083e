"""Makes requests for dialogue states, and parses the answers, as pure functions of a style.

``tools``: the service is a function that the model calls, with the slots as parameters. ``json``: structured output
with a JSON Schema. ``text``: lines of ``SLOT = VALUE``, for models that support neither.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

from parapet.evaluation.dst.model import Example
from parapet.evaluation.endpoint.prompting import Prompt
from parapet.evaluation.endpoint.values import DONTCARE, as_said
from parapet.schemas.service import Service
from parapet.transforms.core.replies import Reply, Unreadable, object_in, own_name

Style = Literal["tools", "json", "text"]
STYLES: tuple[Style, ...] = get_args(Style)

INTENT, REQUESTED = "active_intent", "requested_slots"
UNPARSED = "an answer that could not be read"  # a value that no dialogue has, so the frame counts as wrong

_MOST_REQUESTED = 6
_NOTHING = frozenset({"", "none", "null", "n/a", "unknown", "not specified", "not mentioned", "unspecified"})
_LINE = re.compile(r"^\W*(?P<name>[\w .-]+?)\W*\s*[=:]\s*(?P<value>.*?)\s*$")
_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def request(example: Example, style: Style, prompt: Prompt) -> tuple[list[dict[str, str]], dict[str, Any]]:
    """Makes the messages, and further parameters of the API."""
    messages = prompt.messages(service=example.service, style=style, history=example.history)
    return messages, _parameters(example.service, style)


def _parameters(service: Service, style: Style) -> dict[str, Any]:
    schema = json_schema(service, whole=style == "json")
    if style == "tools":
        name = function_name(service)
        function = {"name": name, "description": service.description, "parameters": schema}
        return {
            "tools": [{"type": "function", "function": function}],
            "tool_choice": {"type": "function", "function": {"name": name}},
        }
    if style == "json":
        return {"response_format": {"type": "json_schema", "json_schema": {"name": "state", "schema": schema}}}
    return {}


def function_name(service: Service) -> str:
    """Makes the service's name a valid function name: up to 64 letters, digits, underscores and hyphens."""
    return _NAME.sub("_", service.service_name)[:64]


def json_schema(service: Service, whole: bool) -> dict[str, Any]:
    """Makes the JSON Schema of a state: intent, requested slots, and a property for each slot.

    Args:
      service: the service.
      whole: whether every slot is required, with an empty text for no value, as small models omit whatever is optional.
    """
    slots: dict[str, Any] = {}
    for slot in service.slots:
        slots[slot.name] = {"type": "string", "description": slot.description}
        if slot.is_categorical and slot.possible_values:
            slots[slot.name]["enum"] = [*dict.fromkeys([*slot.possible_values, DONTCARE, *[""] * whole])]
    names = [slot.name for slot in service.slots]
    intents = [*(intent.name for intent in service.intents), "NONE"]
    return {
        "type": "object",
        "properties": {
            INTENT: {"type": "string", "enum": intents, "description": "what the user wants now"},
            **slots,
            REQUESTED: {
                "type": "array",
                "items": {"type": "string", "enum": names} if names else {"type": "string"},
                "maxItems": _MOST_REQUESTED,  # small models would not stop
                "description": "slots whose values the user asks for in the last turn",
            },
        },
        "required": [INTENT, *names, REQUESTED] if whole else [INTENT],
        "additionalProperties": False,
    }


def state_of(reply: Reply, example: Example, style: Style, normalise: bool = True) -> dict[str, Any]:
    """Parses the state in an answer.

    Args:
      reply: the answer.
      example: the model's input.
      style: the style of the request.
      normalise: whether to spell values as in the schema or the dialogue.

    Raises:
      Unreadable: the answer has no state: ``no_call``, ``wrong_function``, ``not_json`` or ``no_lines``.
    """
    parsed = _READERS[style](reply, example.service)
    values = {}
    for slot in example.service.slots:
        value = _text(parsed.get(slot.name))
        if value.casefold() in _NOTHING and value not in slot.possible_values:
            continue
        values[slot.name] = [as_said(slot, value, example.history) if normalise else value]
    intent, names = _text(parsed.get(INTENT)), {slot.name for slot in example.service.slots}
    requested = parsed.get(REQUESTED)
    requested_slots = requested if isinstance(requested, list) else re.split(r"[,\s]+", _text(requested))
    return {
        INTENT: intent if intent in {intent.name for intent in example.service.intents} else "NONE",
        REQUESTED: sorted({name for name in map(_text, requested_slots) if name in names}),
        "slot_values": values,
    }


def unreadable_state(service: Service) -> dict[str, Any]:
    """Makes the state for an answer that cannot be read, which is always wrong."""
    return {INTENT: "", REQUESTED: [], "slot_values": {slot.name: [UNPARSED] for slot in service.slots}}


def _text(value: object) -> str:
    if isinstance(value, list):
        value = value[0] if value else ""
    if value is None or isinstance(value, dict):
        return ""
    return str(value).strip()


def _of_tools(reply: Reply, service: Service) -> Mapping[str, Any]:
    if not reply.tool_calls:
        return _of_json(reply, service) if "{" in reply.text else _refuse("no_call")
    name, arguments = reply.tool_calls[0]
    names = (function_name(service), service.service_name)
    if own_name(name, names) not in names:
        _refuse("wrong_function")
    return object_in(arguments)


def _of_json(reply: Reply, service: Service) -> Mapping[str, Any]:
    return object_in(reply.text, (INTENT, REQUESTED, *(slot.name for slot in service.slots)))


def _of_text(reply: Reply, service: Service) -> Mapping[str, Any]:
    known = {name.casefold(): name for name in (INTENT, REQUESTED, *(slot.name for slot in service.slots))}
    values = {}
    for line in reply.text.splitlines():
        match = _LINE.match(line)
        if match and (name := known.get(match["name"].strip().casefold())):
            values[name] = match["value"].strip("\"'` ")
    return values or _refuse("no_lines")


def _refuse(why: str) -> Any:
    raise Unreadable(why)


_READERS: Mapping[Style, Any] = {"tools": _of_tools, "json": _of_json, "text": _of_text}
