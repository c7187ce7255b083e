"""``parapet hits``: from schemas, or dialogues, to HIT pages, requester-site files and a plan with its cost."""

from __future__ import annotations

import argparse
import functools
import logging
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import Parser, counted, read_good, run_command, run_header
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS, TEST
from parapet.transforms.hits.terms import REWRITE_ESTIMATES, REWRITES, SCHEMA_ESTIMATES, Terms

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.hits.plan import Plan
    from parapet.transforms.hits.records import Settings

DESCRIPTION = """\
Makes the pages on which crowd workers paraphrase a schema: for every service one that shows the descriptions and asks
for names, and one that shows the names and asks for descriptions. A page never contains what it asks for.
With --task rewrites, pages on which they rewrite what users say: for each user turn one that shows the dialogue so far
and asks for the utterance in other words, mistyped, longer and shorter, its slot values kept.

Writes OUT/pages (each page as HTML and as HTMLQuestion XML), OUT/manifest.jsonl (what publishing needs), OUT/plan.json
(what it costs), OUT/requester (a template and its input CSV for the requester site) and OUT/index.html: begin there."""

EXAMPLE = """\
  parapet hits --output my_hits                                    # the bundled sample
  parapet hits --schemas my_corpus --output my_hits --dry_run      # only the cost
  parapet hits --schemas my_corpus --output my_hits --hourly_wage 18 --sandbox
  parapet hits --schemas my_corpus --output top_up --shortfall my_variants/shortfall.csv
  parapet hits --task rewrites --dialogues my_corpus --split test --turns 500 --output my_rewrites"""

_MAX_WARNINGS = 20

# One rewriting of an utterance will do, and by the yield of our sample two workers' should hold one that survives.
_REWRITE_ASSIGNMENTS = 3

# The flags that only one of the tasks has a use for.
_FLAGS_OF = {
    "schemas": ("schemas", "ambiguous", "shortfall", *SCHEMA_ESTIMATES),
    REWRITES: ("dialogues", "split", "turns", "seed", *REWRITE_ESTIMATES),
}

# The flags that are fields of Terms, by their types.
_MONEY = {
    "hourly_wage": "dollars an hour that the reward is to come to",
    "reward": "dollars per assignment, the same for every HIT, in place of --hourly_wage",
    "name_seconds": "estimated seconds for one name",
    "description_seconds": "estimated seconds for one description",
    "reading_seconds": "estimated seconds to read a page that asks for names or descriptions",
    "rewrite_seconds": "estimated seconds for one rewriting of an utterance",
    "turn_seconds": "estimated seconds to read a turn of a dialogue",
    "fee": "MTurk's share of the reward",
    "extra_fee": "its further share for HITs of many assignments",
    "minimum_fee": "dollars per assignment that MTurk takes at least",
}
_WHOLE = {
    "assignments": "workers per HIT; below ten the fee is lower",
    "extra_fee_from": "assignments from which --extra_fee is due",
    "assignment_minutes": "minutes a worker has (default: four times the estimate, at least 60)",
    "auto_approval_hours": "hours after which work that nobody has reviewed is paid",
    "lifetime_days": "days for which a HIT is on offer",
}


def parser() -> Parser:
    """The command line of ``parapet hits``."""
    made = Parser("hits", DESCRIPTION, EXAMPLE)
    made.add_argument(
        "--task",
        choices=tuple(_FLAGS_OF),
        default="schemas",
        help="what is paraphrased: names and descriptions of schemas (default), or user utterances",
    )
    schemas = made.add_argument_group("--task schemas")
    schemas.add_argument("--schemas", metavar="ROOT", help="corpus or schema file (default: the bundled sample)")
    schemas.add_argument(
        "--ambiguous",
        metavar="auto|none|FILE",
        help="names that are shown with their description: found automatically (default), none, or listed in a file, "
        "one element id a line",
    )
    schemas.add_argument(
        "--shortfall",
        metavar="FILE",
        help="a top-up: ask only for what this shortfall.csv of 'parapet compose' lists",
    )
    rewrites = made.add_argument_group("--task rewrites")
    rewrites.add_argument(
        "--dialogues",
        nargs="+",
        metavar="ROOT|FILE",
        help="corpus, folder of a split, or dialogue files (default: the bundled sample)",
    )
    rewrites.add_argument("--split", choices=SPLITS, help=f"of a corpus: whose dialogues (default {TEST})")
    rewrites.add_argument("--turns", type=int, metavar="N", help="so many user turns, drawn at random (default: all)")
    rewrites.add_argument("--seed", type=int, help="of the random draw (default 0)")
    made.add_argument("--sandbox", action="store_true", help="the forms go to MTurk's sandbox")
    made.add_argument("--dry_run", action="store_true", help="print the plan, write nothing")
    money = made.add_argument_group("pay and cost")
    for names, kind, metavar in ((_MONEY, _decimal, "X"), (_WHOLE, int, "N")):
        for name, text in names.items():
            default = getattr(Terms(), name)
            shown = f" (default {default})" if default is not None else ""
            if name == "assignments":
                shown = (
                    f" (default {default}, {_REWRITE_ASSIGNMENTS} for rewrites; with --shortfall by what is missing)"
                )
            # None tells a flag that was not given from a default that somebody asked for.
            money.add_argument(f"--{name}", type=kind, metavar=metavar, help=text + shown)
    return made


