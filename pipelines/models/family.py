"""What all families of models share: their flags, what is read, and what a training and a prediction are made of.

A family is a subclass of :class:`Family` that holds what is its own: descriptions, further flags, and two functions
that turn the flags into a :class:`Training` and a :class:`Prediction`. ``parapet train`` and ``parapet predict`` run
these, and know nothing of any family.
"""

from __future__ import annotations

import argparse
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from parapet.pipelines.command import check_apart
from parapet.pipelines.flags import INPUT, RUNNING, Add, Parser, StrictParser, add_output, add_seed, add_split
from parapet.pipelines.models.presets import Preset, TrainingParser
from parapet.pipelines.sets import sources_of
from parapet.schemas.distribution import run_header
from parapet.schemas.errors import InputError
from parapet.schemas.layout import TRAIN, as_path, sample_root

if TYPE_CHECKING:
    from parapet.evaluation.dst.sets import Set
    from parapet.evaluation.models.examples import Examples
    from parapet.evaluation.models.inference import DialogueFile, Job
    from parapet.evaluation.models.robust import Versions
    from parapet.evaluation.models.training import Learner, TrainingConfig
    from parapet.transforms.checkpoints import Checkpoint

    Config = TypeVar("Config", bound=TrainingConfig)
    JobType = TypeVar("JobType", bound=Job[Any, Any, Any])

DEVICES = ("auto", "cpu", "cuda")
Row = TypeVar("Row")
Option = str | int | float | bool | None
Inputs = list[tuple[str, str]]  # (flag, path) of files that are read

RESUMED = """\
OUT/.training has the state after each epoch, or after each --eval_steps: a training that was stopped resumes when the
same command is run again, and ends with the same model."""


class Training(msgspec.Struct, frozen=True, kw_only=True):
    """A training, ready to start.

    Attributes:
      model: its name.
      output: the output folder.
      options: the flags that shape the content, for ``run.json``.
      inputs: the files that were read.
      packages: those whose versions the result depends on.
      checkpoint: the folder of the checkpoint that the model begins with; None for none.
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
      job: what is predicted.
      header: what ``run.json`` says besides files and counts.
      inputs: the files that workers read.
      asked, answered: the kinds of counts that must be equal.
      outputs: for the summary.
      warnings: for the summary: a kind of count to (unit, message); ``{n}`` is replaced by the count.
      notes: further lines of the summary.
    """

    job: Job[Any, Any, Any]  # of files, chunks and a model of its own
    header: Mapping[str, object]
    inputs: Inputs
    asked: str
    answered: str
    outputs: tuple[Output, ...]
    warnings: dict[str, tuple[str, str]] = {}
    notes: tuple[str, ...] = ()


class Family(ABC):
    """A family of models.

    Args:
      model: the name of the one that is trained or predicts.

    Attributes:
      description, example: of ``parapet train``.
      predict_description, predict_example: of ``parapet predict``.
      presets: by name; a table of flags and values that ``--preset`` adds to the command line.
      resumable: whether it is trained by epochs or steps.
      batch: the default of ``--batch_size`` when it predicts, and its unit.
    """

    description: str
    example: str
    predict_description: str
    predict_example: str
    presets: Mapping[str, Preset] = {}
    resumable = True
    batch: tuple[int, str]

    def __init__(self, model: str) -> None:
        self.model = model

    def train_parser(self) -> TrainingParser:
        """The command line of ``parapet train MODEL``."""
        name, note = f"train {self.model}", RESUMED if self.resumable else ""
        parser = TrainingParser(name, self.description, self.example, note, self.presets, self.preset_row)
        self.add_train_flags(parser)
        add_output(parser)
        return parser

    def preset_row(self, args: argparse.Namespace) -> Preset:
        """Further flags of ``--preset`` that depend on others, as on the files. Raises InputError where these lack."""
        return {}

    @abstractmethod
    def add_train_flags(self, parser: StrictParser) -> None:
        """Adds the flags of a training, all but ``--output``."""

    @abstractmethod
    def training(self, args: argparse.Namespace) -> Training:
        """Reads what is trained on. Raises InputError for flags and files that cannot work."""

    def predict_parser(self) -> Parser:
        """The command line of ``parapet predict MODEL``."""
        parser = Parser(f"predict {self.model}", self.predict_description, self.predict_example)
        text = f"output of 'parapet train {self.model}'"
        parser.group(INPUT)("--model", required=True, metavar="DIR", reads=True, help=text)
        self.add_predict_flags(parser)
        size, unit = self.batch
        add_computing(parser)
        parser.group(RUNNING)("--batch_size", type=int, default=size, metavar="N", help=f"{unit} in a batch")
        return parser

    @abstractmethod
    def add_predict_flags(self, parser: Parser) -> None:
        """Adds the flags of a prediction, all but ``--model``, ``--output`` and those of computing."""

    @abstractmethod
    def prediction(self, args: argparse.Namespace) -> Prediction:
        """Looks at the model and the files. Raises InputError for what cannot work."""


