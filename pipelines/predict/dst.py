"""``parapet predict`` for dialogue states: a tracker on a corpus, its variants and other sets."""

from __future__ import annotations

import argparse
import logging
from typing import TYPE_CHECKING

from parapet.pipelines.command import Parser, counted
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

if TYPE_CHECKING:
    import apache_beam as beam


def parser(model: str) -> Parser:
    """The command line of a model."""
    what = (
        "A model and dialogues -> the same dialogues with predicted states, in the SGD format:\n"
        "OUT/predictions/original/SPLIT/..., OUT/predictions/v1/SPLIT/..., as 'parapet evaluate --task dst' takes them."
    )
    example = (
        f"  parapet predict {model} --model my_model --reference my_corpus --variants my_dialogues --output my_states\n"
        "  parapet evaluate --task dst --reference my_corpus --variants my_dialogues \\\n"
        "      --predictions my_states/predictions --output my_scores"
    )
    made = Parser(f"predict {model}", what, example)
    add_model(made, model)
    add_sets(made)
    add_computing(made, 64, "what the model computes")
    return made


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Looks at the model and the sets. Raises InputError for what cannot work."""
    from parapet.evaluation.models.dst.loading import check as check_model

    check_numbers(args)
    check_torch(args)
    check_model(args.model, args.name)
    plan_sets(args)
    return args


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Files of all sets -> chunks of dialogues -> states -> files."""
    from functools import partial

    from parapet.evaluation.models.dst.inference import Job, Predict
    from parapet.evaluation.models.inference import check_invariants
    from parapet.transforms import files

    files.prepare(args.output, f"predict_{args.name}")
    job = Job(**job_of(args), model=args.name, sets=args.plan.sets, inputs=args.inputs)
    written, counts = pipeline | "Predict" >> Predict(job)
    _ = written | "Publish" >> files.Publish(
        args.output, header_of_sets(args), counts, partial(check_invariants, asked="asked", told="predicted")
    )


def report(args: argparse.Namespace, _: dict[str, int]) -> None:
    """Says what was written, and what was too long for the model."""
    counts = counts_of(args)
    for name in args.plan.sets:
        if long := counts.get(f"too_long/{name}"):
            told = "%s: %s longer than the model's --max_length: the oldest of the dialogue was left out"
            logging.warning(told, name, counted(long, "input"))
        if not args.quiet:
            print(f"{args.output}/predictions/{name}: {counted(counts.get(f'predicted/{name}', 0), 'frame')}")


def files_read(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read."""
    return [("--model", args.model), *(("--reference", path) for _, path, _ in args.inputs)]
