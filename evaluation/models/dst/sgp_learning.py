"""Trains the modules: each on its own questions with its own schedule. Joint goal accuracy selects the best epoch."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from parapet.evaluation.dst.frames import State
from parapet.evaluation.models.batches import bucketed
from parapet.evaluation.models.configs import SgpDstConfig
from parapet.evaluation.models.dst import sgp_rules as rules
from parapet.evaluation.models.dst import sgp_tracking as tracking
from parapet.evaluation.models.dst.data import Labelled, joint_goal_accuracy, some
from parapet.evaluation.models.saving import device_of, longest
from parapet.evaluation.models.training import Learner
from parapet.schemas.service import Service
from parapet.transforms.core.checkpoints import Checkpoint

BETAS = (0.9, 0.999)


EPSILON = 1e-6


WEIGHT_DECAY = 0.01


NOT_DECAYED = ("bias", "LayerNorm.weight")


def warmup_linear(progress: float, warmup: float) -> float:
    """Returns the share of the full learning rate: it rises to 1 at ``warmup``, then falls to 0 at 1."""
    if progress < warmup:
        return progress / warmup
    return max((1 - progress) / (1 - warmup), 0.0) if warmup < 1 else 1.0


def groups_of(parameters: Iterable[tuple[str, Tensor]], **settings: Any) -> list[dict[str, Any]]:
    """Groups named parameters into those with weight decay, and biases and normalisations without.

    Args:
      parameters: (name, parameter).
      settings: settings of both groups, such as ``steps`` and ``warmup``.
    """
    decayed: dict[bool, list[Tensor]] = {True: [], False: []}
    for name, parameter in parameters:
        decayed[not name.endswith(NOT_DECAYED)].append(parameter)
    return [{"params": some, "weight_decay": WEIGHT_DECAY * flag, **settings} for flag, some in decayed.items()]


class BertAdam(torch.optim.Optimizer):
    """Adam with decoupled weight decay and without bias correction, as in ``pytorch-pretrained-bert`` 0.6.2.

    torch's AdamW corrects the bias, which makes a large difference in the first steps. A group's learning rate follows
    :func:`warmup_linear` over the steps that have a gradient for it, so that modules trained in alternation behave as
    if trained alone. The gradient norm of each tensor is clipped by itself.

    Args:
      groups: groups of parameters, each with ``steps``, its number of steps, and ``warmup``, the share of these in
        which the learning rate rises.
      lr: the full learning rate.
      clip: the largest norm; 0 for any.
      decay: whether the rate falls after the warm-up.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], lr: float, clip: float = 1.0, decay: bool = True) -> None:
        super().__init__(groups, {"lr": lr, "initial_lr": lr, "clip": clip, "decay": decay, "step": 0})

    def step(self, closure: Callable[[], float] | None = None) -> None:
        """Makes a step for the parameters that have a gradient.

        It resets the ``lr`` of each group to its initial value.
        """
        with torch.no_grad():
            self._step()

    def _step(self) -> None:
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not parameters:
                group["lr"] = 0.0
                continue
            progress = group["step"] / group["steps"]
            share = warmup_linear(progress, group["warmup"]) if group["decay"] or progress < group["warmup"] else 1.0
            group["lr"] = group["initial_lr"] * share
            group["step"] += 1
            gradients = [parameter.grad for parameter in parameters]
            if group["clip"]:
                norms = torch.stack(torch._foreach_norm(gradients))
                shares = (group["clip"] / (norms + 1e-6)).clamp(max=1.0)
                gradients = torch._foreach_mul(gradients, list(shares.unbind()))
            means, squares = zip(*(self._moments(parameter) for parameter in parameters), strict=True)
            torch._foreach_mul_(means, BETAS[0])
            torch._foreach_add_(means, gradients, alpha=1 - BETAS[0])
            torch._foreach_mul_(squares, BETAS[1])
            torch._foreach_addcmul_(squares, gradients, gradients, value=1 - BETAS[1])
            scales = torch._foreach_sqrt(squares)
            torch._foreach_add_(scales, EPSILON)
            updates = torch._foreach_div(means, scales)
            if group["weight_decay"]:
                torch._foreach_add_(updates, parameters, alpha=group["weight_decay"])
            torch._foreach_add_(parameters, updates, alpha=-group["lr"])

    def _moments(self, parameter: Tensor) -> tuple[Tensor, Tensor]:
        state = self.state[parameter]
        if not state:
            state.update(mean=torch.zeros_like(parameter), square=torch.zeros_like(parameter))
        return state["mean"], state["square"]


