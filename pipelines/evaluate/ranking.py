"""``parapet evaluate --task ranking``: answers chosen among candidates, as in the bAbI dialog tasks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.command import check_apart
from parapet.pipelines.evaluate import run_task
from parapet.pipelines.flags import INPUT, StrictParser, add_candidates, add_file_sets, add_output
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from parapet.evaluation.ranking import Ranking

DESCRIPTION = """\
Scores a system's answers to bAbI dialog tasks: accuracy by response and by dialogue for each file or set, OOV next to
plain; API calls by field (Bordes et al. 2017, Table 2)."""

EXAMPLE = """\
  parapet evaluate --task ranking --reference dialog-babi-task1-API-calls-tst.txt --predictions answers.jsonl \\
    --candidates dialog-babi-candidates.txt --output my_scores
  parapet evaluate --task ranking --reference babi/*-tst*.txt --predictions my_answers --output my_scores
  parapet evaluate --task ranking --reference babi/*-tst.txt --sets OOV=babi_oov --predictions my_answers \\
    --output my_scores                  # my_answers/original/..., my_answers/OOV/..."""

MOST = 100  # ranked answers

NOTE = """\
A row of the answers: {"dialogue": 0, "turn": 2, "answer": "api_call french london four cheap"}; dialogues of the file
and what the bot says in them are counted from 0. Or the test file itself with the system's answers in it. A folder has
FILE.jsonl or FILE.txt for each FILE.txt, with --sets in a folder for each set. With --top a row has "answers", too: up
to K candidates, the best first."""


def parser() -> StrictParser:
    """The flags."""
    parser = StrictParser("evaluate --task ranking", DESCRIPTION, EXAMPLE, NOTE)
    add_file_sets(parser, "test files in the bAbI format")
    text = "answers to each file, or a folder with FILE.jsonl, or original/FILE.jsonl, ..."
    parser.group(INPUT)("--predictions", required=True, nargs="+", metavar="PATH", reads=True, help=text)
    add_candidates(parser)
    text = "also score what is right within the first 2, 3, ... K of the answers of 'parapet predict MODEL --top K'"
    parser.group(INPUT)("--top", type=int, default=1, metavar="K", help=text)
    add_output(parser)
    return parser


def task(args: argparse.Namespace) -> Ranking:
    """The task that the flags describe."""
    from parapet.evaluation.ranking import Ranking
    from parapet.evaluation.sets import parse_sets

    if not 1 <= args.top <= MOST:
        raise InputError(f"{args.top}: give a number from 1 to {MOST}", "--top")
    for path in args.predictions:  # a folder, of which inputs() lists the files
        check_apart(args.output, predictions=path)
    return Ranking(
        references=tuple(args.reference),
        predictions=tuple(args.predictions),
        candidates=args.candidates,
        sets=parse_sets(args.sets),
        top=args.top,
    )


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the task. Returns the exit status."""
    return run_task(parser(), argv, task)


if __name__ == "__main__":
    sys.exit(run())
