"""Files of the bAbI dialog tasks for training and prediction, the cards of their models, and what a prediction writes.

A prediction writes files of answers, and of a memory network's attention (Tables 3 to 7).
"""

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import msgspec

from parapet.evaluation.models import inference, saving
from parapet.evaluation.models.inference import Answers, Part
from parapet.evaluation.models.saving import MODEL, WEIGHTS
from parapet.schemas import layout, limits
from parapet.schemas.errors import InputError
from parapet.transforms.core import files
from parapet.transforms.core.inputs import read_input
from parapet.transforms.report.report import render
from parapet.transforms.simulators.formats import (
    BabiDialogue,
    Exchange,
    Fact,
    Line,
    Unanswered,
    parse_candidates,
    parse_dialogues,
    parse_facts,
)
from parapet.transforms.simulators.task6_rules import Script

_TASK = re.compile(r"task([0-9]+)")


class Corpus(msgspec.Struct, frozen=True):
    """The training data of a model.

    Attributes:
      train, dev: dialogues.
      candidates: the distinct possible answers, in the order of the file.
      knowledge: relation to its values in the knowledge base; empty without one.
      task: the number in the file names; empty if they have none.
    """

    train: list[BabiDialogue]
    dev: list[BabiDialogue]
    candidates: list[str]
    knowledge: dict[str, list[str]]
    task: str


def read_corpus(train: Sequence[str], dev: Sequence[str], candidates: str, knowledge: str | None) -> Corpus:
    """Reads the files and checks that they fit.

    Args:
      train, dev: files of dialogues.
      candidates: the file of possible answers.
      knowledge: the file of a knowledge base, for match-type features; None for none.

    Raises:
      InputError: a file cannot be read, files are of several tasks, or an answer in ``train`` is not a candidate.
    """
    task = task_of([*train, *dev])
    texts = read_candidates(candidates)
    allowed = frozenset(texts)
    read = {path: read_dialogues(path) for path in [*train, *dev]}
    for path in train:
        if lost := lost_answers(read[path], allowed):
            number, answer = lost[0]
            more = f" ({len(lost):,} such answers)" if len(lost) > 1 else ""
            reason = f"{answer!r} is not among the candidates{more}: check that {candidates} belongs to this task"
            raise InputError(reason, path, f"dialogue from line {number}")
    for path in dev:
        if lost := lost_answers(read[path], allowed):
            message = "%s: %s responses are not among the candidates, the first in the dialogue from line %d"
            logging.warning(message, path, f"{len(lost):,}", lost[0][0])
    learned, held_out = ([dialogue for path in paths for dialogue in read[path]] for paths in (train, dev))
    return Corpus(learned, held_out, texts, read_knowledge(knowledge, texts), task)


def read_dialogues(path: str) -> list[BabiDialogue]:
    """Reads the dialogues of a file. Raises InputError, also if the bot never speaks."""
    return dialogues_in(_bytes(path), path)


def dialogues_in(data: bytes, path: str) -> list[BabiDialogue]:
    """Parses the dialogues of a file. Raises InputError as :func:`read_dialogues`."""
    dialogues = list(parse_dialogues(data, path))
    if not any(dialogue.exchanges for dialogue in dialogues):
        raise InputError("the bot says nothing in this dialogue", path)
    return dialogues


def read_candidates(path: str) -> list[str]:
    """Reads the distinct candidates, in order. Raises InputError, also if there are fewer than two."""
    candidates = list(dict.fromkeys(text.strip() for text in parse_candidates(_bytes(path), path)))
    if len(candidates) < 2:
        raise InputError("there is only one candidate, so there is nothing to choose", path)
    return candidates


def read_knowledge(path: str | None, candidates: Sequence[str]) -> dict[str, list[str]]:
    """Reads the words of each type from a knowledge base; empty without one.

    Raises:
      InputError: it cannot be read, or no candidate has a word with a type.
    """
    if path is None:
        return {}
    types = types_of(read_facts(path))
    known = {word for words in types.values() for word in words}
    if not any(word in known for text in candidates for word in text.split()):
        reason = "no candidate has a value of this knowledge base: check that they belong to the same domain"
        raise InputError(reason, path)
    return types


