"""What all families of models share: their flags, what is read, and what a training and a prediction are made of.

A family is a subclass of :class:`Family` that holds what is its own: configurations, descriptions, and functions that
turn them into a :class:`Training` and a :class:`Prediction`. ``parapet train`` and ``parapet predict`` run these, and
know nothing of any family.
"""

from __future__ import annotations

import argparse
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from parapet.evaluation.models.configs import CorpusTraining, PerturbedTraining, PredictionConfig, TrainingConfig
from parapet.pipelines.config_flags import Option, add_flags, content_options, read_config
from parapet.pipelines.flags import Parser, add_output
from parapet.pipelines.models.presets import Preset, TrainingParser
from parapet.pipelines.sets import add_sets, sources_of
from parapet.schemas.errors import InputError, run_header
from parapet.schemas.layout import as_path, sample_root

if TYPE_CHECKING:
    from parapet.evaluation.dst.model import Set
    from parapet.evaluation.models.examples import Examples, Versions
    from parapet.evaluation.models.inference import DialogueFile, Job
    from parapet.evaluation.models.training import Learner

    JobType = TypeVar("JobType", bound=Job[Any, Any, Any])

Row = TypeVar("Row")
Inputs = list[tuple[str, str]]  # (flag, path) of files that are read

RESUMED = """\
OUT/.training has the state after each epoch, or after each --eval_steps: a training that was stopped resumes when the
same command is run again, and ends with the same model."""


class Training(msgspec.Struct, frozen=True, kw_only=True):
    """A training, ready to start.

    Attributes:
      options: the flags that shape the content, for ``run.json``.
      packages: those whose versions the result depends on.
      config: how it is trained; None for a model that learns nothing by epochs, which has ``files`` instead.
      learner: makes the model with its data.
      files: of a model that learns nothing by epochs: path to content.
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
    """An output of a prediction, for its summary.

    Attributes:
      path: below the output folder.
      count: the name of the count that it is summed up with, as ``KIND/NAME``; ``unit`` what is counted.
      also: (name of a second count, what it counts), if any.
    """

    path: str
    count: str
    unit: str
    also: tuple[str, str] | None = None


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """A prediction, ready to start.

    Attributes:
      header: what ``run.json`` says besides files and counts.
      inputs: the files that workers read.
      asked, answered: the kinds of counts that must be equal.
      outputs: for the summary.
      warnings: for the summary: a kind of count to (unit, message); ``{n}`` is replaced by the count.
      notes: further lines of the summary.
      plan: what ``--dry_run`` prints; nothing without it.
      cost: the dollars for tokens that are sent and answered; None where none are counted.
    """

    job: Job[Any, Any, Any]  # of files, chunks and a model of its own
    header: Mapping[str, object]
    inputs: Inputs
    asked: str
    answered: str
    outputs: tuple[Output, ...]
    warnings: dict[str, tuple[str, str]] = {}
    notes: tuple[str, ...] = ()
    plan: tuple[str, ...] = ()
    cost: Callable[[int, int], float] | None = None


class Family(ABC):
    """A family of models.

    Args:
      model: the name of the one that is trained or predicts.

    Attributes:
      config, prediction_config: their fields are the flags of ``parapet train`` and ``parapet predict``.
      learner_class: of a model that is trained by epochs or steps, see :func:`load_class`.
      sets: the texts of the flags that name corpora to predict for, see :func:`add_sets`; None where there are none.
      description, example: of ``parapet train``.
      predict_description, predict_example: of ``parapet predict``.
      presets: by name; a table of flags and values that ``--preset`` adds to the command line.
      packages: that are needed besides torch and safetensors; ``recorded`` those whose versions ``run.json`` has.
    """

    config: type[msgspec.Struct]
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
        """The command line of ``parapet train MODEL``."""
        is_resumable = issubclass(self.config, TrainingConfig)
        name, note = f"train {self.model}", RESUMED if is_resumable else ""
        parser = TrainingParser(name, self.description, self.example, note, self.presets, self.preset_row)
        add_flags(parser, self.config, "training" if is_resumable else "input")
        add_output(parser)
        return parser

    def preset_row(self, args: argparse.Namespace) -> Preset:
        """Further flags of ``--preset`` that depend on others, as on the files. Raises InputError where these lack."""
        return {}

    def training(self, args: argparse.Namespace) -> Training:
        """Reads what is trained on. Raises InputError for flags and files that cannot work."""
        from parapet.evaluation.models.saving import check_installed, device_of

        config = self.check(args)
        checkpoint = self.checkpoint(config)
        check_installed("torch", "safetensors", *(self.packages if checkpoint else ()))
        config = msgspec.structs.replace(config, device=device_of(config.device).type)
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
        """The configuration of a training. Raises InputError for flags that cannot work."""
        return read_config(self.config, args)

    def checkpoint(self, config: Any) -> Any:
        """What the model begins with; None for nothing. Raises InputError where it cannot."""
        from parapet.evaluation.models.saving import BY_MODEL
        from parapet.transforms.storage.checkpoints import inspect

        place = getattr(config, "checkpoint", None)
        return inspect(place, BY_MODEL[self.model], "--checkpoint") if place else None

    def learner(self, config: Any, *checkpoint: Any) -> tuple[Callable[[], Learner], Inputs]:
        """What makes the model with its data, and the files that these were read from. Raises InputError."""
        raise NotImplementedError

    def predict_parser(self) -> Parser:
        """The command line of ``parapet predict MODEL``."""
        parser = Parser(f"predict {self.model}", self.predict_description, self.predict_example)
        add_flags(parser, self.prediction_config, "input", name=self.model)
        if self.sets is not None:
            add_sets(parser, **self.sets)
        return parser

    @abstractmethod
    def prediction(self, args: argparse.Namespace) -> Prediction:
        """Looks at the model and the files. Raises InputError for what cannot work."""


def load_class(name: str) -> Any:
    """A class of :mod:`parapet.evaluation.models`, as ``MODULE:CLASS``: most import torch, which help does not need."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"parapet.evaluation.models.{module}"), attribute)


