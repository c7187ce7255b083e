"""``parapet mturk site-csv``."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.command import EXIT_FAILURE, counted, run_checked, say
from parapet.pipelines.flags import INPUT, OUTPUT, StrictParser
from parapet.pipelines.mturk import session

if TYPE_CHECKING:
    from parapet.transforms.mturk.site_csv import Reviewed

DESCRIPTION = """\
For batches of the requester site: fills the Approve and Reject columns of a batch results CSV from the audit of
'parapet compose', for the site's 'Upload CSV'. Everyone is paid unless --reject is given. The file has worker
ids: only its owner can read it."""

EXAMPLE = "  parapet mturk site-csv --audit my_variants --results my_crowd/names.csv --output names.reviewed.csv"


class Config(msgspec.Struct, frozen=True):
    """The results with their columns filled in."""

    output: str
    results: str
    filled: Reviewed


def parser() -> StrictParser:
    """The command line."""
    parser = StrictParser("mturk site-csv", DESCRIPTION, EXAMPLE)
    add = parser.group(INPUT)
    add("--audit", required=True, metavar="DIR", reads=True, help="output of 'parapet compose'")
    text = "batch results CSV of the requester site"
    add("--results", required=True, metavar="FILE", reads=True, help=text)
    parser.group(OUTPUT)("--output", required=True, metavar="FILE", help="file to write")
    session.add_rejections(parser)
    return parser


def check(args: argparse.Namespace) -> Config:
    """Reads everything that is needed. Raises InputError where it cannot be used."""
    from parapet.schemas.errors import InputError
    from parapet.transforms.mturk.decide import check_named, decide, read_audit, read_rejections
    from parapet.transforms.mturk.site_csv import fill_in

    named = read_rejections(args.rejections) if args.rejections else {}
    audit = read_audit(args.audit)
    if named:
        check_named(args.rejections, audit)
    payments = decide(audit, args.reject, named)
    if Path(args.output).exists() and Path(args.output).samefile(args.results):
        raise InputError("the results themselves are not replaced: choose another file", "--output")
    try:
        with open(args.results, "rb") as handle:
            filled = fill_in(handle, args.results, payments)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", args.results) from None
    return Config(args.output, args.results, filled)


def act(config: Config) -> int:
    """Writes."""
    from parapet.transforms.mturk.batch import write_whole

    filled = config.filled
    write_whole(Path(config.output), filled.data, private=True)
    for row, reason in filled.broken:
        logging.error("%s: row %d: left out: %s", config.results, row, reason)
    if filled.unknown:
        row, assignment_id = filled.unknown[0]
        logging.warning(
            "%s not in the audit and left open, the first in row %d (%s): compose again with this file",
            counted(len(filled.unknown), "assignment"),
            row,
            assignment_id[:64],
        )
    say(
        f"{config.output}: {filled.approved:,} to approve, {filled.rejected:,} to reject, "
        f"{filled.settled:,} settled already, {len(filled.unknown):,} open"
    )
    return EXIT_FAILURE if filled.broken else 0


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet mturk site-csv``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, session.STOPPED)
