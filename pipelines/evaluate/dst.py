"""``parapet evaluate --task dst``: scores dialogue states against the reference, for all schema variants and sets."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.command import run_command, say
from parapet.pipelines.evaluate import add_model, from_flags, model_of
from parapet.pipelines.flags import INPUT, OUTPUT, Parser, add_seed
from parapet.pipelines.sets import add_sets, of_run, sources_of
from parapet.schemas.errors import InputError
from parapet.transforms.reports.text import counted, percent

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.evaluation.dst.model import Config

EXAMPLE = """\
  parapet evaluate --task dst --model keywords --output my_scores       # a baseline, on the sample
  parapet evaluate --task dst --reference my_corpus --variants my_dialogues --predictions my_predictions \\
      --output my_scores                  # my_predictions/original/..., my_predictions/v1/..., as my_dialogues
  parapet evaluate --task dst --reference my_corpus --sets typos=varied/typos --model my_model.py:Tracker \\
      --output my_scores"""


def parser() -> Parser:
    """Builds the command line."""
    description = (
        "Scores predicted dialogue states by the official SGD metrics (OUT/metrics.json) and, with variants, by schema "
        "sensitivity as in SGD-X (OUT/robustness.json). Writes a row for every frame, and a page."
    )
    parser = Parser("evaluate --task dst", description, EXAMPLE)
    add = parser.group(INPUT)
    text = "folder with SGD dialogues or JSON lines: original/, v1/, ...; or a file"
    add("--predictions", metavar="PATH", reads=True, help=text)
    add_sets(parser)
    parser.group(OUTPUT)("--system", rare=True, default="the system", metavar="NAME", help="name of the system")
    add_model(parser, "FILE.py:NAME, MODULE:NAME, or a plug-in")
    add = parser.group("model, instead of --predictions")
    add("--batch_size", type=int, default=64, metavar="N", help="examples in a batch")
    add = parser.group("scoring")
    add("--exact", rare=True, action="store_true", help="match free slots exactly (default: fuzzily, as SGD's script)")
    text = "joint accuracies by turn, over its services, as in MultiWOZ"
    add("--across_turn", rare=True, action="store_true", help=text)
    text = "ignore missing dialogues and unknown slots, as SGD's script does"
    add("--official", rare=True, action="store_true", help=text)
    add(
        "--zero",
        rare=True,
        choices=("zero", "drop"),
        default="zero",
        help="frames that are wrong under all variants: their sensitivity is zero, or they are dropped",
    )
    text = "replicates of the bootstrap; 0: no intervals"
    add("--replicates", rare=True, type=int, default=1000, metavar="N", help=text)
    add_seed(parser, "the bootstrap")
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


def inputs(config: Config) -> list[tuple[str, str]]:
    """Lists the files that workers read."""
    sources = config.sources
    roots = {"--reference": sources.reference, "--predictions": sources.predictions, "--variants": sources.variants}
    return [(flag, root) for flag, root in roots.items() if root]


def check(args: argparse.Namespace) -> Config:
    """Reads flags, schemas and file names. Raises InputError if one of them cannot be used."""
    from parapet.evaluation.dst import model
    from parapet.evaluation.dst.frames import ScoreConfig
    from parapet.evaluation.dst.model import Config, comparable, make_plan, unmatched

    args.predictions = of_run(args.predictions, "dst") if args.predictions else args.predictions
    code = model_of(args)
    if code and args.workers is None:
        args.workers = 1  # a model has threads of its own
    if args.batch_size < 1:
        raise InputError("must be 1 or more", "--batch_size")
    if not 0 <= args.replicates <= 100_000:
        raise InputError("must be from 0 to 100000", "--replicates")
    sources = sources_of(args, args.predictions)
    if code:
        model.check(code)
    plan = make_plan(sources)
    if lacking := unmatched(plan.sets.values(), plan.jobs):
        reason = f"variants are compared file by file, but {'; '.join(lacking)}"
        raise InputError(reason, sources.variants or sources.reference)
    plan = comparable(plan)
    for line in plan.remarks:
        logging.warning("%s", line)
    scoring = ScoreConfig(not args.exact, args.official)
    return from_flags(Config, args, sources=sources, plan=plan, scoring=scoring, model=code)


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Wires the pipeline: scores the files of all sets, and writes rows, metrics with intervals, and a page."""
    from parapet.evaluation.dst.scoring import EvaluateStates

    _ = pipeline | "Evaluate" >> EvaluateStates(config)


def report(config: Config, counters: dict[str, int]) -> None:
    """Prints joint goal accuracy by set, and warns about skipped records."""
    from parapet.evaluation.dst.results import REFUSED, change_of, sensitivity_of
    from parapet.evaluation.task import refused_notes
    from parapet.schemas.layout import MANIFEST
    from parapet.transforms.running.counts import Counts
    from parapet.transforms.storage.files import read_written

    counts = Counts.of_json(json.loads(read_written(config.output, MANIFEST))["counts"])
    numbers = json.loads(read_written(config.output, "robustness.json"))
    for name, numbers_here in numbers["sets"].items():
        value = numbers_here["metrics"].get("#ALL_SERVICES", {}).get("joint_goal_accuracy")
        accuracy = "no joint goal accuracy" if value is None else f"joint goal accuracy {percent(value)}"
        say(f"{name}: {accuracy} over {counted(counts.sum('frames', set=name), 'frame')}")
    if variants := numbers.get("variants"):
        row = variants["table"]["#ALL_SERVICES"]
        change = change_of(row, numbers["sets"]["original"]["intervals"].get("#ALL_SERVICES"))
        say(
            f"joint goal accuracy, mean over the variants: {percent(row['variants'])}, change {change}; schema "
            f"sensitivity: {sensitivity_of(row)}"
        )
        if config.zero == "drop":
            say("  schema sensitivity without the frames that are wrong under all variants")
    for note in refused_notes(
        {name: n for name, values in numbers["sets"].items() if (n := values.get(REFUSED))}, "frame"
    ):
        logging.warning("%s", note)
    for name, unit in (("missing_dialogues", "dialogue"), ("missing_turns", "turn"), ("unknown_slots", "slot")):
        if n := counts.sum(name):
            logging.warning("--official ignored %s %s", counted(n, unit), name.partition("_")[0])
