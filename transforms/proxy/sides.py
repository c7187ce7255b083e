"""What the proxy does with the messages of one variant: a model's API, and an MCP server."""

from __future__ import annotations

import json
import logging
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from msgspec import Raw

from parapet.schemas.errors import InputError
from parapet.transforms.core import disk
from parapet.transforms.proxy import conversation, raw_json, statistics
from parapet.transforms.variants.tool_variants import TaskVariant

_PATHS = ("/chat/completions", "/responses", "/responses/input_tokens", "/messages", "/messages/count_tokens")
_NO_TOOLS = Raw(b"[]")
_CALL = "tools/call"
_TOOLS = re.compile(rb'"tools"|' + raw_json.ESCAPED_LETTER)
_MOST_TOOLSETS = 256  # that are remembered, since an agent sends the same tools with each request


class Forwarded(NamedTuple):
    """A request as it is sent upstream.

    Attributes:
      body: its body.
      answer: maps its answer; None to pass it as it is.
      headers: those that change.
    """

    body: bytes
    answer: Mapped | None
    headers: Mapping[str, str] = {}


class Record:
    """The tools that pass by, under their original names, in a file that ``--schemas`` takes.

    Args:
      path: the file; None to write none.

    Attributes:
      offered: requests by the original name of the tools in them.
      called: calls by the original name of the tool.
    """

    def __init__(self, path: Path | None) -> None:
        self._path, self._definitions = path, dict[str, Any]()
        self.offered, self.called = Counter[str](), Counter[str]()

    def add(self, tools: conversation.RewordedTools) -> None:
        """Records tools; of several with one name, the first. A new one is written at once."""
        self.offered.update([*tools.definitions])
        if new := {name: raw for name, raw in tools.definitions.items() if name not in self._definitions}:
            self._definitions |= new
            self.write()

    def write(self) -> None:
        """Writes the file, with how often each tool was offered and called."""
        usage = [
            {"tool": tool, "offered": self.offered[tool], "called": self.called[tool]} for tool in self._definitions
        ]
        if self._path and usage:
            content = json.dumps({"tools": [*self._definitions.values()], "usage": usage}, indent=2)
            try:
                disk.write(self._path, f"{content}\n".encode())
            except OSError as error:  # requests pass all the same
                logging.error("--record: %s cannot be written: %s", self._path, error.strerror)


class Side(ABC):
    """The requests of one variant.

    Attributes:
      statistics: what was done.

    Args:
      variant: the variant of the tools; None for the original.
      record: records the tools.
    """

    def __init__(self, variant: TaskVariant | None, record: Record) -> None:
        self.statistics, self.record = statistics.Statistics(record.called), record
        self._rewording = lru_cache(_MOST_TOOLSETS)(partial(conversation.RewordedTools, variant=variant))

    def reworded(self, data: Raw) -> conversation.RewordedTools:
        """Returns tools in the variant; counts and records them."""
        tools = self._rewording(bytes(data))
        self.statistics.count_tools(tools)
        self.record.add(tools)
        return tools

    @abstractmethod
    def request(self, path: str, body: bytes, headers: Mapping[str, str]) -> Forwarded:
        """Returns a request as it is sent upstream."""


class ModelSide(Side):
    """The requests to a model's API.

    Args:
      variant, record: see :class:`Side`.
      perturb: changes what users say; None to pass it as it is.
    """

    def __init__(self, variant: TaskVariant | None, record: Record, perturb: conversation.Change | None = None) -> None:
        super().__init__(variant, record)
        self._perturb = perturb

    def request(self, path: str, body: bytes, headers: Mapping[str, str]) -> Forwarded:
        """Rewords a request of the APIs that are known."""
        if not path.endswith(_PATHS) or not body:
            return Forwarded(body, None)
        self.statistics.counts["requests"] += 1
        fields = raw_json.fields_of(body) or raw_json.fields_of(raw_json.without_halves(body))
        if fields is None:
            return Forwarded(body, None)
        tools = self.reworded(fields.get("tools", _NO_TOOLS))
        reworded = conversation.reworded_request(fields, tools, self._perturb)
        repeated = {name: value for name, value in fields.items() if reworded[name] is not value}
        new = body if reworded is fields else bytes(raw_json.encoded(reworded))
        return Forwarded(new, conversation.Answer(tools, self.statistics, repeated))


class ToolServerSide(Side):
    """The messages between an MCP client, under the variant's names, and a server, under the original ones."""

    def __init__(self, variant: TaskVariant | None, record: Record) -> None:
        super().__init__(variant, record)
        self._tools: dict[str, conversation.OtherTool] = {}  # by name in the variant; a list of tools may come in pages

    def request(self, path: str, body: bytes, headers: Mapping[str, str]) -> Forwarded:
        """Maps a request over HTTP, of which newer clients repeat the name of the tool in a header."""
        tool = self._tools.get(headers.get("mcp-name", "")) if headers.get("mcp-method") == _CALL else None
        return Forwarded(bytes(self.to_server(Raw(body))), self, {"mcp-name": tool.name} if tool else {})

    def to_server(self, data: Raw) -> Raw:
        """Maps a call of a tool in a message of the client."""

        def call(params: raw_json.Fields) -> raw_json.Fields:
            called = conversation.Call(raw_json.text_of(params.get("name")) or "", self._tools)
            params = called.renamed(params)
            called.count(self.statistics)
            return params

        def message(fields: raw_json.Fields) -> raw_json.Fields:
            self.statistics.counts["requests"] += "id" in fields and "method" in fields
            return (
                raw_json.edited_fields(fields, ("params",), call)
                if raw_json.text_of(fields.get("method")) == _CALL
                else fields
            )

        return raw_json.edited(data, (), message)

    def whole(self, data: Raw) -> Raw:
        """Rewords the tools in a message of the server."""
        return raw_json.edited(data, ("result",), self._result)

    def concerns(self, data: bytes) -> bool:
        """Whether a part of a stream may list tools."""
        return _TOOLS.search(data) is not None

    def events(self, data: Raw) -> list[Raw]:
        """Rewords the tools in a message of a stream."""
        return [self.whole(data)]

    def end(self) -> None:
        """Does nothing: messages are whole."""

    def _result(self, fields: raw_json.Fields) -> raw_json.Fields:
        if "tools" not in fields:
            return fields
        tools = self.reworded(fields["tools"])
        self._tools |= tools.by_name
        return {**fields, "tools": tools.sent} if tools.reworded else fields


Mapped = conversation.Answer | ToolServerSide


def write_log(log: IO[str], source: str, **texts: bytes) -> None:
    """Appends a line: the path or the sender of messages, and their texts."""
    line = {name: text.decode("utf-8", "replace") for name, text in texts.items()}
    log.write(json.dumps({"from": source, **line}) + "\n")
    log.flush()


_MOST_TEXTS = 10_000  # that are remembered, since a conversation is sent again with each request


def perturbing(name: str, seed: str) -> conversation.Change:
    """Returns a function that perturbs a text, always in the same way; one that cannot be perturbed stays.

    Raises:
      InputError: there is no such perturbation, or it needs more than texts.
    """
    from parapet.transforms.perturb.apply import perturb_texts

    perturb_texts(["I need a taxi"], name, None, (), {"seed": seed})

    @lru_cache(_MOST_TEXTS)
    def perturbed(text: str) -> str:
        try:
            return perturb_texts([text], name, None, (), {"seed": seed})[0]
        except (InputError, UnicodeError):  # halves of surrogate pairs
            return text

    return perturbed
