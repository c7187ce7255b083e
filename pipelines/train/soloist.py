"""``parapet train soloist``: history, belief state, database state and response as one sequence, by a GPT-2."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipelines.command import StrictParser, UsageError, check_apart, counted, run_checked
from pipelines.train.flags import RESUMED, STOPPED, TRAINING, Defaults, add_training, check_numbers, header
from schemas.errors import InputError
from schemas.layout import sample_root

if TYPE_CHECKING:
    from evaluation.models.soloist.learning import Settings

DESCRIPTION = """\
A GPT-2 that goes on writing: after what was said the belief state, after what the database has for it the response,
delexicalised (Peng et al. 2021, SOLOIST)."""

EXAMPLE = """\
  parapet train soloist --train my_corpus --dev my_corpus --checkpoint gpt2 --output my_model
  parapet train soloist --train my_corpus my_variations/typos --held_out 0.1 --checkpoint gpt2 --output my_model"""


def parser(model: str = "soloist") -> StrictParser:
    """The command line."""
    made = StrictParser(f"train {model}", DESCRIPTION, EXAMPLE, RESUMED)
    add = made.add_argument
    add("--train", nargs="+", metavar="ROOT", help="corpora to learn from (default: the bundled sample)")
    add("--split", default="train", metavar="NAME", help="which split of them (default train)")
    add("--dev", metavar="ROOT", help="corpus that chooses the best epoch (default: the first of --train)")
    add("--dev_split", default="dev", metavar="NAME", help="which split of it (default dev)")
    told = "instead of --dev: so large a share of the training dialogues chooses the best epoch"
    add("--held_out", type=float, metavar="X", help=told)
    told = "entities besides those that the searches of a corpus returned: JSON, or a folder of SERVICE_db.json"
    add("--knowledge_base", metavar="PATH", help=told)
    add("--checkpoint", required=True, metavar="DIR", help="a GPT-2 to begin with, a local folder")
    number = add_training(made, Defaults(10, 3, 8, 5e-5, "turns", "AdamW"))
    told = "of all steps, over which the learning rate rises before it falls (default 0.05)"
    number("--warmup", type=float, default=0.05, metavar="X", help=told)
    told = "tokens of what was said so far: of more the oldest are left out (default 512)"
    number("--max_length", type=int, default=512, metavar="N", help=told)
    told = "how much the paper's third task weighs, to tell turns from spoiled ones; twice as slow (default 0: off)"
    number("--consistency", type=float, default=0.0, metavar="X", help=told)
    add("--output", required=True, metavar="OUT", help="folder to write, local or gs://")
    made.set_defaults(model="soloist")
    return made


LEAST = {"max_length": 8}
OPTIONS = (*TRAINING, *LEAST, "warmup", "consistency", "split", "dev_split", "held_out")


def check(args: argparse.Namespace) -> None:
    """Reads what is trained on. Raises InputError for flags and files that cannot work."""
    check_numbers(args, LEAST)
    for flag, most in (("warmup", 1.0), ("consistency", 1000.0)):
        if not 0 <= getattr(args, flag) <= most:
            raise InputError(f"{getattr(args, flag)}: give a number from 0 to {most:g}", f"--{flag}")
    if args.held_out is not None and args.dev:
        raise InputError("give one of the two: dialogues that choose the best epoch, or a share", "--dev, --held_out")
    if args.held_out is not None and not 0 < args.held_out < 1:
        raise InputError(f"{args.held_out}: give a share above 0 and below 1", "--held_out")
    roots = args.train or [str(sample_root())]
    for root in roots:
        check_apart(args.output, train=root)
    check_apart(args.output, dev=args.dev, knowledge_base=args.knowledge_base, checkpoint=args.checkpoint)
    from evaluation.models.packages import check_installed
    from evaluation.models.soloist.saving import KINDS
    from transforms.checkpoints import inspect

    args.found = inspect(args.checkpoint, KINDS, "--checkpoint")
    check_installed("torch", "safetensors", "transformers")
    from evaluation.models.devices import device_of

    args.device = device_of(args.device).type  # where it is computed shapes the weights
    _read(args, roots)


def _read(args: argparse.Namespace, roots: Sequence[str]) -> None:
    from evaluation.models.soloist.data import Step, held_out, read_source, steps_of

    args.given = []

    def steps(flag: str, root: str, split: str) -> list[Step]:
        source = read_source(root, split, args.knowledge_base)
        args.given += [(flag, path) for path in source.paths]
        found = [step for one in source.dialogues for step in steps_of(one, source.database)]
        if not found:
            raise InputError(f"no user turn of {split!r} has a state: there is nothing to learn", root)
        return found

    args.learned = [step for root in roots for step in steps("train", root, args.split)]
    if args.held_out is None:
        args.chosen_by = steps("dev", args.dev or roots[0], args.dev_split)
        return
    args.learned, args.chosen_by = held_out(args.learned, args.held_out, args.seed)
    if not args.learned or not args.chosen_by:
        raise InputError(f"{args.held_out}: of so few dialogues that leaves a part empty", "--held_out")


def act(args: argparse.Namespace, _: list[str]) -> None:
    """Trains and writes."""
    from importlib.metadata import version

    from evaluation.models import resuming
    from evaluation.models.soloist import saving
    from evaluation.models.soloist.learning import train
    from evaluation.models.training import log_bytes
    from evaluation.writing import publish
    from transforms import checkpoints, files

    try:
        files.prepare(args.output, "train_soloist")
    except InputError as error:
        raise UsageError(error.reason, error.path, error.where) from None
    head = header(args, OPTIONS, args.given)
    head |= {"transformers": version("transformers"), "checkpoint": checkpoints.digest(args.checkpoint)}
    made = train(settings_of(args), args.learned, args.chosen_by, args.output, head, not args.quiet)
    best, log = made.trained.best, made.trained.log
    head["result"] = {"epoch": best.epoch, "epochs": len(log), "dev": best.dev}
    written = saving.files_of(made.card, made.model, made.tokenizer)
    publish(args.output, {**written, "log.jsonl": log_bytes(log)}, head)
    resuming.clear(args.output)
    if not args.quiet:
        told = f"{best.dev:.2%} of beliefs and response tokens on dev are right"
        print(f"soloist: {told} after {counted(best.epoch, 'epoch')}; the model is in {args.output}")


def settings_of(args: argparse.Namespace) -> Settings:
    """How it is trained."""
    from evaluation.models.soloist.learning import Settings

    return Settings(
        checkpoint=args.found,
        length=args.max_length,
        consistency=args.consistency,
        batch=args.batch_size,
        rate=args.learning_rate,
        warmup=args.warmup,
        epochs=args.epochs,
        patience=args.patience,
        seed=args.seed,
        threads=args.threads,
        device=args.device,
    )


def run(argv: Sequence[str]) -> int:
    """Runs ``parapet train soloist ...``; ``argv`` begins with the model. Returns the exit status."""
    return run_checked(parser(argv[0]), argv[1:], check, act, STOPPED)