class Examples:
    """The questions of a training set to one module, with their answers.

    Args:
      questions: all questions.
      labels: the right answers.
      negatives: the share of the questions without an answer that an epoch uses.
    """

    def __init__(self, questions: tracking.Questions, labels: Sequence[rules.Label], negatives: float) -> None:
        self.questions = questions
        self.options = torch.tensor([label.option for label in labels], dtype=torch.long)
        self.yes = torch.tensor([label.requested for label in labels], dtype=torch.float)
        # The tokens of a value; -1 if there is none, or it was cut off.
        self.spans = torch.tensor([label.place or (-1, -1) for label in labels], dtype=torch.long).view(-1, 2)
        if len(labels):
            first = questions.first(torch.arange(len(labels)))
            self.spans[first + self.spans[:, 0] < questions.pairs.lead] = -1
        empty = (self.options == 0) & (self.yes == 0) & (self.spans[:, 0] < 0) & (questions.kind != "intents")
        self.full, self.empty = (~empty).nonzero().squeeze(1), empty.nonzero().squeeze(1)
        self.drawn = round(negatives * len(self.empty))

    def __len__(self) -> int:
        """The number of questions in an epoch."""
        return len(self.full) + self.drawn

    def draw(self, generator: torch.Generator) -> Tensor:
        """Draws the numbers of the questions of an epoch: all with an answer, and the share of the others."""
        drawn = torch.randperm(len(self.empty), generator=generator)[: self.drawn]
        return torch.cat([self.full, self.empty[drawn]]).sort().values


