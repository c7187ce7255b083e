"""The commands ``parapet train MODEL`` and ``parapet predict MODEL``, from which those of each model inherit.

Trained models mix in their settings from :mod:`parapet.evaluation.models.configs`.
"""

from __future__ import annotations

import dataclasses
import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from parapet.evaluation.models.configs import CorpusTraining, Machine, TrainingConfig
from parapet.pipelines import app, command
from parapet.pipelines.corpora import inputs_of
from parapet.schemas.errors import InputError, run_header
from parapet.schemas.layout import MANIFEST, as_path, sample_root
from parapet.transforms.core import options

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.evaluation.dst.model import Set
    from parapet.evaluation.models.inference import DialogueFile, Examples, Job
    from parapet.evaluation.models.training import Learner
    from parapet.evaluation.sets import Sources

JobType = TypeVar("JobType", bound="Job[Any, Any, Any]")
Row = TypeVar("Row")
Inputs = list[tuple[str, str]]  # (flag, path) of files that are read
Preset = Mapping[str, str | int | float | bool]  # option to its value

EPOCHS, STEPS = ("epochs", "patience"), ("steps", "eval_steps")
FINE_TUNING = "  parapet train {model} --train my_corpus --checkpoint my_checkpoint --output my_model"  # an example
MEASUREMENTS = 10  # evaluations of the dev set during a training by --steps, unless --eval_steps is set


class Train(app.Command[app.Settings]):
    """``parapet train MODEL``."""

    model_name: ClassVar[str]
    example = "  parapet train {model} --train my_corpus --output my_model"
    stopped = "run the same command again to resume from the last saved state"
    output: str = options.output_folder()

    def header(self, recorded: Mapping[str, app.Option], inputs: Inputs) -> dict[str, object]:
        """Makes the part of ``run.json`` other than files and the result, from what determines the model."""
        listed = [{"flag": flag, **named_digest(path)} for flag, path in inputs]
        return {**run_header(f"train_{self.model_name}", recorded), "inputs": listed}


def preset(**tables: Preset) -> Any:
    """``--preset``: by name, the settings of papers; they are defaults of other options."""
    return options.option(None, "settings of a paper, see below", group="training", choices=tables)


Training = tuple["TrainNet", Callable[[], "Learner"], Inputs]


