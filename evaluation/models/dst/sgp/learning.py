"""Trains the modules together: batches of one module each, and the best epoch by joint goal accuracy on dev."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from parapet.evaluation.dst.frames import State
from parapet.evaluation.models.batching import bucketed
from parapet.evaluation.models.devices import device_of
from parapet.evaluation.models.dst.data import Labelled
from parapet.evaluation.models.dst.fine_tuning import FineTuning, joint_goal_accuracy, some
from parapet.evaluation.models.dst.pairs import History
from parapet.evaluation.models.dst.sgp.encoding import (
    Key,
    ModuleRows,
    Questions,
    Turn,
    ask,
    ask_for_transfer,
    user_turns,
)
from parapet.evaluation.models.dst.sgp.labels import Label, intent_label, slot_labels
from parapet.evaluation.models.dst.sgp.net import Modules
from parapet.evaluation.models.dst.sgp.rules import KINDS, START, Kind, needed
from parapet.evaluation.models.dst.sgp.tracking import Card, SgpTracker, files_of, load_encoder
from parapet.evaluation.models.pretrained import longest
from parapet.evaluation.models.training import Learner
from parapet.schemas.service import Service
from parapet.transforms.checkpoints import Checkpoint


class Config(FineTuning, frozen=True, kw_only=True):
    """How a model is trained: its inputs are questions to the modules.

    Attributes:
      shared: one encoder for all modules.
    """

    shared: bool


class Examples:
    """The questions of a training set to one module, with their answers.

    Args:
      rows: the questions.
      labels: the right answers.
      spans: of each the first and the last token of the value; -1 where none is to be found.
    """

    def __init__(self, rows: ModuleRows, labels: Sequence[Label], spans: Sequence[tuple[int, int]]) -> None:
        self.rows = rows
        self.options = torch.tensor([one.option for one in labels], dtype=torch.long)
        self.requested = torch.tensor([one.requested for one in labels], dtype=torch.float)
        self.spans = torch.tensor(spans, dtype=torch.long).view(-1, 2)
        # A value that was cut off cannot be found.
        cut = (self.spans[:, 0] >= 0) & (self.spans[:, 0] < rows.pairs.starts)
        self.options[cut], self.spans[cut] = 0, -1
        empty = torch.tensor([one.empty for one in labels], dtype=torch.bool) | cut
        self.full, self.empty = (~empty).nonzero().squeeze(1), empty.nonzero().squeeze(1)


class SgpLearner(Learner):
    """The modules with their data.

    Args:
      config: how they are trained.
      checkpoint: what the encoders begin with.
      train: frames to learn from; those of a dialogue follow one another.
      dev: frames that choose the best epoch.

    Raises:
      InputError: the checkpoint cannot be loaded.
    """

    metric = "joint goal accuracy"

    def __init__(
        self, config: Config, checkpoint: Checkpoint, train: Sequence[Labelled], dev: Sequence[Labelled]
    ) -> None:
        loaded = [load_encoder(checkpoint) for _ in range(1 if config.shared else len(KINDS))]
        tokenizer, encoder = loaded[0]
        longest(tokenizer, encoder, config.max_length, "--max_length")
        self.tokenizer, self.modules = tokenizer, Modules([encoder for _, encoder in loaded])
        self.device = device_of(config.device)
        self.config = config
        self.module = self.modules.to(self.device)
        parameters = self.modules.parameters()
        self.optimiser = torch.optim.AdamW(parameters, lr=config.learning_rate, weight_decay=0.01, fused=True)
        found, self.lost = examples_of(tokenizer, train, config.max_length)
        self.examples = {kind: one for kind, one in found.items() if len(one.rows)}
        firsts = [0]
        for one in self.examples.values():
            firsts.append(firsts[-1] + len(one.rows))
        self._firsts = dict(zip(self.examples, firsts, strict=False))
        self._dev = some(dev, config.dev_frames, config.seed)
        self._tracker = SgpTracker(tokenizer, self.modules, config.max_length, config.batch_size)
        self._report(len(dev))

    def _report(self, dev: int) -> None:
        for kind, one in self.examples.items():
            message = "module %s: %s inputs, %s of them with an answer"
            logging.info(message, kind, f"{len(one.rows):,}", f"{len(one.full):,}")
        logging.info("%s of %s dev frames choose the best epoch", f"{len(self._dev):,}", f"{dev:,}")
        cut = sum(one.rows.pairs.cut for one in self.examples.values())
        if cut:
            message = "%s inputs are longer than %d tokens: the oldest part of the dialogue is cut off"
            logging.warning(message, f"{cut:,}", self.config.max_length)
        if self.lost:
            message = "%s values are neither in the dialogue nor among the possible ones: they cannot be learned"
            logging.warning(message, f"{self.lost:,}")

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """The batches of an epoch, each of one module: numbers of inputs of all modules, one after the other."""
        batches = []
        for kind, one in self.examples.items():
            drawn = torch.randperm(len(one.empty), generator=generator)
            share = one.empty[drawn[: round(self.config.negatives * len(one.empty))]]
            numbers = torch.cat([one.full, share]).sort().values
            for batch in bucketed(one.rows.pairs.lengths[numbers], self.config.batch_size, generator):
                batches.append(numbers[batch] + self._firsts[kind])
        for i in torch.randperm(len(batches), generator=generator).tolist():
            yield batches[i]

    def loss(self, batch: Tensor) -> Tensor:
        """The mean loss: of the option, of the span where there is one, of whether the slot is asked for."""
        number = int(batch[0])
        kind = [kind for kind, first in self._firsts.items() if first <= number][-1]
        ids, examples = batch - self._firsts[kind], self.examples[kind]
        scores = self.module(kind, examples.rows.batch(ids).to(self.device))
        loss = F.cross_entropy(scores.options, examples.options[ids].to(self.device))
        if kind in ("categorical", "free"):
            wanted = examples.requested[ids].to(self.device)
            loss = loss + F.binary_cross_entropy_with_logits(scores.requested, wanted)
        some = (examples.spans[ids, 0] >= 0).nonzero().squeeze(1)  # on the CPU: no question to the GPU
        if len(some):
            for side, logits in enumerate((scores.starts, scores.ends)):
                columns = examples.rows.column(ids[some], examples.spans[ids[some], side]).to(self.device)
                # By all of the batch, so that a span counts the same in whatever batch it is.
                loss = loss + F.cross_entropy(logits[some.to(self.device)], columns, reduction="sum") / len(ids)
        return loss

    def dev(self) -> float:
        """The joint goal accuracy."""
        return joint_goal_accuracy(self._tracker, self._dev)

    def files(self) -> dict[str, bytes]:
        """The files of the model's folder."""
        card = Card(length=self.config.max_length, shared=self.config.shared)
        return files_of(card, self.tokenizer, self.modules.cpu())


