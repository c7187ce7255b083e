"""Tool definitions of OpenAI (``type: function``, in both forms), Anthropic, MCP and BFCL, recognised by their shape.

A toolset is a service, a tool an intent, a parameter a slot. Files are written in their original dialect with all other
content.

Descriptions are split into their meaning and the parts to keep: formats, defaults, examples, units. A worker who
paraphrases ``distance`` cannot know that it is in miles, or that its default is 0. Without these parts, a variant would
be a different tool, whose expected calls nobody could guess. So annotators and translators only get the meaning, and
the other parts are added to it unchanged in every variant.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from parapet.schemas.arguments import NO_MENTIONS, NO_TEXTS, Mentions, Parameters, Renaming, retitled
from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.layout import NAMES, TOOLS
from parapet.schemas.limits import MAX_FILE, MAX_SCHEMA_FILE, parse_json, parse_json_line, read_whole, without_mark
from parapet.schemas.service import FILE_NAME_RULE, SERVICE_NAME
from parapet.schemas.tasks import Contradiction, RightCalls, contradictions, is_task

_UNIT = (
    r"(?:(?:square|cubic) )?(?:"
    r"m(?:et(?:er|re)s?)?|km|kilomet(?:er|re)s?|cm|centimet(?:er|re)s?|mm|millimet(?:er|re)s?|miles?|feet|foot|ft|inch(?:es)?|"
    r"yards?|kgs?|kilo(?:gram)?s?|g|grams?|mg|milligrams?|lbs?|pounds?|ounces?|tons?|tonnes?|lit(?:er|re)s?|gallons?|ml|"
    r"milliseconds?|seconds?|minutes?|hours?|days?|weeks?|months?|years?|degrees?|radians?|celsius|fahrenheit|kelvins?|"
    r"percent(?:age)?s?|%|dollars?|euros?|cents|usd|eur|gbp|volts?|watts?|amperes?|amps?|ohms?|joules?|newtons?|pascals?|"
    r"atmospheres?|atm|hertz|hz|mph|coulombs?|teslas?|farads?|moles?|calories|kcal|bytes?|pixels|kb|mb|gb|lux|decibels|"
    r"m/s(?:\^2|²)?|km/h|kg/m\^?3?|iso[ -]?\d+|utc|lowercase|uppercase|json|html|yyyy[-/]mm[-/]dd"
    r")"
)
_PER = rf"{_UNIT}(?:(?: per |/){_UNIT})*(?: (?:celsius|fahrenheit|squared|cubed))?"
_IN_UNIT = re.compile(rf",?\s+(?:in|as) (?:a |an |the |decimal )?{_PER}(?![\w-])(?:\s+format)?", re.IGNORECASE)
_AFTER_COMMA = re.compile(rf"^[^,]+,\s*{_PER}\s*$", re.IGNORECASE)
# Extends to the end of the sentence.
_REST = re.compile(
    r"[,;:]?\s+(?:in the (?:format|form of)|in (?:the )?['\"`]|formatted|expressed|e\.?g\.|i\.e\.|"
    r"for (?:example|instance)|such as|like (?=['\"`])|(?:which|that) (?:must|should|are|is)\b[^.]*\d|between \d|"
    r"defaults? (?:to|is)|including ['\"`])|[,;:]\s+(?:(?:must|should|can) be|(?:use )?default|(?:either )?['\"`])",
    re.IGNORECASE,
)
_BRACKETS = re.compile(r"\s*\(([^()]*)\)")
# Occurs in sentences, or brackets, that must stay.
_TELLING = re.compile(
    r"['\"`\d]|\b(?:defaults?|formats?|must|should|use|only|optional|required|allowed|valid|units?|examples?|e\.?g|i\.e|null|none|"
    rf"true|false|unspecified|omitted|{_UNIT})\b",
    re.IGNORECASE,
)
# Sections of a docstring, and identifiers such as list_issues, listIssues and `limit`.
_SECTION = re.compile(
    r"\s*\n[ \t]*(?:(?:args|arguments|parameters|params|keyword args|returns?|raises|yields|examples?|usage|notes?)"
    r"[ \t]*(?::[ \t]*\n|\n[ \t]*-{3,})|[:@](?:param|returns?|raises)\b)",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(r"`[^`\n]+`|\b[A-Za-z]\w*_\w+|\b[a-z]+[A-Z]\w*")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z'\"`(\d])")
_SHORT = re.compile(r"\b(?:e\.g|i\.e|vs|approx|abbr|max|min|no)\.$", re.IGNORECASE)


class Description(NamedTuple):
    """A description in parts.

    Attributes:
      meaning: the part that can be paraphrased.
      clauses: the clauses of its sentence that must stay.
      sentences: the sentences that must stay.
      ends: whether it ends with a full stop.
      sections: the sections of a docstring, which must stay.
    """

    meaning: str
    clauses: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()
    ends: bool = False
    sections: str = ""

    def reworded(self, meaning: str) -> str:
        """Returns the description with a new wording of its meaning."""
        text = meaning.strip().rstrip(".")
        text += f" ({'; '.join(self.clauses)})" if self.clauses else ""
        text += "." if self.sentences or self.ends else ""
        return " ".join([text, *self.sentences]) + self.sections


@lru_cache(maxsize=1 << 14)
def parts_of(description: str) -> Description:
    """Splits a description; all of it is its meaning if nothing must stay, or nothing else would be left."""
    section = _SECTION.search(description)
    text = description[: section.start()] if section else description
    sections = description[len(text) :]
    first, *more = _sentences(text.strip())
    kept = tuple(sentence for sentence in more if _TELLING.search(sentence) or _IDENTIFIER.search(sentence))
    first, *clauses = _without_clauses(first)
    meaning = " ".join([first, *(sentence for sentence in more if sentence not in kept)])
    if not re.search(r"[^\W\d_]{3}", first):
        return Description(description)
    return Description(meaning, tuple(clauses), kept, text.rstrip().endswith("."), sections)


def documented_in(docstring: str, name: str) -> str:
    """Returns what the docstring of a tool says about a parameter, or an empty string."""
    entry = (
        rf"^[ \t]*(?:[-*][ \t]*|:param[ \t]+(?:\w+[ \t]+)?)?{re.escape(name)}[ \t]*(?:\([^()\n]*\))?[ \t]*:[ \t]*(\S.*)"
    )
    match = re.search(entry, docstring, re.MULTILINE)
    return match[1].strip() if match else ""


def identifiers(text: str) -> list[str]:
    """Returns the identifiers in a text, such as ``list_issues``, which no rewording may lose."""
    return _IDENTIFIER.findall(text)


def _sentences(text: str) -> list[str]:
    """Splits a text into sentences; a full stop in an abbreviation does not end one."""
    sentences: list[str] = []
    for part in _SENTENCE.split(text):
        if sentences and (_SHORT.search(sentences[-1]) or sentences[-1].count("(") > sentences[-1].count(")")):
            sentences[-1] += f" {part}"
        else:
            sentences.append(part)
    return sentences


def _without_clauses(sentence: str) -> list[str]:
    """Returns the sentence without clauses that must stay, followed by these clauses."""
    stop = "." if sentence.endswith(".") else ""
    text, clauses = sentence.removesuffix("."), []
    for match in [match for match in _BRACKETS.finditer(text) if _TELLING.search(match[1])]:
        clauses.append(match[1].strip())
        text = text.replace(match[0], "", 1)
    if (rest := _REST.search(text)) and rest.start() > 0:
        clauses.append(text[rest.start() :].strip(" ,;:"))
        text = text[: rest.start()]
    if (unit := _IN_UNIT.search(text)) and unit.start() > 0:
        clauses.append(unit[0].strip(" ,"))
        text = f"{text[: unit.start()]}{text[unit.end() :]}"
    elif _AFTER_COMMA.search(text):
        text, _, unit_only = text.rpartition(",")
        clauses.append(unit_only.strip())
    return [f"{text.rstrip(' ,;:')}{stop}", *clauses]


LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # names that the APIs accept

_MARK = re.compile(rb'"(?:parameters|input_schema|inputSchema|function|tools)"\s*+:')
_OWN_TYPES = ("function", "custom")
_SCHEMA_KEYS = ("input_schema", "inputSchema", "parameters")
_SHAPES = "expected the shape of OpenAI, Anthropic (input_schema), MCP (inputSchema) or BFCL (parameters)"


def is_hosted(raw: Any) -> bool:
    """Whether a definition is of a tool that the API itself runs, such as ``{"type": "web_search"}``.

    It has a type of its own and not both a name and parameters, or nothing but its options: ``{"google_search": {}}``.
    """
    if not isinstance(raw, dict) or any(key in raw for key in _OWN_TYPES):
        return False
    if not _has_own_type(raw):
        return "name" not in raw or not any(key in raw for key in _SCHEMA_KEYS)
    return len(raw) == 1 and all(isinstance(options, dict) and "name" not in options for options in raw.values())


def _has_own_type(function: Mapping[str, Any]) -> bool:
    """Whether a definition says that the caller runs the tool, or says nothing."""
    return function.get("type") in (*_OWN_TYPES, None)


class Tool:
    """A tool that the caller runs, in any dialect. Absent parts may be null.

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
        self._inside = next((kind for kind in _OWN_TYPES if raw.get("type", kind) == kind and kind in raw), "")
        function = raw[self._inside] if self._inside else raw
        place = f"/{self._inside}" if self._inside else ""
        if not isinstance(function, dict):
            raise InputError("expected an object", "", place)
        self._key = next((key for key in _SCHEMA_KEYS if function.get(key) is not None), "")
        if not any(key in function for key in _SCHEMA_KEYS) and (not _has_own_type(function) or "name" not in function):
            raise InputError(f"is not a tool: {_SHAPES}", "", place)
        texts = {"name": function.get("name"), "description": function.get("description") or ""}
        for key, value in texts.items():
            if not isinstance(value, str):
                raise InputError("expected a string", "", f"{place}/{key}")
        self.name, self.description = str(texts["name"]), str(texts["description"])
        if not self.name.strip():
            raise InputError("the name is empty", "", f"{place}/name")
        try:
            self.parameters = Parameters(function[self._key] if self._key and function[self._key] != [] else {})
        except InputError as error:
            raise InputError(error.reason, "", f"{place}/{self._key}{error.where}") from None

    def renamed(self, name: str, description: str, renaming: Renaming, is_final: bool = False) -> dict[str, Any]:
        """Returns the tool with a new name, a new description and renamed parameters.

        Its other texts get the new names of the tools and parameters that they mention.

        Args:
          name: the new name.
          description: the new description.
          renaming: the new names of the parameters.
          is_final: whether the description has the new names of what it mentions.
        """
        function = dict(self.raw[self._inside] if self._inside else self.raw)
        outer = {key: value for key, value in self.raw.items() if key != self._inside} if self._inside else {}
        for part in (function, outer):
            part.update({key: self._other(key, value, name, renaming) for key, value in part.items()})
        function["name"] = name
        if function.get("description") is not None:
            function["description"] = description if is_final else renaming.mentions.replaced(description, renaming.own)
        if self._key and isinstance(function[self._key], dict):
            function[self._key] = renaming.schema()
            if isinstance(self.parameters.root.get("title"), str):
                function[self._key]["title"] = retitled(self.parameters.root["title"], self.name, name)
        return {**self.raw, **outer, self._inside: function} if self._inside else function

    def _other(self, key: str, value: Any, name: str, renaming: Renaming) -> Any:
        """Returns another part of the definition, such as its title, annotations, examples or the schema of results."""
        if key == "title" and isinstance(value, str):
            return retitled(value, self.name, name)
        if key == "annotations" and isinstance(value, dict):
            return {below: self._other(below, item, name, renaming) for below, item in value.items()}
        if "example" in key:
            return self._example(value, renaming)
        return value if key in (self._key, "name", "type") else self._texts("", value, name, renaming)

    def _example(self, value: Any, renaming: Renaming) -> Any:
        """Renames arguments, which may be a part of an example."""
        if isinstance(value, list):
            return [self._example(item, renaming) for item in value]
        if not isinstance(value, dict):
            return renaming.mentions.replaced(value, renaming.own) if isinstance(value, str) else value
        if any(each.name in value for each in self.parameters.all if not each.scope):
            return renaming.arguments(value)
        return {key: self._example(item, renaming) for key, item in value.items()}

    def _texts(self, key: str, value: Any, name: str, renaming: Renaming) -> Any:
        """Replaces names in texts alone: the names of results are no parameters."""
        if isinstance(value, dict):
            return {below: self._texts(below, item, name, renaming) for below, item in value.items()}
        if isinstance(value, list) and key not in NO_TEXTS:
            return [self._texts(key, item, name, renaming) for item in value]
        if not isinstance(value, str) or key in NO_TEXTS:
            return value
        if key == "title" and value.startswith(self.name):
            return name + value.removeprefix(self.name)
        if key == "title":
            return renaming.mentions.title(value, {})
        return renaming.mentions.replaced(value, renaming.own)


