"""``parapet evaluate --task ratings``: compares people's judgements of generated utterances with the metric."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.crowd_answers import add_judgements, responses_of
from parapet.pipelines.evaluate import run_task
from parapet.pipelines.flags import StrictParser, add_output, add_seed

if TYPE_CHECKING:
    from parapet.evaluation.ratings.task import Ratings

DESCRIPTION = """\
Reads what crowd workers answered to the pages of 'parapet hits --task ratings': whether generated utterances are
faithful to their dialogue acts. Vets the answers, and gives the majority, the agreement of the workers (Fleiss' kappa),
and how far the metric agrees with people on validated utterances and on others."""

EXAMPLE = """\
  parapet evaluate --task ratings --hits my_ratings --responses my_crowd --output my_judgements
  parapet evaluate --task ratings --hits my_ratings --responses batch_1.csv batch_2.csv --output my_judgements"""


def parser() -> StrictParser:
    """Builds the command line."""
    parser = StrictParser("evaluate --task ratings", DESCRIPTION, EXAMPLE)
    add_judgements(parser)
    add_output(parser)
    add_seed(parser, "the bootstrap")
    return parser


def task(args: argparse.Namespace) -> Ratings:
    """Makes the task that the flags describe."""
    from parapet.evaluation.ratings.task import Ratings

    return Ratings(hits=args.hits, responses=responses_of(args), encoding=args.encoding, seed=args.seed)


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the task. Returns the exit status."""
    return run_task(parser(), argv, task)
