"""SOLOIST: history, belief state, database state and response as one sequence, by a GPT-2."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from parapet.pipelines.command import check_apart
from parapet.pipelines.flags import Parser, StrictParser, add_knowledge_base, add_seed
from parapet.pipelines.models.family import (
    CORPORA,
    ROBUST,
    TRAINING,
    Defaults,
    Prediction,
    Training,
    add_checkpoint,
    add_corpora,
    add_robust,
    add_training,
    check_device,
    check_numbers,
    check_range,
    config_of,
    device_to_train_on,
    options_of,
    read_checkpoint,
)
from parapet.pipelines.models.systems import System

if TYPE_CHECKING:
    from parapet.pipelines.models.presets import Preset

LEAST = {"max_length": 8}
# As in the training scripts of the authors of SOLOIST.
SCRIPTS: Preset = {
    "learning_rate": 5e-5,
    "schedule": "linear",
    "warmup": 0,
    "weight_decay": 0,
    "keep": "last",
    "consistency": 0.33,
}


class Soloist(System):
    """The language model."""

    description = """\
Fine-tunes a GPT-2 to write a dialogue's belief state and, after the database's result, the delexicalised response
(Peng et al. 2021, SOLOIST)."""
    example = """\
  parapet train soloist --checkpoint gpt2 --output my_model
  parapet train soloist --preset raddle --checkpoint gpt2 --output my_model"""
    # RADDLE (Peng et al. 2021), section 5: Adam from 5e-5, batches of one, 20 epochs; GPT-2 and SOLOIST alike. What it
    # leaves open is as in the scripts, and so is the pre-training.
    presets: Mapping[str, Preset] = {
        "raddle": {"epochs": 20, "batch_size": 1, **SCRIPTS},
        "soloist": {"steps": 500_000, "batch_size": 20, **SCRIPTS},
    }

    def add_train_flags(self, parser: StrictParser) -> None:
        """Corpora, a database, a checkpoint, and the tasks."""
        add_corpora(parser, "corpora to train on")
        add_knowledge_base(parser, rare=True)
        add_checkpoint(parser, "GPT-2 to start from")
        defaults = Defaults(10, 3, 8, 5e-5, "turns", "AdamW", schedule="linear", warmup=0.05, clip=1.0)
        add = add_training(parser, defaults)
        text = "maximum number of tokens of an input; longer dialogues lose their oldest part"
        add("--max_length", rare=True, type=int, default=512, metavar="N", help=text)
        text = "weight of the paper's contrastive task; 0 for none"
        add("--consistency", rare=True, type=float, default=0.0, metavar="X", help=text)
        text = "weight decay of the optimiser; 0 makes it Adam"
        add("--weight_decay", rare=True, type=float, default=0.01, metavar="X", help=text)
        add_robust(add)

    def training(self, args: argparse.Namespace) -> Training:
        """Reads what is trained on. Raises InputError for flags and files that cannot work."""
        check_numbers(args, LEAST)
        check_range(args, "consistency", 1000.0)
        check_range(args, "weight_decay")
        check_apart(args.output, knowledge_base=args.knowledge_base)
        checkpoint = read_checkpoint(args, self.model)
        device = device_to_train_on(args, "transformers")
        from parapet.evaluation.models.soloist.learning import Config, SoloistLearner

        train, dev, inputs, versions = self.read_training(args)
        config = config_of(Config, args, device=device)
        return Training(
            model=self.model,
            output=args.output,
            options=options_of(
                args, (*TRAINING, *CORPORA, *ROBUST, *LEAST, "consistency", "weight_decay"), device=device
            ),
            inputs=inputs,
            packages=("torch", "transformers"),
            checkpoint=args.checkpoint,
            config=config,
            learner=partial(SoloistLearner, config, checkpoint, train, dev, versions),
        )

    def add_predict_flags(self, parser: Parser) -> None:
        """The sets, the database, and how responses are sampled."""
        super().add_predict_flags(parser)
        text = "probability of nucleus sampling; 0 for greedy decoding"
        parser.group("search")("--top_p", type=float, default=0.0, metavar="P", help=text)
        add_seed(parser, "--top_p")

    def prediction(self, args: argparse.Namespace) -> Prediction:
        """Looks at the model and the sets. Raises InputError for what cannot work."""
        check_range(args, "top_p")
        check_device(args, "transformers")
        from parapet.evaluation.models.soloist.answering import check
        from parapet.evaluation.models.soloist.decoding import Sampling
        from parapet.evaluation.models.soloist.inference import Job

        check(args.model)
        sampling = {"top_p": args.top_p, "seed": args.seed} if args.top_p else {}
        return self.predicted(args, Job, sampling, sampling=Sampling(args.top_p, args.seed))
