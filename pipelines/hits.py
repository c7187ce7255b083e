"""``parapet hits``: makes HIT pages, requester-site files and a cost plan from schemas or dialogues."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.pipelines.command import counted, read_good, run_command, say
from parapet.pipelines.flags import INPUT, RUNNING, Parser, add_dry_run, add_schemas, add_seed, whole_number
from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS, TEST, sample_root
from parapet.transforms.crowd.hits.terms import RATINGS, REWARD, REWRITES, SCHEMAS, HitTask, Terms

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.crowd.hits.make_hits import Unit
    from parapet.transforms.crowd.hits.page import Settings
    from parapet.transforms.crowd.hits.plan import Plan

DESCRIPTION = """\
Makes the pages on which crowd workers paraphrase names and descriptions of a schema (schemas), rewrite user turns
(rewrites), or judge generated utterances (ratings)."""

EXAMPLE = """\
  parapet hits --output my_hits                                # the sample
  parapet hits --schemas my_corpus --output my_hits --dry_run
  parapet hits --task rewrites --dialogues my_corpus --output my_rewrites
  parapet hits --task ratings --dialogues my_corpus --scores my_scores --output my_ratings"""

_MAX_WARNINGS = 20

# SGSAcc has three workers judge an utterance. For rewrites one good answer is enough; in our sample, vetting accepts
# about one of two answers.
_ASSIGNMENTS = 3

# The flags that only some tasks use.
_FLAGS_OF = {
    SCHEMAS: ("schemas", "cues", "shortfall"),
    REWRITES: ("dialogues", "split", "turns", "seed"),
    RATINGS: ("dialogues", "scores", "faithful", "unfaithful", "invalid", "items", "checks", "no_naturalness", "seed"),
}


class Config(msgspec.Struct, frozen=True):
    """The pages to make.

    Attributes:
      output: the folder to write.
      settings: the settings of the pages.
      dry_run: whether only the plan is printed.
      units: services, dialogue files, or the utterances of each judgement page.
      options: the options of the task, for ``run.json``.
      drawn: by metric verdict, how many utterances are judged and how many there are.
    """

    output: str
    settings: Settings
    dry_run: bool
    units: tuple[Unit, ...]
    options: dict[str, object]
    drawn: dict[str, dict[str, int]] = {}


def parser() -> Parser:
    """Builds the command line of ``parapet hits``."""
    parser = Parser("hits", DESCRIPTION, EXAMPLE)
    add = parser.group(INPUT)
    add("--task", choices=tuple(_FLAGS_OF), default=SCHEMAS, help="what the pages ask for")
    add_schemas(parser)
    text = "shortfall.csv of 'parapet compose': ask only for what is missing"
    add("--shortfall", rare=True, metavar="FILE", reads=True, help=text)
    text = "what names pages say the service is: its description, nothing, or service_name,cue in a CSV file"
    add("--cues", rare=True, default="auto", metavar="auto|none|FILE", help=text)
    add = parser.group("--task rewrites, ratings")
    text = "corpus, or its files (default: the bundled sample)"
    add("--dialogues", nargs="+", metavar="ROOT|FILE", reads=True, help=text)
    add("--split", choices=SPLITS, help=f"split of a corpus (default: {TEST})")
    text = "of rewrites: user turns to draw (default: all)"
    add("--turns", rare=True, type=whole_number(1), metavar="N", help=text)
    add("--scores", metavar="DIR", reads=True, help="output of 'evaluate --task generation', for ratings")
    add = parser.group("--task ratings", rare=True)
    # The defaults are the numbers of SGSAcc's sample.
    add("--faithful", type=whole_number(0), default=200, metavar="N", help="number of valid turns found faithful")
    add("--unfaithful", type=whole_number(0), default=200, metavar="N", help="of those found unfaithful")
    add("--invalid", type=whole_number(0), default=25, metavar="N", help="of turns that fail validation")
    add("--items", type=whole_number(1), default=10, metavar="N", help="utterances on a page, at most")
    text = "utterances of other turns on each page, of which nobody attentive says Yes"
    add("--checks", type=whole_number(0), default=1, metavar="N", help=text)
    text = "do not ask how natural an utterance sounds, as SGSAcc's authors did not"
    add("--no_naturalness", action="store_true", help=text)
    add = parser.group("pay and cost")
    terms = Terms()
    text = f"dollars per hour, which sets rewards (default: {terms.hourly_wage})"
    add("--hourly_wage", type=_dollars, default=terms.hourly_wage, metavar="X", help=text)
    add("--reward", type=_dollars, metavar="X", help="dollars per assignment, instead of --hourly_wage")
    text = "workers per HIT; from ten on the fee is higher"
    text += f" (default: {terms.assignments}; {_ASSIGNMENTS} of dialogues; as missing with --shortfall)"
    add("--assignments", type=whole_number(1), metavar="N", help=text)
    text = "hours after which unreviewed work is paid"
    hours, days = terms.auto_approval_hours, terms.lifetime_days
    add("--auto_approval_hours", rare=True, type=whole_number(0, 720), default=hours, metavar="N", help=text)
    text = "days for which a HIT is offered"
    add("--lifetime_days", rare=True, type=whole_number(1, 365), default=days, metavar="N", help=text)
    parser.group(RUNNING)("--sandbox", action="store_true", help="the forms go to MTurk's sandbox")
    add_dry_run(parser)
    add_seed(parser, "what is drawn of dialogues", int, 0)
    return parser


def _dollars(text: str) -> Decimal:
    if not REWARD.fullmatch(text) or not Decimal(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount of dollars such as 1.25")
    return Decimal(text)


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet hits``. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


def check(args: argparse.Namespace) -> Config:
    """Reads schemas or lists dialogue files. Raises InputError if they cannot be used."""
    default = parser().get_default
    for flag in dict.fromkeys(flag for flags in _FLAGS_OF.values() for flag in flags):
        tasks = [task for task, flags in _FLAGS_OF.items() if flag in flags]
        if args.task not in tasks and getattr(args, flag) != default(flag):
            raise InputError(f"is for --task {' and '.join(tasks)}, but this is --task {args.task}", f"--{flag}")
    return {SCHEMAS: _check_schemas, REWRITES: _check_rewrites, RATINGS: _check_ratings}[args.task](args)


def _check_schemas(args: argparse.Namespace) -> Config:
    from parapet.schemas.layout import services_by_name
    from parapet.schemas.service import TASKS, elements_of, task_id
    from parapet.transforms.crowd.hits.page import AUTO, NONE
    from parapet.transforms.crowd.hits.plan import read_shortfall, top_up_assignments
    from parapet.transforms.crowd.hits.schema_pages import read_cues, revealing

    services = services_by_name(read_good(args.schemas or sample_root()))
    cues = args.cues if args.cues in (AUTO, NONE) else read_cues(args.cues, services)
    only: frozenset[tuple[str, str]] | None = None
    assignments = Terms().assignments
    if args.shortfall:
        lacks = read_shortfall(args.shortfall)
        known = {
            (task_id(name, task), element.field): name
            for name, service in services.items()
            for task in TASKS
            for element in elements_of(service, task)
        }
        if unknown := next((place for place in lacks if place not in known), None):
            raise InputError(f"the schemas have no such element: {', '.join(unknown)}", args.shortfall)
        short = {known[place] for place in lacks}
        services = {name: service for name, service in services.items() if name in short}
        only, assignments = frozenset(lacks), top_up_assignments(max(lacks.values()))
    settings = _settings(args, TASKS, assignments, only=only, cues=cues)
    if cues != NONE:
        for name, revealed in revealing(service for name, service in services.items() if name not in cues):
            logging.warning(
                "the description of %s, which its names page shows, contains the name %r: use --cues to write another",
                name,
                revealed,
            )
    options = {"cues": cues, "only": None if only is None else sorted(only)}
    return Config(args.output, settings, args.dry_run, tuple(services.values()), options)


def _check_rewrites(args: argparse.Namespace) -> Config:
    from parapet.transforms.crowd.hits.rewrite_pages import dialogue_paths

    files = dialogue_paths(args.dialogues or [sample_root()], args.split)
    settings = _settings(args, (REWRITES,), _ASSIGNMENTS, turns=args.turns)
    options = {"task": REWRITES, "split": args.split, "turns": args.turns, "seed": args.seed}
    return Config(args.output, settings, args.dry_run, tuple(files), options)


def _check_ratings(args: argparse.Namespace) -> Config:
    from parapet.evaluation.ratings.sample import STRATA, draw_sample, read_scores
    from parapet.transforms.crowd.hits.judged import group_items

    if args.scores is None:
        raise InputError(
            "is required: give the output of 'parapet evaluate --task generation', from which utterances are drawn",
            "--scores",
        )
    root, *others = args.dialogues or [str(sample_root())]
    if others:
        raise InputError("takes one corpus for ratings, the one that --scores is about", "--dialogues")
    sizes: dict[str, int] = {stratum: getattr(args, stratum) for stratum in STRATA}
    items, drawn = draw_sample(root, read_scores(args.scores), sizes, args.seed)
    settings = _settings(args, (RATINGS,), _ASSIGNMENTS, naturalness=not args.no_naturalness)
    groups = tuple(map(tuple, group_items(items, args.items, args.checks, args.seed)))
    options = {"task": RATINGS, "drawn": drawn, "naturalness": settings.naturalness, "seed": args.seed}
    return Config(args.output, settings, args.dry_run, groups, options, drawn)


def _settings(args: argparse.Namespace, tasks: Sequence[HitTask], assignments: int, **more: Any) -> Settings:
    """Returns the settings of a task whose HITs get so many ``assignments`` by default."""
    from parapet.transforms.crowd.hits.page import Settings

    workers = assignments if args.assignments is None else args.assignments
    terms = Terms(args.hourly_wage, args.reward, workers, args.auto_approval_hours, args.lifetime_days)
    return Settings(terms, sandbox=args.sandbox, tasks=tuple(tasks), seed=args.seed, **more)


def inputs(config: Config) -> list[tuple[str, str]]:
    """Lists the dialogue files that workers read."""
    return [("--dialogues", unit.path) for unit in config.units if isinstance(unit, DialogueFile)]


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Wires the pipeline: renders the pages, writes and publishes them."""
    from parapet.transforms.crowd.hits.make_hits import MakeHits
    from parapet.transforms.running.runs import RunInfo
    from parapet.transforms.storage.files import prepare

    settings = config.settings
    options = {**msgspec.to_builtins(settings.terms), "sandbox": settings.sandbox, **config.options}
    prepare(config.output, "hits")
    pipeline | MakeHits(config.units, settings, RunInfo("hits", config.output, options))


