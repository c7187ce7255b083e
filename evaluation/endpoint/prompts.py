"""What a language model is asked about a dialogue state, and what its answer says: pure functions of a style.

``tools``: the service is a function, its slots the parameters, and the model calls it. ``json``: structured output with
a JSON Schema. ``text``: lines of ``SLOT = VALUE``, for models that can do neither.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, get_args

from parapet.evaluation.dst.model import Example
from parapet.evaluation.endpoint.values import DONTCARE, as_said
from parapet.schemas.service import Service
from parapet.transforms.running.chat import Reply
from parapet.transforms.storage.toml import read_table

Style = Literal["tools", "json", "text"]
STYLES: tuple[Style, ...] = get_args(Style)

INTENT, REQUESTED = "active_intent", "requested_slots"
UNPARSED = "an answer that could not be read"  # a value that no dialogue has: the frame counts as wrong

_MOST_REQUESTED = 6
_NOTHING = frozenset({"", "none", "null", "n/a", "unknown", "not specified", "not mentioned", "unspecified"})
_LINE = re.compile(r"^\W*(?P<name>[\w .-]+?)\W*\s*[=:]\s*(?P<value>.*?)\s*$")
_NAME = re.compile(r"[^a-zA-Z0-9_-]")


class Unreadable(Exception):
    """An answer that is no state; the message is a word that says why."""


@cache
def texts() -> Mapping[str, str]:
    """The texts of the prompt, with their ``version``."""
    return {name: str(text) for name, text in read_table(__package__, "prompts.toml").items()}


def request(example: Example, style: Style) -> tuple[list[dict[str, str]], dict[str, Any]]:
    """The messages, and the further parameters of the API."""
    service, of = example.service, texts()
    system = of["system"].replace("{service}", f"{service.service_name}: {service.description}")
    if style != "tools":
        system += (
            of["elements"]
            .replace("{intents}", "\n".join(f"- {one.name}: {one.description}" for one in service.intents))
            .replace("{slots}", "\n".join(_listed(service)))
        )
    said = "\n".join(
        f"{'User' if speaker == 'USER' else 'Assistant'}: {utterance}" for speaker, utterance in example.history
    )
    messages = [
        {"role": "system", "content": (system + of[style]).strip()},
        {"role": "user", "content": of["user"].replace("{dialogue}", said).strip()},
    ]
    return messages, _parameters(service, style)


def _listed(service: Service) -> list[str]:
    lines = []
    for slot in service.slots:
        allowed = f" Allowed: {', '.join(slot.possible_values)}." if slot.is_categorical else ""
        lines.append(f"- {slot.name}: {slot.description}.{allowed}".replace("..", "."))
    return lines


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
    """The service's name as APIs allow it: 64 letters, digits, underscores and hyphens."""
    return _NAME.sub("_", service.service_name)[:64]


def json_schema(service: Service, whole: bool) -> dict[str, Any]:
    """The JSON Schema of a state: intent, requested slots, and a property for each slot.

    Args:
      service: whose state it is.
      whole: whether every slot must be there, with an empty text for no value: small models leave out all that may be
        left out.
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
                "maxItems": _MOST_REQUESTED,  # small models do not find an end
                "description": "slots whose values the user asks for in the last turn",
            },
        },
        "required": [INTENT, *names, REQUESTED] if whole else [INTENT],
        "additionalProperties": False,
    }


def state_of(reply: Reply, example: Example, style: Style, normalise: bool = True) -> dict[str, Any]:
    """The state that an answer says.

    Args:
      reply: the answer.
      example: what was asked.
      style: how.
      normalise: whether values are spelled as the schema or the dialogue has them.

    Raises:
      Unreadable: it says none: ``no_call``, ``wrong_function``, ``not_json`` or ``no_lines``.
    """
    found = _READERS[style](reply, example.service)
    values = {}
    for slot in example.service.slots:
        value = _text(found.get(slot.name))
        if value.casefold() in _NOTHING and value not in slot.possible_values:
            continue
        values[slot.name] = [as_said(slot, value, example.history) if normalise else value]
    intent, names = _text(found.get(INTENT)), {slot.name for slot in example.service.slots}
    requested = found.get(REQUESTED)
    asked = requested if isinstance(requested, list) else re.split(r"[,\s]+", _text(requested))
    return {
        INTENT: intent if intent in {one.name for one in example.service.intents} else "NONE",
        REQUESTED: sorted({name for name in map(_text, asked) if name in names}),
        "slot_values": values,
    }


def unreadable_state(service: Service) -> dict[str, Any]:
    """What stands for an answer that cannot be read: a state that is wrong whatever is right."""
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
    if name not in (function_name(service), service.service_name):
        _refuse("wrong_function")
    return _object(arguments)


def _of_json(reply: Reply, _: Service) -> Mapping[str, Any]:
    text = reply.text
    if text.count("{") and text.count("}"):
        text = text[text.index("{") : text.rindex("}") + 1]  # what stands around it: ```json, an opener
    return _object(text)


def _object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else _refuse("not_json")


def _of_text(reply: Reply, service: Service) -> Mapping[str, Any]:
    known = {name.casefold(): name for name in (INTENT, REQUESTED, *(slot.name for slot in service.slots))}
    found = {}
    for line in reply.text.splitlines():
        match = _LINE.match(line)
        if match and (name := known.get(match["name"].strip().casefold())):
            found[name] = match["value"].strip("\"'` ")
    return found or _refuse("no_lines")


def _refuse(why: str) -> Any:
    raise Unreadable(why)


_READERS: Mapping[Style, Any] = {"tools": _of_tools, "json": _of_json, "text": _of_text}
