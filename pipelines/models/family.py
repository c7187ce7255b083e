"""The base class of all families of models, with their flags, and the trainings and predictions that they define.

A subclass of :class:`Family` holds the configurations and descriptions of its models, and functions that turn flags
into a :class:`Training` and a :class:`Prediction`. ``parapet train`` and ``parapet predict`` run these without knowing
any family.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from parapet.evaluation.models.configs import CorpusTraining, PredictionConfig, TrainingConfig
from parapet.pipelines.app import Option, add_flags, content_options, read_config
from parapet.pipelines.flags import Parser, add_output
from parapet.pipelines.models.presets import Preset, TrainingParser
from parapet.pipelines.sets import add_sets, sources_of
from parapet.schemas.errors import InputError, run_header
from parapet.schemas.layout import as_path, sample_root

if TYPE_CHECKING:
    from parapet.evaluation.dst.model import Set
    from parapet.evaluation.models.examples import Examples
    from parapet.evaluation.models.inference import DialogueFile, Job
    from parapet.evaluation.models.training import Learner

    JobType = TypeVar("JobType", bound=Job[Any, Any, Any])

Row = TypeVar("Row")
Inputs = list[tuple[str, str]]  # (flag, path) of files that are read

RESUMED = """\
OUT/.training has the state after each epoch, or after each --eval_steps: a training that was stopped resumes when the
same command is run again, and ends with the same model."""


class Training(msgspec.Struct, frozen=True, kw_only=True):
    """A training that is ready to start.

    Attributes:
      options: the flags that determine the content, for ``run.json``.
      packages: the packages whose versions the result depends on.
      config: how to train; None for a model that is not trained by epochs, which has ``files`` instead.
      learner: makes the model with its data.
      files: path to content, for a model that is not trained by epochs.
    """

    model: str
    output: str
    options: dict[str, Option]
    inputs: Inputs
    packages: tuple[str, ...] = ()
    checkpoint: str | None = None
    config: TrainingConfig | None = None
    learner: Callable[[], Learner] | None = None
    files: dict[str, bytes] = {}


class Output(msgspec.Struct, frozen=True):
    """An output of a prediction, for the summary.

    Attributes:
      path: the path below the output folder.
      count: the name of its count, as ``KIND/NAME``; ``unit`` is the unit of the count.
      also: (name, unit) of a second count, if any.
    """

    path: str
    count: str
    unit: str
    also: tuple[str, str] | None = None


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """A prediction that is ready to start.

    Attributes:
      header: the part of ``run.json`` other than files and counts.
      inputs: the files that workers read.
      asked, answered: the kinds of counts that must be equal.
      outputs: the outputs, for the summary.
      warnings: for the summary: a kind of count to (unit, message); ``{n}`` is replaced by the count.
      notes: further lines of the summary.
      plan: the lines that ``--dry_run`` prints; empty otherwise.
      cost: computes the dollars for tokens sent and answered; None if tokens are not counted.
      max_bad: the share of requests to a language model that may be refused.
    """

    job: Job[Any, Any, Any]  # each kind of job has its own types of files, chunks and models
    header: Mapping[str, object]
    inputs: Inputs
    asked: str
    answered: str
    outputs: tuple[Output, ...]
    warnings: dict[str, tuple[str, str]] = {}
    notes: tuple[str, ...] = ()
    plan: tuple[str, ...] = ()
    cost: Callable[[int, int], float] | None = None
    max_bad: Fraction = Fraction(0)


class Family(ABC):
    """A family of models.

    Args:
      model: the name of the model to train or to predict with.

    Attributes:
      config, prediction_config: their fields are the flags of ``parapet train`` and ``parapet predict``.
      learner_class: for a model that is trained by epochs or steps, see :func:`load_class`.
      sets: the help texts of the flags that name corpora to predict, see :func:`add_sets`; None without such flags.
      description, example: for the help of ``parapet train``.
      predict_description, predict_example: for the help of ``parapet predict``.
      presets: by name; each is a table of flags and values that ``--preset`` adds to the command line.
      packages: required packages besides torch and safetensors; ``recorded`` are those whose versions go into
        ``run.json``.
    """

    config: type[Any]
    learner_class: str
    prediction_config: type[PredictionConfig]
    sets: Mapping[str, Any] | None = {}
    description: str
    example: str
    predict_description: str
    predict_example: str
    presets: Mapping[str, Preset] = {}
    packages: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ("torch",)

    def __init__(self, model: str) -> None:
        self.model = model

    def train_parser(self) -> TrainingParser:
        """Builds the command line of ``parapet train MODEL``."""
        is_resumable = issubclass(self.config, TrainingConfig)
        name, note = f"train {self.model}", RESUMED if is_resumable else ""
        parser = TrainingParser(name, self.description, self.example, note, self.presets, self.preset_row)
        add_flags(parser, self.config, "training" if is_resumable else "input")
        add_output(parser)
        return parser

    def preset_row(self, args: argparse.Namespace) -> Preset:
        """Returns flags of ``--preset`` that depend on other flags, such as the files.

        Raises InputError if these are missing.
        """
        return {}

    def training(self, args: argparse.Namespace) -> Training:
        """Reads the training data. Raises InputError for flags and files that cannot be used."""
        from parapet.evaluation.models.saving import check_installed, device_of

        config = self.check(args)
        checkpoint = self.checkpoint(config)
        check_installed("torch", "safetensors", *(self.packages if checkpoint else ()))
        config = dataclasses.replace(config, device=device_of(config.device).type)
        learner, inputs = self.learner(config, *([checkpoint] if checkpoint else []))
        preset = {"preset": args.preset} if self.presets else {}
        return Training(
            model=self.model,
            output=args.output,
            options=dict(sorted((preset | content_options(config)).items())),
            inputs=inputs,
            packages=self.recorded,
            checkpoint=getattr(config, "checkpoint", None),
            config=config,
            learner=learner,
        )

    def check(self, args: argparse.Namespace) -> Any:
        """Reads the configuration of a training. Raises InputError for flags that cannot be used."""
        return read_config(self.config, args)

    def checkpoint(self, config: Any) -> Any:
        """Opens the checkpoint to start from; None without one. Raises InputError if it cannot be used."""
        from parapet.evaluation.models.saving import BY_MODEL
        from parapet.transforms.storage.checkpoints import inspect

        place = getattr(config, "checkpoint", None)
        return inspect(place, BY_MODEL[self.model], "--checkpoint") if place else None

    def learner(self, config: Any, *checkpoint: Any) -> tuple[Callable[[], Learner], Inputs]:
        """Returns a function that makes the model with its data, and the files read.

        Raises InputError for unusable files.
        """
        raise NotImplementedError

    def predict_parser(self) -> Parser:
        """Builds the command line of ``parapet predict MODEL``."""
        parser = Parser(f"predict {self.model}", self.predict_description, self.predict_example)
        add_flags(parser, self.prediction_config, "input", name=self.model)
        if self.sets is not None:
            add_sets(parser, **self.sets)
        return parser

    @abstractmethod
    def prediction(self, args: argparse.Namespace) -> Prediction:
        """Checks the model and the files. Raises InputError if they cannot be used."""


def load_class(name: str) -> Any:
    """Imports a class of :mod:`parapet.evaluation.models`, as ``MODULE:CLASS``; most of these modules import torch."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"parapet.evaluation.models.{module}"), attribute)


