"""The parameters of a tool's JSON Schema: renaming them in the schema, in the arguments of calls, and in texts.

Several subschemas can describe the same part of the arguments: those of ``allOf``, ``anyOf`` and ``$ref``, for
instance. A parameter that they share has a single name, so their parts are merged into one shape before anything is
renamed.

In texts, a name counts as mentioned where it is marked as code or quoted, called or assigned (``search(query="x")``),
documented (``city: Name of the city`` on a line of its own), or where it has the shape of an identifier. In other
places a name such as ``date`` is an ordinary word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import msgspec

from parapet.schemas import errors, limits

_TOKEN = re.compile(r"[$@]?\w+(?:[.\-/]\w+)*")
_PART = re.compile(r"\w+")
_SHAPED = re.compile(r"\w_+\w|[a-z0-9][A-Z]|^[$@_]\w|\w\.\w")
_ADDRESS = re.compile(r"\w+://[^\s)\]}>'\"`]+")
_CODE = re.compile(r"```.*?```|``[^`]+``|`[^`\n]+`|(?<![\w.])[A-Za-z][\w.-]*\((?!e?s\)|ies\))[^()\n]*\)", re.DOTALL)
_QUOTES = ("''", '""', "“”", "‘’", "«»", "{}", "<>", "/>")
# What stands before and after the name in a docstring: "  city (str): …", "- city: …", "| city |", ":param city: …".
_BEFORE_DOCUMENTED = re.compile(r"(?:^|\n)[ \t]*(?:(?:[-*•|]|\d+[.)])[ \t]*)?(?:[:@]param[ \t]+(?:\w+[ \t]+)?)?\**$")
_AFTER_DOCUMENTED = re.compile(r"\**[ \t]*(?:\([^()\n]*\)[ \t]*)?\**[ \t]*(?:[:|]|[-–—][ \t])")
_AFTER_PARAM = re.compile(r"@param[ \t]+(?:\{[^{}\n]*\}[ \t]+)?$")
# What stands before a word in quotes that is a value: ``sort="date"``, ``"type": "query"``, `` `"object"` ``.
_BEFORE_VALUE = re.compile(r"(?:=[ ]?|[\"']:[ ]?|(?<!`)`)[\"']$")
_ASSIGNED = re.compile(r"=(?!=)")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")

# Keys of earlier calls, parts of messages that are results, and keys that name tools or instruct the model.
_ARGUMENTS = ("arguments", "input", "args")
_RESULTS = ("_result", "_output")  # endings of the types of parts
_CHOICES = ("tool_choice", "function_call", "allowed_tools", "allowed_function_names")
_INSTRUCTIONS = ("system", "instructions")


class Mentions:
    """The names of a toolset in a variant.

    Args:
      tools: original name to new name of each tool.
      parameters: original name of each tool, to original name to new name of each parameter.
      calls: original name of each tool, to the function that renames the arguments of a call.
    """

    def __init__(
        self,
        tools: Mapping[str, str],
        parameters: Mapping[str, Mapping[str, str]],
        calls: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> None:
        self._tools, self._parameters, self._calls = tools, parameters, calls or {}
        self._first = {old: new for names in reversed([*parameters.values()]) for old, new in names.items()}

    def replaced(self, text: str, own: Mapping[str, str], values: Collection[Any] = ()) -> str:
        """Replaces the names in a text.

        Args:
          text: the text.
          own: original name to new name of the parameters that the text is most likely about.
          values: values that the text may name instead.
        """
        if not (tokens := [token for token in self._tokens(text, own) if token[1] not in values]):
            return text
        called = [name for _, name, _ in tokens if name in self._tools]
        near = {old: new for tool in reversed(called) for old, new in self._parameters.get(tool, {}).items()}
        code = [match.span() for match in _CODE.finditer(text)]
        addresses = [match.span() for match in _ADDRESS.finditer(text)]
        written, done = "", 0
        for start, name, is_path in tokens:
            end = start + len(name)
            is_identifier = is_path or bool(_SHAPED.search(name)) or ("-" in name and name in self._tools)
            is_code = any(first <= start and end <= last for first, last in code)
            # A word in quotes that only names a parameter of some other tool is rather a value.
            is_near = name in own or name in self._tools or name in near
            is_marked = is_near and _is_marked(text, start, end, name in own)
            is_value = name not in self._tools and _BEFORE_VALUE.search(text, max(0, start - 4), start)
            if not is_identifier and (is_value or not (is_code or is_marked)):
                continue
            if any(first <= start < last for first, last in addresses):
                continue
            is_called = name in self._tools and text[end : end + 1] == "("
            order = (self._tools, own) if is_called else (own, self._tools)
            new = next(names[name] for names in (*order, near, self._first) if name in names)
            written += text[done:start] + new
            done = end
        return written + text[done:]

    def _tokens(self, text: str, own: Mapping[str, str]) -> Iterator[tuple[int, str, bool]]:
        """Yields (start, name, whether it is a part of a path such as ``address.city``), the longest name first."""

        def is_known(name: str) -> bool:
            return name in own or name in self._tools or name in self._first

        for token in _TOKEN.finditer(text):
            if is_known(token[0]):
                yield token.start(), token[0], False
                continue
            is_path = "." in token[0] and all(is_known(part) for part in token[0].split("."))
            parts = [part.span() for part in _PART.finditer(text, *token.span())]
            i = 0
            while i < len(parts):
                ends = (end for _, end in reversed(parts[i:]) if is_known(text[parts[i][0] : end]))
                if (end := next(ends, None)) is not None:
                    yield parts[i][0], text[parts[i][0] : end], is_path
                    i = next(j for j, part in enumerate(parts) if part[1] == end)
                i += 1

    def title(self, title: str, own: Mapping[str, str]) -> str:
        """Replaces the names in a title, where they may be written in words: ``User Id`` or ``FindRoomsOutput``.

        Names of one word are only replaced if they are the whole title.
        """
        for old, new in {**self._tools, **own}.items():
            words = _WORDS.findall(old)
            if old != new and (len(words) > 1 or title.casefold() == old.casefold()):
                title = _with_words(title, old, new) or title
        return title

    def rest(self, value: Any, is_choice: bool = False) -> Any:
        """Replaces names in what surrounds the tools: instructions, earlier calls, and ``tool_choice``.

        What users say and tools return stays.

        Args:
          value: a part of the request or task.
          is_choice: whether it belongs to ``tool_choice``, which has names alone.
        """
        if isinstance(value, list):
            return [self.rest(item, is_choice) for item in value]
        if isinstance(value, str):
            return self._tools.get(value, value) if is_choice else self.replaced(value, {})
        if not isinstance(value, dict) or value.get("role") == "user" or str(value.get("type")).endswith(_RESULTS):
            return value
        is_result, name = value.get("role") in ("tool", "function"), value.get("name")
        written = {}
        for key, item in value.items():
            if key in _ARGUMENTS and isinstance(name, str):
                written[key] = self._arguments_of(name, item)
            elif is_result and key != "name":
                written[key] = item
            elif key == "name" and (is_result or any(other in value for other in _ARGUMENTS)):
                written[key] = self.rest(item, is_choice=True)
            else:
                written[key] = self.rest(item, is_choice or key in _CHOICES)
        return written

    def _arguments_of(self, name: str, arguments: Any) -> Any:
        """Renames the arguments of a call, which may be JSON text."""
        rename = self._calls.get(name)
        if rename is None or not isinstance(arguments, str):
            return arguments if rename is None else rename(arguments)
        try:
            content = limits.parse_json_line(arguments)
        except ValueError:
            return self.replaced(arguments, self._parameters.get(name, {}))
        renamed = rename(content)
        return arguments if renamed == content else json.dumps(renamed, ensure_ascii=arguments.isascii())

    def task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        """Replaces names in the conversation and the instructions of a task; what users say stays."""
        turns = task.get("question")
        parts = {key: self.rest(task[key], key in _CHOICES) for key in (*_CHOICES, *_INSTRUCTIONS) if key in task}
        return {**task, **parts, **({"question": self.rest(turns)} if isinstance(turns, list) else {})}


def retitled(title: str, old: str, new: str) -> str:
    """Returns the title of a renamed tool or parameter, made of its new name in the style of the original title."""
    is_joined = " " not in title and len(_WORDS.findall(title)) > 1
    return title if old == new else _with_words(title, old, new) or _in_style(new, title, is_joined)


def _with_words(title: str, old: str, new: str) -> str:
    """Replaces the words of a name in a title; returns an empty string if it lacks them."""
    words, spans = [word.casefold() for word in _WORDS.findall(old)], [*_WORDS.finditer(title)]
    for i in range(len(spans) - len(words) + 1) if words else ():
        if [span[0].casefold() for span in spans[i : i + len(words)]] == words:
            start, end = spans[i].start(), spans[i + len(words) - 1].end()
            part, beside = title[start:end], title[start - 1 : start] + title[end : end + 1]
            is_joined = " " not in part and (len(words) > 1 or any(char.isalnum() for char in beside))
            is_raw = part == old and (is_joined or part == title)
            return title[:start] + (new if is_raw else _in_style(new, part, is_joined)) + title[end:]
    return ""


def _in_style(name: str, part: str, is_joined: bool) -> str:
    """Returns a name in the style of a part of a title: ``User Id``, ``User id``, ``UserId`` or ``user_id``."""
    words = [word.lower() for word in _WORDS.findall(name)] or [name]
    capital = [word[0].isupper() for word in _WORDS.findall(part)] or [True]
    if is_joined and not all(capital):
        return "_".join(words)
    written = [word.capitalize() if capital[0] and (not i or all(capital)) else word for i, word in enumerate(words)]
    return ("" if is_joined else " ").join(written)


def _is_marked(text: str, start: int, end: int, is_own: bool) -> bool:
    """Whether the text marks a name as one: by quotes or braces, by assignment, or as the entry of a docstring."""
    around = text[start - 1 : start] + text[end : end + 1]
    if around in _QUOTES or _ASSIGNED.match(text, end):
        return True
    line = text[max(0, text.rfind("\n", 0, start)) : start]
    is_entry = bool(_AFTER_DOCUMENTED.match(text, end)) and bool(_BEFORE_DOCUMENTED.search(line))
    return is_own and (is_entry or bool(_AFTER_PARAM.search(line)))


NO_MENTIONS = Mentions({}, {})


# The keywords of JSON Schema, up to draft 2020-12, that contain subschemas.
_SAME_PLACE = ("if", "then", "else", "not", "allOf", "anyOf", "oneOf")
_ITEMS = ("items", "prefixItems", "contains", "additionalItems", "unevaluatedItems")
_OTHERS = ("additionalProperties", "unevaluatedProperties", "patternProperties")
_DEFINITIONS = ("$defs", "definitions")
_APART = (*_DEFINITIONS, "propertyNames")
_KEYED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_OF_PROPERTIES = ("properties", "dependentSchemas", "dependentRequired", "dependencies")
_VALUES = ("default", "const", "example")
_LISTS_OF_VALUES = ("enum", "examples")
# Keywords whose strings are no texts that may mention a name.
NO_TEXTS = frozenset((
    "type", "format", "pattern", "$id", "$schema", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor",
    "contentMediaType", "contentEncoding", "x-mcp-header", "required", *_VALUES, *_LISTS_OF_VALUES,
))  # fmt: skip


class Parameter(msgspec.Struct, frozen=True):
    """A property of a tool's schema.

    Attributes:
      pointer: JSON Pointer of its subschema, such as ``/properties/address/properties/city``.
      scope: the pointer of its object; names are unique within a scope.
      schema: its subschema, or True or False.
    """

    pointer: str
    name: str
    scope: str
    schema: Any

    @property
    def description(self) -> str:
        """Returns the description, or an empty string."""
        return str(self.schema.get("description") or "") if isinstance(self.schema, dict) else ""

    @property
    def type(self) -> Any:
        """Returns the type, or None."""
        return self.schema.get("type") if isinstance(self.schema, dict) else None

    @property
    def values(self) -> list[Any]:
        """Returns the values of its enum, or an empty list."""
        return (self.schema.get("enum") or []) if isinstance(self.schema, dict) else []


class Shape:
    """A part of the arguments: its possible properties, items and other values.

    ``pointers`` are the pointers of the subschemas that describe it.
    """

    def __init__(self, pointer: str) -> None:
        self.pointers = [pointer]
        self.properties: dict[str, Shape] = {}
        self.items: Shape | None = None
        self.others: Shape | None = None
        self.merged: Shape | None = None

    def found(self) -> Shape:
        """Returns the shape that this one is merged into."""
        shape = self
        while shape.merged is not None:
            shape = shape.merged
        return shape

    def element(self) -> Shape:
        """Returns the shape of the elements of a list at this place; BFCL has lists of accepted values anywhere."""
        return self if self.items is None else self.items.found()

    def object(self) -> Shape:
        """Returns the shape of an object at this place, which may stand where a list is expected."""
        shape, seen = self, {self}
        while not shape.properties and (element := shape.element()) not in seen:
            shape = element
            seen.add(shape)
        return shape

    def add(self, name: str, shape: Shape) -> None:
        """Adds a property, or another subschema for it."""
        if name in self.properties:
            self.properties[name].merge(shape)
        else:
            self.properties[name] = shape

    def merge(self, other: Shape) -> None:
        """Merges two shapes, and recursively the parts they have in common."""
        ours, theirs = self.found(), other.found()
        if ours is theirs:
            return
        theirs.merged = ours
        ours.pointers += theirs.pointers
        # merging the parts may merge this shape into another one
        for name, shape in theirs.properties.items():
            ours.found().add(name, shape)
        for kind in ("items", "others"):
            if (shape := getattr(theirs, kind)) is not None:
                ours.found().add_to(kind, shape)

    def add_to(self, kind: str, shape: Shape) -> None:
        """Adds a subschema for the items, or for values under other names."""
        if (known := getattr(self, kind)) is None:
            setattr(self, kind, shape)
        else:
            known.merge(shape)


class Parameters:
    """The parameters of a tool.

    Attributes:
      root: the JSON Schema of the arguments.
      all: the parameters, in the order of the schema.

    Args:
      root: see above.

    Raises:
      InputError: the root is not a JSON Schema; ``where`` is the JSON Pointer.
    """

    def __init__(self, root: Any) -> None:
        self.root = root
        self._shapes: dict[str, Shape] = {}
        self._found: list[tuple[str, str, str, Any]] = []
        self._references: list[tuple[str, str]] = []
        self._read(root, "")
        # grows while schemas are found that are only reachable by references
        for pointer, reference in self._references:
            if reference not in self._shapes:
                self._read(self._resolved(reference, pointer), reference)
            self._shapes[pointer].merge(self._shapes[reference])
        self.all = [
            Parameter(pointer, name, self._shapes[owner].found().pointers[0], schema)
            for owner, pointer, name, schema in self._found
        ]

    def _resolved(self, reference: str, pointer: str) -> Any:
        value = self.root
        try:
            for token in errors.pointer_keys(reference):
                value = value[int(token)] if isinstance(value, list) else value[token]
        except (KeyError, IndexError, ValueError, TypeError):
            raise errors.InputError(
                f"the parameters have no definition #{reference}, which a $ref names", "", f"{pointer}/$ref"
            ) from None
        return value

    def _read(self, schema: Any, pointer: str) -> Shape:
        shape = self._shapes[pointer] = Shape(pointer)
        if (isinstance(schema, bool) or schema is None) and pointer:
            return shape
        if not isinstance(schema, dict):
            raise errors.InputError(f"expected a JSON Schema, found {_kind(schema)}", "", pointer)
        _check(schema, pointer)
        for key, place, name, below in _subschemas(schema, pointer):
            if key == "properties":
                self._found.append((pointer, place, name, below))
            read = self._read(below, place)
            ours = shape.found()
            if key == "properties":
                ours.add(name, read)
            elif key in _SAME_PLACE or key == "dependentSchemas":
                ours.merge(read)
            elif (key in _ITEMS or key in _OTHERS) and below is not False:
                ours.add_to("items" if key in _ITEMS else "others", read)
        reference = schema.get("$ref")
        if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
            self._references.append((pointer, unquote(reference[1:])))
        return shape

    def first(self) -> list[Parameter]:
        """Returns the parameters without duplicates of the same name in the same scope."""
        return list({(each.scope, each.name): each for each in reversed(self.all)}.values())[::-1]

    def renaming(
        self,
        names: Mapping[str, str],
        descriptions: Mapping[str, str] | None = None,
        mentions: Mentions = NO_MENTIONS,
        is_final: bool = False,
    ) -> Renaming:
        """Renames parameters and replaces descriptions, both by pointer; see :class:`Renaming`."""
        return Renaming(self, names, descriptions or {}, mentions, is_final)

    def shape(self, pointer: str) -> Shape | None:
        """Returns what the subschema at a pointer describes, or None."""
        return self._shapes[pointer].found() if pointer in self._shapes else None


class Renaming:
    """Applies new parameter names to a tool's schema and to the arguments of calls.

    Args:
      parameters: the parameters of the tool.
      names: pointer of a parameter to its new name. If subschemas share a parameter, the first one's name is used.
      descriptions: pointer to new description.
      mentions: the names that texts of the schema may mention.
      is_final: whether the new descriptions have the new names of what they mention.
    """

    def __init__(
        self,
        parameters: Parameters,
        names: Mapping[str, str],
        descriptions: Mapping[str, str],
        mentions: Mentions = NO_MENTIONS,
        is_final: bool = False,
    ) -> None:
        self._parameters, self._descriptions = parameters, descriptions
        self.mentions, self._is_final = mentions, is_final
        self._names: dict[tuple[str, str], str] = {}
        for parameter in parameters.all:
            if parameter.pointer in names:
                self._names.setdefault((parameter.scope, parameter.name), names[parameter.pointer])
        self._by_pointer = {
            each.pointer: self._names.get((each.scope, each.name), each.name) for each in parameters.all
        }
        # Original name to new name; of parameters with the same name, the first.
        self.own = {each.name: self._by_pointer[each.pointer] for each in reversed(parameters.all)}

    def names(self) -> dict[str, str]:
        """Returns original pointer → new name of every parameter."""
        return dict(self._by_pointer)

    def pointer(self, pointer: str) -> str:
        """Converts a pointer of the original schema to the renamed one."""
        renamed, tokens = "", errors.pointer_keys(pointer)
        for i, token in enumerate(tokens):
            owner = errors.pointer_of(*tokens[: max(0, i - 1)])
            shape = self._parameters.shape(owner) if i else None
            if shape is not None and tokens[i - 1] in ("properties", "dependentSchemas"):
                token = self._renamer(shape)(token)
            elif shape is not None and tokens[i - 1] in _DEFINITIONS:
                token = self._definition(f"{owner}{errors.pointer_of(tokens[i - 1])}", token)
            renamed += errors.pointer_of(token)
        return renamed

    def _definition(self, pointer: str, name: str) -> str:
        """Returns the new name of a definition: another one if it has the name of a parameter."""
        new = self.own.get(name, name)
        return name if self._parameters.shape(f"{pointer}{errors.pointer_of(new)}") is not None else new

    def _reference(self, reference: str) -> str:
        renamed = f"#{self.pointer(unquote(reference[1:]))}" if reference.startswith("#/") else reference
        return reference if unquote(reference) == renamed else renamed

    def schema(self) -> Any:
        """Returns the renamed schema.

        Values that contain names of parameters, such as defaults, are renamed, too, and so are texts that mention them.
        """
        return self._schema(self._parameters.root, "", self.own)

    def reversed(self) -> Renaming:
        """Returns the renaming from the new names back to the original ones."""
        names = {self.pointer(each.pointer): each.name for each in self._parameters.all}
        return Parameters(self.schema()).renaming(names)

    @property
    def root(self) -> Shape | None:
        """What the schema as a whole describes."""
        return self._parameters.shape("")

    def member(self, shape: Shape, name: str) -> tuple[str, Shape | None]:
        """Returns (new name, shape of the value) of a member of an object; None if the schema does not have it."""
        inside = shape.properties.get(name, shape.others)
        return self._renamer(shape)(name), None if inside is None else inside.found()

    def arguments(self, arguments: Any) -> Any:
        """Renames the arguments of a call. Names that the schema does not have are kept.

        BFCL's lists of accepted values around each value are supported.
        """
        return arguments if self.root is None else self._value(arguments, self.root)

    def _schema(self, value: Any, pointer: str, near: Mapping[str, str]) -> Any:
        """Renames a subschema, or a part of the root that contains subschemas.

        Args:
          value: the part of the schema.
          pointer: its pointer.
          near: the names that its texts may mention, with the nearest parameter of each name.
        """
        shape = self._parameters.shape(pointer)
        if isinstance(value, list):
            return [self._schema(item, f"{pointer}/{i}", near) for i, item in enumerate(value)]
        if isinstance(value, str):
            return self._text(value, near)
        if not isinstance(value, dict):
            return value
        if shape is None:
            return {key: self._schema(item, f"{pointer}{errors.pointer_of(key)}", near) for key, item in value.items()}
        rename, written = self._renamer(shape), dict[str, Any]()
        near = {**near, **{name: rename(name) for name in shape.properties}}
        for key, item in value.items():
            place = f"{pointer}{errors.pointer_of(key)}"
            if key in _OF_PROPERTIES and isinstance(item, dict):
                written[key] = {
                    rename(name): [*map(rename, below)]
                    if key != "properties" and isinstance(below, list)
                    else self._schema(below, f"{place}{errors.pointer_of(name)}", near)
                    for name, below in item.items()
                }
            elif key in _DEFINITIONS and isinstance(item, dict):
                written[key] = {
                    self._definition(place, name): self._schema(below, f"{place}{errors.pointer_of(name)}", near)
                    for name, below in item.items()
                }
            elif key == "required" and isinstance(item, list):
                written[key] = [*map(rename, item)]
            elif key == "$ref" and isinstance(item, str):
                written[key] = self._reference(item)
            elif key == "discriminator" and isinstance(item, dict):
                written[key] = self._discriminator(item, rename)
            elif key == "propertyNames" and isinstance(item, dict):
                written[key] = {
                    keyword: [*map(rename, names)] if isinstance(names, list) else rename(names)
                    for keyword, names in item.items()
                }
            elif key in _VALUES or (key in _LISTS_OF_VALUES and isinstance(item, list)):
                written[key] = self._value(item, shape) if key in _VALUES else [self._value(v, shape) for v in item]
            elif key == "title" and isinstance(item, str):
                written[key] = self._title(item, pointer, near)
            elif key in NO_TEXTS:
                written[key] = item
            elif isinstance(item, str):
                written[key] = self._text(item, near, _literals(value))
            elif isinstance(item, list) and item and all(map(shape.properties.__contains__, map(str, item))):
                written[key] = [*map(rename, item)]  # such as Gemini's propertyOrdering
            else:
                written[key] = self._schema(item, place, near)
        if pointer in self._descriptions:
            text = self._descriptions[pointer]
            written["description"] = text if self._is_final else self._text(text, near, _literals(value))
        return written

    def _text(self, text: str, near: Mapping[str, str], values: Collection[Any] = ()) -> str:
        return self.mentions.replaced(text, near, values)

    def _title(self, title: str, pointer: str, near: Mapping[str, str]) -> str:
        if pointer in self._by_pointer and (old := errors.pointer_keys(pointer)[-1]) != self._by_pointer[pointer]:
            return retitled(title, old, self._by_pointer[pointer])
        return self.mentions.title(title, near)

    def _discriminator(self, discriminator: Mapping[str, Any], rename: Callable[[Any], Any]) -> dict[str, Any]:
        """Renames the property of OpenAPI's ``discriminator``, and the definitions that its values lead to."""
        written = {**discriminator, "propertyName": rename(discriminator.get("propertyName"))}
        if isinstance(mapping := discriminator.get("mapping"), dict):
            written["mapping"] = {
                value: self._reference(name) if isinstance(name, str) else name for value, name in mapping.items()
            }
        return {key: written[key] for key in discriminator}

    def _renamer(self, shape: Shape) -> Callable[[Any], Any]:
        scope = shape.pointers[0]
        return lambda name: self._names.get((scope, name), name) if isinstance(name, str) else name

    def _value(self, value: Any, shape: Shape) -> Any:
        if isinstance(value, list):
            return [self._value(item, shape.element()) for item in value]
        if not isinstance(value, dict):
            return value
        shape, written = shape.object(), {}
        for name, item in value.items():
            new, inside = self.member(shape, name)
            written[new] = item if inside is None else self._value(item, inside)
        return written


