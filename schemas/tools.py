"""Tool definitions of agents: read in four dialects, their names and descriptions replaced, written back as they came.

OpenAI (``type: function``, nested or flat), Anthropic (``input_schema``), MCP (the result of ``tools/list``) and BFCL
(``name, description, parameters``) are recognised by their shape. A parameter is addressed by the JSON Pointer of its
schema within the tool's: ``/properties/guest/properties/name``.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.limits import read_text

SCHEMAS = ("parameters", "input_schema", "inputSchema")  # where a tool has the schema of its arguments
LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # names of functions and parameters, as OpenAI's API takes them

_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_TABLES = ("$defs", "definitions")
_SHAPES = (
    'OpenAI {"type": "function", "function": ...}, Anthropic {"name", "input_schema"}, '
    'MCP {"tools": [{"name", "inputSchema"}]} or BFCL {"name", "parameters"}'
)


class Parameter(msgspec.Struct, frozen=True):
    """A parameter of a tool, or a property of one.

    Attributes:
      name: the last part of the pointer.
      pointer: of its schema, within the schema of the tool's arguments.
    """

    name: str
    pointer: str
    description: str


class Tool(msgspec.Struct, frozen=True):
    """A tool.

    Attributes:
      parameters: in the order of the definition, those of nested objects after their own.
    """

    name: str
    description: str
    parameters: tuple[Parameter, ...]


class Words(NamedTuple):
    """Another name and description; None: as it is."""

    name: str | None = None
    description: str | None = None


class Names(msgspec.Struct, frozen=True):
    """``names.json``: from the original's names to a variant's.

    Attributes:
      tools: by name.
      parameters: by the original tool's name, and by pointer.
    """

    tools: dict[str, str]
    parameters: dict[str, dict[str, str]]

    def reversed(self) -> Names:
        """From the variant's names, and pointers, to the original's."""
        parameters = {
            self.tools.get(tool, tool): {self.moved(pointer, names): _last(pointer) for pointer in names}
            for tool, names in self.parameters.items()
        }
        return Names({new: old for old, new in self.tools.items()}, parameters)

    @staticmethod
    def moved(pointer: str, names: Mapping[str, str]) -> str:
        """A pointer where properties are called as ``names`` says."""
        parts, found = pointer.split("/")[1:], ""
        for i, part in enumerate(parts):
            here = "/" + "/".join(parts[: i + 1])
            found += f"/{_escaped(names[here])}" if here in names else f"/{part}"
        return found


def read_tools(path: str | Path) -> tuple[Any, list[Tool]]:
    """The definitions of a file, as they stand there and as tools.

    Raises:
      InputError: no JSON, no tools, or two of one name; with the item.
    """
    try:
        raw = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", path) from None
    return raw, tools_of(raw, str(path))


def tools_of(raw: Any, path: str) -> list[Tool]:
    """The tools of definitions. Raises InputError as :func:`read_tools`."""
    try:
        tools = [_tool(definition, path, where) for where, definition in _definitions(raw, path)]
    except RecursionError:
        raise InputError("is nested too deeply", path) from None
    names = [tool.name for tool in tools]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise InputError(f"two tools are called {twice!r}", path)
    return tools


def is_tools(raw: Any) -> bool:
    """Whether a JSON value has the shape of tool definitions."""
    items = raw.get("tools") if isinstance(raw, dict) and isinstance(raw.get("tools"), list) else raw
    first = items[0] if isinstance(items, list) and items else items
    return isinstance(first, dict) and _body(first) is not None


def _definitions(raw: Any, path: str) -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    place, items = ("tools", raw["tools"]) if isinstance(raw, dict) and "tools" in raw else ("", raw)
    items = items if isinstance(items, list) else [items]
    if not items:
        raise InputError("has no tools", path)
    for i, item in enumerate(items):
        where = f"{place}[{i}]"
        if not isinstance(item, dict) or _body(item) is None:
            raise InputError(f"is no tool: expected {_SHAPES}", path, where)
        found.append((where, item))
    return found


def _body(definition: Mapping[str, Any]) -> dict[str, Any] | None:
    """The table that has name, description and schema; None where it is no tool."""
    body = definition.get("function") if isinstance(definition.get("function"), dict) else definition
    has_schema = isinstance(body, dict) and (any(key in body for key in SCHEMAS) or body.get("type") == "function")
    return body if isinstance(body, dict) and isinstance(body.get("name"), str) and has_schema else None


def schema_of(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a tool's arguments; empty where it has none."""
    body = _body(definition) or {}
    found: dict[str, Any] = next((body[key] for key in SCHEMAS if isinstance(body.get(key), dict)), {})
    return found


def _tool(definition: Mapping[str, Any], path: str, where: str) -> Tool:
    body = _body(definition)
    assert body is not None
    if not body["name"].strip():
        raise InputError("the name is empty", path, where)
    parameters = tuple(
        Parameter(_last(pointer), pointer, str(of.get("description", "")) if isinstance(of, dict) else "")
        for pointer, of in properties_of(schema_of(definition), path, where)
    )
    return Tool(body["name"], str(body.get("description", "")), parameters)


