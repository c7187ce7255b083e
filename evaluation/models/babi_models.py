"""Models that choose an answer among candidates (Bordes et al. 2017, section 4).

Nearest neighbour, TF-IDF match, rules, and two trained nets, which score each candidate at each turn as one product of
matrices. Dialogues are tensors of indices that are built once, with the lines of all dialogues concatenated. The memory
of a turn is a slice: from the first line of its dialogue to the line before the user's current utterance.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import chain, islice
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parapet.evaluation.models import babi, configs, saving, training
from parapet.schemas.errors import InputError
from parapet.transforms.core.inputs import toml_of
from parapet.transforms.simulators import formats, restaurants_bot, restaurants_simulation, task6_rules

Turn = TypeVar("Turn")


PADDING = 0  # the number of the empty text


CPU = torch.device("cpu")


class Ragged(NamedTuple):
    """Concatenated rows of numbers of any length."""

    values: Tensor
    starts: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Ragged:
        """Concatenates rows."""
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
        values = torch.tensor([value for row in rows for value in row], dtype=torch.long)
        return cls(values, lengths.cumsum(0) - lengths, lengths)

    def take(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Returns (the numbers of some rows, the position at which each row begins among them)."""
        lengths = self.lengths[ids]
        return self.values[ranges(self.starts[ids], lengths)], lengths.cumsum(0) - lengths

    def of_groups(self, ids: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
        """Returns (the numbers of some rows, the group of each number), from the group of each row."""
        return self.take(ids)[0], torch.repeat_interleave(group, self.lengths[ids])

    def to(self, device: torch.device) -> Ragged:
        """Moves the rows to a device."""
        return Ragged(*(tensor.to(device) for tensor in self))


def ranges(starts: Tensor, lengths: Tensor) -> Tensor:
    """Concatenates the numbers ``start, start + 1, ...`` of all ranges."""
    ends = lengths.cumsum(0)
    total = int(ends[-1]) if len(ends) else 0
    return torch.arange(total, device=starts.device) + torch.repeat_interleave(starts - ends + lengths, lengths)


class Turns(NamedTuple):
    """Dialogues as indices, on the device of a model.

    Attributes:
      line: line to its text; the distinct texts have numbers, and ``PADDING`` is the empty one.
      speaker: line to its speaker.
      said: line to whether it is an utterance rather than a fact.
      first: turn to the first line of its dialogue.
      now: turn to the line of the user's utterance.
      answer: turn to the right candidate; -1 if no candidate is right.
      words: text to its words that the model knows.
      entities: text to its words that are values in the knowledge base.
    """

    line: Tensor
    speaker: Tensor
    said: Tensor
    first: Tensor
    now: Tensor
    answer: Tensor
    words: Ragged
    entities: Ragged

    def batches(self, size: int) -> Iterator[Tensor]:
        """Yields all turns in order, ``size`` at a time."""
        for start in range(0, len(self.now), size):
            yield torch.arange(start, min(start + size, len(self.now)), device=self.now.device)

    def history(self, ids: Tensor, first: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns (lines, the position in ``ids`` of the turn of each): all lines up to the user's current utterance.

        Args:
          ids: turns.
          first: the first line to include for each; by default the first of its dialogue.
        """
        starts = self.first[ids] if first is None else first
        lengths = self.now[ids] - starts + 1
        places = torch.repeat_interleave(torch.arange(len(ids), device=ids.device), lengths)
        return ranges(starts, lengths), places


def encode(
    dialogues: Iterable[formats.BabiDialogue],
    candidates: Mapping[str, int],
    words: Mapping[str, int],
    entities: Mapping[str, int],
    device: torch.device = CPU,
    bigrams: bool = False,
) -> Turns:
    """Encodes dialogues for a model, without unknown words.

    Args:
      dialogues: in order; there is a turn for each exchange.
      candidates: text to its number.
      words: the vocabulary.
      entities: the values of the knowledge base.
      device: the device of the model.
      bigrams: whether the vocabulary has pairs of adjacent words.
    """
    texts = {"": PADDING}
    lines: list[tuple[int, int, bool]] = []
    turns: list[tuple[int, int, int]] = []
    for dialogue in dialogues:
        first = len(lines)
        for line in dialogue.lines:
            if isinstance(line, formats.Exchange):
                turns.append((first, len(lines), candidates.get(line.bot.strip(), -1)))
            for speaker, text in babi.spoken(line):
                lines.append((texts.setdefault(text, len(texts)), speaker, not isinstance(line, formats.Fact)))
    text_numbers, speakers, said = torch.tensor(lines, dtype=torch.long).view(len(lines), 3).unbind(1)
    columns = [
        text_numbers,
        speakers,
        said.bool(),
        *torch.tensor(turns, dtype=torch.long).view(len(turns), 3).unbind(1),
    ]
    bags = [
        Ragged.of([[words[token] for token in babi.tokens_of(text, bigrams) if token in words] for text in texts]),
        Ragged.of([[entities[word] for word in text.split() if word in entities] for text in texts]),
    ]
    return Turns(*(column.to(device) for column in columns), *(bag.to(device) for bag in bags))


def best_of(candidates: Sequence[str], scores: Tensor, top: int) -> list[list[str]]:
    """Returns the best candidates of each turn, the best one first; ties in order of the candidates.

    Args:
      candidates: their texts.
      scores: turns × candidates.
      top: the number of candidates, at most all.
    """
    if top == 1:
        best = scores.argmax(1, keepdim=True)
    else:
        best = torch.sort(scores, dim=1, descending=True, stable=True).indices[:, :top]
    return [[candidates[number] for number in ranking] for ranking in best.tolist()]


def by_dialogue(turns: Iterable[Turn], dialogues: Iterable[formats.BabiDialogue]) -> list[list[Turn]]:
    """Splits a sequence with an item for each turn into lists by dialogue."""
    rest = iter(turns)
    return [[next(rest) for _ in dialogue.exchanges] for dialogue in dialogues]


class Matches(nn.Module):
    """The match-type features of all candidates.

    Args:
      candidates: their texts.
      knowledge: type to its words.

    Attributes:
      entities: word with a type to its number.
      types: the number of types that occur in candidates.
    """

    def __init__(self, candidates: Sequence[str], knowledge: Mapping[str, Sequence[str]]) -> None:
        super().__init__()
        self.entities = babi.numbers_of(sorted({word for words in knowledge.values() for word in words}))
        texts = [list(dict.fromkeys(text.split())) for text in candidates]
        own = {word for text in texts for word in text}
        types = [known for words in knowledge.values() if not own.isdisjoint(known := frozenset(words))]
        self.candidates, self.types = len(candidates), len(types)
        features = [
            (number * self.types + kind, self.entities[word])
            for number, text in enumerate(texts)
            for kind, known in enumerate(types)
            for word in text
            if word in known
        ]
        places, words_of_places = torch.tensor(features, dtype=torch.long).view(-1, 2).unbind(1)
        self.register_buffer("places", places, False)  # of a candidate and a type
        self.register_buffer("words", words_of_places, False)

    def there(self, turns: Turns, lines: Tensor, places: Tensor, examples: int) -> Tensor:
        """Computes whether each word with a type occurs in each example's dialogue.

        Args:
          turns: with their texts.
          lines: the lines to search.
          places: the example of each line.
          examples: the number of examples.
        """
        words, groups = turns.entities.of_groups(turns.line[lines], places)
        present = torch.zeros(examples, len(self.entities), dtype=torch.bool, device=lines.device)
        present[groups, words] = True
        return present

    def features(self, there: Tensor) -> Tensor:
        """Computes whether candidates have each type in each example; shape (examples, candidates, types).

        Args:
          there: whether each word with a type occurs in each example's dialogue.
        """
        hits = there[:, self.get_buffer("words")].int()
        counts = hits.new_zeros(len(there), self.candidates * self.types)
        counts.index_add_(1, self.get_buffer("places"), hits)
        return counts.view(len(there), self.candidates, self.types) > 0


INITIAL = 0.15  # standard deviation of new parameters


class Vocabulary(msgspec.Struct, frozen=True):
    """The vocabulary of a net.

    Attributes:
      words: the words of the training dialogues; with bigrams also pairs of adjacent words.
      candidates: the possible answers.
      knowledge: type to its words; empty without match-type features.
    """

    words: list[str]
    candidates: list[str]
    knowledge: dict[str, list[str]]


class Net(nn.Module):
    """The common part of both models: embeddings of dialogues and candidates, and match-type features.

    Args:
      vocabulary: the vocabulary.
      shape: its size and features.
      initial: standard deviation of new parameters.

    Attributes:
      sparse: whether gradients of embeddings only contain the rows that were used.
    """

    sparse = False

    def __init__(self, vocabulary: Vocabulary, shape: babi.Shape, initial: float = INITIAL) -> None:
        super().__init__()
        texts = [babi.tokens_of(text, shape.bigrams) for text in vocabulary.candidates]
        own = sorted({word for text in texts for word in text})
        known = babi.numbers_of(dict.fromkeys([*vocabulary.words, *own]) if shape.share else own)
        bags = Ragged.of([[known[word] for word in text] for text in texts])
        self.shape, self.initial = shape, initial
        for name, buffer in zip(Ragged._fields, bags, strict=True):
            self.register_buffer(f"candidate_{name}", buffer, False)
        self.matches = Matches(vocabulary.candidates, vocabulary.knowledge)
        self.words = self.parameter(len(known) if shape.share else len(vocabulary.words))
        self.answers = None if shape.share else self.parameter(len(known))
        self.types = self.parameter(self.matches.types)

    def parameter(self, rows: int) -> nn.Parameter:
        """Makes new embeddings."""
        return nn.Parameter(torch.randn(rows, self.shape.size) * self.initial)

    def sums(self, turns: Turns, texts: Tensor) -> Tensor:
        """Sums the embeddings of each text's words."""
        words, starts = turns.words.take(texts)
        return F.embedding_bag(words, self.words, starts, mode="sum", sparse=self.sparse)

    def scores(self, query: Tensor, turns: Turns, ids: Tensor, first: Tensor, chosen: Tensor | None) -> Tensor:
        """Scores each candidate by a query for each turn.

        Args:
          query: the query of each turn.
          turns: all turns.
          ids: the turns to score.
          first: the first line of each turn in which words with types are searched.
          chosen: candidates of each turn, shape (turns, chosen); None for all.
        """
        bags = Ragged(*(self.get_buffer(f"candidate_{name}") for name in Ragged._fields))
        words, starts = bags[:2] if chosen is None else bags.take(chosen.flatten())
        table = self.words if self.answers is None else self.answers
        embedded = F.embedding_bag(words, table, starts, mode="sum", sparse=self.sparse)
        if chosen is None:
            similarities = query @ embedded.T
        else:
            similarities = torch.einsum("bd,bcd->bc", query, embedded.view(*chosen.shape, -1))
        if self.matches.types:
            features = self.matches.features(self._there(turns, ids, first))
            if chosen is not None:
                features = features.gather(1, chosen[..., None].expand(-1, -1, self.matches.types))
            # A type's embedding adds its product with the query to the score of each candidate that has the type.
            similarities = similarities + torch.einsum("bt,bct->bc", query @ self.types.T, features.to(query.dtype))
        return similarities

    def _there(self, turns: Turns, ids: Tensor, first: Tensor) -> Tensor:
        if self.shape.input == "last":  # appendix D: the type is recorded, whatever the input
            return torch.ones(len(ids), len(self.matches.entities), dtype=torch.bool, device=ids.device)
        return self.matches.there(turns, *turns.history(ids, first), len(ids))


class MemN2N(Net):
    """A memory network (section 4.4, appendix A): each line of the history is a slot of the memory.

    The bag of words of a line has features for its speaker and its time. Each hop adds the memory's answer, ``R sum p_i
    m_i``, to the query. Facts are lines of the user (footnote 2).
    """

    def __init__(self, vocabulary: Vocabulary, shape: babi.Shape, initial: float = INITIAL) -> None:
        super().__init__(vocabulary, shape, initial)
        self.hops, self.memory = shape.hops, shape.memory or 0
        self.ago = self.parameter(self.memory)
        self.speakers = self.parameter(2)
        self.answer = nn.Linear(shape.size, shape.size, bias=False)

    def forward(self, turns: Turns, ids: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Scores the chosen candidates at some turns, by default all."""
        query, _ = self.read(turns, ids)
        return self.scores(query, turns, ids, turns.now[ids] - self.lengths(turns, ids), chosen)

    def lengths(self, turns: Turns, ids: Tensor) -> Tensor:
        """Returns the number of lines in the memory at some turns."""
        return (turns.now[ids] - turns.first[ids]).clamp_max(self.memory)

    def read(self, turns: Turns, ids: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Returns (query after the last hop, weights of the memories at each hop, the latest memory first)."""
        now, lengths = turns.now[ids], self.lengths(turns, ids)
        query = self.sums(turns, turns.line[now])
        longest, attention = int(lengths.max()), []
        if longest:  # a user's first utterance has no history
            back = torch.arange(longest, device=ids.device)
            is_present = back < lengths[:, None]
            lines = torch.where(is_present, now[:, None] - 1 - back, 0)
            texts = torch.where(is_present, turns.line[lines], PADDING)
            times = back if self.shape.time == "back" else (lines - turns.first[ids, None]).clamp(0, self.memory - 1)
            slots = self.sums(turns, texts.flatten()).view(len(ids), longest, -1)
            slots = slots + F.embedding(times, self.ago, sparse=self.sparse) + self.speakers[turns.speaker[lines]]
            for _ in range(self.hops):
                weights = torch.einsum("bmd,bd->bm", slots, query).masked_fill(~is_present, -torch.inf)
                # With an empty memory, all weights would be 0 / 0.
                weights = torch.softmax(weights.masked_fill(lengths[:, None] == 0, 0), 1) * is_present
                query = query + self.answer(torch.einsum("bm,bmd->bd", weights, slots))
                attention.append(weights)
        return query, attention


class Embeddings(Net):
    """Supervised embeddings (section 4.3):

    ``(A x) · (B y)``, with history and current utterance as one bag of words.
    """

    def forward(self, turns: Turns, ids: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Scores the chosen candidates at some turns, by default all."""
        if self.shape.input == "last":
            query = self.sums(turns, turns.line[turns.now[ids]])
        else:
            lines, places = turns.history(ids)
            words, groups = turns.words.of_groups(turns.line[lines], places)
            counts = torch.bincount(groups, minlength=len(ids))
            query = F.embedding_bag(words, self.words, counts.cumsum(0) - counts, mode="sum", sparse=self.sparse)
        return self.scores(query, turns, ids, turns.first[ids], chosen)


def negatives_of(answers: Tensor, candidates: int, negatives: int) -> Tensor:
    """Draws wrong candidates for each turn; shape (turns, negatives)."""
    # A random step from the right candidate, modulo their number, never leads back to it.
    steps = torch.randint(1, candidates, (len(answers), negatives), device=answers.device)
    return (answers[:, None] + steps) % candidates


def ranking_loss(scores: Tensor, margin: float) -> Tensor:
    """Computes the margin ranking loss of section 4.3: the mean over the negatives within the margin, and over turns.

    Args:
      scores: the scores of the right candidate, then of the negatives; shape (turns, 1 + negatives).
      margin: the required difference between the right candidate and negatives.
    """
    short = (margin - scores[:, :1] + scores[:, 1:]).clamp_min(0)
    return (short.sum(1) / (short > 0).sum(1).clamp_min(1)).mean()


def make(model: str, vocabulary: Vocabulary, shape: babi.Shape, initial: float = INITIAL) -> Net:
    """Makes a net with new parameters, by the name of its model."""
    return (MemN2N if model == "memn2n" else Embeddings)(vocabulary, shape, initial)


class NetAnswers(babi.Answerer):
    """A loaded net.

    It computes in double precision, and treats scores that are equal in single precision as equal, so that the first
    candidate wins. Answers therefore do not depend on padding, on the rest of the batch or on the number of threads,
    although each of these changes the last digits.

    Args:
      net: with its weights.
      vocabulary: the vocabulary.
      device: the device to use.
      batch: turns at a time.
    """

    def __init__(self, net: Net, vocabulary: Vocabulary, device: torch.device, batch: int) -> None:
        self.net = net.double().to(device).eval()
        self.words = babi.numbers_of(vocabulary.words)
        self.candidates, self.device, self.batch = vocabulary.candidates, device, batch

    def ranked(self, dialogues: Sequence[formats.BabiDialogue], top: int) -> list[list[list[str]]]:
        """Returns the best candidates at each turn of each dialogue.

        Raises:
          InputError: there is not enough memory.
        """
        turns = self._turns(dialogues)
        rankings: list[list[str]] = []
        with torch.inference_mode(), saving.enough_memory(self.batch):
            for ids in turns.batches(self.batch):
                rankings += best_of(self.candidates, self.net(turns, ids).float(), top)
        return by_dialogue(rankings, dialogues)

    def attention(self, dialogues: Sequence[formats.BabiDialogue]) -> list[list[list[list[float]]]]:
        """Returns a memory network's weights for each dialogue, turn and hop, the earliest memory first.

        Raises:
          InputError: there is not enough memory.
        """
        net = self.net
        assert isinstance(net, MemN2N)
        turns = self._turns(dialogues)
        weights_of_turns: list[list[list[float]]] = []
        with torch.inference_mode(), saving.enough_memory(self.batch):
            for ids in turns.batches(self.batch):
                _, weights = net.read(turns, ids)
                for place, length in enumerate(net.lengths(turns, ids).tolist()):
                    weights_of_turns.append([hop[place, :length].flip(0).tolist() for hop in weights if length])
        return by_dialogue(weights_of_turns, dialogues)

    def _turns(self, dialogues: Sequence[formats.BabiDialogue]) -> Turns:
        shape, entities = self.net.shape, self.net.matches.entities
        return encode(dialogues, {}, self.words, entities, self.device, shape.bigrams)


SCORED = 256  # turns at a time outside of training
MOST_AHEAD = 64  # turns that are scored at once with batches of one turn
_NONE = torch.empty(0, dtype=torch.long)


class BabiLearner(training.Learner):
    """A net with its data; with ``--share auto`` two nets, of which the better one on dev is kept.

    Args:
      config: the settings of the training.
      corpus: the training data; a knowledge base adds match-type features.
    """

    metric = "response accuracy"

    def __init__(self, config: configs.BabiConfig, corpus: babi.Corpus) -> None:
        device = torch.device(config.device)
        self.task = corpus.task
        numbers = babi.numbers_of(corpus.candidates)
        texts = {text for dialogue in corpus.train for line in dialogue.lines for _, text in babi.spoken(line)}
        words = sorted({word for text in texts for word in babi.tokens_of(text, config.bigrams)})
        self.vocabulary = Vocabulary(words, corpus.candidates, corpus.knowledge)
        self.nets = [make(config.model, self.vocabulary, shape, config.initial).to(device) for shape in shapes(config)]
        self.module = self.nets[0] if len(self.nets) == 1 else nn.ModuleList(self.nets)
        self.train, self._dev = (
            encode(dialogues, numbers, babi.numbers_of(words), self.nets[0].matches.entities, device, config.bigrams)
            for dialogues in (corpus.train, corpus.dev)
        )
        parameters, rate = self.module.parameters(), config.learning_rate
        if config.optimiser == "sgd":
            self.optimiser: torch.optim.Optimizer = torch.optim.SGD(parameters, lr=rate)
        else:
            # One kernel for all parameters, with the same results as a loop.
            self.optimiser = torch.optim.Adam(parameters, lr=rate, fused=True)
        # Clipping and Adam need dense gradients.
        for net in self.nets:
            net.sparse = config.optimiser == "sgd" and not config.clip
        self.config, self.device = config, device
        self._lengths = (self.train.now - self.train.first).cpu()
        self._order = torch.arange(len(self._lengths), device=device)
        self._place = dict(enumerate(range(len(self._lengths))))
        self._scored: dict[int, tuple[Tensor, list[Tensor]]] = {}
        self._ahead = 1
        self._devs: list[float] = []  # accuracy of each of several nets on dev, at the end
        if config.memory is not None and (long := int((self._lengths > config.memory).sum())):
            message = "%s turns have more than %d lines of history: the oldest lines are cut off"
            logging.warning(message, f"{long:,}", config.memory)

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """Yields the batches of an epoch."""
        batches = list(training.bucketed(self._lengths, self.config.batch_size, generator))
        self._order = torch.cat(batches).to(self.device)
        self._place = {turn: place for place, turn in enumerate(self._order.tolist())}
        self._scored, self._ahead = {}, 1
        for batch in batches:
            yield batch.to(self.device, non_blocking=True)

    def loss(self, batch: Tensor) -> Tensor:
        """Computes the mean loss, summed over all nets."""
        answers = self.train.answer[batch]
        if not self.config.negatives:
            return sum_of(F.cross_entropy(net(self.train, batch).float(), answers) for net in self.nets)
        if len(batch) == 1:
            return self._loss_of_turn(batch)
        chosen = self._chosen(batch)
        return sum_of(ranking_loss(self._scores(net, batch, chosen), self.config.margin) for net in self.nets)

    def _chosen(self, batch: Tensor) -> Tensor:
        answers = self.train.answer[batch]
        negatives = negatives_of(answers, len(self.vocabulary.candidates), self.config.negatives)
        return torch.cat([answers[:, None], negatives], 1)

    def _scores(self, net: Net, batch: Tensor, chosen: Tensor) -> Tensor:
        if chosen.numel() < len(self.vocabulary.candidates):
            scores = net(self.train, batch, chosen)
        else:  # all candidates are fewer than the drawn ones
            scores = net(self.train, batch).gather(1, chosen)
        return scores.float()  # half precision is too coarse for small differences

    def _loss_of_turn(self, batch: Tensor) -> Tensor:
        """Computes the loss of a batch of one turn; if it is right by the margin, a zero without a gradient.

        After a while this holds for most turns. The following turns are scored together: as long as all are right, no
        step changes the parameters, so their scores remain valid. The result is the same as that of one turn at a time.
        """
        turn = int(batch)
        if turn not in self._scored:
            self._scored = self._score_ahead(turn)
        chosen, within = self._scored.pop(turn)
        if not any(map(len, within)):
            return torch.zeros((), device=self.device)
        self._scored = {}
        return sum_of(
            ranking_loss(self._scores(net, batch, chosen[some][None]), self.config.margin)
            for net, some in zip(self.nets, within, strict=True)
            if len(some)
        )

    def _score_ahead(self, turn: int) -> dict[int, tuple[Tensor, list[Tensor]]]:
        """Scores turns from this one on; returns turn to (candidates, for each net the positions with a gradient)."""
        place = self._place[turn]
        turns = self._order[place : place + self._ahead]
        chosen = self._chosen(turns)
        with torch.no_grad():
            scores = [self._scores(net, turns, chosen) for net in self.nets]
        within = [score > score[:, :1] - self.config.margin for score in scores]  # always includes the right candidate
        wrong = torch.stack([near.sum(1) > 1 for near in within])
        self._ahead = min(MOST_AHEAD, 2 * ([*(~wrong.any(0)).tolist(), False].index(False)) + 1)
        return {
            number: (
                chosen[i],
                [near[i].nonzero()[:, 0] if wrong[net, i] else _NONE for net, near in enumerate(within)],
            )
            for i, number in enumerate(turns.tolist())
        }

    def dev(self) -> float:
        """Computes the share of correct responses of the best net."""
        return max(self._dev_of(net) for net in self.nets)

    def _dev_of(self, net: Net) -> float:
        right = torch.zeros((), dtype=torch.long, device=self.device)
        for ids in self._dev.batches(SCORED):
            right += (net(self._dev, ids).argmax(1) == self._dev.answer[ids]).sum()
        return int(right) / len(self._dev.now)

    def files(self) -> dict[str, bytes]:
        """Makes the files of the model's folder."""
        known = self.vocabulary
        if len(self.nets) > 1:
            with torch.inference_mode():
                self._devs = [self._dev_of(net) for net in self.nets]
        best = self.nets[self._devs.index(max(self._devs))] if self._devs else self.nets[0]
        card = babi.Card(
            model=self.config.model,
            task=self.task,
            settings=best.shape,
            candidates=known.candidates,
            knowledge=known.knowledge,
            words=known.words,
        )
        return babi.files_of(card, best.state_dict())

    def result(self) -> dict[str, float | None]:
        """Returns the size of the vocabulary and, for two nets, the accuracy of each on dev."""
        words = {*self.vocabulary.words}.union(
            *(babi.tokens_of(text, self.config.bigrams) for text in self.vocabulary.candidates)
        )
        return {"vocabulary": len(words), **dict(zip(("dev_share_off", "dev_share_on"), self._devs, strict=False))}


def shapes(config: configs.BabiConfig) -> list[babi.Shape]:
    """Returns the shapes of the nets to train; of several nets, the best is kept."""
    fields = {name: getattr(config, name) for name in babi.Shape.__struct_fields__}
    shared = {"off": [False], "on": [True], "auto": [False, True]}[config.share]
    return [babi.Shape(**{**fields, "share": share}) for share in shared]


def sum_of(losses: Iterable[Tensor]) -> Tensor:
    """Adds up losses."""
    return torch.stack(list(losses)).sum()


class Nearest(babi.Answerer):
    """Answers like the most similar utterance of the training set (section 4.2).

    Args:
      pairs: utterances of the training set, in its order, each with its responses, the most frequent first.
      responses: all responses of the training set, the most frequent first.
      similarity: ``exact`` uses only the responses to the same utterance, and those to any utterance if training lacks
        it; ``overlap`` uses the utterance that shares most words, then the one with the fewest words, then the first.
    """

    def __init__(self, pairs: Sequence[tuple[str, Sequence[str]]], responses: Sequence[str], similarity: str) -> None:
        self.pairs, self.responses = dict(pairs), responses
        self.utterances = list(self.pairs)
        self.sizes = [len(set(utterance.split())) for utterance in self.utterances]
        self.having: dict[str, list[int]] = {}
        for number, utterance in enumerate(self.utterances):
            for word in set(utterance.split()):
                self.having.setdefault(word, []).append(number)
        self.similar = self._overlapping if similarity == "overlap" else self._same
        self.ranking = cache(self._ranking)

    @staticmethod
    def learn(dialogues: Iterable[formats.BabiDialogue]) -> tuple[list[tuple[str, list[str]]], list[str]]:
        """Returns ``pairs`` and ``responses`` of a training set. Ties stay in order of appearance."""
        by_utterance: dict[str, Counter[str]] = {}
        responses = Counter[str]()
        for exchange in (exchange for dialogue in dialogues for exchange in dialogue.exchanges):
            by_utterance.setdefault(exchange.user, Counter())[exchange.bot.strip()] += 1
            responses[exchange.bot.strip()] += 1
        # ``most_common`` keeps the order of equally frequent items.
        pairs = [(utterance, [text for text, _ in counts.most_common()]) for utterance, counts in by_utterance.items()]
        return pairs, [text for text, _ in responses.most_common()]

    def ranked(self, dialogues: Sequence[formats.BabiDialogue], top: int) -> list[list[list[str]]]:
        """Returns the best responses at each turn of each dialogue, which depend on the user's last utterance only."""
        return [[self.ranking(exchange.user, top) for exchange in dialogue.exchanges] for dialogue in dialogues]

    def _ranking(self, utterance: str, top: int) -> list[str]:
        responses = (text for similar in self.similar(utterance) for text in self.pairs[similar])
        return list(islice(dict.fromkeys(chain(responses, self.responses)), top))

    def _same(self, utterance: str) -> Iterator[str]:
        if utterance in self.pairs:
            yield utterance

    def _overlapping(self, utterance: str) -> Iterator[str]:
        """Yields the utterances that share a word with this one, the most similar first."""
        shared = Counter(number for word in set(utterance.split()) for number in self.having.get(word, ()))
        for number in sorted(shared, key=lambda number: (-shared[number], self.sizes[number], number)):
            yield self.utterances[number]


TURNS = 512  # at a time
DIGITS = 9  # to which scores are rounded
TYPE_WEIGHT = 10.0  # in multiples of the weight of the rarest word


def idf_of(dialogues: Iterable[formats.BabiDialogue], candidates: Iterable[str]) -> dict[str, float]:
    """Returns the inverse document frequency of each word of the candidates in the user's utterances.

    Words that the user never says count as occurring in one utterance.
    """
    utterances = [exchange.user for dialogue in dialogues for exchange in dialogue.exchanges]
    having = Counter(word for text in utterances for word in set(text.split()))
    words = sorted({word for text in candidates for word in text.split()})
    return {word: math.log(len(utterances) / max(having[word], 1)) for word in words}


class TfIdf(babi.Answerer):
    """Ranks candidates by TF-IDF (section 4.2).

    Args:
      candidates: the possible answers.
      knowledge: type to its words; empty without match-type features.
      idf: see :func:`idf_of`.
      history: whether the input is the whole dialogue so far, or the last utterance.
    """

    def __init__(
        self, candidates: Sequence[str], knowledge: Mapping[str, Sequence[str]], idf: Mapping[str, float], history: bool
    ) -> None:
        bags = [Counter(text.split()) for text in candidates]
        self.candidates, self.history = list(candidates), history
        self.words = babi.numbers_of(idf)
        self.idf = torch.tensor(list(idf.values()), dtype=torch.float64)
        rows = torch.tensor([number for number, bag in enumerate(bags) for _ in bag])
        columns = torch.tensor([self.words[word] for bag in bags for word in bag])
        counts = torch.tensor([n for bag in bags for n in bag.values()], dtype=torch.float64)
        weights = counts * self.idf[columns]
        self.bags = torch.sparse_coo_tensor(
            torch.stack([rows, columns]), weights, (len(bags), len(self.words)), check_invariants=True
        ).coalesce()
        self.squares = torch.zeros(len(bags), dtype=torch.float64).index_add_(0, rows, weights**2)
        self.matches = Matches(candidates, knowledge)
        self.of_type = TYPE_WEIGHT * float(self.idf.max())

    def ranked(self, dialogues: Sequence[formats.BabiDialogue], top: int) -> list[list[list[str]]]:
        """Returns the best candidates at each turn of each dialogue."""
        turns = encode(dialogues, {}, self.words, self.matches.entities)
        rankings: list[list[str]] = []
        for ids in turns.batches(TURNS):
            lines, places = turns.history(ids)
            lines, places = lines[turns.said[lines]], places[turns.said[lines]]
            # Types match words anywhere in the dialogue: "in the input or memory" (section 4.5).
            present = self.matches.there(turns, lines, places, len(ids))
            if not self.history:
                lines, places = turns.history(ids, turns.now[ids])
            words, groups = turns.words.of_groups(turns.line[lines], places)
            weights = torch.zeros(len(self.words), len(ids), dtype=torch.float64)
            weights.index_put_((words, groups), torch.ones(len(words), dtype=torch.float64), accumulate=True)
            rankings += best_of(self.candidates, self._scores(weights * self.idf[:, None], present), top)
        return by_dialogue(rankings, dialogues)

    def _scores(self, given: Tensor, there: Tensor) -> Tensor:
        """Scores all candidates. The input's length is omitted, as it is the same for all."""
        products = torch.sparse.mm(self.bags, given).T.contiguous()
        squares = self.squares.repeat(len(products), 1)
        of_types = self.matches.features(there).sum(2) * self.of_type**2
        products, squares = products + of_types, squares + of_types
        # A candidate of which every word is in all utterances has weight zero.
        return torch.where(squares > 0, products / squares.clamp_min(1e-300).sqrt(), 0.0).round(decimals=DIGITS)


def share_right(model: babi.Answerer, dialogues: Sequence[formats.BabiDialogue]) -> float:
    """Computes the share of responses that a model predicts correctly."""
    wanted = [exchange.bot.strip() for dialogue in dialogues for exchange in dialogue.exchanges]
    answers = [answer for answers in model.answers(dialogues) for answer in answers]
    return sum(map(str.__eq__, answers, wanted)) / len(wanted)


ONTOLOGY = "ontology.toml"


class RuleBot(babi.Answerer):
    """The rule-based bot, which reads the reference's dialogue before each turn.

    Args:
      ontology: the ontology of the domain, in TOML; empty for that of the simulator.
      knowledge: field to its values, and ``name`` to entities; empty if unknown.

    Attributes:
      not_understood: the number of user turns that no pattern matched, in the dialogues of the last call.
    """

    def __init__(self, ontology: str, knowledge: Mapping[str, Sequence[str]] = MappingProxyType({})) -> None:
        domain = (
            restaurants_simulation.read_ontology(ontology.encode(), ONTOLOGY)
            if ontology
            else restaurants_simulation.default_ontology()
        )
        values = {slot: knowledge[slot] for slot in ("name", *domain.names) if slot in knowledge}
        self.rules = restaurants_bot.Rules(domain, restaurants_bot.ValueFinder(values) if values else None)
        self.not_understood = 0

    def ranked(self, dialogues: Sequence[formats.BabiDialogue], top: int) -> list[list[list[str]]]:
        """Returns the only answer at each turn of each dialogue; empty if no rule applies."""
        bots = [restaurants_bot.Bot(self.rules) for _ in dialogues]
        answers = [restaurants_bot.answered(*pair) for pair in zip(bots, dialogues, strict=True)]
        rankings = [[[answer] for _, answer in of_dialogue] for of_dialogue in answers]
        self.not_understood = sum(bot.not_understood for bot in bots)
        return rankings


def values_in(facts: Iterable[formats.Fact]) -> dict[str, list[str]]:
    """Returns field to its values in a knowledge base, and ``name`` to its entities."""
    values: dict[str, dict[str, None]] = {"name": {}}
    for fact in facts:
        values["name"][fact.entity] = None
        values.setdefault(fact.relation.removeprefix("R_"), {})[fact.value] = None
    return {name: list(of_name) for name, of_name in values.items()}


RULES = "rules.toml"


class ScriptBot(babi.Answerer):
    """Rules from a file, with the texts that match their patterns.

    Args:
      script: the rules.
      values: slot to its values.
      candidates: the allowed answers; empty for any.
    """

    def __init__(
        self, script: task6_rules.Script, values: Mapping[str, Sequence[str]], candidates: Sequence[str]
    ) -> None:
        self.script, self.texts, self.candidates = script, task6_rules.Texts(script, values), frozenset(candidates)

    def ranked(self, dialogues: Sequence[formats.BabiDialogue], top: int) -> list[list[list[str]]]:
        """Returns the only answer at each turn of each dialogue; empty if no rule fires."""
        return [
            [[answer] for answer in task6_rules.answers_of(self.script, self.texts, self.candidates, dialogue)]
            for dialogue in dialogues
        ]


def built_in_rules() -> bytes:
    """Reads the built-in rules for task 6."""
    return (resources.files("parapet.transforms.simulators") / "task6_rules.toml").read_bytes()


def scripted_card(
    data: bytes, path: str, train: Sequence[str], dev: Sequence[str], knowledge: str, candidates: str | None
) -> babi.Card:
    """Makes a model of rules: patterns are extracted from ``train``, and the order of rules is chosen on ``dev``.

    Args:
      data: the rules, in TOML.
      path: the path of the rules, for messages.
      train: files of dialogues.
      dev: files of dialogues; empty to keep the order of the file.
      knowledge: the file of the knowledge base.
      candidates: the file of possible answers; None for any.

    Raises:
      InputError: a file cannot be read or used, or no pattern matches a text in ``train``.
    """
    script = task6_rules.read_script(data, path)
    dialogues = [dialogue for name in train for dialogue in babi.read_dialogues(name)]
    texts = babi.read_candidates(candidates) if candidates is not None else []
    values = task6_rules.values_of(script, dialogues, babi.read_facts(knowledge))
    finder = task6_rules.Texts(script, values)
    script = task6_rules.extracted(script, dialogues, finder)
    without = [name for name, pattern in script.patterns.items() if not pattern.text]
    if len(without) == len(script.patterns):
        raise InputError("no pattern selects a response of --train: check that they belong to this domain", path)
    if without:
        logging.warning("%s: --train has no response for the patterns %s", path, ", ".join(without))
    if held_out := [dialogue for name in dev for dialogue in babi.read_dialogues(name)]:
        script, before, after = task6_rules.optimised(script, finder, frozenset(texts), held_out)
        message = "%.1f %% of the responses of --dev are right, %.1f %% in the order of the file"
        logging.info(message, 100 * after, 100 * before)
    task = babi.task_of([*train, *dev])
    return babi.Card(model="rules", task=task, candidates=texts, knowledge=values, script=script)


def files_of_rules(card: babi.Card) -> dict[str, bytes]:
    """Returns the files that people can read: rules in the chosen order with the texts that match, or the ontology."""
    files = {ONTOLOGY: card.ontology.encode()} if card.ontology else {}
    if card.script is not None:
        files[RULES] = toml_of(msgspec.json.decode(msgspec.json.encode(card.script))).encode()
    return files
