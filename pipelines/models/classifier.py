"""The text classifier: intents or dialogue acts of user turns, and turns that are out of domain."""

from __future__ import annotations

import argparse
import logging
from functools import partial
from typing import TYPE_CHECKING

from parapet.pipelines.command import check_apart
from parapet.pipelines.flags import INPUT, Parser, StrictParser, add_split
from parapet.pipelines.models.family import (
    TRAINING,
    Defaults,
    Family,
    Output,
    Prediction,
    Training,
    add_training,
    check_device,
    check_numbers,
    config_of,
    device_to_train_on,
    job_of,
    options_of,
    read_checkpoint,
)
from parapet.pipelines.sets import add_sets, sources_of
from parapet.schemas.distribution import run_header
from parapet.schemas.errors import InputError
from parapet.schemas.layout import TRAIN, as_path, sample_root

if TYPE_CHECKING:
    from parapet.evaluation.models.classifier.inference import Job

FROM_SCRATCH = {"learning_rate": 0.01, "schedule": "constant", "warmup": 0.0, "clip": 0.0}
FINE_TUNED = {"learning_rate": 5e-5, "schedule": "linear", "warmup": 0.06, "clip": 1.0}
TASKS = ("intent", "acts", "ood")
HELD_OUT = 0.1  # of the dialogues, where there is no --dev
LEAST = {"size": 1, "buckets": 1, "max_length": 8}
OPTIONS = (*TRAINING, *LEAST, "task", "score", "split", "dev_split")


