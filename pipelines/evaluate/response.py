"""``parapet evaluate --task response``: Inform, Success, BLEU and Combined of a system's responses."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.evaluate import run_task
from parapet.pipelines.flags import INPUT, StrictParser, add_knowledge_base, add_output
from parapet.pipelines.sets import add_sets, sources_of
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from parapet.evaluation.response.task import ResponseTask

DESCRIPTION = """\
Scores responses by Inform, Success, BLEU and Combined = (Inform + Success) / 2 + BLEU, as for MultiWOZ: against a
corpus in the SGD format, or against goals and a knowledge base. docs/evaluate_response.md says what counts."""

EXAMPLE = """\
  parapet evaluate --task response --reference my_corpus --split test --predictions responses.jsonl --output my_scores
  parapet evaluate --task response --reference my_corpus --predictions reference --output upper_bound
  parapet evaluate --task response --reference my_corpus --sets typos=varied/typos --predictions my_responses \\
    --output my_scores                  # my_responses/original/..., my_responses/typos/...
  parapet evaluate --task response --goals goals.json --knowledge_base db --responses test.jsonl \\
    --predictions responses.jsonl --output my_scores"""

NOTE = """\
A row of the predictions: {"dialogue_id": "1_00000", "turn": 3, "response": "..."}. A delexicalised response has
placeholders such as [restaurant_name]; its row has the "state" too, {"Restaurants_1": {"city": ["San Jose"]}}, and may
have "domains", those that the response is about."""


def parser() -> StrictParser:
    """The flags."""
    parser = StrictParser("evaluate --task response", DESCRIPTION, EXAMPLE, NOTE)
    add = parser.group(INPUT)
    add(
        "--predictions",
        required=True,
        metavar="PATH|reference",
        reads=True,
        help="JSON lines, a folder with original/, typos/, ..., or 'reference' for the corpus's own responses",
    )
    add_sets(parser, variants="schema variants whose responses were predicted; scored as the original's")
    add_knowledge_base(parser)
    add_output(parser)
    add = parser.group("goals, instead of a corpus")
    add("--goals", metavar="FILE", reads=True, help="goals, as MultiWOZ has them")
    text = "with --goals: reference responses, for BLEU"
    add("--responses", metavar="FILE", reads=True, help=text)
    parser.group("scoring")(
        "--tokenizer",
        choices=("13a", "none", "intl", "char"),
        default="13a",
        help="tokenizer of sacrebleu, which changes BLEU",
    )
    return parser


def task(args: argparse.Namespace) -> ResponseTask:
    """The task that the flags describe."""
    from parapet.evaluation.response.task import ResponseTask

    if args.reference is not None and args.goals is not None:
        raise InputError("give only one of them: a corpus, or goals", "--reference, --goals")
    if args.goals is not None and (args.sets or args.variants):
        raise InputError("go with a corpus: give it as --reference", "--sets, --variants")
    if (args.responses is None) != (args.goals is None):
        raise InputError("go together: goals, and the responses of the same dialogues", "--goals, --responses")
    return ResponseTask(
        predictions=args.predictions,
        sources=None if args.goals is not None else sources_of(args),
        goals=args.goals,
        responses=args.responses,
        knowledge_base=args.knowledge_base,
        tokenizer=args.tokenizer,
    )


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the task. Returns the exit status."""
    return run_task(parser(), argv, task)


if __name__ == "__main__":
    sys.exit(run())