def _decimal(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number such as 1.25") from None
    if not value.is_finite():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number such as 1.25")
    return value


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads inputs and settings into ``args``. Raises InputError where they cannot be used."""
    for task, flags in _FLAGS_OF.items():
        for flag in flags:
            if task != args.task and getattr(args, flag) is not None:
                raise InputError(f"belongs to --task {task}, and this is --task {args.task}", f"--{flag}")
    if args.task == REWRITES:
        _check_rewrites(args)
    else:
        _check_schemas(args)
    return args


def _check_schemas(args: argparse.Namespace) -> None:
    from parapet.schemas.elements import elements_of
    from parapet.schemas.layout import sample_root, services_by_name
    from parapet.transforms.hits.plan import read_shortfall, top_up_assignments
    from parapet.transforms.hits.questions import AUTO, NONE, read_ambiguous
    from parapet.transforms.hits.records import Settings

    services = services_by_name(read_good(args.schemas or sample_root()))
    only, assignments = None, Terms().assignments
    if args.shortfall:
        only, most = read_shortfall(args.shortfall, services)
        asked = {task.rpartition(":")[0] for task, _ in only}
        services = {name: service for name, service in services.items() if name in asked}
        assignments = top_up_assignments(most)
    args.services = list(services.values())
    terms = _terms(args, assignments)
    ambiguous = args.ambiguous or AUTO
    listed: frozenset[str] = frozenset()
    if ambiguous not in (AUTO, NONE):
        ids = (element.id for service in args.services for element in elements_of(service, "descriptions"))
        listed, ambiguous = read_ambiguous(ambiguous, ids), "FILE"
    args.settings = Settings(terms, ambiguous, listed, args.sandbox, only)


def _check_rewrites(args: argparse.Namespace) -> None:
    from parapet.schemas.layout import sample_root
    from parapet.transforms.hits.make_hits import dialogue_paths
    from parapet.transforms.hits.records import Settings

    if args.turns is not None and args.turns < 1:
        raise InputError("a number of user turns, 1 or more", "--turns")
    args.paths = dialogue_paths(args.dialogues or [sample_root()], args.split)
    terms = _terms(args, _REWRITE_ASSIGNMENTS)
    args.settings = Settings(terms, sandbox=args.sandbox, tasks=(REWRITES,), turns=args.turns, seed=args.seed or 0)


def _terms(args: argparse.Namespace, assignments: int) -> Terms:
    given = {name: value for name in (*_MONEY, *_WHOLE) if (value := getattr(args, name)) is not None}
    return Terms(**{"assignments": assignments, **given})


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Wires the pipeline: read, render, write, publish."""
    import apache_beam as beam

    from parapet.transforms.files import Publish, WriteFiles, prepare
    from parapet.transforms.hits.make_hits import MakeHits, MakeRewriteHits

    prepare(args.output, "hits")
    if args.task == REWRITES:
        given = pipeline | "Dialogue files" >> beam.Create(args.paths)
        made = given | "Make HITs" >> MakeRewriteHits(args.settings)
    else:
        given = pipeline | "Services" >> beam.Create(list(enumerate(args.services)))
        made = given | "Make HITs" >> MakeHits(args.settings)
    pages = made["pages"] | "Write pages" >> WriteFiles(args.output)
    summary = made["summary"] | "Write summary" >> WriteFiles(args.output)
    _ = (
        (pages, summary)
        | "All files" >> beam.Flatten()
        | "Finish" >> Publish(args.output, _header(args), made["counts"], _balance(args))
    )


def _header(args: argparse.Namespace) -> dict[str, Any]:
    settings: Settings = args.settings
    options = {**settings.terms.options(settings.tasks), "sandbox": settings.sandbox}
    if args.task == REWRITES:
        options |= {"task": REWRITES, "split": args.split, "turns": settings.turns, "seed": settings.seed}
    else:
        options["ambiguous"] = sorted(settings.listed) if settings.ambiguous == "FILE" else settings.ambiguous
        options["only"] = None if settings.only is None else sorted(settings.only)
    return run_header("hits", options)


def _balance(args: argparse.Namespace) -> Callable[[dict[str, int]], dict[str, int]]:
    from parapet.schemas.elements import TASKS, elements_of

    if args.task == REWRITES:
        return functools.partial(check_rewrite_balance, len(args.paths))
    elements = sum(len(elements_of(service, task)) for service in args.services for task in TASKS)
    if args.settings.only is not None:
        elements = len(args.settings.only)
    return functools.partial(check_invariants, len(args.services), elements)


def check_invariants(services: int, elements: int, counts: dict[str, int]) -> dict[str, int]:
    """Gives the counts back. Raises RuntimeError unless every element of every service is asked or known not to be."""
    done = counts.get("fields", 0) + counts.get("not_asked", 0)
    if counts.get("services", 0) != services or done != elements:
        raise RuntimeError(
            f"{services:,} services with {elements:,} elements went in, {counts} came out; nothing is published"
        )
    return counts


def check_rewrite_balance(files: int, counts: dict[str, int]) -> dict[str, int]:
    """Gives the counts back. Raises RuntimeError unless every user turn has a page, or is known to have none."""
    done = sum(counts.get(name, 0) for name in ("pages", "not_asked", "not_drawn"))
    if counts.get("files", 0) != files or done != counts.get("user_turns", 0):
        raise RuntimeError(f"{files:,} dialogue files went in, {counts} came out; nothing is published")
    return counts


def report(args: argparse.Namespace, counters: dict[str, int]) -> None:
    """Prints the plan, and where to begin."""
    if args.quiet and not args.dry_run:
        return
    plan = _plan_of_dry_run(args) if args.dry_run else _plan_written(args)
    print(plan.table())
    total = plan.rows["total"]
    wage = args.settings.terms.hourly_wage
    if total.hits and total.hourly_pay < wage:
        logging.warning("the reward comes to $%s an hour, below --hourly_wage %s", total.hourly_pay, wage)
    warnings = [f"{each.element_id[:200]} in {each.task_id}: {each.reason}" for each in plan.not_asked]
    if args.task == REWRITES:
        # By the reason: of a split whose ids another one has, all turns have the same.
        by_reason = plan.not_asked_by_reason().items()
        warnings = [f"{counted(len(ids), 'user turn')} ({ids[0][:200]}): {reason}" for reason, ids in by_reason]
    for warning in warnings[:_MAX_WARNINGS]:
        logging.warning("not asked: %s", warning)
    if len(warnings) > _MAX_WARNINGS:
        logging.warning("not asked: %d more, in plan.json", len(warnings) - _MAX_WARNINGS)
    print("dry run: nothing was written" if args.dry_run else f"begin with {args.output}/index.html")


def _plan_of_dry_run(args: argparse.Namespace) -> Plan:
    from parapet.transforms.hits.make_hits import plan_of, render_file, scan_file
    from parapet.transforms.hits.render_service import render_service
    from parapet.transforms.hits.rewriting import choose

    settings: Settings = args.settings
    if args.task == REWRITES:
        choice = choose([scan_file(path, settings) for path in args.paths], settings.turns)
        return plan_of((render_file(path, settings, choice) for path in args.paths), settings)
    return plan_of((render_service(i, service, settings) for i, service in enumerate(args.services)), settings)


def _plan_written(args: argparse.Namespace) -> Plan:
    """The plan of what the run has made, from its manifest: no page is rendered again for it."""
    import json

    import msgspec

    from parapet.transforms.files import read_written
    from parapet.transforms.hits.plan import make_plan
    from parapet.transforms.hits.questions import NotAsked
    from parapet.transforms.hits.records import PageRecord

    lines = read_written(args.output, "manifest.jsonl").splitlines()
    not_asked = json.loads(read_written(args.output, "plan.json"))["not_asked"]
    records = [msgspec.json.decode(line, type=PageRecord) for line in lines]
    return make_plan(records, msgspec.convert(not_asked, list[NotAsked]), args.settings.terms, args.settings.tasks)


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet hits``. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


def inputs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read: the dialogues."""
    return [("--dialogues", path.path) for path in args.paths] if args.task == REWRITES else []


if __name__ == "__main__":
    sys.exit(run())
