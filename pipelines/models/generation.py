"""The models of system utterances: a T5 fine-tuned on templates of acts (ft_t5), prefixes for a frozen one (pt_t5)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from parapet.pipelines.command import check_apart
from parapet.pipelines.flags import INPUT, SCHEMA_VARIANTS, Parser, StrictParser, add_nli_model
from parapet.pipelines.models.family import (
    CORPORA,
    TRAINING,
    Defaults,
    Family,
    Output,
    Prediction,
    Training,
    add_checkpoint,
    add_corpora,
    add_training,
    check_device,
    check_numbers,
    config_of,
    device_to_train_on,
    digest_of_model,
    job_of,
    named_digest,
    options_of,
    read_checkpoint,
    read_sets,
)
from parapet.pipelines.sets import add_sets, sources_of
from parapet.schemas.distribution import run_header
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, is_there

if TYPE_CHECKING:
    from pathlib import Path

    from parapet.evaluation.models.generation.inference import Job, Reranker
    from parapet.pipelines.models.presets import Preset

DESCRIPTIONS = {
    "ft_t5": """\
Fine-tunes a T5 to express the acts of a system turn. Its input is a short sentence for each act, built from the
schema's words, as in T2G2 (Kale and Rastogi 2020).""",
    "pt_t5": """\
Prefix-tunes a frozen T5 (Li and Liang 2021) to express the acts of a system turn. Its input is that of ft_t5.""",
}
DEFAULTS = {
    "ft_t5": Defaults(20, 3, 16, 3e-4, "turns", "AdamW", schedule="linear", warmup=0.05, clip=1.0),
    "pt_t5": Defaults(40, 5, 16, 1e-3, "turns", "AdamW", schedule="linear", warmup=0.05, clip=1.0),
}
# SGSAcc (Chen, Lin and Byrne 2023), Appendix E. Dev chooses no epoch, and stops none.
SGSACC: Preset = {
    "epochs": 3,
    "batch_size": 8,
    "learning_rate": 1e-4,
    "schedule": "constant",
    "warmup": 0.0,
    "keep": "last",
}
PRESETS: dict[str, dict[str, Preset]] = {
    "ft_t5": {"sgsacc": SGSACC},
    "pt_t5": {"sgsacc": {**SGSACC, "prefix_length": 10, "prefix_embedding": 512, "prefix_size": 384}},
}
PREFIX_TUNED = "pt_t5"
LEAST = {"max_input": 8, "max_output": 2, "prefix_length": 1, "prefix_embedding": 1, "prefix_size": 1}

WARNINGS = {
    "without_acts": ("turn", "{n} without an act: the utterance is empty"),
    "cut_templates": ("turn", "{n} with more than --max_input tokens of templates: the beginning was cut off"),
    "without_template": ("turn", "{n} with an act that has no template: it has a sentence in the schema's words"),
    "without_end": ("turn", "{n} with an utterance that did not end within --max_output tokens"),
}