# Training: reading what the flags name.


def read_sets(
    config: CorpusTraining, read: Callable[[str, str], Examples[Row]], dialogue: Callable[[Row], str]
) -> tuple[list[Row], list[Row], Inputs]:
    """Reads the examples to learn from, those that choose the best epoch, and the list of files read.

    Args:
      config: names the corpora.
      read: reads the examples of (a corpus, a split).
      dialogue: identifies the dialogue of an example, for ``--held_out``.

    Raises:
      InputError: a corpus cannot be read or has no examples.
    """
    from parapet.evaluation.models.examples import held_out

    if config.held_out is not None and config.dev:
        raise InputError(
            "give only one of the two: dialogues that choose the best epoch, or a share of the training dialogues",
            "--dev, --held_out",
        )
    corpora = [read(root, config.split) for root in roots(config)]
    train = [row for corpus in corpora for row in corpus.rows]
    inputs = [("train", path) for corpus in corpora for path in corpus.paths]
    if config.held_out is None:
        chosen_by = read(config.dev or roots(config)[0], config.dev_split)
        return train, chosen_by.rows, inputs + [("dev", path) for path in chosen_by.paths]
    train, dev = held_out(train, config.held_out, config.seed, dialogue)
    if not train or not dev:
        raise InputError(f"{config.held_out}: there are too few dialogues, one part would be empty", "--held_out")
    return train, dev, inputs


