"""BFCL tasks, and the calls that they expect, under the names of tool variants.

A task and its answer form one record: if one of them cannot be renamed, neither is written.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from parapet.schemas import dialogue, layout, limits
from parapet.schemas.errors import InputError
from parapet.schemas.rows import collection_paused
from parapet.schemas.tasks import ANSWERS, answers_beside, is_task, records
from parapet.schemas.tools import Toolset
from parapet.transforms.core import fence, runs
from parapet.transforms.core.counts import Balance, CountKey, Counts, Equal, Invariant, Tally, dead_dialogue, of_files
from parapet.transforms.perturb.files import write_rows
from parapet.transforms.variants.tool_variants import TaskVariant, renamings_of


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
        return [Equal({CountKey("files"): len(self.files)}), Balance("tasks", ["written", "left_out"], sets=self.names)]


def metadata_files(counts: Counts, _: object, config: TaskVariants) -> dict[str, bytes]:
    """Returns the mapping of each variant."""
    return {f"{name}/{layout.NAMES}": mapping for name, mapping in config.mappings.items()}
