"""``parapet predict soloist``: belief states and responses, turn by turn."""

from __future__ import annotations

import argparse
import logging
from typing import TYPE_CHECKING

from parapet.pipelines.command import Parser, check_apart, counted
from parapet.pipelines.predict.flags import (
    add_computing,
    add_model,
    add_sets,
    check_numbers,
    check_torch,
    job_of,
    plan_sets,
)
from parapet.pipelines.predict.manifest import counts_of, header_of_sets
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    import apache_beam as beam

DESCRIPTION = """\
A model and dialogues -> after each user turn, given what was really said before, the belief state and the response:
OUT/predictions/original/SPLIT/..., for 'parapet evaluate --task dst', and OUT/responses/original.jsonl, delexicalised,
for 'parapet evaluate --task response'."""

EXAMPLE = """\
  parapet predict soloist --model my_model --reference my_corpus --sets typos=my_variations/typos --output said
  parapet evaluate --task dst --reference my_corpus --sets typos=my_variations/typos --predictions said/predictions \\
    --output my_states
  parapet evaluate --task response --reference my_corpus --predictions said/responses/original.jsonl \\
    --output my_responses"""


def parser(model: str = "soloist") -> Parser:
    """The command line."""
    made = Parser(f"predict {model}", DESCRIPTION, EXAMPLE)
    add = made.add_argument
    add_model(made, model)
    add_sets(made)
    told = "entities besides those that the searches of the split returned: JSON, or a folder of SERVICE_db.json"
    add("--knowledge_base", metavar="PATH", help=told)
    told = "draw the tokens of responses among the most likely that together have this probability (default: no draws)"
    add("--top_p", type=float, default=0.0, metavar="P", help=told)
    add("--seed", default="0", metavar="TEXT", help="of the draws (default 0)")
    add_computing(made, 16, "turns")
    return made


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Looks at the model and the sets. Raises InputError for what cannot work."""
    from parapet.evaluation.dst.sets import ORIGINAL, RELEASE
    from parapet.evaluation.models.soloist.data import read_source
    from parapet.evaluation.models.soloist.saving import check as check_model
    from parapet.schemas.layout import as_path, is_there

    check_numbers(args)
    if not 0 <= args.top_p <= 1:
        raise InputError(f"{args.top_p}: give a probability, from 0 to 1", "--top_p")
    check_apart(args.output, knowledge_base=args.knowledge_base)
    check_torch(args, "transformers")
    check_model(args.model)
    plan_sets(args)
    released = is_there(as_path(args.reference) / RELEASE)
    args.corpus = str(as_path(args.reference) / "sgd" / ORIGINAL) if released else args.reference
    read_source(args.corpus, args.split, args.knowledge_base)
    return args


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Files of all sets -> chunks of dialogues -> states and responses -> files."""
    from functools import partial

    from parapet.evaluation.models.inference import check_invariants
    from parapet.evaluation.models.soloist.decoding import Sampling
    from parapet.evaluation.models.soloist.inference import Job, Predict
    from parapet.transforms import files

    files.prepare(args.output, "predict_soloist")
    job = Job(
        **job_of(args),
        sampling=Sampling(args.top_p, args.seed),
        reference=args.corpus,
        split=args.split,
        knowledge_base=args.knowledge_base,
        sets=args.plan.sets,
        inputs=args.inputs,
    )
    written, counts = pipeline | "Predict" >> Predict(job)
    balance = partial(check_invariants, asked="asked", told="answered")
    sampling = {"top_p": args.top_p, "seed": args.seed} if args.top_p else {}
    _ = written | "Publish" >> files.Publish(args.output, header_of_sets(args, **sampling), counts, balance)


def report(args: argparse.Namespace, _: dict[str, int]) -> None:
    """Says what was written, and what the model was not made for."""
    counts = counts_of(args)
    for name in args.plan.sets:
        if long := counts.get(f"too_long/{name}"):
            told = "%s: %s with more history than the model reads: the oldest was left out"
            logging.warning(told, name, counted(long, "turn"))
        if lost := counts.get(f"unknown_slots/{name}"):
            told = "%s: the model named %s that the schema does not have: left out"
            logging.warning(told, name, counted(lost, "slot"))
        if not args.quiet:
            print(f"{args.output}/predictions/{name}: {counted(counts.get(f'frames/{name}', 0), 'frame')}")


def files_read(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read."""
    return [
        ("--model", args.model),
        ("--reference", args.reference),
        *(("--sets", path) for _, path, _ in args.inputs),
    ]
