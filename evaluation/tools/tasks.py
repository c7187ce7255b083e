"""Agents' tasks in BFCL's format: a request and tools, the right calls in a separate file, and the answers.

The conversation of a task becomes messages of OpenAI's API, which are the same unless an API refuses them.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.evaluation.sets import ORIGINAL, existing_file, read_lines
from parapet.evaluation.tools.checking import Call
from parapet.evaluation.user_code import UserCode, running
from parapet.schemas import layout, limits
from parapet.schemas.errors import InputError
from parapet.schemas.tasks import answers_beside
from parapet.schemas.tools import Tool as Definition
from parapet.schemas.tools import is_hosted
from parapet.transforms.core.replies import as_text, call_of, python_calls, text_of

UNREADABLE = {"unreadable": True}  # stands for the calls of an answer that is wrong, whatever is right

_BATCH = 64  # tasks that a user's class receives at a time
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST = 64  # characters of a name that APIs accept
_LIKE_A_CALL = re.compile(r"[`\s]*(?:\w+\n\s*)?(?:[\[{]|[\w.]+\()")
_KINDS: Mapping[str, type] = {"properties": dict, "required": list}


class Tool(msgspec.Struct, frozen=True):
    """A function of a task; ``parameters`` is the JSON Schema of its arguments, in BFCL's types or the usual ones."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


class _TaskRow(msgspec.Struct, frozen=True):
    id: str
    question: list[list[Message]]
    function: list[Any]


class ToolTask(msgspec.Struct, frozen=True):
    """A line of a file of tasks.

    Attributes:
      id: such as ``simple_python_0``.
      question: turns, each a list of messages.
      function: the tools.
      hosted: the definitions of tools that the API itself runs.
    """

    id: str
    question: list[list[Message]]
    function: list[Tool]
    hosted: list[dict[str, Any]] = []

    @property
    def category(self) -> str:
        """The id without its number."""
        name, _, number = self.id.rpartition("_")
        return name if name and number.replace("-", "").isdigit() else self.id

    @property
    def request(self) -> str:
        """The texts of the user's messages."""
        user_messages = [message for turn in self.question for message in turn if message.get("role") == "user"]
        return "\n".join(filter(None, map(request_of, user_messages)))

    @property
    def schemas(self) -> dict[str, dict[str, Any]]:
        """The tools' names to the schemas of their arguments."""
        return {tool.name: tool.parameters for tool in self.function}

    @property
    def legal_names(self) -> dict[str, str]:
        """The tools' names to different ones that the API allows."""
        return legal_names(tool.name for tool in self.function)

    @property
    def messages(self) -> list[Message]:
        """The conversation, with legal names in earlier calls. Raises InputError if it is not one."""
        return messages_of(self.question, self.legal_names)


class _Truth(msgspec.Struct, frozen=True):
    id: str
    ground_truth: list[dict[str, dict[str, list[Any]]]]


class _Row(msgspec.Struct, frozen=True):
    id: str
    result: Any = None
    refused: bool = False


class Expected(msgspec.Struct, frozen=True):
    """A task with the right calls, empty if no call is right."""

    task: ToolTask
    calls: list[dict[str, dict[str, list[Any]]]]


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
        names = [layout.as_path(path).stem for path in paths]
        if twice := next((stem for stem in names if names.count(stem) > 1), ""):
            raise InputError(f"two files of {name} are called {twice!r}", "--reference")
    return files


def _files(root: str, flag: str) -> list[str]:
    if not layout.is_there(root):
        raise InputError("there is no such file or folder", root, flag)
    folder = layout.as_path(root)
    if not folder.is_dir():
        return [root]
    layout.check_published(folder, flag)
    paths = [str(path) for path in layout.files_of_tasks(folder)]
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
    folder = layout.as_path(path)
    if not folder.is_dir():
        return path
    within = folder / name if name != ORIGINAL or (folder / name).is_dir() else folder
    stem = Path(tasks).stem
    for candidate in (f"{stem}{more}{ending}" for more in ("", "_result") for ending in (".jsonl", ".json")):
        for path_of_answers in (within / candidate, *sorted(within.glob(f"*/{candidate}"))):
            if path_of_answers.is_file():  # BFCL has a folder for each group of categories
                return str(path_of_answers)
    raise InputError(f"contains no answers: expected {stem}.jsonl", within, "--predictions")


