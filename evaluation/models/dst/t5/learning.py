"""Fine-tunes a checkpoint on the prompts of a corpus."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from parapet.evaluation.models.batching import Rows, bucketed
from parapet.evaluation.models.devices import device_of, enough_memory
from parapet.evaluation.models.dst.data import Labelled
from parapet.evaluation.models.dst.fine_tuning import FineTuning
from parapet.evaluation.models.dst.goals import joint_goal_accuracy, some
from parapet.evaluation.models.dst.t5.encoding import Questions, encoded
from parapet.evaluation.models.dst.t5.prompts import NONE, target
from parapet.evaluation.models.dst.t5.saving import Card
from parapet.evaluation.models.dst.t5.tracking import T5Tracker
from parapet.evaluation.models.pretrained import load, longest
from parapet.evaluation.models.training import Trained, fit
from parapet.transforms.checkpoints import Checkpoint

ANSWER = 64  # tokens of an answer at most
IGNORED = -100  # a label that costs nothing


class Settings(FineTuning, frozen=True, kw_only=True):
    """How a model is trained: its inputs are prompts."""


def train(
    settings: Settings,
    checkpoint: Checkpoint,
    sets: tuple[Sequence[Labelled], Sequence[Labelled]],
    output: str,
    header: Mapping[str, Any],
    progress: bool,
) -> tuple[Card, Any, Any, Trained]:
    """Trains a model, or goes on where a training was stopped.

    Args:
      settings: how.
      checkpoint: that is fine-tuned.
      sets: the frames to learn from, and those that choose the best epoch.
      output: the folder that keeps the state after each epoch.
      header: what the training depends on.
      progress: shows it on the terminal.

    Returns:
      What is known of the model, its tokenizer, the model with the weights of the best epoch, and the log.

    Raises:
      InputError: the checkpoint cannot be loaded, there is not enough memory, or the state in the folder is of another
        training.
    """
    settings.begin()
    tokenizer, t5 = load(checkpoint, "AutoModelForSeq2SeqLM")
    longest(tokenizer, t5, settings.length, "--max_length")
    with enough_memory(f"lower --batch_size, which is {settings.batch}, or --max_length, which is {settings.length}"):
        learner = T5Learner(settings, tokenizer, t5, *sets)
        trained = fit(learner, settings.plan(), output, header, progress)
        t5.load_state_dict(trained.weights)
    return Card(length=settings.length, answer=ANSWER), tokenizer, t5.cpu(), trained


class T5Learner:
    """A model with its data, as :func:`parapet.evaluation.models.training.fit` takes it.

    Args:
      settings: how it is trained.
      tokenizer: of the checkpoint.
      t5: the checkpoint.
      train: frames to learn from; those of a dialogue follow one another.
      dev: frames that choose the best epoch.
    """

    metric = "joint goal accuracy"

    def __init__(
        self, settings: Settings, tokenizer: Any, t5: Any, train: Sequence[Labelled], dev: Sequence[Labelled]
    ) -> None:
        self.device = device_of(settings.device)
        self.settings, self.fill = settings, tokenizer.pad_token_id
        self.module = t5.to(self.device)
        self.optimiser = torch.optim.AdamW(t5.parameters(), lr=settings.rate, weight_decay=0.0, fused=True)
        questions = Questions(tokenizer, [one.asked for one in train], settings.length)
        answers = [
            target(prompt, one.asked.service, one.state, one.asked.history)
            for one, prompts in zip(train, questions.prompts, strict=True)
            for prompt in prompts
        ]
        ids = encoded(tokenizer, answers)
        end = [tokenizer.eos_token_id]
        self.inputs, self.answers = questions.pairs, Rows([ids[one][: ANSWER - 1] + end for one in answers])
        empty = torch.tensor([one == NONE for one in answers])
        self.full, self.empty = (~empty).nonzero().squeeze(1), empty.nonzero().squeeze(1)
        self._dev = some(dev, settings.dev_frames, settings.seed)
        self._tracker = T5Tracker(tokenizer, t5, settings.length, ANSWER, settings.batch)
        self._tell(len([one for one in answers if len(ids[one]) >= ANSWER]), len(dev))

    def _tell(self, long: int, dev: int) -> None:
        told = "%s prompts, %s of them with a value; %s"
        frames = f"{len(self._dev):,} of {dev:,} frames choose the best epoch"
        logging.info(told, f"{len(self.inputs):,}", f"{len(self.full):,}", frames)
        if self.inputs.cut:
            told = "%s prompts are longer than %d tokens: the oldest of the dialogue is left out"
            logging.warning(told, f"{self.inputs.cut:,}", self.settings.length)
        if long:
            logging.warning("%s answers are longer than %d tokens: they are cut off", f"{long:,}", ANSWER)

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """The batches of an epoch: all prompts with a value, and the share of the others."""
        drawn = torch.randperm(len(self.empty), generator=generator)
        share = self.empty[drawn[: round(self.settings.negatives * len(self.empty))]]
        numbers = torch.cat([self.full, share]).sort().values
        for batch in bucketed(self.inputs.lengths[numbers], self.settings.batch, generator):
            yield numbers[batch]

    def loss(self, batch: Tensor) -> Tensor:
        """The mean loss of the answers' tokens."""
        tokens, mask = self.inputs.padded(batch, self.fill)
        labels, _ = self.answers.padded(batch, IGNORED)
        tokens, mask, labels = (one.to(self.device, non_blocking=True) for one in (tokens, mask, labels))
        loss: Tensor = self.module(input_ids=tokens, attention_mask=mask, labels=labels).loss
        return loss

    def dev(self) -> float:
        """The joint goal accuracy."""
        return joint_goal_accuracy(self._tracker, self._dev)
