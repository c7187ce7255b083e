"""``parapet predict`` for system utterances: what a T5 says for the acts of a corpus's system turns."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import Parser, add_split, check_apart, counted, run_header
from parapet.pipelines.predict.flags import add_computing, add_model, check_numbers, check_torch
from parapet.pipelines.predict.manifest import counts_of, model_of
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.evaluation.models.generation.inference import Reranker


def parser(model: str) -> Parser:
    """The command line of a model."""
    what = (
        "A model and a corpus -> an utterance for the acts of each system turn: OUT/predictions/original.jsonl, and a\n"
        "file for each variant and set, as 'parapet evaluate --task generation' takes them."
    )
    base = " --checkpoint t5-small" if model == "pt_t5" else ""
    example = (
        f"  parapet predict {model} --model my_model{base} --reference my_corpus --output my_utterances\n"
        f"  parapet predict {model} --model my_model{base} --reference my_corpus --candidates 5 --rerank lexical \\\n"
        "      --output my_utterances\n"
        "  parapet evaluate --task generation --reference my_corpus \\\n"
        "      --predictions my_utterances/predictions/original.jsonl --output my_scores"
    )
    made = Parser(f"predict {model}", what, example)
    add = made.add_argument
    add_model(made, model)
    if model == "pt_t5":
        add("--checkpoint", required=True, metavar="DIR", help="the T5 that it was trained with")
    add("--reference", metavar="ROOT", help="corpus with the acts of system turns (default: the bundled sample)")
    add_split(made)
    add("--variants", metavar="DIR", help="folder of schema variants: the same acts in the words of each")
    add("--sets", nargs="+", default=[], metavar="NAME=ROOT", help="other corpora: entities=made/unseen_entities")
    add("--beams", type=int, metavar="N", help="of the search (default: as many as candidates, at least 1)")
    add("--candidates", type=int, default=0, metavar="N", help="write the N best with their scores (default: none)")
    add("--rerank", choices=("lexical", "nli"), help="take the candidate that says the most acts, by this scorer")
    add("--nli_model", metavar="DIR", help="of --rerank nli: a folder with a classifier of text pairs, as RoBERTa")
    told = "of --rerank: predictions of other models, with candidates, to choose from as well"
    add("--also", nargs="+", default=[], metavar="DIR", help=told)
    add_computing(made, 32, "turns")
    made.set_defaults(checkpoint=None)
    return made


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Looks at the model, the sets and the scorer. Raises InputError for what cannot work."""
    from parapet.evaluation.dst.sets import parse_sets
    from parapet.evaluation.models.generation import saving
    from parapet.evaluation.models.generation.sources import sources

    check_numbers(args, candidates=0, beams=1)
    others = parse_sets(args.sets)
    check_apart(args.output, model=args.model, checkpoint=args.checkpoint)
    check_apart(args.output, reference=args.reference, variants=args.variants)
    for flag, paths in (("also", args.also), ("sets", others.values())):
        for path in paths:
            check_apart(args.output, **{flag: path})
    if args.beams is not None and args.beams < args.candidates:
        raise InputError(f"{args.candidates} candidates need as many beams: {args.beams} are fewer", "--beams")
    saving.check(args.model, args.name, args.checkpoint)
    args.sources = sources(str(args.reference or sample_root()), args.split, args.variants, others)
    check_torch(args, "transformers")
    args.reranker = _reranker(args, [one.name for one in args.sources])
    return args


def _reranker(args: argparse.Namespace, names: Sequence[str]) -> Reranker | None:
    from parapet.evaluation.models.generation.inference import PREDICTIONS, Reranker
    from parapet.evaluation.models.generation.ranking import scorer_of
    from parapet.schemas.layout import as_path, is_there

    if (args.rerank == "nli") != (args.nli_model is not None):
        reason = "a folder with a model is needed" if args.rerank == "nli" else "is of --rerank nli: add it"
        raise InputError(reason, "--nli_model")
    if args.rerank is None:
        if args.also:
            raise InputError("is of --rerank: add it", "--also")
        return None
    if args.candidates < 2 and not args.also:
        raise InputError("there is nothing to choose from: give --candidates 2 or more, or --also", "--rerank")
    args.candidates = max(1, args.candidates)
    folders = [str(as_path(one) / PREDICTIONS) for one in args.also]
    for folder in folders:
        for name in names:
            if not is_there(as_path(folder) / f"{name}.jsonl"):
                raise InputError(f"has no predictions of {name}: expected {name}.jsonl", folder, "--also")
    made = Reranker(args.rerank, args.nli_model or "", args.batch_size, tuple(folders))
    scorer_of(made.scorer, made.folder, made.batch)
    return made


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Files of all sets -> chunks of turns -> candidates -> a file for each set."""
    from functools import partial

    from parapet.evaluation.models.generation.decoding import Search
    from parapet.evaluation.models.generation.inference import Job, Predict
    from parapet.evaluation.models.inference import check_invariants
    from parapet.transforms import files

    files.prepare(args.output, f"predict_{args.name}")
    args.search = Search(args.batch_size, args.beams or max(1, args.candidates), args.candidates)
    job = Job(
        args.output,
        args.name,
        args.model,
        args.checkpoint,
        args.device,
        args.threads,
        args.search,
        tuple(args.sources),
        args.reranker,
    )
    written, counts = pipeline | "Predict" >> Predict(job)
    _ = written | "Publish" >> files.Publish(
        args.output, header(args), counts, partial(check_invariants, asked="turns", told="said")
    )


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    from parapet.evaluation.models.generation.ranking import scorer_of
    from parapet.evaluation.writing import sha256_of
    from parapet.schemas.layout import as_path

    of = args.reranker
    options = {
        "split": args.split,
        "sets": [one.name for one in args.sources],
        "beams": args.search.beams,
        "candidates": args.search.candidates,
        "rerank": scorer_of(of.scorer, of.folder, of.batch).model if of is not None else None,
    }
    return {
        **run_header(f"predict_{args.name}", options),
        "model": model_of(args.model),
        "also": [
            {"set": one.name, "sha256": sha256_of(as_path(folder) / f"{one.name}.jsonl")}
            for folder in (of.others if of is not None else ())
            for one in args.sources
        ],
        "inputs": [
            {"set": one.name, "name": file.relative, "sha256": sha256_of(as_path(file.path))}
            for one in args.sources
            for file in one.files
        ],
    }


NOTES = {
    "without_acts": "has no act: nothing is said",
    "cut_templates": "has more than --max_input tokens of templates: the beginning is cut off",
    "without_end": "has an utterance that did not end within --max_output tokens",
}


def report(args: argparse.Namespace, _: dict[str, int]) -> None:
    """Says what was written."""
    from parapet.evaluation.models.generation.inference import relative_of

    counts = counts_of(args)
    for one in args.sources:
        if not args.quiet:
            n = counts.get(f"reranked/{one.name}", 0)
            more = f", of {n:,} not the most likely" if args.reranker else ""
            print(f"{args.output}/{relative_of(one.name)}: {counted(counts[f'said/{one.name}'], 'turn')}{more}")
        for what, told in NOTES.items():
            if n := counts.get(f"{what}/{one.name}", 0):
                said = told if n == 1 else told.replace("has", "have", 1)
                logging.warning("%s: %s %s", one.name, counted(n, "turn"), said)


def files_read(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read."""
    read = [("--model", args.model), *(("--reference", file.path) for one in args.sources for file in one.files)]
    more = [("--checkpoint", args.checkpoint), ("--nli_model", args.nli_model), *(("--also", one) for one in args.also)]
    return read + [(flag, path) for flag, path in more if path]
