"""Trains a T5 on templates and utterances, or prefixes for one: batches, the loss, and how likely dev's tokens are."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from parapet.evaluation.models import training
from parapet.evaluation.models.batching import Rows, bucketed, by_length
from parapet.evaluation.models.devices import enough_memory
from parapet.evaluation.models.generation import saving
from parapet.evaluation.models.generation.data import Example, texts_of
from parapet.evaluation.models.generation.encoding import inputs_of, targets_of
from parapet.evaluation.models.generation.prefixes import Prefixes, attach, shape_of
from parapet.evaluation.models.pretrained import longest
from parapet.evaluation.models.training import Trained, fit
from parapet.transforms.checkpoints import Checkpoint, digest

WARMUP, CLIP = 0.05, 1.0
NO_TOKEN = -100  # where a batch of utterances is padded: what transformers leaves out of the loss

PREFIX_TUNED = "pt_t5"


class Settings(training.Settings, frozen=True, kw_only=True):
    """How a model is trained.

    Attributes:
      model: ``ft_t5`` or ``pt_t5``.
      max_input, max_output: tokens at most.
      prefix_length: positions of the prefixes; ``prefix_size`` the width of the MLPs between their layers.
    """

    model: str
    max_input: int
    max_output: int
    prefix_length: int = 0
    prefix_size: int = 0


def train(
    settings: Settings,
    checkpoint: Checkpoint,
    sets: tuple[Sequence[Example], Sequence[Example]],
    output: str,
    header: Mapping[str, Any],
    progress: bool,
) -> tuple[dict[str, bytes], Trained]:
    """Trains a model, or goes on where a training was stopped.

    Args:
      settings: how.
      checkpoint: of the T5.
      sets: those to learn from, those that choose the best epoch.
      output: the folder that keeps the state after each epoch.
      header: what the training depends on.
      progress: shows it on the terminal.

    Returns:
      The files of the model, and the log with what was learned.

    Raises:
      InputError: the checkpoint cannot be loaded, there is not enough memory, or the state in the folder is of another
        training.
    """
    settings.begin()
    tokenizer, t5 = saving.load_t5(checkpoint)
    longest(tokenizer, t5, settings.max_input, "--max_input")
    with enough_memory(f"lower --batch_size, which is {settings.batch}, or --max_input"):
        learner = GenerationLearner(settings, tokenizer, t5, *sets)
        trained = fit(learner, settings.schedule(WARMUP, True, CLIP), output, header, progress)
    learner.module.load_state_dict(trained.weights)
    card = saving.Card(
        model=settings.model,
        checkpoint=digest(checkpoint.path),
        max_input=settings.max_input,
        max_output=settings.max_output,
        prefix=settings.prefix_length,
    )
    if learner.prefixes is None:
        return saving.tuned_files(card, tokenizer, t5), trained
    with torch.inference_mode():
        return saving.prefix_files(card, learner.prefixes()), trained


class GenerationLearner:
    """A T5, or prefixes for one, with its data, as :func:`parapet.evaluation.models.training.fit` takes it.

    Args:
      settings: how it is trained.
      tokenizer, t5: of the checkpoint; fine-tuned, the T5 itself changes.
      train, dev: the turns.
    """

    metric = "probability of a token"

    def __init__(
        self, settings: Settings, tokenizer: Any, t5: Any, train: Sequence[Example], dev: Sequence[Example]
    ) -> None:
        device = torch.device(settings.device)
        self.settings, self.device, self.t5 = settings, device, t5.to(device)
        self.pad = int(tokenizer.pad_token_id)
        self.train, self._dev = (self._encoded(tokenizer, of, name) for of, name in ((train, "train"), (dev, "dev")))
        self.prefixes: Prefixes | None = None
        self.module: nn.Module = self.t5
        if settings.model == PREFIX_TUNED:
            t5.requires_grad_(False)
            self.held = attach(t5)
            width = int(t5.config.d_model)
            self.prefixes = Prefixes(shape_of(t5), settings.prefix_length, width, settings.prefix_size).to(device)
            self.module = self.prefixes
        # Of one kernel for all parameters; the results are those of a loop over them.
        self.optimiser = torch.optim.Adam(self.module.parameters(), lr=settings.rate, fused=True)

    def _encoded(self, tokenizer: Any, of: Sequence[Example], name: str) -> tuple[Rows, Rows]:
        texts, said = texts_of(of)
        inputs, cut = inputs_of(tokenizer, texts, self.settings.max_input)
        targets, short = targets_of(tokenizer, said, self.settings.max_output)
        for n, what, flag in ((sum(cut), "templates", "max_input"), (sum(short), "utterances", "max_output")):
            if n:
                side = "the beginning" if what == "templates" else "the end"
                most = getattr(self.settings, flag)
                told = "%s: %s %s are longer than --%s, %d tokens: %s is cut off"
                logging.warning(told, name, f"{n:,} of {len(of):,}", what, flag, most, side)
        return Rows(inputs, self.device), Rows(targets, self.device)

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """The batches of an epoch."""
        inputs, targets = self.train
        yield from bucketed(inputs.lengths + targets.lengths, self.settings.batch, generator)

    def loss(self, batch: Tensor) -> Tensor:
        """The mean loss of the tokens."""
        return self._loss(self.train, batch)

    def _loss(self, of: tuple[Rows, Rows], batch: Tensor) -> Tensor:
        ids, mask = of[0].padded(batch, self.pad)
        labels, _ = of[1].padded(batch, NO_TOKEN)
        if self.prefixes is not None:
            if self.t5.training != self.prefixes.training:  # frozen, it drops out as any model does that is trained
                self.t5.train(self.prefixes.training)
            self.held.of = self.prefixes()
        loss: Tensor = self.t5(input_ids=ids, attention_mask=mask, labels=labels, use_cache=False).loss
        return loss

    def dev(self) -> float:
        """The geometric mean of the tokens' probabilities, given those before them: one over the perplexity."""
        inputs, targets = self._dev
        lengths = (inputs.lengths + targets.lengths).tolist()
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for ids in by_length(lengths, self.settings.batch):
            batch = torch.tensor(ids)
            total += self._loss(self._dev, batch).double() * int(targets.lengths[batch].sum())
        return math.exp(-float(total) / int(targets.lengths.sum()))
