"""The models that are trained: a score for each candidate at each turn, as one product of matrices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parapet.evaluation.models.babi.data import numbers_of, words_of
from parapet.evaluation.models.babi.encoding import Ragged, Turns, encode, turns_of
from parapet.evaluation.models.devices import enough_memory
from parapet.transforms.babi_format import BabiDialogue


class Matches(nn.Module):
    """The features of all candidates.

    Args:
      candidates: their texts.
      knowledge: type to its words.

    Attributes:
      entities: the words with types, each to its number.
      types: how many types some candidate has.
    """

    def __init__(self, candidates: Sequence[str], knowledge: Mapping[str, Sequence[str]]) -> None:
        super().__init__()
        self.entities = {word: i for i, word in enumerate(sorted({w for of in knowledge.values() for w in of}))}
        self.types = 0
        for words in knowledge.values():
            known = frozenset(words)
            found = [
                (number, [self.entities[word] for word in dict.fromkeys(words_of(text)) if word in known])
                for number, text in enumerate(candidates)
            ]
            found = [(number, there) for number, there in found if there]
            if not found:
                continue
            most = max(len(there) for _, there in found)
            nobody = len(self.entities)  # a column of its own, always false
            rows = [there + [nobody] * (most - len(there)) for _, there in found]
            self.register_buffer(f"candidates{self.types}", torch.tensor([number for number, _ in found]), False)
            self.register_buffer(f"words{self.types}", torch.tensor(rows), False)
            self.types += 1

    def there(self, turns: Turns, lines: Tensor, places: Tensor, examples: int) -> Tensor:
        """Of each example and word with a type, whether it is in the dialogue; one column more is false.

        Args:
          turns: with their texts.
          lines: those that count.
          places: the example that each is of.
          examples: how many there are.
        """
        words, of = turns.entities.of_groups(turns.line[lines], places)
        found = torch.zeros(examples, len(self.entities) + 1, dtype=torch.bool, device=lines.device)
        found[of, words] = True
        return found

    def features(self, there: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """For each type: (the candidates that may have it, of each example and such candidate whether it has)."""
        for i in range(self.types):
            words = self.get_buffer(f"words{i}")
            yield self.get_buffer(f"candidates{i}"), there[:, words].any(2)


INITIAL = 0.15  # standard deviation of new parameters


class Vocabulary(msgspec.Struct, frozen=True):
    """What a net knows.

    Attributes:
      words: of the dialogues that it is trained on.
      candidates: what may be answered.
      knowledge: type to its words; empty without match-type features.
    """

    words: list[str]
    candidates: list[str]
    knowledge: dict[str, list[str]]


class Net(nn.Module):
    """What both models have: embeddings of the user's side and of the candidates', and match-type features.

    Args:
      vocabulary: what it knows.
      size: of the embeddings.
    """

    def __init__(self, vocabulary: Vocabulary, size: int) -> None:
        super().__init__()
        known = numbers_of(sorted({word for text in vocabulary.candidates for word in words_of(text)}))
        bags = Ragged.of([[known[word] for word in words_of(text)] for text in vocabulary.candidates])
        self.register_buffer("candidate_words", bags.values, False)
        self.register_buffer("candidate_starts", bags.starts, False)
        self.matches = Matches(vocabulary.candidates, vocabulary.knowledge)
        self.words = parameter(len(vocabulary.words), size)
        self.answers = parameter(len(known), size)
        self.types = parameter(self.matches.types, size)

    def sums(self, turns: Turns, texts: Tensor) -> Tensor:
        """The sum of the embeddings of each text's words."""
        words, starts = turns.words.take(texts)
        return F.embedding_bag(words, self.words, starts, mode="sum")

    def scores(self, query: Tensor, turns: Turns, ids: Tensor, first: Tensor) -> Tensor:
        """The score of each candidate, given a query for each turn.

        Args:
          query: of each turn.
          turns: all.
          ids: which of them.
          first: of each, the first line in which words with types are looked for.
        """
        words, starts = self.get_buffer("candidate_words"), self.get_buffer("candidate_starts")
        found = query @ F.embedding_bag(words, self.answers, starts, mode="sum").T
        if self.matches.types:
            there = self.matches.there(turns, *turns.history(ids, first), len(ids))
            # A type's word adds its own product with the query to each candidate that has it.
            gains = query @ self.types.T
            for gain, (candidates, features) in zip(gains.unbind(1), self.matches.features(there), strict=True):
                found = found.index_add(1, candidates, features * gain[:, None])
        return found


