"""Variants of tools: each tool of a toolset under another name, with other descriptions and parameters."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from parapet.schemas import layout
from parapet.schemas.arguments import Mentions, Renaming
from parapet.schemas.errors import InputError
from parapet.schemas.rows import collection_paused
from parapet.schemas.tools import Tool, ToolFile, ToolNames, mentions_of, read_names, read_tools


class VariantTool(NamedTuple):
    """A tool in a variant.

    Attributes:
      tool: the tool with its new names and descriptions.
      names: JSON Pointer of each parameter in the original to its new name.
    """

    tool: Tool
    names: dict[str, str]


class TaskVariant(msgspec.Struct, frozen=True):
    """A variant of toolsets.

    Attributes:
      name: the name of its folder.
      tools: toolset to original tool name to the tool in the variant.
    """

    name: str
    tools: dict[str, dict[str, VariantTool]]

    def counterpart(self, task: str, tool: Tool) -> VariantTool:
        """Returns the tool in the variant, from the task's own toolset.

        Otherwise, return it from the first toolset with the same tool and parameters.

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
    """Reads a variant's ``tools.json`` and ``names.json``. Raises InputError if they do not match."""
    place = folder / layout.NAMES
    if not layout.is_there(place):
        raise InputError(f"the variant has no {layout.NAMES}, as variants of tools have", folder, "--variants")
    return variant_of(name, read_tools(folder / layout.TOOLS), read_names(place), place)


def variant_of(name: str, file: ToolFile, names: dict[str, ToolNames], place: object) -> TaskVariant:
    """Makes a variant from tools and names. Raises InputError with ``place`` if they do not match."""
    toolsets = file.toolsets | {task: file.toolsets[toolset] for task, toolset in file.of_tasks.items()}
    if len(names) == len(file.toolsets) == 1:  # which is named after the file
        toolsets = dict(zip(names, file.toolsets.values(), strict=True))
    tools: dict[str, dict[str, VariantTool]] = {}
    for toolset, of_toolset in names.items():
        by_name = {tool.name: tool for tool in toolsets[toolset].tools} if toolset in toolsets else {}
        for old, new in of_toolset.tools.items():
            tool, parameters = by_name.get(new), of_toolset.parameters.get(old, {})
            if tool is None or len(tool.parameters.all) != len(parameters):
                raise InputError(f"does not belong to {layout.TOOLS}: toolset {toolset!r}, tool {old!r}", place)
            tools.setdefault(toolset, {})[old] = VariantTool(tool, parameters)
    tools |= {task: tools[toolset] for task, toolset in file.of_tasks.items() if toolset in tools}
    return TaskVariant(name, tools)


def renamings_of(
    tools: Iterable[Tool], counterparts: Mapping[str, VariantTool]
) -> tuple[Mentions, dict[str, Renaming]]:
    """Returns the names that texts may mention, and by original name the renaming of each tool with a counterpart."""
    reworded = [tool for tool in tools if tool.name in counterparts]
    parameters = {tool.name: tool.parameters.renaming(counterparts[tool.name].names) for tool in reworded}
    mentions = mentions_of({tool.name: counterparts[tool.name].tool.name for tool in reworded}, parameters)
    return mentions, {tool.name: _renaming(tool, counterparts[tool.name], mentions) for tool in reworded}


def _renaming(tool: Tool, counterpart: VariantTool, mentions: Mentions) -> Renaming:
    names = tool.parameters.renaming(counterpart.names)
    pointers = {each.pointer: names.pointer(each.pointer) for each in tool.parameters.all}
    texts = {each.pointer: each.description for each in counterpart.tool.parameters.all if each.description}
    descriptions = {old: texts[new] for old, new in pointers.items() if new in texts}
    return tool.parameters.renaming(counterpart.names, descriptions, mentions, is_final=True)
