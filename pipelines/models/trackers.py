"""The models of dialogue states: tiny_dst, t5dst, sgp_dst."""

from __future__ import annotations

import argparse
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from parapet.pipelines.flags import Parser, StrictParser
from parapet.pipelines.models.family import (
    CORPORA,
    ROBUST,
    TRAINING,
    Defaults,
    Family,
    Output,
    Prediction,
    Training,
    add_checkpoint,
    add_corpora,
    add_robust,
    add_training,
    check_device,
    check_numbers,
    check_range,
    config_of,
    device_to_train_on,
    header_of_sets,
    job_of,
    options_of,
    plan_sets,
    read_checkpoint,
    read_sets,
    read_versions,
)
from parapet.pipelines.sets import add_sets
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from parapet.evaluation.models.dst.data import Labelled
    from parapet.evaluation.models.dst.fine_tuning import FineTuning
    from parapet.evaluation.models.dst.sgp.learning import Config, SgpLearner
    from parapet.evaluation.models.dst.t5.learning import T5Learner
    from parapet.evaluation.models.robust import Versions
    from parapet.evaluation.models.training import Learner
    from parapet.pipelines.models.family import Inputs
    from parapet.pipelines.models.presets import Preset

PREDICT = """\
Writes dialogues with predicted states, in the SGD format: OUT/predictions/original/SPLIT/...,
OUT/predictions/v1/SPLIT/..., for 'parapet evaluate --task dst'."""

FINE_TUNING = ("max_length", "negatives", "dev_frames")


def read_frames(args: argparse.Namespace) -> tuple[list[Labelled], list[Labelled], Inputs]:
    """The frames to learn from, those that choose the best epoch, and the files that they were read from."""
    from parapet.evaluation.models.dst.data import Openings, read_labels

    return read_sets(args, read_labels, Openings())


def versions_of(args: argparse.Namespace) -> Versions[Labelled] | None:
    """The dialogues to learn from, as ``--perturb`` varies them; None without it."""
    from parapet.evaluation.models.dst.data import Openings, reader_of

    return read_versions(args, reader_of, Openings())


class Tracker(Family):
    """A model of dialogue states."""

    predict_description = PREDICT
    batch = (64, "examples")

    @property
    def predict_example(self) -> str:  # type: ignore[override]
        """With the name of the model."""
        return (
            f"  parapet predict {self.model} --model my_model --reference my_corpus --variants my_dialogues "
            "--output my_states\n"
            "  parapet evaluate --task dst --reference my_corpus --variants my_dialogues \\\n"
            "      --predictions my_states/predictions --output my_scores"
        )

    def add_predict_flags(self, parser: Parser) -> None:
        """Those of the sets."""
        add_sets(parser)

    def prediction(self, args: argparse.Namespace) -> Prediction:
        """Looks at the model and the sets. Raises InputError for what cannot work."""
        from parapet.evaluation.models.dst.inference import Job, check

        check_numbers(args)
        check_device(args)
        check(args.model, self.model)
        plan = plan_sets(args)
        text = "{n} longer than the model's --max_length: the oldest part of the dialogue was cut off"
        return Prediction(
            job=job_of(Job, args, self.model, sets=plan.sets, inputs=plan.files),
            header=header_of_sets(self.model, args.model, plan),
            inputs=[("--model", args.model), *(("--reference", file.path) for file in plan.files)],
            asked="asked",
            answered="predicted",
            outputs=tuple(Output(f"predictions/{name}", f"predicted/{name}", "frame") for name in plan.sets),
            warnings={"too_long": ("input", text)},
        )


