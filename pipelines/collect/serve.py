"""``parapet collect serve``: serves the forms of ``parapet hits`` to people."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

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

SECRET = "PARAPET_COLLECT_SECRET"  # noqa: S105 - the name of a variable
_SHORTEST_SECRET = 20
_MOST_PEOPLE = 100_000
_SERVER = "server"


def parser() -> StrictParser:
    """Builds the command line of ``parapet collect serve``."""
    parser = StrictParser("collect serve", DESCRIPTION, EXAMPLE)
    add = parser.group(INPUT)
    add("--hits", metavar="DIR", reads=True, help="output of 'parapet hits'")
    text = "file of names, one a line, or the number of people to invite (default: as many as the forms need at least)"
    add("--people", metavar="FILE|N", help=text)
    text = "where people come from: by invitation links (in_house), or from a study"
    add("--platform", choices=("in_house", "prolific"), default="in_house", help=text)
    text = "address to which people are sent when they are done; needed for --platform prolific"
    add("--completion_url", metavar="URL", help=text)
    text = "id of the study; needed for --platform prolific"
    add("--study_id", metavar="ID", help=text)
    text = "tasks that one person may do (default: any; 1 with --platform prolific)"
    add("--tasks_per_person", type=int, metavar="N", help=text)
    add = parser.group(OUTPUT)
    text = "SQLite file in which everything is kept; an existing one is continued"
    add("--db", required=True, metavar="FILE", help=text)
    text = (
        "answers for --responses of 'parapet compose', a new file or the export of the same --db (default: the name of "
    )
    text += "--db with .jsonl)"
    add("--export", metavar="FILE", help=text)
    text = "invitation links, CSV (default: the name of --db with .invitations.csv)"
    add("--invitations", rare=True, metavar="FILE", help=text)
    add("--export_only", rare=True, action="store_true", help="write --export from --db, and serve nothing")
    add = parser.group(_SERVER)
    add("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on")
    add("--port", type=int, default=8000, metavar="N", help="port; 0 for a free one")
    text = "address under which people reach the server, behind a proxy (default: http://HOST:PORT)"
    add("--public_url", metavar="URL", help=text)
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

    db = Path(args.db)
    if db.is_dir():
        raise InputError("is a folder: give a file", db, "--db")
    export = Path(args.export or db.with_suffix(".jsonl"))
    invitations = Path(args.invitations or db.with_suffix(".invitations.csv"))
    _check_flags(args)
    _check_paths(db, {"--people": Path(args.people or os.devnull), "--export": export, "--invitations": invitations})
    if args.export_only:
        if not db.is_file():
            raise InputError("there is no such file: give the --db of an earlier run", db, "--db")
        return partial(_export, db, export)
    if args.hits is None:
        raise InputError("is required: give the output folder of 'parapet hits'", "--hits")
    forms = read_forms(args.hits)
    limit = args.tasks_per_person or (1 if args.platform == "prolific" else None)
    # The names and the descriptions of a service must come from different people.
    wanted = {form.task: form.wanted for form in sorted(forms, key=lambda form: form.wanted)}
    needed = sum(wanted.values())
    run = Run(
        forms=forms,
        db=db,
        export=export,
        invitations=invitations,
        people=_people(args.people, needed),
        platform=args.platform,
        host=args.host,
        port=args.port,
        public_url=(args.public_url or "").rstrip("/"),
        completion_url=args.completion_url or "",
        tasks_per_person=limit,
        secret=_secret(),
        study=args.study_id or "",
    )
    return partial(_serve, run, needed)


def _serve(run: Run, needed: int) -> int:
    from parapet.transforms.crowd.serving import server

    invited = run.people if isinstance(run.people, int) else len(run.people)
    if run.platform != "prolific" and invited < needed:
        logging.warning(
            "%d people cannot fill in all forms: the names and the descriptions of a service must come from "
            "different people, so at least %d are needed. Invite more people, or make the forms with fewer "
            "--assignments",
            invited,
            needed,
        )
    n = server.serve(run, say)
    say(f"stopped; {counted(n, 'assignment')} in {run.export}")
    return 0


def _export(db: Path, export: Path) -> int:
    from parapet.transforms.crowd.serving import server

    say(f"{counted(server.export_only(db, export), 'assignment')} in {export}")
    return 0


def _secret() -> str:
    secret = os.environ.get(SECRET, "")
    if secret and len(secret) < _SHORTEST_SECRET:
        raise InputError(f"must have at least {_SHORTEST_SECRET} characters", SECRET)
    return secret


def _check_flags(args: argparse.Namespace) -> None:
    if not 0 <= args.port <= 65_535:
        raise InputError("must be a port number from 0 to 65535", "--port")
    if args.tasks_per_person is not None and args.tasks_per_person < 1:
        raise InputError("must be 1 or more", "--tasks_per_person")
    for flag in ("public_url", "completion_url"):
        url = urlsplit(getattr(args, flag) or "https://example.org")
        if url.scheme not in ("http", "https") or not url.netloc:
            raise InputError("must be an address that begins with https:// or http://", f"--{flag}")
    url = urlsplit(args.public_url or "")
    if url.path.strip("/") or url.query or url.fragment:
        raise InputError(
            "must consist of scheme, host and port only, such as https://crowd.example.org", "--public_url"
        )
    if args.platform == "prolific" and not args.export_only:
        if not args.completion_url:
            reason = "is required: give the address of the study's completion page, to which participants return"
            raise InputError(reason, "--completion_url")
        if args.people:
            raise InputError(
                "cannot be combined with --platform prolific, where Prolific chooses the people: leave it out",
                "--people",
            )
        if not (args.study_id or "").isalnum():
            raise InputError(
                "is required: give the id of the study, the letters and digits in its address", "--study_id"
            )
    if args.host not in THIS_MACHINE and not args.public_url:
        raise InputError(
            f"is required with --host {args.host}: give the address under which people reach the server", "--public_url"
        )


def _people(text: str | None, needed: int) -> tuple[str, ...] | int:
    """Reads names from a file, or parses a number of people. Raises InputError for a file without names."""
    if text is None:
        return needed
    if text.isascii() and text.isdigit():
        if not 1 <= int(text) <= _MOST_PEOPLE:
            raise InputError(f"must be a number of people from 1 to {_MOST_PEOPLE:,}, or a file of names", "--people")
        return int(text)
    from parapet.transforms.crowd.serving.store import same_name

    lines = [" ".join(line.split()) for line in read_text(Path(text)).splitlines()]
    names = {same_name(line): line for line in reversed(lines)}  # of several spellings, the first
    names.pop("", None)
    if not names:
        raise InputError("the file contains no names", text, "--people")
    return tuple(reversed(names.values()))


def _check_paths(db: Path, others: dict[str, Path]) -> None:
    """Raises InputError if a file would be written over another one, or over those that SQLite keeps beside its own."""
    flags = {os.path.realpath(f"{db}{end}"): "--db" for end in ("", "-journal", "-wal", "-shm")}
    for flag, path in others.items():
        if (other := flags.setdefault(os.path.realpath(path), flag)) != flag:
            raise InputError(f"is the file of {other}, too: give another one", path, flag)