class Toolset:
    """The tools of a file or task.

    Attributes:
      tools: the tools, in order.
      hosted: the number of tools that the API runs, which stay as they are.
      bad: what is wrong with each invalid tool; these stay as they are, too. ``where`` is the item.

    Raises:
      InputError: a name is duplicated.
    """

    def __init__(self, name: str, items: Sequence[Any], place: Callable[[int, str], str]) -> None:
        self.name = name
        self.hosted = 0
        self.bad: list[InputError] = []
        self._items: list[Any] = []
        known: dict[str, int] = {}
        for i, item in enumerate(items):
            self._items.append(item)
            if is_hosted(item):
                self.hosted += 1
                continue
            try:
                self._items[i] = tool = Tool(item)
            except InputError as error:
                self.bad.append(InputError(error.reason, "", place(i, error.where)))
                continue
            if (first := known.setdefault(tool.name, i)) != i:
                raise InputError(f"the name {tool.name!r} appears twice, first in item {first + 1}", "", place(i, ""))
        self.tools = [item for item in self._items if isinstance(item, Tool)]

    def other_names(self) -> list[str]:
        """Returns the names of what is not among the tools."""
        others = (item for item in self._items if isinstance(item, dict))
        return [item["name"] for item in others if isinstance(item.get("name"), str)]

    def written(self, renamed: Callable[[Tool], dict[str, Any]]) -> list[Any]:
        """Returns the definitions in their order, each tool as ``renamed`` makes it."""
        return [renamed(item) if isinstance(item, Tool) else item for item in self._items]


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

    def mentions(self, toolset: Toolset) -> Mentions:
        """Returns the names that texts of a toolset may mention."""
        tools = {tool.name: self.names.get(f"tool/{tool.name}", tool.name) for tool in toolset.tools}
        return mentions_of(tools, {tool.name: self.of(tool)[2] for tool in toolset.tools})

    def definitions(self, toolset: Toolset, mentions: Mentions) -> list[Any]:
        """Returns the definitions of a toolset in the variant."""
        return toolset.written(lambda tool: tool.renamed(*self.of(tool, mentions)))

    def of(self, tool: Tool, mentions: Mentions = NO_MENTIONS) -> tuple[str, str, Renaming]:
        """Returns (name, description, renaming of the parameters) of a tool for :meth:`Tool.renamed`."""
        own, prefix = f"tool/{tool.name}", f"parameter/{tool.name}"
        names = {each.pointer: self.names.get(prefix + each.pointer, each.name) for each in tool.parameters.first()}
        pointers = (each.pointer for each in tool.parameters.all if prefix + each.pointer in self.descriptions)
        texts = {pointer: self.descriptions[prefix + pointer] for pointer in pointers}
        renaming = tool.parameters.renaming(names, texts, mentions)
        return self.names.get(own, tool.name), self.descriptions.get(own, tool.description), renaming