def examples_of(tokenizer: Any, frames: Sequence[Labelled], limit: int) -> tuple[dict[Kind, Examples], int]:
    """The questions that dialogues raise, with the answers that their states tell; and how many values are lost.

    Each user turn is asked about each service of the dialogue until that is left for good, also where the turn has no
    frame of it: in prediction a model does not know which turns had one.
    """
    dialogues = list(dialogues_in(frames))
    # A dialogue is written where its longest history is.
    questions = Questions(tokenizer, [max((one.asked.history for one in of), key=len) for of in dialogues], limit)
    labels: dict[Kind, list[Label]] = {kind: [] for kind in KINDS}
    spans: dict[Kind, list[tuple[int, int]]] = {kind: [] for kind in KINDS}
    lost = 0
    for of, places in zip(dialogues, questions.places, strict=True):
        for service, history, states in by_service(of):
            before, last = START, None
            for key in user_turns(history, service):
                turn = Turn(service, last, places[: len(key[1])])
                state = states.get(len(key[1]) - 1)
                lost += _add(questions, turn, key, (before, state), labels, spans)
                before, last = state or before, key
    return {kind: Examples(questions.rows(kind), labels[kind], spans[kind]) for kind in KINDS}, lost


def _add(
    questions: Questions,
    turn: Turn,
    key: Key,
    states: tuple[State, State | None],
    labels: Mapping[Kind, list[Label]],
    spans: Mapping[Kind, list[tuple[int, int]]],
) -> int:
    """Adds the questions of a turn with their answers; gives how many values are lost."""
    before, state = states
    ask(questions, turn, key)
    found = {slot.name: slot_labels(slot, before, state, key[1]) for slot in turn.service.slots}
    answers: list[tuple[Kind, Label]] = [("intent", intent_label(turn.service, before, state))]
    answers += [("categorical" if slot.is_categorical else "free", found[slot.name].own) for slot in turn.service.slots]
    filled = {*before.slot_values, *(name for name, one in found.items() if one.own.option)}
    ask_for_transfer(questions, turn, filled)
    answers += [("transfer", found[name].transfer) for name in turn.transfer]
    for kind, label in answers:
        place = label.place
        where = questions.tokens_of(turn.places[place.turn], place.begin, place.end) if place else None
        labels[kind].append(label if where or not place else Label(0, None, label.requested))
        spans[kind].append(where or (-1, -1))
    return sum(one.lost for name, one in found.items() if name in needed(turn.service))


def dialogues_in(frames: Sequence[Labelled]) -> Iterator[list[Labelled]]:
    """Frames by dialogue. Two that follow one another may have the same id, and even begin alike."""
    found: list[Labelled] = []
    seen: set[tuple[int, str]] = set()
    for one in frames:
        asked = one.asked
        key = (asked.turn, asked.service.service_name)
        if found:
            last = found[-1].asked
            goes_on = asked.dialogue_id == last.dialogue_id and asked.history[: len(last.history)] == last.history
            if not goes_on or key in seen:
                yield found
                found, seen = [], set()
        found.append(one)
        seen.add(key)
    if found:
        yield found


def by_service(dialogue: Sequence[Labelled]) -> Iterator[tuple[Service, History, dict[int, State]]]:
    """Of each service the dialogue until its last frame, and the states by turn."""
    services = {id(one.asked.service): one.asked.service for one in dialogue}
    for number, service in services.items():
        of = [one for one in dialogue if id(one.asked.service) == number]
        yield service, of[-1].asked.history, {one.asked.turn: one.state for one in of}