def report(config: Config, counters: dict[str, int]) -> None:
    """Prints the plan and where to begin."""
    say_plan = print if config.dry_run else say
    plan = _plan(config)
    say_plan(plan.table())
    wage = config.settings.terms.hourly_wage
    if plan.total.hits and plan.total.hourly_pay < wage:
        logging.warning("the reward is $%s per hour, less than --hourly_wage %s", plan.total.hourly_pay, wage)
    for name, numbers in config.drawn.items():
        say_plan(f"{name}: {numbers['drawn']:,} of {counted(numbers['turns'], 'turn')}")
    if config.settings.kind == REWRITES:  # by reason, since many turns have the same one
        by_reason = plan.not_asked_by_reason().items()
        warnings = [f"{counted(len(ids), 'user turn')} ({ids[0][:200]}): {reason}" for reason, ids in by_reason]
    else:
        warnings = [f"{each.element_id[:200]} in {each.task_id}: {each.reason}" for each in plan.not_asked]
    for warning in warnings[:_MAX_WARNINGS]:
        logging.warning("left out: %s", warning)
    if len(warnings) > _MAX_WARNINGS:
        logging.warning("left out: %d more, see plan.json", len(warnings) - _MAX_WARNINGS)
    say_plan("dry run: nothing was written" if config.dry_run else f"begin with {config.output}/index.html")


def _plan(config: Config) -> Plan:
    """Returns the published plan, or makes that of a dry run."""
    from parapet.transforms.crowd.hits.make_hits import plan_units
    from parapet.transforms.crowd.hits.plan import Plan
    from parapet.transforms.storage.files import read_written

    if config.dry_run:
        return plan_units(config.units, config.settings)
    return msgspec.json.decode(read_written(config.output, "plan.json"), type=Plan)
