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
from parapet.evaluation.models.devices import device_of, enough_memory
from parapet.evaluation.models.dst.data import Labelled
from parapet.evaluation.models.dst.fine_tuning import FineTuning
from parapet.evaluation.models.dst.goals import joint_goal_accuracy, some
from parapet.evaluation.models.dst.pairs import History
from parapet.evaluation.models.dst.sgp.encoding import ModuleRows, Questions
from parapet.evaluation.models.dst.sgp.labels import Label, intent_label, slot_labels
from parapet.evaluation.models.dst.sgp.net import Modules
from parapet.evaluation.models.dst.sgp.rules import START
from parapet.evaluation.models.dst.sgp.saving import Card, load_encoder
from parapet.evaluation.models.dst.sgp.texts import KINDS, Kind, needed
from parapet.evaluation.models.dst.sgp.tracking import SgpTracker
from parapet.evaluation.models.dst.sgp.turns import Key, Turn, ask, ask_for_transfer, user_turns
from parapet.evaluation.models.pretrained import longest
from parapet.evaluation.models.training import Trained, fit
from parapet.schemas.service import Service
from parapet.transforms.checkpoints import Checkpoint


class Settings(FineTuning, frozen=True, kw_only=True):
    """How a model is trained: its inputs are questions to the modules.

    Attributes:
      shared: one encoder for all modules.
    """

    shared: bool


def train(
    settings: Settings,
    checkpoint: Checkpoint,
    sets: tuple[Sequence[Labelled], Sequence[Labelled]],
    output: str,
    header: Mapping[str, Any],
    progress: bool,
) -> tuple[Card, Any, Modules, Trained]:
    """Trains a model, or goes on where a training was stopped.

    Args:
      settings: how.
      checkpoint: that the encoders begin with.
      sets: the frames to learn from, and those that choose the best epoch.
      output: the folder that keeps the state after each epoch.
      header: what the training depends on.
      progress: shows it on the terminal.

    Returns:
      What is known of the model, its tokenizer, the modules with the weights of the best epoch, and the log.

    Raises:
      InputError: the checkpoint cannot be loaded, there is not enough memory, or the state in the folder is of another
        training.
    """
    settings.begin()
    loaded = [load_encoder(checkpoint) for _ in range(1 if settings.shared else len(KINDS))]
    tokenizer, encoder = loaded[0]
    longest(tokenizer, encoder, settings.length, "--max_length")
    with enough_memory(f"lower --batch_size, which is {settings.batch}, or --max_length, which is {settings.length}"):
        modules = Modules([encoder for _, encoder in loaded])
        learner = SgpLearner(settings, tokenizer, modules, *sets)
        trained = fit(learner, settings.plan(), output, header, progress)
        modules.load_state_dict(trained.weights)
    return Card(length=settings.length, shared=settings.shared), tokenizer, modules.cpu(), trained


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


class SgpLearner:
    """A model with its data, as :func:`parapet.evaluation.models.training.fit` takes it.

    Args:
      settings: how it is trained.
      tokenizer: of the checkpoint.
      modules: with new heads.
      train: frames to learn from; those of a dialogue follow one another.
      dev: frames that choose the best epoch.
    """

    metric = "joint goal accuracy"

    def __init__(
        self,
        settings: Settings,
        tokenizer: Any,
        modules: Modules,
        train: Sequence[Labelled],
        dev: Sequence[Labelled],
    ) -> None:
        self.device = device_of(settings.device)
        self.settings = settings
        self.module = modules.to(self.device)
        self.optimiser = torch.optim.AdamW(modules.parameters(), lr=settings.rate, weight_decay=0.01, fused=True)
        found, self.lost = examples_of(tokenizer, train, settings.length)
        self.examples = {kind: one for kind, one in found.items() if len(one.rows)}
        firsts = [0]
        for one in self.examples.values():
            firsts.append(firsts[-1] + len(one.rows))
        self._firsts = dict(zip(self.examples, firsts, strict=False))
        self._dev = some(dev, settings.dev_frames, settings.seed)
        self._tracker = SgpTracker(tokenizer, modules, settings.length, settings.batch)
        self._tell(len(dev))

    def _tell(self, dev: int) -> None:
        for kind, one in self.examples.items():
            told = "module %s: %s inputs, %s of them with something to say"
            logging.info(told, kind, f"{len(one.rows):,}", f"{len(one.full):,}")
        logging.info("%s of %s frames choose the best epoch", f"{len(self._dev):,}", f"{dev:,}")
        cut = sum(one.rows.pairs.cut for one in self.examples.values())
        if cut:
            told = "%s inputs are longer than %d tokens: the oldest of the dialogue is left out"
            logging.warning(told, f"{cut:,}", self.settings.length)
        if self.lost:
            told = "%s values stand neither in the dialogue nor among the possible ones: they cannot be learned"
            logging.warning(told, f"{self.lost:,}")

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """The batches of an epoch, each of one module: numbers of inputs of all modules, one after the other."""
        batches = []
        for kind, one in self.examples.items():
            drawn = torch.randperm(len(one.empty), generator=generator)
            share = one.empty[drawn[: round(self.settings.negatives * len(one.empty))]]
            numbers = torch.cat([one.full, share]).sort().values
            for batch in bucketed(one.rows.pairs.lengths[numbers], self.settings.batch, generator):
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


def examples_of(tokenizer: Any, frames: Sequence[Labelled], limit: int) -> tuple[dict[Kind, Examples], int]:
    """The questions that dialogues raise, with the answers that their states tell; and how many values are lost.

    Each user turn is asked about each service of the dialogue until that is left for good, also where the turn has no
    frame of it: when it predicts, a model is not told which turns had one.
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
    made = {kind: Examples(questions.rows(kind), labels[kind], spans[kind]) for kind in KINDS}
    return made, lost


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
    told: list[tuple[Kind, Label]] = [("intent", intent_label(turn.service, before, state))]
    told += [("categorical" if slot.is_categorical else "free", found[slot.name].own) for slot in turn.service.slots]
    filled = {*before.slot_values, *(name for name, one in found.items() if one.own.option)}
    ask_for_transfer(questions, turn, filled)
    told += [("transfer", found[name].transfer) for name in turn.transfer]
    for kind, label in told:
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
