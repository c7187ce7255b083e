"""``parapet evaluate --task generation``: utterances made from dialogue acts, against what they are to say."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from parapet.pipelines.command import StrictParser, add_split, check_apart, counted, run_checked
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root

DESCRIPTION = """\
Utterances that a system made from dialogue acts -> schema-guided semantic accuracy (SGSAcc), slot error rate, BLEU;
with variants, how well true references are told from tampered ones under each schema's words."""

EXAMPLE = """\
  parapet evaluate --task generation --reference my_corpus --split dev --predictions said.jsonl --output my_scores
  parapet evaluate --task generation --reference my_corpus --split dev --predictions reference --output upper_bound
  parapet evaluate --task generation --reference my_corpus --split dev --predictions said.jsonl --scorer nli \\
      --nli_model roberta-large-mnli --cache judgements.jsonl --output my_scores"""

NOTE = """\
A line of the predictions: {"dialogue_id": "1_00000", "turn": 1, "utterance": "Which city?"}; turns count from 0, the
user's with them; with "candidates": [{"utterance": ..., "score": ...}, ...] the most faithful one is chosen as well.
The lexical scorer is a set of rules and stands in for a model: give --scorer nli for numbers to be compared."""


def parser() -> StrictParser:
    """The command line."""
    made = StrictParser("evaluate --task generation", DESCRIPTION, EXAMPLE, NOTE)
    add = made.add_argument
    add("--reference", metavar="ROOT", help="corpus with the acts of system turns (default: the bundled sample)")
    add_split(made)
    add(
        "--predictions",
        required=True,
        metavar="PATH|reference",
        help="JSON lines, a folder with SGD dialogues, or 'reference': the corpus's own turns",
    )
    add("--variants", metavar="DIR", help="folder of schema variants: DIR/v1/train/schema.json")
    add("--scorer", choices=("lexical", "nli"), default="lexical", help="who judges entailment (default lexical)")
    add("--nli_model", metavar="DIR", help="of --scorer nli: a folder with a classifier of text pairs, as RoBERTa")
    add("--batch", type=int, default=32, metavar="N", help="pairs that the model gets at a time (default 32)")
    add("--cache", metavar="FILE", help="keeps judgements for another run; a run that was stopped goes on")
    add(
        "--metrics",
        nargs="+",
        default=[],
        metavar="NAME",
        help="further ones, of plug-ins: each scores what is said in a turn against the corpus's own words",
    )
    add("--no_validation", action="store_true", help="acts count as they are: no test with tampered values")
    add("--seed", default="0", help="of the tampered values: any text (default 0)")
    add("--output", required=True, metavar="OUT", help="folder to write, local or gs://")
    return made


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads. Raises InputError for what cannot be scored."""
    from parapet.evaluation.generation import corpus, outputs
    from parapet.evaluation.generation import metrics as further
    from parapet.evaluation.generation.predictions import REFERENCE, read_predictions

    args.root = str(args.reference or sample_root())
    args.own = args.predictions == REFERENCE
    given = None if args.own else args.predictions
    check_apart(args.output, reference=args.reference, predictions=given, variants=args.variants)
    args.further = further.read_metrics(args.metrics, outputs.TAKEN)
    args.judge = _scorer(args)
    args.corpus = corpus.read(args.root, args.split, args.variants)
    args.predicted = read_predictions(args.predictions, args.split, args.corpus.turns)
    return args


def _scorer(args: argparse.Namespace) -> Any:
    from parapet.evaluation.generation.lexical import Lexical
    from parapet.evaluation.generation.nli import Nli
    from parapet.evaluation.generation.scorers import Cached

    if (args.scorer == "nli") != (args.nli_model is not None):
        reason = "a folder with a model is needed" if args.scorer == "nli" else "is of --scorer nli: add it"
        raise InputError(reason, "--nli_model")
    judge = Lexical() if args.scorer == "lexical" else Nli(args.nli_model, args.batch)
    return Cached(judge, args.cache or "")


def act(args: argparse.Namespace) -> None:
    """Scores, writes and tells."""
    from parapet.evaluation.generation import metrics as further
    from parapet.evaluation.generation.outputs import files_of, numbers_of
    from parapet.evaluation.generation.scoring import evaluate
    from parapet.evaluation.running import header
    from parapet.evaluation.writing import publish
    from parapet.pipelines.progress import Progress
    from parapet.transforms.plugins import recorded

    judge, validation = args.judge, not args.no_validation
    with Progress("evaluate generation", enabled=not args.quiet and sys.stderr.isatty()) as shown:
        stage = shown.stage if shown.enabled else lambda _: None
        scores = evaluate(args.corpus, args.predicted, judge, args.seed, validation, stage)
        measured = further.measured(args.further, args.corpus, scores)
    metrics, details = numbers_of(args.corpus, scores, judge, validation, measured)
    options = {
        "split": args.split,
        "variants": list(args.corpus.words)[1:],
        "scorer": judge.name,
        "model": judge.model,
        "validation": validation,
        "seed": args.seed,
        "own_turns": args.own,
    }
    counts = {"turns": details["turns"], "acts": details["coverage"]["acts"]}
    about = header("generation", {"predictions": None if args.own else args.predictions}, options, counts)
    used = recorded(*(chosen for chosen, _ in args.further.values()))
    publish(args.output, files_of(args.corpus, scores, metrics, details, measured), {**about, **used})
    if not args.quiet:
        _say(metrics, details, list(args.further))


def _say(metrics: dict[str, Any], details: dict[str, Any], further: Sequence[str]) -> None:
    from parapet.evaluation.pages import percent, plain

    covered = details["coverage"]
    turns, acts = counted(details["turns"], "system turn"), counted(covered["acts"], "act")
    print(f"scorer: {details['scorer']['name']} ({details['scorer']['model']})")
    print(f"{turns}, {acts}: {percent(covered['share_valid'])}% count")
    for name, of in metrics.items():
        more = ""
        if "bleu" in of:
            more = f", slot error rate {percent(of['slot_error_rate'])}%, BLEU {plain(of['bleu'])}"
            more += "".join(f", {one} {percent(of[one])}%" for one in further)
        print(f"{name}: SGSAcc {percent(of['sgsacc'])}%{more}")
    for name, of in details["tampered_references"].items():
        print(f"{name}: F1 on tampered references {percent(of['f1'])}%")


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the task. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "nothing was published, run the same command again")


if __name__ == "__main__":
    sys.exit(run())
