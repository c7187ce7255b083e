"""Rewrite BFCL tasks, and the calls that they expect, to the names of tool variants.

A task and its answer form one record: if one of them cannot be renamed, neither is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.arguments import Renaming
from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.dialogue_table import collection_paused
from parapet.schemas.errors import InputError
from parapet.schemas.layout import NAMES, TOOLS, as_path, is_there
from parapet.schemas.limits import MAX_FILE, read_whole
from parapet.schemas.mentions import NO_MENTIONS, Mentions
from parapet.schemas.tasks import ANSWERS, answers_beside, is_task, records
from parapet.schemas.tools import (
    Tool,
    ToolFile,
    ToolNames,
    Toolset,
    mentions_of,
    read_names,
    read_tools,
)
from parapet.transforms.running.counts import (
    Balance,
    CountKey,
    Counts,
    Equal,
    Invariant,
    Tally,
    dead_dialogue,
    of_files,
)
from parapet.transforms.running.fence import bad_record
from parapet.transforms.running.runs import FileResult
from parapet.transforms.storage.files import write_staged


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
        known = [tools[tool.name] for tools in own if tool.name in tools]
        for texts in known:
            if texts.names.keys() == pointers:
                return texts
        problem = f"a version of tool {tool.name!r} with these parameters" if known else f"no {tool.name!r}"
        raise InputError(f"unknown_tool: variant {self.name} has {'not ' if known else ''}{problem}")


@collection_paused()
def read_variant(name: str, folder: Path) -> TaskVariant:
    """Read a variant's ``tools.json`` and ``names.json``. Raises InputError if they do not match."""
    place = folder / NAMES
    if not is_there(place):
        raise InputError(f"the variant has no {NAMES}: --tasks takes variants of tools", folder, "--variants")
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


def list_tasks(paths: Sequence[str]) -> list[DialogueFile]:
    """List the files of tasks. Raises InputError if two have the same name, since their outputs would, too."""
    places = {path.name: path for path in map(as_path, paths)}
    if len(places) < len(paths):
        raise InputError("two of the files have the same name, and so would their outputs", "--tasks")
    return [DialogueFile("", name, str(path), path.stat().st_size) for name, path in places.items()]


def toolset_of(task: Mapping[str, Any]) -> Toolset:
    """Return the tools of a task. Raises InputError if one is invalid."""
    toolset = Toolset(task["id"], task["function"], lambda i, pointer: f"/function/{i}{pointer}")
    if toolset.bad:
        raise toolset.bad[0]
    return toolset


def renamed_task(
    task: Mapping[str, Any], answer: Mapping[str, Any] | None, variant: TaskVariant, toolset: Toolset | None = None
) -> tuple[Any, Any]:
    """Rewrite a task and its answer to the names of a variant.

    Args:
      task: the task.
      answer: the expected calls, if any.
      variant: the variant.
      toolset: the task's toolset, if it is already parsed.

    Raises:
      InputError: the variant lacks a tool or has duplicate names, or the answer calls an unknown function.
    """
    toolset = toolset or toolset_of(task)
    chosen = {tool.name: variant.texts(task["id"], tool) for tool in toolset.tools}
    if len({texts.name for texts in chosen.values()}) < len(chosen):
        raise InputError(f"name_collision: variant {variant.name} gives two tools of the task the same name")
    names = {tool.name: _renaming(tool, chosen[tool.name], NO_MENTIONS) for tool in toolset.tools}
    mentions = mentions_of({old: texts.name for old, texts in chosen.items()}, names)
    renamings = {tool.name: _renaming(tool, chosen[tool.name], mentions) for tool in toolset.tools}
    functions = toolset.written(
        lambda tool: tool.renamed(
            chosen[tool.name].name, chosen[tool.name].description, renamings[tool.name], is_final=True
        )
    )
    renamed_answer = None
    if answer is not None:
        calls = answer.get("ground_truth")
        if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
            raise InputError("bad_answer: expected a list of calls", "", "/ground_truth")
        if unknown := next((name for call in calls for name in call if name not in chosen), None):
            raise InputError(f"unknown_tool: the answer calls {unknown!r}, which the task lacks", "", "/ground_truth")
        renamed = [
            {chosen[name].name: renamings[name].arguments(arguments) for name, arguments in call.items()}
            for call in calls
        ]
        renamed_answer = {**answer, "ground_truth": renamed}
    return {**mentions.task(task), "function": functions}, renamed_answer


