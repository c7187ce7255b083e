"""Requests and answers of OpenAI's Chat Completions and Responses and of Anthropic's Messages, told by their shape.

Tools, choices of tools and earlier calls of a request get the names of the variant; calls of an answer, whole or in
pieces, get the original names back. Everything else keeps its bytes.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from parapet.schemas import arguments, errors
from parapet.schemas.tools import Tool, Toolset
from parapet.transforms.proxy.raw_json import (
    EACH,
    ESCAPED_LETTER,
    ArgumentsText,
    Fields,
    edited,
    edited_fields,
    encoded,
    fields_of,
    replaced,
    text_of,
)
from parapet.transforms.proxy.statistics import Statistics
from parapet.transforms.variants.tool_variants import TaskVariant, VariantTool, renamings_of

_MESSAGES = ("messages", "input")
_INSTRUCTIONS = ("system", "instructions")
_CALL_TYPES = ("function_call", "custom_tool_call", "tool_use")
_TEXT_TYPES = ("text", "input_text", None)
_KINDS = ("function", "custom")  # of calls in a message of Chat Completions
_NO_ARGUMENTS = (b"null", b"{}", b'""')
_CHOSEN = ((), ("function",), ("custom",), ("tools", EACH), ("allowed_tools", "tools", EACH, "function"))

# What an event has that begins a call or repeats one; the others only continue calls.
_BEGINNING = re.compile(rb'"tool_calls"|_call"|_call_arguments|"tool_use"|"response"|' + ESCAPED_LETTER)
# Most chunks of calls. A pattern cannot match within a JSON string, where quotation marks are escaped.
_CONTINUED = re.compile(
    rb'"choices": ?\[\{(?:"finish_reason": ?null, ?)?"index": ?(\d+), ?"delta": ?\{'
    rb'"tool_calls": ?\[\{"index": ?(\d+), ?"function": ?\{"arguments": ?("(?:[^"\\]|\\.)*")\}\}\]\}'
    rb'(?:, ?"(?:logprobs|finish_reason)": ?null)*\}\]'
)

Change = Callable[[str], str]
Edit = Callable[[Fields], Fields]
Place = tuple[bytes, bytes]  # of a call in a stream: the choice, and its index there


def reworded_request(fields: Fields, tools: RewordedTools, perturb: Change | None = None) -> Fields:
    """Returns a request in a variant.

    Args:
      fields: the members of the request.
      tools: its tools.
      perturb: changes what users say; None to pass it as it is.
    """
    edits: dict[str, Callable[[Raw], Raw]] = {
        "tools": lambda data: tools.sent if tools.reworded else data,
        "tool_choice": partial(_renamed_choice, tools=tools),
        **dict.fromkeys(_INSTRUCTIONS, partial(_with_texts, change=tools.with_mentions)),
        **dict.fromkeys(_MESSAGES, partial(_reworded_messages, tools=tools, perturb=perturb)),
    }
    for name, edit in edits.items():
        fields = replaced(fields, name, edit)
    return fields


def _renamed_choice(data: Raw, tools: RewordedTools) -> Raw:
    """Renames the tool of a choice, or the allowed tools."""

    def renamed(fields: Fields) -> Fields:
        if text_of(fields.get("type")) == "mcp":  # a server that the API calls itself
            return fields
        tool = tools.by_original.get(_name(fields))
        return {**fields, "name": encoded(tool.name)} if tool else fields

    for path in _CHOSEN:
        data = edited(data, path, renamed)
    return data


def _with_texts(data: Raw, change: Change) -> Raw:
    """Changes a text, or the texts among the parts of a message."""

    def changed(part: Fields) -> Fields:
        is_text = text_of(part.get("type")) in _TEXT_TYPES
        return replaced(part, "text", lambda data: _with_text(data, change)) if is_text else part

    return edited(data, (EACH,), changed) if text_of(data) is None else _with_text(data, change)


def _with_text(data: Raw, change: Change) -> Raw:
    text = text_of(data)
    return data if text is None or (new := change(text)) == text else encoded(new)


def _reworded_messages(data: Raw, tools: RewordedTools, perturb: Change | None) -> Raw:
    """Rewords a conversation; of a request of the Responses API, which may be a text, what the user says."""

    def call(fields: Fields) -> Fields:
        return Call(_name(fields), tools.by_original).renamed(fields)

    def message(fields: Fields) -> Fields:
        role = text_of(fields.get("role"))
        if _is_call(fields) or role == "tool":
            return call(fields)
        change = {"user": perturb, "system": mention, "developer": mention}.get(role or "")
        if change is not None:
            fields = replaced(fields, "content", partial(_with_texts, change=change))
        for kind in _KINDS:
            fields = edited_fields(fields, ("tool_calls", EACH, kind), call)
        return edited_fields(fields, ("content", EACH), _if_call(call))

    mention = tools.with_mentions
    if text_of(data) is not None:
        return _with_text(data, perturb) if perturb else data
    return edited(data, (EACH,), message)


def _is_call(fields: Fields) -> bool:
    return text_of(fields.get("type")) in _CALL_TYPES


def _if_call(edit: Edit) -> Edit:
    return lambda fields: edit(fields) if _is_call(fields) else fields


def _name(fields: Fields) -> str:
    return text_of(fields.get("name")) or ""


class Call:
    """A call of a tool, which may arrive in pieces.

    Args:
      name: the name that is called.
      tools: the tools on the other side, by their names on this one.
      identity: the id of the call.
    """

    def __init__(self, name: str, tools: Mapping[str, OtherTool], identity: str = "") -> None:
        self.name, self.id = name, identity
        self.is_known, self.other_name = name in tools, tools[name].name if name in tools else ""
        renaming = tools[name].renaming if name in tools else None
        self.text = ArgumentsText(renaming) if renaming else None

    def renamed(self, fields: Fields, is_piece: bool = False) -> Fields:
        """Returns the call, or a piece of it, under its names on the other side."""
        if self.text is None:
            return fields
        if _name(fields):
            fields = {**fields, "name": encoded(self.other_name)}
        change = partial(self.renamed_arguments, is_piece=is_piece)
        fields = replaced(fields, "arguments", change)
        is_free_text = text_of(fields.get("input")) is not None  # of a custom tool
        return fields if is_free_text else replaced(fields, "input", change)

    def renamed_arguments(self, data: Raw, is_piece: bool = True) -> Raw:
        """Returns arguments, or a piece of them: an object, or its text as OpenAI has it."""
        if self.text is None or bytes(data) in _NO_ARGUMENTS:
            return data
        if (content := text_of(data)) is None:
            return Raw(self.text.renamed(bytes(data).decode()).encode())
        new = self.text.renamed(content) + ("" if is_piece else self.text.held)
        return data if new == content else encoded(new)

    def count(self, statistics: Statistics) -> None:
        """Counts a call by a model."""
        problem = "" if self.is_known else "there is no such tool"
        if self.text and self.text.unknown:
            problem = f"there is no parameter {self.text.unknown!r}"
        elif self.text and not self.text.is_complete():
            problem = "the arguments are not a JSON object"
        statistics.count_call(self.name, self.other_name, problem)


class Answer:
    """The answer to a request, whose calls get the original names back.

    Args:
      tools: the tools of the request.
      statistics: counts the calls.
      repeated: the members of the request that the Responses API repeats, as the client sent them.
    """

    def __init__(self, tools: RewordedTools, statistics: Statistics, repeated: Fields) -> None:
        self._tools, self._statistics, self._repeated = tools, statistics, repeated
        self._open: dict[Place, Call] = {}

    def whole(self, data: Raw) -> Raw:
        """Maps an answer that is not streamed."""
        return edited(data, (), partial(self._whole, call=self._call))

    def concerns(self, data: bytes) -> bool:
        """Whether a part of a stream may begin, continue or repeat a call."""
        return bool(self._open) or _BEGINNING.search(data) is not None

    def events(self, data: Raw) -> list[Raw]:
        """Maps the data of an event of a stream. What was held back of arguments comes before it, when they end."""
        if self._open and (continued := self._continued(data)) is not None:
            return [continued]
        if (fields := fields_of(data)) is None:
            return [data]
        kind, held = text_of(fields.get("type")) or "", list[Raw]()
        if "choices" in fields:
            new = edited_fields(fields, ("choices", EACH), partial(self._choice, chunk=fields, held=held))
        elif kind.startswith("response."):
            new = self._response_event(fields, kind)
        else:
            new = self._message_event(fields, kind, held)
        return [*held, data if new is fields else encoded(new)]

    def end(self) -> None:
        """Counts the calls of a stream that it did not end."""
        for place in list(self._open):
            self._end(place)

    def _whole(self, fields: Fields, call: Edit) -> Fields:
        for kind in _KINDS:
            fields = edited_fields(fields, ("choices", EACH, "message", "tool_calls", EACH, kind), call)
        for name in ("output", "content"):
            fields = edited_fields(fields, (name, EACH), _if_call(call))
        repeated = {name: value for name, value in self._repeated.items() if name in fields and "output" in fields}
        return {**fields, **repeated} if repeated else fields

    def _call(self, fields: Fields, is_repeated: bool = False) -> Fields:
        call = Call(_name(fields), self._tools.by_name)
        fields = call.renamed(fields)
        if not is_repeated:
            call.count(self._statistics)
        return fields

    # Streams.

    def _continued(self, data: Raw) -> Raw | None:
        """Maps a chunk of Chat Completions that only continues a call's arguments; None if it is something else."""
        match = _CONTINUED.search(data)
        call = self._open.get((match[1], match[2])) if match else None
        if match is None or call is None:
            return None
        new, text = call.renamed_arguments(Raw(match[3])), bytes(data)
        return Raw(text[: match.start(3)] + bytes(new) + text[match.end(3) :])

    def _piece(self, fields: Fields, place: Place, identity: Raw | None = None) -> Fields:
        """Maps a piece of a call. It begins a call if it has a name, which some servers repeat in each piece."""
        call, name, own_id = self._open.get(place), _name(fields), text_of(identity) or ""
        if name and (call is None or name != call.name or own_id not in ("", call.id)):
            self._end(place)
            call = self._open[place] = Call(name, self._tools.by_name, own_id)
        return call.renamed(fields, is_piece=True) if call else fields

    def _end(self, place: Place) -> str:
        """Ends a call, and returns the part of its arguments that was held back."""
        if (call := self._open.pop(place, None)) is None:
            return ""
        call.count(self._statistics)
        return call.text.held if call.text else ""

    def _choice(self, choice: Fields, chunk: Fields, held: list[Raw]) -> Fields:
        """Maps a choice in a chunk of Chat Completions."""
        index = bytes(choice.get("index", b"0"))

        def tool_call(fields: Fields) -> Fields:
            place = index, bytes(fields.get("index", b"0"))
            for kind in _KINDS:
                fields = edited_fields(fields, (kind,), partial(self._piece, place=place, identity=fields.get("id")))
            return fields

        choice = edited_fields(choice, ("delta", "tool_calls", EACH), tool_call)
        if bytes(choice.get("finish_reason", b"null")) != b"null":
            for place in [place for place in self._open if place[0] == index]:
                if text := self._end(place):
                    calls = [{"index": Raw(place[1]), "function": {"arguments": text}}]
                    choices = [{"index": Raw(index), "delta": {"tool_calls": calls}, "finish_reason": None}]
                    held.append(encoded({**chunk, "choices": choices}))
        return choice

    def _response_event(self, fields: Fields, kind: str) -> Fields:
        """Maps an event of the Responses API, which repeats whole calls at their end."""
        place = b"", bytes(fields.get("output_index", b"0"))
        call = self._open.get(place)
        if kind == "response.output_item.added":
            return edited_fields(fields, ("item",), _if_call(partial(self._piece, place=place)))
        if kind == "response.output_item.done":
            self._open.pop(place, None)
            return edited_fields(fields, ("item",), _if_call(self._call))
        if kind == "response.function_call_arguments.delta" and call:
            return replaced(fields, "delta", call.renamed_arguments)
        if kind == "response.function_call_arguments.done" and call:
            return Call(call.name, self._tools.by_name).renamed(fields)
        return edited_fields(fields, ("response",), partial(self._whole, call=partial(self._call, is_repeated=True)))

    def _message_event(self, fields: Fields, kind: str, held: list[Raw]) -> Fields:
        """Maps an event of Anthropic's Messages."""
        place = b"", bytes(fields.get("index", b"0"))
        call = self._open.get(place)
        if kind == "content_block_start":
            return edited_fields(fields, ("content_block",), _if_call(partial(self._piece, place=place)))
        if kind == "content_block_delta" and call:
            return edited_fields(
                fields, ("delta",), partial(replaced, name="partial_json", change=call.renamed_arguments)
            )
        if kind == "content_block_stop" and (text := self._end(place)):
            delta = {"type": "input_json_delta", "partial_json": text}
            held.append(encoded({**fields, "type": "content_block_delta", "delta": delta}))
        return fields


