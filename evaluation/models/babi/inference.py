"""Predictions for the bAbI dialog tasks: files of answers, and of what a memory network attends to (Tables 3 to 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from parapet.evaluation.models import inference, saving
from parapet.evaluation.models.babi.data import Answerer, Card, dialogues_in, histories, read_card
from parapet.evaluation.models.inference import Answers, Part
from parapet.evaluation.models.saving import MODEL, WEIGHTS
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.transforms.reports.report import render
from parapet.transforms.simulators.babi_format import BabiDialogue, Exchange, Unanswered
from parapet.transforms.storage import files
from parapet.transforms.storage.compressed import read_input


def load(folder: str, model: str, device: str, batch: int) -> tuple[Card, Answerer]:
    """The card of a model, and the model itself, ready to answer.

    Args:
      folder: where it is.
      model: what it must be.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: turns at a time.

    Raises:
      InputError: it is not there, of another kind, or damaged.
    """
    card = read_card(folder, model)
    return card, _answerer(folder, card, device, batch)


def _answerer(folder: str, card: Card, device: str, batch: int) -> Answerer:
    # These load torch, which a card does not need.
    if card.script is not None:
        from parapet.evaluation.models.babi.baselines import ScriptBot

        return ScriptBot(card.script, card.knowledge, card.candidates)
    if card.model == "rules":
        from parapet.evaluation.models.babi.baselines import RuleBot

        return RuleBot(card.ontology, card.knowledge, card.course)
    from parapet.evaluation.models.babi.baselines import Frequencies, Nearest, TfIdf
    from parapet.evaluation.models.babi.nets import NetAnswers, Shape, Vocabulary, make
    from parapet.evaluation.models.saving import device_of

    if card.model == "nearest":
        return Nearest(card.pairs, card.candidates, card.similarity)
    if card.model == "tfidf":
        return TfIdf(card.candidates, card.knowledge, Frequencies(card.utterances, card.having), card.history)
    vocabulary = Vocabulary(card.words, card.candidates, card.knowledge)
    try:
        net = make(card.model, vocabulary, msgspec.convert(card.settings, Shape))
    except (KeyError, RuntimeError, msgspec.ValidationError) as error:  # settings that are missing
        message = " ".join(str(error).split())[:300]
        raise InputError(f"does not match {MODEL} beside it: {message}", files.join(folder, WEIGHTS)) from None
    saving.load_weights(net, folder)
    return NetAnswers(net, vocabulary, device_of(device), batch)


DIGITS = 6


SHORT, FOLDED = 20, 0.01  # of more memories, those that have less at each hop are counted in the page, not shown


Weights = Sequence[Sequence[float]]  # of each hop, of each memory, the earliest memory first


class Memory(msgspec.Struct, frozen=True):
    """A line in the memory.

    Attributes:
      time: its number in the dialogue, from 1.
      speaker: ``User``, of facts too, or ``Bot``.
      text: the line.
      attention: p_i of each hop, from 0 to 1.
    """

    time: int
    speaker: str
    text: str
    attention: list[float]


class Response(msgspec.Struct, frozen=True):
    """A response with what the model attended to.

    Attributes:
      dialogue, turn: numbers, from 0, as in the file of answers.
      memories: in order.
      input: what the user says.
      correct: the reference's response.
      predicted: the model's, the best first.
    """

    dialogue: int
    turn: int
    memories: list[Memory]
    input: str
    correct: str
    predicted: list[str]

    @property
    def marked(self) -> list[tuple[str, bool]]:
        """(a predicted answer, whether it is correct) of each."""
        return [(answer, answer.strip() == self.correct.strip()) for answer in self.predicted]


def responses(
    first: int,
    dialogues: Iterable[BabiDialogue],
    ranked: Iterable[Sequence[list[str]]],
    weights: Iterable[Sequence[Weights]],
) -> Iterator[Response]:
    """The responses of some dialogues.

    Args:
      first: the number of the first dialogue.
      dialogues: what is answered.
      ranked: of each dialogue and turn, the model's answers, the best first.
      weights: of each dialogue and turn, the weights of the memories; of fewer lines than were before, the last ones.
    """
    for number, (dialogue, predicted, of_turns) in enumerate(zip(dialogues, ranked, weights, strict=True), first):
        lines = list(spoken(dialogue))
        for turn, (exchange, answers, before, hops) in enumerate(
            zip(dialogue.exchanges, predicted, histories(dialogue), of_turns, strict=True)
        ):
            held = len(hops[0]) if hops else 0
            memories = [
                Memory(time + 1, *lines[time], [round(hop[i], DIGITS) for hop in hops])
                for i, time in enumerate(range(before - held, before))
            ]
            yield Response(number, turn, memories, exchange.user, exchange.bot, answers)


def spoken(dialogue: BabiDialogue) -> Iterator[tuple[str, str]]:
    """(speaker, text) of each line that can be in the memory."""
    for line in dialogue.lines:
        if isinstance(line, Exchange):
            yield "User", line.user
            yield "Bot", line.bot
        elif isinstance(line, Unanswered):
            yield "User", line.user
        else:
            yield "User", f"{line.entity} {line.relation} {line.value}"


def lines_of(found: Iterable[Response]) -> bytes:
    """The responses as JSON lines."""
    return b"".join(msgspec.json.encode(one) + b"\n" for one in found)


def page_of(name: str, found: Sequence[Response]) -> bytes:
    """The responses as a page of HTML: a table each, which leaves out memories that get little where they are many.

    Args:
      name: of the file of dialogues.
      found: the responses.
    """
    dialogues = [
        (number, [(one, list(_rows(one.memories))) for one in of])
        for number, of in groupby(found, key=lambda one: one.dialogue)
    ]
    hops = max((len(memory.attention) for one in found for memory in one.memories), default=0)
    right = sum(one.marked[0][1] for one in found)
    page = render(
        "attention.html.jinja",
        name=name,
        dialogues=dialogues,
        hops=hops,
        right=right,
        total=len(found),
        least=FOLDED,
        short=SHORT,
    )
    return page.encode("utf-8", "replace")


def _rows(memories: Sequence[Memory]) -> Iterator[Memory | int]:
    """The memories; where they are many, for several in a row that get little, how many they are."""
    least = FOLDED if len(memories) > SHORT else 0
    for little, some in groupby(memories, key=lambda memory: max(memory.attention) < least):
        run = list(some)
        if little and len(run) > 1:
            yield len(run)
        else:
            yield from run


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
        found = list(responses(chunk.first, some, ranked[: self.attention], model.attention(some)))
        yield Part(f"{chunk.file.attention}.jsonl", (), lines_of(found))
        yield Part(f"{chunk.file.attention}.html", (), page_of(as_path(chunk.file.path).name, found))
