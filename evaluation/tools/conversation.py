"""Converts the conversation of a task to messages of OpenAI's API, which are the same unless an API refuses them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from parapet.schemas.errors import InputError
from parapet.transforms.core.replies import as_text, text_of

Message = dict[str, Any]

_CALLS = ("tool_calls", "function_call")  # some APIs refuse null
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def messages_of(question: Sequence[Sequence[Message]], legal: Mapping[str, str]) -> list[Message]:
    """Returns the messages in order.

    Turns of Anthropic's API with ``tool_use`` and ``tool_result`` become calls and tool messages. Arguments that are
    not text are encoded, and calls without an id get one, also in the tool messages that answer them.

    Args:
      question: turns, each a list of messages.
      legal: the tools' names to those that the API allows.

    Raises:
      InputError: a message has no known role, or its content is neither text nor parts; ``where`` is its place.
    """
    messages: list[Message] = []
    numbers, unanswered = itertools.count(1), list[str]()
    for i, turn in enumerate(question):
        for j, original in enumerate(turn):
            _check(original, f"question[{i}][{j}]")
            for message in _split(original):
                message = {key: value for key, value in message.items() if value or key not in _CALLS}
                for kind in _CALLS:
                    if calls := message.get(kind):
                        is_list = isinstance(calls, list)
                        under_legal = [_legal(call, legal) for call in (calls if is_list else [calls])]
                        message = {**message, kind: under_legal if is_list else under_legal[0]}
                if isinstance(calls := message.get("tool_calls"), list):
                    with_ids = [{"id": f"call_{next(numbers)}", "type": "function", **_nested(call)} for call in calls]
                    unanswered = [call["id"] for call in with_ids]
                    message = {**message, "tool_calls": with_ids}
                if message["role"] == "tool" and unanswered:
                    message = {"tool_call_id": unanswered[0], **message}
                    unanswered = [name for name in unanswered if name != message["tool_call_id"]]
                if message["role"] in ("tool", "function") and message.get("name") in legal:
                    message = {**message, "name": legal[message["name"]]}
                messages.append(message)
    return messages


def _check(message: Message, where: str) -> None:
    if message.get("role") not in _ROLES:
        raise InputError(f"the role of a message must be one of {', '.join(_ROLES)}", "", f"{where}.role")
    content, calls = message.get("content"), message.get("tool_calls")
    if not isinstance(content, str | list | None) or any(not isinstance(part, str | dict) for part in content or ()):
        raise InputError("the content of a message must be a text or a list of parts", "", f"{where}.content")
    if not isinstance(calls, list | None) or any(not isinstance(call, dict) for call in calls or ()):
        raise InputError("expected a list of calls", "", f"{where}.tool_calls")


def _legal(call: Any, legal: Mapping[str, str]) -> Any:
    """Returns a call with a name that the API allows, and arguments as text."""
    if not isinstance(call, dict):
        return call
    if isinstance(call.get("function"), dict):
        return {**call, "function": _legal(call["function"], legal)}
    name, arguments = call.get("name"), call.get("arguments")
    new = {**call, "name": legal.get(name, name)} if isinstance(name, str) else call
    return new if isinstance(arguments, str) else {**new, "arguments": as_text(arguments)}


def _nested(call: Message) -> Message:
    """Returns a call whose name and arguments are in its ``function``, as APIs require."""
    if "function" in call or "name" not in call:
        return call
    function = {key: call[key] for key in ("name", "arguments") if key in call}
    return {**{key: value for key, value in call.items() if key not in function}, "function": function}


def _split(message: Message) -> list[Message]:
    """Returns the messages of OpenAI's API for one of Anthropic's; others are unchanged."""
    content = message.get("content")
    answers, calls, left = list[Message](), list[Message](), list[Any]()
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "tool_result":
            answer = {"role": "tool", "tool_call_id": part.get("tool_use_id"), "content": part.get("content") or ""}
            answers.append(answer)
        elif kind == "tool_use":
            function = {"name": part.get("name"), "arguments": part.get("input") or {}}
            calls.append({"id": part.get("id"), "type": "function", "function": function})
        elif kind not in ("thinking", "redacted_thinking"):
            left.append(part)
    if not answers and not calls:
        return [message]
    rest = {**message, "content": left or None, **({"tool_calls": calls} if calls else {})}
    return [*answers, *([rest] if left or calls else [])]


def request_of(message: Mapping[str, Any]) -> str:
    """Returns the text of a message, also of its parts."""
    content = message.get("content")
    return "\n".join(filter(None, map(text_of, content))) if isinstance(content, list) else text_of(content)


def with_request(messages: Sequence[Message], text: str) -> list[Message]:
    """Replaces the text of the last message of the user; adds a message if there is none."""
    at = next((i for i in reversed(range(len(messages))) if messages[i]["role"] == "user"), None)
    if at is None:
        return [*messages, {"role": "user", "content": text}]
    content: Any = text
    if isinstance(parts := messages[at].get("content"), list):
        content = [{"type": "text", "text": text}, *(part for part in parts if not text_of(part))]
    return [*messages[:at], {**messages[at], "content": content}, *messages[at + 1 :]]
