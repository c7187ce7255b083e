"""``parapet train`` for system utterances: a T5 fine-tuned on templates of acts, or prefixes for a frozen one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipelines.command import StrictParser, UsageError, check_apart, counted, run_checked
from pipelines.train import corpora
from pipelines.train.flags import RESUMED, STOPPED, TRAINING, Defaults, add_training, check_numbers, header
from schemas.errors import InputError
from schemas.layout import sample_root

if TYPE_CHECKING:
    from evaluation.models.generation.learning import Settings

DESCRIPTIONS = {
    "ft_t5": """\
Fine-tunes a T5 to say what the acts of a system turn mean. Its input is a short sentence for each act, built from the
schema's words, as in T2G2 (Kale and Rastogi 2020).""",
    "pt_t5": """\
Prefix-tuning (Li and Liang 2021): a T5 that stays as it is learns what to attend to besides, in the encoder, the
decoder and between them, to say what the acts of a system turn mean. Its input is that of ft_t5.""",
}

DEFAULTS = {
    "ft_t5": Defaults(epochs=20, patience=3, batch=16, rate=3e-4, unit="turns"),
    "pt_t5": Defaults(epochs=40, patience=5, batch=16, rate=1e-3, unit="turns"),
}

LEAST = {"max_input": 8, "max_output": 2, "prefix_length": 1, "prefix_size": 1}
OPTIONS = (*TRAINING, *corpora.OPTIONS, *LEAST)  # that shape the content; a model has some of them


def parser(model: str) -> StrictParser:
    """The command line of a model."""
    example = f"  parapet train {model} --train my_corpus --checkpoint t5-small --output my_model"
    made = StrictParser(f"train {model}", DESCRIPTIONS[model], example, RESUMED)
    corpora.add_corpora(made)
    told = "the T5 to begin with: a folder with config.json, weights and tokenizer"
    made.add_argument("--checkpoint", required=True, metavar="DIR", help=told)
    add = add_training(made, DEFAULTS[model])
    told = "tokens of an input; the beginning of a longer one is cut off (default 256)"
    add("--max_input", type=int, default=256, metavar="N", help=told)
    told = "tokens of an utterance, when it learns and when it predicts (default 128)"
    add("--max_output", type=int, default=128, metavar="N", help=told)
    if model == "pt_t5":
        add("--prefix_length", type=int, default=10, metavar="N", help="positions of the prefixes (default 10)")
        told = "width of the MLPs that make them (default 512)"
        add("--prefix_size", type=int, default=512, metavar="N", help=told)
    made.add_argument("--output", required=True, metavar="OUT", help="folder to write, local or gs://")
    made.set_defaults(model=model)
    return made


def check(args: argparse.Namespace) -> None:
    """Reads what is trained on, and looks at the checkpoint. Raises InputError for what cannot work."""
    from evaluation.models.generation.data import held_out, read_examples
    from evaluation.models.generation.saving import ARCHITECTURES
    from evaluation.models.packages import check_installed
    from transforms.checkpoints import inspect

    check_numbers(args, LEAST)
    roots = args.train or [str(sample_root())]
    for flag, path in [("dev", args.dev), ("checkpoint", args.checkpoint), *(("train", root) for root in roots)]:
        check_apart(args.output, **{flag: path})
    _check_held_out(args)
    args.base = inspect(args.checkpoint, ARCHITECTURES, "--checkpoint")
    check_installed("torch", "transformers", "safetensors")
    sets = [read_examples(root, args.split) for root in roots]
    rows = [one for of in sets for one in of.rows]
    args.given = [("train", path) for of in sets for path in of.paths]
    if args.held_out is not None:
        args.sets = held_out(rows, args.held_out, args.seed)
        if not all(args.sets):
            raise InputError(f"{args.held_out}: of so few dialogues that leaves a part empty", "--held_out")
    else:
        dev = read_examples(args.dev or roots[0], args.dev_split)
        args.given += [("dev", path) for path in dev.paths]
        args.sets = rows, dev.rows
    from evaluation.models.devices import device_of

    args.device = device_of(args.device).type  # where it is computed shapes the weights


def _check_held_out(args: argparse.Namespace) -> None:
    if args.held_out is not None and args.dev:
        raise InputError("give one of the two: dialogues that choose the best epoch, or a share", "--dev, --held_out")
    if args.held_out is not None and not 0 < args.held_out < 1:
        raise InputError(f"{args.held_out}: give a share above 0 and below 1", "--held_out")


def act(args: argparse.Namespace, _: list[str]) -> None:
    """Trains and writes."""
    from evaluation.models import resuming
    from evaluation.models.generation.learning import train
    from evaluation.models.training import log_bytes
    from evaluation.writing import publish
    from transforms import files

    try:
        files.prepare(args.output, f"train_{args.model}")
    except InputError as error:
        raise UsageError(error.reason, error.path, error.where) from None
    head = head_of(args)
    made, trained = train(settings_of(args), args.base, args.sets, args.output, head, not args.quiet)
    best = trained.best
    head["result"] = {"epoch": best.epoch, "epochs": len(trained.log), "dev": best.dev}
    publish(args.output, {**made, "log.jsonl": log_bytes(trained.log)}, head)
    resuming.clear(args.output)
    if not args.quiet:
        told = f"a token of dev has {best.dev:.2%} (geometric mean) after {counted(best.epoch, 'epoch')}"
        print(f"{args.model}: {told}; the model is in {args.output}")


def head_of(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides the files, and what a training must agree in to go on."""
    from importlib.metadata import version

    from transforms.checkpoints import digest

    of_flags = header(args, OPTIONS, args.given)
    return {**of_flags, "checkpoint": digest(args.checkpoint), "transformers": version("transformers")}


def settings_of(args: argparse.Namespace) -> Settings:
    """How a model is trained."""
    from evaluation.models.generation.learning import Settings

    return Settings(
        model=args.model,
        **{flag: getattr(args, flag) for flag in LEAST if hasattr(args, flag)},
        batch=args.batch_size,
        rate=args.learning_rate,
        epochs=args.epochs,
        patience=args.patience,
        seed=args.seed,
        threads=args.threads,
        device=args.device,
    )


def run(argv: Sequence[str]) -> int:
    """Runs ``parapet train MODEL ...``; ``argv`` begins with the model. Returns the exit status."""
    return run_checked(parser(argv[0]), argv[1:], check, act, STOPPED)
