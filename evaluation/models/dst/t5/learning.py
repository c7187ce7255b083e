"""Fine-tunes a checkpoint on the prompts of a corpus."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parapet.evaluation.models.batching import Rows, bucketed
from parapet.evaluation.models.configs import T5DstConfig
from parapet.evaluation.models.devices import device_of
from parapet.evaluation.models.dst.data import Labelled
from parapet.evaluation.models.dst.fine_tuning import joint_goal_accuracy, some
from parapet.evaluation.models.dst.t5.prompts import NONE, target
from parapet.evaluation.models.dst.t5.tracking import Card, Questions, T5Tracker, encoded
from parapet.evaluation.models.pretrained import load, longest, saved
from parapet.evaluation.models.robust import Versions, laid_out, of_parts
from parapet.evaluation.models.saving import MODEL, card_bytes
from parapet.evaluation.models.training import Learner
from parapet.transforms.checkpoints import Checkpoint

IGNORED = -100  # a label that costs nothing


class T5Learner(Learner):
    """A T5 with its data.

    Args:
      config: how it is trained; its inputs are prompts.
      checkpoint: of the T5.
      train: frames to learn from; those of a dialogue follow one another.
      dev: frames that choose the best epoch.
      versions: of the dialogues of ``train``, where they are perturbed in each epoch.

    Raises:
      InputError: the checkpoint cannot be loaded.
    """

    metric = "joint goal accuracy"

    def __init__(
        self,
        config: T5DstConfig,
        checkpoint: Checkpoint,
        train: Sequence[Labelled],
        dev: Sequence[Labelled],
        versions: Versions[Labelled] | None = None,
    ) -> None:
        self.tokenizer, t5 = load(checkpoint, "AutoModelForSeq2SeqLM")
        longest(self.tokenizer, t5, config.max_length, "--max_length")
        self.device = device_of(config.device)
        self.config, self.fill = config, self.tokenizer.pad_token_id
        self.module = t5.to(self.device)
        self.optimiser = torch.optim.AdamW(t5.parameters(), lr=config.learning_rate, weight_decay=0.0, fused=True)
        self._versions = versions
        long = self._read(train)[1]
        self._dev = some(dev, config.dev_frames, config.seed)
        self.card = Card(
            length=config.max_length, answer=config.max_output, prompts=config.prompts, answers=config.answers
        )
        self._tracker = T5Tracker(self.tokenizer, t5, self.card, config.batch_size)
        self._report(long, len(dev))

    def _read(self, frames: Sequence[Labelled]) -> tuple[list[int], int]:
        """Encodes frames. Returns how many prompts each has, and how many answers are too long."""
        config = self.config
        questions = Questions(self.tokenizer, [frame.asked for frame in frames], config.max_length, config.prompts)
        seed = config.seed if config.equal_values == "random" else None
        answers = [
            target(prompt, frame.asked.service, frame.state, frame.asked.history, seed)
            for frame, prompts in zip(frames, questions.prompts, strict=True)
            for prompt in prompts
        ]
        ids = encoded(self.tokenizer, answers)
        end = [self.tokenizer.eos_token_id]
        self.inputs = questions.pairs
        self.answers = Rows([ids[answer][: config.max_output - 1] + end for answer in answers])
        empty = torch.tensor([answer == NONE for answer in answers])
        self.full, self.empty = (~empty).nonzero().squeeze(1), empty.nonzero().squeeze(1)
        return list(map(len, questions.prompts)), sum(len(ids[answer]) >= config.max_output for answer in answers)

    def prepare(self, epoch: int) -> None:
        """Perturbs dialogues."""
        if self._versions is not None:
            frames, table = laid_out(self._versions.draw(epoch), lambda _, rows: rows)
            self.versions = of_parts(table, self._read(frames)[0])
            self.full, self.empty = (numbers[numbers < len(self.versions)] for numbers in (self.full, self.empty))

    def _report(self, long: int, dev: int) -> None:
        message = "%s prompts, %s of them with a value; %s of %s dev frames choose the best epoch"
        sizes = len(self.inputs), len(self.full), len(self._dev), dev
        logging.info(message, *(f"{size:,}" for size in sizes))
        if self.inputs.cut:
            message = "%s prompts are longer than %d tokens: the oldest part of the dialogue is cut off"
            logging.warning(message, f"{self.inputs.cut:,}", self.config.max_length)
        if long:
            message = "%s answers are longer than %d tokens: they are cut off"
            logging.warning(message, f"{long:,}", self.config.max_output)

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """The batches of an epoch: all prompts with a value, and the share of the others."""
        drawn = torch.randperm(len(self.empty), generator=generator)
        share = self.empty[drawn[: round(self.config.negatives * len(self.empty))]]
        numbers = torch.cat([self.full, share]).sort().values
        for batch in bucketed(self.inputs.lengths[numbers], self.config.batch_size, generator):
            yield numbers[batch]

    def loss(self, batch: Tensor) -> Tensor:
        """The mean loss of the answers' tokens."""
        return self.outcome(batch)[0]

    def embeddings(self) -> list[nn.Module]:
        """Those of the tokens that it reads."""
        return [self.module.get_encoder().get_input_embeddings()]

    def example_losses(self, batch: Tensor) -> Tensor:
        """The mean loss of the tokens of each answer."""
        _, logits, labels = self._answered(batch)
        losses = F.cross_entropy(logits.transpose(1, 2).float(), labels, ignore_index=IGNORED, reduction="none")
        return losses.sum(1) / (labels != IGNORED).sum(1)

    def outcome(self, batch: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The loss, and the scores of the answers' tokens."""
        loss, logits, labels = self._answered(batch)
        return loss, [logits[labels != IGNORED]]

    def _answered(self, batch: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The mean loss; scores of shape (prompts, tokens, vocabulary), and the tokens that are right."""
        tokens, mask = self.inputs.padded(batch, self.fill)
        labels, _ = self.answers.padded(batch, IGNORED)
        tokens, mask, labels = (tensor.to(self.device, non_blocking=True) for tensor in (tokens, mask, labels))
        found = self.module(input_ids=tokens, attention_mask=mask, labels=labels)
        return found.loss, found.logits, labels

    def dev(self) -> float:
        """The joint goal accuracy."""
        return joint_goal_accuracy(self._tracker, self._dev)

    def files(self) -> dict[str, bytes]:
        """The files of the model's folder."""
        return {MODEL: card_bytes(self.card), **saved(self.tokenizer, self.module.cpu())}
