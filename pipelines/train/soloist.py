"""``parapet train soloist``: history, belief state, database state and response as one sequence, by a GPT-2."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from parapet.pipelines.command import StrictParser, check_apart
from parapet.pipelines.train.corpora import OPTIONS as CORPORA
from parapet.pipelines.train.corpora import add_corpora, read_corpora
from parapet.pipelines.train.fine_tuning import add_checkpoint, read_checkpoint
from parapet.pipelines.train.flags import RESUMED, TRAINING, Defaults, add_training, check_numbers, training_of
from parapet.pipelines.train.publishing import begin, end
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from parapet.evaluation.models.soloist.data import Step

DESCRIPTION = """\
A GPT-2 that goes on writing: after what was said the belief state, after what the database has for it the response,
delexicalised (Peng et al. 2021, SOLOIST)."""

EXAMPLE = """\
  parapet train soloist --train my_corpus --dev my_corpus --checkpoint gpt2 --output my_model
  parapet train soloist --train my_corpus my_variations/typos --held_out 0.1 --checkpoint gpt2 --output my_model"""


def parser(model: str = "soloist") -> StrictParser:
    """The command line."""
    made = StrictParser(f"train {model}", DESCRIPTION, EXAMPLE, RESUMED)
    add_corpora(made, "corpora to learn from")
    told = "entities besides those that the searches of a corpus returned: JSON, or a folder of SERVICE_db.json"
    made.add_argument("--knowledge_base", metavar="PATH", help=told)
    add_checkpoint(made, "a GPT-2 to begin with, a local folder")
    number = add_training(made, Defaults(10, 3, 8, 5e-5, "turns", "AdamW"))
    told = "of all steps, over which the learning rate rises before it falls (default 0.05)"
    number("--warmup", type=float, default=0.05, metavar="X", help=told)
    told = "tokens of what was said so far: of more the oldest are left out (default 512)"
    number("--max_length", type=int, default=512, metavar="N", help=told)
    told = "how much the paper's third task weighs, to tell turns from spoiled ones; twice as slow (default 0: off)"
    number("--consistency", type=float, default=0.0, metavar="X", help=told)
    made.add_argument("--output", required=True, metavar="OUT", help="folder to write, local or gs://")
    made.set_defaults(model="soloist")
    return made


LEAST = {"max_length": 8}
OPTIONS = (*TRAINING, *CORPORA, *LEAST, "warmup", "consistency")


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads what is trained on. Raises InputError for flags and files that cannot work."""
    check_numbers(args, LEAST)
    for flag, most in (("warmup", 1.0), ("consistency", 1000.0)):
        if not 0 <= getattr(args, flag) <= most:
            raise InputError(f"{getattr(args, flag)}: give a number from 0 to {most:g}", f"--{flag}")
    check_apart(args.output, knowledge_base=args.knowledge_base)
    from parapet.evaluation.models.soloist.data import read_source, steps_of
    from parapet.evaluation.models.soloist.saving import KINDS

    def read(root: str, split: str) -> tuple[list[Step], list[str]]:
        source = read_source(root, split, args.knowledge_base)
        found = [step for one in source.dialogues for step in steps_of(one, source.database)]
        if not found:
            raise InputError(f"no user turn of {split!r} has a state: there is nothing to learn", root)
        return found, source.paths

    args.found = read_checkpoint(args, KINDS)
    args.learned, args.chosen_by = read_corpora(args, read, lambda step: step.dialogue_id)
    return args


def act(args: argparse.Namespace) -> None:
    """Trains and writes."""
    from parapet.evaluation.models.soloist import saving
    from parapet.evaluation.models.soloist.learning import Settings, train

    head = begin(args, OPTIONS, args.given, "torch", "transformers")
    settings = Settings(
        checkpoint=args.found,
        length=args.max_length,
        consistency=args.consistency,
        warmup=args.warmup,
        **training_of(args),
    )
    made = train(settings, args.learned, args.chosen_by, args.output, head, not args.quiet)
    told = f"{made.trained.best.dev:.2%} of beliefs and response tokens on dev are right"
    end(args, head, saving.files_of(made.card, made.model, made.tokenizer), made.trained, told)