class MemN2N(Net):
    """A memory network (section 4.4; Sukhbaatar et al. 2015): a line of the history is a slot of the memory.

    The bag of words of a line has features for who speaks and for how long ago that was. Each hop adds what the memory
    answers, ``R sum p_i m_i``, to the query.

    Args:
      vocabulary: what it knows.
      size: of the embeddings.
      hops: over the memory.
      memory: lines at most, the last ones.
    """

    def __init__(self, vocabulary: Vocabulary, size: int, hops: int, memory: int) -> None:
        super().__init__(vocabulary, size)
        self.hops, self.memory = hops, memory
        self.ago = parameter(memory, size)
        self.speakers = parameter(2, size)
        self.answer = nn.Linear(size, size, bias=False)

    def forward(self, turns: Turns, ids: Tensor) -> Tensor:
        """Scores of all candidates at some turns."""
        now = turns.now[ids]
        lengths = (now - turns.first[ids]).clamp_max(self.memory)
        query = self.sums(turns, turns.line[now])
        longest = int(lengths.max())
        if longest:  # the first thing that a user says has no history
            ago = torch.arange(longest, device=ids.device)
            there = ago < lengths[:, None]
            lines = torch.where(there, now[:, None] - 1 - ago, 0)
            texts = torch.where(there, turns.line[lines], turns.padding)
            slots = self.sums(turns, texts.flatten()).view(len(ids), longest, -1)
            slots = slots + self.ago[:longest] + self.speakers[turns.speaker[lines]]
            for _ in range(self.hops):
                weights = torch.einsum("bmd,bd->bm", slots, query).masked_fill(~there, -torch.inf)
                # Where the memory is empty, all weights would be 0 / 0.
                weights = torch.softmax(weights.masked_fill(lengths[:, None] == 0, 0), 1) * there
                query = query + self.answer(torch.einsum("bm,bmd->bd", weights, slots))
        return self.scores(query, turns, ids, now - lengths)


class Embeddings(Net):
    """Supervised embeddings (section 4.3): ``(A x) · (B y)``, the history with what is said now as one bag of words."""

    def forward(self, turns: Turns, ids: Tensor) -> Tensor:
        """Scores of all candidates at some turns."""
        lines, places = turns.history(ids)
        words, of = turns.words.of_groups(turns.line[lines], places)
        counts = torch.bincount(of, minlength=len(ids))
        query = F.embedding_bag(words, self.words, counts.cumsum(0) - counts, mode="sum")
        return self.scores(query, turns, ids, turns.first[ids])


def parameter(rows: int, size: int) -> nn.Parameter:
    """Embeddings, new."""
    return nn.Parameter(torch.randn(rows, size) * INITIAL)


def ranking_loss(scores: Tensor, answers: Tensor, margin: float, negatives: int) -> Tensor:
    """The margin ranking loss of section 4.3, summed over sampled candidates, as a mean over turns.

    Args:
      scores: of all candidates at each turn.
      answers: the right ones.
      margin: by which the right one is to be better.
      negatives: others that are drawn for each turn.
    """
    # Drawn from those after the right one, and round to those before it: so it is never drawn.
    steps = torch.randint(1, scores.shape[1], (len(scores), negatives), device=scores.device)
    others = (answers[:, None] + steps) % scores.shape[1]
    short = margin - scores.gather(1, answers[:, None]) + scores.gather(1, others)
    return short.clamp_min(0).sum(1).mean()


def make(model: str, vocabulary: Vocabulary, settings: Mapping[str, int]) -> Net:
    """A net by the name of its model, with new parameters."""
    if model == "memn2n":
        return MemN2N(vocabulary, settings["size"], settings["hops"], settings["memory"])
    return Embeddings(vocabulary, settings["size"])


class NetAnswers:
    """A net, loaded.

    It computes in double precision and takes scores that are equal in single precision for equal, the first candidate
    then. So neither padding, nor what else is in a batch, nor the number of threads changes an answer, though each
    changes the last digits.

    Args:
      net: with its weights.
      vocabulary: what it knows.
      device: where to compute.
      batch: turns at a time.
    """

    def __init__(self, net: Net, vocabulary: Vocabulary, device: torch.device, batch: int) -> None:
        self.net = net.double().to(device).eval()
        self.words = numbers_of(vocabulary.words)
        self.candidates, self.device, self.batch = vocabulary.candidates, device, batch

    def answers(self, dialogues: Sequence[BabiDialogue]) -> list[list[str]]:
        """The answers at each turn of each dialogue.

        Raises:
          InputError: there is not enough memory.
        """
        turns = turns_of(encode(dialogues, {}), self.words, self.net.matches.entities, self.device)
        found: list[int] = []
        with torch.inference_mode(), enough_memory(f"lower --batch_size, which is {self.batch}"):
            for ids in turns.batches(self.batch):
                found += self.net(turns, ids).float().argmax(1).tolist()
        rest = iter(found)
        return [[self.candidates[next(rest)] for _ in dialogue.exchanges] for dialogue in dialogues]