# Training: flags and what they name.


class Defaults(msgspec.Struct, frozen=True):
    """Those of a model's training.

    Attributes:
      batch: examples per batch; ``unit`` what an example is.
      schedule, warmup, clip: see :class:`parapet.evaluation.models.training.TrainingConfig`.
    """

    epochs: int
    patience: int
    batch: int
    rate: float
    unit: str
    optimiser: str = "Adam"
    schedule: str = "constant"
    warmup: float = 0.0
    clip: float = 0.0


LENGTH = ("epochs", "patience", "steps", "eval_steps")
PACE = ("batch_size", "learning_rate", "schedule", "warmup", "clip", "keep")
TRAINING = ("preset", *LENGTH, *PACE, "seed", "threads", "device")
CORPORA = ("split", "dev_split", "held_out")
ROBUST = ("perturb", "perturb_share", "adversarial", "adversarial_weight", "adversarial_epsilon")
_LEAST = {**dict.fromkeys(LENGTH, 1), "batch_size": 1, "threads": 1}


def add_computing(parser: StrictParser) -> None:
    """Adds ``--device`` and ``--threads``."""
    add = parser.group(RUNNING)
    add("--device", choices=DEVICES, default="auto", help="where to compute; auto: on a GPU if there is one")
    add("--threads", rare=True, type=int, default=1, metavar="N", help="CPU threads of a process")


def add_training(parser: StrictParser, defaults: Defaults) -> Add:
    """Adds the flags of a training; returns the function that adds further ones to their group."""
    add = parser.group("training")
    either = parser.group("training", exclusive=True)
    either("--epochs", type=int, default=defaults.epochs, metavar="N", help="maximum number of epochs")
    either("--steps", type=int, metavar="N", help="number of optimiser steps, instead of --epochs")
    text = "stop after N epochs without an improvement on dev"
    add("--patience", rare=True, type=int, default=defaults.patience, metavar="N", help=text)
    text = "with --steps: measure dev and save the state every N steps (default: a tenth of --steps)"
    add("--eval_steps", rare=True, type=int, metavar="N", help=text)
    add("--batch_size", type=int, default=defaults.batch, metavar="N", help=f"{defaults.unit} in a batch")
    text = "learning rate" + (f" of {defaults.optimiser}" if defaults.optimiser else "")
    add("--learning_rate", type=float, default=defaults.rate, metavar="X", help=text)
    text = "learning rate after the warm-up: constant, falling linearly to zero, or halved when dev stops improving"
    add("--schedule", rare=True, choices=("constant", "linear", "plateau"), default=defaults.schedule, help=text)
    text = "share of the steps in which the learning rate rises"
    add("--warmup", rare=True, type=float, default=defaults.warmup, metavar="X", help=text)
    text = "largest norm of the gradients, to which longer ones are scaled down; 0 for none"
    add("--clip", rare=True, type=float, default=defaults.clip, metavar="X", help=text)
    text = "weights to keep: those that are best on dev, or the last, without stopping early"
    add("--keep", rare=True, choices=("best", "last"), default="best", help=text)
    add_computing(parser)
    add_seed(parser)
    return add


def add_corpora(parser: StrictParser, train: str = "corpora to train on, those of 'parapet augment' too") -> None:
    """Adds the flags that name corpora; ``train`` says what they are."""
    add = parser.group(INPUT)
    add("--train", nargs="+", metavar="ROOT", reads=True, help=f"{train} (default: the bundled sample)")
    add_split(parser, TRAIN)
    add("--dev", metavar="ROOT", reads=True, help="corpus that selects the best epoch (default: the first of --train)")
    add("--dev_split", rare=True, default="dev", metavar="NAME", help="split of --dev")
    text = "share of the training dialogues that selects the best epoch, instead of --dev"
    add("--held_out", rare=True, type=float, metavar="X", help=text)


