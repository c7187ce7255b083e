"""A language model behind an endpoint as a tracker of dialogue states: requests of a chunk at a time, in threads."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from parapet.evaluation.dst.model import Example, examples, predicted
from parapet.evaluation.dst.written import frames_in, json_of
from parapet.evaluation.endpoint.prompts import Style, Unreadable, request, state_of, unreadable_state
from parapet.evaluation.models.inference import Answers, Dialogues, DialoguesJob, Part
from parapet.schemas.errors import InputError
from parapet.transforms.running.chat import Chat, Endpoint, Reply, characters
from parapet.transforms.running.fence import Refused, Stopped

_CHUNK = 64  # dialogues: some hundred requests, so that few threads wait for the last ones


class Asked(NamedTuple):
    """What a model was asked, what it answered, and why that is no state; empty where it is one."""

    example: Example
    reply: Reply
    unread: str


class LanguageModel:
    """A tracker, as ``parapet evaluate --model`` takes it; in Python for :func:`parapet.score_states`, too.

    Args:
      chat: an open client.
      style: how states are asked for.
      normalise: whether values are spelled as the schema or the dialogue has them.

    Attributes:
      asked: what has been asked so far.
    """

    def __init__(self, chat: Chat, style: Style = "json", normalise: bool = True) -> None:
        self.chat, self.style, self.normalise = chat, style, normalise
        self.asked: list[Asked] = []

    def predict(self, batch: Sequence[Example]) -> list[dict[str, Any]]:
        """A state for each example. An answer that cannot be read is a state that is wrong.

        Raises:
          InputError: no further answer can be had: the key is refused, or ``max_calls`` are made.
        """
        with ThreadPoolExecutor(self.chat.endpoint.parallel) as pool:
            answers = list(pool.map(self._ask, batch))
        self.asked += [asked for asked, _ in answers]
        return [state for _, state in answers]

    def _ask(self, example: Example) -> tuple[Asked, dict[str, Any]]:
        messages, parameters = request(example, self.style)
        try:
            reply = self.chat.ask(messages, **parameters)
        except Stopped as error:
            raise InputError(str(error), self.chat.endpoint.url) from None
        except Refused as error:
            return Asked(example, Reply(""), str(error)), unreadable_state(example.service)
        try:
            return Asked(example, reply, ""), state_of(reply, example, self.style, self.normalise)
        except Unreadable as error:
            return Asked(example, reply, str(error)), unreadable_state(example.service)


class Job(DialoguesJob[LanguageModel], frozen=True, kw_only=True):
    """What a language model predicts.

    Attributes:
      endpoint: where it answers.
      style: how it is asked.
      cache: the file of its answers.
      normalise: see :class:`LanguageModel`.
    """

    chunk_size = _CHUNK

    endpoint: Endpoint
    style: Style
    cache: str
    normalise: bool

    def prepare(self) -> None:
        """Nothing is computed here."""

    def asked(self, chunk: Dialogues) -> Mapping[str, int]:
        """The frames of user turns."""
        return {f"asked/{chunk.file.set}": frames_in(chunk.dialogues)}

    def load(self) -> LanguageModel:
        """The tracker, with a client of its own in each worker."""
        chat = Chat(self.endpoint, self.cache)
        chat.open()
        return LanguageModel(chat, self.style, self.normalise)

    def answer(self, model: LanguageModel, chunk: Dialogues) -> Answers:
        """The dialogues with predicted states, and the answers as they came."""
        name, file = chunk.file.set, chunk.file.predictions
        model.asked.clear()
        states = predicted(model, chunk.dialogues, self.sets[name].services, 1 << 30, self.model)
        data, frames = json_of(chunk.dialogues, states)
        counts = Counter({f"predicted/{name}": frames})
        for asked in model.asked:
            counts[f"tokens_sent/{name}"] += asked.reply.tokens[0]
            counts[f"tokens_answered/{name}"] += asked.reply.tokens[1]
            counts[f"unread/{name}"] += bool(asked.unread)
            if asked.unread:
                counts[f"unread_{asked.unread.partition(':')[0]}/{name}"] += 1
        answers = b"".join(map(_line, model.asked))
        parts = [Part(file, (chunk.number,), data), Part(f"answers/{name}.jsonl", (file, chunk.number), answers)]
        return Answers(parts, {key: n for key, n in counts.items() if n})


def _line(asked: Asked) -> bytes:
    """A row of ``answers/SET.jsonl``."""
    of = asked.example
    row = {
        "dialogue_id": of.dialogue_id,
        "turn": of.turn,
        "service": of.service.service_name,
        "text": asked.reply.text,
        "tool_calls": [list(call) for call in asked.reply.tool_calls],
        "unread": asked.unread,
    }
    return f"{json.dumps(row, ensure_ascii=False)}\n".encode("utf-8", "surrogatepass")


class Estimate(NamedTuple):
    """What a prediction takes: requests, those that the cache answers, and characters of the others."""

    calls: int
    kept: int
    characters: int


def estimate(job: Job) -> Estimate:
    """Makes every request without sending it."""
    chat = Chat(job.endpoint, job.cache if Path(job.cache).exists() else None)  # which it would make
    chat.open()
    try:
        calls = kept = size = 0
        for messages, parameters in _requests(job):
            calls += 1
            if chat.knows(messages, **parameters):
                kept += 1
            else:
                size += characters(messages, parameters)
        return Estimate(calls, kept, size)
    finally:
        chat.close()


def _requests(job: Job) -> Iterator[tuple[list[dict[str, str]], dict[str, Any]]]:
    for example in _examples(job):
        yield request(example, job.style)


def _examples(job: Job) -> Iterable[Example]:
    for file in job.sources():
        for chunk in job.chunks(file):
            for dialogue in chunk.dialogues:
                yield from examples(dialogue, job.sets[file.set].services)
