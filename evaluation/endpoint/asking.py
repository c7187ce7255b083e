"""Uses a language model in place of a trained one: prompts, requests in threads, raw answers, and estimates of costs.

The job of another family reads and writes files; here its model is replaced. Prompts are Jinja templates with a block
for the system message and one for the user message, built in or the user's.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jinja2
import msgspec

from parapet.evaluation.endpoint.outcomes import REFUSALS, WITHOUT
from parapet.evaluation.models import inference
from parapet.evaluation.models.inference import Answers, Part
from parapet.evaluation.sets import run_name
from parapet.schemas.errors import InputError
from parapet.schemas.limits import read_text
from parapet.transforms.core.chat import Chat, Endpoint, Message, characters
from parapet.transforms.core.fence import Refused, Stopped
from parapet.transforms.core.replies import Reply, Unreadable, written_calls


class Question(NamedTuple):
    """A request, and how to read its answer.

    Attributes:
      key: identifies the question in the file of answers.
      messages: the conversation.
      parameters: further parameters of the API.
      read: parses an answer; raises Unreadable.
      wrong: replaces an answer that cannot be read; it always counts as wrong.
      refused: stands for the answer to a refused request, which is not scored; None if all answers are needed.
    """

    key: Mapping[str, object]
    messages: Sequence[Message]
    parameters: Mapping[str, Any]
    read: Callable[[Reply], Any]
    wrong: Any
    refused: Any = None


class Asked(NamedTuple):
    """A question and its answer.

    Attributes:
      unread: the reason why the answer could not be read, if so; ``refused`` the reason why there is none.
    """

    key: Mapping[str, object]
    reply: Reply
    unread: str = ""
    refused: str = ""


class Asker:
    """Sends questions to a model, several at a time.

    Args:
      chat: an open client.
      prompt: the prompt; None for the built-in one.

    Attributes:
      task: the name of the built-in prompt.
      asked: all questions and answers so far, in order.
      repetition: the number of the answers to each question, from 0.
    """

    task: ClassVar[str]
    repetition = 0

    def __init__(self, chat: Chat, prompt: Prompt | None = None) -> None:
        self.chat, self.prompt = chat, prompt or prompt_of(self.task)
        self.asked: list[Asked] = []

    def each(self, questions: Sequence[Question]) -> list[Any]:
        """Returns the parsed answer to each question.

        Raises:
          InputError: no more answers are available, or a refused one is needed.
        """
        with ThreadPoolExecutor(self.chat.endpoint.parallel) as pool:
            answers = list(pool.map(self._ask, questions))
        self.asked += [question for question, _ in answers]
        return [answer for _, answer in answers]

    def _ask(self, question: Question) -> tuple[Asked, Any]:
        reply = Reply("")
        try:
            reply = self.chat.ask(question.messages, self.repetition, **question.parameters)
            functions = [tool["function"] for tool in question.parameters.get("tools", ()) if "function" in tool]
            tools = {function["name"]: function["parameters"] for function in functions}
            if tools and not reply.tool_calls and (calls := written_calls(reply.text, tools)):
                reply = msgspec.structs.replace(reply, tool_calls=calls, written=True)
            return Asked(question.key, reply), question.read(reply)
        except Unreadable as error:
            return Asked(question.key, reply, unread=str(error)), question.wrong
        except Refused as error:
            if question.refused is None:
                raise InputError(f"{error}; earlier answers are kept, run again", self.chat.endpoint.url) from None
            return Asked(question.key, reply, refused=str(error)), question.refused
        except Stopped as error:
            raise InputError(str(error), self.chat.endpoint.url) from None


class Job(inference.Job[Any, Any, Chat], frozen=True, kw_only=True):
    """A prediction by a language model.

    Attributes:
      of: the job whose files are read and written.
      make: makes the asker, from a client.
      endpoint: the model's endpoint; ``cache`` is the file of its answers.
      counted: the kind of counts that ``of`` uses for its answers.
      repeats: the number of runs, each of which asks all questions; several have folders ``run-0``, ``run-1`` …
    """

    of: inference.Job[Any, Any, Any]
    make: Callable[[Chat], Asker]
    endpoint: Endpoint
    cache: str
    counted: str
    repeats: int = 1

    def sources(self) -> Sequence[Any]:
        """Lists the files of the other job. The following methods also delegate to it."""
        return self.of.sources()

    def chunks(self, file: Any) -> Any:
        """Splits a file into chunks."""
        return self.of.chunks(file)

    def size(self, chunk: Any) -> int:
        """Returns the number of dialogues or turns in a chunk."""
        return self.repeats * self.of.size(chunk)

    def named(self) -> str:
        """Returns the unit of progress."""
        return self.of.named()

    def asked(self, chunk: Any) -> Mapping[str, int]:
        """Counts the expected answers."""
        counts = self.of.asked(chunk)
        return counts if self.repeats == 1 else _of_runs([counts] * self.repeats)

    def prepare(self) -> None:
        """Computes nothing in advance."""

    def load(self) -> Chat:
        """Opens a client, one in each worker."""
        chat = Chat(self.endpoint, self.cache)
        chat.open()
        return chat

    def answer(self, chat: Chat, chunk: Any) -> Answers:
        """Returns the files and counts of all runs."""
        runs = [self._run(chat, chunk, repetition) for repetition in range(self.repeats)]
        if self.repeats == 1:
            return runs[0]
        parts = [part._replace(path=run_path(part.path, i)) for i, answers in enumerate(runs) for part in answers.parts]
        return Answers(parts, _of_runs([answers.counts for answers in runs]))

    def _run(self, chat: Chat, chunk: Any, repetition: int) -> Answers:
        """Returns the other job's files, the raw answers, and counts of tokens, unread answers and refused requests."""
        asker = self.make(chat)
        asker.repetition = repetition
        answers = self.of.answer(asker, chunk)
        name = next(key for key in answers.counts if key.partition("/")[0] == self.counted).partition("/")[2]
        counts: Counter[str] = Counter()
        for question in asker.asked:
            counts["tokens_sent"] += question.reply.tokens[0]
            counts["tokens_answered"] += question.reply.tokens[1]
            counts["answers_had"] += not question.refused
            counts["refused"] += bool(question.refused)
            counts["written_calls"] += len(question.reply.tool_calls) if question.reply.written else 0
            counts["unread"] += bool(question.unread)
            if question.unread:
                counts[f"unread_{question.unread.partition(':')[0]}"] += 1
        counts.update(dict.fromkeys((f"{WITHOUT}{parameter}" for parameter in chat.left_out), len(asker.asked)))
        stem = name.removeprefix("predictions/").removesuffix(".jsonl") or "turns"
        first = min(answers.parts)
        part = Part(f"answers/{stem}.jsonl", (first.path, *first.order), b"".join(map(_line, asker.asked)))
        named = {f"{kind}/{name}".rstrip("/"): n for kind, n in counts.items() if n}
        refusals = Counter(f"{REFUSALS}/{question.refused}" for question in asker.asked if question.refused)
        return Answers([*answers.parts, part], {**answers.counts, **named, **refusals})


