"""``parapet train t5dst``: a T5 that is asked for one slot at a time."""

from __future__ import annotations

import argparse

from parapet.pipelines.command import StrictParser
from parapet.pipelines.train.corpora import OPTIONS as CORPORA
from parapet.pipelines.train.corpora import add_corpora, read_frames
from parapet.pipelines.train.fine_tuning import (
    FINE_TUNING,
    add_checkpoint,
    add_fine_tuning,
    check_fine_tuning,
    fine_tuning_of,
    read_checkpoint,
)
from parapet.pipelines.train.flags import RESUMED, TRAINING, Defaults, add_training
from parapet.pipelines.train.publishing import begin, end

DESCRIPTION = """\
Fine-tunes a T5 that is asked for one slot of a service at a time (Lee, Cheng and Ostendorf 2021, "Dialogue State
Tracking with a Language Model using Schema-Driven Prompting")."""
EXAMPLE = """\
  hf download google-t5/t5-small --local-dir t5-small
  parapet train t5dst --checkpoint t5-small --train my_corpus --negatives 0.2 --output my_model"""
OPTIONS = (*TRAINING, *CORPORA, *FINE_TUNING)


def parser(model: str = "t5dst") -> StrictParser:
    """The command line."""
    made = StrictParser(f"train {model}", DESCRIPTION, EXAMPLE, RESUMED)
    add_checkpoint(made, "a T5 as save_pretrained writes it: t5, mt5, umt5 or longt5")
    add_corpora(made)
    made.add_argument("--output", required=True, metavar="OUT", help="folder to write, local or gs://")
    add = add_training(made, Defaults(epochs=3, patience=2, batch=32, rate=1e-4, unit="prompts", optimiser="AdamW"))
    add_fine_tuning(add, warmup=0.0, length=512)
    made.set_defaults(model="t5dst")
    return made


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads what is trained on. Raises InputError for flags and files that cannot work."""
    from parapet.evaluation.models.dst.t5.saving import KINDS

    check_fine_tuning(args)
    args.found = read_checkpoint(args, KINDS, "sentencepiece")
    args.sets = read_frames(args)
    return args


def act(args: argparse.Namespace) -> None:
    """Trains and writes."""
    from parapet.evaluation.models.dst.t5.learning import Settings, train
    from parapet.evaluation.models.dst.t5.saving import files_of

    head = begin(args, OPTIONS, args.given, "torch", "transformers")
    settings = Settings(**fine_tuning_of(args))
    card, tokenizer, t5, trained = train(settings, args.found, args.sets, args.output, head, not args.quiet)
    told = f"joint goal accuracy {trained.best.dev:.2%} on dev"
    end(args, head, files_of(card, tokenizer, t5), trained, told)
