"""``parapet collect serve``: the forms of ``parapet hits``, served to people."""

from __future__ import annotations

import argparse
import logging
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from parapet.pipelines.command import run_checked, say
from parapet.pipelines.flags import INPUT, OUTPUT, StrictParser
from parapet.schemas.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from parapet.transforms.crowd.serving.forms import Form

DESCRIPTION = """\
Serves the forms of 'parapet hits' to people, until Ctrl-C. Each person opens an invitation link, gets one task at a
time, and never names and describes the same service. Every answer is on the disk before the person is told so.

Put a reverse proxy with TLS in front of it, and give the address that people use as --public_url."""

EXAMPLE = """\
  parapet collect serve --hits my_hits --db answers.sqlite --people 18
  parapet collect serve --hits my_hits --db answers.sqlite --people names.txt --public_url https://crowd.example.org
  parapet collect serve --hits my_hits --db answers.sqlite --platform prolific --public_url https://crowd.example.org \\
      --completion_url 'https://app.prolific.com/submissions/complete?cc=C0DE'
  parapet collect serve --db answers.sqlite --export_only"""

SECRET = "PARAPET_COLLECT_SECRET"  # noqa: S105 - the name of a variable
_SHORTEST_SECRET = 12
_LOCAL = ("127.0.0.1", "::1", "localhost")
_SERVER = "server"


class Config(msgspec.Struct, frozen=True):
    """What is to be served, and how.

    Attributes:
      people: names to invite, or how many people without names.
      public_url: without a slash at its end; empty for the address that is listened on.
      completion_url: where people are sent at the end, if anywhere.
    """

    forms: tuple[Form, ...]
    db: Path
    export: Path
    invitations: Path
    host: str
    port: int
    platform: str
    people: tuple[str, ...] | int
    public_url: str
    completion_url: str
    tasks_per_person: int | None
    export_only: bool


def parser() -> StrictParser:
    """The command line of ``parapet collect serve``."""
    parser = StrictParser("collect serve", DESCRIPTION, EXAMPLE)
    add = parser.group(INPUT)
    add("--hits", metavar="DIR", reads=True, help="output of 'parapet hits'")
    text = "file of names, one a line, or the number of people to invite (default: as many as the forms need)"
    add("--people", metavar="FILE|N", help=text)
    text = "where people come from: by invitation links (in_house), or from a study (default: in_house)"
    add("--platform", choices=("in_house", "prolific"), default="in_house", help=text)
    text = "address to which people are sent when they are done; needed for --platform prolific"
    add("--completion_url", metavar="URL", help=text)
    text = "tasks that one person may do (default: any; 1 with --platform prolific)"
    add("--tasks_per_person", type=int, metavar="N", help=text)
    add = parser.group(OUTPUT)
    text = "SQLite file in which everything is kept; an existing one is continued"
    add("--db", required=True, metavar="FILE", help=text)
    text = "answers for --responses of 'parapet compose' (default: the name of --db with .jsonl)"
    add("--export", metavar="FILE", help=text)
    text = "invitation links, CSV (default: the name of --db with .invitations.csv)"
    add("--invitations", rare=True, metavar="FILE", help=text)
    add("--export_only", rare=True, action="store_true", help="write --export from --db, and serve nothing")
    add = parser.group(_SERVER)
    add("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1)")
    add("--port", type=int, default=8000, metavar="N", help="port; 0 for a free one (default: 8000)")
    text = "address under which people reach the server, behind a proxy (default: http://HOST:PORT)"
    add("--public_url", metavar="URL", help=text)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet collect serve``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "every acknowledged answer is in --db")
