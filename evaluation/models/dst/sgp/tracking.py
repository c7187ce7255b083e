"""Predicts: follows each dialogue turn by turn, from its first user turn on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.model import Example
from parapet.evaluation.models.devices import enough_memory
from parapet.evaluation.models.dst.sgp.encoding import ModuleRows, Questions
from parapet.evaluation.models.dst.sgp.net import Modules, best_spans
from parapet.evaluation.models.dst.sgp.rules import START, Said, next_state, value_of
from parapet.evaluation.models.dst.sgp.texts import BEFORE, SAID, Kind
from parapet.evaluation.models.dst.sgp.turns import Key, Turn, ask, ask_for_transfer, user_turns

Decisions = Mapping[Kind, Sequence[Said]]


class SgpTracker:
    """A model ready to predict. What it says of an example depends on that alone: all is told by its history.

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
        told = [states[id(one.service), one.history] for one in examples]
        return told, sum(rows.pairs.cut for rows in asked.values())

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
        told = [Said(option, "", flag) for option, flag in zip(options, requested, strict=True)]
        return list(zip(told, margins.tolist(), strict=True))
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
