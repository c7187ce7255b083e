"""``parapet predict soloist``: belief states and responses, turn by turn."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipelines.command import Parser, check_apart, counted, run_command
from schemas.errors import InputError
from schemas.layout import sample_root

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
    add("--model", required=True, metavar="DIR", help="what 'parapet train soloist' wrote")
    add("--reference", metavar="ROOT", help="corpus, or a release (default: the bundled sample)")
    add("--split", default="test", metavar="NAME", help="whose dialogues (default test)")
    add("--variants", metavar="DIR", help="dialogues under each variant's names, as 'rewrite' writes them")
    add("--variant", default="", metavar="LIST", help="which of them, parted by commas (default all)")
    add("--sets", nargs="+", default=[], metavar="NAME=ROOT", help="other sets: typos=varied/typos SR-10=heard/SR-10")
    told = "entities besides those that the searches of the split returned: JSON, or a folder of SERVICE_db.json"
    add("--knowledge_base", metavar="PATH", help=told)
    told = "draw the tokens of responses among the most likely that together have this probability (default: no draws)"
    add("--top_p", type=float, default=0.0, metavar="P", help=told)
    add("--seed", default="0", metavar="TEXT", help="of the draws (default 0)")
    add("--batch_size", type=int, default=16, metavar="N", help="turns at a time (default 16)")
    add("--threads", type=int, default=1, metavar="N", help="of the CPU, in each worker (default 1)")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to compute (default: a GPU if any)")
    made.set_defaults(name="soloist")
    return made


def check(args: argparse.Namespace) -> None:
    """Looks at the model and the sets. Raises InputError for what cannot work."""
    from evaluation.dst.sets import ORIGINAL, RELEASE, Given, make_plan, parse_sets
    from evaluation.models.packages import check_installed
    from evaluation.models.soloist.saving import check as check_model
    from schemas.layout import as_path, is_there
    from transforms.corpora import listed

    for flag in ("batch_size", "threads"):
        if not 1 <= getattr(args, flag) <= 2**31:
            raise InputError(f"{getattr(args, flag)}: give 1 or more", f"--{flag}")
    if not 0 <= args.top_p <= 1:
        raise InputError(f"{args.top_p}: give a probability, from 0 to 1", "--top_p")
    args.reference = str(args.reference or sample_root())
    others = parse_sets(args.sets)
    for path in (args.model, args.reference, args.variants, args.knowledge_base, *others.values()):
        check_apart(args.output, model=path)
    check_installed("torch", "safetensors", "transformers")
    from evaluation.models.devices import check_device
    from evaluation.models.soloist.data import read_source

    check_device(args.device)
    check_model(args.model)
    args.plan = make_plan(Given(args.reference, args.split, args.variants, tuple(listed(args.variant)), others))
    released = is_there(as_path(args.reference) / RELEASE)
    args.corpus = str(as_path(args.reference) / "sgd" / ORIGINAL) if released else args.reference
    read_source(args.corpus, args.split, args.knowledge_base)
    for remark in args.plan.remarks:
        logging.warning("%s", remark)
    args.inputs = tuple(
        (member.set, member.reference, f"predictions/{member.set}/{args.split}/{job.name}")
        for job in args.plan.jobs
        for member in job.members
    )


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Files of all sets -> chunks of dialogues -> states and responses -> files."""
    from functools import partial

    from evaluation.models.inference import check_balance
    from evaluation.models.soloist.decoding import Sampling
    from evaluation.models.soloist.inference import Job, Predict
    from transforms import files

    files.prepare(args.output, "predict_soloist")
    job = Job(
        output=args.output,
        folder=args.model,
        device=args.device,
        threads=args.threads,
        batch=args.batch_size,
        sampling=Sampling(args.top_p, args.seed),
        reference=args.corpus,
        split=args.split,
        knowledge_base=args.knowledge_base,
        sets=args.plan.sets,
        inputs=args.inputs,
    )
    written, counts = pipeline | "Predict" >> Predict(job)
    balance = partial(check_balance, asked="asked", told="answered")
    _ = written | "Publish" >> files.Publish(args.output, header(args), counts, balance)


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    from importlib.metadata import version

    from evaluation.writing import sha256_of
    from schemas.layout import as_path
    from transforms.files import MANIFEST

    card = as_path(args.model) / MANIFEST  # it lists the hashes of all that the model has
    read = [(name, as_path(path)) for name, path, _ in args.inputs]
    sampling = {"top_p": args.top_p, "seed": args.seed} if args.top_p else {}
    return {
        "pipeline": "predict_soloist",
        "version": version("parapet"),
        "options": {"split": args.split, "sets": list(args.plan.sets), **sampling},
        "model": {card.name: sha256_of(card)} if card.is_file() else {},
        "inputs": [{"set": name, "name": path.name, "sha256": sha256_of(path)} for name, path in read],
    }


def report(args: argparse.Namespace, _: dict[str, int]) -> None:
    """Says what was written, and what the model was not made for."""
    from transforms.files import MANIFEST, read_written

    counts = json.loads(read_written(args.output, MANIFEST))["counts"]
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


def run(argv: Sequence[str]) -> int:
    """Runs ``parapet predict soloist ...``; ``argv`` begins with the model. Returns the exit status."""
    return run_command(parser(argv[0]), argv[1:], build, check, report, files_read)
