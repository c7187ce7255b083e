"""Agents' tasks in BFCL's format: a request and tools, with the right calls in a separate file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.evaluation.sets import ORIGINAL, existing_file, read_lines
from parapet.evaluation.tools.checking import Call
from parapet.evaluation.user_code import UserCode, make, running
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, check_published, files_of_tasks, is_there
from parapet.schemas.tasks import answers_beside

_BATCH = 64  # tasks that a user's class receives at a time


class Tool(msgspec.Struct, frozen=True):
    """A function of a task, in BFCL's format."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


class ToolTask(msgspec.Struct, frozen=True):
    """A line of a file of tasks.

    Attributes:
      id: such as ``simple_python_0``.
      question: turns, each a list of messages.
      function: the tools.
    """

    id: str
    question: list[list[dict[str, Any]]]
    function: list[Tool]

    @property
    def category(self) -> str:
        """The id without its number."""
        name, _, number = self.id.rpartition("_")
        return name if name and number.replace("-", "").isdigit() else self.id

    @property
    def request(self) -> str:
        """The user's messages."""
        user_messages = [message for turn in self.question for message in turn if message.get("role") == "user"]
        return "\n".join(str(message.get("content", "")) for message in user_messages)


class _Truth(msgspec.Struct, frozen=True):
    id: str
    ground_truth: list[dict[str, dict[str, list[Any]]]]


class _Row(msgspec.Struct, frozen=True):
    id: str
    result: Any = None
    refused: bool = False


class Expected(msgspec.Struct, frozen=True):
    """A task with the right calls, empty if no call is right; ``action`` is that of a recorded trajectory."""

    task: ToolTask
    calls: list[dict[str, dict[str, list[Any]]]]
    action: Any = None

    @property
    def category(self) -> str:
        """The category of the task; for an action in a trajectory, its function."""
        return self.action.name if self.action is not None else self.task.category


def list_files(reference: Sequence[str], sets: Mapping[str, str]) -> dict[str, list[str]]:
    """Lists the files of tasks of each set: ``original`` has those of the reference.

    Args:
      reference: files, or folders with ``*.json``.
      sets: name to a file or a folder.

    Raises:
      InputError: a file or folder is missing or has no tasks, or two files of a set have the same name.
    """
    files: dict[str, list[str]] = {ORIGINAL: [path for root in reference for path in _files(root, "--reference")]}
    files |= {name: _files(root, "--sets") for name, root in sets.items()}
    for name, paths in files.items():
        names = [as_path(path).stem for path in paths]
        if twice := next((stem for stem in names if names.count(stem) > 1), ""):
            raise InputError(f"two files of {name} are called {twice!r}", "--reference")
    return files


def _files(root: str, flag: str) -> list[str]:
    if not is_there(root):
        raise InputError("there is no such file or folder", root, flag)
    folder = as_path(root)
    if not folder.is_dir():
        return [root]
    check_published(folder, flag)
    paths = [str(path) for path in files_of_tasks(folder)]
    if not paths:
        raise InputError("contains no tasks: expected files such as BFCL_v4_simple_python.json", root, flag)
    return paths


def predictions_of(path: str, name: str, tasks: str) -> str:
    """Returns the file of the answers to a file of tasks.

    Args:
      path: that file, or a folder with ``SET/FILE`` (for the original also ``FILE``); BFCL adds ``_result`` to names.
      name: the name of the set.
      tasks: the file of tasks.

    Raises:
      InputError: there is none.
    """
    folder = as_path(path)
    if not folder.is_dir():
        return path
    within = folder / name if name != ORIGINAL or (folder / name).is_dir() else folder
    stem = Path(tasks).stem
    for candidate in (f"{stem}{more}{ending}" for more in ("", "_result") for ending in (".jsonl", ".json")):
        if (within / candidate).is_file():
            return str(within / candidate)
    raise InputError(f"contains no answers: expected {stem}.jsonl", within, "--predictions")


