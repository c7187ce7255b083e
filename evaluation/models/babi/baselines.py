"""Baselines for bAbI dialogues: nearest neighbour, TF-IDF match and rules."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from heapq import heapify, heappop
from importlib import resources
from itertools import chain, islice
from types import MappingProxyType

import msgspec
import torch
from torch import Tensor

from parapet.evaluation.models.babi.data import (
    Answerer,
    Card,
    numbers_of,
    read_candidates,
    read_dialogues,
    read_facts,
    task_of,
    words_of,
)
from parapet.evaluation.models.babi.nets import Matches, best_of, by_dialogue, encode
from parapet.schemas.errors import InputError
from parapet.transforms.core.inputs import toml_of
from parapet.transforms.simulators.babi_format import BabiDialogue, Fact
from parapet.transforms.simulators.restaurants.bot import Bot, Rules, ValueFinder, answered
from parapet.transforms.simulators.restaurants.ontology import default_ontology, read_ontology
from parapet.transforms.simulators.task6.rules import (
    Script,
    Texts,
    answers_of,
    extracted,
    optimised,
    read_script,
    values_of,
)


class Nearest(Answerer):
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
        self.sizes = [len(set(words_of(utterance))) for utterance in self.utterances]
        self.having: dict[str, list[int]] = {}
        for number, utterance in enumerate(self.utterances):
            for word in set(words_of(utterance)):
                self.having.setdefault(word, []).append(number)
        self.similar = self._overlapping if similarity == "overlap" else self._same
        self.ranking = cache(self._ranking)

    @staticmethod
    def learn(dialogues: Iterable[BabiDialogue]) -> tuple[list[tuple[str, list[str]]], list[str]]:
        """Returns ``pairs`` and ``responses`` of a training set. Ties stay in order of appearance."""
        responses_here: dict[str, Counter[str]] = {}
        responses = Counter[str]()
        for exchange in (exchange for dialogue in dialogues for exchange in dialogue.exchanges):
            responses_here.setdefault(exchange.user, Counter())[exchange.bot.strip()] += 1
            responses[exchange.bot.strip()] += 1
        # ``most_common`` keeps the order of equally frequent items.
        pairs = [
            (utterance, [text for text, _ in counts.most_common()]) for utterance, counts in responses_here.items()
        ]
        return pairs, [text for text, _ in responses.most_common()]

    def ranked(self, dialogues: Sequence[BabiDialogue], top: int) -> list[list[list[str]]]:
        """Returns the best responses at each turn of each dialogue, which depend on the user's last utterance only."""
        return [[self.ranking(exchange.user, top) for exchange in dialogue.exchanges] for dialogue in dialogues]

    def _ranking(self, utterance: str, top: int) -> list[str]:
        responses = (text for similar in self.similar(utterance) for text in self.pairs[similar])
        different = dict.fromkeys(chain(responses, self.responses))
        return list(islice(different, top))

    def _same(self, utterance: str) -> Iterator[str]:
        if utterance in self.pairs:
            yield utterance

    def _overlapping(self, utterance: str) -> Iterator[str]:
        """Yields the utterances that share a word with this one, the most similar first."""
        shared = Counter(number for word in set(words_of(utterance)) for number in self.having.get(word, ()))
        near = [(-count, self.sizes[number], number) for number, count in shared.items()]
        heapify(near)  # a heap, as the first few usually suffice
        while near:
            yield self.utterances[heappop(near)[2]]


TURNS = 512  # at a time
DIGITS = 9  # to which scores are rounded
TYPE_WEIGHT = 10.0  # in multiples of the weight of the rarest word


def idf_of(dialogues: Iterable[BabiDialogue], candidates: Iterable[str]) -> dict[str, float]:
    """Returns the inverse document frequency of each word of the candidates in the user's utterances.

    Words that the user never says count as occurring in one utterance.
    """
    utterances = [exchange.user for dialogue in dialogues for exchange in dialogue.exchanges]
    having = Counter(word for text in utterances for word in set(words_of(text)))
    words = sorted({word for text in candidates for word in words_of(text)})
    return {word: math.log(len(utterances) / max(having[word], 1)) for word in words}


class TfIdf(Answerer):
    """Ranks candidates by TF-IDF (section 4.2).

    Args:
      candidates: the possible answers.
      knowledge: type to its words; empty without match-type features.
      idf: see :func:`idf_of`.
      history: whether the input is the whole dialogue so far, or the last utterance.
    """

    def __init__(
        self,
        candidates: Sequence[str],
        knowledge: Mapping[str, Sequence[str]],
        idf: Mapping[str, float],
        history: bool,
    ) -> None:
        bags = [Counter(words_of(text)) for text in candidates]
        self.candidates, self.history = list(candidates), history
        self.words = numbers_of(idf)
        self.idf = torch.tensor(list(idf.values()), dtype=torch.float64)
        rows = torch.tensor([number for number, bag in enumerate(bags) for _ in bag])
        columns = torch.tensor([self.words[word] for bag in bags for word in bag])
        counts = torch.tensor([n for bag in bags for n in bag.values()], dtype=torch.float64)
        weights = counts * self.idf[columns]
        shape = (len(bags), len(self.words))
        self.bags = torch.sparse_coo_tensor(
            torch.stack([rows, columns]), weights, shape, check_invariants=True
        ).coalesce()
        self.squares = torch.zeros(len(bags), dtype=torch.float64).index_add_(0, rows, weights**2)
        self.matches = Matches(candidates, knowledge)
        self.of_type = TYPE_WEIGHT * float(self.idf.max())

    def ranked(self, dialogues: Sequence[BabiDialogue], top: int) -> list[list[list[str]]]:
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
        scores = torch.where(squares > 0, products / squares.clamp_min(1e-300).sqrt(), 0.0)
        return scores.round(decimals=DIGITS)


