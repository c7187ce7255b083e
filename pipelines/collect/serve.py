"""``parapet collect serve``: serves the forms of ``parapet hits`` to people."""

from __future__ import annotations

import argparse
import logging
import os
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from parapet.pipelines.command import counted, run_checked, say
from parapet.pipelines.flags import INPUT, OUTPUT, StrictParser
from parapet.schemas.errors import InputError, MissingExtra
from parapet.schemas.limits import read_text
from parapet.transforms.running.fence import THIS_MACHINE

if TYPE_CHECKING:
    from parapet.transforms.crowd.serving.site import Run

DESCRIPTION = """\
Serves the forms of 'parapet hits' to people, until Ctrl-C. Each person opens an invitation link, gets one task at a
time, and never names and describes the same service. Every answer is saved before the server confirms it.

In public it needs a reverse proxy with TLS in front of it: give the address that people use as --public_url."""

EXAMPLE = """\
  parapet collect serve --hits my_hits --db answers.sqlite --people 18
  parapet collect serve --hits my_hits --db answers.sqlite --people names.txt --public_url https://crowd.example.org
  parapet collect serve --hits my_hits --db answers.sqlite --platform prolific --public_url https://crowd.example.org \\
      --study_id 6a5f0c2d9b1e4f7a8c3d2e1f --completion_url 'https://app.prolific.com/submissions/complete?cc=C0DE'
  parapet collect serve --db answers.sqlite --export_only"""

PROLIFIC = "prolific"
_MOST_PEOPLE = 100_000
_URL = re.compile(r"https?://[^/?#\s]+", re.IGNORECASE)
_ORIGIN = re.compile(rf"{_URL.pattern}/?", re.IGNORECASE)
_ADDRESS = "give the address under which people reach the server, without a path, such as https://crowd.example.org"