class TinyDst(Tracker):
    """The small net."""

    description = """\
Trains a small net that compares possible values in the dialogue with the schema's descriptions of slots: from scratch,
in minutes on a CPU."""
    example = """\
  parapet train tiny_dst --output my_model                                       # on the bundled sample
  parapet train tiny_dst --train sets/oracle --dev sgd --output my_model         # on a set of 'parapet augment'"""

    def add_train_flags(self, parser: StrictParser) -> None:
        """Corpora, and the size of the net."""
        add_corpora(parser)
        defaults = Defaults(epochs=20, patience=8, batch=4, rate=0.005, unit="dialogues", schedule="linear", clip=1.0)
        add = add_training(parser, defaults)
        add("--size", type=int, default=64, metavar="N", help="size of the embeddings")
        add_robust(add)

    def training(self, args: argparse.Namespace) -> Training:
        """Reads what is trained on. Raises InputError for flags and files that cannot work."""
        check_numbers(args, {"size": 1})
        device = device_to_train_on(args)
        from parapet.evaluation.models.dst.tiny.learning import Config, TinyLearner
        from parapet.evaluation.models.dst.tiny.tracking import LARGEST

        if args.size > LARGEST:
            raise InputError(f"{args.size}: give {LARGEST} or less", "--size")
        train, dev, inputs = read_frames(args)
        config = config_of(Config, args, device=device)
        return Training(
            model=self.model,
            output=args.output,
            options=options_of(args, (*TRAINING, *CORPORA, *ROBUST, "size"), device=device),
            inputs=inputs,
            packages=("torch",),
            config=config,
            learner=partial(TinyLearner, config, train, dev, versions_of(args)),
        )


class FineTuned(Tracker):
    """A tracker that fine-tunes a checkpoint.

    Attributes:
      checkpoint: what ``--checkpoint`` is.
      defaults: of the training; ``max_length`` of this flag.
      adversarial: whether it takes the flags of adversarial training, too.
      options: flags that shape the content, besides those that all have.
      packages: that are needed besides torch and transformers.
    """

    checkpoint: str
    defaults: Defaults
    max_length: int
    adversarial = True
    options: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    def add_train_flags(self, parser: StrictParser) -> None:
        """A checkpoint, corpora, and how it is fine-tuned."""
        add_checkpoint(parser, self.checkpoint)
        add_corpora(parser)
        add = add_training(parser, self.defaults)
        text = "maximum number of tokens of an input; longer dialogues lose their oldest part"
        add("--max_length", rare=True, type=int, default=self.max_length, metavar="N", help=text)
        text = "share of inputs without a value to use"
        add("--negatives", type=float, default=1.0, metavar="X", help=text)
        text = "number of dev frames, drawn at random, that select the best epoch; 0 for all"
        add("--dev_frames", rare=True, type=int, default=1000, metavar="N", help=text)
        add_robust(add, self.adversarial)

    @abstractmethod
    def fine_tuning(self, args: argparse.Namespace, device: str) -> tuple[FineTuning, Callable[..., Learner]]:
        """The config, and the class of the learner."""

    def training(self, args: argparse.Namespace) -> Training:
        """Reads what is trained on. Raises InputError for flags and files that cannot work."""
        check_numbers(args, {"max_length": 16, "max_output": 2, "dev_frames": 0})
        check_range(args, "negatives")
        checkpoint = read_checkpoint(args, self.model)
        device = device_to_train_on(args, "transformers", *self.packages)
        train, dev, inputs = read_frames(args)
        config, learner = self.fine_tuning(args, device)
        return Training(
            model=self.model,
            output=args.output,
            options=options_of(args, (*TRAINING, *CORPORA, *ROBUST, *FINE_TUNING, *self.options), device=device),
            inputs=inputs,
            packages=("torch", "transformers"),
            checkpoint=args.checkpoint,
            config=config,
            learner=partial(learner, config, checkpoint, train, dev, versions_of(args)),
        )


