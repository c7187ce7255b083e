"""``parapet predict classifier``: intents of user turns, or how much they seem out of domain."""

from __future__ import annotations

import argparse
import logging
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import Parser, add_split, check_apart, counted, run_header
from parapet.pipelines.predict.flags import add_computing, add_model, check_numbers, check_torch, job_of
from parapet.pipelines.predict.manifest import counts_of
from parapet.schemas.errors import InputError

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
    add_model(made, model)
    add("--task", choices=("intent", "ood"), help="what is predicted (default: what the model learned)")
    told = "corpus, or what 'parapet ood' wrote, or JSON lines with 'utterance' (default: the bundled sample)"
    add("--reference", metavar="PATH", help=told)
    add_split(made, text="of a folder: whose turns")
    add("--variants", metavar="DIR", help="of a corpus: dialogues under each variant's names, as 'rewrite' writes them")
    add("--variant", default="", metavar="LIST", help="which of them, parted by commas (default all)")
    add("--sets", nargs="+", default=[], metavar="NAME=ROOT", help="of a corpus: further sets, under its names")
    add_computing(made, 256, "utterances")
    return made


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Looks at the model and the files. Raises InputError for what cannot work."""
    from parapet.evaluation.dst.sets import Given, parse_sets
    from parapet.schemas.layout import sample_root, split_of_folder
    from parapet.transforms.corpora import listed

    check_numbers(args)
    args.reference = args.reference or str(sample_root())
    others = parse_sets(args.sets)
    check_apart(args.output, model=args.model, reference=args.reference, variants=args.variants)
    for root in others.values():
        check_apart(args.output, sets=root)
    check_torch(args)
    from parapet.evaluation.models.classifier.asking import find
    from parapet.evaluation.models.classifier.saving import load

    args.card, _ = load(args.model, "cpu", args.batch_size)
    args.task = args.task or args.card.task
    if args.task == "intent" and args.card.task != "intent":
        raise InputError("the model learned what is out of domain, and knows no intents", args.model, "--task")
    args.split = split_of_folder(args.reference) or args.split
    given = Given(args.reference, args.split, args.variants, tuple(listed(args.variant)), others)
    args.asked = find(given, args.task)
    for remark in args.asked.remarks:
        logging.warning("%s", remark)
    return args


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Files -> chunks of turns -> answers -> one file."""
    from parapet.evaluation.models.classifier.inference import Job, Predict, check_counts
    from parapet.transforms import files

    files.prepare(args.output, "predict_classifier")
    job = Job(
        **job_of(args),
        task=args.task,
        threshold=args.card.threshold,
        asked=args.asked,
    )
    args.file = job.file
    written, counts = pipeline | "Predict" >> Predict(job)
    _ = written | "Publish" >> files.Publish(args.output, header(args), counts, check_counts)


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    from parapet.evaluation.models.saving import MODEL, WEIGHTS
    from parapet.evaluation.writing import sha256_of
    from parapet.schemas.layout import as_path
    from parapet.transforms.checkpoints import digest

    there = {MODEL: sha256_of(as_path(args.model) / MODEL)}
    if args.card.checkpoint:
        there["checkpoint"] = digest(f"{args.model}/checkpoint")
    else:
        there[WEIGHTS] = sha256_of(as_path(args.model) / WEIGHTS)
    options = {"task": args.task, "split": args.split, "threshold": args.card.threshold}
    return {**run_header("predict_classifier", options), "model": there}


def report(args: argparse.Namespace, _: dict[str, int]) -> None:
    """Says what was written."""
    counts = counts_of(args)
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
