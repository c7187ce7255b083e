"""Requests and answers of OpenAI's Chat Completions and Responses and of Anthropic's Messages, told by their shape.

Tools, choices of tools and earlier calls of a request get the names of the variant; calls of an answer, whole or in
pieces, get the original names back. Everything else keeps its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

import msgspec
from msgspec import Raw

from parapet.transforms.proxy.arguments_text import ArgumentsText
from parapet.transforms.proxy.raw_json import (
    EACH,
    ESCAPED_LETTER,
    Fields,
    decoded,
    edited,
    edited_fields,
    encoded,
    fields_of,
    replaced,
    text_of,
)
from parapet.transforms.proxy.rewording import OtherTool, RewordedTools
from parapet.transforms.proxy.statistics import Statistics

_MESSAGES = ("messages", "input")
_INSTRUCTIONS = ("system", "instructions")
_CALL_TYPES = ("function_call", "custom_tool_call", "tool_use")
_TEXT_TYPES = ("text", "input_text", None)
_KINDS = ("function", "custom")  # of calls in a message of Chat Completions
_NO_ARGUMENTS = (b"null", b"{}", b'""')
_CHOSEN = ((), ("function",), ("custom",), ("tools", EACH), ("allowed_tools", "tools", EACH, "function"))

# What an event has that begins a call or repeats one; the others only continue calls.
_BEGINNING = re.compile(rb'"tool_calls"|_call"|_call_arguments|"tool_use"|"response"|' + ESCAPED_LETTER)
_ARGUMENTS = re.compile(rb'"arguments"\s*:\s*("(?:[^"\\]|\\.)*")')

_FIRST = Raw(b"0")  # the index of calls, and choices, that have none

Change = Callable[[str], str]
Edit = Callable[[Fields], Fields]
Place = tuple[bytes, bytes]  # of a call in a stream: the choice, and its index there


def reworded_request(fields: Fields, tools: RewordedTools, perturb: Change | None = None) -> Fields:
    """Return a request in a variant.

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
    """Rename the tool of a choice, or the allowed tools."""

    def renamed(fields: Fields) -> Fields:
        if text_of(fields.get("type")) == "mcp":  # a server that the API calls itself
            return fields
        tool = tools.by_original.get(_name(fields))
        return {**fields, "name": encoded(tool.name)} if tool else fields

    for path in _CHOSEN:
        data = edited(data, path, renamed)
    return data


def _with_texts(data: Raw, change: Change) -> Raw:
    """Change a text, or the texts among the parts of a message."""

    def changed(part: Fields) -> Fields:
        is_text = text_of(part.get("type")) in _TEXT_TYPES
        return replaced(part, "text", lambda data: _with_text(data, change)) if is_text else part

    return edited(data, (EACH,), changed) if text_of(data) is None else _with_text(data, change)


def _with_text(data: Raw, change: Change) -> Raw:
    text = text_of(data)
    return data if text is None or (new := change(text)) == text else encoded(new)


def _reworded_messages(data: Raw, tools: RewordedTools, perturb: Change | None) -> Raw:
    """Reword a conversation; of a request of the Responses API, which may be a text, what the user says."""

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
        """Return the call, or a piece of it, under its names on the other side."""
        if self.text is None:
            return fields
        if _name(fields):
            fields = {**fields, "name": encoded(self.other_name)}
        change = partial(self.renamed_arguments, is_piece=is_piece)
        fields = replaced(fields, "arguments", change)
        is_free_text = text_of(fields.get("input")) is not None  # of a custom tool
        return fields if is_free_text else replaced(fields, "input", change)

    def renamed_arguments(self, data: Raw, is_piece: bool = True) -> Raw:
        """Return arguments, or a piece of them: an object, or its text as OpenAI has it."""
        if self.text is None or bytes(data) in _NO_ARGUMENTS:
            return data
        content = text_of(data)
        if content is None:
            return Raw(self.text.renamed(bytes(data).decode()).encode())
        new = self.text.renamed(content) + ("" if is_piece else self.text.held)
        return data if new == content else encoded(new)

    def count(self, statistics: Statistics) -> None:
        """Count a call by a model."""
        problem = "" if self.is_known else "there is no such tool"
        if self.text and self.text.unknown:
            problem = f"there is no parameter {self.text.unknown!r}"
        elif self.text and not self.text.is_complete():
            problem = "the arguments are not a JSON object"
        statistics.count_call(self.name, self.other_name, problem)


class _FunctionPiece(msgspec.Struct):
    arguments: str
    name: str | None = None


class _CallPiece(msgspec.Struct):
    function: _FunctionPiece
    index: Raw = _FIRST


class _Delta(msgspec.Struct):
    tool_calls: tuple[_CallPiece]


class _Choice(msgspec.Struct):
    delta: _Delta
    index: Raw = _FIRST
    finish_reason: None = None


class _Chunk(msgspec.Struct):
    """A chunk of Chat Completions that only continues the arguments of one call, as most do."""

    choices: tuple[_Choice]


_CHUNK = msgspec.json.Decoder(_Chunk)


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
        """Map an answer that is not streamed."""
        return edited(data, (), partial(self._whole, call=self._call))

    def concerns(self, data: bytes) -> bool:
        """Whether a part of a stream may begin, continue or repeat a call."""
        return bool(self._open) or _BEGINNING.search(data) is not None

    def events(self, data: Raw) -> list[Raw]:
        """Map the data of an event of a stream. What was held back of arguments comes before it, when they end."""
        if self._open and (continued := self._with_continued_arguments(data)) is not None:
            return [continued]
        fields = fields_of(data)
        if fields is None:
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
        """Count the calls of a stream that it did not end."""
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

    def _with_continued_arguments(self, data: Raw) -> Raw | None:
        """Maps a chunk of Chat Completions that only continues a call, at less cost; None if it is something else."""
        chunk = decoded(data, _CHUNK)
        if chunk is None:
            return None
        (choice,) = chunk.choices
        (piece,) = choice.delta.tool_calls
        call = self._open.get((bytes(choice.index), bytes(piece.index)))
        text = bytes(data)
        matches = [*_ARGUMENTS.finditer(text)]
        if call is None or call.text is None or piece.function.name or len(matches) != 1:
            return None
        old, (match,) = piece.function.arguments, matches
        new = call.text.renamed(old)
        return data if new == old else Raw(text[: match.start(1)] + bytes(encoded(new)) + text[match.end(1) :])

    def _piece(self, fields: Fields, place: Place, identity: Raw | None = None) -> Fields:
        """Map a piece of a call. It begins a call if it has a name, which some servers repeat in each piece."""
        call, name, own_id = self._open.get(place), _name(fields), text_of(identity) or ""
        if name and (call is None or name != call.name or own_id not in ("", call.id)):
            self._end(place)
            call = self._open[place] = Call(name, self._tools.by_name, own_id)
        return call.renamed(fields, is_piece=True) if call else fields

    def _end(self, place: Place) -> str:
        """End a call, and return the part of its arguments that was held back."""
        call = self._open.pop(place, None)
        if call is None:
            return ""
        call.count(self._statistics)
        return call.text.held if call.text else ""

    def _choice(self, choice: Fields, chunk: Fields, held: list[Raw]) -> Fields:
        """Map a choice in a chunk of Chat Completions."""
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
        """Map an event of the Responses API, which repeats whole calls at their end."""
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
        """Map an event of Anthropic's Messages."""
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