def mentions_of(tools: Mapping[str, str], renamings: Mapping[str, Renaming]) -> Mentions:
    """Returns the names that texts may mention: original name to new name of each tool, and to its parameters'."""
    own = {name: renaming.own for name, renaming in renamings.items()}
    return Mentions(tools, own, {name: renaming.arguments for name, renaming in renamings.items()})


def legal_variant(toolset: Toolset, variant: ToolVariant) -> ToolVariant:
    """Removes names from a variant that an API would refuse, so that their elements keep the original names.

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
                elements.append((key, f"{tool.name}/{parameter.scope}", parameter.name, by_pointer[parameter.pointer]))
        refused, taken = list[str](), {("", name) for name in toolset.other_names()}
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
      hosted: the number of tools that the API itself runs.
      bad: what is wrong with each invalid tool.

    Args:
      data: the content.
      path: the path for messages; its stem is the name of the toolset.

    Raises:
      InputError: the file is not JSON, or has no valid tool; names the file, the item or line, and the JSON Pointer in
        it.
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
                    reason = f"the id {name!r} appears twice" if name in self.of_tasks else f"an id {FILE_NAME_RULE}"
                    raise InputError(reason, "", self._place(keys, -1, "/id"))
                items = functools.reduce(lambda holder, key: holder[key], keys, self._content)
                if (toolset := first.setdefault(json.dumps(items), name)) == name:
                    place = functools.partial(self._place, keys)
                    self.toolsets[name] = Toolset(name, items if isinstance(items, list) else [items], place)
                self._paths.setdefault(toolset, []).append(keys)
                if keys and isinstance(keys[0], int):
                    self.of_tasks[name] = toolset
            toolsets = self.toolsets.values()
            self.hosted = sum(toolset.hosted for toolset in toolsets)
            self.bad = [InputError(bad.reason, path, bad.where) for toolset in toolsets for bad in toolset.bad]
            if self.bad and not any(toolset.tools for toolset in toolsets):
                raise self.bad[0]
            if self.hosted and not any(toolset.tools for toolset in toolsets):
                raise InputError("has only tools that the API itself runs, whose names and descriptions are fixed")
        except InputError as error:
            raise InputError(error.reason, path, error.where) from None

    def __reduce__(self) -> tuple[type[ToolFile], tuple[bytes, str]]:
        return ToolFile, (self._data, self.path)

    def _found(self) -> Iterator[tuple[tuple[Any, ...], str]]:
        """Yields (keys and positions, name) of each toolset."""
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
        """Returns the item or line of a toolset's n-th tool, and the JSON Pointer in it."""
        if keys and isinstance(keys[0], int):
            pointer = f"/function/{position}{pointer}" if position >= 0 else pointer
            position = keys[0]
        place = f"{'line' if self._is_lines else 'item'} {position + 1}"
        return f"{place}: {pointer}" if pointer else place

    def written(self, variants: Mapping[str, ToolVariant] | None = None) -> bytes:
        """Writes the file in its dialect with new names and descriptions; None to keep them.

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
            mentions = variant.mentions(toolset)
            tools = variant.definitions(toolset, mentions)
            for keys in self._paths[name]:
                if self.of_tasks:  # there may be thousands, so the list is copied only once
                    content[keys[0]] = {**mentions.task(content[keys[0]]), "function": tools}
                    continue
                items = functools.reduce(lambda holder, key: holder[key], keys, content)
                if keys:
                    content = mentions.rest(content)
                content = _replaced(content, keys, tools if isinstance(items, list) else tools[0])
        if left_out:
            content = [task for i, task in enumerate(content) if (i,) not in left_out]
        if self._is_lines and variants is None:
            return "".join(json.dumps(item, ensure_ascii=self._is_ascii) + "\n" for item in content).encode()
        return (json.dumps(content, indent=2, ensure_ascii=self._is_ascii) + "\n").encode()

    def services(self) -> list[dict[str, Any]]:
        """Returns the toolsets as services, for :class:`parapet.schemas.service.Toolset`."""
        return [_as_service(toolset) for toolset in self.toolsets.values()]

    def service_files(self, services: Iterable[Mapping[str, Any]]) -> dict[str, bytes]:
        """Returns :meth:`variant_files`, given the variants of :meth:`services`."""
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
        """Returns ``tools.json`` and ``names.json`` of a variant."""
        legal = {name: legal_variant(self.toolsets[name], variant) for name, variant in variants.items()}
        names = {}
        for name, variant in legal.items():
            tools = {tool.name: variant.of(tool) for tool in self.toolsets[name].tools}
            of_parameters = {old: renaming.names() for old, (_, _, renaming) in tools.items()}
            names[name] = ToolNames({old: new for old, (new, _, _) in tools.items()}, of_parameters)
        return {TOOLS: self.written(legal), NAMES: msgspec.json.format(msgspec.json.encode(names), indent=2) + b"\n"}


def _descriptions(toolset: Toolset) -> dict[str, str]:
    """Returns the description of each element."""
    return {f"tool/{tool.name}": _text(tool.description) for tool in toolset.tools} | {
        f"parameter/{tool.name}{each.pointer}": _text(each.description)
        for tool in toolset.tools
        for each in tool.parameters.all
    }


def _as_service(toolset: Toolset) -> dict[str, Any]:
    """Converts a toolset to a service.

    Descriptions contain only their meaning; formats, defaults and units are kept in each variant. Parameters with the
    same name and description, such as a user id that each tool takes, share a slot. Elements without a description come
    last, because only their names can be reworded; such parameters share a slot if they also have the same values.
    """
    elements: dict[str, list[dict[str, Any]]] = {"intent": [], "slot": []}
    keys: dict[str, list[str]] = {}
    scopes: dict[str, list[str]] = {}
    cues: dict[str, str] = {}
    shared: dict[tuple[str, ...], str] = {}

    def add(field: str, key: str, scope: str, name: str, description: str, cue: str, **more: Any) -> None:
        if field not in keys:
            meaning = parts_of(description).meaning
            elements[field.partition("_")[0]].append({"name": name, "description": meaning, **more})
            if not description:
                cues[field] = cue
        keys.setdefault(field, []).append(key)
        if scope not in scopes.setdefault(field, []):
            scopes[field].append(scope)

    for is_described in (True, False):
        for tool in toolset.tools:
            about = _text(tool.description)
            if bool(about) == is_described:
                add(f"intent_{len(elements['intent'])}", f"tool/{tool.name}", "", tool.name, about, tool.name)
            about = " ".join((parts_of(about).meaning or tool.name).split())
            first = {each.pointer for each in tool.parameters.first()}
            for each in tool.parameters.all:
                text, documented = _text(each.description), documented_in(tool.description, each.name)
                like = (each.name, text) if text else (each.name, "", documented, json.dumps([each.type, each.values]))
                if bool(text) != is_described or (each.pointer not in first and like not in shared):
                    continue
                add(
                    shared.setdefault(like, f"slot_{len(elements['slot'])}"),
                    f"parameter/{tool.name}{each.pointer}",
                    f"{tool.name}/{each.scope}",
                    each.name,
                    text,
                    documented or f"{each.name} (a parameter of: {about})",
                    is_categorical=bool(each.values),
                    possible_values=[value if isinstance(value, str) else json.dumps(value) for value in each.values],
                )
    return {
        "service_name": toolset.name,
        "description": "",
        "slots": elements["slot"],
        "intents": elements["intent"],
        "toolset": toolset.name,
        "tool_keys": keys,
        "tool_scopes": scopes,
        "tool_cues": cues,
    }


def _text(description: str) -> str:
    """Returns a description, or an empty string if it is blank."""
    return description if description.strip() else ""


def _replaced(content: Any, keys: Sequence[Any], value: Any) -> Any:
    """Returns a copy of parsed JSON with another value at the place given by keys and positions."""
    if not keys:
        return value
    copy = content.copy()
    copy[keys[0]] = _replaced(content[keys[0]], keys[1:], value)
    return copy


def _parsed(data: bytes, path: object) -> tuple[Any, bool]:
    """Returns (content, whether it is JSON Lines)."""
    data = without_mark(data, path)
    lines = [(i, line) for i, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    try:
        content = parse_json_line(data)
        return ([content], True) if is_task(content) else (content, False)
    except ValueError:
        if len(lines) < 2 or not lines[0][1].rstrip().endswith(b"}"):
            return parse_json(data, path), False  # for line and column in the error
    items = []
    for number, line in lines:
        try:
            items.append(parse_json_line(line))
        except ValueError as error:
            raise InputError(f"not JSON: {error}", path, f"line {number}") from None
    return items, True


def task_contradictions(task: Mapping[str, Any], right: Any) -> Iterator[Contradiction]:
    """Yields how the right calls of a task contradict its valid tools; nothing if they have another form."""
    schemas = {}
    for raw in task.get("function") or ():
        with suppress(InputError):
            if not is_hosted(raw):
                tool = Tool(raw)
                schemas[tool.name] = tool.parameters.root
    with suppress(msgspec.ValidationError):
        yield from contradictions(schemas, msgspec.convert(right, RightCalls))


def are_tools(data: bytes) -> bool:
    """Whether a schema file contains tools rather than services."""
    is_schema = b'"service_name"' in data and b'"intents"' in data
    return not is_schema and _MARK.search(data) is not None


def read_names(path: str | Path) -> dict[str, ToolNames]:
    """Reads the ``names.json`` of a variant, by toolset. Raises InputError with file, place and reason."""
    try:
        return msgspec.json.decode(read_whole(path, MAX_FILE), type=dict[str, ToolNames])
    except msgspec.ValidationError as error:
        reason, place = reason_and_place(error)
        raise InputError(reason, path, place) from None
    except msgspec.DecodeError as error:
        raise InputError(str(error), path) from None


def read_tools(path: str | Path) -> ToolFile:
    """Reads a file of tools. Raises InputError as :class:`ToolFile` does."""
    return ToolFile(read_whole(path, MAX_SCHEMA_FILE), path)