def _renaming(tool: Tool, texts: ToolTexts, mentions: Mentions) -> Renaming:
    names = tool.parameters.renaming(texts.names)
    pointers = {each.pointer: names.pointer(each.pointer) for each in tool.parameters.all}
    descriptions = {old: texts.descriptions[new] for old, new in pointers.items() if new in texts.descriptions}
    return tool.parameters.renaming(texts.names, descriptions, mentions, is_final=True)


@collection_paused()
def write_file(file: DialogueFile, variants: Sequence[TaskVariant], output: str) -> FileResult:
    """Write the tasks of a file, and their answers, under the names of each variant."""
    result = FileResult(file.relative)
    result.counts.add("files")
    data = read_whole(as_path(file.path), MAX_FILE)
    place = answers_beside(as_path(file.path))
    has_answers = is_there(place)
    of_answers = read_whole(place, MAX_FILE) if has_answers else b""
    beside = DialogueFile(ANSWERS, file.name, str(place), len(of_answers))
    answers: dict[str, Any] = {}
    for where, answer in records(of_answers):
        result.counts.add("answers")
        if isinstance(answer, InputError) or answer["id"] in answers:
            bad = answer if isinstance(answer, InputError) else InputError("duplicate_id", "", where)
            result.dead_letters.append(dead_dialogue(beside, "", bad))
            result.counts.add("unused_answers")
        else:
            answers[answer["id"]] = where, answer
    lines: dict[tuple[str, str], list[Any]] = {}
    seen: set[str] = set()
    for where, task in records(data):
        result.counts.add("tasks")
        name = "" if isinstance(task, InputError) else task["id"]
        answer = answers.pop(name, ("", None))[1]
        tools: Toolset | Exception
        try:
            if isinstance(task, InputError):
                raise task
            if name in seen or not is_task(task):
                raise InputError("duplicate_id" if name in seen else "not_a_task: it defines no functions")
            if has_answers and answer is None:
                raise InputError(f"no_answer: {ANSWERS}/{file.name} has no answer to this task")
            tools = toolset_of(task)
        except Exception as error:
            tools = error
        for variant in variants:
            try:
                if isinstance(tools, Exception):
                    raise tools
                renamed = renamed_task(task, answer, variant, tools)
            except Exception as error:
                known = bad_record(error)
                known.where = known.where if known.where.startswith("line") else f"{where}: {known.where}".rstrip(": ")
                result.dead_letters.append(dead_dialogue(file, name, known, variant.name))
                result.counts.add("left_out", set=variant.name)
                continue
            result.counts.add("written", set=variant.name)
            for folder, record in zip(("", f"{ANSWERS}/"), renamed, strict=True):
                if record is not None:
                    lines.setdefault((variant.name, folder), []).append(record)
        seen.add(name)
    for where, answer in answers.values():
        unknown = InputError("unknown_task: no task has this id", "", where)
        result.dead_letters.append(dead_dialogue(beside, answer["id"], unknown))
        result.counts.add("unused_answers")
    if not result.counts.sum("tasks"):
        raise InputError("contains no tasks: expected JSON lines in BFCL's format", file.path)
    is_ascii = {"": data.isascii(), f"{ANSWERS}/": of_answers.isascii()}
    for (variant_name, folder), records_here in lines.items():
        text = "".join(json.dumps(record, ensure_ascii=is_ascii[folder]) + "\n" for record in records_here)
        result.written.append(write_staged(output, f"{variant_name}/{folder}{file.name}", text.encode()))
    return result


class TaskVariants(msgspec.Struct, frozen=True):
    """The files of tasks to rewrite, and the variants."""

    files: list[DialogueFile]
    variants: list[TaskVariant]

    @property
    def names(self) -> list[str]:
        """The names of the variants."""
        return [variant.name for variant in self.variants]

    def options(self) -> dict[str, object]:
        """Return the options that affect the content, for ``run.json``."""
        return {"variants": self.names}

    def tallies(self, counts: Counts) -> list[Tally]:
        """Return tallies of the tasks of each variant, and of answers without a task, which may be left out."""
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
    """Return the mapping of each variant."""
    return {f"{variant.name}/{NAMES}": variant.mapping for variant in config.variants}