class SgpLearner(Learner):
    """The modules with their data.

    Args:
      config: the settings of the training.
      checkpoint: the checkpoint that the encoders start from.
      train: frames to learn from; those of a dialogue are adjacent.
      dev: frames that select the best epoch.

    Raises:
      InputError: the checkpoint cannot be loaded.
    """

    metric = "joint goal accuracy"

    def __init__(
        self,
        config: SgpDstConfig,
        checkpoint: Checkpoint,
        train: Sequence[Labelled],
        dev: Sequence[Labelled],
    ) -> None:
        loaded = [tracking.load_encoder(checkpoint) for _ in rules.KINDS]
        tokenizer, encoder = loaded[0]
        longest(tokenizer, encoder, config.max_length, "--max_length")
        self.tokenizer, self.modules = tokenizer, tracking.Modules([encoder for _, encoder in loaded])
        self.device = device_of(config.device)
        self.config = config
        self.module = self.modules.to(self.device)
        self._read(train)
        self.steps = steps_of(config, {kind: len(examples_of_kind) for kind, examples_of_kind in self.examples.items()})
        warmups = config.by_module("warmup")
        groups = [
            {**group, "module": kind}
            for kind in self.examples
            for group in groups_of(
                [*self.modules.encoders[kind].named_parameters(), *self.modules.heads[kind].named_parameters()],
                steps=self.steps[kind],
                warmup=warmups[kind],
            )
        ]
        self.total_steps = sum(self.steps.values())
        self.optimiser = BertAdam(groups, config.learning_rate, config.clip, config.schedule == "linear")
        self._dev = some(dev, config.dev_frames, config.seed)
        self._tracker = tracking.SgpTracker(tokenizer, self.modules, config.max_length, config.batch_size)
        self._warn()

    def _read(self, frames: Sequence[Labelled]) -> None:
        """Encodes frames: the questions to each module that has any."""
        texts = tracking.Texts(self.tokenizer, ["", *(text for frame in frames for _, text in frame.asked.history)])
        questions, labels, self.lost = questions_of(texts, frames, self.config.max_length)
        self.examples: dict[rules.Kind, Examples] = {}
        shares = self.config.by_module("negatives")
        for kind, questions_of_kind in questions.items():
            if len(examples := Examples(questions_of_kind, labels[kind], shares[kind])):
                self.examples[kind] = examples
        firsts = [0]
        for example in self.examples.values():
            firsts.append(firsts[-1] + len(example.questions))
        self._firsts = dict(zip(self.examples, firsts, strict=False))

    def _warn(self) -> None:
        cut = sum(example.questions.pairs.cut for example in self.examples.values())
        if cut:
            message = "%s inputs are longer than %d tokens: the oldest part of the dialogue is cut off"
            logging.warning(message, f"{cut:,}", self.config.max_length)
        if self.lost:
            message = "%s values are neither in the dialogue nor among the possible values, and cannot be learned"
            logging.warning(message, f"{self.lost:,}")

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """Yields the batches of an epoch, each for one module; input numbers continue from one module to the next.

        Modules that have completed their epochs have no batches.
        """
        done = {group["module"]: group["step"] for group in self.optimiser.param_groups}
        kinds = [kind for kind in self.examples if self.config.steps or done[kind] < self.steps[kind]]
        batches = []
        for kind in kinds or self.examples:  # if all are complete, the learning rates are 0
            examples_of_kind = self.examples[kind]
            numbers = examples_of_kind.draw(generator)
            for batch in bucketed(examples_of_kind.questions.pairs.lengths[numbers], self.config.batch_size, generator):
                batches.append(numbers[batch] + self._firsts[kind])
        for i in torch.randperm(len(batches), generator=generator).tolist():
            yield batches[i]

    def loss(self, batch: Tensor) -> Tensor:
        """Computes the mean loss of a batch, summed over the outputs of its module."""
        number = int(batch[0])
        kind = [kind for kind, first in self._firsts.items() if first <= number][-1]
        ids, examples = batch - self._firsts[kind], self.examples[kind]
        inputs = examples.questions.batch(ids)
        first, null = examples.questions.first(ids)[:, None], inputs.null[:, None]
        scores = self.module(kind, inputs.to(self.device))
        if kind in ("copy_slot", "cross_copy"):
            return F.binary_cross_entropy_with_logits(scores.yes, examples.yes[ids].to(self.device))
        loss = F.cross_entropy(scores.options, examples.options[ids].to(self.device))
        if kind == "combine":
            spans = examples.spans[ids]
            columns = torch.where(spans < 0, null, first + spans).to(self.device)
            loss = loss + F.cross_entropy(scores.starts, columns[:, 0]) + F.cross_entropy(scores.ends, columns[:, 1])
            loss = loss + F.binary_cross_entropy_with_logits(scores.yes, examples.yes[ids].to(self.device))
        return loss

    def dev(self) -> float:
        """Computes joint goal accuracy on dev."""
        return joint_goal_accuracy(self._tracker, self._dev)

    def files(self) -> dict[str, bytes]:
        """Makes the files of the model's folder."""
        return tracking.files_of(tracking.Card(length=self.config.max_length), self.tokenizer, self.modules.cpu())


def steps_of(config: SgpDstConfig, sizes: Mapping[rules.Kind, int]) -> dict[rules.Kind, int]:
    """Returns the number of steps of each module: from its epochs, or its share of ``--steps``.

    Args:
      config: the settings of the training.
      sizes: the number of inputs in an epoch.
    """
    epoch = {kind: math.ceil(size / config.batch_size) for kind, size in sizes.items()}
    if config.steps is not None:
        return {kind: max(1, round(config.steps * steps / sum(epoch.values()))) for kind, steps in epoch.items()}
    epochs = config.by_module("epochs")
    return {kind: int(epochs[kind]) * steps for kind, steps in epoch.items()}


