"""``parapet train``: trains the baseline models of the papers; one model at a time."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.command import UsageError, counted, run_checked, say
from parapet.pipelines.dispatch import hand_over, spelling
from parapet.pipelines.flags import StrictParser
from parapet.pipelines.models import MODELS, family_of
from parapet.schemas.errors import InputError, parapet_version

if TYPE_CHECKING:
    from parapet.pipelines.models.family import Training

STOPPED = "run the same command again: it resumes from its last state"

USAGE = f"""usage: parapet train MODEL [flags]

Trains a baseline model of the papers. Run the same command again to resume a
training that was stopped.

models:
{chr(10).join(f"  {name:12}{what}" for name, what in MODELS.items())}

example:
  parapet train tiny_dst --train my_corpus --output my_model
  parapet train memn2n --train babi/task1-trn.txt --dev babi/task1-dev.txt \\
      --candidates babi/candidates.txt --output my_model

'parapet train MODEL --help' shows the flags of a model.
"""


def parser(model: str) -> StrictParser:
    """Builds the command line of a model."""
    return family_of(model).train_parser()


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet train``. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv and (model := spelling(argv[0], MODELS)):
        family = family_of(model)
        return run_checked(family.train_parser(), argv[1:], family.training, act, STOPPED)
    return hand_over("parapet train", "model", MODELS, "parapet.pipelines.train", USAGE, argv)


def act(training: Training) -> None:
    """Trains, publishes the model with its log, and prints its results."""
    from parapet.evaluation.task import publish

    header = header_of(training)
    model, output = training.model, training.output
    if training.config is None or training.learner is None:
        publish(output, training.files, header)
        say(f"{model}: the model is in {output}")
        return
    from parapet.evaluation.models.training import clear_state, log_bytes, page_of, train
    from parapet.pipelines.progress import running

    with running(f"parapet train {model}"):
        trained = train(training.config, training.learner, output, header)
    best = trained.best
    by_epochs = training.config.steps is None
    reached = counted(best.epoch, "epoch") if by_epochs else counted(best.step, "step")
    last = trained.log[-1]
    length = {"epoch": best.epoch, "epochs": last.epoch, "step": best.step, "steps": last.step}
    result = {**length, "dev": best.dev, "parameters": trained.parameters, **trained.result}
    page = page_of(model, training.options, trained).encode()
    files = {**trained.files, "log.jsonl": log_bytes(trained.log), "report.html": page}
    publish(output, files, {**header, "result": result})
    clear_state(output)
    say(f"{model}: {trained.metric} on dev {best.dev:.2%} after {reached}; the model is in {output}")
    for name, value in trained.result.items():
        say(f"{name.replace('_', ' ')}: {value:.6g}")


def header_of(training: Training) -> dict[str, object]:
    """Prepares the output folder; returns the part of ``run.json`` other than files and the result.

    A training resumes only if all of this is unchanged.

    Raises:
      UsageError: the folder cannot be written, or belongs to another command.
    """
    from importlib.metadata import version

    from parapet.pipelines.models.family import named_digest
    from parapet.transforms.storage import checkpoints, files

    try:
        files.prepare(training.output, f"train_{training.model}")
    except InputError as error:
        raise UsageError(error.reason, error.path, error.where) from None
    header: dict[str, object] = {
        "pipeline": f"train_{training.model}",
        "version": parapet_version(),
        "options": training.options,
        "inputs": [{"flag": flag, **named_digest(path)} for flag, path in training.inputs],
        **{name: version(name) for name in training.packages},
    }
    if training.checkpoint:
        header["checkpoint"] = checkpoints.digest(training.checkpoint)
    return header
