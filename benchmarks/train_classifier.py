"""The classifier from scratch and from a checkpoint, on the user turns of a corpus; a tenth of them are dev."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial

import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from benchmarks.training import Case, checkpoint_of, flags_of, split
from parapet.evaluation.models.classifier import ClassifierLearner, Corpus
from parapet.evaluation.models.configs import ClassifierConfig
from parapet.evaluation.models.turns import INTENT, read_labelled
from parapet.pipelines.config_flags import read_config
from parapet.pipelines.models.classifier import FINE_TUNED, FROM_SCRATCH


def cases(model: str, args: argparse.Namespace) -> Iterator[Case]:
    """Yields a case without and one with a checkpoint."""
    turns, dev = split(read_labelled([args.corpus], "train", INTENT), args.examples or 1500)
    flags = flags_of(model, args)
    checkpoint = checkpoint_of(model, args, [turn.utterance for turn in turns], positions=flags.max_length)
    for name, begun, pace in ((model, None, FROM_SCRATCH), (f"{model} --checkpoint", checkpoint, FINE_TUNED)):
        config = read_config(ClassifierConfig, flags, **pace)
        make = partial(ClassifierLearner, config, Corpus(turns, dev, [], []), begun)
        yield Case(name, "turns", make, config, loss=ready)


def ready(learner: ClassifierLearner) -> Callable[[Tensor], Tensor]:
    """Returns the loss for token ids that PyTorch pads."""
    rows, pad, device = learner.rows, learner.encoder.pad, learner.device
    tokens = [row.long() for row in rows.flat.split(rows.lengths.tolist())]
    classes = learner.classes.cpu()

    def loss(ids: Tensor) -> Tensor:
        batch = pad_sequence([tokens[i] for i in ids.tolist()], batch_first=True, padding_value=pad).to(device)
        return F.cross_entropy(learner.module(batch, (batch != pad).long()).float(), classes[ids].to(device))

    return loss
