"""Tool definitions of OpenAI (``type: function``, in both forms), Anthropic, MCP and BFCL, recognised by their shape.

A toolset is a service, a tool an intent, a parameter a slot. Files are written in their original dialect with all other
content.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.arguments import Parameters, Renaming
from parapet.schemas.errors import InputError, reason_and_place, surrogate_in
from parapet.schemas.json_text import parse_exactly, without_mark
from parapet.schemas.limits import MAX_FILE, MAX_SCHEMA_FILE, read_whole
from parapet.schemas.service import SERVICE_NAME
from parapet.schemas.tasks import is_task
from parapet.schemas.tool_texts import parts_of

TOOLS, NAMES = "tools.json", "names.json"  # of a variant

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # names that the APIs accept

_MARK = re.compile(rb'"(?:parameters|input_schema|inputSchema|function|tools)"\s*+:')
_SCHEMA_KEYS = ("input_schema", "inputSchema", "parameters")
_SHAPES = "expected the shape of OpenAI, Anthropic (input_schema), MCP (inputSchema) or BFCL (parameters)"


class Tool:
    """A tool.

    Attributes:
      raw: the tool as read from the file.
      name: the name.
      description: the description; may be empty.
      parameters: the parameters of its calls.

    Args:
      raw: see above.

    Raises:
      InputError: it does not have the shape of any dialect; ``where`` is the JSON Pointer.
    """

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        if not isinstance(raw, dict):
            raise InputError(f"is not a tool: {_SHAPES}", "", "")
        # OpenAI's Chat Completions API has the function inside, its Responses API has not.
        self._inside = "function" if raw.get("type") == "function" and "function" in raw else ""
        function = raw[self._inside] if self._inside else raw
        place = f"/{self._inside}" if self._inside else ""
        if not isinstance(function, dict):
            raise InputError("expected an object", "", place)
        keys = [key for key in _SCHEMA_KEYS if key in function]
        if not keys and (function.get("type", "function") != "function" or "name" not in function):
            raise InputError(f"is not a tool: {_SHAPES}", "", place)
        self._key = keys[0] if keys else ""
        texts = {"name": function.get("name"), "description": function.get("description") or ""}
        for key, value in texts.items():
            if not isinstance(value, str):
                raise InputError("expected a string", "", f"{place}/{key}")
        self.name, self.description = str(texts["name"]), str(texts["description"])
        if not self.name.strip():
            raise InputError("the name is empty", "", f"{place}/name")
        root = function.get(self._key) if self._key else None
        try:
            self.parameters = Parameters({} if root is None else root)
        except InputError as error:
            raise InputError(error.reason, "", f"{place}/{self._key}{error.where}") from None

    def renamed(self, name: str, description: str | None, renaming: Renaming) -> dict[str, Any]:
        """Return the tool with a new name, a new description (None to keep it), and renamed parameters."""
        function = dict(self.raw[self._inside] if self._inside else self.raw)
        function["name"] = name
        if description is not None and "description" in function:
            function["description"] = description
        if self._key and function[self._key] is not None:
            function[self._key] = renaming.schema()
        return {**self.raw, self._inside: function} if self._inside else function


class Toolset:
    """The tools of a file or task, in order.

    Raises:
      InputError: a tool is invalid, or a name is duplicated; ``where`` is the item.
    """

    def __init__(self, name: str, items: Sequence[Any], place: Callable[[int, str], str]) -> None:
        self.name = name
        self.tools: list[Tool] = []
        known: dict[str, int] = {}
        for i, item in enumerate(items):
            try:
                tool = Tool(item)
                if (first := known.setdefault(tool.name, i)) != i:
                    raise InputError(f"the name {tool.name!r} appears twice, first in item {first + 1}")
            except InputError as error:
                raise InputError(error.reason, "", place(i, error.where)) from None
            self.tools.append(tool)


class ToolNames(msgspec.Struct, frozen=True):
    """The names of a toolset in a variant.

    Attributes:
      tools: original name to new name.
      parameters: original name of the tool, to the JSON Pointer of a parameter in the original, to its new name.
    """

    tools: dict[str, str]
    parameters: dict[str, dict[str, str]]


class ToolVariant(msgspec.Struct, frozen=True):
    """New texts for a toolset, by element: ``tool/NAME`` or ``parameter/NAME/POINTER``.

    Missing elements are unchanged.
    """

    names: Mapping[str, str]
    descriptions: Mapping[str, str]

    def of(self, tool: Tool) -> tuple[str, str | None, Renaming]:
        """Return (name, description, renaming of the parameters) of a tool for :meth:`Tool.renamed`."""
        own, prefix = f"tool/{tool.name}", f"parameter/{tool.name}"
        names = {each.pointer: self.names.get(prefix + each.pointer, each.name) for each in tool.parameters.first()}
        pointers = (each.pointer for each in tool.parameters.all if prefix + each.pointer in self.descriptions)
        texts = {pointer: self.descriptions[prefix + pointer] for pointer in pointers}
        renaming = tool.parameters.renaming(names, texts)
        return self.names.get(own, tool.name), self.descriptions.get(own), renaming


def legal_variant(toolset: Toolset, variant: ToolVariant) -> ToolVariant:
    """Remove names from a variant that an API would refuse, so that their elements keep the original names.

    These are names of more than 64 characters, or with characters other than letters, digits, ``_``, ``-`` (and the
    dots of the original); and the later of two equal names in a scope.
    """
    names = dict(variant.names)
    while True:
        checked, elements = ToolVariant(names, variant.descriptions), list[tuple[str, str, str, str]]()
        for tool in toolset.tools:
            elements.append((f"tool/{tool.name}", "", tool.name, names.get(f"tool/{tool.name}", tool.name)))
            by_pointer = checked.of(tool)[2].names()
            for parameter in tool.parameters.first():
                key = f"parameter/{tool.name}{parameter.pointer}"
                scope = f"{tool.name}/{parameter.scope}"
                elements.append((key, scope, parameter.name, by_pointer[parameter.pointer]))
        refused, taken = list[str](), set[tuple[str, str]]()
        # original names have priority over new ones
        for key, scope, old, new in sorted(elements, key=lambda element: element[2] != element[3]):
            if new != old and (not is_legal(new, old) or (scope, new) in taken):
                refused.append(key)
            taken.add((scope, new))
        if not refused:
            return checked
        for key in refused:
            names.pop(key, None)


def is_legal(name: str, original: str) -> bool:
    """Whether an API that accepts the original name accepts the new one."""
    space, dot, _ = original.rpartition(".")
    return len(name) <= 64 and name.startswith(space + dot) and bool(LEGAL.fullmatch(name.removeprefix(space + dot)))


class ToolFile:
    """A file of tool definitions: a list, one object, ``{"tools": [...]}``, JSON Lines, or BFCL tasks.

    Attributes:
      toolsets: the toolsets by name: one named after the file, or for tasks the distinct ones, named after the first
        task.
      of_tasks: the id of each task to the name of its toolset.

    Args:
      data: the content.
      path: the path for messages; its stem is the name of the toolset.

    Raises:
      InputError: the file is not JSON, or has no tools; names the file, the item or line, and the JSON Pointer in it.
    """

    def __init__(self, data: bytes, path: object) -> None:
        self.path, self._data = str(path), data
        self._is_ascii = data.isascii()
        self._content, self._is_lines = _parsed(data, path)
        self.toolsets: dict[str, Toolset] = {}
        self.of_tasks: dict[str, str] = {}
        # Keys and positions that lead to each occurrence of a toolset's list, or of its only tool.
        self._paths: dict[str, list[tuple[Any, ...]]] = {}
        first: dict[str, str] = {}
        try:
            for keys, name in self._found():
                if name in self.of_tasks or not SERVICE_NAME.fullmatch(name) or ".." in name:
                    reason = f"the id {name!r} appears twice"
                    if name not in self.of_tasks:
                        reason = (
                            "an id must consist of at most 100 letters, digits, '_', '-' and '.', because files "
                            "are named after it"
                        )
                    raise InputError(reason, "", self._place(keys, -1, "/id"))
                items = functools.reduce(lambda holder, key: holder[key], keys, self._content)
                toolset = first.setdefault(json.dumps(items), name)
                if toolset == name:
                    place = functools.partial(self._place, keys)
                    self.toolsets[name] = Toolset(name, items if isinstance(items, list) else [items], place)
                self._paths.setdefault(toolset, []).append(keys)
                if keys and isinstance(keys[0], int):
                    self.of_tasks[name] = toolset
        except InputError as error:
            raise InputError(error.reason, path, error.where) from None

    def __reduce__(self) -> tuple[type[ToolFile], tuple[bytes, str]]:
        return ToolFile, (self._data, self.path)

    def _found(self) -> Iterator[tuple[tuple[Any, ...], str]]:
        """Yield (keys and positions, name) of each toolset."""
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", Path(self.path).stem).strip("_-") or "tools"
        content, keys = self._content, tuple[str, ...]()
        if isinstance(content, list) and content and is_task(content[0]):
            for i, task in enumerate(content):
                if not is_task(task):
                    raise InputError(
                        "expected a task with an id and a list of functions", "", self._place((i,), -1, "")
                    )
                yield (i, "function"), task["id"]
            return
        if isinstance(content, dict) and isinstance(content.get("result"), dict):
            content, keys = content["result"], ("result",)
        if isinstance(content, dict) and "tools" in content:
            content, keys = content["tools"], (*keys, "tools")
        if not content or not isinstance(content, list | dict) or (keys and isinstance(content, dict)):
            raise InputError(f"has no list of tools: {_SHAPES}", "", "".join(f"/{key}" for key in keys))
        yield keys, name

    def _place(self, keys: tuple[Any, ...], position: int, pointer: str) -> str:
        """Return the item or line of a toolset's n-th tool, and the JSON Pointer in it."""
        if keys and isinstance(keys[0], int):
            pointer = f"/function/{position}{pointer}" if position >= 0 else pointer
            position = keys[0]
        place = f"{'line' if self._is_lines else 'item'} {position + 1}"
        return f"{place}: {pointer}" if pointer else place

    def written(self, variants: Mapping[str, ToolVariant] | None = None) -> bytes:
        """Write the file in its dialect with new names and descriptions; None to keep them.

        Args:
          variants: the variants of toolsets, by name. Tasks with other toolsets are left out, and JSON Lines become a
            list.
        """
        left_out = set[tuple[Any, ...]]()
        content = self._content.copy() if self.of_tasks else self._content
        for name, toolset in self.toolsets.items():
            variant = ToolVariant({}, {}) if variants is None else variants.get(name)
            if variant is None:
                left_out |= {keys[:1] for keys in self._paths[name]}
                continue
            tools = [tool.renamed(*variant.of(tool)) for tool in toolset.tools]
            for keys in self._paths[name]:
                if self.of_tasks:  # there may be thousands, so the list is copied only once
                    content[keys[0]] = {**content[keys[0]], "function": tools}
                    continue
                items = functools.reduce(lambda holder, key: holder[key], keys, content)
                content = _replaced(content, keys, tools if isinstance(items, list) else tools[0])
        if left_out:
            content = [task for i, task in enumerate(content) if (i,) not in left_out]
        if self._is_lines and variants is None:
            return "".join(json.dumps(item, ensure_ascii=self._is_ascii) + "\n" for item in content).encode()
        return (json.dumps(content, indent=2, ensure_ascii=self._is_ascii) + "\n").encode()

    def services(self) -> list[dict[str, Any]]:
        """Return the toolsets as services, for :class:`parapet.schemas.service.Toolset`."""
        return [_as_service(toolset) for toolset in self.toolsets.values()]

    def undescribed(self) -> int:
        """Count the tools and parameters without a description, which keep their names."""
        tools = [tool for toolset in self.toolsets.values() for tool in toolset.tools]
        texts = [tool.description for tool in tools]
        texts += [each.description for tool in tools for each in tool.parameters.first()]
        return sum(not text.strip() for text in texts)

    def service_files(self, services: Iterable[Mapping[str, Any]]) -> dict[str, bytes]:
        """Return :meth:`variant_files`, given the variants of :meth:`services`."""
        variants = {}
        for service in services:
            texts: dict[str, dict[str, str]] = {"name": {}, "description": {}}
            whole = _descriptions(self.toolsets[service["toolset"]])
            for kind in ("intent", "slot"):
                for i, element in enumerate(service[f"{kind}s"]):
                    for key in service["tool_keys"][f"{kind}_{i}"]:
                        texts["name"][key] = element["name"]
                        parts = parts_of(whole[key])
                        if element["description"] != parts.meaning:
                            texts["description"][key] = parts.reworded(element["description"])
            variants[service["toolset"]] = ToolVariant(texts["name"], texts["description"])
        return self.variant_files(variants)

    def variant_files(self, variants: Mapping[str, ToolVariant]) -> dict[str, bytes]:
        """Return ``tools.json`` and ``names.json`` of a variant."""
        legal = {name: legal_variant(self.toolsets[name], variant) for name, variant in variants.items()}
        names = {}
        for name, variant in legal.items():
            tools = {tool.name: variant.of(tool) for tool in self.toolsets[name].tools}
            of_parameters = {old: renaming.names() for old, (_, _, renaming) in tools.items()}
            names[name] = ToolNames({old: new for old, (new, _, _) in tools.items()}, of_parameters)
        mapping = msgspec.json.format(msgspec.json.encode(names), indent=2) + b"\n"
        return {TOOLS: self.written(legal), NAMES: mapping}


