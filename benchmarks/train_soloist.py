"""soloist, on the user turns of a corpus; a tenth of them are dev."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from benchmarks.training import Case, checkpoint_of, flags_of, split
from parapet.evaluation.models.configs import SoloistConfig
from parapet.evaluation.models.systems.data import read_steps
from parapet.evaluation.models.systems.soloist import SoloistLearner
from parapet.pipelines.config_flags import read_config

NOT_LEARNED = -100  # transformers leaves it out of the loss


def cases(model: str, args: argparse.Namespace) -> Iterator[Case]:
    """Yields the only case."""
    steps, dev = split(read_steps(args.corpus, "train").rows, args.examples or 64)
    texts = [text for step in steps for _, text in (step.history[-1], *step.belief)]
    texts += [step.response for step in steps if step.response]
    flags = flags_of(model, args)
    config = read_config(SoloistConfig, flags)
    make = partial(SoloistLearner, config, checkpoint_of(model, args, texts, positions=1024), steps, dev)
    yield Case(model, "turns", make, config, loss=ready)


def ready(learner: SoloistLearner) -> Callable[[Tensor], Tensor]:
    """Returns the loss that transformers' model computes from labels."""
    train, device = learner.train, learner.device
    rows = train.rows.flat.long().split(train.rows.lengths.tolist())
    labels = []
    for row, belief, database, response in zip(
        rows, train.belief.tolist(), train.database.tolist(), train.response.tolist(), strict=True
    ):
        label = torch.full_like(row, NOT_LEARNED)
        label[belief:database], label[response:] = row[belief:database], row[response:]
        labels.append(label)
    kinds = {
        "input_ids": (rows, 0),
        "attention_mask": ([*map(torch.ones_like, rows)], 0),
        "labels": (labels, NOT_LEARNED),
    }

    def loss(ids: Tensor) -> Tensor:
        padded = {
            name: pad_sequence([of[i] for i in ids.tolist()], batch_first=True, padding_value=fill).to(device)
            for name, (of, fill) in kinds.items()
        }
        found: Tensor = learner.net.model(**padded).loss
        return found

    return loss
