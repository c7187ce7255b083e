"""The tools of a request in a variant, and what leads from their names to the variant's and back."""

from __future__ import annotations

import functools
from collections import Counter
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from parapet.schemas.arguments import NO_MENTIONS, Renaming
from parapet.schemas.errors import InputError
from parapet.schemas.tools import Tool, Toolset
from parapet.transforms.proxy.raw_json import encoded
from parapet.transforms.variants.tasks import TaskVariant, VariantTool, renamings_of

_MOST_TEXTS = 8


class OtherTool(NamedTuple):
    """A tool on the other side of the proxy: its name there, and its parameters' names; None if they are the same."""

    name: str
    renaming: Renaming | None


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
        self.sent, self._mentions = Raw(data), NO_MENTIONS
        self.with_mentions = functools.lru_cache(_MOST_TEXTS)(lambda text: self._mentions.replaced(text, {}))
        self.by_original: dict[str, OtherTool] = {}
        self.by_name: dict[str, OtherTool] = {}
        self.definitions: dict[str, Any] = {}
        self.unknown: list[str] = []
        self.reworded = self.hosted = 0
        with suppress(InputError, msgspec.MsgspecError, RecursionError):  # such as two tools of one name
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
    """Return the tools in a variant, by original name, but for those that could not be told apart in it."""
    counterparts: dict[str, VariantTool] = {}
    for tool in toolset.tools:
        with suppress(InputError):
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