def _descriptions(toolset: Toolset) -> dict[str, str]:
    """Return the description of each element."""
    of_tools = {f"tool/{tool.name}": tool.description for tool in toolset.tools}
    return of_tools | {
        f"parameter/{tool.name}{each.pointer}": each.description
        for tool in toolset.tools
        for each in tool.parameters.all
    }


def _as_service(toolset: Toolset) -> dict[str, Any]:
    """Convert a toolset to a service without elements that have no description, since annotators could not name them.

    Descriptions contain only their meaning; formats, defaults and units are kept in each variant. Parameters with the
    same name and description, such as a user id that each tool takes, share a slot.
    """
    elements: dict[str, list[dict[str, Any]]] = {"intent": [], "slot": []}
    keys: dict[str, list[str]] = {}
    scopes: dict[str, list[str]] = {}
    shared: dict[tuple[str, str], str] = {}

    def add(kind: str, key: str, scope: str, texts: tuple[str, str], **more: Any) -> None:
        field = shared.setdefault(texts, f"slot_{len(elements['slot'])}") if kind == "slot" else ""
        field = field or f"intent_{len(elements['intent'])}"
        if field not in keys:
            elements[kind].append({"name": texts[0], "description": parts_of(texts[1]).meaning, **more})
        keys.setdefault(field, []).append(key)
        if scope not in scopes.setdefault(field, []):
            scopes[field].append(scope)

    for tool in toolset.tools:
        if tool.description.strip():
            add("intent", f"tool/{tool.name}", "", (tool.name, tool.description))
        first = {each.pointer for each in tool.parameters.first()}
        for each in tool.parameters.all:
            texts = (each.name, each.description)
            if each.description.strip() and (each.pointer in first or texts in shared):
                values = each.schema.get("enum", ())
                add(
                    "slot",
                    f"parameter/{tool.name}{each.pointer}",
                    f"{tool.name}/{each.scope}",
                    texts,
                    is_categorical=bool(values),
                    possible_values=[value if isinstance(value, str) else json.dumps(value) for value in values],
                )
    return {
        "service_name": toolset.name,
        "description": "",
        "slots": elements["slot"],
        "intents": elements["intent"],
        "toolset": toolset.name,
        "tool_keys": keys,
        "tool_scopes": scopes,
    }


