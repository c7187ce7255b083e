"""``parapet evaluate --task generation``: utterances made from dialogue acts, compared with these acts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.evaluate import run_task
from parapet.pipelines.flags import INPUT, SCHEMA_VARIANTS, StrictParser, add_nli_model, add_output, add_seed
from parapet.pipelines.sets import add_sets, sources_of

if TYPE_CHECKING:
    from parapet.evaluation.generation.task import Generation

DESCRIPTION = """\
Scores utterances that a system made from dialogue acts, by schema-guided semantic accuracy (SGSAcc), slot error rate
and BLEU; with variants, also how well true references are distinguished from tampered ones in each schema's words."""

EXAMPLE = """\
  parapet evaluate --task generation --reference my_corpus --split dev --predictions utterances.jsonl --output my_scores
  parapet evaluate --task generation --reference my_corpus --split dev --predictions reference --output upper_bound
  parapet evaluate --task generation --reference my_corpus --variants my_variants --sets entities=unseen_entities \\
      --predictions my_utterances --output my_scores      # my_utterances/original/..., my_utterances/v1/...
  parapet evaluate --task generation --reference my_corpus --split dev --predictions utterances.jsonl --scorer nli \\
      --nli_model roberta-large-mnli --cache judgements.jsonl --output my_scores"""

NOTE = """\
A line of the predictions: {"dialogue_id": "1_00000", "turn": 1, "utterance": "Which city?"}; turns count from 0, those
of the user included; with "candidates": [{"utterance": ..., "score": ...}, ...] the most faithful one is chosen, too.
The lexical scorer is a set of rules instead of a model: use --scorer nli for numbers to compare with others."""


def parser() -> StrictParser:
    """The flags."""
    parser = StrictParser("evaluate --task generation", DESCRIPTION, EXAMPLE, NOTE)
    add = parser.group(INPUT)
    text = "JSON lines, SGD dialogues, a folder with original/, v1/, ..., or 'reference' for the corpus's own turns"
    add("--predictions", required=True, metavar="PATH|reference", reads=True, help=text)
    add_sets(parser, variants=SCHEMA_VARIANTS, sets="other corpora: entities=unseen")
    add_output(parser)
    add = parser.group("scoring")
    text = "what judges entailment: rules, or a model"
    add("--scorer", choices=("lexical", "nli"), default="lexical", help=text)
    add_nli_model(parser, "scoring", "--scorer nli")
    add("--metrics", nargs="+", default=[], metavar="NAME", help="metrics of plug-ins, on pairs of utterances")
    add("--batch", rare=True, type=int, default=32, metavar="N", help="pairs in a batch")
    text = "judgements that are kept for other runs, and for this one if it is interrupted"
    add("--cache", rare=True, metavar="FILE", help=text)
    text = "by which references are built: the paper's, or ours, which are better English"
    add("--rules", choices=("paper", "extended"), default="paper", help=text)
    text = "count all turns, whatever the ground truth says of their references"
    add("--no_validation", rare=True, action="store_true", help=text)
    add_seed(parser, "the tampered values")
    return parser


def task(args: argparse.Namespace) -> Generation:
    """The task that the flags describe."""
    from parapet.evaluation.generation.task import Generation

    return Generation(
        sources=sources_of(args),
        predictions=args.predictions,
        scorer=args.scorer,
        nli_model=args.nli_model,
        batch=args.batch,
        cache=args.cache,
        metrics=tuple(args.metrics),
        rules=args.rules,
        validation=not args.no_validation,
        seed=args.seed,
    )


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the task. Returns the exit status."""
    return run_task(parser(), argv, task)


if __name__ == "__main__":
    sys.exit(run())