def read_tasks(path: str) -> dict[str, Expected]:
    """Reads the tasks of a file by id, with their right calls. Raises InputError with the line."""
    tasks = _by_id(path, ToolTask)
    truth = answers_beside(as_path(path))
    answers = _by_id(str(truth), _Truth) if truth.is_file() else {}
    if missing := [name for name, task in tasks.items() if name not in answers and "irrelevance" not in task.category]:
        raise InputError(f"has no correct calls for {missing[0]!r}; {len(missing):,} tasks lack them in all", truth)
    if not tasks:
        raise InputError("contains no tasks", path)
    for number, task in enumerate(tasks.values(), 1):
        _check(task, answers.get(task.id), path, f"line {number}")
    return {name: Expected(task, answers[name].ground_truth if name in answers else []) for name, task in tasks.items()}


def _check(task: ToolTask, truth: _Truth | None, path: str, where: str) -> None:
    names = [tool.name for tool in task.function]
    for call in truth.ground_truth if truth else ():
        if len(call) != 1:
            raise InputError(
                f"the correct calls of {task.id!r} must have the form {{FUNCTION: {{PARAMETER: [VALUE]}}}}", path, where
            )
        if (name := next(iter(call))) not in names:
            raise InputError(
                f"the correct call of {task.id!r} is {name!r}, which is not a tool of the task", path, where
            )


def _by_id(path: str, kind: type[Any]) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for number, row in read_lines(str(existing_file(path)), kind):
        if row.id in rows:
            raise InputError(f"{row.id!r} appears twice", path, f"line {number}")
        rows[row.id] = row
    return rows


def read_answers(path: str, tasks: Mapping[str, Expected]) -> dict[str, list[Call] | None]:
    """Reads the calls for each task; None if the answer is unreadable. Refused requests are left out.

    A row is ``{"id", "result": [{FUNCTION: {PARAMETER: VALUE}}]}``; the arguments may be JSON as text. A text as the
    result calls nothing.

    Raises:
      InputError: a task has no row or several, or a row has no task; with the line.
    """
    rows = _by_id(path, _Row)
    for name in rows:
        if name not in tasks:
            raise InputError(f"there is no task {name!r}", path)
    if missing := [name for name in tasks if name not in rows]:
        raise InputError(f"there is no answer for {missing[0]!r}; {len(missing):,} are missing in all", path)
    return {name: calls_of(rows[name].result) for name in tasks if not rows[name].refused}


def calls_by(model: UserCode, tasks: Mapping[str, Expected]) -> dict[str, list[Call] | None]:
    """Runs a user's class, function or object, whose ``predict`` receives batches of tasks.

    Raises:
      InputError: the numbers of answers and tasks differ.
      UserCodeError: its code raises an exception.
    """
    predict = make(model, "predict")
    names, calls = list(tasks), dict[str, list[Call] | None]()
    for first in range(0, len(names), _BATCH):
        some = names[first : first + _BATCH]
        with running(model, f"failed in predict on the tasks {some[0]!r} to {some[-1]!r}"):
            answers = list(predict([tasks[name].task for name in some]))
        if len(answers) != len(some):
            raise model.refused(f"returned {len(answers)} answers for {len(some)} tasks")
        calls |= {name: calls_of(answer) for name, answer in zip(some, answers, strict=True)}
    return calls


def with_dots(calls: list[Call] | None, task: ToolTask) -> list[Call] | None:
    """Restores the tools' own names in calls that have underscores for dots."""
    names = {tool.name.replace(".", "_"): tool.name for tool in task.function}
    return calls and [{names.get(name, name): arguments for name, arguments in call.items()} for call in calls]


def calls_of(result: Any) -> list[Call] | None:
    """Parses the calls in an answer; None if it is unreadable."""
    if result is None or isinstance(result, str):
        return [] if not str(result or "").strip().startswith("[") else _parsed(str(result))
    if isinstance(result, dict):
        result = [result]
    if not isinstance(result, list):
        return None
    calls: list[Call] = []
    for call in result:
        if not isinstance(call, dict) or len(call) != 1:
            return None
        (name, arguments) = next(iter(call.items()))
        if isinstance(arguments, str):
            arguments = _json(arguments or "{}")
        if not isinstance(arguments, dict):
            return None
        calls.append({name: arguments})
    return calls


def _parsed(text: str) -> list[Call] | None:
    value = _json(text)
    return calls_of(value) if isinstance(value, list) else None


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
