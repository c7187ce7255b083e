"""The text classifier: intents of user turns, and out-of-domain turns."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from parapet.evaluation.models.configs import ClassifierConfig, ClassifierPrediction, Schedule
from parapet.pipelines.corpora import SetOptions
from parapet.pipelines.models.family import Inputs, Prediction, PredictTrained, TrainNet
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root

FROM_SCRATCH = {"learning_rate": 0.01, "schedule": "constant", "warmup": 0.0, "clip": 0.0}
FINE_TUNED = {"learning_rate": 5e-5, "schedule": "linear", "warmup": 0.06, "clip": 1.0}
WARNINGS = {"too_long": ("utterance", "{n} longer than the model's --max_length: the beginnings were cut off")}


class Classifier(ClassifierConfig, TrainNet):
    """A net trained from scratch, or a fine-tuned checkpoint."""

    learner_class = "classifier:ClassifierLearner"
    description = """\
Trains a classifier of user turns, by intent or by whether they are out of domain: a fine-tuned BERT
or RoBERTa, or from scratch on hashed words and character n-grams, in seconds."""
    # These defaults depend on --checkpoint, so the help shows none.
    schedule: Schedule = None  # type: ignore[assignment]
    warmup: float = None  # type: ignore[assignment]
    clip: float = None  # type: ignore[assignment]

    @classmethod
    def defaults(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Adds defaults for a checkpoint, or for a net from scratch."""
        return super().defaults(given) | (FINE_TUNED if given.get("checkpoint") else FROM_SCRATCH)

    def data(self, *checkpoint: Any) -> tuple[list[Any], Inputs]:
        """Reads labelled turns. Raises InputError for files that cannot be used."""
        from parapet.evaluation.models.classifier import read_training

        corpus = read_training(self, self.train or [str(sample_root())])
        return [corpus, *checkpoint], corpus.files


class PredictTurns(SetOptions, ClassifierPrediction, PredictTrained):
    """A prediction of intents or out-of-domain scores."""

    reference_text = "corpus, output of 'ood', or JSON lines with utterance (default: the bundled sample)"
    description = """\
Predicts intents or out-of-domain scores of user turns: OUT/predictions/original/SPLIT/intent.jsonl or ood.jsonl."""
    shown = ("answered", "turn")
    warnings = WARNINGS

    def check(self) -> Prediction:
        """Checks the model and the files. Raises InputError if they cannot be used."""
        sources = self.sources()
        self.check_device()
        from parapet.evaluation.models.classifier import load
        from parapet.evaluation.models.turns import Job, find

        card, _ = load(self.model, "cpu", self.batch_size)
        task = self.task or card.task
        if task not in ("ood", card.task):
            raise InputError(f"the model was trained for {card.task}, not for {task}", self.model, "--task")
        reference = find(sources, task)
        for remark in reference.remarks:
            logging.warning("%s", remark)
        job = self.job(Job, task=task, threshold=card.threshold, reference=reference)
        header = self.header({"task": task, "split": sources.split, "threshold": card.threshold})
        if task == "ood" and card.threshold is None:
            logging.info("scores without decisions: the model was trained without --foreign, and has no threshold")
        return Prediction(job, header, {job.place: ""})