_MOST_TEXTS = 8


class OtherTool(NamedTuple):
    """A tool on the other side of the proxy: its name there, and its parameters' names; None if they are the same."""

    name: str
    renaming: arguments.Renaming | None


class RewordedTools:
    """The tools of a request, on both sides of the proxy.

    Args:
      data: the JSON list of their definitions.
      variant: None to pass all as they are.

    Attributes:
      sent: the JSON list in the variant. Tools that it does not have, or would give the name of another, stay.
      by_original: original name to the tool in the variant.
      by_name: name in the variant to the original tool.
      with_mentions: replaces the names that a text mentions; instructions are the same in each request.
      definitions: original name to the definition of each tool.
      reworded: the number of tools with other texts.
      unknown: original names of the tools that the variant does not have.
      hosted: the number of tools that the API runs itself.
    """

    def __init__(self, data: bytes | Raw, variant: TaskVariant | None) -> None:
        self.sent, self._mentions = Raw(data), arguments.NO_MENTIONS
        self.with_mentions = functools.lru_cache(_MOST_TEXTS)(lambda text: self._mentions.replaced(text, {}))
        self.by_original: dict[str, OtherTool] = {}
        self.by_name: dict[str, OtherTool] = {}
        self.definitions: dict[str, Any] = {}
        self.unknown: list[str] = []
        self.reworded = self.hosted = 0
        with suppress(errors.InputError, msgspec.MsgspecError, RecursionError):  # such as two tools of one name
            self._reword(Toolset("", msgspec.json.decode(data, type=list), lambda i, _: str(i)), variant)

    def _reword(self, toolset: Toolset, variant: TaskVariant | None) -> None:
        counterparts = _counterparts(toolset, variant) if variant else {}
        mentions, renamings = renamings_of(toolset.tools, counterparts)
        new_tools = {
            tool.name: counterparts[tool.name].tool if tool.name in counterparts else tool for tool in toolset.tools
        }

        def written(tool: Tool) -> Any:
            new = new_tools[tool.name]
            renaming = renamings.get(tool.name)
            return tool.renamed(new.name, new.description, renaming, is_final=True) if renaming else tool.raw

        back = {name: renaming.reversed() for name, renaming in renamings.items()}
        sent = encoded(toolset.written(written)) if renamings else self.sent
        # All of it, or nothing, if a definition cannot be handled.
        self.sent, self._mentions = sent, mentions
        self.by_original = {old: OtherTool(new.name, renamings.get(old)) for old, new in new_tools.items()}
        self.by_name = {new.name: OtherTool(old, back.get(old)) for old, new in new_tools.items()}
        self.definitions = {tool.name: tool.raw for tool in toolset.tools}
        self.unknown = [old for old in new_tools if variant and old not in renamings]
        self.reworded, self.hosted = len(renamings), toolset.hosted


def _counterparts(toolset: Toolset, variant: TaskVariant) -> dict[str, VariantTool]:
    """Returns the tools in a variant, by original name, but for those that could not be told apart in it."""
    counterparts: dict[str, VariantTool] = {}
    for tool in toolset.tools:
        with suppress(errors.InputError):
            counterpart = variant.counterpart("", tool)
            if _is_reversible(tool, counterpart):
                counterparts[tool.name] = counterpart
    while True:
        in_variant = [counterparts[tool.name].tool if tool.name in counterparts else tool for tool in toolset.tools]
        names = Counter([*(tool.name for tool in in_variant), *toolset.other_names()])
        unique = {old: new for old, new in counterparts.items() if new.tool.name == old or names[new.tool.name] == 1}
        if len(unique) == len(counterparts):
            return counterparts
        counterparts = unique


def _is_reversible(tool: Tool, counterpart: VariantTool) -> bool:
    """Whether no two parameters of an object have the same new name."""
    originals = {(each.scope, each.name) for each in tool.parameters.all}
    return len({(each.scope, counterpart.names[each.pointer]) for each in tool.parameters.all}) == len(originals)
