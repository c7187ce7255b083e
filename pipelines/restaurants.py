"""``parapet restaurants``: simulates the bAbI dialog tasks 1 to 5, with out-of-vocabulary tests."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.command import counted, run_command, say
from parapet.pipelines.flags import INPUT, OUTPUT, Parser, add_seed

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.simulators.restaurants.corpus import Config

ALL_TASKS = "1,2,3,4,5"

EXAMPLE = """\
  parapet restaurants --output simulated                          # the paper's sizes: 1,000 dialogues a task and split
  parapet restaurants --tasks 1,5 --sizes train=100000,dev=0 --formats babi --output simulated
  parapet restaurants --ontology hotels.toml --babi_plus --output simulated"""


def parser() -> Parser:
    """Builds the command line."""
    description = (
        "Simulates the bAbI dialog tasks 1 to 5 from an ontology: a knowledge base, dialogues in the published format "
        "and in the SGD format, and out-of-vocabulary tests. Writes OUT/dialog-babi-task1-API-calls-trn.txt, "
        "OUT/sgd/task1, OUT/sgd/task1-oov and so on."
    )
    parser = Parser("restaurants", description, EXAMPLE)
    text = "domain in TOML (default: the paper's restaurants, with other names)"
    parser.group(INPUT)("--ontology", metavar="FILE", reads=True, help=text)
    add = parser.group("simulation")
    add("--tasks", metavar="LIST", default=ALL_TASKS, help="tasks, comma-separated")
    add(
        "--sizes",
        metavar="LIST",
        default="1000",
        help="dialogues of each task: a number, or train=5000,oov=0 for some of train, dev, test, oov",
    )
    add("--babi_plus", action="store_true", help="add copies with hesitations, corrections and restarts")
    text = "minimum number of results of a request in tasks 3 and 5"
    add("--least_options", rare=True, type=int, metavar="N", default=3, help=text)
    add = parser.group(OUTPUT)
    add("--formats", metavar="LIST", default="babi,sgd", help="formats, comma-separated")
    text = "larger sets are split into numbered files"
    add("--dialogues_per_file", rare=True, type=int, metavar="N", default=1000, help=text)
    add_seed(parser)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report)


def check(args: argparse.Namespace) -> Config:
    """Reads flags and ontology. Raises InputError if they cannot be used."""
    from parapet.schemas.layout import as_path
    from parapet.schemas.limits import read_whole
    from parapet.transforms.simulators.restaurants import corpus
    from parapet.transforms.simulators.restaurants.ontology import default_ontology, read_ontology

    if args.ontology is None:
        ontology = default_ontology()
    else:
        ontology = read_ontology(read_whole(as_path(args.ontology)), args.ontology)
    corpus.check_numbers(args.dialogues_per_file, args.least_options, ontology.ratings)
    result = corpus.Config(
        output=args.output,
        ontology=ontology,
        ontology_path=args.ontology,
        tasks=tuple(map(int, corpus.chosen(args.tasks, ALL_TASKS.split(","), "--tasks", "task"))),
        sizes=corpus.parse_sizes(args.sizes),
        per_file=args.dialogues_per_file,
        formats=tuple(corpus.chosen(args.formats, corpus.FORMATS, "--formats", "format")),
        seed=args.seed,
        least=args.least_options,
        plus=args.babi_plus,
    )
    corpus.check(result)
    return result


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Wires the pipeline: simulates dialogues in shards, and writes them with statistics and the other files."""
    from functools import partial

    import apache_beam as beam

    from parapet.transforms.running.progress import expect
    from parapet.transforms.running.runs import FinishRun, RunInfo, WriteEach
    from parapet.transforms.simulators.restaurants import corpus
    from parapet.transforms.storage import files

    info = RunInfo("restaurants", config.output, config.options())
    files.prepare(config.output, info.pipeline)
    expect(sum(shard.dialogues for shard in config.shards()), "dialogues")
    write = WriteEach(corpus.write_shard, setup=partial(corpus.Simulator, config))
    outputs = pipeline | "Shards" >> beam.Create(config.shards()) | "Spread" >> beam.Reshuffle() | "Dialogues" >> write
    _ = outputs._replace(dead_letters=None) | "Finish" >> FinishRun(  # the pipeline reads no records
        info,
        partial(corpus.metadata_files, config=config),
        invariants=config.invariants(),
        shown=corpus.SHOWN,
    )


def report(config: Config, _: dict[str, int]) -> None:
    """Prints the means of each task."""
    from parapet.transforms.storage.files import read_written

    statistics = json.loads(read_written(config.output, "statistics.json"))
    for task, numbers in statistics["tasks"].items():
        means = numbers["all"]
        solved = statistics["bot"].get("plain", {}).get(task, {})
        tried, right = (sum(test[name] for test in solved.values()) for name in ("tried", "solved"))
        say(
            f"task {task}: {counted(means['dialogues'], 'dialogue')}, {means['user']:.1f} user and {means['bot']:.1f} "
            f"bot utterances, {means['results']:.1f} results; the rule-based bot solved {right:,} of {tried:,}"
        )
    say(f"{statistics['candidates']:,} candidates, {statistics['facts']:,} facts")
