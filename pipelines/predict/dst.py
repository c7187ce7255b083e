"""``parapet predict`` for dialogue states: a tracker on a corpus, its variants and other sets."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipelines.command import Parser, check_apart, counted, run_command
from schemas.errors import InputError
from schemas.layout import sample_root

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
    add = made.add_argument
    add("--model", required=True, metavar="DIR", help=f"what 'parapet train {model}' wrote")
    add("--reference", metavar="ROOT", help="corpus, or a release (default: the bundled sample)")
    add("--split", default="test", metavar="NAME", help="whose dialogues (default test)")
    add("--variants", metavar="DIR", help="dialogues under each variant's names, as 'rewrite' writes them")
    add("--variant", default="", metavar="LIST", help="which of them, parted by commas (default all)")
    add("--sets", nargs="+", default=[], metavar="NAME=ROOT", help="other sets: typos=varied/typos SR-10=heard/SR-10")
    add("--batch_size", type=int, default=64, metavar="N", help="what the model computes at a time (default 64)")
    add("--threads", type=int, default=1, metavar="N", help="of the CPU, in each worker (default 1)")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to compute (default: a GPU if any)")
    made.set_defaults(name=model)
    return made


def check(args: argparse.Namespace) -> None:
    """Looks at the model and the sets. Raises InputError for what cannot work."""
    from evaluation.dst.sets import Given, make_plan, parse_sets
    from evaluation.models.devices import check_device
    from evaluation.models.dst.loading import check as check_model
    from evaluation.models.packages import check_installed
    from transforms.corpora import listed

    for flag in ("batch_size", "threads"):
        if not 1 <= getattr(args, flag) <= 2**31:
            raise InputError(f"{getattr(args, flag)}: give 1 or more", f"--{flag}")
    others = parse_sets(args.sets)
    check_apart(args.output, model=args.model, reference=args.reference, variants=args.variants, **others)
    check_installed("torch", "safetensors")
    check_device(args.device)
    check_model(args.model, args.name)
    root = str(args.reference or sample_root())
    args.plan = make_plan(Given(root, args.split, args.variants, tuple(listed(args.variant)), others))
    args.inputs = tuple(
        (member.set, member.reference, f"predictions/{member.set}/{args.split}/{job.name}")
        for job in args.plan.jobs
        for member in job.members
    )


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Files of all sets -> chunks of dialogues -> states -> files."""
    from functools import partial

    from evaluation.models.dst.inference import Job, Predict
    from evaluation.models.inference import check_balance
    from transforms import files

    files.prepare(args.output, f"predict_{args.name}")
    sets = args.plan.sets
    job = Job(args.output, args.name, args.model, args.device, args.threads, args.batch_size, sets, args.inputs)
    written, counts = pipeline | "Predict" >> Predict(job)
    _ = written | "Publish" >> files.Publish(
        args.output, header(args), counts, partial(check_balance, asked="asked", told="predicted")
    )


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    from importlib.metadata import version

    from evaluation.writing import sha256_of
    from schemas.layout import as_path
    from transforms.files import MANIFEST

    card = as_path(args.model) / MANIFEST  # it lists the hashes of all that the model has
    read = [(name, as_path(path)) for name, path, _ in args.inputs]
    return {
        "pipeline": f"predict_{args.name}",
        "version": version("parapet"),
        "options": {"split": args.split, "sets": list(args.plan.sets)},
        "model": {card.name: sha256_of(card)} if card.is_file() else {},
        "inputs": [{"set": name, "name": path.name, "sha256": sha256_of(path)} for name, path in read],
    }


def report(args: argparse.Namespace, _: dict[str, int]) -> None:
    """Says what was written."""
    from transforms.files import MANIFEST, read_written

    counts = json.loads(read_written(args.output, MANIFEST))["counts"]
    if not args.quiet:
        for name in args.plan.sets:
            print(f"{args.output}/predictions/{name}: {counted(counts.get(f'predicted/{name}', 0), 'frame')}")


def files_read(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read."""
    return [("--model", args.model), *(("--reference", path) for _, path, _ in args.inputs)]


def run(argv: Sequence[str]) -> int:
    """Runs ``parapet predict MODEL ...``; ``argv`` begins with the model. Returns the exit status."""
    return run_command(parser(argv[0]), argv[1:], build, check, report, files_read)
