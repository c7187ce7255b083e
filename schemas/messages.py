"""Chat messages as dialogues: JSON lines ``{"messages": [{"role": "user", "content": ...}]}``, as for fine-tuning.

Also other texts without annotation as dialogues of one service, in which the values to keep are values of its slots.

A dialogue has a turn for each message, in the same position; only a user message with several texts has a turn for each
text. Texts of users become user turns, in which the arguments of the assistant's calls are annotated, so that
perturbations keep them. The dialogue also contains the original line, so that it can be written as chat messages again:
messages without a user's text, such as images and results of tools, stay as they are.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from parapet.schemas.dialogue import repeated_id
from parapet.schemas.errors import InputError
from parapet.schemas.limits import parse_json_line

_SERVICE, _INTENT = "Tools_1", "UseTools"
_SLOTS = 40


def plain_service() -> dict[str, Any]:
    """Returns the only service of such dialogues."""
    slots = [
        {"name": f"value_{i}", "description": "A value", "is_categorical": False, "possible_values": []}
        for i in range(_SLOTS)
    ]
    intent = {"name": _INTENT, "description": "Use tools", "is_transactional": False, "required_slots": [],
              "optional_slots": {}, "result_slots": []}  # fmt: skip
    return {"service_name": _SERVICE, "description": "Tools", "slots": slots, "intents": [intent]}


def dialogue_of(dialogue_id: str, turns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Creates a dialogue of that service."""
    return {"dialogue_id": dialogue_id, "services": [_SERVICE], "turns": list(turns)}


def system_turn(text: str) -> dict[str, Any]:
    """Creates a turn that perturbations do not change."""
    return {"speaker": "SYSTEM", "utterance": text, "frames": []}


def user_turn(text: str, values: Iterable[str] = ()) -> dict[str, Any]:
    """Creates a user turn in which values are annotated wherever they occur as whole words.

    Args:
      text: the utterance.
      values: the values in the order of :func:`longest_first`.
    """
    spans = [(f"value_{i % _SLOTS}", start, end) for i, (start, end) in enumerate(sorted(_spans(text, values)))]
    values_by_slot: dict[str, list[str]] = {}
    for slot, start, end in spans:
        values_by_slot.setdefault(slot, []).append(text[start:end])
    actions = [
        {"act": "INFORM", "slot": slot, "values": texts, "canonical_values": texts}
        for slot, texts in values_by_slot.items()
    ]
    state = {"active_intent": _INTENT, "requested_slots": [], "slot_values": values_by_slot}
    slots = [{"slot": slot, "start": start, "exclusive_end": end} for slot, start, end in spans]
    frame = {"service": _SERVICE, "actions": actions, "slots": slots, "state": state}
    return {"speaker": "USER", "utterance": text, "frames": [frame]}


def longest_first(values: Iterable[str]) -> list[str]:
    """Sorts values without duplicates, long ones first, so that "New York" precedes "York"."""
    return sorted({value.strip() for value in values} - {""}, key=lambda value: (-len(value), value))


def values_in(calls: Any) -> Iterator[str]:
    """Yields all texts and numbers in calls at any depth, except names of parameters; also the parts of texts.

    A user who wants "New York, NY" may say "New York", so the texts between commas, names and numbers are values, too.
    """
    if isinstance(calls, Mapping):
        for value in calls.values():
            yield from values_in(value)
    elif isinstance(calls, list):
        for value in calls:
            yield from values_in(value)
    elif isinstance(calls, int | float) and not isinstance(calls, bool):
        yield f"{calls:g}"
        yield str(calls)
    elif isinstance(calls, str) and calls.strip():
        yield calls.strip()
        yield from filter(None, map(str.strip, re.split(r"[,;/()]", calls)))
        yield from (word for word in re.findall(r"\w+", calls) if len(word) > 1 and not word.islower())


def _spans(text: str, values: Iterable[str]) -> list[tuple[int, int]]:
    """Finds the positions of values in a text; earlier values take precedence over overlapping ones."""
    taken: list[tuple[int, int]] = []
    for value in values:
        for match in re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE):
            if all(match.end() <= start or match.start() >= end for start, end in taken):
                taken.append(match.span())
    return taken


LINE = "line"  # the key of the original line in a dialogue
_USER = "user"
_TEXTS = ("text", "input_text")  # the types of parts that a user writes
_ROLES = ("user", "assistant", "system", "developer", "tool", "function")


