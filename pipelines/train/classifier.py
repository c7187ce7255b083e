"""``parapet train classifier``: intents of user turns, and turns that are out of domain."""

from __future__ import annotations

import argparse

from parapet.pipelines.command import StrictParser, add_split, check_apart, counted
from parapet.pipelines.train.flags import (
    RESUMED,
    TRAINING,
    Defaults,
    add_training,
    check_numbers,
    check_torch,
    training_of,
)
from parapet.pipelines.train.publishing import begin, end
from parapet.schemas.errors import InputError
from parapet.schemas.layout import TRAIN, sample_root

DESCRIPTION = """\
A text classifier of user turns: by the intent that is active in them, or by whether they are out of domain. It begins
with a BERT or RoBERTa of yours, or from scratch: a bag of hashed words and character n-grams, trained in seconds."""

EXAMPLE = """\
  parapet train classifier --train my_corpus --output my_model
  parapet train classifier --train my_corpus --foreign my_foreign_turns --output my_model
  parapet train classifier --task ood --train my_foreign_turns --output my_model
  parapet train classifier --train my_corpus --checkpoint bert-base-uncased --output my_model"""

NET_RATE, CHECKPOINT_RATE = 0.01, 5e-5
HELD_OUT = 0.1  # of the dialogues, where there is no --dev


def parser(model: str = "classifier") -> StrictParser:
    """The command line."""
    made = StrictParser(f"train {model}", DESCRIPTION, EXAMPLE, RESUMED)
    add = made.add_argument
    add("--task", choices=("intent", "ood"), default="intent", help="what the labels are (default intent)")
    told = (
        "corpora, or what 'parapet ood' wrote, or JSON lines with 'utterance' and 'label' (default: the bundled sample)"
    )
    add("--train", nargs="+", metavar="PATH", help=told)
    add_split(made, TRAIN, text="of folders: whose turns")
    told = "turns that choose the best epoch (default: those of every tenth dialogue of --train)"
    add("--dev", nargs="+", metavar="PATH", help=told)
    add("--dev_split", default="dev", metavar="NAME", help="of folders: whose turns --dev and --foreign (default dev)")
    told = "for intents: turns that are labelled ood or in_domain, to tune the threshold of --score on"
    add("--foreign", nargs="+", metavar="PATH", help=told)
    told = "what tells foreign turns, of a model of intents: the highest probability, or the energy (default msp)"
    add("--score", choices=("msp", "energy"), default="msp", help=told)
    add("--checkpoint", metavar="DIR", help="a BERT or RoBERTa to begin with, a local folder (default: from scratch)")
    told = "words of an utterance at most, with --checkpoint pieces: of longer ones the last (default 128)"
    add("--max_length", type=int, default=128, metavar="N", help=told)
    optimiser = f"Adam, with --checkpoint of AdamW and {CHECKPOINT_RATE:g}"
    number = add_training(made, Defaults(40, 10, 32, NET_RATE, "utterances", optimiser))
    number("--size", type=int, default=64, metavar="N", help="of the embeddings, from scratch (default 64)")
    number("--buckets", type=int, default=2**15, metavar="N", help="of the hashed features (default 32768)")
    add("--output", required=True, metavar="OUT", help="folder to write, local or gs://")
    made.set_defaults(model="classifier", learning_rate=None)
    return made


LEAST = {"size": 1, "buckets": 1, "max_length": 8}
OPTIONS = (*TRAINING, *LEAST, "task", "score", "split", "dev_split")
PLACES = ("train", "dev", "foreign")


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads what is trained on. Raises InputError for flags and files that cannot work."""
    if args.learning_rate is None:
        args.learning_rate = CHECKPOINT_RATE if args.checkpoint else NET_RATE
    check_numbers(args, LEAST)
    if args.task == "ood" and not args.train:
        raise InputError("give turns that are labelled, such as what 'parapet ood' wrote", "--train")
    args.train = args.train or [str(sample_root())]
    if args.foreign and args.task == "ood":
        raise InputError("is for intents: with --task ood the threshold is tuned on --dev", "--foreign")
    for flag in PLACES:
        for path in getattr(args, flag) or ():
            check_apart(args.output, **{flag: path})
    check_apart(args.output, checkpoint=args.checkpoint)
    args.found = None
    if args.checkpoint:
        from parapet.evaluation.models.classifier.saving import KINDS
        from parapet.transforms.checkpoints import inspect

        args.found = inspect(args.checkpoint, KINDS, "--checkpoint")
    check_torch(args, *(["transformers"] if args.checkpoint else []))
    from parapet.evaluation.models.classifier.corpus import read_corpus

    args.read = read_corpus(
        args.task, args.train, args.split, args.dev, args.foreign, args.dev_split, HELD_OUT, args.seed
    )
    return args


def act(args: argparse.Namespace) -> None:
    """Trains and writes."""
    from parapet.evaluation.models.classifier import saving
    from parapet.evaluation.models.classifier.learning import Settings, train

    head = begin(args, OPTIONS, args.read.files, "torch")
    settings = Settings(
        task=args.task,
        checkpoint=args.found,
        size=args.size,
        buckets=args.buckets,
        length=args.max_length,
        score=args.score,
        **training_of(args),
    )
    made = train(settings, args.read.corpus, args.output, head, not args.quiet)
    of_threshold = {"threshold": made.card.threshold, "threshold_f1": made.f1} if made.f1 is not None else {}
    end(args, head, saving.files_of(made.card, made.model, made.encoder), made.trained, result=of_threshold)
    if not args.quiet:
        best = made.trained.best
        told = "F1 of out-of-domain turns is" if args.task == "ood" else "the share of intents right is"
        print(f"classifier: on dev {told} {best.dev:.2%} after {counted(best.epoch, 'epoch')}")
        if made.f1 is not None:
            print(f"out of domain from {made.card.threshold:.6g} on: F1 {made.f1:.2%} where that was tuned")
        print(f"the model is in {args.output}")
