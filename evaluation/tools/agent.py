"""Agents that call tools: reads tasks in chunks, runs a language model with the tools, and writes rows of its calls."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

from parapet.evaluation.endpoint.asking import Asker, Prompt, Question, in_json
from parapet.evaluation.models import inference
from parapet.evaluation.models.inference import Answers, Part
from parapet.evaluation.tools.tasks import UNREADABLE, Expected, Message, ToolTask, read_tasks, request_of, with_request
from parapet.transforms.core import replies
from parapet.transforms.core.chat import Chat

_CHUNK = 64  # tasks
_JSON_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": None}  # BFCL's own types in JSON Schema
_MOST_CALLS = 16
REFUSED = {"refused": True}  # in a row without a result

Result = list[dict[str, Any]]


class Agent(Protocol):
    """The interface of an agent."""

    def results(self, tasks: Sequence[ToolTask]) -> list[Result | str]:
        """Returns the calls for each task as [{FUNCTION: ARGUMENTS}], or a text if the answer is text."""
        ...


class TaskFile(NamedTuple):
    """A file of tasks, and the path of its answers below the output folder; ``set`` is the name of its set."""

    set: str
    path: str
    answers: str


class Tasks(NamedTuple):
    """Some tasks of a file; ``number`` is that of the chunk."""

    file: TaskFile
    number: int
    tasks: tuple[Expected, ...]


class Job(inference.Job[TaskFile, Tasks, Agent], frozen=True, kw_only=True):
    """A prediction of tool calls.

    Attributes:
      inputs: the files of tasks.
    """

    unit: ClassVar[str] = "tasks"

    inputs: tuple[TaskFile, ...]

    def sources(self) -> Sequence[TaskFile]:
        """Lists the files."""
        return self.inputs

    def chunks(self, file: TaskFile) -> Iterator[Tasks]:
        """Yields chunks of the tasks of a file. Raises InputError if it cannot be read."""
        tasks = list(read_tasks(file.path).values())
        for first in range(0, len(tasks), _CHUNK):
            yield Tasks(file, first // _CHUNK, tuple(tasks[first : first + _CHUNK]))

    def asked(self, chunk: Tasks) -> dict[str, int]:
        """Counts the tasks."""
        return {f"asked/{chunk.file.answers}": len(chunk.tasks)}

    def load(self) -> Agent:
        """Not available: a language model takes the place of a trained one."""
        raise NotImplementedError

    def answer(self, model: Agent, chunk: Tasks) -> Answers:
        """Encodes rows for ``parapet evaluate --task tool_calls``."""
        results: Sequence[Any] = model.results([task.task for task in chunk.tasks])
        rows = [
            {"id": call.task.id, **(REFUSED if result is REFUSED else {"result": result})}
            for call, result in zip(chunk.tasks, results, strict=True)
        ]
        data = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        counts = {f"called/{chunk.file.answers}": len(rows)}
        if hosted := sum(len(call.task.hosted) for call in chunk.tasks):
            counts[f"hosted_tools/{chunk.file.answers}"] = hosted
        return Answers([Part(chunk.file.answers, (chunk.number,), data.encode("utf-8", "surrogatepass"))], counts)


class ToolCaller(Asker):
    """A language model that has the tools of each task.

    Args:
      chat: an open client.
      style: ``tools`` uses the API's function calling; ``json`` asks for a list of calls, for models without it.
      prompt: the prompt.
    """

    task = "tools"

    def __init__(self, chat: Chat, style: str = "tools", prompt: Prompt | None = None) -> None:
        super().__init__(chat, prompt)
        self.style = style

    def results(self, tasks: Sequence[ToolTask]) -> list[Result | str]:
        """Returns the calls for each task. Unreadable answers have no calls and count as wrong."""
        return self.each([self._question(task) for task in tasks])

    def _question(self, task: ToolTask) -> Question:
        functions = functions_of(task)
        tools = [*({"type": "function", "function": function} for function in functions), *task.hosted]
        parameters: dict[str, Any] = {"tools": tools} if tools else {}
        if self.style == "json":
            parameters = in_json({"calls": _calls_schema(functions)}, "calls")
        read = partial(_calls, named={legal: name for name, legal in task.legal_names.items()}, style=self.style)
        return Question({"id": task.id}, prompted(task, self.prompt, self.style), parameters, read, UNREADABLE, REFUSED)


def prompted(task: ToolTask, prompt: Prompt, style: str) -> list[Message]:
    """Returns the conversation of a task with what a prompt adds.

    Its block ``system`` precedes the conversation; its block ``user`` replaces the text of the user's last message.
    """
    messages = task.messages
    request = next((request_of(message) for message in reversed(messages) if message["role"] == "user"), "")
    added = prompt.messages(functions=functions_of(task), request=request, style=style)
    text = next((message["content"] for message in added if message["role"] == "user"), request.strip())
    if text != request.strip():
        messages = with_request(messages, text)
    return [*(message for message in added if message["role"] == "system"), *messages]


def functions_of(task: ToolTask) -> list[dict[str, Any]]:
    """Converts the tools for OpenAI's API: legal names, and BFCL's types in JSON Schema."""
    return [
        {
            "name": task.legal_names[tool.name],
            "description": tool.description,
            "parameters": {"type": "object", "properties": {}, **_json_schema(tool.parameters)},
        }
        for tool in task.function
    ]


def _calls_schema(functions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Makes the schema of a list of calls with each function's arguments, to which even weak models adhere."""
    calls = []
    for function in functions:
        arguments = function["parameters"]
        if "$ref" in json.dumps(arguments):  # references start at the root, which differs here
            arguments = {"type": "object"}
        named = {"name": {"type": "string", "enum": [function["name"]]}, "arguments": arguments}
        calls.append({"type": "object", "properties": named, "required": [*named], "additionalProperties": False})
    return {"type": "array", "items": {"anyOf": calls} if calls else {}, "maxItems": _MOST_CALLS if calls else 0}


def _json_schema(value: Any) -> Any:
    if isinstance(value, list):
        return [_json_schema(item) for item in value]
    if not isinstance(value, dict):
        return value
    new = {}
    for key, item in value.items():
        if key == "properties" and isinstance(item, dict):
            new[key] = {name: _json_schema(subschema) for name, subschema in item.items()}
        elif key == "type" and isinstance(item, str):
            new |= {} if (named := _JSON_TYPES.get(item, item)) is None else {key: named}
        elif key in ("default", "const", "enum", "examples"):
            new[key] = item
        elif key != "optional" and item is not None and not (key == "required" and isinstance(item, bool)):
            new[key] = _json_schema(item)
    return new


def _calls(reply: replies.Reply, named: Mapping[str, str], style: str) -> Result | str:
    """Returns the calls in an answer under the tools' own names; with style ``tools``, arguments stay text."""
    calls = reply.tool_calls
    if style == "json":
        listed = replies.object_in(reply.text, ("calls",)).get("calls")
        if not isinstance(listed, list):
            raise replies.Unreadable("no_calls")
        calls = [replies.call_of(call) or ("", "{}") for call in listed]
    elif not calls and (not reply.text.strip() or replies.is_meant_as_call(reply.text, named)):
        raise replies.Unreadable("not_a_call" if reply.text.strip() else "empty")
    result: Result = []
    for name, text in calls:
        if not name:
            raise replies.Unreadable("no_name")
        arguments = replies.arguments_in(text)
        result.append({named.get(replies.own_name(name, named), name): arguments if style == "json" else text})
    return result or (reply.text if style == "tools" else [])