def add_robust(add: Add, adversarial: bool = True) -> None:
    """Adds the flags of robust training; ``adversarial``: also those that need losses and embeddings of the model."""
    text = "perturbations, drawn anew for each dialogue in each epoch: typos,verbose"
    add("--perturb", rare=True, metavar="LIST", help=text)
    text = "with --perturb: probability that a dialogue is perturbed"
    add("--perturb_share", rare=True, type=float, default=0.5, metavar="X", help=text)
    if not adversarial:
        return
    text = "with --perturb: train on the version with the highest loss of N"
    add("--adversarial", rare=True, type=int, default=1, metavar="N", help=text)
    text = "weight of adversarial regularisation of predictions under shifted embeddings; 0 for none"
    add("--adversarial_weight", rare=True, type=float, default=0.0, metavar="X", help=text)
    text = "length of the shift, as a share of that of an embedding"
    add("--adversarial_epsilon", rare=True, type=float, default=0.1, metavar="X", help=text)


def add_checkpoint(parser: StrictParser, text: str) -> None:
    """Adds ``--checkpoint``; ``text`` says what it is."""
    parser.group(INPUT)("--checkpoint", required=True, metavar="DIR", help=text)


def check_numbers(args: argparse.Namespace, least: Mapping[str, int] = {}, above: Iterable[str] = ()) -> None:
    """Raises InputError for numbers that are out of range.

    Args:
      args: the flags; some that are named here may be missing.
      least: flag to its smallest value, besides those that all models share.
      above: flags whose numbers are above 0, besides the learning rate.
    """
    for flag, lowest in {**_LEAST, **least}.items():
        number = getattr(args, flag, None)
        if number is not None and not lowest <= number <= 2**31:
            raise InputError(f"{number}: give {lowest} or more", f"--{flag}")
    for flag in ("learning_rate", *above):
        if not 0 < getattr(args, flag, 1) < 1e6:
            raise InputError(f"{getattr(args, flag)}: give a number above 0", f"--{flag}")
    for flag, most in (("warmup", 1.0), ("clip", 1e6)):
        if hasattr(args, flag):
            check_range(args, flag, most)


def check_range(args: argparse.Namespace, flag: str, most: float = 1.0) -> None:
    """Raises InputError where the number of a flag is not from 0 to ``most``."""
    number = getattr(args, flag)
    if not 0 <= number <= most:
        raise InputError(f"{number}: give a number from 0 to {most:g}", f"--{flag}")


def device_to_train_on(args: argparse.Namespace, *packages: str) -> str:
    """``cpu`` or ``cuda``. Raises InputError where a package is missing, or the GPU that is requested."""
    from parapet.evaluation.models.devices import check_installed, device_of

    check_installed("torch", "safetensors", *packages)
    device: str = device_of(args.device).type
    return device


def read_checkpoint(args: argparse.Namespace, model: str) -> Checkpoint:
    """Looks at ``--checkpoint``. Raises InputError where the model cannot begin with it."""
    from parapet.evaluation.models.pretrained import BY_MODEL
    from parapet.transforms.checkpoints import inspect

    check_apart(args.output, checkpoint=args.checkpoint)
    return inspect(args.checkpoint, BY_MODEL[model], "--checkpoint")


def read_sets(
    args: argparse.Namespace, read: Callable[[str, str], Examples[Row]], dialogue: Callable[[Row], str]
) -> tuple[list[Row], list[Row], Inputs]:
    """The examples to learn from, those that choose the best epoch, and the files that they were read from.

    Args:
      args: the flags of :func:`add_corpora`.
      read: (a corpus, a split) to its examples.
      dialogue: identifies the dialogue of an example, for ``--held_out``.

    Raises:
      InputError: a corpus cannot be read or has nothing to learn.
    """
    from parapet.evaluation.models.examples import held_out

    roots = args.train or [str(sample_root())]
    for root in roots:
        check_apart(args.output, train=root)
    check_apart(args.output, dev=args.dev)
    if args.held_out is not None and args.dev:
        raise InputError("give one of the two: dialogues that choose the best epoch, or a share", "--dev, --held_out")
    if args.held_out is not None and not 0 < args.held_out < 1:
        raise InputError(f"{args.held_out}: give a share above 0 and below 1", "--held_out")
    corpora = [read(root, args.split) for root in roots]
    train = [row for corpus in corpora for row in corpus.rows]
    inputs = [("train", path) for corpus in corpora for path in corpus.paths]
    if args.held_out is None:
        chosen_by = read(args.dev or roots[0], args.dev_split)
        return train, chosen_by.rows, inputs + [("dev", path) for path in chosen_by.paths]
    train, dev = held_out(train, args.held_out, args.seed, dialogue)
    if not train or not dev:
        raise InputError(f"{args.held_out}: with so few dialogues one part is empty", "--held_out")
    return train, dev, inputs


