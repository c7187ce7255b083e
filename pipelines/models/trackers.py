"""The models of dialogue states: t5dst, sgp_dst, sgd_baseline."""

from __future__ import annotations

from typing import Any

from parapet.evaluation.models.configs import SgdBaselineConfig, SgpDstConfig, T5DstConfig
from parapet.pipelines.corpora import SetOptions
from parapet.pipelines.models import family

WARNINGS = {
    "too_long": ("input", "{n} longer than the model's --max_length: the oldest part of the dialogue was cut off"),
}


class TrainTracker(family.TrainOnCorpora):
    """A training of a model of dialogue states."""

    def data(self, *checkpoint: Any) -> tuple[list[Any], family.Inputs]:
        """Reads the frames of the corpora."""
        from parapet.evaluation.models.dst.data import Openings, read_labels

        train, dev, inputs = self.read_sets(read_labels, Openings())
        return [*checkpoint, train, dev], inputs


class T5Dst(T5DstConfig, TrainTracker):
    """A T5 that is prompted for one slot at a time."""

    learner_class = "dst.t5:T5Learner"
    description = """\
Fine-tunes a T5 that is prompted for one slot of a service at a time (Lee, Cheng and Ostendorf 2021)."""
    example = family.FINE_TUNING
    packages = ("transformers", "sentencepiece")
    # Lee et al. 2022, Appendix A; what it does not specify follows the code of Lee, Cheng and Ostendorf.
    preset: str | None = family.preset(
        sgdx={
            "steps": 50_000,
            "batch_size": 16,
            "learning_rate": 1e-4,
            "schedule": "constant",
            "warmup": 0,
            "clip": 1,
            "keep": "last",
            "max_length": 512,
            "max_output": 256,
            "prompts": "slots",
            "answers": "raw",
            "equal_values": "random",
            "negatives": 1,
        }
    )


class SgpDst(SgpDstConfig, TrainTracker):
    """Four BERT encoders and the rules that combine them."""

    learner_class = "dst.sgp_learning:SgpLearner"
    description = "Fine-tunes four BERT encoders, which rules combine (Ruan et al. 2020)."
    example = family.FINE_TUNING
    # Appendix A of SGD-X, besides the defaults, which are the paper's, too. It does not specify how many inputs without
    # an answer are used; this follows the authors' code.
    preset: str | None = family.preset(
        sgdx={
            "epochs": 1,
            "module_epochs": "combine=3",
            "module_warmup": "copy_slot=0.7",
            "negatives": 0.3,
            "module_negatives": "copy_slot=0.1,cross_copy=0.01",
            "keep": "last",
        }
    )


class SgdBaseline(SgdBaselineConfig, TrainTracker):
    """A BERT encoder with small heads that compare a turn with the schema."""

    learner_class = "dst.sgd_baseline:BaselineLearner"
    description = """\
Fine-tunes a BERT encoder of the last two utterances, with small heads that compare them with fixed vectors of the
schema's elements (Rastogi et al. 2020)."""
    example = family.FINE_TUNING
    # The defaults are those of SGD-X (Appendix A of its earlier version), too: batches of 32, a learning rate of 1e-4,
    # five epochs. What it does not specify follows the authors' code.
    preset: str | None = family.preset(sgdx={"keep": "last"})


class PredictStates(SetOptions, family.PredictDialogues):
    """A prediction of dialogue states."""

    description = """\
Writes dialogues with predicted states: OUT/predictions/original, OUT/predictions/v1, ..., in the SGD format."""
    count_out, shown = "predicted", ("predicted", "frame")
    warnings = WARNINGS

    def check(self) -> family.Prediction:
        """Checks the model and the sets. Raises InputError if they cannot be used."""
        self.check_device()
        from parapet.evaluation.models.dst.data import Job, check

        check(self.model, self.model_name)
        return self.prediction(Job, self.sources())
