"""``parapet evaluate --task intent``: accuracy and macro-F1 of intents."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.evaluate import run_task
from parapet.pipelines.flags import StrictParser

if TYPE_CHECKING:
    from parapet.evaluation.intent import Intent

DESCRIPTION = """\
Predicted intents -> accuracy and macro-F1, by set and by intent. The active intents of dialogues in the SGD format
are scored by '--task dst'."""

EXAMPLE = """\
  parapet evaluate --task intent --predictions intents.jsonl --output my_scores
  parapet evaluate --task intent --reference test.jsonl --predictions intents.jsonl --intents intents.txt \\
    --output my_scores"""

NOTE = """\
A row of the predictions: {"id": "7", "predicted": "book_flight"}, with "label" where there is no --reference, and "set"
where there are several; "dialogue_id" and "turn" may be given instead of "id"."""


def parser() -> StrictParser:
    """The flags."""
    parser = StrictParser("evaluate --task intent", DESCRIPTION, EXAMPLE, NOTE)
    add = parser.add_argument
    add("--predictions", required=True, metavar="FILE", help="JSON lines with 'predicted'")
    add("--reference", metavar="FILE", help="JSON lines with 'label' (default: the labels in the predictions)")
    add("--intents", metavar="FILE", help="all intents, one per line: any other is an error")
    add("--output", required=True, metavar="OUT", help="folder to write, local or gs://")
    return parser


def task(args: argparse.Namespace) -> Intent:
    """The task that the flags describe."""
    from parapet.evaluation.intent import Intent

    return Intent(predictions=args.predictions, reference=args.reference, intents=args.intents)


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the task. Returns the exit status."""
    return run_task(parser(), argv, task)


if __name__ == "__main__":
    sys.exit(run())
