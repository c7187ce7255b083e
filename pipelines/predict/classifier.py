"""``parapet predict classifier``: intents of user turns, or how much they seem out of domain."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipelines.command import Parser, check_apart, counted, run_command
from schemas.errors import InputError

if TYPE_CHECKING:
    import apache_beam as beam

DESCRIPTION = """\
A model of 'parapet train classifier' and user turns -> OUT/predictions/intent.jsonl or ood.jsonl, as 'parapet evaluate
--task intent' and '--task ood' take them."""

EXAMPLE = """\
  parapet predict classifier --model my_model --reference my_corpus --sets typos=my_variations/typos-env1 \\
    --output my_intents
  parapet predict classifier --model my_model --task ood --reference my_foreign_turns --output my_scores"""


def parser(model: str = "classifier") -> Parser:
    """The command line."""
    made = Parser(f"predict {model}", DESCRIPTION, EXAMPLE)
    add = made.add_argument
    add("--model", required=True, metavar="DIR", help="what 'parapet train classifier' wrote")
    add("--task", choices=("intent", "ood"), help="what is predicted (default: what the model learned)")
    told = "corpus, or what 'parapet ood' wrote, or JSON lines with 'utterance' (default: the bundled sample)"
    add("--reference", metavar="PATH", help=told)
    add("--split", default="test", metavar="NAME", help="of a folder: whose turns (default test)")
    add("--variants", metavar="DIR", help="of a corpus: dialogues under each variant's names, as 'rewrite' writes them")
    add("--variant", default="", metavar="LIST", help="which of them, parted by commas (default all)")
    add("--sets", nargs="+", default=[], metavar="NAME=ROOT", help="of a corpus: further sets, under its names")
    add("--batch_size", type=int, default=256, metavar="N", help="utterances at a time (default 256)")
    add("--threads", type=int, default=1, metavar="N", help="of the CPU, in each worker (default 1)")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to compute (default: a GPU if any)")
    made.set_defaults(name="classifier")
    return made


def check(args: argparse.Namespace) -> None:
    """Looks at the model and the files. Raises InputError for what cannot work."""
    from evaluation.dst.sets import Given, parse_sets
    from evaluation.models.packages import check_installed
    from schemas.layout import sample_root
    from transforms.corpora import listed

    for flag in ("batch_size", "threads"):
        if not 1 <= getattr(args, flag) <= 2**31:
            raise InputError(f"{getattr(args, flag)}: give 1 or more", f"--{flag}")
    args.reference = args.reference or str(sample_root())
    others = parse_sets(args.sets)
    for path in (args.model, args.reference, args.variants, *others.values()):
        check_apart(args.output, model=path)
    check_installed("torch", "safetensors")
    from evaluation.models.classifier.asking import find
    from evaluation.models.classifier.saving import load
    from evaluation.models.devices import check_device

    check_device(args.device)
    args.card, _ = load(args.model, "cpu", args.batch_size)
    args.task = args.task or args.card.task
    if args.task == "intent" and args.card.task != "intent":
        raise InputError("the model learned what is out of domain, and knows no intents", args.model, "--task")
    given = Given(args.reference, args.split, args.variants, tuple(listed(args.variant)), others)
    args.asked = find(given, args.task)
    for remark in args.asked.remarks:
        logging.warning("%s", remark)


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Files -> chunks of turns -> answers -> one file."""
    from evaluation.models.classifier.inference import Job, Predict, check_counts
    from transforms import files

    files.prepare(args.output, "predict_classifier")
    job = Job(
        output=args.output,
        folder=args.model,
        task=args.task,
        threshold=args.card.threshold,
        device=args.device,
        threads=args.threads,
        batch=args.batch_size,
        asked=args.asked,
    )
    args.file = job.file
    written, counts = pipeline | "Predict" >> Predict(job)
    _ = written | "Publish" >> files.Publish(args.output, header(args), counts, check_counts)


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    from importlib.metadata import version

    from evaluation.models.saving import MODEL
    from evaluation.writing import sha256_of
    from schemas.layout import as_path
    from transforms.checkpoints import digest

    there = {MODEL: sha256_of(as_path(args.model) / MODEL)}
    if args.card.checkpoint:
        there["checkpoint"] = digest(f"{args.model}/checkpoint")
    else:
        from evaluation.models.saving import WEIGHTS

        there[WEIGHTS] = sha256_of(as_path(args.model) / WEIGHTS)
    return {
        "pipeline": "predict_classifier",
        "version": version("parapet"),
        "options": {"task": args.task, "split": args.split, "threshold": args.card.threshold},
        "model": there,
    }


def report(args: argparse.Namespace, _: dict[str, int]) -> None:
    """Says what was written."""
    from transforms.files import MANIFEST, read_written

    counts = json.loads(read_written(args.output, MANIFEST))["counts"]
    if long := counts.get("too_long"):
        told = "%s longer than %d: the beginnings were left out"
        logging.warning(told, counted(long, "utterance"), args.card.length)
    if not args.quiet:
        print(f"{args.output}/{args.file}: {counted(counts.get('answered', 0), 'turn')}")
        if args.task == "ood" and args.card.threshold is None:
            print("scores alone: the model has no threshold (--foreign); 'evaluate' tunes one with --dev")


def files_read(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read."""
    return [("--model", args.model), *(("--reference", path) for of in args.asked.sources for _, path in of)]


def run(argv: Sequence[str]) -> int:
    """Runs ``parapet predict classifier ...``; ``argv`` begins with the model. Returns the exit status."""
    return run_command(parser(argv[0]), argv[1:], build, check, report, files_read)
