"""``parapet hits``: from schemas to HIT pages, requester-site files and a plan with its cost."""

from __future__ import annotations

import argparse
import functools
import logging
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from pipelines.command import Parser, read_good, run_command
from transforms.hits.terms import Terms

if TYPE_CHECKING:
    import apache_beam as beam

    from transforms.hits.plan import Plan
    from transforms.hits.records import Settings

DESCRIPTION = """\
Makes the pages on which crowd workers paraphrase a schema: for every service one that shows the descriptions and asks
for names, and one that shows the names and asks for descriptions. A page never contains what it asks for.

Writes OUT/pages (each page as HTML and as HTMLQuestion XML), OUT/manifest.jsonl (what publishing needs), OUT/plan.json
(what it costs), OUT/requester (a template and its input CSV for the requester site) and OUT/index.html: begin there."""

EXAMPLE = """\
  parapet hits --output my_hits                                    # the bundled sample
  parapet hits --schemas my_corpus --output my_hits --dry_run      # only the cost
  parapet hits --schemas my_corpus --output my_hits --hourly_wage 18 --sandbox
  parapet hits --schemas my_corpus --output top_up --shortfall my_variants/shortfall.csv"""

_MAX_WARNINGS = 20

# The flags that are fields of Terms, by their types.
_MONEY = {
    "hourly_wage": "dollars an hour that the reward is to come to",
    "reward": "dollars per assignment, the same for every HIT, in place of --hourly_wage",
    "name_seconds": "estimated seconds for one name",
    "description_seconds": "estimated seconds for one description",
    "reading_seconds": "estimated seconds to read a page",
    "fee": "MTurk's share of the reward",
    "extra_fee": "its further share for HITs of many assignments",
    "minimum_fee": "dollars per assignment that MTurk takes at least",
}
_WHOLE = {
    "assignments": "workers per HIT; five answers must survive the vetting, and below ten the fee is lower",
    "extra_fee_from": "assignments from which --extra_fee is due",
    "assignment_minutes": "minutes a worker has (default: four times the estimate, at least 60)",
    "auto_approval_hours": "hours after which work that nobody has reviewed is paid",
    "lifetime_days": "days for which a HIT is on offer",
}


def parser() -> Parser:
    """The command line of ``parapet hits``."""
    made = Parser("hits", DESCRIPTION, EXAMPLE)
    made.add_argument("--schemas", metavar="ROOT", help="corpus or schema file (default: the bundled sample)")
    made.add_argument(
        "--ambiguous",
        default="auto",
        metavar="auto|none|FILE",
        help="names that are shown with their description: found automatically (default), none, or listed in a file, "
        "one element id a line",
    )
    made.add_argument(
        "--shortfall",
        metavar="FILE",
        help="a top-up: ask only for what this shortfall.csv of 'parapet compose' lists",
    )
    made.add_argument("--sandbox", action="store_true", help="the forms go to MTurk's sandbox")
    made.add_argument("--dry_run", action="store_true", help="print the plan, write nothing")
    money = made.add_argument_group("pay and cost")
    for names, kind, metavar in ((_MONEY, _decimal, "X"), (_WHOLE, int, "N")):
        for name, text in names.items():
            default = getattr(Terms(), name)
            if name == "assignments":
                text += f" (default {default}; fewer with --shortfall, by what is missing)"
                default = None  # told apart from a 9 that somebody asked for
            shown = f" (default {default})" if default is not None else ""
            money.add_argument(f"--{name}", type=kind, default=default, metavar=metavar, help=text + shown)
    return made


