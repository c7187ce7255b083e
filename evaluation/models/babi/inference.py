"""Predictions of the models for the bAbI dialog tasks: files of dialogues, each to a file of answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from parapet.evaluation.models import inference
from parapet.evaluation.models.babi import attention
from parapet.evaluation.models.babi.data import dialogues_in
from parapet.evaluation.models.babi.encoding import histories
from parapet.evaluation.models.babi.saving import Answerer, load
from parapet.evaluation.models.inference import Answers, Part
from parapet.schemas.layout import as_path
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.transforms.babi_format import BabiDialogue
from parapet.transforms.compressed import read_input

CHUNK = 64  # dialogues


class BabiFile(NamedTuple):
    """A file of dialogues.

    Attributes:
      path: where it is.
      answers: the path of its answers below the output folder.
      attention: the path of its attention there, without the extension.
    """

    path: str
    answers: str
    attention: str = ""


class BabiChunk(NamedTuple):
    """Some dialogues of a file; ``first`` is the number of the first of them."""

    file: BabiFile
    first: int
    dialogues: tuple[BabiDialogue, ...]


class Job(inference.Job[BabiFile, BabiChunk, Answerer], frozen=True, kw_only=True):
    """What is predicted.

    Attributes:
      memory: how many lines of history the model reads, the last ones; None for all.
      attention: how many dialogues of each file get files of what a memory network attends to; up to ``CHUNK``.
      inputs: the files of dialogues.
      top: how many answers are ranked; the best one alone where it is 1.
    """

    memory: int | None
    attention: int = 0
    inputs: tuple[BabiFile, ...]
    top: int = 1

    def sources(self) -> Sequence[BabiFile]:
        """The files of dialogues."""
        return self.inputs

    def chunks(self, file: BabiFile) -> Iterator[BabiChunk]:
        """The dialogues of a file, some at a time. Raises InputError where it cannot be read."""
        dialogues = dialogues_in(read_input(file.path, MAX_DIALOGUE_FILE), file.path)
        for first in range(0, len(dialogues), CHUNK):
            yield BabiChunk(file, first, tuple(dialogues[first : first + CHUNK]))

    def asked(self, chunk: BabiChunk) -> dict[str, int]:
        """The turns, and those with more history than the model reads."""
        lengths = [length for dialogue in chunk.dialogues for length in histories(dialogue)]
        counts = {f"turns/{chunk.file.answers}": len(lengths)}
        if self.memory is not None and (long := sum(length > self.memory for length in lengths)):
            counts[f"too_long/{chunk.file.answers}"] = long
        return counts

    def load(self) -> Answerer:
        """The model."""
        return load(self.folder, self.model, self.device, self.batch_size)[1]

    def answer(self, model: Answerer, chunk: BabiChunk) -> Answers:
        """The answers as JSON lines for ``parapet evaluate --task ranking``; counts them, and those that are empty."""
        ranked = model.ranked(chunk.dialogues, self.top)
        rows = [
            {"dialogue": number, "turn": turn, "answer": ranking[0], **({"answers": ranking} if self.top > 1 else {})}
            for number, rankings in enumerate(ranked, chunk.first)
            for turn, ranking in enumerate(rankings)
        ]
        path = chunk.file.answers
        counts = {f"answers/{path}": len(rows)}
        if empty := sum(not row["answer"] for row in rows):
            counts[f"empty/{path}"] = empty
        if unread := getattr(model, "not_understood", 0):
            counts[f"not_understood/{path}"] = unread
        data = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
        return Answers([Part(path, (chunk.first,), data), *self._attention(model, chunk, ranked)], counts)

    def _attention(self, model: Answerer, chunk: BabiChunk, ranked: Sequence[Sequence[list[str]]]) -> Iterator[Part]:
        """What a memory network attends to in the first dialogues of a file, which are all in its first chunk."""
        if not self.attention or chunk.first:
            return
        from parapet.evaluation.models.babi.nets import NetAnswers

        assert isinstance(model, NetAnswers)
        some = chunk.dialogues[: self.attention]
        found = list(attention.responses(chunk.first, some, ranked[: self.attention], model.attention(some)))
        yield Part(f"{chunk.file.attention}.jsonl", (), attention.lines_of(found))
        yield Part(f"{chunk.file.attention}.html", (), attention.page_of(as_path(chunk.file.path).name, found))