class Generation(Family):
    """A T5 for system utterances."""

    predict_description = """\
Writes an utterance for the acts of each system turn: OUT/predictions/original/SPLIT/utterances.jsonl, and so on for
each variant and set, for 'parapet evaluate --task generation'."""
    batch = (32, "turns")

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self.description, self.presets = DESCRIPTIONS[model], PRESETS[model]
        self.example = f"  parapet train {model} --train my_corpus --checkpoint t5-small --output my_model"
        command = f"  parapet predict {model} --model my_model{' --checkpoint t5-small' * (model == PREFIX_TUNED)}"
        self.predict_example = f"""\
{command} --reference my_corpus --output my_utterances
{command} --reference my_corpus --candidates 5 --rerank lexical \\
      --output my_utterances
  parapet evaluate --task generation --reference my_corpus \\
      --predictions my_utterances/predictions --output my_scores"""

    def add_train_flags(self, parser: StrictParser) -> None:
        """Corpora, a checkpoint, and limits."""
        add_corpora(parser)
        _add_templates(parser)
        add_checkpoint(parser, "T5 to start from")
        add = add_training(parser, DEFAULTS[self.model])
        text = "maximum number of tokens of an input; longer ones lose their beginning"
        add("--max_input", rare=True, type=int, default=256, metavar="N", help=text)
        text = "maximum number of tokens of an utterance"
        add("--max_output", rare=True, type=int, default=128, metavar="N", help=text)
        if self.model == PREFIX_TUNED:
            add("--prefix_length", type=int, default=10, metavar="N", help="positions of a prefix")
            text = "size of the embedding of each position, which an MLP turns into keys and values"
            add("--prefix_embedding", rare=True, type=int, default=512, metavar="N", help=text)
            text = "size of the hidden layer of the MLPs"
            add("--prefix_size", rare=True, type=int, default=384, metavar="N", help=text)

    def training(self, args: argparse.Namespace) -> Training:
        """Reads what is trained on, and looks at the checkpoint. Raises InputError for what cannot work."""
        check_numbers(args, LEAST)
        check_apart(args.output, templates=args.templates)
        checkpoint = read_checkpoint(args, self.model)
        device = device_to_train_on(args, "transformers")
        from parapet.evaluation.models.generation.data import read_examples
        from parapet.evaluation.models.generation.learning import Config, GenerationLearner
        from parapet.evaluation.models.generation.templates import read_templates

        templates, files = read_templates(args.templates) if args.templates else ({}, [])
        read = partial(read_examples, templates=templates)
        train, dev, inputs = read_sets(args, read, lambda example: example.opening)
        config = config_of(Config, args, model=self.model, device=device)
        return Training(
            model=self.model,
            output=args.output,
            options=options_of(args, (*TRAINING, *CORPORA, *LEAST), device=device),
            inputs=inputs + [("templates", str(path)) for path in files],
            packages=("torch", "transformers"),
            checkpoint=args.checkpoint,
            config=config,
            learner=partial(GenerationLearner, config, checkpoint, train, dev, templates),
        )

    def add_predict_flags(self, parser: Parser) -> None:
        """The sets, the search, and the reranker."""
        add = parser.group(INPUT)
        if self.model == PREFIX_TUNED:
            add("--checkpoint", required=True, metavar="DIR", help="T5 that the model was trained with")
        _add_templates(parser, " (default: those that the model was trained with)")
        add_sets(parser, variants=SCHEMA_VARIANTS, sets="other corpora: entities=unseen")
        add = parser.group("search")
        add("--beams", rare=True, type=int, metavar="N", help="beams of the search (default: as many as candidates)")
        add("--candidates", type=int, default=0, metavar="N", help="also write the N best, with their scores")
        text = "choose the candidate that expresses the most acts"
        add("--rerank", choices=("lexical", "nli"), help=text)
        add_nli_model(parser, "search", "--rerank nli")
        text = "with --rerank: predictions of other models, whose candidates are added"
        add("--also", rare=True, nargs="+", default=[], metavar="DIR", reads=True, help=text)

    def prediction(self, args: argparse.Namespace) -> Prediction:
        """Looks at the model, the sets and the scorer. Raises InputError for what cannot work."""
        check_numbers(args, {"candidates": 0, "beams": 1})
        checkpoint: str | None = getattr(args, "checkpoint", None)
        check_apart(args.output, model=args.model, checkpoint=checkpoint, templates=args.templates)
        flags = sources_of(args)
        for path in args.also:
            check_apart(args.output, also=path)
        if args.beams is not None and args.beams < args.candidates:
            raise InputError(f"{args.candidates} candidates need as many beams: {args.beams} are fewer", "--beams")
        check_device(args, "transformers")
        from parapet.evaluation.models.generation import saving
        from parapet.evaluation.models.generation.data import sources
        from parapet.evaluation.models.generation.decoding import Search
        from parapet.evaluation.models.generation.inference import Job, relative_of
        from parapet.evaluation.models.generation.templates import read_templates

        card = saving.check(args.model, self.model, checkpoint)
        templates, files = read_templates(args.templates) if args.templates else (card.templates, [])
        sets = tuple(sources(flags, templates))
        reranker = _reranker(args, [relative_of(source.name, flags.split) for source in sets])
        candidates = max(1, args.candidates) if reranker else args.candidates
        search = Search(args.batch_size, args.beams or max(1, candidates), candidates)
        own = {"checkpoint": checkpoint, "search": search, "sets": sets, "split": flags.split, "reranker": reranker}
        job = job_of(Job, args, self.model, **own)
        read = [("--model", args.model), *(("--reference", file.path) for source in sets for file in source.files)]
        more = [
            ("--checkpoint", checkpoint),
            ("--nli_model", args.nli_model),
            *(("--also", path) for path in args.also),
            *(("--templates", str(path)) for path in files),
        ]
        changed = "where the reranker chose another than the most likely"
        names = [source.name for source in sets]
        also = {name: (f"reranked/{name}", changed) if reranker else None for name in names}
        return Prediction(
            job=job,
            header=_header(job, files),
            inputs=read + [(flag, path) for flag, path in more if path],
            asked="turns",
            answered="said",
            outputs=tuple(Output(relative_of(name, flags.split), f"said/{name}", "turn", also[name]) for name in names),
            warnings=WARNINGS,
        )


