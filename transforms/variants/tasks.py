"""Tasks of agents under a variant's names of tools and parameters: the tools that are given, and the calls expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.tools import Names, Words, renamed_arguments, reworded, schema_of, tools_of

Task = dict[str, Any]


class Variant(msgspec.Struct, frozen=True):
    """Tools in other words.

    Attributes:
      names: from the original's to these.
      words: of each tool, by the original's name.
      parameters: of each parameter, by the original tool's name and pointer.
    """

    names: Names
    words: dict[str, Words]
    parameters: dict[str, dict[str, Words]]


def variant_of(names: Names, raw: Any, path: str) -> Variant:
    """A variant of ``names.json`` and ``tools.json``; a tool that the latter lacks keeps its description.

    Raises:
      InputError: the definitions are none.
    """
    described = {tool.name: tool for tool in tools_of(raw, path)}
    words, parameters = {}, {}
    for old, new in names.tools.items():
        tool, own = described.get(new), names.parameters.get(old, {})
        words[old] = Words(new, tool.description if tool else None)
        texts = {parameter.pointer: parameter.description for parameter in tool.parameters} if tool else {}
        parameters[old] = {at: Words(name, texts.get(Names.moved(at, own))) for at, name in own.items()}
    return Variant(names, words, parameters)


def names_between(original: Any, variant: Any, path: str) -> Names:
    """The names from definitions to others of the same tools in the same order.

    Raises:
      InputError: they are not the same but for names and descriptions.
    """
    before, after = tools_of(original, "the original"), tools_of(variant, path)
    if len(before) != len(after):
        raise InputError(f"has {len(after)} tools, and the original {len(before)}", path)
    tools, parameters = {}, {}
    for old, new in zip(before, after, strict=True):
        if len(old.parameters) != len(new.parameters):
            reason = f"{new.name!r} has {len(new.parameters)} parameters, and {old.name!r} {len(old.parameters)}"
            raise InputError(reason, path)
        tools[old.name] = new.name
        pairs = zip(old.parameters, new.parameters, strict=True)
        parameters[old.name] = {one.pointer: other.name for one, other in pairs}
    return Names(tools, parameters)


def rewritten(task: Task, truth: Task | None, variant: Variant, path: str) -> tuple[Task, Task | None]:
    """A task with its right calls, under a variant's names.

    Args:
      task: a line of a file of tasks.
      truth: the line of its right calls, if any.
      variant: of the tools; those that it lacks stay as they are.
      path: of the file, for errors.

    Raises:
      InputError: two tools or parameters would have one name.
    """
    definitions = task["function"]
    schemas = {definition["name"]: schema_of(definition) for definition in definitions}
    functions = reworded(definitions, variant.words, variant.parameters, path)
    if truth is None:
        return {**task, "function": functions}, None
    calls = [
        {
            variant.names.tools.get(name, name): renamed_arguments(
                schemas.get(name, {}), variant.names.parameters.get(name, {}), arguments, with_alternatives=True
            )
            for name, arguments in call.items()
        }
        for call in truth["ground_truth"]
    ]
    return {**task, "function": functions}, {**truth, "ground_truth": calls}


def reversed_variant(variant: Variant, originals: Mapping[str, Words]) -> Variant:
    """From a variant's names back to the original's; ``originals`` has the descriptions of its tools, by name."""
    names = variant.names.reversed()
    words = {new: Words(old, originals.get(old, Words()).description) for new, old in names.tools.items()}
    parameters = {tool: {at: Words(name) for at, name in of.items()} for tool, of in names.parameters.items()}
    return Variant(names, words, parameters)
