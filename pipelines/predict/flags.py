"""The flags that models share when they predict, and the look at what they name."""

from __future__ import annotations

import argparse
import logging
from typing import Any

from parapet.pipelines.command import Parser, add_split, check_apart
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root, split_of_folder


def add_model(made: Parser, model: str) -> None:
    """Adds ``--model``; the name of the model is ``args.name``."""
    made.add_argument("--model", required=True, metavar="DIR", help=f"what 'parapet train {model}' wrote")
    made.set_defaults(name=model)


def add_sets(made: Parser) -> None:
    """Adds the flags that name a corpus and its sets, as :func:`plan_sets` reads them."""
    add = made.add_argument
    add("--reference", metavar="ROOT", help="corpus, or a release (default: the bundled sample)")
    add_split(made)
    add("--variants", metavar="DIR", help="dialogues under each variant's names, as 'rewrite' writes them")
    add("--variant", default="", metavar="LIST", help="which of them, parted by commas (default all)")
    add("--sets", nargs="+", default=[], metavar="NAME=ROOT", help="other sets: typos=varied/typos SR-10=heard/SR-10")


def add_computing(made: Parser, batch: int, unit: str) -> None:
    """Adds the flags of how it is computed: so many of a unit in a batch by default."""
    add = made.add_argument
    add("--batch_size", type=int, default=batch, metavar="N", help=f"{unit} at a time (default {batch})")
    add("--threads", type=int, default=1, metavar="N", help="of the CPU, in each worker (default 1)")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to compute (default: a GPU if any)")


def check_numbers(args: argparse.Namespace, **least: int) -> None:
    """Raises InputError for numbers that cannot be; ``least`` are those of flags besides the shared ones."""
    for flag, lowest in {"batch_size": 1, "threads": 1, **least}.items():
        given = getattr(args, flag)
        if given is not None and not lowest <= given <= 2**31:
            raise InputError(f"{given}: give {lowest} or more", f"--{flag}")


def check_torch(args: argparse.Namespace, *packages: str) -> None:
    """Raises InputError where torch, one of the packages or the GPU that is asked for is not there."""
    from parapet.evaluation.models.packages import check_installed

    check_installed("torch", "safetensors", *packages)
    from parapet.evaluation.models.devices import check_device

    check_device(args.device)


def job_of(args: argparse.Namespace) -> dict[str, Any]:
    """What all jobs have (:class:`parapet.evaluation.models.inference.Job`), by its name there."""
    return {
        "output": args.output,
        "folder": args.model,
        "device": args.device,
        "threads": args.threads,
        "batch": args.batch_size,
    }


def plan_sets(args: argparse.Namespace) -> None:
    """Finds the sets that are named, for models that write dialogues with states.

    Sets ``args.plan``, and ``args.inputs``: (set, path of a file of dialogues, path of its predictions below the output
    folder).

    Raises:
      InputError: something is missing, or the output is one of them.
    """
    from parapet.evaluation.dst.sets import Given, make_plan, parse_sets
    from parapet.transforms.corpora import listed

    args.reference = str(args.reference or sample_root())
    others = parse_sets(args.sets)
    check_apart(args.output, model=args.model, reference=args.reference, variants=args.variants)
    for root in others.values():
        check_apart(args.output, sets=root)
    args.split = split_of_folder(args.reference) or args.split
    args.plan = make_plan(Given(args.reference, args.split, args.variants, tuple(listed(args.variant)), others))
    for remark in args.plan.remarks:
        logging.warning("%s", remark)
    args.inputs = tuple(
        (member.set, member.reference, f"predictions/{member.set}/{args.split}/{job.name}")
        for job in args.plan.jobs
        for member in job.members
    )