def _add_templates(parser: StrictParser, default: str = "") -> None:
    text = f"templates of your own in T2G2's format: a folder with SERVICE.tsv for each service{default}"
    parser.group(INPUT)("--templates", metavar="DIR", reads=True, help=text)


def _reranker(args: argparse.Namespace, files: Sequence[str]) -> Reranker | None:
    from parapet.evaluation.models.generation.inference import Reranker, scorer_of

    if (args.rerank == "nli") != (args.nli_model is not None):
        reason = "a folder with a model is needed" if args.rerank == "nli" else "goes with --rerank nli: add it"
        raise InputError(reason, "--nli_model")
    if args.rerank is None:
        if args.also:
            raise InputError("goes with --rerank: add it", "--also")
        return None
    if args.candidates < 2 and not args.also:
        raise InputError("there is nothing to choose from: give --candidates 2 or more, or --also", "--rerank")
    for folder in args.also:
        for file in files:
            if not is_there(as_path(folder) / file):
                name = file.split("/")[1]
                raise InputError(f"has no predictions of {name}: expected {file}", folder, "--also")
    reranker = Reranker(args.rerank, args.nli_model or "", args.batch_size, tuple(args.also))
    scorer_of(reranker.scorer, reranker.folder, reranker.batch_size)
    return reranker


def _header(job: Job, templates: Sequence[Path]) -> dict[str, object]:
    """What ``run.json`` says besides files and counts."""
    from parapet.evaluation.models.generation.inference import relative_of, scorer_of
    from parapet.evaluation.writing import sha256_of

    reranker = job.reranker
    scorer = scorer_of(reranker.scorer, reranker.folder, reranker.batch_size).model if reranker else None
    options = {
        "split": job.split,
        "sets": [source.name for source in job.sets],
        "beams": job.search.beams,
        "candidates": job.search.candidates,
        "rerank": scorer,
    }
    return {
        **run_header(f"predict_{job.model}", options),
        "model": digest_of_model(job.folder),
        "also": [
            {"set": source.name, "sha256": sha256_of(as_path(folder) / relative_of(source.name, job.split))}
            for folder in (reranker.others if reranker else ())
            for source in job.sets
        ],
        "templates": [named_digest(str(path)) for path in templates],
        "inputs": [
            {"set": source.name, "name": file.relative, "sha256": sha256_of(as_path(file.path))}
            for source in job.sets
            for file in source.files
        ],
    }
