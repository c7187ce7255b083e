"""Variants of tools: their texts, and the renamings that lead from a tool to its version in a variant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from parapet.schemas.arguments import Renaming
from parapet.schemas.dialogue_table import collection_paused
from parapet.schemas.errors import InputError
from parapet.schemas.layout import NAMES, TOOLS, is_there
from parapet.schemas.limits import MAX_FILE, read_whole
from parapet.schemas.mentions import NO_MENTIONS, Mentions
from parapet.schemas.tools import Tool, ToolFile, ToolNames, mentions_of, read_names, read_tools


class ToolTexts(msgspec.Struct, frozen=True):
    """A tool in a variant.

    Attributes:
      name: the new name.
      description: the new description.
      names: JSON Pointer of each parameter in the original to its new name.
      descriptions: JSON Pointer of each parameter in the variant to its new description.
    """

    name: str
    description: str
    names: dict[str, str]
    descriptions: dict[str, str]


class TaskVariant(msgspec.Struct, frozen=True):
    """A variant of toolsets.

    Attributes:
      name: the name of its folder.
      tools: toolset to original tool name to new texts.
      mapping: the bytes of ``names.json``.
    """

    name: str
    tools: dict[str, dict[str, ToolTexts]]
    mapping: bytes

    def texts(self, task: str, tool: Tool) -> ToolTexts:
        """Return the texts of a tool from a task's own toolset.

        Otherwise, return them from the first toolset with the same tool and parameters.

        Raises:
          InputError: no toolset has it.
        """
        pointers = {parameter.pointer for parameter in tool.parameters.all}
        own = [self.tools[task]] if task in self.tools else self.tools.values()
        for tools in own:
            if tool.name in tools and tools[tool.name].names.keys() == pointers:
                return tools[tool.name]
        raise InputError(f"unknown_tool: variant {self.name} has no {tool.name!r} with these parameters")


@collection_paused()
def read_variant(name: str, folder: Path) -> TaskVariant:
    """Read a variant's ``tools.json`` and ``names.json``. Raises InputError if they do not match."""
    place = folder / NAMES
    if not is_there(place):
        raise InputError(f"the variant has no {NAMES}, as variants of tools have", folder, "--variants")
    return variant_of(name, read_tools(folder / TOOLS), read_names(place), read_whole(place, MAX_FILE), place)


def variant_of(name: str, file: ToolFile, names: dict[str, ToolNames], mapping: bytes, place: object) -> TaskVariant:
    """Make a variant from tools and names. Raises InputError with ``place`` if they do not match."""
    toolsets = file.toolsets | {task: file.toolsets[toolset] for task, toolset in file.of_tasks.items()}
    if len(names) == len(file.toolsets) == 1:  # which is named after the file
        toolsets = dict(zip(names, file.toolsets.values(), strict=True))
    tools: dict[str, dict[str, ToolTexts]] = {}
    for toolset, of_toolset in names.items():
        tools_here = {tool.name: tool for tool in toolsets[toolset].tools} if toolset in toolsets else {}
        for old, new in of_toolset.tools.items():
            parameters = of_toolset.parameters.get(old, {})
            known = tools_here[new].parameters.all if new in tools_here else []
            if new not in tools_here or len(known) != len(parameters):
                raise InputError(f"does not belong to {TOOLS}: toolset {toolset!r}, tool {old!r}", place)
            texts = {each.pointer: each.description for each in known if each.description}
            tools.setdefault(toolset, {})[old] = ToolTexts(new, tools_here[new].description, parameters, texts)
    tools |= {task: tools[toolset] for task, toolset in file.of_tasks.items() if toolset in tools}
    return TaskVariant(name, tools, mapping)


def renamings_of(tools: Iterable[Tool], texts: Mapping[str, ToolTexts]) -> tuple[Mentions, dict[str, Renaming]]:
    """Return the names that texts may mention, and by original name the renaming of each tool that has new texts."""
    reworded = [tool for tool in tools if tool.name in texts]
    names = {tool.name: _renaming(tool, texts[tool.name], NO_MENTIONS) for tool in reworded}
    mentions = mentions_of({tool.name: texts[tool.name].name for tool in reworded}, names)
    return mentions, {tool.name: _renaming(tool, texts[tool.name], mentions) for tool in reworded}


def _renaming(tool: Tool, texts: ToolTexts, mentions: Mentions) -> Renaming:
    names = tool.parameters.renaming(texts.names)
    pointers = {each.pointer: names.pointer(each.pointer) for each in tool.parameters.all}
    descriptions = {old: texts.descriptions[new] for old, new in pointers.items() if new in texts.descriptions}
    return tool.parameters.renaming(texts.names, descriptions, mentions, is_final=True)