def read_facts(path: str) -> list[Fact]:
    """Reads the facts of a knowledge base. Raises InputError."""
    return list(parse_facts(_bytes(path), path))


def types_of(facts: Iterable[Fact]) -> dict[str, list[str]]:
    """Groups words by type, the relation that has them as values, sorted.

    The published files have the paper's seven types.
    """
    types: dict[str, set[str]] = {}
    for fact in facts:
        types.setdefault(fact.relation, set()).add(fact.value)
    return {relation: sorted(values) for relation, values in sorted(types.items())}


def task_of(paths: Iterable[str]) -> str:
    """Returns the task in the file names; empty if they have none. Raises InputError if they name several."""
    tasks: dict[str, str] = {}
    for path in paths:
        if match := _TASK.search(layout.as_path(path).name):
            tasks.setdefault(match[1], path)
    if len(tasks) > 1:
        (first, first_task), (second, other) = list(tasks.items())[:2]
        raise InputError(f"is for task {second}, but {first_task} is for task {first}: give files of one task", other)
    return next(iter(tasks), "")


USER, BOT = 0, 1


def spoken(line: Line) -> list[tuple[int, str]]:
    """Returns (speaker, text) of what a line adds to the history. Facts are lines of the user (footnote 2)."""
    if isinstance(line, Exchange):
        return [(USER, line.user), (BOT, line.bot)]
    return [(USER, line.user if isinstance(line, Unanswered) else f"{line.entity} {line.relation} {line.value}")]


def histories(dialogue: BabiDialogue) -> Iterator[int]:
    """Yields the number of history lines before each turn."""
    lines = 0
    for line in dialogue.lines:
        if isinstance(line, Exchange):
            yield lines
        lines += len(spoken(line))


def lost_answers(dialogues: Iterable[BabiDialogue], allowed: frozenset[str]) -> list[tuple[int, str]]:
    """Returns (first line of the dialogue, answer) of each answer that is not a candidate."""
    return [
        (dialogue.line, exchange.bot)
        for dialogue in dialogues
        for exchange in dialogue.exchanges
        if exchange.bot.strip() not in allowed
    ]


def tokens_of(text: str, bigrams: bool) -> list[str]:
    """Returns the words of a text and, with ``bigrams``, each pair of adjacent words."""
    words = text.split()
    return [*words, *map(" ".join, pairwise(words))] if bigrams else words


def numbers_of(texts: Iterable[str]) -> Mapping[str, int]:
    """Maps each text to its position."""
    return {text: number for number, text in enumerate(texts)}


def _bytes(path: str) -> bytes:
    if not layout.is_there(path) or not layout.as_path(path).is_file():
        raise InputError("there is no such file", path)
    return limits.read_whole(layout.as_path(path), limits.MAX_DIALOGUE_FILE)


FORMAT = 4  # 1 had facts as lines of the bot, 2 one answer for an utterance in nearest, 3 counts of words in tfidf


class Answerer(ABC):
    """A model that is ready to answer."""

    @abstractmethod
    def ranked(self, dialogues: Sequence[BabiDialogue], top: int) -> list[list[list[str]]]:
        """Returns the best answers at each turn of each dialogue, based on the reference's preceding turns.

        Args:
          dialogues: with the right answers, which belong to the history of later turns.
          top: the maximum number of answers; a model may have fewer. They are distinct, with the best first.
        """

    def answers(self, dialogues: Sequence[BabiDialogue]) -> list[list[str]]:
        """Returns the best answer at each turn of each dialogue."""
        return [[ranking[0] for ranking in rankings] for rankings in self.ranked(dialogues, 1)]