def _replaced(content: Any, keys: Sequence[Any], value: Any) -> Any:
    """Return a copy of parsed JSON with another value at the place given by keys and positions."""
    if not keys:
        return value
    copy = content.copy()
    copy[keys[0]] = _replaced(content[keys[0]], keys[1:], value)
    return copy


def _parsed(data: bytes, path: object) -> tuple[Any, bool]:
    """Return (content, whether it is JSON Lines)."""
    data = without_mark(data, path)
    lines = [(i, line) for i, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    try:
        content = _parse(data)
        return ([content], True) if is_task(content) else (content, False)
    except InputError as error:
        raise InputError(error.reason, path, error.where.removeprefix(".")) from None
    except ValueError as error:
        if len(lines) < 2 or not lines[0][1].rstrip().endswith(b"}"):
            raise InputError(f"not JSON: {error}", path) from None
    items = []
    for number, line in lines:
        try:
            items.append(_parse(line))
        except InputError as error:
            place = f"line {number}: {error.where.removeprefix('.')}".removesuffix(": ")
            raise InputError(error.reason, path, place) from None
        except ValueError as error:
            raise InputError(f"not JSON: {error}", path, f"line {number}") from None
    return items, True


def _parse(data: bytes) -> Any:
    """Parse JSON that can be written again without changes. Raises ValueError or InputError."""
    content = parse_exactly(data)
    # Large files are only searched if their text may contain such values.
    if b"\\u" in data and (place := surrogate_in(content)) is not None:
        raise InputError("contains a lone surrogate, which is not a valid character", "", place)
    return content


def are_tools(data: bytes) -> bool:
    """Whether a schema file contains tools rather than services."""
    return b'"service_name"' not in data and _MARK.search(data) is not None


def read_names(path: str | Path) -> dict[str, ToolNames]:
    """Read the ``names.json`` of a variant, by toolset. Raises InputError with file, place and reason."""
    try:
        return msgspec.json.decode(read_whole(path, MAX_FILE), type=dict[str, ToolNames])
    except msgspec.ValidationError as error:
        reason, place = reason_and_place(error)
        raise InputError(reason, path, place) from None
    except msgspec.DecodeError as error:
        raise InputError(str(error), path) from None


def read_tools(path: str | Path) -> ToolFile:
    """Read a file of tools. Raises InputError as :class:`ToolFile` does."""
    return ToolFile(read_whole(path, MAX_SCHEMA_FILE), path)