def parser() -> StrictParser:
    """Builds the command line of ``parapet collect serve``."""
    parser = StrictParser("collect serve", DESCRIPTION, EXAMPLE)
    add = parser.group(INPUT)
    add("--hits", metavar="DIR", reads=True, help="output of 'parapet hits'")
    text = "file of names, one a line, or the number of people to invite (default: as many as the forms need at least)"
    add("--people", metavar="FILE|N", help=text)
    text = "where people come from: by invitation links (in_house), or from a study"
    add("--platform", choices=("in_house", PROLIFIC), default="in_house", help=text)
    text = "address to which people are sent when they are done; needed for --platform prolific"
    add("--completion_url", default="", metavar="URL", help=text)
    text = "id of the study; needed for --platform prolific"
    add("--study_id", default="", metavar="ID", help=text)
    text = "tasks that one person may do (default: any; 1 with --platform prolific)"
    add("--tasks_per_person", type=int, metavar="N", help=text)
    add = parser.group(OUTPUT)
    text = "SQLite file in which everything is kept; an existing one is continued"
    add("--db", required=True, metavar="FILE", help=text)
    text = "answers for 'compose', a new file or the export of the same --db (default: the name of --db with .jsonl)"
    add("--export", metavar="FILE", help=text)
    text = "invitation links, CSV (default: the name of --db with .invitations.csv)"
    add("--invitations", rare=True, metavar="FILE", help=text)
    add("--export_only", rare=True, action="store_true", help="write --export from --db, and serve nothing")
    add = parser.group("server")
    add("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on")
    add("--port", type=int, default=8000, metavar="N", help="port; 0 for a free one")
    text = "address under which people reach the server, behind a proxy (default: http://HOST:PORT)"
    add("--public_url", default="", metavar="URL", help=text)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet collect serve``. Returns the exit status."""
    return run_checked(parser(), argv, check, lambda act: act(), "every acknowledged answer is in --db")


def check(args: argparse.Namespace) -> Callable[[], int]:
    """Reads the forms and returns a function that serves them. Raises InputError if a flag cannot be used."""
    try:
        from parapet.transforms.crowd.serving.site import Run
    except ImportError as error:
        raise MissingExtra(str(error.name), "collect") from None
    from parapet.transforms.crowd.serving.forms import read_forms

    _check_flags(args)
    db = Path(args.db)
    export = Path(args.export or db.with_suffix(".jsonl"))
    invitations = Path(args.invitations or db.with_suffix(".invitations.csv"))
    files = {"--db": db, "--people": args.people or os.devnull, "--export": export, "--invitations": invitations}
    for (other, other_path), (flag, path) in combinations(files.items(), 2):
        if os.path.realpath(path) == os.path.realpath(other_path):
            raise InputError(f"is the file of {other}, too: give another one", path, flag)
    if args.export_only:
        return partial(_export, db, export)
    forms = read_forms(args.hits)
    wanted = {form.task: form.assignments for form in sorted(forms, key=lambda form: form.assignments)}
    needed = sum(wanted.values())  # the names and the descriptions of a service must come from different people
    run = Run(
        forms=forms,
        db=db,
        export=export,
        invitations=invitations,
        people=_people(args.people, needed),
        platform=args.platform,
        host=args.host,
        port=args.port,
        public_url=args.public_url.rstrip("/"),
        completion_url=args.completion_url,
        tasks_per_person=args.tasks_per_person or (1 if args.platform == PROLIFIC else None),
        study=args.study_id,
    )
    return partial(_serve, run, needed)


def _serve(run: Run, needed: int) -> int:
    from parapet.transforms.crowd.serving import server

    invited = run.people if isinstance(run.people, int) else len(run.people)
    if run.platform != PROLIFIC and invited < needed:
        text = (
            "%d people cannot fill in all forms: at least %d are needed, as different people must name and describe a "
            "service. Invite more people, or make the forms with fewer --assignments"
        )
        logging.warning(text, invited, needed)
    n = server.serve(run, say)
    say(f"stopped; {counted(n, 'assignment')} in {run.export}")
    return 0


def _export(db: Path, export: Path) -> int:
    from parapet.transforms.crowd.serving import server
    from parapet.transforms.crowd.serving.store import Store

    with closing(Store(db)) as store:
        n = server.export(store, export)
    say(f"{counted(n, 'assignment')} in {export}")
    return 0


def _check_flags(args: argparse.Namespace) -> None:
    is_public = args.host not in THIS_MACHINE
    checks = [
        (not os.path.isdir(args.db), "--db", f"{args.db} is a folder: give a file"),
        (not args.export_only or os.path.exists(args.db), "--db", f"there is no such file: {args.db}"),
        (args.hits or args.export_only, "--hits", "is required: give the output folder of 'parapet hits'"),
        (0 <= args.port <= 65_535, "--port", "must be a port number from 0 to 65535"),
        (args.tasks_per_person is None or args.tasks_per_person > 0, "--tasks_per_person", "must be 1 or more"),
        (args.public_url or not is_public, "--public_url", f"is required with --host {args.host}: {_ADDRESS}"),
        (not args.public_url or _ORIGIN.fullmatch(args.public_url), "--public_url", f"is not valid: {_ADDRESS}"),
        (_URL.match(args.completion_url or "http://x"), "--completion_url", "must begin with https:// or http://"),
    ]
    if args.platform == PROLIFIC and not args.export_only:
        reason = "is required with --platform prolific: give"
        checks += [
            (args.completion_url, "--completion_url", f"{reason} the address of the study's completion page"),
            (not args.people, "--people", "is not for --platform prolific, where Prolific chooses the people"),
            (args.study_id.isalnum(), "--study_id", f"{reason} the letters and digits in the address of the study"),
        ]
    for is_valid, flag, reason in checks:
        if not is_valid:
            raise InputError(reason, flag)


def _people(text: str | None, needed: int) -> list[str] | int:
    """Reads names from a file, or parses a number of people. Raises InputError for a file without names."""
    from parapet.transforms.crowd.serving.store import same_name

    if text is None:
        return needed
    if text.isascii() and text.isdigit():
        if not 1 <= int(text) <= _MOST_PEOPLE:
            raise InputError(f"must be a number of people from 1 to {_MOST_PEOPLE:,}, or a file of names", "--people")
        return int(text)
    lines = [" ".join(line.split()) for line in read_text(Path(text)).splitlines()]
    names = {same_name(line): line for line in reversed(lines) if same_name(line)}  # of several spellings, the first
    if not names:
        raise InputError("the file contains no names", text, "--people")
    return list(reversed(names.values()))