def legal_names(names: Iterable[str]) -> dict[str, str]:
    """Maps names of tools to different ones that APIs accept: at most 64 letters, digits, underscores and hyphens.

    Of names that would become equal, those that are not legal end in a hash, whatever the order of the tools.
    """
    cleaned = {name: _ILLEGAL.sub("_", name)[:_LONGEST] for name in names}
    counts = Counter(cleaned.values())
    legal: dict[str, str] = {}
    for name, new in cleaned.items():
        digest, prefix = name, new[: _LONGEST - 9]
        while new != name and (counts[new] > 1 or new in legal.values()):
            digest = hashlib.sha256(digest.encode("utf-8", "surrogatepass")).hexdigest()
            new = f"{prefix}_{digest[:8]}"
        legal[name] = new
    return legal


def read_tasks(path: str) -> dict[str, Expected]:
    """Reads the tasks of a file by id, with their right calls. Raises InputError with the line."""
    tasks = {name: (where, _task(row, path, where)) for name, (where, row) in _by_id(path, _TaskRow).items()}
    truth = answers_beside(layout.as_path(path))
    answers = {name: row for name, (_, row) in _by_id(str(truth), _Truth).items()} if truth.is_file() else {}
    lacking = [name for name, (_, task) in tasks.items() if name not in answers and "irrelevance" not in task.category]
    if lacking:
        raise InputError(f"has no correct calls for {lacking[0]!r}; {len(lacking):,} tasks lack them in all", truth)
    if not tasks:
        raise InputError("contains no tasks", path)
    for where, task in tasks.values():
        _check(task, answers.get(task.id), path, where)
    return {
        name: Expected(task, answers[name].ground_truth if name in answers else []) for name, (_, task) in tasks.items()
    }


def _task(row: _TaskRow, path: str, where: str) -> ToolTask:
    """Makes a task, whose tools may be in any dialect. Raises InputError with the place of what cannot be read."""
    tools: dict[str, Tool] = {}
    hosted: list[dict[str, Any]] = []
    for i, raw in enumerate(row.function):
        if is_hosted(raw):
            hosted.append(raw)
            continue
        try:
            definition = Definition(raw)
        except InputError as error:
            raise InputError(error.reason, path, f"{where}: /function/{i}{error.where}") from None
        if definition.name in tools:
            raise InputError(f"the name {definition.name!r} appears twice", path, f"{where}: /function/{i}")
        parameters = {
            key: value
            for key, value in definition.parameters.root.items()
            if value is not None and isinstance(value, _KINDS.get(key, object))
        }
        tools[definition.name] = Tool(definition.name, definition.description, parameters)
    task = ToolTask(row.id, row.question, list(tools.values()), hosted)
    try:
        _ = task.messages
    except InputError as error:
        raise InputError(error.reason, path, f"{where}: {error.where}") from None
    return task


def _check(task: ToolTask, truth: _Truth | None, path: str, where: str) -> None:
    names = [tool.name for tool in task.function]
    for call in truth.ground_truth if truth else ():
        if len(call) != 1:
            reason = f"the correct calls of {task.id!r} must have the form {{FUNCTION: {{PARAMETER: [VALUE]}}}}"
            raise InputError(reason, path, where)
        if (name := next(iter(call))) not in names:
            reason = f"the correct call of {task.id!r} is {name!r}, which is not a tool of the task"
            raise InputError(reason, path, where)


def _by_id(path: str, kind: type[Any]) -> dict[str, tuple[str, Any]]:
    """Reads rows by id, with their place."""
    rows: dict[str, tuple[str, Any]] = {}
    for number, row in read_lines(str(existing_file(path)), kind):
        if row.id in rows:
            raise InputError(f"{row.id!r} appears twice", path, f"line {number}")
        rows[row.id] = f"line {number}", row
    return rows


