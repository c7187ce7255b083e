"""``parapet evaluate``: predictions in, the numbers and pages of the papers out; one task at a time."""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from parapet.pipelines.command import check_apart, check_input, run_checked, say
from parapet.pipelines.dispatch import hand_over, spelling
from parapet.pipelines.flags import StrictParser

if TYPE_CHECKING:
    from parapet.evaluation.task import Task

TASKS = {
    "dst": "dialogue states: official SGD metrics, schema sensitivity",
    "intent": "intents of user turns: accuracy and macro-F1",
    "ood": "out-of-domain turns: precision, recall, F1, AUROC, AUPR, FPR95",
    "ranking": "answers to bAbI dialog tasks: accuracy by response and dialogue",
    "response": "responses: Inform, Success, BLEU and Combined, as for MultiWOZ",
    "generation": "utterances from dialogue acts: slot error rate, BLEU, SGSAcc",
    "ratings": "what people say of such utterances: agreement with SGSAcc",
    "validity": "perturbed sets: values, states and labels kept",
}

USAGE = f"""usage: parapet evaluate --task TASK [flags]

Scores the predictions of a dialogue system on a corpus and its perturbed sets:
metrics.json, a row for every prediction, and a page.

tasks:
{chr(10).join(f"  {name:12}{what}" for name, what in TASKS.items())}

example:
  parapet evaluate --task dst --reference my_corpus \\
      --predictions my_predictions --output my_scores

'parapet evaluate --task TASK --help' shows the flags of a task.
"""

Inputs = TypeVar("Inputs")
Options = TypeVar("Options", bound=msgspec.Struct)
OWN_MODULES = ("dst", "ratings", "validity")  # the others are in tasks.py


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet evaluate``. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    argv = sys.argv[1:] if argv is None else list(argv)
    task, rest = _split_task(argv)
    if task is None and argv and not {"-h", "--help", "--help-all", "--help_all"} & set(argv):
        print(f"parapet evaluate: --task is missing: one of {', '.join(TASKS)}", file=sys.stderr)
        return 2
    known = spelling(task, TASKS) if task is not None else None
    if known is not None and known not in OWN_MODULES:
        from parapet.pipelines.evaluate import tasks

        return tasks.run(known, rest)
    forwarded = [task, *rest] if task is not None else argv and ["--help"]
    return hand_over("parapet evaluate", "task", TASKS, "parapet.pipelines.evaluate", USAGE, forwarded)


def parser(task: str) -> StrictParser:
    """The flags of a task."""
    if task in OWN_MODULES:
        made: StrictParser = importlib.import_module(f"parapet.pipelines.evaluate.{task}").parser()
        return made
    from parapet.pipelines.evaluate import tasks

    return tasks.parser(task)


def _split_task(argv: Sequence[str]) -> tuple[str | None, list[str]]:
    """The value of ``--task``, and the other arguments."""
    for i, argument in enumerate(argv):
        if argument == "--task" and i + 1 < len(argv):
            return argv[i + 1], [*argv[:i], *argv[i + 2 :]]
        if argument.startswith("--task="):
            return argument.removeprefix("--task="), [*argv[:i], *argv[i + 1 :]]
    return None, list(argv)


def from_flags(kind: type[Options], args: argparse.Namespace, **own: object) -> Options:
    """Options, as a struct whose fields have the values of the flags of their names, but for its own."""
    return kind(**{name: getattr(args, name) for name in kind.__struct_fields__ if hasattr(args, name)} | own)


def run_task(
    parser: StrictParser,
    argv: Sequence[str] | None,
    make_task: Callable[[argparse.Namespace], Task[Inputs]],
) -> int:
    """Runs a task from its flags to its published output. Returns the exit status.

    Args:
      parser: the task's flags.
      argv: the command line.
      make_task: makes the task of the flags; raises InputError where they cannot work.
    """

    def check(args: argparse.Namespace) -> tuple[Task[Inputs], Inputs, str]:
        task = make_task(args)
        for flag, path in task.inputs().items():
            check_apart(args.output, **{flag.partition("/")[0]: path})
            if path is not None:
                check_input(path, f"--{flag.partition('/')[0].partition(' ')[0]}", args.output)
        return task, task.read(), args.output

    def act(prepared: tuple[Task[Inputs], Inputs, str]) -> None:
        from parapet.evaluation.task import publish
        from parapet.pipelines.progress import running

        task, inputs, output = prepared
        with running(parser.prog) as run:
            result = task.score(inputs, run.stage)
        publish(output, result.files, task.header(result))
        for warning in result.warnings:
            logging.warning("%s", warning)
        for line in result.summary:
            say(line)

    return run_checked(parser, argv, check, act, "nothing was published, run the same command again")
