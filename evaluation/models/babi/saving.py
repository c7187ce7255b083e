"""A model in a folder: ``model.json`` says what it is and knows, ``weights.safetensors`` has what was learned.

Neither can run code of its own, and both are checked when they are read: folders come from strangers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from schemas.errors import InputError
from transforms import files
from transforms.babi.reading import BabiDialogue

MODEL, WEIGHTS = "model.json", "weights.safetensors"
FORMAT = 1
NETS = ("embeddings", "memn2n")
MODELS = ("rules", "tfidf", "nearest", *NETS)


class Answerer(Protocol):
    """Any of the models, ready to answer."""

    def answers(self, dialogues: Sequence[BabiDialogue]) -> list[list[str]]:
        """The answers at each turn of each dialogue, given what was really said before it."""


class Card(msgspec.Struct, frozen=True):
    """What ``model.json`` says.

    Attributes:
      model: its name.
      task: of the bAbI tasks, empty where that is not known.
      settings: numbers that shape a net.
      history: of ``tfidf``: whether all that was said counts.
      candidates: what may be answered.
      knowledge: type to its words; empty without match-type features.
      words: that a net knows.
      pairs: of ``nearest``.
      ontology: of ``rules``, in TOML.
      format: of the folder.
    """

    model: str
    task: str = ""
    settings: dict[str, int] = {}
    history: bool = True
    candidates: list[str] = []
    knowledge: dict[str, list[str]] = {}
    words: list[str] = []
    pairs: list[tuple[str, str]] = []
    ontology: str = ""
    format: int = FORMAT


def files_of(card: Card, weights: Mapping[str, Any] | None = None) -> dict[str, bytes]:
    """The files of a model's folder."""
    found = {MODEL: msgspec.json.format(msgspec.json.encode(card), indent=1) + b"\n"}
    if weights is not None:
        from safetensors.torch import save

        found[WEIGHTS] = save({name: value.cpu().contiguous() for name, value in weights.items()})
    return found


def read_card(folder: str, model: str) -> Card:
    """What is in a folder.

    Raises:
      InputError: no model is there, or another than ``model``, or the file is damaged.
    """
    place = files.join(folder, MODEL)
    try:
        data = files.read_bytes(place)
    except Exception:  # a file system's or a bucket's own
        raise InputError(f"no model is here: expected {MODEL}, as 'parapet train {model}' writes it", folder) from None
    try:
        card = msgspec.json.decode(data, type=Card)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"is damaged, or no model of ours: {error}", place) from None
    if card.model != model:
        there = f": 'parapet predict {card.model}' takes it" if card.model in MODELS else ""
        raise InputError(f"is a model of another kind, {card.model!r}{there}", place)
    if card.format != FORMAT:
        raise InputError(f"is of format {card.format}, and this program reads {FORMAT}: train it again", place)
    if card.model != "rules" and not (card.candidates or card.pairs):
        raise InputError("has nothing to answer: train it again", place)
    return card


def load(folder: str, model: str, device: str, batch: int) -> tuple[Card, Answerer]:
    """What is known of a model, and the model, ready to answer.

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
    if card.model == "rules":
        from evaluation.models.babi.rules import RuleBot

        return RuleBot(card.ontology)
    if card.model == "nearest":
        from evaluation.models.babi.nearest import Nearest

        return Nearest(card.pairs)
    if card.model == "tfidf":
        from evaluation.models.babi.tfidf import TfIdf

        return TfIdf(card.candidates, card.knowledge, card.history)
    return _load_net(folder, card, device, batch)


def _load_net(folder: str, card: Card, device: str, batch: int) -> Answerer:
    from safetensors import SafetensorError
    from safetensors.torch import load as load_weights

    from evaluation.models.babi.answering import NetAnswers
    from evaluation.models.babi.nets import Vocabulary, make
    from evaluation.models.devices import device_of

    place = files.join(folder, WEIGHTS)
    vocabulary = Vocabulary(card.words, card.candidates, card.knowledge)
    try:
        weights = load_weights(files.read_bytes(place))
        net = make(card.model, vocabulary, card.settings)
        net.load_state_dict(weights)
    except SafetensorError as error:
        raise InputError(f"is cut off or damaged ({error}): train the model again", place) from None
    except (KeyError, RuntimeError) as error:  # settings that are missing, shapes that do not fit
        told = " ".join(str(error).split())[:300]
        raise InputError(f"does not fit {MODEL} beside it: {told}", place) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error}", place) from None
    return NetAnswers(net, vocabulary, device_of(device), batch)
