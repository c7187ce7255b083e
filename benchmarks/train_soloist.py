"""soloist, on the user turns of a corpus; a tenth of them for dev."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from benchmarks.training import Case, checkpoint_of, flags_of, split
from parapet.evaluation.models.soloist.data import read_source, steps_of
from parapet.evaluation.models.soloist.learning import CLIP, Settings, SoloistLearner
from parapet.pipelines.train.flags import training_of

NOT_LEARNED = -100  # what transformers leaves out of the loss


def cases(model: str, args: argparse.Namespace) -> Iterator[Case]:
    """The one."""
    source = read_source(args.corpus, "train")
    steps = [step for one in source.dialogues for step in steps_of(one, source.database)]
    steps, dev = split(steps, args.examples or 64)
    texts = [text for step in steps for _, text in (step.history[-1], *step.belief)]
    texts += [step.response for step in steps if step.response]
    flags = flags_of(model, args)
    settings = Settings(
        checkpoint=checkpoint_of(model, args, texts, positions=1024),
        length=flags.max_length,
        consistency=flags.consistency,
        warmup=flags.warmup,
        **training_of(flags),
    )
    schedule = settings.schedule(settings.warmup, True, CLIP)
    yield Case(model, "turns", partial(SoloistLearner, settings, steps, dev), schedule, loss=ready)


def ready(learner: SoloistLearner) -> Callable[[Tensor], Tensor]:
    """The loss that the model of transformers computes of its labels."""
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
        found: Tensor = learner.module.model(**padded).loss
        return found

    return loss