def share_right(model: Answerer, dialogues: Sequence[BabiDialogue]) -> float:
    """Computes the share of responses that a model predicts correctly."""
    wanted = [exchange.bot.strip() for dialogue in dialogues for exchange in dialogue.exchanges]
    answers = [answer for answers in model.answers(dialogues) for answer in answers]
    return sum(map(str.__eq__, answers, wanted)) / len(wanted)


ONTOLOGY = "ontology.toml"


class RuleBot(Answerer):
    """The rule-based bot, which reads the reference's dialogue before each turn.

    Args:
      ontology: the ontology of the domain, in TOML; empty for that of the simulator.
      knowledge: field to its values, and ``name`` to entities; empty if unknown.

    Attributes:
      not_understood: the number of user turns that no pattern matched, in the dialogues of the last call.
    """

    def __init__(
        self,
        ontology: str,
        knowledge: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        domain = read_ontology(ontology.encode(), ONTOLOGY) if ontology else default_ontology()
        values = {slot: knowledge[slot] for slot in ("name", *domain.names) if slot in knowledge}
        self.rules = Rules(domain, ValueFinder(values) if values else None)
        self.not_understood = 0

    def ranked(self, dialogues: Sequence[BabiDialogue], top: int) -> list[list[list[str]]]:
        """Returns the only answer at each turn of each dialogue; empty if no rule applies."""
        bots = [Bot(self.rules) for _ in dialogues]
        rankings = [
            [[answer] for _, answer in answered(bot, dialogue)] for bot, dialogue in zip(bots, dialogues, strict=True)
        ]
        self.not_understood = sum(bot.not_understood for bot in bots)
        return rankings


def values_in(facts: Iterable[Fact]) -> dict[str, list[str]]:
    """Returns field to its values in a knowledge base, and ``name`` to its entities."""
    values: dict[str, dict[str, None]] = {"name": {}}
    for fact in facts:
        values["name"][fact.entity] = None
        values.setdefault(fact.relation.removeprefix("R_"), {})[fact.value] = None
    return {name: list(of_name) for name, of_name in values.items()}


RULES = "rules.toml"


class ScriptBot(Answerer):
    """Rules from a file, with the texts that match their patterns.

    Args:
      script: the rules.
      values: slot to its values.
      candidates: the allowed answers; empty for any.
    """

    def __init__(self, script: Script, values: Mapping[str, Sequence[str]], candidates: Sequence[str]) -> None:
        self.script, self.texts, self.candidates = script, Texts(script, values), frozenset(candidates)

    def ranked(self, dialogues: Sequence[BabiDialogue], top: int) -> list[list[list[str]]]:
        """Returns the only answer at each turn of each dialogue; empty if no rule fires."""
        return [
            [[answer] for answer in answers_of(self.script, self.texts, self.candidates, dialogue)]
            for dialogue in dialogues
        ]


def built_in_rules() -> bytes:
    """Reads the built-in rules for task 6."""
    return (resources.files("parapet.transforms.simulators.task6") / "task6_rules.toml").read_bytes()


def scripted_card(
    data: bytes, path: str, train: Sequence[str], dev: Sequence[str], knowledge: str, candidates: str | None
) -> Card:
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
    script = read_script(data, path)
    dialogues = [dialogue for name in train for dialogue in read_dialogues(name)]
    texts = read_candidates(candidates) if candidates is not None else []
    values = values_of(script, dialogues, read_facts(knowledge))
    finder = Texts(script, values)
    script = extracted(script, dialogues, finder)
    without = [name for name, pattern in script.patterns.items() if not pattern.text]
    if len(without) == len(script.patterns):
        raise InputError("no pattern selects a response of --train: check that they belong to this domain", path)
    if without:
        logging.warning("%s: --train has no response for the patterns %s", path, ", ".join(without))
    if held_out := [dialogue for name in dev for dialogue in read_dialogues(name)]:
        script, before, after = optimised(script, finder, frozenset(texts), held_out)
        message = "%.1f %% of the responses of --dev are right, %.1f %% in the order of the file"
        logging.info(message, 100 * after, 100 * before)
    return Card(model="rules", task=task_of([*train, *dev]), candidates=texts, knowledge=values, script=script)


def files_of_rules(card: Card) -> dict[str, bytes]:
    """Returns the files that people can read: rules in the chosen order with the texts that match, or the ontology."""
    files = {ONTOLOGY: card.ontology.encode()} if card.ontology else {}
    if card.script is not None:
        files[RULES] = toml_of(msgspec.json.decode(msgspec.json.encode(card.script))).encode()
    return files
