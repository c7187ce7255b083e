"""Trains a T5 on templates and utterances, or prefixes for one."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from parapet.evaluation.models.batching import Rows, bucketed, by_length
from parapet.evaluation.models.configs import GenerationConfig
from parapet.evaluation.models.generation import saving
from parapet.evaluation.models.generation.data import Example, texts_of
from parapet.evaluation.models.generation.prefixes import Prefixes, attach, shape_of
from parapet.evaluation.models.generation.saving import inputs_of, targets_of
from parapet.evaluation.models.generation.templates import NONE, Templates
from parapet.evaluation.models.pretrained import longest
from parapet.evaluation.models.training import Learner
from parapet.transforms.checkpoints import Checkpoint, digest

NO_TOKEN = -100  # pads a batch of utterances: the label that transformers leaves out of the loss

PREFIX_TUNED = "pt_t5"


class GenerationLearner(Learner):
    """A T5, or prefixes for one, with its data.

    Args:
      config: how it is trained.
      checkpoint: of the T5.
      train, dev: system turns.
      templates: the user's, for the card.

    Raises:
      InputError: the checkpoint cannot be loaded.
    """

    metric = "mean token probability"

    def __init__(
        self,
        config: GenerationConfig,
        checkpoint: Checkpoint,
        train: Sequence[Example],
        dev: Sequence[Example],
        templates: Templates = NONE,
    ) -> None:
        self.tokenizer, t5 = saving.load_t5(checkpoint)
        longest(self.tokenizer, t5, config.max_input, "--max_input")
        device = torch.device(config.device)
        self.config, self.checkpoint, self.templates = config, checkpoint, templates
        self.device, self.t5 = device, t5.to(device)
        tokenizer = self.tokenizer
        self.pad = int(tokenizer.pad_token_id)
        self.train, self._dev = (self._encoded(tokenizer, of, name) for of, name in ((train, "train"), (dev, "dev")))
        self.prefixes: Prefixes | None = None
        self.module: nn.Module = self.t5
        if config.model == PREFIX_TUNED:
            t5.requires_grad_(False)
            self.held = attach(t5)
            sizes = config.prefix_length, config.prefix_embedding, config.prefix_size
            self.prefixes = Prefixes(shape_of(t5), *sizes).to(device)
            self.module = self.prefixes
        # Of one kernel for all parameters; the results are those of a loop over them.
        self.optimiser = torch.optim.AdamW(self.module.parameters(), lr=config.learning_rate, fused=True)

    def _encoded(self, tokenizer: Any, of: Sequence[Example], name: str) -> tuple[Rows, Rows]:
        texts, said = texts_of(of)
        inputs, cut = inputs_of(tokenizer, texts, self.config.max_input)
        targets, short = targets_of(tokenizer, said, self.config.max_output)
        for n, what, flag in ((sum(cut), "templates", "max_input"), (sum(short), "utterances", "max_output")):
            if n:
                side = "the beginning" if what == "templates" else "the end"
                most = getattr(self.config, flag)
                message = "%s: %s %s are longer than --%s, %d tokens: %s is cut off"
                logging.warning(message, name, f"{n:,} of {len(of):,}", what, flag, most, side)
        return Rows(inputs, self.device), Rows(targets, self.device)

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """The batches of an epoch."""
        inputs, targets = self.train
        yield from bucketed(inputs.lengths + targets.lengths, self.config.batch_size, generator)

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
        for ids in by_length(lengths, self.config.batch_size):
            batch = torch.tensor(ids)
            total += self._loss(self._dev, batch).double() * int(targets.lengths[batch].sum())
        return math.exp(-float(total) / int(targets.lengths.sum()))

    def files(self) -> dict[str, bytes]:
        """The files of the model's folder."""
        card = saving.Card(
            model=self.config.model,
            checkpoint=digest(self.checkpoint.path),
            max_input=self.config.max_input,
            max_output=self.config.max_output,
            prefix=self.config.prefix_length,
            templates=self.templates,
        )
        if self.prefixes is None:
            return saving.tuned_files(card, self.tokenizer, self.t5)
        with torch.inference_mode():
            return saving.prefix_files(card, self.prefixes())
