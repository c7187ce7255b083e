"""``parapet evaluate --task ratings``: what people say of generated utterances, compared with the metric."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.evaluate import run_task
from parapet.pipelines.flags import INPUT, StrictParser, add_output, add_seed
from parapet.schemas.layout import as_path, is_there

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
    """The flags."""
    parser = StrictParser("evaluate --task ratings", DESCRIPTION, EXAMPLE)
    add = parser.group(INPUT)
    add("--hits", required=True, metavar="DIR", reads=True, help="output of 'parapet hits --task ratings'")
    text = "batch results CSV of MTurk, JSON lines of its API, or folders of 'parapet mturk'"
    add("--responses", nargs="+", required=True, metavar="FILE|DIR", reads=True, help=text)
    text = "encoding of --responses without a byte order mark"
    add("--encoding", rare=True, default="utf-8", metavar="NAME", help=text)
    add_output(parser)
    add_seed(parser, "the bootstrap")
    return parser


def task(args: argparse.Namespace) -> Ratings:
    """The task that the flags describe."""
    from parapet.evaluation.ratings.task import Ratings
    from parapet.transforms.crowd.ingest.files import check_encoding, check_file
    from parapet.transforms.mturk.collected import FILE

    folders = [is_there(path) and as_path(path).is_dir() for path in args.responses]
    paths = [
        str(as_path(path) / FILE) if is_dir else path for path, is_dir in zip(args.responses, folders, strict=True)
    ]
    for path in paths:
        check_file(path, "--responses")
    check_encoding(args.encoding, "--encoding")
    return Ratings(hits=args.hits, responses=tuple(paths), encoding=args.encoding, seed=args.seed)


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the task. Returns the exit status."""
    return run_task(parser(), argv, task)


if __name__ == "__main__":
    sys.exit(run())
