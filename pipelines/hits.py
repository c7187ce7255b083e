"""``parapet hits``: makes HIT pages, requester-site files and a cost plan from schemas or dialogues."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.command import counted, read_good, run_command, say
from parapet.pipelines.flags import INPUT, RUNNING, Parser, add_dry_run, add_schemas, add_seed
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS, TEST
from parapet.transforms.crowd.hits.terms import RATINGS, REWRITES, SCHEMAS, Terms, kind_of

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.crowd.hits.make_hits import Unit
    from parapet.transforms.crowd.hits.page import Plan, Settings
    from parapet.transforms.running.runs import RunInfo

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

# The numbers of each kind in SGSAcc's sample, and of utterances and checks per page.
_SIZES = {"faithful": 200, "unfaithful": 200, "invalid": 25}
_ITEMS, _CHECKS = 10, 1

# The flags that only some tasks use.
_FLAGS_OF = {
    SCHEMAS: ("schemas", "cues", "shortfall"),
    REWRITES: ("dialogues", "split", "turns", "seed"),
    RATINGS: ("dialogues", "scores", "faithful", "unfaithful", "invalid", "items", "checks", "no_naturalness", "seed"),
}

# The flags that are the fields of Terms.
_TERMS = {
    "hourly_wage": "dollars per hour, which sets rewards",
    "reward": "dollars per assignment, instead of --hourly_wage",
    "assignments": "workers per HIT; from ten on the fee is higher",
    "auto_approval_hours": "hours after which unreviewed work is paid",
    "lifetime_days": "days for which a HIT is offered",
}


class Config(msgspec.Struct, frozen=True):
    """The pages to make.

    Attributes:
      output: the folder to write.
      settings: the settings of the pages.
      dry_run: whether only the plan is printed.
      units: services, dialogue files, or the utterances of each judgement page.
      split: the value of ``--split``, for dialogues.
      drawn: by metric verdict, how many utterances are judged and how many there are.
    """

    output: str
    settings: Settings
    dry_run: bool
    units: tuple[Unit, ...]
    split: str | None = None
    drawn: dict[str, dict[str, int]] = {}

    @property
    def task(self) -> str:
        """The value of ``--task``."""
        return kind_of(self.settings.tasks)


def parser() -> Parser:
    """Builds the command line of ``parapet hits``."""
    parser = Parser("hits", DESCRIPTION, EXAMPLE)
    add = parser.group(INPUT)
    add("--task", choices=tuple(_FLAGS_OF), default=SCHEMAS, help="what the pages ask for")
    add_schemas(parser)
    text = "shortfall.csv of 'parapet compose': ask only for what is missing"
    add("--shortfall", rare=True, metavar="FILE", reads=True, help=text)
    add(
        "--cues",
        rare=True,
        metavar="auto|none|FILE",
        help="what names pages say the service is: its description, nothing, or service_name,cue in a CSV file "
        "(default: auto)",
    )
    add = parser.group("--task rewrites, ratings")
    text = "corpus, or its files (default: the bundled sample)"
    add("--dialogues", nargs="+", metavar="ROOT|FILE", reads=True, help=text)
    add("--split", choices=SPLITS, help=f"split of a corpus (default: {TEST})")
    add("--turns", rare=True, type=int, metavar="N", help="of rewrites: user turns to draw (default: all)")
    add("--scores", metavar="DIR", reads=True, help="output of 'evaluate --task generation', for ratings")
    add = parser.group("--task ratings", rare=True)
    strata = {
        "faithful": "number of valid turns found faithful",
        "unfaithful": "of those found unfaithful",
        "invalid": "of turns that fail validation",
    }
    for name, text in strata.items():
        add(f"--{name}", type=int, metavar="N", help=f"{text} (default: {_SIZES[name]})")
    add("--items", type=int, metavar="N", help=f"utterances on a page, at most (default: {_ITEMS})")
    text = f"utterances of other turns on each page, of which nobody attentive says Yes (default: {_CHECKS})"
    add("--checks", type=int, metavar="N", help=text)
    # None marks a flag that was not set.
    text = "do not ask how natural an utterance sounds, as SGSAcc's authors did not"
    add("--no_naturalness", action="store_true", default=None, help=text)
    add = parser.group("pay and cost")
    for name, text in _TERMS.items():
        default = getattr(Terms(), name)
        kind, metavar = (_decimal, "X") if "Decimal" in str(Terms.__annotations__[name]) else (int, "N")
        shown = f" (default: {default})" if default is not None else ""
        if name == "assignments":
            shown = f" (default: {default}; {_ASSIGNMENTS} of dialogues; as missing with --shortfall)"
        # None marks a flag that was not set: some defaults depend on the task.
        add(f"--{name}", rare=name.endswith(("hours", "days")), type=kind, metavar=metavar, help=text + shown)
    parser.group(RUNNING)("--sandbox", action="store_true", help="the forms go to MTurk's sandbox")
    add_dry_run(parser)
    add_seed(parser, "what is drawn of dialogues", int, None)
    return parser


def _decimal(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number such as 1.25") from None
    if not value.is_finite():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number such as 1.25")
    return value


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet hits``. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


def check(args: argparse.Namespace) -> Config:
    """Reads schemas or lists dialogue files. Raises InputError if they cannot be used."""
    for flag in dict.fromkeys(flag for flags in _FLAGS_OF.values() for flag in flags):
        tasks = [task for task, flags in _FLAGS_OF.items() if flag in flags]
        if args.task not in tasks and getattr(args, flag) is not None:
            raise InputError(f"is for --task {' and '.join(tasks)}, but this is --task {args.task}", f"--{flag}")
    check_task = {
        SCHEMAS: _check_schemas,
        REWRITES: _check_rewrites,
        RATINGS: _check_ratings,
    }
    return check_task[args.task](args)


def _check_schemas(args: argparse.Namespace) -> Config:
    from parapet.schemas.layout import sample_root, services_by_name
    from parapet.schemas.service import TASKS, elements_of, task_id
    from parapet.transforms.crowd.hits.page import AUTO, NONE, Settings, read_shortfall, top_up_assignments
    from parapet.transforms.crowd.hits.schema_pages import read_cues, revealing

    services = services_by_name(read_good(args.schemas or sample_root()))
    cues, written = args.cues or AUTO, dict[str, str]()
    if cues not in (AUTO, NONE):
        cues, written = "FILE", read_cues(cues, services)
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
    terms = _terms(args, assignments)
    if cues != NONE:
        for name, revealed in revealing(service for name, service in services.items() if name not in written):
            logging.warning(
                "the description of %s, which its names page shows, contains the name %r: use --cues to write another",
                name,
                revealed,
            )
    settings = Settings(terms, sandbox=args.sandbox, only=only, cues=cues, written=written)
    return Config(args.output, settings, args.dry_run, tuple(services.values()))


def _check_rewrites(args: argparse.Namespace) -> Config:
    from parapet.schemas.layout import sample_root
    from parapet.transforms.crowd.hits.page import Settings
    from parapet.transforms.crowd.hits.rewrite_pages import dialogue_paths

    if args.turns is not None and args.turns < 1:
        raise InputError("must be 1 or more", "--turns")
    paths = dialogue_paths(args.dialogues or [sample_root()], args.split)
    terms = _terms(args, _ASSIGNMENTS)
    settings = Settings(terms, sandbox=args.sandbox, tasks=(REWRITES,), turns=args.turns, seed=args.seed or 0)
    return Config(args.output, settings, args.dry_run, tuple(paths), split=args.split)


def _check_ratings(args: argparse.Namespace) -> Config:
    from parapet.evaluation.ratings.sample import draw_sample, read_scores
    from parapet.schemas.layout import sample_root
    from parapet.transforms.crowd.hits.judged import group_items
    from parapet.transforms.crowd.hits.page import Settings

    if args.scores is None:
        raise InputError(
            "is required: give the output of 'parapet evaluate --task generation', from which utterances are drawn",
            "--scores",
        )
    if args.dialogues and len(args.dialogues) > 1:
        raise InputError("takes one corpus for ratings, the one that --scores is about", "--dialogues")
    numbers = _numbers(args, {**_SIZES, "items": _ITEMS, "checks": _CHECKS})
    root = args.dialogues[0] if args.dialogues else str(sample_root())
    seed = args.seed or 0
    items, drawn = draw_sample(root, read_scores(args.scores), numbers, seed)
    terms, naturalness = _terms(args, _ASSIGNMENTS), not args.no_naturalness
    settings = Settings(terms, sandbox=args.sandbox, tasks=(RATINGS,), seed=seed, naturalness=naturalness)
    groups = tuple(map(tuple, group_items(items, numbers["items"], numbers["checks"], seed)))
    return Config(args.output, settings, args.dry_run, groups, drawn=drawn)


def _numbers(args: argparse.Namespace, defaults: Mapping[str, int]) -> dict[str, int]:
    """Reads the flags that are numbers. Raises InputError if one is too small."""
    numbers = {name: n if getattr(args, name) is None else getattr(args, name) for name, n in defaults.items()}
    for name, n in numbers.items():
        least = 1 if name == "items" else 0
        if n < least:
            raise InputError(f"must be {least} or more", f"--{name}")
    return numbers


def _terms(args: argparse.Namespace, assignments: int) -> Terms:
    flags = {name: value for name in _TERMS if (value := getattr(args, name)) is not None}
    return Terms(**{"assignments": assignments, **flags})


def inputs(config: Config) -> list[tuple[str, str]]:
    """Lists the dialogue files that workers read."""
    from parapet.transforms.crowd.hits.rewrite_pages import DialoguePath

    return [("--dialogues", unit.path) for unit in config.units if isinstance(unit, DialoguePath)]


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Wires the pipeline: renders the pages, writes and publishes them."""
    from parapet.transforms.crowd.hits.make_hits import MakeHits
    from parapet.transforms.storage.files import prepare

    prepare(config.output, "hits")
    pipeline | MakeHits(config.units, config.settings, _info(config))


