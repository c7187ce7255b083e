"""``parapet train sgp_dst``: four BERT encoders and the rules that combine them."""

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
Fine-tunes BERT encoders for intents, categorical slots, free slots and slot transfer, which rules combine (Ruan, Ling,
Gu and Liu 2020, "Fine-Tuning BERT for Schema-Guided Zero-Shot Dialogue State Tracking")."""
EXAMPLE = """\
  hf download google-bert/bert-base-cased --local-dir bert
  parapet train sgp_dst --checkpoint bert --train my_corpus --negatives 0.1 --output my_model"""
OPTIONS = (*TRAINING, *CORPORA, *FINE_TUNING, "shared")


def parser(model: str = "sgp_dst") -> StrictParser:
    """The command line."""
    made = StrictParser(f"train {model}", DESCRIPTION, EXAMPLE, RESUMED)
    add_checkpoint(made, "a BERT as save_pretrained writes it: bert, distilbert, electra or roberta")
    made.add_argument("--shared", action="store_true", help="one encoder for all modules (default: one for each)")
    add_corpora(made)
    made.add_argument("--output", required=True, metavar="OUT", help="folder to write, local or gs://")
    add = add_training(made, Defaults(epochs=3, patience=2, batch=32, rate=2e-5, unit="inputs", optimiser="AdamW"))
    add_fine_tuning(add, warmup=0.1, length=256)
    made.set_defaults(model="sgp_dst")
    return made


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads what is trained on. Raises InputError for flags and files that cannot work."""
    from parapet.evaluation.models.dst.sgp.saving import TYPES

    check_fine_tuning(args)
    args.found = read_checkpoint(args, TYPES)
    args.sets = read_frames(args)
    return args


def act(args: argparse.Namespace) -> None:
    """Trains and writes."""
    from parapet.evaluation.models.dst.sgp.learning import Settings, train
    from parapet.evaluation.models.dst.sgp.saving import files_of

    head = begin(args, OPTIONS, args.given, "torch", "transformers")
    settings = Settings(**fine_tuning_of(args), shared=args.shared)
    card, tokenizer, modules, trained = train(settings, args.found, args.sets, args.output, head, not args.quiet)
    told = f"joint goal accuracy {trained.best.dev:.2%} on dev"
    end(args, head, files_of(card, tokenizer, modules), trained, told)