def _decimal(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number such as 1.25") from None
    if not value.is_finite():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number such as 1.25")
    return value


def check(args: argparse.Namespace) -> None:
    """Reads the schemas and settings into ``args``. Raises InputError where they cannot be used."""
    from schemas.elements import elements_of
    from schemas.layout import sample_root, services_by_name
    from transforms.hits.ambiguity import AUTO, NONE, read_ambiguous
    from transforms.hits.records import Settings
    from transforms.hits.shortfall import read_shortfall, top_up_assignments

    services = services_by_name(read_good(args.schemas or sample_root()))
    only = None
    if args.shortfall:
        only, most = read_shortfall(args.shortfall, services)
        asked = {task.rpartition(":")[0] for task, _ in only}
        services = {name: service for name, service in services.items() if name in asked}
        if args.assignments is None:
            args.assignments = top_up_assignments(most)
    if args.assignments is None:
        args.assignments = Terms().assignments
    args.services = list(services.values())
    terms = Terms(**{name: getattr(args, name) for name in (*_MONEY, *_WHOLE)})
    listed: frozenset[str] = frozenset()
    if args.ambiguous not in (AUTO, NONE):
        ids = (element.id for service in args.services for element in elements_of(service, "descriptions"))
        listed = read_ambiguous(args.ambiguous, ids)
    args.settings = Settings(
        terms, args.ambiguous if args.ambiguous in (AUTO, NONE) else "FILE", listed, args.sandbox, only
    )


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Wires the pipeline; a dry run has nothing to wire."""
    if args.dry_run:
        return
    import apache_beam as beam

    from transforms.files import Publish, WriteFiles, prepare
    from transforms.hits.make_hits import MakeHits

    prepare(args.output, "hits")
    made = pipeline | "Services" >> beam.Create(list(enumerate(args.services))) | "Make HITs" >> MakeHits(args.settings)
    _ = (
        made["files"]
        | "Write" >> WriteFiles(args.output)
        | "Finish" >> Publish(args.output, _header(args.settings), made["counts"], _balance(args))
    )


def _header(settings: Settings) -> dict[str, Any]:
    from importlib.metadata import version

    options = {
        **settings.terms.options(),
        "ambiguous": sorted(settings.listed) if settings.ambiguous == "FILE" else settings.ambiguous,
        "sandbox": settings.sandbox,
        "only": None if settings.only is None else sorted(settings.only),
    }
    return {"pipeline": "hits", "version": version("parapet"), "options": options}


def _balance(args: argparse.Namespace) -> Callable[[dict[str, int]], dict[str, int]]:
    from schemas.elements import TASKS, elements_of

    elements = sum(len(elements_of(service, task)) for service in args.services for task in TASKS)
    if args.settings.only is not None:
        elements = len(args.settings.only)
    return functools.partial(check_balance, len(args.services), elements)


def check_balance(services: int, elements: int, counts: dict[str, int]) -> dict[str, int]:
    """Gives the counts back. Raises RuntimeError unless every element of every service is asked or known not to be."""
    done = counts.get("fields", 0) + counts.get("not_asked", 0)
    if counts.get("services", 0) != services or done != elements:
        raise RuntimeError(
            f"{services:,} services with {elements:,} elements went in, {counts} came out; nothing is published"
        )
    return counts


def report(args: argparse.Namespace, counters: dict[str, int]) -> None:
    """Prints the plan, and where to begin."""
    if args.quiet and not args.dry_run:
        return
    plan = _plan_of_dry_run(args) if args.dry_run else _plan_written(args)
    print(plan.table())
    total = plan.rows["total"]
    if total.hits and total.hourly_pay < args.hourly_wage:
        logging.warning("the reward comes to $%s an hour, below --hourly_wage %s", total.hourly_pay, args.hourly_wage)
    for each in plan.not_asked[:_MAX_WARNINGS]:
        logging.warning("not asked: %s in %s: %s", each.element_id[:200], each.task_id, each.reason)
    if len(plan.not_asked) > _MAX_WARNINGS:
        logging.warning("not asked: %d more, in plan.json", len(plan.not_asked) - _MAX_WARNINGS)
    print("dry run: nothing was written" if args.dry_run else f"begin with {args.output}/index.html")


def _plan_of_dry_run(args: argparse.Namespace) -> Plan:
    from transforms.hits.render_service import render_service
    from transforms.hits.summary_files import plan_of

    rendered = (render_service(i, service, args.settings) for i, service in enumerate(args.services))
    return plan_of(rendered, args.settings)


def _plan_written(args: argparse.Namespace) -> Plan:
    """The plan of what the run has made, from its manifest: no page is rendered again for it."""
    import json

    import msgspec

    from transforms.files import read_written
    from transforms.hits.plan import make_plan
    from transforms.hits.questions import NotAsked
    from transforms.hits.records import PageRecord

    lines = read_written(args.output, "manifest.jsonl").splitlines()
    not_asked = json.loads(read_written(args.output, "plan.json"))["not_asked"]
    records = [msgspec.json.decode(line, type=PageRecord) for line in lines]
    return make_plan(records, msgspec.convert(not_asked, list[NotAsked]), args.settings.terms)


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet hits``. Returns the exit status."""
    return run_command(parser(), argv, build, check, report)


if __name__ == "__main__":
    sys.exit(run())
