"""``parapet train`` for system utterances: a T5 fine-tuned on templates of acts, or prefixes for a frozen one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from parapet.pipelines.command import StrictParser
from parapet.pipelines.train import corpora
from parapet.pipelines.train.fine_tuning import add_checkpoint, read_checkpoint
from parapet.pipelines.train.flags import RESUMED, TRAINING, Defaults, add_training, check_numbers, training_of
from parapet.pipelines.train.publishing import begin, end

if TYPE_CHECKING:
    from parapet.evaluation.models.generation.data import Example

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
    add_checkpoint(made, "the T5 to begin with: a folder with config.json, weights and tokenizer")
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


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads what is trained on, and looks at the checkpoint. Raises InputError for what cannot work."""
    from parapet.evaluation.models.generation.data import read_examples
    from parapet.evaluation.models.generation.saving import ARCHITECTURES

    def read(root: str, split: str) -> tuple[list[Example], list[str]]:
        found = read_examples(root, split)
        return found.rows, found.paths

    check_numbers(args, LEAST)
    args.found = read_checkpoint(args, ARCHITECTURES)
    args.sets = corpora.read_corpora(args, read, lambda one: one.opening)
    return args


def act(args: argparse.Namespace) -> None:
    """Trains and writes."""
    from parapet.evaluation.models.generation.learning import Settings, train

    head = begin(args, OPTIONS, args.given, "torch", "transformers")
    own = {flag: getattr(args, flag) for flag in LEAST if hasattr(args, flag)}
    settings = Settings(model=args.model, **own, **training_of(args))
    made, trained = train(settings, args.found, args.sets, args.output, head, not args.quiet)
    end(args, head, made, trained, f"a token of dev has {trained.best.dev:.2%} (geometric mean)")
