"""``parapet predict`` for the bAbI dialog tasks: the answers of a model to files of dialogues."""

from __future__ import annotations

import argparse
import logging
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import Parser, check_apart, counted
from parapet.pipelines.predict.flags import add_computing, add_model, check_numbers, job_of
from parapet.pipelines.predict.manifest import counts_of
from parapet.schemas.distribution import parapet_version
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    import apache_beam as beam

PREDICTIONS = "predictions"


def parser(model: str) -> Parser:
    """The command line of a model."""
    what = (
        "A model and files of dialogues in the bAbI format -> its answers, given what was really said before each:\n"
        "OUT/predictions/NAME.jsonl for each NAME.txt, as 'parapet evaluate --task ranking' takes them."
    )
    made = Parser(
        f"predict {model}",
        what,
        f"  parapet predict {model} --model my_model --reference babi/task1-tst*.txt --output my_answers",
    )
    add = made.add_argument
    add_model(made, model)
    add("--reference", required=True, nargs="+", metavar="FILE", help="dialogues in the bAbI format")
    add("--any_task", action="store_true", help="even where names tell that the model was trained on another task")
    add_computing(made, 256, "turns")
    return made


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Looks at the model and the files. Raises InputError for what cannot work."""
    from parapet.evaluation.models.babi.data import task_of
    from parapet.evaluation.models.babi.saving import load
    from parapet.evaluation.models.packages import check_installed
    from parapet.schemas.layout import as_path, is_there

    check_numbers(args)
    check_apart(args.output, model=args.model)
    stems: dict[str, str] = {}
    for path in args.reference:
        check_apart(args.output, reference=path)
        if not is_there(path) or not as_path(path).is_file():
            raise InputError("there is no such file", path)
        stem = as_path(path).name.removesuffix(".txt")
        if stem in stems:
            raise InputError(f"is called as {stems[stem]} is, and so would the answers be", path)
        stems[stem] = path
    check_installed("torch", "safetensors")
    card, _ = load(args.model, args.name, args.device, args.batch_size)
    for path in args.reference:
        task = task_of([path])
        if card.task and task and task != card.task and not args.any_task:
            raise InputError(f"is of task {task}, the model of task {card.task}: if that is meant, --any_task", path)
    args.memory = card.settings.get("memory")
    args.inputs = tuple((path, f"{PREDICTIONS}/{stem}.jsonl") for stem, path in sorted(stems.items()))
    return args


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Files -> chunks of dialogues -> answers -> a file for each."""
    from functools import partial

    from parapet.evaluation.models.babi.inference import Job, Predict
    from parapet.evaluation.models.inference import check_invariants
    from parapet.transforms import files

    files.prepare(args.output, f"predict_{args.name}")
    job = Job(**job_of(args), model=args.name, memory=args.memory, inputs=args.inputs)
    written, counts = pipeline | "Predict" >> Predict(job)
    _ = written | "Publish" >> files.Publish(
        args.output, header(args), counts, partial(check_invariants, asked="turns", told="answers")
    )


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    from parapet.evaluation.models.saving import MODEL, WEIGHTS
    from parapet.evaluation.writing import sha256_of
    from parapet.schemas.layout import as_path

    there = {name: as_path(args.model) / name for name in (MODEL, WEIGHTS)}
    return {
        "pipeline": f"predict_{args.name}",
        "version": parapet_version(),
        "model": {name: sha256_of(path) for name, path in there.items() if path.is_file()},
        "inputs": [{"name": as_path(path).name, "sha256": sha256_of(as_path(path))} for path, _ in args.inputs],
    }


def report(args: argparse.Namespace, _: dict[str, int]) -> None:
    """Says what was written."""
    counts = counts_of(args)
    for _path, relative in args.inputs:
        if not args.quiet:
            print(f"{args.output}/{relative}: {counted(counts[f'answers/{relative}'], 'answer')}")
        if long := counts.get(f"too_long/{relative}"):
            told = "%s: %s with more history than the model's --memory: the oldest lines were left out"
            logging.warning(told, relative, counted(long, "turn"))
        if empty := counts.get(f"empty/{relative}"):
            logging.warning("%s: no rule applies at %s: the answer is empty", relative, counted(empty, "turn"))


def files_read(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read."""
    return [("--model", args.model), *(("--reference", path) for path, _ in args.inputs)]