def _info(config: Config) -> RunInfo:
    from parapet.transforms.running.runs import RunInfo

    settings = config.settings
    options = {**settings.terms.to_json(), "sandbox": settings.sandbox}
    if config.task == RATINGS:
        options |= {
            "task": config.task,
            "drawn": config.drawn,
            "naturalness": settings.naturalness,
            "seed": settings.seed,
        }
    elif config.task == REWRITES:
        options |= {"task": REWRITES, "split": config.split, "turns": settings.turns, "seed": settings.seed}
    else:
        options["cues"] = settings.written if settings.cues == "FILE" else settings.cues
        options["only"] = None if settings.only is None else sorted(settings.only)
    return RunInfo("hits", config.output, options)


def report(config: Config, counters: dict[str, int]) -> None:
    """Prints the plan and where to begin."""
    say_plan = print if config.dry_run else say
    plan = _plan_of_dry_run(config) if config.dry_run else _published_plan(config)
    say_plan(plan.table())
    total = plan.rows["total"]
    wage = config.settings.terms.hourly_wage
    if total.hits and total.hourly_pay < wage:
        logging.warning("the reward is $%s per hour, less than --hourly_wage %s", total.hourly_pay, wage)
    warnings = [f"{each.element_id[:200]} in {each.task_id}: {each.reason}" for each in plan.not_asked]
    for name, numbers in config.drawn.items():
        say_plan(f"{name}: {numbers['drawn']:,} of {counted(numbers['turns'], 'turn')}")
    if config.task == REWRITES:
        # By reason, since all turns of a split have the same reason if its ids also occur in another split.
        by_reason = plan.not_asked_by_reason().items()
        warnings = [f"{counted(len(ids), 'user turn')} ({ids[0][:200]}): {reason}" for reason, ids in by_reason]
    for warning in warnings[:_MAX_WARNINGS]:
        logging.warning("left out: %s", warning)
    if len(warnings) > _MAX_WARNINGS:
        logging.warning("left out: %d more, see plan.json", len(warnings) - _MAX_WARNINGS)
    say_plan("dry run: nothing was written" if config.dry_run else f"begin with {config.output}/index.html")


def _plan_of_dry_run(config: Config) -> Plan:
    from parapet.transforms.crowd.hits.make_hits import plan_of, render_unit, scan_file
    from parapet.transforms.crowd.hits.rewrite_pages import DialoguePath, choose

    settings = config.settings
    scans = (scan_file(unit, settings) for unit in config.units if isinstance(unit, DialoguePath))
    last = choose(scans, settings.turns)
    return plan_of((render_unit(i, unit, settings, last) for i, unit in enumerate(config.units)), settings)


def _published_plan(config: Config) -> Plan:
    """Reads the plan of the published pages from their manifest, so that no page is rendered again."""
    import json

    import msgspec

    from parapet.transforms.crowd.hits.page import NotAsked, PageRecord, make_plan
    from parapet.transforms.storage.files import read_written

    lines = read_written(config.output, "manifest.jsonl").splitlines()
    not_asked = json.loads(read_written(config.output, "plan.json"))["not_asked"]
    records = [msgspec.json.decode(line, type=PageRecord) for line in lines]
    settings = config.settings
    return make_plan(records, msgspec.convert(not_asked, list[NotAsked]), settings.terms, settings.tasks)
