"""``parapet evaluate --task validity``: checks whether perturbed sets keep the original's values, states and labels."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.crowd_answers import add_judgements, responses_of
from parapet.pipelines.evaluate import run_task
from parapet.pipelines.flags import INPUT, StrictParser, add_output, add_reference, add_seed, add_split
from parapet.pipelines.sets import SETS
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from parapet.evaluation.validity.task import Validity

DESCRIPTION = """\
Checks perturbed sets against the original, turn by turn: how many user turns have changed, whether their values are
still in them, whether states are the same, and whether a classifier predicts the same of both texts; and whether people
find turns valid, who were asked with 'parapet hits --task validity'."""

EXAMPLE = """\
  parapet evaluate --task validity --reference my_corpus --sets typos=varied/typos verbose=varied/verbose \\
    --output my_validity
  parapet evaluate --task validity --reference my_corpus --sets typos=varied/typos --classifier my_acts \\
    --output my_validity                # my_acts: parapet train classifier --task acts
  parapet evaluate --task validity --reference my_corpus --sets typos=varied/typos --hits my_pairs \\
    --responses my_crowd --output my_validity"""


def parser() -> StrictParser:
    """Builds the command line."""
    parser = StrictParser("evaluate --task validity", DESCRIPTION, EXAMPLE)
    add_reference(parser)
    add_split(parser)
    add = parser.group(INPUT)
    add("--sets", nargs="+", required=True, metavar="NAME=ROOT", reads=True, help=SETS)
    text = "output of 'parapet train classifier', of intents or acts"
    add("--classifier", metavar="DIR", reads=True, help=text)
    add_output(parser)
    add_seed(parser, "the bootstrap")
    add_judgements(parser, "validity", "what people say", required=False)
    return parser


def task(args: argparse.Namespace) -> Validity:
    """Makes the task that the flags describe."""
    from parapet.evaluation.validity.task import Validity
    from parapet.pipelines.sets import sources_of

    if (args.hits is None) != (not args.responses):
        raise InputError("go together: the pages, and the answers to them", "--hits, --responses")
    sources = sources_of(argparse.Namespace(**vars(args), variants=None, variant=""))
    return Validity(
        sources=sources,
        classifier=args.classifier,
        hits=args.hits,
        responses=responses_of(args),
        encoding=args.encoding,
        seed=args.seed,
    )


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the task. Returns the exit status."""
    return run_task(parser(), argv, task)
