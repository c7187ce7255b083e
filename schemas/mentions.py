"""Replace the names of tools and parameters in texts that mention them, and in titles that are made of them.

A name counts as mentioned where it is marked as code or quoted, called or assigned (``search(query="x")``), documented
(``city: Name of the city`` on a line of its own), or where it has the shape of an identifier. In other places a name
such as ``date`` is an ordinary word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from parapet.schemas.json_text import parse_json_line

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
        self._first: dict[str, str] = {}
        for names in parameters.values():
            for old, new in names.items():
                self._first.setdefault(old, new)

    def replaced(self, text: str, own: Mapping[str, str], values: Collection[Any] = ()) -> str:
        """Replace the names in a text.

        Args:
          text: the text.
          own: original name to new name of the parameters that the text is most likely about.
          values: values that the text may name instead.
        """
        if not text:
            return text
        tokens = [token for token in self._tokens(text, own) if token[1] not in values]
        if not tokens:
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
        """Yield (start, name, whether it is a part of a path such as ``address.city``), the longest name first."""

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
        """Replace the names in a title, where they may be written in words: ``User Id`` or ``FindRoomsOutput``.

        Names of one word are only replaced if they are the whole title.
        """
        for old, new in {**self._tools, **own}.items():
            words = _WORDS.findall(old)
            if old != new and (len(words) > 1 or title.casefold() == old.casefold()):
                title = _with_words(title, old, new) or title
        return title

    def rest(self, value: Any, is_choice: bool = False) -> Any:
        """Replace names in what surrounds the tools: instructions, earlier calls, and ``tool_choice``.

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
        """Rename the arguments of a call, which may be JSON text."""
        rename = self._calls.get(name)
        if rename is None or not isinstance(arguments, str):
            return arguments if rename is None else rename(arguments)
        try:
            content = parse_json_line(arguments)
        except ValueError:
            return self.replaced(arguments, self._parameters.get(name, {}))
        renamed = rename(content)
        return arguments if renamed == content else json.dumps(renamed, ensure_ascii=arguments.isascii())

    def task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        """Replace names in the conversation and the instructions of a task; what users say stays."""
        turns = task.get("question")
        parts = {key: self.rest(task[key], key in _CHOICES) for key in (*_CHOICES, *_INSTRUCTIONS) if key in task}
        return {**task, **parts, **({"question": self.rest(turns)} if isinstance(turns, list) else {})}


def retitled(title: str, old: str, new: str) -> str:
    """Return the title of a renamed tool or parameter, made of its new name in the style of the original title."""
    is_joined = " " not in title and len(_WORDS.findall(title)) > 1
    return title if old == new else _with_words(title, old, new) or _in_style(new, title, is_joined)


def _with_words(title: str, old: str, new: str) -> str:
    """Replace the words of a name in a title; return an empty string if it lacks them."""
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
    """Return a name in the style of a part of a title: ``User Id``, ``User id``, ``UserId`` or ``user_id``."""
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