def read_answers(path: str, tasks: Mapping[str, Expected]) -> dict[str, list[Call] | None]:
    """Reads the calls for each task; None if the answer is unreadable. Refused requests are left out.

    A row is ``{"id", "result": [{FUNCTION: {PARAMETER: VALUE}}]}``; the arguments may be JSON as text. The result of a
    model that is prompted is a text with calls in Python's syntax; other texts call nothing. Names may be those that an
    API accepts.

    Raises:
      InputError: a task has no row or several, or a row has no task; with the line.
    """
    rows = _by_id(path, _Row)
    for name in rows:
        if name not in tasks:
            raise InputError(f"there is no task {name!r}", path)
    if missing := [name for name in tasks if name not in rows]:
        raise InputError(f"there is no answer for {missing[0]!r}; {len(missing):,} are missing in all", path)
    return {
        name: _with_own_names(rows[name][1].result, task.task)
        for name, task in tasks.items()
        if not rows[name][1].refused
    }


def calls_by(
    model: UserCode, predict: Callable[..., Any], tasks: Mapping[str, Expected]
) -> dict[str, list[Call] | None]:
    """Runs a user's class, function or object, whose ``predict`` receives batches of tasks.

    Args:
      model: names it, for messages.
      predict: what :func:`parapet.evaluation.user_code.make` returns for it.
      tasks: the tasks by id.

    Raises:
      InputError: the numbers of answers and tasks differ.
      UserCodeError: its code raises an exception.
    """
    names, calls = list(tasks), dict[str, list[Call] | None]()
    for first in range(0, len(names), _BATCH):
        some = names[first : first + _BATCH]
        with running(model, f"failed in predict on the tasks {some[0]!r} to {some[-1]!r}"):
            answers = list(predict([tasks[name].task for name in some]))
        if len(answers) != len(some):
            raise model.refused(f"returned {len(answers)} answers for {len(some)} tasks")
        calls |= {name: _with_own_names(answer, tasks[name].task) for name, answer in zip(some, answers, strict=True)}
    return calls


def _with_own_names(result: Any, task: ToolTask) -> list[Call] | None:
    """Parses the calls in an answer. Names that an API made are put back, as in BFCL's results of function calling."""
    calls = calls_of(result)
    if not calls or isinstance(result, str):
        return calls
    names = {tool.name: tool.name for tool in task.function}
    dotted = Counter(name.replace(".", "_") for name in names)
    own = {name.replace(".", "_"): name for name in names if dotted[name.replace(".", "_")] == 1}
    own |= {legal: name for name, legal in task.legal_names.items()}
    own |= names
    return [{own.get(name, name): arguments for name, arguments in call.items()} for call in calls]


def calls_of(result: Any) -> list[Call] | None:
    """Parses the calls in an answer; None if it is unreadable."""
    if result is None or isinstance(result, str):
        return _written(result or "")
    if result == UNREADABLE:
        return [UNREADABLE]
    if isinstance(result, dict):
        result = [result]
    if not isinstance(result, list):
        return None
    calls: list[Call] = []
    for call in result:
        if isinstance(call, dict) and len(call) == 1 and "function" not in call:
            (name, arguments) = next(iter(call.items()))
        elif call_in_other_form := call_of(call):
            name, arguments = call_in_other_form
        else:
            return None
        if not isinstance(arguments, dict):
            arguments = _json(as_text(arguments))
        if not isinstance(arguments, dict):
            return None
        calls.append({name: arguments})
    return calls


def _written(text: str) -> list[Call] | None:
    """Parses the calls in a text: JSON or Python's syntax."""
    if isinstance(value := _json(text), list | dict):
        return calls_of(value)
    calls = python_calls(text)
    return [*calls] if calls is not None else None if _LIKE_A_CALL.match(text) else []


def _json(text: str) -> Any:
    try:
        return limits.parse_json_line(text)
    except ValueError:
        return None


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
            _check_message(original, f"question[{i}][{j}]")
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


def _check_message(message: Message, where: str) -> None:
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
