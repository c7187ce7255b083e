"""The text classifier: intents of user turns, and out-of-domain turns."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from parapet.evaluation.models.configs import ClassifierConfig, ClassifierPrediction
from parapet.pipelines.app import read_config
from parapet.pipelines.models.family import Family, Inputs, Output, Prediction, check_device, load_class, make_job
from parapet.pipelines.models.presets import TrainingParser
from parapet.pipelines.sets import sources_of
from parapet.schemas.errors import InputError, run_header
from parapet.schemas.layout import as_path, sample_root

if TYPE_CHECKING:
    from parapet.evaluation.models.training import Learner
    from parapet.evaluation.models.turns import Job
    from parapet.transforms.storage.checkpoints import Checkpoint

FROM_SCRATCH = {"learning_rate": 0.01, "schedule": "constant", "warmup": 0.0, "clip": 0.0}
FINE_TUNED = {"learning_rate": 5e-5, "schedule": "linear", "warmup": 0.06, "clip": 1.0}


class Classifier(Family):
    """A net trained from scratch, or a fine-tuned checkpoint."""

    config = ClassifierConfig
    learner_class = "classifier:ClassifierLearner"
    prediction_config = ClassifierPrediction
    sets: Mapping[str, Any] = {"reference": "corpus, output of 'ood', or JSON lines with utterance"}
    packages = ("transformers",)
    description = """\
Trains a classifier of user turns, by intent or by whether they are out of domain: a fine-tuned BERT
or RoBERTa, or from scratch on hashed words and character n-grams, in seconds."""
    example = """\
  parapet train classifier --output my_model                    # on the bundled sample
  parapet train classifier --train my_corpus --foreign my_foreign_turns --output my_model
  parapet train classifier --task ood --train my_foreign_turns --output my_model
  parapet train classifier --train my_corpus --checkpoint bert-base-uncased --output my_model"""
    predict_description = """\
Predicts intents or out-of-domain scores of user turns: OUT/predictions/original/SPLIT/intent.jsonl or ood.jsonl, and
so on for each variant and set, for 'parapet evaluate --task intent' and '--task ood'."""
    predict_example = """\
  parapet predict classifier --model my_model --reference my_corpus --sets typos=my_variations/typos-env1 \\
    --output my_intents
  parapet evaluate --task intent --reference my_corpus --sets typos=my_variations/typos-env1 \\
    --predictions my_intents/predictions --output my_scores
  parapet predict classifier --model my_model --task ood --reference my_foreign_turns --output my_scores"""

    def train_parser(self) -> TrainingParser:
        """Builds the command line, in which some defaults depend on ``--checkpoint``."""
        parser = super().train_parser()
        parser.set_defaults(**dict.fromkeys(FROM_SCRATCH))
        return parser

    def check(self, args: argparse.Namespace) -> ClassifierConfig:
        """Reads the configuration. Raises InputError for flags that cannot be used."""
        for flag, value in (FINE_TUNED if args.checkpoint else FROM_SCRATCH).items():
            if getattr(args, flag) is None:
                setattr(args, flag, value)
        config: ClassifierConfig = super().check(args)
        if config.task == "ood" and not config.train:
            raise InputError("must have labelled turns, such as the output of 'parapet ood'", "--train")
        if config.foreign and config.task != "intent":
            raise InputError(
                "is for intents: with --task ood the threshold is tuned on --dev, leave it out", "--foreign"
            )
        return config

    def learner(self, config: ClassifierConfig, *checkpoint: Checkpoint) -> tuple[Callable[[], Learner], Inputs]:
        """Reads labelled turns. Raises InputError for files that cannot be used."""
        from parapet.evaluation.models.classifier import read_training

        corpus = read_training(config, config.train or [str(sample_root())])
        return partial(load_class(self.learner_class), config, corpus, *checkpoint), corpus.files

    def prediction(self, args: argparse.Namespace) -> Prediction:
        """Checks the model and the files. Raises InputError if they cannot be used."""
        config = read_config(ClassifierPrediction, args)
        sources = sources_of(args)
        check_device(config.device)
        from parapet.evaluation.models.classifier import load
        from parapet.evaluation.models.turns import PREDICTIONS, Job, find

        card, _ = load(config.model, "cpu", config.batch_size)
        task = config.task or card.task
        if task not in ("ood", card.task):
            raise InputError(f"the model was trained for {card.task}, not for {task}", config.model, "--task")
        reference = find(sources, task)
        for remark in reference.remarks:
            logging.warning("%s", remark)
        job = make_job(Job, config, self.model, task=task, threshold=card.threshold, reference=reference)
        written = PREDICTIONS if reference.in_folders else job.path_of("")
        text = f"{{n}} longer than {card.length}: the beginnings were cut off"
        note = (
            "scores without decisions: the model has no threshold (train it with --foreign, or let 'evaluate' "
            "tune one with --dev)"
        )
        read = [("--reference", path) for files in reference.sources for _, path in files]
        return Prediction(
            job=job,
            header=_header(job, card.checkpoint, sources.split),
            inputs=[("--model", config.model), *read],
            asked="asked",
            answered="answered",
            outputs=(Output(written, "answered", "turn"),),
            warnings={"too_long": ("utterance", text)},
            notes=(note,) if task == "ood" and card.threshold is None else (),
        )


def _header(job: Job, checkpoint: bool, split: str) -> dict[str, object]:
    """Makes the part of ``run.json`` other than files and counts."""
    from parapet.evaluation.models.saving import MODEL, WEIGHTS
    from parapet.evaluation.task import sha256_of
    from parapet.transforms.storage.checkpoints import digest

    model = {MODEL: sha256_of(as_path(job.folder) / MODEL)}
    if checkpoint:
        model["checkpoint"] = digest(f"{job.folder}/checkpoint")
    else:
        model[WEIGHTS] = sha256_of(as_path(job.folder) / WEIGHTS)
    options = {"task": job.task, "split": split, "threshold": job.threshold}
    return {**run_header("predict_classifier", options), "model": model}
