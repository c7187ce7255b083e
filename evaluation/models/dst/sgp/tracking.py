"""The tracker: follows each dialogue turn by turn, from its first user turn on; and its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.model import Example
from parapet.evaluation.models import pretrained, saving
from parapet.evaluation.models.devices import check_installed, device_of, enough_memory
from parapet.evaluation.models.dst.sgp.encoding import (
    Key,
    ModuleRows,
    Questions,
    Turn,
    ask,
    ask_for_transfer,
    user_turns,
)
from parapet.evaluation.models.dst.sgp.net import Modules, best_spans
from parapet.evaluation.models.dst.sgp.rules import BEFORE, KINDS, SAID, START, Kind, Said, next_state, value_of
from parapet.evaluation.models.saving import MODEL, WEIGHTS
from parapet.schemas.errors import InputError
from parapet.transforms import files
from parapet.transforms.checkpoints import Checkpoint, inspect

Decisions = Mapping[Kind, Sequence[Said]]


class SgpTracker:
    """A model ready to predict. Its prediction depends on the history of the example alone.

    Args:
      tokenizer: of the checkpoint.
      modules: on their device.
      length: tokens of an input at most.
      batch: inputs at a time.
    """

    def __init__(self, tokenizer: Any, modules: Modules, length: int, batch: int) -> None:
        self.tokenizer, self.modules = tokenizer, modules
        self.length, self.batch = length, batch

    def predict(self, batch: Sequence[Example]) -> list[State]:
        """The state of each example."""
        return self.tracked(batch)[0]

    def tracked(self, batch: Sequence[Example]) -> tuple[list[State], int]:
        """The state of each example; and how many questions were too long, so that the dialogue was cut off."""
        with torch.inference_mode(), enough_memory(f"lower --batch_size, which is {self.batch}"):
            return self._tracked(batch)

    def _tracked(self, examples: Sequence[Example]) -> tuple[list[State], int]:
        questions = Questions(self.tokenizer, [one.history for one in examples], self.length)
        turns: dict[Key, Turn] = {}
        for one, places in zip(examples, questions.places, strict=True):
            before: Key | None = None
            for key in user_turns(one.history, one.service):
                if key not in turns:
                    turns[key] = Turn(one.service, before, places[: len(key[1])])
                    ask(questions, turns[key], key)
                before = key
        asked: dict[Kind, ModuleRows] = {kind: questions.rows(kind) for kind in ("intent", "categorical", "free")}
        found = {kind: self._decide(questions, rows) for kind, rows in asked.items()}
        filled: dict[Key, set[str]] = {}
        for key, turn in turns.items():
            filled[key] = _filled(turn, found) | (filled[turn.before] if turn.before else set())
            ask_for_transfer(questions, turn, filled[key])
        asked["transfer"] = questions.rows("transfer")
        found["transfer"] = self._decide(questions, asked["transfer"])
        states: dict[Key, State] = {}
        for key, turn in turns.items():
            states[key] = _next(states[turn.before] if turn.before else START, turn, found)
        result = [states[id(one.service), one.history] for one in examples]
        return result, sum(rows.pairs.cut for rows in asked.values())

    def _decide(self, questions: Questions, rows: ModuleRows) -> list[Said]:
        device = next(self.modules.parameters()).device

        def decide(numbers: Sequence[int]) -> list[tuple[Said, float]]:
            return decided(self.modules, questions, rows, numbers, device)

        return rows.pairs.decisions(self.batch, decide) if len(rows) else []


def decided(
    modules: Modules, questions: Questions, rows: ModuleRows, numbers: Sequence[int], device: torch.device
) -> list[tuple[Said, float]]:
    """What a module says of some questions, and by how much the closest choice was won.

    Args:
      modules: on the device.
      questions: all of them.
      rows: those to the module.
      numbers: which of the rows.
      device: where it is computed.
    """
    batch = rows.batch(torch.tensor(numbers)).to(device)
    scores = modules(rows.kind, batch)
    best = scores.options.topk(2)
    options, margins = best.indices[:, 0].tolist(), best.values[:, 0] - best.values[:, 1]
    asked = rows.kind in ("categorical", "free")
    if asked:
        margins = torch.minimum(margins, scores.requested.abs())
    requested = (scores.requested > 0).tolist() if asked else [False] * len(numbers)
    chosen = {"free": SAID, "transfer": BEFORE}.get(rows.kind)
    if chosen is None:
        decisions = [Said(option, "", flag) for option, flag in zip(options, requested, strict=True)]
        return list(zip(decisions, margins.tolist(), strict=True))
    begins, ends, span_margins = best_spans(scores, batch)
    spoken = best.indices[:, 0] == chosen
    margins = torch.where(spoken, torch.minimum(margins, span_margins), margins)
    some = batch.open.any(1) & spoken
    found = []
    for row, option, flag, begin, end, there in zip(
        numbers, options, requested, begins.tolist(), ends.tolist(), some.tolist(), strict=True
    ):
        value = questions.text_of(rows.place(row, begin), rows.place(row, end)) if there else ""
        found.append(Said(option, value, flag))
    return list(zip(found, margins.tolist(), strict=True))


def _slots(turn: Turn, found: Decisions) -> dict[str, Said]:
    return {
        slot.name: found["categorical" if slot.is_categorical else "free"][turn.slots[slot.name]]
        for slot in turn.service.slots
    }


def _filled(turn: Turn, found: Decisions) -> set[str]:
    """The free slots that the user gives a value in a turn."""
    said = _slots(turn, found)
    return {
        slot.name for slot in turn.service.slots if not slot.is_categorical and value_of(said[slot.name], [], False)
    }


def _next(before: State, turn: Turn, found: Decisions) -> State:
    intent = found["intent"][turn.intent].option
    transfer = {name: found["transfer"][number] for name, number in turn.transfer.items()}
    return next_state(before, turn.service, intent, _slots(turn, found), transfer)


NAME = "sgp_dst"
FORMAT = 1
ARCHITECTURES = pretrained.BY_MODEL[NAME]


class Card(saving.Card, frozen=True, kw_only=True):
    """What ``model.json`` says.

    Attributes:
      length: tokens of an input at most.
      shared: whether there is one encoder for all modules, in ``checkpoint``; else each has its own below that.
    """

    model: str = NAME
    format: int = FORMAT
    length: int
    shared: bool


def _folders(shared: bool) -> list[str]:
    return [pretrained.FOLDER] if shared else [f"{pretrained.FOLDER}/{kind}" for kind in KINDS]


def files_of(card: Card, tokenizer: Any, modules: Modules) -> dict[str, bytes]:
    """The files of a model's folder: path to content."""
    found = {MODEL: saving.card_bytes(card), WEIGHTS: saving.weights_bytes(modules.heads.state_dict())}
    for folder, encoder in zip(_folders(card.shared), modules.encoders, strict=True):
        for path, data in pretrained.saved(tokenizer, encoder).items():
            found[folder + path.removeprefix(pretrained.FOLDER)] = data
    return found