def questions_of(
    texts: tracking.Texts, frames: Sequence[Labelled], limit: int
) -> tuple[dict[rules.Kind, tracking.Questions], dict[rules.Kind, list[rules.Label]], int]:
    """Makes the questions of dialogues, with answers from their states; also returns the number of lost values."""
    questions = {kind: tracking.Questions(texts, kind, limit) for kind in rules.KINDS}
    labels: dict[rules.Kind, list[rules.Label]] = {kind: [] for kind in rules.KINDS}
    lost = 0
    for memory, turn, states in labelled_turns(frames):
        for service in turn.services:
            lost += _add(questions, labels, memory, turn, service, states[service.service_name])
    return questions, labels, lost


def labelled_turns(frames: Sequence[Labelled]) -> Iterator[tuple[rules.Memory, rules.Turn, dict[str, State]]]:
    """Yields the user turns of dialogues with the memory before the turn, and the right states after it, by service."""
    for dialogue in dialogues_in(frames):
        states = {(frame.asked.turn, frame.asked.service.service_name): frame.state for frame in dialogue}
        memory = rules.Memory()
        for turn in rules.follow(max((frame.asked for frame in dialogue), key=lambda one: len(one.history)), memory):
            known = {
                service.service_name: states.get((turn.position, service.service_name)) or memory.state(service)
                for service in turn.services
            }
            yield memory, turn, known
            memory.conclude(known, turn.services)


def _add(
    questions: Mapping[rules.Kind, tracking.Questions],
    labels: Mapping[rules.Kind, list[rules.Label]],
    memory: rules.Memory,
    turn: rules.Turn,
    service: Service,
    state: State,
) -> int:
    """Adds the questions of a frame with their answers; returns the number of lost values."""
    tracking.ask_intents(questions["intents"], memory, turn, service)
    labels["intents"].append(rules.Label(rules.intent_label(service, state)))
    before, utterance = memory.state(service), turn.exchange[1]
    label_of_slot = {slot.name: rules.slot_label(service, slot, memory, state, utterance) for slot in service.slots}
    for slot in service.slots:
        label = label_of_slot[slot.name]
        if label.origin == "system":  # "combine" may or may not see such a value in the user's utterance
            continue
        tracking.ask_combine(questions["combine"], memory, turn, service, slot)
        place = questions["combine"].texts.tokens_of(utterance, *label.place) if label.place else None
        labels["combine"].append(rules.Label(label.option, place, label.requested) if label.place else label)
    filled = {*before.slot_values, *(name for name, label in label_of_slot.items() if label.origin == "user")}
    for slot in memory.copy_questions(service, filled):
        tracking.ask_copy(questions["copy_slot"], turn, service, slot, state.active_intent)
        labels["copy_slot"].append(rules.Label(requested=label_of_slot[slot.name].origin == "system"))
    crossed = set()
    for slot, source in memory.cross_questions(service, filled):
        tracking.ask_cross(questions["cross_copy"], memory, turn, service, slot, state.active_intent, source)
        new = label_of_slot[slot.name].origin == "other" and not memory.had_value(service, slot)
        copied = new and bool(set(state.slot_values[slot.name]) & set(source.values))
        labels["cross_copy"].append(rules.Label(requested=copied))
        if copied:
            crossed.add(slot.name)
    return sum(
        label.origin == "other" and name not in crossed
        for name, label in label_of_slot.items()
        if name in rules.needed(service)
    )


def dialogues_in(frames: Sequence[Labelled]) -> Iterator[list[Labelled]]:
    """Groups frames by dialogue, also if adjacent dialogues have the same id and the same beginning."""
    examples: list[Labelled] = []
    seen: set[tuple[int, str]] = set()
    for frame in frames:
        requested = frame.asked
        key = (requested.turn, requested.service.service_name)
        if examples:
            last = examples[-1].asked
            goes_on = (
                requested.dialogue_id == last.dialogue_id and requested.history[: len(last.history)] == last.history
            )
            if not goes_on or key in seen:
                yield examples
                examples, seen = [], set()
        examples.append(frame)
        seen.add(key)
    if examples:
        yield examples