def read_messages(data: bytes, path: object) -> Iterator[Any]:
    """Yields the conversations of a file as dialogues, in the form of ``parapet.schemas.dialogue.read_each``.

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
            yield InputError(error.reason, "", place)
        else:
            yield dialogue


def line_text(line: str, turns: Sequence[Mapping[str, Any]]) -> bytes:
    """Returns the line of a conversation with the texts of perturbed turns; the same bytes if no text has changed.

    Args:
      line: the original line, stored in the dialogue under ``LINE``.
      turns: the perturbed turns of the dialogue.

    Raises:
      InputError: the number of turns is not that of the texts.
    """
    record = parse_json_line(line)
    places = [place for message in record["messages"] for place in _places(message)]
    if len(places) != len(turns):
        raise InputError("adds or leaves out turns: chat messages keep theirs")
    changed = [
        (place, turn["utterance"])
        for place, turn in zip(places, turns, strict=True)
        if place.is_user and place.text != turn["utterance"]
    ]
    for place, text in changed:
        place.holder[place.key] = text
    if not changed:
        return f"{line}\n".encode()
    separators = None if '": ' in line else (",", ":")
    return f"{json.dumps(record, ensure_ascii=line.isascii(), separators=separators)}\n".encode()


def _dialogue(line: bytes, number: int) -> dict[str, Any]:
    """Converts a line to a dialogue. Raises InputError with the place in the line."""
    try:
        record = parse_json_line(line)
    except ValueError as error:
        raise InputError(f"not_json: {error}") from None
    if not isinstance(record, dict) or not isinstance(record.get("messages"), list):
        raise InputError('not_messages: expected {"messages": [{"role": ..., "content": ...}]}')
    messages = record["messages"]
    for i, message in enumerate(messages):
        _check(message, f"messages[{i}]")
    values = longest_first(values_in([arguments for message in messages for arguments in _arguments(message)]))
    turns = [
        user_turn(place.text, values) if place.is_user else system_turn(place.text)
        for message in messages
        for place in _places(message)
    ]
    name = record.get("id")
    is_name = isinstance(name, str | int) and not isinstance(name, bool) and name != ""
    dialogue_id = str(name) if is_name else f"line_{number:07}"
    return {**dialogue_of(dialogue_id, turns), LINE: line.decode()}


def _check(message: Any, where: str) -> None:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise InputError('not_messages: expected {"role": ..., "content": ...}', "", where)
    if message["role"] not in _ROLES:  # with another name for the user, such as "human", nothing would be perturbed
        reason = f"not_messages: unknown role {message['role']!r}: expected one of {', '.join(_ROLES)}"
        raise InputError(reason, "", f"{where}.role")
    if message["role"] == _USER and not isinstance(message.get("content"), str | list | None):
        raise InputError("not_messages: expected a text, or a list of parts", "", f"{where}.content")


class _Place(NamedTuple):
    """Where the text of a turn is: ``holder[key]``."""

    holder: Any
    key: str | int
    text: str
    is_user: bool


def _places(message: dict[str, Any]) -> list[_Place]:
    """Returns the places of a message's turns: the texts of a user, otherwise the message itself."""
    content = message.get("content")
    if message["role"] == _USER and isinstance(content, list):
        places = [_Place(content, i, part, True) for i, part in enumerate(content) if isinstance(part, str)]
        parts = [part for part in content if isinstance(part, dict) and part.get("type", "text") in _TEXTS]
        places += [_Place(part, "text", part["text"], True) for part in parts if isinstance(part.get("text"), str)]
        if places:
            return places
    is_text = isinstance(content, str)
    return [_Place(message, "content", str(content) if is_text else "", message["role"] == _USER and is_text)]


def _arguments(message: Mapping[str, Any]) -> Iterator[Any]:
    """Yields the arguments of the functions that a message calls."""
    parts = message.get("content")
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and part.get("type") == "tool_use":
            yield part.get("input")
    calls = message.get("tool_calls")
    functions = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    for function in [*functions, message.get("function_call")]:
        arguments = function.get("arguments") if isinstance(function, dict) else None
        if isinstance(arguments, str):
            with suppress(ValueError):
                arguments = parse_json_line(arguments)
        yield arguments