def properties_of(schema: Any, path: str, where: str, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """(pointer, schema) of each property, however deep. Raises InputError where a schema is none."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise InputError(f"{pointer or 'the schema'}: expected an object, found {schema!r}", path, where)
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        raise InputError(f"{pointer}/properties: expected an object", path, where)
    for name, of in properties.items():
        yield f"{pointer}/properties/{_escaped(name)}", of
    for child, of in _inner(schema):
        yield from properties_of(of, path, where, pointer + child)


def _inner(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(pointer, schema) of what stands within a schema."""
    properties = schema.get("properties")
    for name, of in properties.items() if isinstance(properties, dict) else ():
        yield f"/properties/{_escaped(name)}", of
    for key in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(key), dict):
            yield f"/{key}", schema[key]
    for key in _LISTS:
        for i, of in enumerate(schema[key] if isinstance(schema.get(key), list) else ()):
            yield f"/{key}/{i}", of
    for key in _TABLES:
        for name, of in (schema[key] if isinstance(schema.get(key), dict) else {}).items():
            yield f"/{key}/{_escaped(name)}", of


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _last(pointer: str) -> str:
    return pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")


def reworded(raw: Any, words: Mapping[str, Words], parameters: Mapping[str, Mapping[str, Words]], path: str) -> Any:
    """The definitions with other names and descriptions; all else is as it was, the order too.

    Args:
      raw: the definitions.
      words: of tools, by name.
      parameters: of parameters, by the tool's name and by pointer.
      path: where the definitions are from, for errors.

    Raises:
      InputError: two tools, or two parameters of one object, would have one name.
    """
    raw = copy.deepcopy(raw)
    for where, definition in _definitions(raw, path):
        body = _body(definition)
        assert body is not None
        of, name = words.get(body["name"], Words()), body["name"]
        for key in SCHEMAS:
            if isinstance(body.get(key), dict):
                body[key] = _schema(body[key], parameters.get(name, {}), "", path, where)
        body.update({key: value for key, value in of._asdict().items() if value is not None})
    tools_of(raw, path)  # names are all different
    return raw


def _schema(schema: Any, words: Mapping[str, Words], pointer: str, path: str, where: str) -> Any:
    if not isinstance(schema, dict):
        return schema
    inner = {child: _schema(of, words, pointer + child, path, where) for child, of in _inner(schema)}
    new = dict(schema)
    if isinstance(schema.get("properties"), dict):
        names, properties = {}, {}
        for name in schema["properties"]:
            child = f"/properties/{_escaped(name)}"
            of, value = words.get(pointer + child, Words()), inner[child]
            if of.description is not None and isinstance(value, dict):
                value = {**value, "description": of.description}
            names[name] = of.name or name
            if names[name] in properties:
                raise InputError(f"{pointer}/properties: two parameters would be called {names[name]!r}", path, where)
            properties[names[name]] = value
        new["properties"] = properties
        if isinstance(schema.get("required"), list):
            new["required"] = [names.get(name, name) for name in schema["required"]]
    for key in ("items", "additionalProperties", "not"):
        if f"/{key}" in inner:
            new[key] = inner[f"/{key}"]
    for key in _LISTS:
        if isinstance(schema.get(key), list):
            new[key] = [inner[f"/{key}/{i}"] for i in range(len(schema[key]))]
    for key in _TABLES:
        if isinstance(schema.get(key), dict):
            new[key] = {name: inner[f"/{key}/{_escaped(name)}"] for name in schema[key]}
    return new


def renamed_arguments(schema: Mapping[str, Any], names: Mapping[str, str], value: Any, with_alternatives: bool) -> Any:
    """The arguments of a call under other names.

    Args:
      schema: of the arguments.
      names: pointer to new name.
      value: the arguments.
      with_alternatives: whether each is a list of right values, as in BFCL's answers.
    """
    return _renamed(schema, "", schema, names, value, with_alternatives)


def _renamed(
    schema: Any, pointer: str, root: Mapping[str, Any], names: Mapping[str, str], value: Any, alternatives: bool
) -> Any:
    if isinstance(value, list):
        found = _within(schema, pointer, root, "items")
        inner, at = found if found else (None, "")
        return [_renamed(inner, at, root, names, item, alternatives) for item in value]
    if not isinstance(value, dict):
        return value
    new: dict[str, Any] = {}
    for key, item in value.items():
        found = _within(schema, pointer, root, f"properties/{_escaped(key)}")
        inner, at = found if found else (None, "")
        if alternatives and isinstance(item, list):
            changed: Any = [_renamed(inner, at, root, names, one, alternatives) for one in item]
        else:
            changed = _renamed(inner, at, root, names, item, alternatives)
        new[names.get(at, key) if at else key] = changed
    return new


def _within(schema: Any, pointer: str, root: Mapping[str, Any], wanted: str) -> tuple[Any, str] | None:
    """A part of a schema with its pointer, whether it stands there, behind ``$ref`` or in an alternative."""
    if not isinstance(schema, dict):
        return None
    part: Any = schema
    for step in wanted.split("/"):
        part = part.get(_last("/" + step)) if isinstance(part, dict) else None
    if part is not None:
        return part, f"{pointer}/{wanted}"
    if isinstance(ref := schema.get("$ref"), str) and ref.startswith("#/"):
        target: Any = root
        for step in ref[2:].split("/"):
            target = target.get(_last("/" + step)) if isinstance(target, dict) else None
        if target is not None and target is not schema and (found := _within(target, ref[1:], root, wanted)):
            return found
    for key in _LISTS:
        for i, one in enumerate(schema[key] if isinstance(schema.get(key), list) else ()):
            if found := _within(one, f"{pointer}/{key}/{i}", root, wanted):
                return found
    return None
