"""``parapet restaurants``: the simulator of the bAbI dialog tasks 1 to 5, with out-of-vocabulary tests."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import Parser, check_apart, counted, run_command, run_header

if TYPE_CHECKING:
    import apache_beam as beam

EXAMPLE = """\
  parapet restaurants --output simulated                          # the paper's sizes: 1,000 dialogues a task and split
  parapet restaurants --tasks 1,5 --sizes train=100000,dev=0 --formats babi --output simulated
  parapet restaurants --ontology hotels.toml --babi_plus --output simulated"""


def parser() -> Parser:
    """The flags."""
    what = (
        "An ontology -> a knowledge base, dialogues of tasks 1 to 5 in the published bAbI format and in SGD's layout,\n"
        "and their out-of-vocabulary tests: OUT/dialog-babi-task1-API-calls-trn.txt, OUT/sgd/task1, OUT/sgd/task1-oov."
    )
    made = Parser("restaurants", what, EXAMPLE)
    add = made.add_argument
    add("--ontology", metavar="FILE", help="a domain in TOML (default: the restaurants of the paper, under own names)")
    add("--tasks", metavar="LIST", default="1,2,3,4,5", help="which tasks, parted by commas (default all)")
    add(
        "--sizes",
        metavar="LIST",
        default="1000",
        help="dialogues of each task: a number, or train=5000,oov=0; train, dev, test, oov (default 1000 each)",
    )
    add("--formats", metavar="LIST", default="babi,sgd", help="babi, sgd (default both)")
    add(
        "--dialogues_per_file",
        type=int,
        metavar="N",
        default=1000,
        help="larger sets have numbered files, -00001-of-00010 (default 1000)",
    )
    add(
        "--least_options",
        type=int,
        metavar="N",
        default=3,
        help="that a request of tasks 3 and 5 finds (default 3)",
    )
    add(
        "--babi_plus", action="store_true", help="the same again with hesitations, corrections, restarts: OUT/babi_plus"
    )
    add(
        "--babi_plus_rates",
        metavar="LIST",
        default="",
        help="shares of the user's turns: hesitation (0.40), correction (0.21), restart (0.05)",
    )
    add("--solve", type=float, metavar="X", default=1.0, help="share that a bot of rules must solve (default 1)")
    add("--seed", default="0", help="of all that is drawn: any text (default 0)")
    return made


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report)


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads flags and ontology. Raises InputError where they cannot work."""
    from parapet.schemas.errors import InputError
    from parapet.schemas.layout import as_path
    from parapet.transforms.restaurants import plan
    from parapet.transforms.restaurants.disfluencies import parse_rates
    from parapet.transforms.restaurants.ontology import default_ontology, read_ontology

    check_apart(args.output, ontology=args.ontology)
    if args.ontology is None:
        ontology = default_ontology()
    else:
        try:
            data = as_path(args.ontology).read_bytes()
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", args.ontology) from None
        ontology = read_ontology(data, args.ontology)
    plan.check_numbers(args.dialogues_per_file, args.least_options, args.solve, ontology.ratings)
    rates = parse_rates(args.babi_plus_rates)
    if args.babi_plus_rates and not args.babi_plus:
        raise InputError("is for --babi_plus, which is not given", "--babi_plus_rates")
    args.simulation = plan.Simulation(
        output=args.output,
        ontology=ontology,
        tasks=plan.parse_tasks(args.tasks),
        sizes=plan.parse_sizes(args.sizes),
        per_file=args.dialogues_per_file,
        formats=plan.parse_formats(args.formats),
        seed=args.seed,
        least=args.least_options,
        plus=rates if args.babi_plus else (),
        solved=args.solve,
    )
    plan.check(args.simulation, args.ontology or "")
    return args


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The flags that shape the content, and the ontology."""
    import msgspec

    simulation = args.simulation
    return {
        "ontology": msgspec.to_builtins(simulation.ontology) if args.ontology else "restaurants",
        "tasks": list(simulation.tasks),
        "sizes": dict(simulation.sizes),
        "formats": list(simulation.formats),
        "dialogues_per_file": simulation.per_file,
        "least_options": simulation.least,
        "babi_plus": dict(simulation.plus),
        "solve": simulation.solved,
        "seed": simulation.seed,
    }


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Files to be -> dialogues, numbers and what occurs in them -> the other files."""
    from functools import partial

    import apache_beam as beam

    from parapet.transforms import files
    from parapet.transforms.restaurants import outputs, writing
    from parapet.transforms.restaurants.invariants import check_counts

    files.prepare(args.output, "restaurants")
    simulation = args.simulation
    written = (
        pipeline | "Files to be" >> beam.Create(simulation.shards()) | "Dialogues" >> writing.WriteDialogues(simulation)
    )
    about = outputs.About(simulation, options_of(args))
    small = (
        pipeline
        | "Once" >> beam.Create([about], reshuffle=False)
        | "Metadata files"
        >> beam.FlatMap(outputs.metadata_files, *(beam.pvalue.AsList(one) for one in outputs.summed(written)))
        | "Write" >> files.WriteFiles(args.output)
    )
    (
        (written.written, small)
        | "All files" >> beam.Flatten()
        | "Publish"
        >> files.Publish(
            args.output, header(args), written[writing.COUNTS], partial(check_counts, simulation=simulation)
        )
    )


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    return run_header("restaurants", options_of(args))


def report(args: argparse.Namespace, _: dict[str, int]) -> None:
    """Says what was simulated."""
    from parapet.transforms.files import read_written

    if args.quiet:
        return
    numbers = json.loads(read_written(args.output, "statistics.json"))
    for task, one in numbers["tasks"].items():
        means = one["all"]
        solved = numbers["bot"].get("plain", {}).get(task, {})
        tried, right = (sum(of[name] for of in solved.values()) for name in ("tried", "solved"))
        print(
            f"task {task}: {counted(means['dialogues'], 'dialogue')}, {means['user']:.1f} user and {means['bot']:.1f} "
            f"bot utterances, {means['results']:.1f} results; the bot of rules solved {right:,} of {tried:,}"
        )
    print(f"{numbers['candidates']:,} candidates, {numbers['facts']:,} facts")


if __name__ == "__main__":
    sys.exit(run())