def run_path(path: str, run: int) -> str:
    """Puts a file into the folder of its run: ``predictions/run-0/original/tasks.jsonl``."""
    folder, _, rest = path.partition("/")
    return f"{folder}/{run_name(run)}/{rest}".rstrip("/")


def _of_runs(counts: Sequence[Mapping[str, int]]) -> Counter[str]:
    """Adds up the counts of runs, ``KIND/NAME``, as ``KIND/run-0/NAME`` …; reasons of refusals have no run."""
    sums: Counter[str] = Counter()
    for i, of_run in enumerate(counts):
        for key, n in of_run.items():
            sums[key if key.startswith(f"{REFUSALS}/") else run_path(key, i)] += n
    return sums


def _line(asked: Asked) -> bytes:
    """Encodes a row of ``answers/SET.jsonl``."""
    calls = [list(call) for call in asked.reply.tool_calls]
    row = {**asked.key, "text": asked.reply.text, "tool_calls": calls, "unread": asked.unread}
    row |= {"refused": asked.refused} if asked.refused else {}
    return f"{json.dumps(row, ensure_ascii=False)}\n".encode("utf-8", "surrogatepass")


class Estimate(NamedTuple):
    """The numbers of requests, of requests that the cache answers, and of characters in the others."""

    calls: int
    kept: int
    characters: int


