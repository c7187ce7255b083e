"""``parapet evaluate --task ood``: how well out-of-domain turns are detected."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.evaluate import run_task
from parapet.pipelines.flags import INPUT, StrictParser, add_output
from parapet.pipelines.sets import add_sets, sources_of
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS

if TYPE_CHECKING:
    from parapet.evaluation.ood.task import OodDetection

DESCRIPTION = """\
Scores the detection of out-of-domain turns by precision, recall, F1, AUROC, AUPR and FPR95, for each set. The threshold
is tuned on --dev; without it, the predicted labels are scored."""

EXAMPLE = """\
  parapet evaluate --task ood --reference my_foreign_turns --split test --predictions test_turns.jsonl \\
    --dev dev_turns.jsonl --output my_scores
  parapet evaluate --task ood --reference my_corpus --sets ood-10=my_foreign_turns/ood-10 typos=varied/typos \\
    --predictions my_verdicts --output my_scores        # my_verdicts/original/..., my_verdicts/ood-10/...
  parapet evaluate --task ood --predictions turns.jsonl --positive in_domain --high in_domain --output my_scores"""

NOTE = """\
A row of the predictions: {"set": "ood-10", "dialogue_id": "1_00000", "turn": 4, "score": 0.93}, with "predicted" (ood
or in_domain) instead of a score or beside it, and "label" where there is no --reference; "id" may be given
instead of "dialogue_id" and "turn". Or a system's responses, "turn" and "response": a fallback says ood."""


def parser() -> StrictParser:
    """The flags."""
    parser = StrictParser("evaluate --task ood", DESCRIPTION, EXAMPLE, NOTE)
    add = parser.group(INPUT)
    text = "JSON lines with score or predicted; or a folder with ood-10/, ood-20/, ..."
    add("--predictions", required=True, metavar="PATH", reads=True, help=text)
    add_sets(
        parser,
        reference="output of 'ood', a corpus (all in-domain), or JSON lines with label",
        sets="sets: ood-10=foreign/ood-10; or which of --reference: ood-10 ood-20 (default: all)",
        from_predictions=True,
    )
    add("--dev", metavar="PATH", reads=True, help="predictions on other turns, on which the threshold is tuned")
    add("--dev_split", rare=True, choices=SPLITS, default="dev", help="split of --dev")
    add_output(parser)
    add = parser.group("scoring")
    classes = ("ood", "in_domain")
    add("--positive", rare=True, choices=classes, default="ood", help="class that is to be detected")
    add("--high", rare=True, choices=classes, default="ood", help="class that high scores mean")
    return parser


def task(args: argparse.Namespace) -> OodDetection:
    """The task that the flags describe."""
    from parapet.evaluation.ood.task import OodDetection, Orientation
    from parapet.transforms.corpora import listed

    chosen = [value for value in args.sets if "=" not in value]
    if args.reference is None and (args.sets or args.variants):
        raise InputError("needs a folder that 'parapet ood' wrote, or a corpus: give one as --reference", "--sets")
    others = argparse.Namespace(**{**vars(args), "sets": [value for value in args.sets if "=" in value]})
    return OodDetection(
        predictions=args.predictions,
        sources=sources_of(others) if args.reference is not None else None,
        chosen=tuple(listed(",".join(chosen))),
        dev=args.dev,
        dev_split=args.dev_split,
        orientation=Orientation(args.positive, args.high),
    )


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the task. Returns the exit status."""
    return run_task(parser(), argv, task)


if __name__ == "__main__":
    sys.exit(run())
