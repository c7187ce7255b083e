"""``parapet train sgp_dst``: four BERT encoders and the rules that combine them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipelines.command import StrictParser, run_checked
from pipelines.train.corpora import OPTIONS as CORPORA
from pipelines.train.corpora import add_corpora, read_corpora
from pipelines.train.fine_tuning import FINE_TUNING, LEAST, add_checkpoint, add_fine_tuning, begin, end, read_checkpoint
from pipelines.train.flags import RESUMED, STOPPED, TRAINING, Defaults, add_training, check_numbers

if TYPE_CHECKING:
    from evaluation.models.dst.sgp.learning import Settings

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


def check(args: argparse.Namespace) -> None:
    """Reads what is trained on. Raises InputError for flags and files that cannot work."""
    from evaluation.models.dst.sgp.saving import TYPES

    check_numbers(args, LEAST)
    args.found = read_checkpoint(args, TYPES)
    args.sets = read_corpora(args)


def act(args: argparse.Namespace, _: list[str]) -> None:
    """Trains and writes."""
    head = begin(args, OPTIONS)
    from evaluation.models.dst.sgp.learning import train
    from evaluation.models.dst.sgp.saving import files_of

    card, tokenizer, modules, trained = train(
        settings_of(args), args.found, args.sets, args.output, head, not args.quiet
    )
    end(args, head, files_of(card, tokenizer, modules), trained)


def settings_of(args: argparse.Namespace) -> Settings:
    """How it is trained."""
    from evaluation.models.dst.sgp.learning import Settings

    return Settings(
        shared=args.shared,
        batch=args.batch_size,
        rate=args.learning_rate,
        warmup=args.warmup,
        length=args.max_length,
        negatives=args.negatives,
        dev_frames=args.dev_frames,
        epochs=args.epochs,
        patience=args.patience,
        seed=args.seed,
        threads=args.threads,
        device=args.device,
    )


def run(argv: Sequence[str]) -> int:
    """Runs ``parapet train sgp_dst ...``; ``argv`` begins with the model. Returns the exit status."""
    return run_checked(parser(argv[0]), argv[1:], check, act, STOPPED)