def read_versions(
    args: argparse.Namespace,
    reader_of: Callable[[str, str], Callable[[dict[str, Any]], list[Row]]],
    dialogue: Callable[[Row], str],
) -> Versions[Row] | None:
    """The dialogues of ``--train`` as ``--perturb`` varies them in each epoch; None without it.

    Args:
      args: the flags of :func:`add_corpora` and :func:`add_robust`, once :func:`read_sets` has read them.
      reader_of: (a corpus, a split) to what gives the examples of a dialogue.
      dialogue: see :func:`read_sets`.

    Raises:
      InputError: a flag or a perturbation cannot be used.
    """
    from parapet.evaluation.models.examples import is_held_out
    from parapet.evaluation.models.robust import Versions, readable

    count = getattr(args, "adversarial", 1)
    check_range(args, "perturb_share")
    if hasattr(args, "adversarial"):
        check_numbers(args, {"adversarial": 1}, ["adversarial_epsilon"])
        check_range(args, "adversarial_weight", 1000.0)
    if args.perturb is None:
        if count > 1:
            raise InputError("goes with --perturb, which says what the versions are: add it", "--adversarial")
        return None
    found = [
        one
        for root in args.train or [str(sample_root())]
        for one in readable(root, args.split, reader_of(root, args.split))
        if args.held_out is None or not is_held_out(args.held_out, args.seed, dialogue(one.rows[0]))
    ]
    return Versions(found, args.perturb, args.perturb_share, count, args.seed)


def config_of(kind: type[Config], args: argparse.Namespace, **own: object) -> Config:
    """A config from the flags of the same names, but for its ``own`` fields."""
    flags = {name: getattr(args, name) for name in kind.__struct_fields__ if hasattr(args, name)}
    return kind(**{**flags, **own})


def options_of(args: argparse.Namespace, names: Iterable[str], **own: Option) -> dict[str, Option]:
    """The flags that shape the content, of which a model has some; ``own`` are those that were resolved."""
    flags: dict[str, Option] = {name: getattr(args, name) for name in sorted(names) if hasattr(args, name)}
    return flags | {name: value for name, value in own.items() if name in flags}


# Prediction: flags and what they name.


def job_of(kind: type[JobType], args: argparse.Namespace, model: str, **own: object) -> JobType:
    """The job of a prediction: what all jobs have from the flags, and its ``own`` fields."""
    shared = {"output": args.output, "model": model, "folder": args.model}
    computing = {"device": args.device, "threads": args.threads, "batch_size": args.batch_size}
    return kind(**{**shared, **computing, **own})


def check_device(args: argparse.Namespace, *packages: str) -> None:
    """Raises InputError where torch, another package or the GPU that is requested is missing."""
    from parapet.evaluation.models import devices

    devices.check_installed("torch", "safetensors", *packages)
    devices.check_device(args.device)


class PlannedSets(msgspec.Struct, frozen=True):
    """The sets of dialogues that are predicted.

    Attributes:
      reference: the corpus; ``split`` of it.
      sets: by name.
      files: of dialogues.
    """

    reference: str
    split: str
    sets: dict[str, Set]
    files: tuple[DialogueFile, ...]


def plan_sets(args: argparse.Namespace) -> PlannedSets:
    """Finds the sets that the flags name, for models that write dialogues with states.

    Raises:
      InputError: something is missing, or the output is one of them.
    """
    from parapet.evaluation.dst.sets import make_plan
    from parapet.evaluation.models.inference import DialogueFile

    check_apart(args.output, model=args.model)
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


def header_of_sets(model: str, folder: str, plan: PlannedSets, **options: Option) -> dict[str, object]:
    """What ``run.json`` says besides files and counts, of a model that writes dialogues with states.

    Args:
      model: its name; ``folder`` where it is.
      plan: the sets.
      options: that shape the content, besides the sets.
    """
    inputs = [{"set": file.set, **named_digest(file.path)} for file in plan.files]
    header = run_header(f"predict_{model}", {"split": plan.split, "sets": list(plan.sets), **options})
    return {**header, "model": digest_of_model(folder), "inputs": inputs}


def named_digest(path: str) -> dict[str, str]:
    """The name and the SHA-256 of a file."""
    from parapet.evaluation.writing import sha256_of

    return {"name": as_path(path).name, "sha256": sha256_of(as_path(path))}


def digest_of_model(folder: str) -> dict[str, str]:
    """The SHA-256 of a model's own ``run.json``, which has those of all of its files; empty where it has none."""
    from parapet.evaluation.writing import sha256_of
    from parapet.transforms.files import MANIFEST

    path = as_path(folder) / MANIFEST
    return {path.name: sha256_of(path)} if path.is_file() else {}
