"""A keyword agent that reads only the tools and needs no training: a lower bound for agents.

    parapet evaluate --task tool_calls --model parapet.evaluation.tools.baseline:Keywords ...

It calls the tool whose name and description share most words with the request; parameters are filled like the slots of
a service, by the tracker ``meaning``. Rewording a tool therefore changes the calls.
"""

import re
from collections.abc import Sequence
from typing import Any

from parapet.evaluation.dst import model, trackers
from parapet.evaluation.tools.tasks import Tool, ToolTask
from parapet.schemas.service import Intent, Service, Slot
from parapet.transforms.report.text import name_words


class Keywords:
    """The agent."""

    def predict(self, batch: Sequence[ToolTask]) -> list[list[dict[str, Any]]]:
        """Predicts a call for each task; none if no tool shares a word with the request."""
        return [_calls(task) for task in batch]


def _calls(task: ToolTask) -> list[dict[str, Any]]:
    request_words = {*trackers.stems(task.request)}
    points = {}
    for tool in task.function:
        words = {*trackers.stems(" ".join(name_words(tool.name))), *trackers.stems(tool.description)}
        points[tool.name] = len(request_words & words - trackers.IDLE)
    if not any(points.values()):
        return []
    tool = max(task.function, key=lambda one: points[one.name])
    properties = {name: schema for name, schema in tool.parameters.get("properties", {}).items() if _is_plain(schema)}
    (state,) = trackers.Meaning().predict([model.Example("", 0, _service(tool, properties), (("USER", task.request),))])
    typed = {name: _typed(value, properties[name].get("type")) for name, (value,) in state["slot_values"].items()}
    return [{tool.name: {name: value for name, value in typed.items() if value is not None}}]


def _is_plain(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") in ("string", "integer", "float", "number")


def _service(tool: Tool, properties: dict[str, Any]) -> Service:
    slots = []
    for name, schema in properties.items():
        values = [value for value in schema.get("enum") or () if isinstance(value, str)]
        slots.append(Slot(name, str(schema.get("description", "")), bool(values), values))
    return Service("Tools_1", tool.description, slots, [Intent(tool.name, tool.description, False, list(properties))])


def _typed(value: str, kind: str) -> Any:
    """Converts a value to the type of its parameter; None if it is not a number."""
    if kind == "string":
        return value
    if value.lower() in trackers.NUMBERS:
        return trackers.NUMBERS.index(value.lower()) + 1
    digits = re.search(r"\d+(?:\.\d+)?", value.replace(",", ""))
    number = float(digits[0]) if digits else None
    return number if number is None or kind != "integer" else int(number)