class Shape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The shape of a net, from flags of its training.

    Attributes:
      size: the size of embeddings.
      hops, memory: for a memory network: hops over the memory, and lines of history that it holds.
      time: for a memory network: time features count lines ``back`` from the input, or are the ``index`` of the line.
      input: for embeddings: the whole ``history``, or the ``last`` utterance.
      share: for embeddings: whether words have the same embeddings in candidates (A = B).
      bigrams: whether pairs of adjacent words are in the vocabulary.
    """

    size: saving.Positive = 128
    hops: int = 1
    memory: int | None = None
    time: str = "back"
    input: str = "history"
    share: bool = False
    bigrams: bool = False


class Card(saving.Card, frozen=True, kw_only=True):
    """The content of ``model.json``.

    Attributes:
      task: the number of the bAbI task; empty if unknown.
      settings: for a net: its shape.
      history: for ``tfidf``: whether the input is the whole dialogue so far.
      idf: for ``tfidf``: word of the candidates to its inverse document frequency.
      candidates: the possible answers; for ``nearest`` the responses of the training set, the most frequent first.
      knowledge: type to its words, empty without match-type features; for ``rules``, field to its values.
      words: the vocabulary of a net.
      pairs: for ``nearest``: utterances, each with its responses, the most frequent first.
      similarity: for ``nearest``: ``exact`` or ``overlap``.
      ontology: for ``rules``, in TOML.
      script: for ``rules`` from a file.
    """

    format: int = FORMAT
    task: str = ""
    settings: Shape = Shape()
    history: bool = True
    idf: dict[str, float] = msgspec.field(default_factory=dict)
    candidates: list[str] = msgspec.field(default_factory=list)
    knowledge: dict[str, list[str]] = msgspec.field(default_factory=dict)
    words: list[str] = msgspec.field(default_factory=list)
    pairs: list[tuple[str, list[str]]] = msgspec.field(default_factory=list)
    similarity: str = "exact"
    ontology: str = ""
    script: Script | None = None


def files_of(card: Card, weights: Mapping[str, Any] | None = None) -> dict[str, bytes]:
    """Makes the files of a model's folder."""
    files = {MODEL: saving.card_bytes(card)}
    if weights is not None:
        files[WEIGHTS] = saving.weights_bytes(weights)
    return files


def read_card(folder: str, model: str) -> Card:
    """Reads the card of a model's folder.

    Raises:
      InputError: the folder has no model, or another one than ``model``, or the file is damaged.
    """
    card = saving.read_card(folder, Card, model)
    if card.model != "rules" and not card.candidates:
        raise InputError("is damaged: it contains no answers", files.join(folder, MODEL))
    return card


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
    from parapet.evaluation.models import babi_models  # which imports torch, unlike what reads a card

    card = read_card(folder, model)
    answerer: Answerer
    if card.script is not None:
        answerer = babi_models.ScriptBot(card.script, card.knowledge, card.candidates)
    elif card.model == "rules":
        answerer = babi_models.RuleBot(card.ontology, card.knowledge)
    elif card.model == "nearest":
        answerer = babi_models.Nearest(card.pairs, card.candidates, card.similarity)
    elif card.model == "tfidf":
        answerer = babi_models.TfIdf(card.candidates, card.knowledge, card.idf, card.history)
    else:
        vocabulary = babi_models.Vocabulary(card.words, card.candidates, card.knowledge)
        net = babi_models.make(card.model, vocabulary, card.settings)
        saving.load_weights(net, folder)
        answerer = babi_models.NetAnswers(net, vocabulary, saving.device_of(device), batch)
    return card, answerer


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


def page_of(name: str, found: Sequence[Response]) -> bytes:
    """Makes an HTML page with a table for each response.

    Args:
      name: the name of the file of dialogues.
      found: the responses.
    """
    dialogues = [(number, list(rows)) for number, rows in groupby(found, key=lambda response: response.dialogue)]
    hops = max((len(memory.attention) for response in found for memory in response.memories), default=0)
    right = sum(response.marked[0][1] for response in found)
    page = render("attention.html.jinja", name=name, dialogues=dialogues, hops=hops, right=right, total=len(found))
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
        dialogues = dialogues_in(read_input(file.path, limits.MAX_DIALOGUE_FILE), file.path)
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
        from parapet.evaluation.models.babi_models import NetAnswers

        assert isinstance(model, NetAnswers)
        some = chunk.dialogues[: self.attention]
        rows = list(responses(chunk.first, some, ranked[: self.attention], model.attention(some)))
        yield Part(f"{chunk.file.attention}.jsonl", (), b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
        yield Part(f"{chunk.file.attention}.html", (), page_of(layout.as_path(chunk.file.path).name, rows))