def _subschemas(schema: Mapping[str, Any], pointer: str) -> Iterator[tuple[str, str, str, Any]]:
    """Yields (keyword, pointer, name, subschema)."""
    for key, value in schema.items():
        place = f"{pointer}{errors.pointer_of(key)}"
        if _is_absent(value):
            continue
        if key in _KEYED:
            yield from ((key, f"{place}{errors.pointer_of(name)}", name, below) for name, below in value.items())
        elif key in _LISTS or (key == "items" and isinstance(value, list)):
            yield from ((key, f"{place}/{i}", "", below) for i, below in enumerate(value))
        elif key in _SAME_PLACE or key in _ITEMS or key in _OTHERS or key in _APART:
            yield key, place, "", value


def _is_absent(value: Any) -> bool:
    """Whether a keyword counts as absent: null, or the empty list that PHP writes for an empty object."""
    return value is None or value == []


def _check(schema: Mapping[str, Any], pointer: str) -> None:
    """Raises InputError for a keyword whose value has the wrong type.

    ``required`` may also be true or false, as a property of draft 3 has it.
    """
    expected: dict[str, tuple[type, ...]] = {
        **dict.fromkeys(_KEYED, (dict,)),
        **dict.fromkeys((*_LISTS, "enum"), (list,)),
        "required": (list, bool),
        **dict.fromkeys(("description", "$ref"), (str,)),
        "type": (str, list),
    }
    for key, kinds in expected.items():
        if not _is_absent(schema.get(key)) and not isinstance(schema[key], kinds):
            raise errors.InputError(f"expected {_NAMES[kinds[0]]}, found {_kind(schema[key])}", "", f"{pointer}/{key}")
    required = schema.get("required")
    for i, name in enumerate(required if isinstance(required, list) else ()):
        if not isinstance(name, str):
            raise errors.InputError(f"expected a string, found {_kind(name)}", "", f"{pointer}/required/{i}")


_NAMES: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def _kind(value: Any) -> str:
    return _NAMES.get(type(value), type(value).__name__)


def _literals(schema: Mapping[str, Any]) -> list[Any]:
    """Returns the values that a subschema lists, which its description may quote."""
    parts = [schema, schema.get("items"), *(schema.get("anyOf") or ()), *(schema.get("oneOf") or ())]
    of_parts = [part for part in parts if isinstance(part, dict)]
    listed = [value for part in of_parts for value in part.get("enum") or ()]
    return [*listed, *(part[key] for part in of_parts for key in _VALUES if key in part)]