class T5Dst(FineTuned):
    """A T5 that is prompted for one slot at a time."""

    description = """\
Fine-tunes a T5 that is prompted for one slot of a service at a time (Lee, Cheng and Ostendorf 2021)."""
    example = """\
  hf download google-t5/t5-small --local-dir t5-small
  parapet train t5dst --checkpoint t5-small --train my_corpus --negatives 0.2 --output my_model"""
    checkpoint = "T5 to start from: t5, mt5, umt5 or longt5"
    defaults = Defaults(3, 2, 32, 1e-4, "prompts", "AdamW", schedule="linear", clip=1.0)
    max_length = 512
    packages = ("sentencepiece",)
    options = ("max_output", "prompts", "answers", "equal_values")
    # Of Lee et al. 2022, Appendix A; what it leaves open is as in the code of Lee, Cheng and Ostendorf.
    presets: Mapping[str, Preset] = {
        "sgdx": {
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
    }

    def add_train_flags(self, parser: StrictParser) -> None:
        """Those of fine-tuning, and what is asked and answered."""
        super().add_train_flags(parser)
        add = parser.group("training")
        text = "maximum number of tokens of an answer, in training and prediction"
        add("--max_output", rare=True, type=int, default=64, metavar="N", help=text)
        text = "what is predicted: values of slots alone, or the active intent and the requested slots, too"
        add("--prompts", rare=True, choices=("all", "slots"), default="all", help=text)
        text = "an answer that is no possible value: read as the nearest one, or taken as it is"
        add("--answers", rare=True, choices=("nearest", "raw"), default="nearest", help=text)
        text = "which of a slot's equal values is learned: the one said last, or a random one"
        add("--equal_values", rare=True, choices=("last", "random"), default="last", help=text)

    def fine_tuning(self, args: argparse.Namespace, device: str) -> tuple[FineTuning, type[T5Learner]]:
        """See the base class."""
        from parapet.evaluation.models.dst.t5.learning import Config, T5Learner

        return config_of(Config, args, device=device), T5Learner


class SgpDst(FineTuned):
    """Four BERT encoders and the rules that combine them."""

    description = "Fine-tunes four BERT encoders, which rules combine (Ruan et al. 2020)."
    example = """\
  hf download google-bert/bert-base-cased --local-dir bert
  parapet train sgp_dst --checkpoint bert --train my_corpus --output my_model"""
    checkpoint = "BERT to start from: bert, distilbert, electra or roberta"
    defaults = Defaults(3, 2, 32, 2e-5, "inputs", "BertAdam", schedule="linear", warmup=0.1, clip=1.0)
    max_length = 256
    adversarial = False
    options = ("module_epochs", "module_warmup", "module_negatives")
    # Appendix A of SGD-X, beside the defaults, which are the paper's too. It does not say how many inputs without an
    # answer are used: as in the authors' code.
    presets: Mapping[str, Preset] = {
        "sgdx": {
            "epochs": 1,
            "module_epochs": "combine=3",
            "module_warmup": "copy_slot=0.7",
            "negatives": 0.3,
            "module_negatives": "copy_slot=0.1,cross_copy=0.01",
            "keep": "last",
        }
    }

    def add_train_flags(self, parser: StrictParser) -> None:
        """Those of fine-tuning, and those of modules."""
        super().add_train_flags(parser)
        add = parser.group("training")
        for name in ("epochs", "warmup", "negatives"):
            text = f"--{name} of modules that have others than the rest, comma-separated"
            add(f"--module_{name}", rare=True, default="", metavar="MODULE=N", help=text)

    def fine_tuning(self, args: argparse.Namespace, device: str) -> tuple[Config, type[SgpLearner]]:
        """See the base class."""
        from parapet.evaluation.models.dst.sgp.learning import SgpLearner

        return self.config(args, device), SgpLearner

    def config(self, args: argparse.Namespace, device: str) -> Config:
        """How the flags train it. Raises InputError for flags of modules that cannot be."""
        from parapet.evaluation.models.dst.sgp.learning import Config
        from parapet.evaluation.models.dst.sgp.rules import KINDS

        own = by_module(args.module_epochs, "--module_epochs", KINDS, 1, 1000)
        epochs = {module: int(own.get(module, args.epochs)) for module in KINDS} if args.epochs else {}
        return config_of(
            Config,
            args,
            device=device,
            epochs=max(epochs.values(), default=None),
            clip=0.0,
            tensor_clip=args.clip,
            module_epochs=epochs,
            module_warmup=by_module(args.module_warmup, "--module_warmup", KINDS, 0, 1),
            module_negatives=by_module(args.module_negatives, "--module_negatives", KINDS, 0, 1),
        )


def by_module(text: str, flag: str, modules: Sequence[str], least: int, most: int) -> dict[str, float]:
    """Numbers of modules, from ``MODULE=NUMBER,...``.

    Args:
      text: the value of the flag.
      flag: for messages.
      modules: that there are.
      least: the smallest number, ``most`` the largest one; where ``most`` is above 1, numbers are whole.

    Raises:
      InputError: it is something else.
    """
    numbers: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        module, _, number = (one.strip() for one in part.partition("="))
        try:
            numbers[module] = int(number) if most > 1 else float(number)
        except ValueError:
            raise InputError(f"{part!r}: give MODULE=N, comma-separated, such as {modules[1]}={most}", flag) from None
        if module not in modules:
            raise InputError(f"{module!r} is no module: there are {', '.join(modules)}", flag)
        if not least <= numbers[module] <= most:
            raise InputError(f"{part}: give a number from {least} to {most}", flag)
    return numbers
