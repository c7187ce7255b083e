"""The models of whole systems: soloist and damd. They generate belief states and responses."""

from __future__ import annotations

from functools import partial
from typing import Any

from parapet.evaluation.models.configs import DamdConfig, SoloistConfig, SystemPrediction, SystemTraining
from parapet.pipelines.corpora import SetOptions
from parapet.pipelines.models import family

WARNINGS = {
    "too_long": ("turn", "{n} with more history than the model reads: the oldest part was cut off"),
    "unknown_slots": ("slot", "the model named {n} that the schema does not have; they were left out"),
}


class TrainSystem(SystemTraining, family.TrainOnCorpora):
    """A training of a whole system."""

    def data(self, *checkpoint: Any) -> tuple[list[Any], family.Inputs]:
        """Reads the user turns of the corpora."""
        from parapet.evaluation.models.systems.data import read_steps

        read = partial(read_steps, knowledge_base=self.knowledge_base)
        train, dev, inputs = self.read_sets(read, lambda step: step.dialogue_id)
        return [*checkpoint, train, dev], inputs


# The settings of SOLOIST's training scripts.
SCRIPTS: family.Preset = {
    "learning_rate": 5e-5,
    "schedule": "linear",
    "warmup": 0,
    "weight_decay": 0,
    "keep": "last",
    "consistency": 0.33,
}


class Soloist(SoloistConfig, TrainSystem):
    """SOLOIST, a fine-tuned language model."""

    learner_class = "systems.soloist:SoloistLearner"
    description = """\
Fine-tunes a GPT-2 to write a dialogue's belief state and, after the database's result, the delexicalised response
(Peng et al. 2021, SOLOIST)."""
    example = family.FINE_TUNING
    # RADDLE (Peng et al. 2021), section 5, trains GPT-2 and SOLOIST alike: Adam from 5e-5, batches of one, 20 epochs.
    # What it does not specify follows SOLOIST's scripts, and so does the pre-training.
    preset: str | None = family.preset(
        raddle={"epochs": 20, "batch_size": 1, **SCRIPTS},
        soloist={"steps": 500_000, "batch_size": 20, **SCRIPTS},
    )


# config.py of the authors' code, without data augmentation, as in its README.
AUTHORS: family.Preset = {
    "epochs": 100,
    "patience": 5,
    "batch_size": 128,
    "learning_rate": 0.005,
    "schedule": "plateau",
    "clip": 5,
    "vocabulary": 3000,
    "embedding": 50,
    "hidden": 100,
}


class Damd(DamdConfig, TrainSystem):
    """DAMD: GRUs trained from scratch."""

    learner_class = "systems.damd:DamdLearner"
    description = """\
Trains DAMD (Zhang, Ou and Yu 2020) from scratch: GRUs that write belief states, acts and delexicalised responses, and
can copy unknown words."""
    # RADDLE's settings are for pre-trained models, so "raddle" uses the settings of DAMD's authors.
    preset: str | None = family.preset(raddle=AUTHORS, damd=AUTHORS)


class PredictSystem(SetOptions, SystemPrediction, family.PredictDialogues):
    """A prediction of belief states and responses."""

    description = """\
Predicts the belief state and the response after each user turn, from the reference's history: OUT/predictions, for
'parapet evaluate --task dst', and OUT/responses, delexicalised, for 'parapet evaluate --task response'."""
    shown = ("frames", "frame")
    warnings = WARNINGS

    def check(self) -> family.Prediction:
        """Checks the model and the sets. Raises InputError if they cannot be used."""
        self.check_device(*(("transformers",) if self.model_name == "soloist" else ()))
        from parapet.evaluation.models.systems.data import Job, module_of, read_source
        from parapet.evaluation.sets import open_reference

        module_of(self.model_name).check(self.model)
        sources = self.sources()
        corpus = str(open_reference(sources.reference)[0])
        read_source(corpus, sources.split, self.knowledge_base)
        return self.prediction(Job, sources, reference=corpus, split=sources.split)
