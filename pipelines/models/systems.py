"""The models of whole systems: soloist and damd. They generate belief states and responses."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from parapet.evaluation.models.configs import DamdConfig, SoloistConfig, SystemPrediction
from parapet.pipelines.app import read_config
from parapet.pipelines.models import family

if TYPE_CHECKING:
    from parapet.evaluation.models.training import Learner
    from parapet.pipelines.models.presets import Preset

WARNINGS = {
    "too_long": ("turn", "{n} with more history than the model reads: the oldest part was cut off"),
    "unknown_slots": ("slot", "the model named {n} that the schema does not have; they were left out"),
}


class System(family.Family):
    """A model that generates belief states and responses."""

    prediction_config = SystemPrediction
    predict_description = """\
Predicts after each user turn, from the reference's history, the belief state and the response:
OUT/predictions/original/SPLIT/..., for 'parapet evaluate --task dst', and OUT/responses/original/SPLIT/...,
delexicalised, for 'parapet evaluate --task response'; and so on for each variant and set."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self.predict_example = f"""\
  parapet predict {model} --model my_model --reference my_corpus --sets typos=my_variations/typos --output said
  parapet evaluate --task dst --reference my_corpus --sets typos=my_variations/typos --predictions said/predictions \\
    --output my_states
  parapet evaluate --task response --reference my_corpus --sets typos=my_variations/typos \\
    --predictions said/responses --output my_responses"""

    def learner(self, config: Any, *checkpoint: Any) -> tuple[Callable[[], Learner], family.Inputs]:
        """Reads the user turns of the corpora."""
        from parapet.evaluation.models.systems.data import read_steps

        read = partial(read_steps, knowledge_base=config.knowledge_base)
        train, dev, inputs = family.read_sets(config, read, lambda step: step.dialogue_id)
        return partial(family.load_class(self.learner_class), config, *checkpoint, train, dev), inputs

    def prediction(self, args: argparse.Namespace) -> family.Prediction:
        """Checks the model and the sets. Raises InputError if they cannot be used."""
        config = read_config(self.prediction_config, args)
        family.check_device(config.device, *self.packages)
        from parapet.evaluation.models.systems.data import read_source

        module = import_module(f"parapet.evaluation.models.{self.learner_class.partition(':')[0]}")
        module.check(config.model)
        from parapet.evaluation.sets import open_reference

        plan = family.plan_sets(args)
        corpus = str(open_reference(plan.reference)[0])
        read_source(corpus, plan.split, config.knowledge_base)
        own = {"reference": corpus, "split": plan.split, "sets": plan.sets, "inputs": plan.files}
        files = [("--sets", file.path) for file in plan.files]
        return family.Prediction(
            job=family.make_job(module.Job, config, self.model, knowledge_base=config.knowledge_base, **own),
            header=plan.header(self.model, config.model),
            inputs=[("--model", config.model), ("--reference", plan.reference), *files],
            asked="asked",
            answered="answered",
            outputs=tuple(family.Output(f"predictions/{name}", f"frames/{name}", "frame") for name in plan.sets),
            warnings=WARNINGS,
        )


# The settings of SOLOIST's training scripts.
SCRIPTS: Preset = {
    "learning_rate": 5e-5,
    "schedule": "linear",
    "warmup": 0,
    "weight_decay": 0,
    "keep": "last",
    "consistency": 0.33,
}


class Soloist(System):
    """SOLOIST, a fine-tuned language model."""

    config = SoloistConfig
    learner_class = "systems.soloist:SoloistLearner"
    description = """\
Fine-tunes a GPT-2 to write a dialogue's belief state and, after the database's result, the delexicalised response
(Peng et al. 2021, SOLOIST)."""
    example = """\
  parapet train soloist --checkpoint gpt2 --output my_model
  parapet train soloist --preset raddle --checkpoint gpt2 --output my_model"""
    packages = ("transformers",)
    recorded = ("torch", "transformers")
    # RADDLE (Peng et al. 2021), section 5, trains GPT-2 and SOLOIST alike: Adam from 5e-5, batches of one, 20 epochs.
    # What it does not specify follows SOLOIST's scripts, and so does the pre-training.
    presets: Mapping[str, Preset] = {
        "raddle": {"epochs": 20, "batch_size": 1, **SCRIPTS},
        "soloist": {"steps": 500_000, "batch_size": 20, **SCRIPTS},
    }


# config.py of the authors' code, without data augmentation, as in its README.
AUTHORS: Preset = {
    "epochs": 100,
    "patience": 5,
    "batch_size": 128,
    "learning_rate": 0.005,
    "schedule": "plateau",
    "clip": 5,
    "vocabulary": 3000,
    "min_count": 1,
    "embedding": 50,
    "hidden": 100,
}


class Damd(System):
    """DAMD: GRUs trained from scratch."""

    config = DamdConfig
    learner_class = "systems.damd:DamdLearner"
    description = """\
Trains DAMD (Zhang, Ou and Yu 2020) from scratch: GRUs that write belief states, acts and delexicalised responses, and
can copy unknown words."""
    example = """\
  parapet train damd --output my_model       # the sample
  parapet train damd --preset raddle --held_out 0.1 --output my_model"""
    # RADDLE's settings are for pre-trained models, so "raddle" uses the settings of DAMD's authors.
    presets: Mapping[str, Preset] = {"raddle": AUTHORS, "damd": AUTHORS}
