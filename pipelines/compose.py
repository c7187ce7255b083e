"""``parapet compose``: composes crowd answers into schema variants v1 to v5, with audit, review page and shortfall."""

from __future__ import annotations

import argparse
import csv
import io
import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.command import counted, run_command, say
from parapet.pipelines.crowd_answers import (
    Composition,
    add_answer_flags,
    check_answers,
    conclude,
    inputs,
)
from parapet.pipelines.flags import Parser, add_schemas, add_seed
from parapet.transforms.running import plugins

if TYPE_CHECKING:
    import apache_beam as beam

MOST_SHOWN = 5  # services that the command tells what they lack
DISTANCES = plugins.Names(plugins.DISTANCES)

EXAMPLE = """\
  parapet compose --allow_partial --output out               # the sample
  parapet compose --schemas my_corpus --responses names.csv --output out
  # open out/review.html in a browser, decide, download decisions.csv, then
  parapet compose --schemas my_corpus --responses names.csv --decisions decisions.csv --output out"""


def parser() -> Parser:
    """Builds the command line."""
    description = (
        "Vets, ranks and composes crowd answers into the schema variants v1...v5 of SGD-X. "
        "Writes OUT/v1/SPLIT/schema.json and so on, an audit of every answer, and a page to review them."
    )
    parser = Parser("compose", description, EXAMPLE)
    add_schemas(parser)
    add_answer_flags(parser)
    add = parser.group("composition")
    add("--allow_partial", action="store_true", help="repeat answers where there are fewer than five good ones")
    add("--allow_not_blind", action="store_true", help="take answers of workers who also did the sibling task")
    add("--require_complete", action="store_true", help="exit with status 1 unless every element has five good answers")
    add(
        "--selection",
        choices=("random", "diverse"),
        default="random",
        help="which five are used where there are more",
    )
    for description, default in (("name", "levenshtein"), ("description", "jaccard")):
        add(
            f"--{description}_distance",
            rare=True,
            choices=DISTANCES,
            default=default,
            help=f"distance that ranks {description}s",
        )
    add(
        "--vetting_rules",
        rare=True,
        type=_listed,
        default=(),
        metavar="LIST",
        help="vetting rules of plug-ins: NAME or NAME=ARGUMENT, comma-separated",
    )
    add("--stopwords", rare=True, default="articles", metavar="SET", help="articles, spacy, none, or a file of words")
    add(
        "--spacy_model",
        rare=True,
        default="",
        metavar="NAME",
        help="spaCy pipeline that lemmatises (default: simplemma)",
    )
    add_seed(parser, "--selection", int, 0)
    return parser


def _listed(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


def check(args: argparse.Namespace) -> Composition:
    """Reads the settings. Raises InputError if a flag or file cannot be used."""
    from parapet.schemas import layout
    from parapet.schemas.errors import InputError
    from parapet.transforms.crowd.schema_task import Options, SchemaTask

    responses = args.responses or []
    if args.schemas is None:
        crowd = layout.sample_root() / "crowd"
        responses = responses or [str(crowd / name) for name in ("names.csv", "descriptions.csv")]
    elif not layout.is_there(args.schemas):
        raise InputError("there is no such file or folder", f"--schemas {args.schemas}")
    sources = check_answers(args, responses)
    options = Options(**{name: getattr(args, name) for name in Options.__struct_fields__})
    splits = layout.read_root(args.schemas or layout.sample_root(), leave_out_bad=True)
    return Composition(SchemaTask(splits, options, args.output), sources, args.require_complete)


def build(pipeline: beam.Pipeline, config: Composition) -> None:
    """Composes the answers, and publishes the variants with the audit of every answer."""
    import apache_beam as beam

    from parapet.transforms.crowd.compose import Compose
    from parapet.transforms.crowd.dedupe import Dedupe
    from parapet.transforms.crowd.ingest import ReadAnswers
    from parapet.transforms.crowd.schema_task import Conclude, SchemaTask, WriteVariants
    from parapet.transforms.crowd.writing import WriteComposition
    from parapet.transforms.storage import files

    task, sources = config.task, config.sources
    assert isinstance(task, SchemaTask)
    read = pipeline | ReadAnswers(sources.responses, encoding=sources.encoding).with_outputs()
    distinct = read.assignments | Dedupe().with_outputs()
    vetted = distinct.assignments | task.vet(sources.decisions).with_outputs()
    ranked = vetted.answers | task.rank.with_outputs()
    composed = ranked.rankings | Compose(task.splits, task.options.allow_partial).with_outputs()

    outcomes = vetted.answers | Conclude(task, composed.composed)
    variants = composed.variants | WriteVariants(task.splits, task.output)
    files.prepare(task.output, task.command)
    bad_services = pipeline | "Bad services" >> beam.Create(task.dead(), reshuffle=False)
    dead = [bad_services, *(outputs.dead_letters for outputs in (read, distinct, vetted, ranked, composed))]
    _ = outcomes | WriteComposition(task, distinct.assignments, dead, [variants], vetted.answers)


def report(config: Composition, counters: dict[str, int]) -> int:
    """Prints what was composed and what to do next. Returns the exit status."""
    from parapet.transforms.crowd.report import missing_answers
    from parapet.transforms.crowd.schema_task import SchemaTask
    from parapet.transforms.storage.files import read_written

    output = config.task.output
    services = json.loads(read_written(output, "statistics.json"))["services"]
    complete = sum(service["composed"] and not service["partial"] for service in services.values())
    partial = sum(service["partial"] for service in services.values())
    short = len(services) - complete
    headline = f"{complete} of {len(services)} services composed" + (f", {partial} partially" if partial else "")
    missing = short - partial  # the headline already names services that --allow_partial composed
    needs = f"{counted(missing, 'service')} {'needs' if missing == 1 else 'need'} more answers" if missing else ""
    assert isinstance(config.task, SchemaTask)
    has_bad = any(split.bad for split in config.task.splits)
    nothing = "" if complete or partial else "no service could be composed"
    status = conclude(config, headline, short + has_bad, needs, nothing)
    if missing:
        rows = csv.DictReader(io.StringIO(read_written(output, "shortfall.csv").decode()))
        sentences = missing_answers(list(rows), services)
        for sentence in sentences[:MOST_SHOWN]:
            say(f"missing: {sentence}")
        if len(sentences) > MOST_SHOWN:
            say(f"missing: {counted(len(sentences) - MOST_SHOWN, 'more service')}, see {output}/report.html")
    if has_bad:
        logging.warning("services with invalid schemas were left out: see the dead letters of stage schemas")
    return status
