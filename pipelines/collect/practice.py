"""``parapet collect practice``: simulated annotators for a collection server on this machine."""

from __future__ import annotations

import argparse
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from parapet.pipelines.command import EXIT_FAILURE, counted, run_checked, say
from parapet.pipelines.flags import INPUT, RUNNING, StrictParser, add_seed
from parapet.schemas.errors import MissingExtra

if TYPE_CHECKING:
    from parapet.transforms.crowd.serving.forms import Form

DESCRIPTION = """\
Made-up annotators who visit a running 'parapet collect serve' on this machine, to try a collection out from form to
result. They give the answers of --answers again, task by task, and for the rest words that mean nothing and choices by
chance. Start the server with --practice and a --db of its own: the answers are marked, and 'parapet compose' uses them
only with --allow_practice."""

EXAMPLE = """\
  parapet collect serve --hits my_hits --db practice.sqlite --practice   # in another terminal
  parapet collect practice --hits my_hits --invitations practice.invitations.csv
  parapet collect practice --hits my_hits --invitations practice.invitations.csv --answers names.csv descriptions.csv"""


def parser() -> StrictParser:
    """Builds the command line of ``parapet collect practice``."""
    parser = StrictParser("collect practice", DESCRIPTION, EXAMPLE)
    add = parser.group(INPUT)
    add("--hits", required=True, metavar="DIR", reads=True, help="output of 'parapet hits', as the server has it")
    text = "invitation links, as the server has written them"
    add("--invitations", required=True, metavar="FILE", reads=True, help=text)
    text = "answers to be given again: files that --responses of 'parapet compose' takes"
    add("--answers", nargs="+", metavar="FILE", reads=True, help=text)
    add_seed(parser, "words and choices", str, "0")
    parser.group(RUNNING)("--encoding", rare=True, default="utf-8", metavar="NAME", help="of --answers, without a mark")
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet collect practice``. Returns the exit status."""
    return run_checked(parser(), argv, check, lambda act: act(), "the forms that were submitted are saved")


def check(args: argparse.Namespace) -> Callable[[], int]:
    """Reads forms, links and answers, and returns a function that sends them.

    Raises InputError if one cannot be used.
    """
    try:
        from parapet.transforms.crowd.serving.forms import read_forms
    except ImportError as error:
        raise MissingExtra(str(error.name), "collect") from None
    from parapet.transforms.crowd.serving.practice import read_invitations

    forms, links = read_forms(args.hits), read_invitations(args.invitations)
    return partial(_practise, forms, links, _recorded(args.answers or (), args.encoding), args.seed)


def _recorded(paths: Sequence[str], encoding: str) -> Mapping[str, Iterator[Mapping[str, str]]]:
    """Reads recorded answers by task. Each iterator yields one person's answers to the task at a time."""
    from parapet.schemas.rows import Assignment
    from parapet.transforms.crowd.ingest import read_responses

    answers_here: dict[str, list[Mapping[str, str]]] = defaultdict(list)
    for read in chain.from_iterable(read_responses(path, b"practice", encoding) for path in paths):
        if isinstance(read, Assignment):
            answers_here[f"{read.service_name}:{read.task}"].append(read.answers)
        else:
            logging.warning("an answer was not replayed: %s: %s", read.source, read.reason)
    return {task_id: iter(answers) for task_id, answers in answers_here.items()}


def _practise(
    forms: Sequence[Form], links: Sequence[str], recorded: Mapping[str, Iterator[Mapping[str, str]]], seed: str
) -> int:
    from parapet.transforms.crowd.serving.practice import visit

    done = 0
    for n, link in enumerate(links, 1):
        done += len(list(visit(link, forms, recorded, f"{seed} {n}")))
    say(f"{counted(done, 'form')} filled in by {counted(len(links), 'made-up annotator')}")
    return 0 if done else EXIT_FAILURE
