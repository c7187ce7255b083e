"""``parapet evaluate --task intent``: accuracy and macro-F1 of intents."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.evaluate import run_task
from parapet.pipelines.flags import INPUT, StrictParser, add_output
from parapet.pipelines.sets import add_sets, sources_of
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path

if TYPE_CHECKING:
    from parapet.evaluation.intent import Intent

DESCRIPTION = """\
Scores predicted intents by accuracy and macro-F1, for each set and intent: of utterances with labels, or of the user
turns of a corpus with their active intents."""

EXAMPLE = """\
  parapet evaluate --task intent --predictions intents.jsonl --output my_scores
  parapet evaluate --task intent --reference test.jsonl --predictions intents.jsonl --intents intents.txt \\
    --output my_scores
  parapet evaluate --task intent --reference my_corpus --sets typos=varied/typos --predictions my_intents \\
    --output my_scores                  # my_intents/original/..., my_intents/typos/..."""

NOTE = """\
A row of the predictions: {"id": "7", "predicted": "book_flight"}, with "label" where there is no --reference, and "set"
where there are several; "dialogue_id" and "turn" may be given instead of "id", and are with a corpus: there a turn with
several frames may have a row for each, with its "service"."""


def parser() -> StrictParser:
    """The flags."""
    parser = StrictParser("evaluate --task intent", DESCRIPTION, EXAMPLE, NOTE)
    add = parser.group(INPUT)
    text = "JSON lines with predicted; or a folder with original/, typos/, ..."
    add("--predictions", required=True, metavar="PATH", reads=True, help=text)
    add_sets(parser, reference="corpus, release, or JSON lines with label", from_predictions=True)
    add("--intents", metavar="FILE", reads=True, help="all intents, one per line: any other is an error")
    add_output(parser)
    return parser


def task(args: argparse.Namespace) -> Intent:
    """The task that the flags describe."""
    from parapet.evaluation.intent import Intent

    in_sets = bool(args.sets or args.variants)
    if in_sets and args.reference is None:
        raise InputError("go with a reference: give --reference, too", "--sets, --variants")
    if in_sets or (args.reference is not None and as_path(args.reference).is_dir()):
        return Intent(predictions=args.predictions, sources=sources_of(args), intents=args.intents)
    return Intent(predictions=args.predictions, reference=args.reference, intents=args.intents)


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the task. Returns the exit status."""
    return run_task(parser(), argv, task)


if __name__ == "__main__":
    sys.exit(run())
