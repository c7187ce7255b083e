"""``parapet evaluate --task intent``: accuracy and macro-F1 of intents."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from parapet.pipelines.command import StrictParser, check_apart, counted, run_checked

DESCRIPTION = """\
Predicted intents -> accuracy and macro-F1, by set and by intent. The active intents of dialogues in the SGD format
are scored by '--task dst'."""

EXAMPLE = """\
  parapet evaluate --task intent --predictions intents.jsonl --output my_scores
  parapet evaluate --task intent --reference test.jsonl --predictions intents.jsonl --intents intents.txt \\
    --output my_scores"""

NOTE = """\
A row of the predictions: {"id": "7", "predicted": "book_flight"}, with "label" where there is no --reference, and "set"
where there are several; "dialogue_id" and "turn" may stand for "id"."""


def parser() -> StrictParser:
    """The command line."""
    made = StrictParser("evaluate --task intent", DESCRIPTION, EXAMPLE, NOTE)
    add = made.add_argument
    add("--predictions", required=True, metavar="FILE", help="JSON lines with 'predicted'")
    add("--reference", metavar="FILE", help="JSON lines with 'label' (default: the labels in the predictions)")
    add("--intents", metavar="FILE", help="the intents that there are, a line each: any other is an error")
    add("--output", required=True, metavar="OUT", help="folder to write, local or gs://")
    return made


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads. Raises InputError for files that cannot be scored."""
    from parapet.evaluation.intent.outputs import read_items

    check_apart(args.output, predictions=args.predictions, reference=args.reference, intents=args.intents)
    args.items = read_items(args.predictions, args.reference, args.intents)
    return args


def act(args: argparse.Namespace) -> None:
    """Scores, writes and tells."""
    from parapet.evaluation.intent.outputs import evaluate, files_of
    from parapet.evaluation.lines import ALL
    from parapet.evaluation.running import header
    from parapet.evaluation.writing import publish

    metrics, details = evaluate(args.items)
    paths = {"predictions": args.predictions, "reference": args.reference, "intents": args.intents}
    publish(
        args.output, files_of(args.items, metrics, details), header("intent", paths, {}, {"items": len(args.items)})
    )
    if not args.quiet:
        for name, of in metrics.items():
            items = f" of {counted(details[name]['items'], 'item')}" if name in details else ""
            if name == ALL or len(metrics) > 1:
                print(f"{name}: accuracy {100 * of['accuracy']:.2f}%, macro-F1 {100 * of['macro_f1']:.2f}%{items}")


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the task. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "nothing was published, run the same command again")


if __name__ == "__main__":
    sys.exit(run())
