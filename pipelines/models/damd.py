"""DAMD: belief span, action span and response, each by a decoder of its own; from scratch."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from parapet.pipelines.command import check_apart
from parapet.pipelines.flags import StrictParser, add_knowledge_base
from parapet.pipelines.models.family import (
    CORPORA,
    ROBUST,
    TRAINING,
    Defaults,
    Prediction,
    Training,
    add_corpora,
    add_robust,
    add_training,
    check_device,
    check_numbers,
    config_of,
    device_to_train_on,
    options_of,
)
from parapet.pipelines.models.systems import System

if TYPE_CHECKING:
    from parapet.pipelines.models.presets import Preset

LEAST = {"vocabulary": 5, "min_count": 1, "embedding": 1, "hidden": 1, "multi_action": 0}
# config.py of the authors' code, without data augmentation as in its README.
AUTHORS: Preset = {
    "epochs": 100,
    "patience": 5,
    "batch_size": 128,
    "learning_rate": 0.005,
    "schedule": "plateau",
    "clip": 5,
    "vocabulary": 3000,
    "min_count": 1,
    "embedding": 50,
    "hidden": 100,
}


class Damd(System):
    """The net."""

    description = """\
Trains DAMD (Zhang, Ou and Yu 2020) from scratch: GRUs that write belief states, acts and delexicalised responses, and
can copy unknown words."""
    example = """\
  parapet train damd --train my_corpus --dev my_corpus --output my_model
  parapet train damd --preset raddle --held_out 0.1 --output my_model"""
    # What RADDLE says of training is for models that are pre-trained: there as its authors train it.
    presets: Mapping[str, Preset] = {"raddle": AUTHORS, "damd": AUTHORS}

    def add_train_flags(self, parser: StrictParser) -> None:
        """Corpora, a database, and the sizes of the net."""
        add_corpora(parser, "corpora to train on")
        add_knowledge_base(parser, rare=True)
        add = add_training(parser, Defaults(100, 5, 128, 0.005, "turns", schedule="plateau", clip=5.0))
        text = "other turns' acts in the same state to learn as well, up to N more of each kind; 0 for none"
        add("--multi_action", rare=True, type=int, default=0, metavar="N", help=text)
        text = "maximum number of words, the most frequent ones; others can be copied"
        add("--vocabulary", rare=True, type=int, default=3000, metavar="N", help=text)
        text = "how often a word must occur to be in the vocabulary"
        add("--min_count", rare=True, type=int, default=1, metavar="N", help=text)
        add("--embedding", rare=True, type=int, default=50, metavar="N", help="size of the embeddings")
        add("--hidden", rare=True, type=int, default=100, metavar="N", help="size of the GRUs' states")
        add_robust(add, adversarial=False)

    def training(self, args: argparse.Namespace) -> Training:
        """Reads what is trained on. Raises InputError for flags and files that cannot work."""
        check_numbers(args, LEAST)
        check_apart(args.output, knowledge_base=args.knowledge_base)
        device = device_to_train_on(args)
        from parapet.evaluation.models.damd.learning import Config, DamdLearner

        train, dev, inputs, versions = self.read_training(args)
        config = config_of(Config, args, device=device)
        return Training(
            model=self.model,
            output=args.output,
            options=options_of(args, (*TRAINING, *CORPORA, *ROBUST, *LEAST), device=device),
            inputs=inputs,
            packages=("torch",),
            config=config,
            learner=partial(DamdLearner, config, train, dev, versions),
        )

    def prediction(self, args: argparse.Namespace) -> Prediction:
        """Looks at the model and the sets. Raises InputError for what cannot work."""
        check_device(args)
        from parapet.evaluation.models.damd.answering import check
        from parapet.evaluation.models.damd.inference import Job

        check(args.model)
        return self.predicted(args, Job)