class Classifier(Family):
    """A net from scratch, or a fine-tuned checkpoint."""

    description = """\
Trains a classifier of user turns, by intent, by dialogue acts or by whether they are out of domain: a fine-tuned BERT
or RoBERTa, or from scratch on hashed words and character n-grams, in seconds."""
    example = """\
  parapet train classifier --train my_corpus --output my_model
  parapet train classifier --train my_corpus --foreign my_foreign_turns --output my_model
  parapet train classifier --task ood --train my_foreign_turns --output my_model
  parapet train classifier --train my_corpus --checkpoint bert-base-uncased --output my_model"""
    predict_description = """\
Predicts intents, dialogue acts or out-of-domain scores of user turns: OUT/predictions/original/SPLIT/intent.jsonl,
acts.jsonl or ood.jsonl, and so on for each variant and set, for 'parapet evaluate --task intent' and '--task ood'."""
    predict_example = """\
  parapet predict classifier --model my_model --reference my_corpus --sets typos=my_variations/typos-env1 \\
    --output my_intents
  parapet evaluate --task intent --reference my_corpus --sets typos=my_variations/typos-env1 \\
    --predictions my_intents/predictions --output my_scores
  parapet predict classifier --model my_model --task ood --reference my_foreign_turns --output my_scores"""
    batch = (256, "utterances")

    def add_train_flags(self, parser: StrictParser) -> None:
        """Turns, what their labels are, and the model."""
        add = parser.group(INPUT)
        add("--task", choices=TASKS, default=TASKS[0], help="what the labels are")
        text = "corpora, outputs of 'parapet ood', or JSON lines with utterance and label (default: the bundled sample)"
        add("--train", nargs="+", metavar="PATH", reads=True, help=text)
        add_split(parser, TRAIN)
        text = "turns that select the best epoch (default: every tenth dialogue of --train)"
        add("--dev", nargs="+", metavar="PATH", reads=True, help=text)
        add("--dev_split", rare=True, default="dev", metavar="NAME", help="split of --dev and --foreign")
        text = "with --task intent: turns labelled ood or in_domain, on which the threshold of --score is tuned"
        add("--foreign", rare=True, nargs="+", metavar="PATH", reads=True, help=text)
        text = "BERT or RoBERTa to start from (default: train from scratch)"
        add("--checkpoint", metavar="DIR", help=text)
        rate, fine = (table["learning_rate"] for table in (FROM_SCRATCH, FINE_TUNED))
        optimiser = f"Adam (default: {rate:g}), or AdamW with --checkpoint (default: {fine:g})"
        add = add_training(parser, Defaults(40, 10, 32, 0.0, "utterances", optimiser))
        parser.set_defaults(**dict.fromkeys(FROM_SCRATCH))
        text = "maximum length of an utterance, in words (tokens with --checkpoint); the last are kept"
        add("--max_length", rare=True, type=int, default=128, metavar="N", help=text)
        text = "out-of-domain score of a model of intents: by the highest probability, or by the energy"
        add("--score", rare=True, choices=("msp", "energy"), default="msp", help=text)
        add("--size", rare=True, type=int, default=64, metavar="N", help="size of the embeddings, from scratch")
        text = "number of buckets of the hashed features, from scratch"
        add("--buckets", rare=True, type=int, default=2**15, metavar="N", help=text)

    def training(self, args: argparse.Namespace) -> Training:
        """Reads what is trained on. Raises InputError for flags and files that cannot work."""
        for flag, value in (FINE_TUNED if args.checkpoint else FROM_SCRATCH).items():
            if getattr(args, flag) is None:
                setattr(args, flag, value)
        check_numbers(args, LEAST)
        if args.task == "ood" and not args.train:
            raise InputError("give turns that are labelled, such as what 'parapet ood' wrote", "--train")
        train = args.train or [str(sample_root())]
        if args.foreign and args.task != "intent":
            raise InputError("is for intents; with --task ood the threshold is tuned on --dev", "--foreign")
        for flag, paths in (("train", train), ("dev", args.dev), ("foreign", args.foreign)):
            for path in paths or ():
                check_apart(args.output, **{flag: path})
        checkpoint = read_checkpoint(args, self.model) if args.checkpoint else None
        device = device_to_train_on(args, *(["transformers"] if checkpoint else []))
        from parapet.evaluation.models.classifier.data import Paths, read_training
        from parapet.evaluation.models.classifier.learning import ClassifierLearner, Config

        paths = Paths(train, args.split, args.dev or [], args.dev_split, args.foreign or [], HELD_OUT, args.seed)
        corpus = read_training(args.task, paths)
        config = config_of(Config, args, checkpoint=checkpoint, device=device)
        return Training(
            model=self.model,
            output=args.output,
            options=options_of(args, OPTIONS, device=device),
            inputs=corpus.files,
            packages=("torch",),
            checkpoint=args.checkpoint,
            config=config,
            learner=partial(ClassifierLearner, config, corpus),
        )

    def add_predict_flags(self, parser: Parser) -> None:
        """What is predicted, and of which turns."""
        add = parser.group(INPUT)
        add("--task", choices=TASKS, help="what is predicted (default: what the model was trained for)")
        add_sets(parser, reference="corpus, output of 'ood', or JSON lines with utterance")

    def prediction(self, args: argparse.Namespace) -> Prediction:
        """Looks at the model and the files. Raises InputError for what cannot work."""
        check_numbers(args)
        check_apart(args.output, model=args.model)
        sources = sources_of(args)
        check_device(args)
        from parapet.evaluation.models.classifier.answering import load
        from parapet.evaluation.models.classifier.inference import PREDICTIONS, Job, find

        card, _ = load(args.model, "cpu", args.batch_size)
        task = args.task or card.task
        if task not in ("ood", card.task):
            raise InputError(f"the model was trained for {card.task}, and knows no {task}", args.model, "--task")
        found = find(sources, task)
        for remark in found.remarks:
            logging.warning("%s", remark)
        job = job_of(Job, args, self.model, task=task, threshold=card.threshold, reference=found)
        written = PREDICTIONS if found.in_folders else job.path_of("")
        text = f"{{n}} longer than {card.length}: the beginnings were cut off"
        note = "scores alone: the model has no threshold (--foreign); 'evaluate' tunes one with --dev"
        return Prediction(
            job=job,
            header=_header(job, card.checkpoint, sources.split),
            inputs=[("--model", args.model), *(("--reference", path) for files in found.sources for _, path in files)],
            asked="asked",
            answered="answered",
            outputs=(Output(written, "answered", "turn"),),
            warnings={"too_long": ("utterance", text)},
            notes=(note,) if task == "ood" and card.threshold is None else (),
        )


def _header(job: Job, checkpoint: bool, split: str) -> dict[str, object]:
    """What ``run.json`` says besides files and counts."""
    from parapet.evaluation.models.saving import MODEL, WEIGHTS
    from parapet.evaluation.writing import sha256_of
    from parapet.transforms.checkpoints import digest

    model = {MODEL: sha256_of(as_path(job.folder) / MODEL)}
    if checkpoint:
        model["checkpoint"] = digest(f"{job.folder}/checkpoint")
    else:
        model[WEIGHTS] = sha256_of(as_path(job.folder) / WEIGHTS)
    options = {"task": job.task, "split": split, "threshold": job.threshold}
    return {**run_header("predict_classifier", options), "model": model}
