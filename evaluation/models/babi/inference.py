"""Predictions for the bAbI dialog tasks: files of answers, and of a memory network's attention (Tables 3 to 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from parapet.evaluation.models import inference, saving
from parapet.evaluation.models.babi.data import Answerer, Card, dialogues_in, histories, read_card, spoken
from parapet.evaluation.models.inference import Answers, Part
from parapet.schemas.layout import as_path
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.transforms.core.inputs import read_input
from parapet.transforms.report.report import render
from parapet.transforms.simulators.babi_format import BabiDialogue


def load(folder: str, model: str, device: str, batch: int) -> tuple[Card, Answerer]:
    """Loads a model; also returns its card.

    Args:
      folder: the folder of the model.
      model: the expected kind of model.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: turns at a time.

    Raises:
      InputError: the model is missing, of another kind, or damaged.
    """
    card = read_card(folder, model)
    return card, _answerer(folder, card, device, batch)


def _answerer(folder: str, card: Card, device: str, batch: int) -> Answerer:
    # These import torch, which a card does not need.
    if card.script is not None:
        from parapet.evaluation.models.babi.baselines import ScriptBot

        return ScriptBot(card.script, card.knowledge, card.candidates)
    if card.model == "rules":
        from parapet.evaluation.models.babi.baselines import RuleBot

        return RuleBot(card.ontology, card.knowledge)
    from parapet.evaluation.models.babi.baselines import Nearest, TfIdf
    from parapet.evaluation.models.babi.nets import NetAnswers, Vocabulary, make
    from parapet.evaluation.models.saving import device_of

    if card.model == "nearest":
        return Nearest(card.pairs, card.candidates, card.similarity)
    if card.model == "tfidf":
        return TfIdf(card.candidates, card.knowledge, card.idf, card.history)
    vocabulary = Vocabulary(card.words, card.candidates, card.knowledge)
    net = make(card.model, vocabulary, card.settings)
    saving.load_weights(net, folder)
    return NetAnswers(net, vocabulary, device_of(device), batch)


DIGITS = 6


SPEAKERS = ("User", "Bot")


Weights = Sequence[Sequence[float]]  # for each hop, the weight of each memory, the earliest memory first


class Memory(msgspec.Struct, frozen=True):
    """A line in the memory.

    Attributes:
      time: its number in the dialogue, from 1.
      speaker: ``User``, also for facts, or ``Bot``.
      text: the line.
      attention: p_i of each hop, from 0 to 1.
    """

    time: int
    speaker: str
    text: str
    attention: list[float]


class Response(msgspec.Struct, frozen=True):
    """A response with the model's attention.

    Attributes:
      dialogue, turn: numbers, from 0, as in the file of answers.
      memories: in order.
      input: the user's utterance.
      correct: the reference's response.
      predicted: the model's responses, the best first.
    """

    dialogue: int
    turn: int
    memories: list[Memory]
    input: str
    correct: str
    predicted: list[str]

    @property
    def marked(self) -> list[tuple[str, bool]]:
        """(predicted answer, whether it is correct), in order."""
        return [(answer, answer.strip() == self.correct.strip()) for answer in self.predicted]


def responses(
    first: int,
    dialogues: Iterable[BabiDialogue],
    ranked: Iterable[Sequence[list[str]]],
    weights: Iterable[Sequence[Weights]],
) -> Iterator[Response]:
    """Yields the responses of some dialogues.

    Args:
      first: the number of the first dialogue.
      dialogues: the dialogues.
      ranked: for each dialogue and turn, the model's answers, the best first.
      weights: for each dialogue and turn, the weights of the last lines, as many as the memory holds.
    """
    for number, (dialogue, predicted, of_turns) in enumerate(zip(dialogues, ranked, weights, strict=True), first):
        lines = [(SPEAKERS[speaker], text) for line in dialogue.lines for speaker, text in spoken(line)]
        for turn, (exchange, answers, before, hops) in enumerate(
            zip(dialogue.exchanges, predicted, histories(dialogue), of_turns, strict=True)
        ):
            held = len(hops[0]) if hops else 0
            memories = [
                Memory(time + 1, *lines[time], [round(hop[i], DIGITS) for hop in hops])
                for i, time in enumerate(range(before - held, before))
            ]
            yield Response(number, turn, memories, exchange.user, exchange.bot, answers)


def lines_of(found: Iterable[Response]) -> bytes:
    """Encodes the responses as JSON lines."""
    return b"".join(msgspec.json.encode(response) + b"\n" for response in found)


def page_of(name: str, found: Sequence[Response]) -> bytes:
    """Makes an HTML page with a table for each response.

    Args:
      name: the name of the file of dialogues.
      found: the responses.
    """
    dialogues = [(number, list(rows)) for number, rows in groupby(found, key=lambda response: response.dialogue)]
    hops = max((len(memory.attention) for response in found for memory in response.memories), default=0)
    right = sum(response.marked[0][1] for response in found)
    page = render(
        "attention.html.jinja",
        name=name,
        dialogues=dialogues,
        hops=hops,
        right=right,
        total=len(found),
    )
    return page.encode("utf-8", "replace")


CHUNK = 64  # dialogues


class BabiFile(NamedTuple):
    """A file of dialogues.

    Attributes:
      path: the path of the file.
      answers: the path of its answers below the output folder.
      attention: the path of its attention there, without the extension.
    """

    path: str
    answers: str
    attention: str = ""


class BabiChunk(NamedTuple):
    """Some dialogues of a file; ``first`` is the number of the first one."""

    file: BabiFile
    first: int
    dialogues: tuple[BabiDialogue, ...]


class Job(inference.Job[BabiFile, BabiChunk, Answerer], frozen=True, kw_only=True):
    """A prediction of bAbI dialogues.

    Attributes:
      memory: the number of last lines of history that the model reads; None for all.
      attention: the number of first dialogues, up to ``CHUNK``, of each file for which attention is written.
      inputs: the files of dialogues.
      top: the number of ranked answers; 1 for the best answer only.
    """

    memory: int | None = None
    attention: int = 0
    inputs: tuple[BabiFile, ...]
    top: int = 1

    def sources(self) -> Sequence[BabiFile]:
        """Lists the files of dialogues."""
        return self.inputs

    def chunks(self, file: BabiFile) -> Iterator[BabiChunk]:
        """Yields chunks of the dialogues of a file. Raises InputError if it cannot be read."""
        dialogues = dialogues_in(read_input(file.path, MAX_DIALOGUE_FILE), file.path)
        for first in range(0, len(dialogues), CHUNK):
            yield BabiChunk(file, first, tuple(dialogues[first : first + CHUNK]))

    def asked(self, chunk: BabiChunk) -> dict[str, int]:
        """Counts the turns, and those with more history than the model reads."""
        lengths = [length for dialogue in chunk.dialogues for length in histories(dialogue)]
        counts = {f"turns/{chunk.file.answers}": len(lengths)}
        if self.memory is not None and (long := sum(length > self.memory for length in lengths)):
            counts[f"too_long/{chunk.file.answers}"] = long
        return counts

    def load(self) -> Answerer:
        """Loads the model."""
        return load(self.folder, self.model, self.device, self.batch_size)[1]

    def answer(self, model: Answerer, chunk: BabiChunk) -> Answers:
        """Encodes the answers as JSON lines for ``parapet evaluate --task ranking``, and counts all and empty ones."""
        ranked = model.ranked(chunk.dialogues, self.top)
        rows = [
            {"dialogue": number, "turn": turn, **self._answers(ranking)}
            for number, rankings in enumerate(ranked, chunk.first)
            for turn, ranking in enumerate(rankings)
        ]
        path = chunk.file.answers
        counts = {f"answers/{path}": len(rows)}
        if empty := sum(not row["answer"] and "refused" not in row for row in rows):
            counts[f"empty/{path}"] = empty
        if unread := getattr(model, "not_understood", 0):
            counts[f"not_understood/{path}"] = unread
        data = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
        return Answers([Part(path, (chunk.first,), data), *self._attention(model, chunk, ranked)], counts)

    def _answers(self, ranking: list[str]) -> dict[str, object]:
        if not ranking:
            return {"answer": "", "refused": True}
        return {"answer": ranking[0], **({"answers": ranking} if self.top > 1 else {})}

    def _attention(self, model: Answerer, chunk: BabiChunk, ranked: Sequence[Sequence[list[str]]]) -> Iterator[Part]:
        """Yields a memory network's attention in the first dialogues of a file, all of which are in its first chunk."""
        if not self.attention or chunk.first:
            return
        from parapet.evaluation.models.babi.nets import NetAnswers

        assert isinstance(model, NetAnswers)
        some = chunk.dialogues[: self.attention]
        rows = list(responses(chunk.first, some, ranked[: self.attention], model.attention(some)))
        yield Part(f"{chunk.file.attention}.jsonl", (), lines_of(rows))
        yield Part(f"{chunk.file.attention}.html", (), page_of(as_path(chunk.file.path).name, rows))
