"""``parapet evaluate --task ranking``: answers chosen among candidates, as in the bAbI dialog tasks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.command import check_apart
from parapet.pipelines.evaluate import run_task
from parapet.pipelines.flags import StrictParser

if TYPE_CHECKING:
    from parapet.evaluation.ranking import Ranking

DESCRIPTION = """\
Answers of a system to bAbI dialog tasks -> accuracy per response and per dialogue, by file or set, OOV beside plain;
API calls by field (Bordes et al. 2017, Table 2)."""

EXAMPLE = """\
  parapet evaluate --task ranking --reference dialog-babi-task1-API-calls-tst.txt --predictions answers.jsonl \\
    --candidates dialog-babi-candidates.txt --output my_scores
  parapet evaluate --task ranking --reference babi/*-tst*.txt --predictions my_answers --output my_scores
  parapet evaluate --task ranking --reference babi/*-tst.txt --sets OOV=babi_oov --predictions my_answers \\
    --output my_scores                  # my_answers/original/..., my_answers/OOV/..."""

NOTE = """\
A row of the answers: {"dialogue": 0, "turn": 2, "answer": "api_call french london four cheap"}; dialogues of the file
and what the bot says in them are counted from 0. Or the test file itself with the system's answers in it. A folder has
FILE.jsonl or FILE.txt for each FILE.txt, with --sets in a folder for each set."""


def parser() -> StrictParser:
    """The flags."""
    parser = StrictParser("evaluate --task ranking", DESCRIPTION, EXAMPLE, NOTE)
    add = parser.add_argument
    text = "test files in the bAbI format: with --sets the set original"
    add("--reference", nargs="+", default=[], metavar="FILE", help=text)
    text = "sets of test files, or folders of them: OOV=babi/task1-tst-OOV.txt"
    add("--sets", nargs="+", default=[], metavar="NAME=PATH", help=text)
    add(
        "--predictions",
        required=True,
        nargs="+",
        metavar="PATH",
        help="the answers to each file; or a folder with them: FILE.jsonl, with --sets original/FILE.jsonl, ...",
    )
    add("--candidates", metavar="FILE", help="all possible answers, '1 text' a line: any other is an error")
    add("--output", required=True, metavar="OUT", help="folder to write, local or gs://")
    return parser


def task(args: argparse.Namespace) -> Ranking:
    """The task that the flags describe."""
    from parapet.evaluation.ranking import Ranking
    from parapet.evaluation.sets import parse_sets

    for path in args.predictions:  # a folder, of which inputs() lists the files
        check_apart(args.output, predictions=path)
    return Ranking(
        references=tuple(args.reference),
        predictions=tuple(args.predictions),
        candidates=args.candidates,
        sets=parse_sets(args.sets),
    )


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the task. Returns the exit status."""
    return run_task(parser(), argv, task)


if __name__ == "__main__":
    sys.exit(run())