class _Counting(Chat):
    """A client that counts requests without sending them."""

    def __init__(self, endpoint: Endpoint, cache: str | Path | None) -> None:
        super().__init__(endpoint, cache)
        self.names: set[str] = set()
        self.kept = self.characters = 0
        self._one = threading.Lock()

    def ask(self, messages: Sequence[Message], repetition: int = 0, /, **parameters: Any) -> Reply:
        _, name = self._request(messages, parameters, repetition)
        is_known = self.knows(messages, repetition, **parameters)
        with self._one:
            if name not in self.names:
                self.names.add(name)
                self.kept += is_known
                self.characters += 0 if is_known else characters(messages, parameters)
        raise Refused("dry_run: nothing is sent")


def estimate(job: Job) -> Estimate:
    """Estimates a job by making every request without sending it."""
    chat = _Counting(job.endpoint, job.cache if Path(job.cache).exists() else None)  # opening would create the file
    chat.open()
    try:
        for file in job.sources():
            for chunk in job.chunks(file):
                job.answer(chat, chunk)
        return Estimate(len(chat.names), chat.kept, chat.characters)
    finally:
        chat.close()


def in_json(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Makes request parameters for an answer that is an object of a JSON Schema; all properties are required."""
    whole = {"type": "object", "properties": dict(schema), "required": list(schema), "additionalProperties": False}
    return {"response_format": {"type": "json_schema", "json_schema": {"name": name, "schema": whole}}}


_FLAG = "--prompt"


class Prompt(msgspec.Struct, frozen=True):
    """A template with the block ``user`` and optionally ``system``.

    Attributes:
      text: the text of the template.
      path: the path of its file.
    """

    text: str
    path: str

    def messages(self, **context: Any) -> list[dict[str, str]]:
        """Renders the messages of a request.

        Raises:
          InputError: the template uses an unknown name, or fails otherwise.
        """
        template = _compiled(self.text, self.path)
        messages = []
        for role in ("system", "user"):
            if block := template.blocks.get(role):
                try:
                    content = "".join(block(template.new_context(context))).strip()
                except (jinja2.TemplateError, TypeError, AttributeError) as error:
                    raise InputError(f"block {role}: {error}", self.path, _FLAG) from None
                messages += [{"role": role, "content": content}] if content else []
        return messages

    @property
    def about(self) -> dict[str, str]:
        """Describes the prompt for ``run.json``, by text and hash."""
        return {"sha256": hashlib.sha256(self.text.encode()).hexdigest(), "template": self.text}


def prompt_of(task: str, path: str | None = None) -> Prompt:
    """Returns the prompt of a task, or reads that of a file.

    Args:
      task: ``states``, ``ood``, ``utterances``, ``babi`` or ``entailment``.
      path: the path of a user's template, which has the same variables.

    Raises:
      InputError: the file cannot be read, is not a template, or has no block ``user``.
    """
    if path is None:
        folder = resources.files(__package__) / "templates"
        return Prompt((folder / f"{task}.jinja").read_text(encoding="utf-8"), f"{task}.jinja")
    prompt = Prompt(read_text(path), path)
    if "user" not in _compiled(prompt.text, path).blocks:
        raise InputError("requires {% block user %} ... {% endblock %}, the prompt for each example", path, _FLAG)
    return prompt


@cache
def _compiled(text: str, path: str) -> jinja2.Template:
    environment = jinja2.Environment(  # noqa: S701 - plain text for a model, no page
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    try:
        return environment.from_string(text)
    except jinja2.TemplateSyntaxError as error:
        raise InputError(f"not a template: {error.message}", path, f"line {error.lineno}") from None