def check(folder: str) -> tuple[Card, list[Checkpoint]]:
    """Looks at a folder, without its weights. Raises InputError where no model of this kind is in it."""
    check_installed("transformers")
    card = saving.read_card(folder, NAME, Card, FORMAT)
    if card.length < 1:
        raise InputError("is damaged: its length must be 1 or more", files.join(folder, MODEL))
    return card, [inspect(files.join(folder, place), ARCHITECTURES) for place in _folders(card.shared)]


def load(folder: str, device: str, batch: int) -> SgpTracker:
    """The model in a folder, ready to predict.

    Args:
      folder: as ``parapet train sgp_dst`` wrote it.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: inputs at a time.

    Raises:
      InputError: it is not there, of another kind, or damaged.
    """
    card, encoders = check(folder)
    loaded = [load_encoder(checkpoint) for checkpoint in encoders]
    modules = Modules([encoder for _, encoder in loaded])
    saving.load_weights(modules.heads, folder)
    return SgpTracker(loaded[0][0], modules.to(device_of(device)).eval(), card.length, batch)


def load_encoder(checkpoint: Checkpoint) -> tuple[Any, Any]:
    """The tokenizer and the encoder of a checkpoint. Raises InputError where it cannot be used."""
    tokenizer, encoder = pretrained.load(checkpoint, "AutoModel", new=("pooler.",))
    for name in ("cls_token_id", "sep_token_id", "pad_token_id"):
        if getattr(tokenizer, name) is None:
            raise checkpoint.refused(f"its tokenizer has no {name.removesuffix('_id')}")
    if not tokenizer.is_fast:
        raise checkpoint.refused("its tokenizer is slow: a fast one is needed, which maps tokens to characters")
    return tokenizer, encoder
