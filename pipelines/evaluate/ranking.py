"""``parapet evaluate --task ranking``: answers chosen among candidates, as in the bAbI dialog tasks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from parapet.pipelines.command import StrictParser, check_apart, counted, run_checked

DESCRIPTION = """\
Answers of a system to bAbI dialog tasks -> accuracy per response and per dialogue, by file, OOV beside plain; API calls
by field (Bordes et al. 2017, Table 2)."""

EXAMPLE = """\
  parapet evaluate --task ranking --reference dialog-babi-task1-API-calls-tst.txt --predictions answers.jsonl \\
    --candidates dialog-babi-candidates.txt --output my_scores
  parapet evaluate --task ranking --reference babi/*-tst*.txt --predictions my_answers --output my_scores"""

NOTE = """\
A row of the answers: {"dialogue": 0, "turn": 2, "answer": "api_call french london four cheap"}; dialogues of the file
and what the bot says in them are counted from 0. Or the test file itself with the system's answers in it. A folder has
FILE.jsonl or FILE.txt for each FILE.txt."""


def parser() -> StrictParser:
    """The command line."""
    made = StrictParser("evaluate --task ranking", DESCRIPTION, EXAMPLE, NOTE)
    add = made.add_argument
    add("--reference", required=True, nargs="+", metavar="FILE", help="test files in the bAbI format")
    add("--predictions", required=True, nargs="+", metavar="PATH", help="answers to each, or a folder of them")
    add("--candidates", metavar="FILE", help="what may be answered, '1 text' a line: any other answer is an error")
    add("--output", required=True, metavar="OUT", help="folder to write, local or gs://")
    return made


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads. Raises InputError for files that cannot be scored."""
    from parapet.evaluation.ranking.reading import pair_up, read_candidates, read_test

    check_apart(args.output, candidates=args.candidates)
    for path in (*args.reference, *args.predictions):
        check_apart(args.output, predictions=path)
    args.allowed = read_candidates(args.candidates) if args.candidates else None
    args.pairs = pair_up(args.reference, args.predictions)
    args.files = [read_test(reference, answers, args.allowed) for reference, answers in args.pairs]
    return args


def act(args: argparse.Namespace) -> None:
    """Scores, writes and tells."""
    import logging

    from parapet.evaluation.pages import percent
    from parapet.evaluation.ranking.outputs import details_of, files_of
    from parapet.evaluation.ranking.scoring import evaluate
    from parapet.evaluation.running import header
    from parapet.evaluation.writing import publish

    metrics, rows = evaluate(args.files)
    details = details_of(args.files, args.allowed)
    paths: dict[str, str | None] = {"candidates": args.candidates}
    for i, (reference, answers) in enumerate(args.pairs):
        paths |= {f"reference/{i}": reference, f"predictions/{i}": answers}
    publish(args.output, files_of(rows, metrics, details), header("ranking", paths, {}, {"responses": len(rows)}))
    for name, of in details["files"].items():
        if of.get("not_among_candidates"):
            lost = counted(of["not_among_candidates"], "response")
            logging.warning("%s: %s cannot be answered: not among the candidates", name, lost)
    if not args.quiet:
        for name, found in metrics.items():
            said = ", ".join(f"{what.replace('_', ' ')} {percent(found[what], 1)}%" for what in list(found)[:2])
            print(f"{name}: {said}")


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the task. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "nothing was published, run the same command again")


if __name__ == "__main__":
    sys.exit(run())
