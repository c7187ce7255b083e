"""Variants of tools: BFCL tasks, and the calls that they expect, under the names of tool variants.

A task and its answer form one record: if one of them cannot be renamed, neither is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from parapet.schemas import dialogue, layout, limits
from parapet.schemas.arguments import Mentions, Renaming
from parapet.schemas.errors import InputError
from parapet.schemas.rows import collection_paused
from parapet.schemas.tasks import ANSWERS, answers_beside, is_task, records
from parapet.schemas.tools import Tool, ToolFile, ToolNames, Toolset, mentions_of, read_names, read_tools
from parapet.transforms.core import fence, runs
from parapet.transforms.core.counts import (
    Balance,
    CountKey,
    Counts,
    Equal,
    Invariant,
    Tally,
    dead_dialogue,
    of_files,
)
from parapet.transforms.perturb.task_corpus import write_rows


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


def list_tasks(paths: Sequence[str]) -> list[dialogue.DialogueFile]:
    """Lists the files of tasks. Raises InputError if two have the same name, since their outputs would, too."""
    places = {path.name: path for path in map(layout.as_path, paths)}
    if len(places) < len(paths):
        raise InputError("two of the files have the same name, and so would their outputs", "--tasks")
    return [dialogue.DialogueFile("", name, str(path), path.stat().st_size) for name, path in places.items()]


def renamed_task(task: Mapping[str, Any], answer: Mapping[str, Any] | None, variant: TaskVariant) -> tuple[Any, Any]:
    """Rewrites a task and its answer to the names of a variant.

    Args:
      task: the task.
      answer: the expected calls, if any.
      variant: the variant.

    Raises:
      InputError: a tool is invalid, the variant lacks it or has two of a name, or the answer calls an unknown function.
    """
    toolset = Toolset(task["id"], task["function"], lambda i, pointer: f"/function/{i}{pointer}")
    if toolset.bad:
        raise toolset.bad[0]
    counterparts = {tool.name: variant.counterpart(task["id"], tool) for tool in toolset.tools}
    new_tools = {old: counterpart.tool for old, counterpart in counterparts.items()}
    new_names = {old: tool.name for old, tool in new_tools.items()}
    if len({*new_names.values()}) < len(new_names):
        raise InputError(f"name_collision: variant {variant.name} gives two tools of the task the same name")
    mentions, renamings = renamings_of(toolset.tools, counterparts)
    functions = toolset.written(
        lambda tool: tool.renamed(
            new_names[tool.name], new_tools[tool.name].description, renamings[tool.name], is_final=True
        )
    )
    renamed_answer = None
    if answer is not None:
        calls = answer.get("ground_truth")
        if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
            raise InputError("bad_answer: expected a list of calls", "", "/ground_truth")
        if unknown := next((name for call in calls for name in call if name not in new_names), None):
            raise InputError(f"unknown_tool: the answer calls {unknown!r}, which the task lacks", "", "/ground_truth")
        renamed = [
            {new_names[name]: renamings[name].arguments(arguments) for name, arguments in call.items()}
            for call in calls
        ]
        renamed_answer = {**answer, "ground_truth": renamed}
    return {**mentions.task(task), "function": functions}, renamed_answer


@collection_paused()
def write_file(file: dialogue.DialogueFile, variants: Sequence[TaskVariant], output: str) -> runs.FileResult:
    """Writes the tasks of a file, and their answers, under the names of each variant."""
    result = runs.FileResult(file.relative)
    result.counts.add("files")
    data = limits.read_whole(layout.as_path(file.path), limits.MAX_FILE)
    place = answers_beside(layout.as_path(file.path))
    has_answers = layout.is_there(place)
    of_answers = limits.read_whole(place, limits.MAX_FILE) if has_answers else b""
    beside = dialogue.DialogueFile(ANSWERS, file.name, str(place), len(of_answers))
    answers: dict[str, Any] = {}
    for where, answer in records(of_answers):
        result.counts.add("answers")
        if isinstance(answer, InputError) or answer["id"] in answers:
            bad = answer if isinstance(answer, InputError) else InputError("duplicate_id", "", where)
            result.dead_letters.append(dead_dialogue(beside, "", bad))
            result.counts.add("unused_answers")
        else:
            answers[answer["id"]] = where, answer
    rows: dict[str, tuple[list[Any], list[Any]]] = {variant.name: ([], []) for variant in variants}
    seen: set[str] = set()
    for where, task in records(data):
        result.counts.add("tasks")
        name = "" if isinstance(task, InputError) else task["id"]
        answer = answers.pop(name, ("", None))[1]
        for variant in variants:
            try:
                if isinstance(task, InputError):
                    raise task
                if name in seen or not is_task(task):
                    raise InputError("duplicate_id" if name in seen else "not_a_task: it defines no functions")
                if has_answers and answer is None:
                    raise InputError(f"no_answer: {ANSWERS}/{file.name} has no answer to this task")
                renamed, renamed_answer = renamed_task(task, answer, variant)
            except Exception as error:
                known = fence.bad_record(error)
                known.where = known.where if known.where.startswith("line") else f"{where}: {known.where}".rstrip(": ")
                result.dead_letters.append(dead_dialogue(file, name, known, variant.name))
                result.counts.add("left_out", set=variant.name)
                continue
            result.counts.add("written", set=variant.name)
            tasks, expected = rows[variant.name]
            tasks.append(renamed)
            expected += [] if renamed_answer is None else [renamed_answer]
        seen.add(name)
    for where, answer in answers.values():
        unknown = InputError("unknown_task: no task has this id", "", where)
        result.dead_letters.append(dead_dialogue(beside, answer["id"], unknown))
        result.counts.add("unused_answers")
    if not result.counts.sum("tasks"):
        raise InputError("contains no tasks: expected JSON lines in BFCL's format", file.path)
    for variant_name, (tasks, expected) in rows.items():
        result.written += write_rows(output, variant_name, file.path, tasks, expected)
    return result


class TaskVariants(msgspec.Struct, frozen=True):
    """The files of tasks to rewrite, the variants, and ``names.json`` of each."""

    files: list[dialogue.DialogueFile]
    variants: list[TaskVariant]
    mappings: dict[str, bytes]

    @property
    def names(self) -> list[str]:
        """The names of the variants."""
        return [*self.mappings]

    def options(self) -> dict[str, object]:
        """Returns the options that affect the content, for ``run.json``."""
        return {"variants": self.names}

    def tallies(self, counts: Counts) -> list[Tally]:
        """Returns tallies of the tasks of each variant, and of answers without a task, which may be left out."""
        total = counts.sum("tasks")
        answers = Tally("answer", counts.sum("answers"), counts.sum("unused_answers"), is_needed=False)
        left_out = counts.by("set", "left_out")
        of_tasks = [Tally("task", total, left_out.get(name, 0), name, is_record=True) for name in self.names]
        return [of_files(counts), answers, *of_tasks]

    def invariants(self) -> list[Invariant]:
        """Every file is read, and every variant has each task or leaves it out."""
        files = Equal({CountKey("files"): len(self.files)})
        return [files, Balance("tasks", ["written", "left_out"], sets=self.names)]


def metadata_files(counts: Counts, _: object, config: TaskVariants) -> dict[str, bytes]:
    """Returns the mapping of each variant."""
    return {f"{name}/{layout.NAMES}": mapping for name, mapping in config.mappings.items()}
