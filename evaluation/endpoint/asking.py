"""A language model in the place of a trained one: asked in threads, its answers kept as they came, what it would cost.

A job of another family says what is read and what is written; here the model that it asks is replaced.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from parapet.evaluation.models import inference
from parapet.evaluation.models.inference import Answers, Part
from parapet.schemas.errors import InputError
from parapet.transforms.running.chat import Chat, Endpoint, Message, Reply, characters
from parapet.transforms.running.fence import Refused, Stopped


class Unreadable(Exception):
    """An answer that does not say what was asked; the message is a word that says why."""


class Question(NamedTuple):
    """A request, and how its answer is read.

    Attributes:
      key: what is asked about, for the file of answers.
      messages: the conversation.
      parameters: further ones of the API.
      read: what an answer says; it raises Unreadable.
      wrong: what stands for an answer that cannot be read: it counts as wrong, whatever is right.
    """

    key: Mapping[str, object]
    messages: Sequence[Message]
    parameters: Mapping[str, Any]
    read: Callable[[Reply], Any]
    wrong: Any


class Asked(NamedTuple):
    """What a model was asked about and answered; ``unread`` says why the answer could not be read, if so."""

    key: Mapping[str, object]
    reply: Reply
    unread: str


class Asker:
    """Asks a model, several questions at a time.

    Args:
      chat: an open client.

    Attributes:
      asked: what was asked so far, in order.
    """

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self.asked: list[Asked] = []

    def each(self, questions: Sequence[Question]) -> list[Any]:
        """What the answer to each question says.

        Raises:
          InputError: no further answer can be had: the key is refused, or ``max_calls`` are made.
        """
        with ThreadPoolExecutor(self.chat.endpoint.parallel) as pool:
            answers = list(pool.map(self._ask, questions))
        self.asked += [asked for asked, _ in answers]
        return [found for _, found in answers]

    def _ask(self, question: Question) -> tuple[Asked, Any]:
        reply = Reply("")
        try:
            reply = self.chat.ask(question.messages, **question.parameters)
            return Asked(question.key, reply, ""), question.read(reply)
        except Stopped as error:
            raise InputError(str(error), self.chat.endpoint.url) from None
        except (Refused, Unreadable) as error:
            return Asked(question.key, reply, str(error)), question.wrong


class Job(inference.Job[Any, Any, Chat], frozen=True, kw_only=True):
    """What a language model predicts.

    Attributes:
      of: the job whose files are read and written.
      make: makes what it asks, from a client.
      endpoint: where the model answers; ``cache`` is the file of its answers.
      counted: the kind of counts by which ``of`` counts its answers.
    """

    of: inference.Job[Any, Any, Any]
    make: Callable[[Chat], Asker]
    endpoint: Endpoint
    cache: str
    counted: str

    def sources(self) -> Sequence[Any]:
        """Those of the other job, as all that follows."""
        return self.of.sources()

    def chunks(self, file: Any) -> Any:
        """Chunks of a file."""
        return self.of.chunks(file)

    def size(self, chunk: Any) -> int:
        """How many dialogues or turns it has."""
        return self.of.size(chunk)

    def named(self) -> str:
        """What the progress calls them."""
        return self.of.named()

    def asked(self, chunk: Any) -> Mapping[str, int]:
        """What should be answered."""
        return self.of.asked(chunk)

    def prepare(self) -> None:
        """Nothing is computed here."""

    def load(self) -> Chat:
        """A client of its own in each worker."""
        chat = Chat(self.endpoint, self.cache)
        chat.open()
        return chat

    def answer(self, chat: Chat, chunk: Any) -> Answers:
        """What the other job writes; further the answers as they came, and counts of tokens and unread answers."""
        asker = self.make(chat)
        answers = self.of.answer(asker, chunk)
        name = next(key for key in answers.counts if key.partition("/")[0] == self.counted).partition("/")[2]
        counts: Counter[str] = Counter()
        for one in asker.asked:
            counts["tokens_sent"] += one.reply.tokens[0]
            counts["tokens_answered"] += one.reply.tokens[1]
            counts["answers_had"] += 1
            counts["unread"] += bool(one.unread)
            if one.unread:
                counts[f"unread_{one.unread.partition(':')[0]}"] += 1
        stem = name.removeprefix("predictions/").removesuffix(".jsonl") or "turns"
        first = min(answers.parts)
        part = Part(f"answers/{stem}.jsonl", (first.path, *first.order), b"".join(map(_line, asker.asked)))
        named = {f"{kind}/{name}".rstrip("/"): n for kind, n in counts.items() if n}
        return Answers([*answers.parts, part], {**answers.counts, **named})


def _line(asked: Asked) -> bytes:
    """A row of ``answers/SET.jsonl``."""
    calls = [list(call) for call in asked.reply.tool_calls]
    row = {**asked.key, "text": asked.reply.text, "tool_calls": calls, "unread": asked.unread}
    return f"{json.dumps(row, ensure_ascii=False)}\n".encode("utf-8", "surrogatepass")


class Estimate(NamedTuple):
    """What a prediction takes: requests, those that the cache answers, and characters of the others."""

    calls: int
    kept: int
    characters: int


class _Counting(Chat):
    """A client that sends nothing and counts what it would send."""

    def __init__(self, endpoint: Endpoint, cache: str | Path | None) -> None:
        super().__init__(endpoint, cache)
        self.names: set[str] = set()
        self.kept = self.characters = 0
        self._one = threading.Lock()

    def ask(self, messages: Sequence[Message], **parameters: Any) -> Reply:
        _, name = self._request(messages, parameters)
        is_known = self.knows(messages, **parameters)
        with self._one:
            if name not in self.names:
                self.names.add(name)
                self.kept += is_known
                self.characters += 0 if is_known else characters(messages, parameters)
        raise Refused("dry_run: nothing is sent")


def estimate(job: Job) -> Estimate:
    """Makes every request without sending it."""
    chat = _Counting(job.endpoint, job.cache if Path(job.cache).exists() else None)  # which it would make
    chat.open()
    try:
        for file in job.sources():
            for chunk in job.chunks(file):
                job.answer(chat, chunk)
        return Estimate(len(chat.names), chat.kept, chat.characters)
    finally:
        chat.close()


def in_json(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The parameters of a request whose answer is an object of a JSON Schema; all its properties are required."""
    whole = {"type": "object", "properties": dict(schema), "required": list(schema), "additionalProperties": False}
    return {"response_format": {"type": "json_schema", "json_schema": {"name": name, "schema": whole}}}


def object_in(text: str) -> dict[str, Any]:
    """The JSON object of an answer, whatever stands around it. Raises Unreadable, ``not_json``."""
    if "{" in text and "}" in text:
        text = text[text.index("{") : text.rindex("}") + 1]  # ```json, an opener
    try:
        found = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Unreadable("not_json")
    return found
