"""The folder of a model for the bAbI dialog tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from parapet.evaluation.models import saving
from parapet.evaluation.models.saving import MODEL, WEIGHTS
from parapet.schemas.errors import InputError
from parapet.transforms import files
from parapet.transforms.babi_format import BabiDialogue
from parapet.transforms.dstc2.rules import Script
from parapet.transforms.restaurants.bot import Course

FORMAT = 3  # 1 had facts in the memory as lines of the bot; 2, one answer for each utterance of nearest


class Answerer(ABC):
    """Any of the models, ready to answer."""

    @abstractmethod
    def ranked(self, dialogues: Sequence[BabiDialogue], top: int) -> list[list[list[str]]]:
        """The best answers at each turn of each dialogue, given what was really said before it.

        Args:
          dialogues: with the right answers, which belong to the history of the turns after them.
          top: how many answers at most; fewer where the model has no more. The best is first, and none appears twice.
        """

    def answers(self, dialogues: Sequence[BabiDialogue]) -> list[list[str]]:
        """The best answer at each turn of each dialogue."""
        return [[ranking[0] for ranking in rankings] for rankings in self.ranked(dialogues, 1)]


class Card(saving.Card, frozen=True, kw_only=True):
    """What ``model.json`` says.

    Attributes:
      task: of the bAbI tasks, empty where that is not known.
      settings: of a net: its shape, see :class:`parapet.evaluation.models.babi.nets.Shape`.
      history: of ``tfidf``: whether all that was said counts.
      utterances: of ``tfidf``: how many of the user there are in training.
      having: of ``tfidf``: how many of them have a word.
      candidates: what may be answered; of ``nearest`` the responses of the training set, the most frequent first.
      knowledge: type to its words; empty without match-type features; of ``rules``, field to its values.
      words: that a net knows.
      pairs: of ``nearest``: utterances, each with its responses, the most frequent first.
      similarity: of ``nearest``: ``exact`` or ``overlap``.
      ontology: of ``rules``, in TOML.
      script: of ``rules`` from a file.
      course: of ``rules``: where dialogues go on in another way than usual.
    """

    format: int = FORMAT
    task: str = ""
    settings: dict[str, int | str | bool] = msgspec.field(default_factory=dict)
    history: bool = True
    utterances: int = 0
    having: dict[str, int] = msgspec.field(default_factory=dict)
    candidates: list[str] = msgspec.field(default_factory=list)
    knowledge: dict[str, list[str]] = msgspec.field(default_factory=dict)
    words: list[str] = msgspec.field(default_factory=list)
    pairs: list[tuple[str, list[str]]] = msgspec.field(default_factory=list)
    similarity: str = "exact"
    ontology: str = ""
    course: Course = Course()
    script: Script | None = None


def files_of(card: Card, weights: Mapping[str, Any] | None = None) -> dict[str, bytes]:
    """The files of a model's folder."""
    found = {MODEL: saving.card_bytes(card)}
    if weights is not None:
        found[WEIGHTS] = saving.weights_bytes(weights)
    return found


def read_card(folder: str, model: str) -> Card:
    """What is in a folder.

    Raises:
      InputError: no model is there, or another than ``model``, or the file is damaged.
    """
    card = saving.read_card(folder, model, Card, FORMAT)
    if card.model != "rules" and not card.candidates:
        raise InputError("is damaged: it has no answers to choose from", files.join(folder, MODEL))
    return card


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
        from parapet.evaluation.models.babi.scripts import ScriptBot

        return ScriptBot(card.script, card.knowledge, card.candidates)
    if card.model == "rules":
        from parapet.evaluation.models.babi.rules import RuleBot

        return RuleBot(card.ontology, card.knowledge, card.course)
    from parapet.evaluation.models.babi.baselines import Frequencies, Nearest, TfIdf
    from parapet.evaluation.models.babi.nets import NetAnswers, Shape, Vocabulary, make
    from parapet.evaluation.models.devices import device_of

    if card.model == "nearest":
        return Nearest(card.pairs, card.candidates, card.similarity)
    if card.model == "tfidf":
        return TfIdf(card.candidates, card.knowledge, Frequencies(card.utterances, card.having), card.history)
    vocabulary = Vocabulary(card.words, card.candidates, card.knowledge)
    try:
        net = make(card.model, vocabulary, msgspec.convert(card.settings, Shape))
    except (KeyError, RuntimeError, msgspec.ValidationError) as error:  # settings that are missing
        message = " ".join(str(error).split())[:300]
        raise InputError(f"does not fit {MODEL} beside it: {message}", files.join(folder, WEIGHTS)) from None
    saving.load_weights(net, folder)
    return NetAnswers(net, vocabulary, device_of(device), batch)
