"""Reads the answers of OpenAI-compatible servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec


class Unreadable(Exception):
    """An answer without the requested content; the message is a one-word reason."""


class Reply(msgspec.Struct, frozen=True):
    """An answer.

    Attributes:
      text: the model's text; empty if it only calls tools.
      tool_calls: (name, arguments as JSON text) of each call.
      tokens: the tokens of request and answer, as counted by the server; 0 if it does not count them.
      characters: length of the request, for estimates of further requests.
      kept: whether it came from the cache.
    """

    text: str
    tool_calls: Sequence[tuple[str, str]] = ()
    tokens: tuple[int, int] = (0, 0)
    characters: int = 0
    kept: bool = False


def read_reply(body: Any) -> Reply:
    """Convert the decoded body of an answer. Raises Unreadable if it is no chat completion."""
    try:
        message = body["choices"][0]["message"]
        text = _sound(message.get("content") or "")
        calls = [
            (_sound(str(call["function"]["name"])), _sound(str(call["function"]["arguments"])))
            for call in message.get("tool_calls") or ()
            if call.get("function")
        ]
        usage = body.get("usage") or {}
        tokens = int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise Unreadable("no_message") from None
    return Reply(text, calls, tokens)


def _sound(text: str) -> str:
    """Replace lone surrogates, which cannot be written to files."""
    return text.encode("utf-8", "replace").decode()