# Training: what the flags name.


def read_sets(
    config: CorpusTraining, read: Callable[[str, str], Examples[Row]], dialogue: Callable[[Row], str]
) -> tuple[list[Row], list[Row], Inputs]:
    """The examples to learn from, those that choose the best epoch, and the files that they were read from.

    Args:
      config: names them.
      read: (a corpus, a split) to its examples.
      dialogue: identifies the dialogue of an example, for ``--held_out``.

    Raises:
      InputError: a corpus cannot be read or has nothing to learn.
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
    """The corpora to train on."""
    return config.train or [str(sample_root())]


def read_versions(
    config: PerturbedTraining,
    reader_of: Callable[[str, str], Callable[[dict[str, Any]], list[Row]]],
    dialogue: Callable[[Row], str],
) -> Versions[Row] | None:
    """The dialogues of ``--train`` as ``--perturb`` varies them in each epoch; None without it.

    Args:
      config: names them, once :func:`read_sets` has read them.
      reader_of: (a corpus, a split) to what gives the examples of a dialogue.
      dialogue: see :func:`read_sets`.

    Raises:
      InputError: a flag or a perturbation cannot be used.
    """
    from parapet.evaluation.models.examples import Versions, is_held_out, readable

    if config.perturb is None:
        if config.adversarial > 1:
            raise InputError("requires --perturb, which names the perturbations: add it", "--adversarial")
        return None
    dialogues = [
        example
        for root in roots(config)
        for example in readable(root, config.split, reader_of(root, config.split))
        if config.held_out is None or not is_held_out(config.held_out, config.seed, dialogue(example.rows[0]))
    ]
    return Versions(dialogues, config.perturb, config.perturb_share, config.adversarial, config.seed)


# Prediction: what the flags name.


def make_job(kind: type[JobType], config: PredictionConfig, model: str, **own: object) -> JobType:
    """The job of a prediction: what all jobs have from the flags, and its ``own`` fields."""
    shared = {name: getattr(config, name) for name in ("output", "device", "threads", "batch_size")}
    return kind(**{**shared, "model": model, "folder": config.model, **own})


def check_device(name: str, *packages: str) -> None:
    """Raises InputError where torch, another package or the GPU that is requested is missing."""
    from parapet.evaluation.models import saving

    saving.check_installed("torch", "safetensors", *packages)
    saving.check_device(name)


class PlannedSets(NamedTuple):
    """The sets of dialogues that are predicted, of a ``split`` of a corpus, and the files of their dialogues."""

    reference: str
    split: str
    sets: dict[str, Set]
    files: tuple[DialogueFile, ...]

    def header(self, model: str, folder: str, **options: Option) -> dict[str, object]:
        """What ``run.json`` says besides files and counts.

        Args:
          model: its name; ``folder`` where it is.
          options: that shape the content, besides the sets.
        """
        inputs = [{"set": file.set, **named_digest(file.path)} for file in self.files]
        header = run_header(f"predict_{model}", {"split": self.split, "sets": list(self.sets), **options})
        return {**header, "model": digest_of_model(folder), "inputs": inputs}


def plan_sets(args: argparse.Namespace) -> PlannedSets:
    """Finds the sets that the flags name, for models that write dialogues with states.

    Raises:
      InputError: something is missing, or the output is one of them.
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
    """The name and the SHA-256 of a file."""
    from parapet.evaluation.task import sha256_of

    return {"name": as_path(path).name, "sha256": sha256_of(as_path(path))}


def digest_of_model(folder: str) -> dict[str, str]:
    """The SHA-256 of a model's own ``run.json``, which has those of all of its files; empty where it has none."""
    from parapet.schemas.layout import MANIFEST

    path = as_path(folder) / MANIFEST
    return {path.name: named_digest(str(path))["sha256"]} if path.is_file() else {}
