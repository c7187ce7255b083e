"""``parapet evaluate --task dst``: dialogue states against the reference, under every schema variant and set."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import Parser, add_split, check_apart, counted, run_command, run_header
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root, split_of_folder

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.evaluation.user_code import UserCode

EXAMPLE = """\
  parapet evaluate --task dst --reference my_corpus --split dev --predictions my_predictions --output my_scores
  parapet evaluate --task dst --reference my_corpus --variants my_dialogues --predictions my_predictions \\
      --output my_scores                  # my_predictions/original/..., my_predictions/v1/..., as my_dialogues
  parapet evaluate --task dst --reference my_corpus --sets typos=varied/typos --model my_model.py:Tracker \\
      --output my_scores"""


def parser() -> Parser:
    """The flags."""
    what = (
        "Predicted dialogue states -> the official SGD metrics (OUT/metrics.json); with variants schema sensitivity\n"
        "as in SGD-X (OUT/robustness.json); a row for every frame, and a page."
    )
    made = Parser("evaluate --task dst", what, EXAMPLE)
    add = made.add_argument
    add("--reference", metavar="ROOT", help="corpus, or a release (default: the bundled sample)")
    add_split(made)
    add("--predictions", metavar="PATH", help="folder with SGD dialogues or JSON lines: original/, v1/, ...; or a file")
    add(
        "--model",
        metavar="FILE.py:NAME",
        help="instead of predictions: a class with predict(batch), a function or an object; MODULE:NAME; a plug-in",
    )
    add(
        "--model_args",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help="what the class or function is called with: checkpoint=my_model beams=4 greedy=true",
    )
    add("--batch_size", type=int, default=64, metavar="N", help="examples that the model gets at a time (default 64)")
    add("--variants", metavar="DIR", help="dialogues under each variant's names, as 'rewrite' writes them")
    add("--variant", default="", metavar="LIST", help="which of them, parted by commas (default all)")
    add("--sets", nargs="+", default=[], metavar="NAME=ROOT", help="other sets: typos=varied/typos SR-10=heard/SR-10")
    add("--system", default="the system", metavar="NAME", help="what the page calls it")
    add(
        "--exact",
        action="store_true",
        help="free slots match exactly or not at all (default: fuzzily, as SGD's script)",
    )
    add("--across_turn", action="store_true", help="joint accuracies by turn, over its services, as in MultiWOZ")
    add("--official", action="store_true", help="pass over missing dialogues and unknown slots, as SGD's script does")
    add("--unit", choices=("frame", "turn"), default="frame", help="what has a schema sensitivity (default frame)")
    add("--zero", choices=("drop", "zero"), default="drop", help="frames wrong under all variants (default drop)")
    add("--replicates", type=int, default=1000, metavar="N", help="of the bootstrap intervals; 0: none (default 1000)")
    add("--seed", default="0", help="of the bootstrap: any text (default 0)")
    return made


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


def inputs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read."""
    roots = [("--reference", str(args.reference or sample_root())), ("--predictions", args.predictions)]
    return [(flag, root) for flag, root in [*roots, ("--variants", args.variants)] if root]


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads flags, schemas and file names. Raises InputError where they cannot work."""
    from parapet.evaluation.dst import model
    from parapet.evaluation.dst.files import Settings
    from parapet.evaluation.dst.scoring import Work
    from parapet.evaluation.dst.sets import Given, make_plan, parse_sets, unmatched
    from parapet.transforms.corpora import listed

    if (args.predictions is None) == (args.model is None):
        raise InputError("give one of the two: predictions, or a model that makes them", "--predictions, --model")
    if args.batch_size < 1:
        raise InputError("at least 1", "--batch_size")
    if not 0 <= args.replicates <= 100_000:
        raise InputError("0 to 100000", "--replicates")
    others = parse_sets(args.sets)
    check_apart(args.output, reference=args.reference, predictions=args.predictions, variants=args.variants, **others)
    args.user_code = _user_code(args)
    if args.user_code:
        model.check(args.user_code)
    wanted = tuple(listed(args.variant))
    root = str(args.reference or sample_root())
    args.split = split_of_folder(root) or args.split  # the variants' dialogues are those of the same split
    plan = make_plan(Given(root, args.split, args.variants, wanted, others, args.predictions))
    if lacking := unmatched(plan.sets.values(), plan.jobs):
        raise InputError(f"variants are compared file by file, and {'; '.join(lacking)}", args.variants or root)
    for line in plan.remarks:
        logging.warning("%s", line)
    settings = Settings(not args.exact, args.official)
    args.work = Work(
        args.output, plan, settings, args.across_turn, args.seed, args.replicates, args.user_code, args.batch_size
    )
    return args


def _user_code(args: argparse.Namespace) -> UserCode | None:
    from parapet.evaluation.user_code import UserCode, parse_arguments

    arguments = parse_arguments(args.model_args, "--model_args")
    if arguments and not args.model:
        raise InputError("the arguments of --model: name one", "--model_args")
    return UserCode(args.model, arguments, os.getcwd()) if args.model else None


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The flags that shape the content."""
    return {
        "split": args.split,
        "sets": list(args.work.plan.sets),
        "fuzzy": not args.exact,
        "across_turn": args.across_turn,
        "official": args.official,
        "unit": args.unit,
        "zero": args.zero,
        "replicates": args.replicates,
        "seed": args.seed,
        "model": args.model,
        **({"model_args": args.user_code.arguments} if args.model_args else {}),
    }


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Files in all sets -> rows, sums and replicates -> metrics and a page."""
    import apache_beam as beam

    from parapet.evaluation.dst import results, scoring, totals
    from parapet.transforms import files

    files.prepare(args.output, "evaluate_dst")
    scored = pipeline | "Score" >> scoring.Score(args.work)
    about = results.About(args.work, args.unit, args.zero, options_of(args), args.system)
    sums = scored[scoring.TOTALS] | "Sum" >> beam.CombinePerKey(totals.merged)
    replicates = scored[scoring.REPLICATES] | "Replicates" >> beam.CombineGlobally(scoring.summed).without_defaults()
    examples = scored[scoring.EXAMPLES] | "Examples" >> beam.CombineGlobally(scoring.worst_of_all).without_defaults()
    small = (
        pipeline
        | "Once" >> beam.Create([about], reshuffle=False)
        | "Numbers"
        >> beam.FlatMap(results.metadata_files, *(beam.pvalue.AsList(one) for one in (sums, replicates, examples)))
        | "Write" >> files.WriteFiles(args.output)
    )
    (
        (scored.written, small)
        | "All files" >> beam.Flatten()
        | "Publish" >> files.Publish(args.output, header(args), scored[scoring.COUNTS])
    )


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    from parapet.evaluation.dst.model import plugin_of
    from parapet.transforms.plugins import recorded

    return {**run_header("evaluate_dst", options_of(args)), **recorded(plugin_of(args.model) if args.model else None)}


def report(args: argparse.Namespace, counters: dict[str, int]) -> None:
    """Says the headline, and what was passed over."""
    from parapet.transforms.files import MANIFEST, read_written

    counts = json.loads(read_written(args.output, MANIFEST))["counts"]
    numbers = json.loads(read_written(args.output, "robustness.json"))
    if not args.quiet:
        for name, one in numbers["sets"].items():
            value = one["metrics"].get("#ALL_SERVICES", {}).get("joint_goal_accuracy")
            told = "no joint goal accuracy" if value is None else f"joint goal accuracy {value:.4f}"
            print(f"{name}: {told} over {counted(counts.get(f'frames/{name}', 0), 'frame')}")
        if variants := numbers.get("variants"):
            row = variants["table"]["#ALL_SERVICES"]
            difference = "–" if row["difference"] is None else f"{row['difference']:+.1%}"
            sensitivity = "–" if row["schema_sensitivity"] is None else f"{row['schema_sensitivity']:.4f}"
            print(f"mean of the variants {row['variants']:.4f} ({difference}), schema sensitivity {sensitivity}")
            print(
                f"  by {args.unit}; frames wrong under all variants: {'dropped' if args.zero == 'drop' else 'as zero'}"
            )
    for name, what in (("missing_dialogues", "dialogue"), ("missing_turns", "turn"), ("unknown_slots", "slot")):
        if counts.get(name):
            logging.warning("--official passed over %s %s", counted(counts[name], what), name.partition("_")[0])


if __name__ == "__main__":
    sys.exit(run())
