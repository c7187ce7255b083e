"""``parapet evaluate --task ood``: how well out-of-domain turns are detected."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from parapet.pipelines.command import StrictParser, add_split, check_apart, counted, run_checked
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS

DESCRIPTION = """\
Scores or labels of turns -> precision, recall, F1, AUROC, AUPR, FPR95, by set. The threshold is tuned on --dev, never
on what is scored; without it, predicted labels count."""

EXAMPLE = """\
  parapet evaluate --task ood --reference my_foreign_turns --split test --predictions test_turns.jsonl \\
    --dev dev_turns.jsonl --output my_scores
  parapet evaluate --task ood --predictions turns.jsonl --positive in_domain --high in_domain --output my_scores"""

NOTE = """\
A row of the predictions: {"set": "ood-10", "dialogue_id": "1_00000", "turn": 4, "score": 0.93}, with "predicted" (ood
or in_domain) instead of a score or beside it, and "label" where there is no --reference; "id" may stand for
"dialogue_id" and "turn"."""


def parser() -> StrictParser:
    """The command line."""
    made = StrictParser("evaluate --task ood", DESCRIPTION, EXAMPLE, NOTE)
    add = made.add_argument
    add("--predictions", required=True, metavar="FILE", help="JSON lines with 'score' or 'predicted'")
    add(
        "--reference",
        metavar="PATH",
        help="what 'parapet ood' wrote, or JSON lines with 'label' (default: the labels in the predictions)",
    )
    add_split(made, text="of a folder: whose turns")
    add("--sets", metavar="LIST", default="", help="of a folder: which sets, parted by commas (default: all)")
    add("--dev", metavar="FILE", help="predictions on other turns, to tune the threshold on: the highest F1")
    add("--dev_split", choices=SPLITS, default="dev", help="of a folder: whose turns --dev is of (default dev)")
    add("--positive", choices=("ood", "in_domain"), default="ood", help="the class to be found (default ood)")
    add("--high", choices=("ood", "in_domain"), default="ood", help="the class a high score speaks for (default ood)")
    add("--output", required=True, metavar="OUT", help="folder to write, local or gs://")
    return made


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads. Raises InputError for files that cannot be scored."""
    from parapet.evaluation.ood.reading import read_truth, read_turns
    from parapet.evaluation.ood.scoring import Settings, tuned
    from parapet.evaluation.writing import sha256_of
    from parapet.schemas.layout import as_path

    check_apart(args.output, predictions=args.predictions, reference=args.reference, dev=args.dev)
    sets = [name.strip() for name in args.sets.split(",") if name.strip()]
    folder = args.reference is not None and as_path(args.reference).is_dir()
    if sets and not folder:
        raise InputError("is of a folder that 'parapet ood' wrote: give one with --reference", "--sets")
    truth = read_truth(args.reference, args.split, sets) if args.reference else None
    args.turns = read_turns(args.predictions, truth)
    args.settings = Settings(args.positive, args.high)
    args.threshold = None
    if not args.dev:
        return args
    if folder and args.dev_split == args.split:
        raise InputError(f"--dev is of {args.dev_split} too: a threshold is not tuned on what is scored", "--dev_split")
    if not folder and sha256_of(as_path(args.dev)) == sha256_of(as_path(args.predictions)):
        raise InputError("is the same as --predictions: a threshold is not tuned on what is scored", args.dev, "--dev")
    if any(turn.score is None for turn in args.turns.values()):
        raise InputError("the rows have no score that a threshold could be held against", args.predictions)
    dev = list(read_turns(args.dev, read_truth(args.reference, args.dev_split, sets) if folder else None).values())
    if any(turn.score is None for turn in dev):
        raise InputError("the rows have no score to tune a threshold on", args.dev)
    found = tuned(dev, args.settings)
    if found is None:
        raise InputError(f"no turn is {args.positive}: no threshold can be tuned on it", args.dev)
    args.threshold = {"value": found[0], "f1": found[1], "turns": len(dev)}
    args.settings = Settings(args.positive, args.high, found[0])
    return args


def act(args: argparse.Namespace) -> None:
    """Scores, writes and tells."""
    from parapet.evaluation.ood.outputs import about_threshold, files_of
    from parapet.evaluation.ood.scoring import evaluate
    from parapet.evaluation.pages import percent
    from parapet.evaluation.running import header
    from parapet.evaluation.writing import publish

    metrics, groups = evaluate(args.turns, args.settings)
    predicted = any(turn.predicted is not None for turn in args.turns.values())
    details = {"groups": groups, "threshold": args.threshold, "predicted": predicted}
    options = {"positive": args.positive, "high": args.high, "split": args.split, "dev_split": args.dev_split}
    paths = {"predictions": args.predictions, "reference": args.reference, "dev": args.dev}
    files = files_of(args.turns, metrics, details, args.settings)
    publish(args.output, files, header("ood", paths, options, {"turns": len(args.turns)}))
    if not args.quiet:
        for name, of in metrics.items():
            said = ", ".join(f"{key} {percent(of[key], 1)}" for key in ("f1", "auroc", "aupr", "fpr95"))
            turns = f"; {counted(groups[name]['turns'], 'turn')}" if name in groups else ""
            print(f"{name}: {said}{turns}")
        print(about_threshold(details))


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the task. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "nothing was published, run the same command again")


if __name__ == "__main__":
    sys.exit(run())
