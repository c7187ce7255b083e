"""Chat messages as dialogues: JSON lines ``{"messages": [{"role": "user", "content": ...}]}``, as for fine-tuning.

A dialogue has a turn for each message, in the same position. User messages become user turns, in which the arguments of
the assistant's calls are annotated, so that perturbations keep them. The dialogue also contains the original line, so
that it can be written as chat messages again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from parapet.schemas.dialogue import over_limit, repeated_id
from parapet.schemas.errors import InputError, surrogate_in
from parapet.schemas.json_text import parse_exactly, parse_line_exactly
from parapet.schemas.limits import MAX_LINE, in_bytes
from parapet.schemas.plain_texts import dialogue_of, longest_first, system_turn, user_turn, values_in

LINE = "line"  # the key of the original line in a dialogue
_USER = "user"
_ROLES = ("user", "assistant", "system", "developer", "tool", "function")


def looks_like_messages(head: bytes) -> bool:
    """Whether a file with this beginning has lines of chat messages, or a list of them, which is refused later."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[") and b'"messages"' in head


def read_messages(data: bytes, path: object) -> Iterator[tuple[Any, bool]]:
    """Yield the conversations of a file as dialogues, in the form of ``parapet.schemas.dialogue.read_each``.

    Raises:
      InputError: the file is a JSON list instead of JSON lines.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    if data.lstrip().startswith(b"["):
        reason = "a JSON list, and not JSON lines: write one conversation a line, such as by jq -c '.[]' FILE"
        raise InputError(reason, path)
    first: dict[str, int] = {}
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    for position, (number, line) in enumerate(lines):
        try:
            dialogue = _dialogue(line.strip(), number)
            if reason := repeated_id(dialogue["dialogue_id"], position, first):
                raise InputError(reason)
        except InputError as error:
            place = f"line {number}" + (f": {error.where.removeprefix('.')}" if error.where else "")
            yield InputError(error.reason, "", place), False
        else:
            yield dialogue, True


def line_text(line: str, turns: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the line of a conversation with the texts of perturbed turns; the same bytes if no text has changed.

    Args:
      line: the original line, stored in the dialogue under ``LINE``.
      turns: the perturbed turns of the dialogue.

    Raises:
      InputError: the number of turns is not that of the messages.
    """
    record = parse_exactly(line.encode())
    if len(record["messages"]) != len(turns):
        raise InputError("adds or leaves out turns: chat messages keep theirs")
    has_changed = False
    for message, turn in zip(record["messages"], turns, strict=True):
        if message["role"] != _USER or _text(message, "") == turn["utterance"]:
            continue
        has_changed = True
        if isinstance(message["content"], str):
            message["content"] = turn["utterance"]
        elif part := _text_part(message["content"]):
            part["text"] = turn["utterance"]
    if not has_changed:
        return f"{line}\n".encode()
    separators = None if '": ' in line else (",", ":")
    return f"{json.dumps(record, ensure_ascii=line.isascii(), separators=separators)}\n".encode()


def _dialogue(line: bytes, number: int) -> dict[str, Any]:
    """Convert a line to a dialogue. Raises InputError with the place in the line."""
    if len(line) > MAX_LINE:
        raise InputError(f"too_large: the line has {len(line):,} bytes, over the limit of {in_bytes(MAX_LINE)}")
    record = parse_line_exactly(line, "not_messages")
    if not isinstance(record, dict) or not isinstance(record.get("messages"), list):
        raise InputError('not_messages: expected {"messages": [{"role": ..., "content": ...}]}')
    if (half := surrogate_in(record)) is not None:
        raise InputError("not_unicode: half a surrogate pair", "", half)
    messages = record["messages"]
    texts = [_text(message, f"messages[{i}]") for i, message in enumerate(messages)]
    values = longest_first(values_in([arguments for message in messages for arguments in _arguments(message)]))
    turns = [
        system_turn(text) if message["role"] != _USER else user_turn(text, values)
        for message, text in zip(messages, texts, strict=True)
    ]
    name = record.get("id")
    is_name = isinstance(name, str | int) and not isinstance(name, bool) and name != ""
    dialogue_id = str(name) if is_name else f"line_{number:07}"
    if reason := over_limit(dialogue_id, turns):
        raise InputError(reason)
    return {**dialogue_of(dialogue_id, turns), LINE: line.decode()}


def _text(message: Any, where: str) -> str:
    """Return the text of a message; empty if a message of another role than the user has none."""
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise InputError('not_messages: expected {"role": ..., "content": ...}', "", where)
    if message["role"] not in _ROLES:  # with another name for the user, such as "human", nothing would be perturbed
        reason = f"not_messages: unknown role {message['role']!r}: expected one of {', '.join(_ROLES)}"
        raise InputError(reason, "", f"{where}.role")
    content = message.get("content")
    if isinstance(content, str):
        return content
    if message["role"] != _USER:
        return ""
    part = _text_part(content)
    if part is None:
        reason = "not_messages: expected a text, or a list of parts of which one is a text"
        raise InputError(reason, "", f"{where}.content")
    return str(part["text"])


def _text_part(content: Any) -> dict[str, Any] | None:
    """Return the only text among the parts of a content; None without a text, or with several."""
    parts = content if isinstance(content, list) else []
    texts = [part for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return texts[0] if len(texts) == 1 else None


def _arguments(message: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the arguments of the functions that a message calls."""
    calls = message.get("tool_calls")
    functions = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    for function in [*functions, message.get("function_call")]:
        arguments = function.get("arguments") if isinstance(function, dict) else None
        if isinstance(arguments, str):
            with suppress(ValueError, InputError):
                arguments = parse_exactly(arguments.encode())
        yield arguments