def roots(config: CorpusTraining) -> list[str]:
    """Lists the corpora to train on."""
    return config.train or [str(sample_root())]


# Prediction: reading what the flags name.


def make_job(kind: type[JobType], config: PredictionConfig, model: str, **own: object) -> JobType:
    """Makes the job of a prediction from the flags that all jobs share, and its ``own`` fields."""
    shared = {name: getattr(config, name) for name in ("output", "device", "threads", "batch_size")}
    return kind(**{**shared, "model": model, "folder": config.model, **own})


def check_device(name: str, *packages: str) -> None:
    """Raises InputError if torch, another package or the requested GPU is missing."""
    from parapet.evaluation.models import saving

    saving.check_installed("torch", "safetensors", *packages)
    saving.check_device(name)


class PlannedSets(NamedTuple):
    """The sets of dialogues to predict, from one ``split`` of a corpus, and their files."""

    reference: str
    split: str
    sets: dict[str, Set]
    files: tuple[DialogueFile, ...]

    def header(self, model: str, folder: str, **options: Option) -> dict[str, object]:
        """Makes the part of ``run.json`` other than files and counts.

        Args:
          model: the name of the model; ``folder`` is its folder.
          options: options that determine the content, besides the sets.
        """
        inputs = [{"set": file.set, **named_digest(file.path)} for file in self.files]
        header = run_header(f"predict_{model}", {"split": self.split, "sets": list(self.sets), **options})
        return {**header, "model": digest_of_model(folder), "inputs": inputs}


def plan_sets(args: argparse.Namespace) -> PlannedSets:
    """Lists the sets that the flags name, for models that write dialogues with states.

    Raises:
      InputError: a set is missing, or the output is one of the sets.
    """
    from parapet.evaluation.dst.model import make_plan
    from parapet.evaluation.models.inference import DialogueFile

    sources = sources_of(args)
    plan = make_plan(sources)
    for remark in plan.remarks:
        logging.warning("%s", remark)
    files = tuple(
        DialogueFile(member.set, member.reference, f"predictions/{member.set}/{sources.split}/{job.name}")
        for job in plan.jobs
        for member in job.members
    )
    return PlannedSets(sources.reference, sources.split, plan.sets, files)


def named_digest(path: str) -> dict[str, str]:
    """Returns the name and the SHA-256 of a file."""
    from parapet.evaluation.task import sha256_of

    return {"name": as_path(path).name, "sha256": sha256_of(as_path(path))}


def digest_of_model(folder: str) -> dict[str, str]:
    """Returns the SHA-256 of the model's ``run.json``, which lists the hashes of its files; empty if there is none."""
    from parapet.schemas.layout import MANIFEST

    path = as_path(folder) / MANIFEST
    return {path.name: named_digest(str(path))["sha256"]} if path.is_file() else {}