class TrainNet(TrainingConfig, Train[Training]):
    """A training by epochs or steps.

    Attributes:
      learner_class: the class of the net and its training, ``MODULE:CLASS`` in :mod:`parapet.evaluation.models`.
      packages: packages that a checkpoint requires.
    """

    group = "training"
    note = """\
OUT/.training has the state after each epoch, or after each --eval_steps: a training that was stopped resumes when the
same command is run again, and ends with the same model."""
    learner_class: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ("transformers",)

    @classmethod
    def presets(cls) -> Mapping[str, Preset]:
        """Returns the choices of ``--preset``, if the model has them."""
        return next((flag.choices for flag in app.flags_of(cls) if flag.name == "preset"), {})

    @classmethod
    def terms(cls) -> dict[str, dict[str, str]]:
        """Describes the presets as command lines."""
        lines = {
            name: " ".join(f"--{flag} {value}" for flag, value in table.items())
            for name, table in cls.presets().items()
        }
        return {"presets": lines} if lines else {}

    @classmethod
    def preset_row(cls, given: Mapping[str, Any]) -> Preset:
        """Returns further options of the preset, which depend on others. Raises InputError if these are missing."""
        return {}

    @classmethod
    def defaults(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the options of the preset, and settles whether epochs or steps end the training."""
        values: dict[str, Any] = {}
        if name := given.get("preset"):
            kinds = {flag.name: flag.kind for flag in app.flags_of(cls)}
            left_out = EPOCHS if "steps" in given else STEPS if "epochs" in given else ()
            table = {**cls.presets()[name], **cls.preset_row(given)}
            values = {flag: kinds[flag](value) for flag, value in table.items() if flag not in left_out}
        chosen = {**values, **given}
        if "steps" in chosen:
            for flag in filter(given.__contains__, EPOCHS):
                raise InputError("not allowed with --steps", f"--{flag}")
            interval = chosen.get("eval_steps") or max(1, chosen["steps"] // MEASUREMENTS)
            values |= {"epochs": None, "patience": None, "eval_steps": interval}
        return values

    @abstractmethod
    def data(self, *checkpoint: Any) -> tuple[list[Any], Inputs]:
        """Returns the arguments of the learner besides the settings, and the files read.

        Raises InputError for unusable files.
        """

    def check(self) -> Training:
        """Reads the training data.

        Returns:
          The settings with the device in use, a function that makes the model with its data, and the files read.

        Raises:
          InputError: an option or a file cannot be used.
        """
        from parapet.evaluation.models.saving import BY_MODEL, check_installed, device_of
        from parapet.transforms.core import files
        from parapet.transforms.core.checkpoints import inspect

        place = getattr(self, "checkpoint", None)
        checkpoint = [inspect(place, BY_MODEL[self.model_name], "--checkpoint")] if place else []
        check_installed("torch", "safetensors", *(self.packages if checkpoint else ()))
        config = dataclasses.replace(self, device=device_of(self.device).type)
        data, inputs = config.data(*checkpoint)
        module, _, name = self.learner_class.partition(":")
        learner = getattr(import_module(f"parapet.evaluation.models.{module}"), name)
        files.prepare(self.output, f"train_{self.model_name}")
        return config, partial(learner, config, *data), inputs

    def act(self, training: Training) -> None:
        """Trains, publishes the model with its log, and prints its results."""
        from importlib.metadata import version

        from parapet.evaluation.models.training import FOLDER, log_bytes, page_of, train
        from parapet.evaluation.task import publish
        from parapet.pipelines.progress import running
        from parapet.transforms.core import checkpoints
        from parapet.transforms.core.files import clear, join

        config, learner, inputs = training
        recorded = app.content_options(config)
        header = {**self.header(recorded, inputs), "torch": version("torch")}
        if place := getattr(self, "checkpoint", None):
            header |= {"transformers": version("transformers"), "checkpoint": checkpoints.digest(place)}
        with running(f"parapet {self.name}"):
            trained = train(config, learner, self.output, header)
        best, last = trained.best, trained.log[-1]
        length = {"epoch": best.epoch, "epochs": last.epoch, "step": best.step, "steps": last.step}
        result = {**length, "dev": best.dev, "parameters": trained.parameters, **trained.result}
        page = page_of(self.model_name, recorded, trained).encode()
        files = {**trained.files, "log.jsonl": log_bytes(trained.log), "report.html": page}
        publish(self.output, files, {**header, "result": result})
        clear(join(self.output, FOLDER))
        reached = command.counted(best.epoch, "epoch") if self.steps is None else command.counted(best.step, "step")
        measured = f"{trained.metric} on dev {best.dev:.2%} after {reached}"
        command.say(f"{self.model_name}: {measured}; the model is in {self.output}")


class TrainOnCorpora(CorpusTraining, TrainNet):
    """A training on corpora in the SGD format."""

    def read_sets(
        self, read: Callable[[str, str], Examples[Row]], dialogue: Callable[[Row], str]
    ) -> tuple[list[Row], list[Row], Inputs]:
        """Reads the examples to learn from, those that choose the best epoch, and the list of files read.

        Args:
          read: reads the examples of (a corpus, a split).
          dialogue: identifies the dialogue of an example, for ``--held_out``.

        Raises:
          InputError: a corpus cannot be read or has no examples.
        """
        from parapet.evaluation.models.inference import held_out

        roots = self.train or [str(sample_root())]
        corpora = [read(root, self.split) for root in roots]
        train = [row for corpus in corpora for row in corpus.rows]
        inputs = [("train", path) for corpus in corpora for path in corpus.paths]
        if self.held_out is None:
            chosen_by = read(self.dev or roots[0], self.dev_split)
            return train, chosen_by.rows, inputs + [("dev", path) for path in chosen_by.paths]
        train, dev = held_out(train, self.held_out, self.seed, dialogue)
        if not train or not dev:
            raise InputError(f"{self.held_out}: there are too few dialogues, one part would be empty", "--held_out")
        return train, dev, inputs


class Prediction(NamedTuple):
    """A prediction that is ready to start.

    Attributes:
      header: the part of ``run.json`` other than files and counts.
      outputs: path below the output folder to the name of its counts.
    """

    job: Job[Any, Any, Any]  # each kind of job has its own types of files, chunks and models
    header: Mapping[str, object]
    outputs: Mapping[str, str]


class Predict(app.Pipeline[Prediction]):
    """``parapet predict MODEL``.

    Attributes:
      count_in, count_out: the kinds of counts that must be equal.
      shown: the kind of count that the summary shows, and its unit.
      warnings: a kind of count to its unit and a message, in which ``{n}`` is replaced by the count.
    """

    model_name: ClassVar[str]
    example = "  parapet predict {model} --model my_model --reference my_corpus --output my_predictions"
    count_in: ClassVar[str] = "asked"
    count_out: ClassVar[str] = "answered"
    shown: ClassVar[tuple[str, str]]
    warnings: ClassVar[Mapping[str, tuple[str, str]]] = {}
    max_bad: Fraction = Fraction(0)

    def inputs(self, prediction: Prediction) -> Inputs:
        """Lists what the options name, all of which workers read."""
        return inputs_of(self)

    def build(self, pipeline: beam.Pipeline, prediction: Prediction) -> None:
        """Wires the pipeline: splits files into chunks, predicts, and writes files of predictions."""
        from parapet.evaluation.models.inference import Predict, check_invariants
        from parapet.transforms.core import files

        files.prepare(self.output, f"predict_{self.model_name}")
        written, counts = pipeline | "Predict" >> Predict(prediction.job)
        check = partial(check_invariants, asked=self.count_in, answered=self.count_out, max_bad=self.max_bad)
        _ = written | "Publish" >> files.Publish(self.output, prediction.header, counts, check)

    def report(self, prediction: Prediction, counters: dict[str, int]) -> None:
        """Prints what was written, and warns about inputs that did not fit the model."""
        counts = self.written(MANIFEST)["counts"]
        for path, name in prediction.outputs.items():
            ending = f"/{name}" if name else ""
            kind, unit = self.shown
            command.say(f"{self.output}/{path}: {command.counted(counts.get(kind + ending, 0), unit)}")
            for kind, (unit, text) in self.warnings.items():
                if n := counts.get(kind + ending, 0):
                    logging.warning("%s: %s", name or path, text.replace("{n}", command.counted(n, unit)))


class PredictTrained(Machine, Predict):
    """A prediction by a model of ``parapet train``."""

    unit: ClassVar[str] = "examples"
    model: str = options.folder("output of 'parapet train {model_name}'", default=options.REQUIRED)
    batch_size: int = options.option(64, "{unit} in a batch", ge=1, group=options.RUNNING)

    def job(self, kind: type[JobType], **own: object) -> JobType:
        """Makes the job from the options, and its ``own`` attributes."""
        return self.settings_of(kind, model=self.model_name, folder=self.model, **own)

    def header(self, recorded: Mapping[str, object], **more: object) -> dict[str, object]:
        """Makes the part of ``run.json`` other than files and counts; that of the model has the hashes of its files."""
        manifest = as_path(self.model) / MANIFEST
        model = {MANIFEST: named_digest(str(manifest))["sha256"]} if manifest.is_file() else {}
        return {**run_header(f"predict_{self.model_name}", recorded), "model": model, **more}

    def check_device(self, *packages: str) -> None:
        """Raises InputError if torch, another package or the requested GPU is missing."""
        from parapet.evaluation.models import saving

        saving.check_installed("torch", "safetensors", *packages)
        saving.device_of(self.device)


class PredictDialogues(PredictTrained):
    """A prediction that writes dialogues with states."""

    def prediction(self, kind: type[JobType], sources: Sources, **own: object) -> Prediction:
        """Makes the prediction from the sets of dialogues, and ``own`` attributes of its job.

        Raises:
          InputError: a set is missing, or the output is one of the sets.
        """
        sets, files = plan_sets(sources)
        inputs = [{"set": file.set, **named_digest(file.path)} for file in files]
        header = self.header({"split": sources.split, "sets": list(sets)}, inputs=inputs)
        job = self.job(kind, sets=sets, inputs=files, **own)
        return Prediction(job, header, {f"predictions/{name}": name for name in sets})


def plan_sets(sources: Sources) -> tuple[dict[str, Set], tuple[DialogueFile, ...]]:
    """Lists the sets of dialogues and their files. Raises InputError if a set is missing."""
    from parapet.evaluation.dst.model import make_plan
    from parapet.evaluation.models.inference import DialogueFile

    plan = make_plan(sources)
    for remark in plan.remarks:
        logging.warning("%s", remark)
    return plan.sets, tuple(
        DialogueFile(member.set, member.reference, f"predictions/{member.set}/{sources.split}/{job.name}")
        for job in plan.jobs
        for member in job.members
    )


def named_digest(path: str) -> dict[str, str]:
    """Returns the name and the SHA-256 of a file."""
    from parapet.evaluation.results import sha256_of

    return {"name": as_path(path).name, "sha256": sha256_of(as_path(path))}
