"""The names of the commands, and the module and parser of each. Imports nothing heavy."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from parapet.pipelines.app import Command
    from parapet.pipelines.flags import Parser

# The commands by what a person wants, each with its summary.
GROUPS = {
    "most used": {
        "suite": "sets, systems and scores in one table, from one file",
        "perturb": "typos, paraphrases, speech errors, unseen values, ...",
        "collect": "have annotators or a language model paraphrase schemas",
        "compose": "schema variants v1...v5 from their answers",
        "evaluate": "score a system, and show the examples it gets wrong",
    },
    "run systems and compare them": {
        "predict": "run a language model or a trained baseline on dialogues",
        "train": "train a baseline model of the papers",
        "compare": "put systems into one table, with significance tests",
    },
    "collect paraphrases": {
        "hits": "the forms on which annotators paraphrase, and their cost",
        "mturk": "publish these forms on Mechanical Turk, collect and pay",
        "compose_variations": "rewritten user turns from annotators' answers",
    },
    "make and use schema variants": {
        "back_translate": "variants by translation there and back",
        "rewrite": "dialogues under each variant's names, as in SGD-X",
        "statistics": "how far variants are from the original schemas",
        "augment": "training sets from dialogues and schema variants",
    },
    "perturb dialogues with more options": {
        "language_variations": "typos, verbose, simple, paraphrase; mixes, engines",
        "speech_errors": "user turns as ASR transcripts, at given error rates",
        "unseen_entities": "slot values that do not occur in training",
        "ood": "out-of-domain turns at given rates",
    },
    "get dialogues": {
        "few_shot": "small training sets for each domain, seen or unseen",
        "reminders": "dialogues about reminders, by a simulated user",
        "restaurants": "bAbI dialog tasks 1 to 5, simulated",
        "babi_task6": "bAbI dialog task 6 from DSTC2; also in SGD's format",
        "anonymise": "real chats without names, numbers and addresses",
    },
    "publish": {
        "release": "build, verify, compare and push versioned datasets",
        "export": "agents' tasks for bfcl-eval, inspect-ai, promptfoo",
        "leaderboard": "a page that ranks submissions to a release",
    },
    "help": {
        "doctor": "what is installed and set up here, and what is missing",
    },
}
PIPELINES = {name: summary for commands in GROUPS.values() for name, summary in commands.items()}


# The tables of what may follow a command's name, and the word for their entries.
_KINDS = {"ACTIONS": "action", "MODELS": "model", "TASKS": "task"}


def canonical(name: str) -> str:
    """Replaces each ``-`` in a name by ``_``: flags and commands may be spelled either way."""
    return name.replace("-", "_")


def spelling(name: str, names: Iterable[str]) -> str | None:
    """Finds the spelling of a name in a list; None if the list does not have it."""
    return next((other for other in names if canonical(other) == canonical(name)), None)


def hand_over(program: str, what: str, names: Iterable[str], package: str, usage: str, argv: Sequence[str]) -> int:
    """Runs ``program NAME ...`` as ``package.NAME.run(...)``; returns its exit status.

    Args:
      program: the program as people type it: ``parapet``, ``parapet mturk``.
      what: the word for a name: ``pipeline``, ``action``.
      names: the known names; a ``-`` in a name is a ``_`` in its module.
      package: the package of the modules, or a module that has the declaration of each name.
      usage: the help.
      argv: the arguments after the program.
    """
    if not argv or canonical(argv[0]) in ("_h", "__help", "__help_all", "help"):
        print(usage, end="")
        return 0 if argv else 2
    name, *rest = argv
    spelled = spelling(name, names)
    if spelled is None:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"'{program} --help' lists the {what}s"
        print(f"{program}: there is no {what} {name!r}: {hint}", file=sys.stderr)
        return 2
    if package == "parapet.pipelines":
        return run(spelled, rest)
    parent = importlib.import_module(package)
    if hasattr(parent, "command"):
        from parapet.pipelines import command

        return command.run(parent.command(spelled), rest)
    return _run(importlib.import_module(f"{package}.{canonical(spelled)}"), rest)


def run(command: str, argv: Sequence[str]) -> int:
    """Runs a command. Returns the exit status."""
    return _run(module_of(command), argv)


def _run(module: Any, argv: Sequence[str]) -> int:
    if hasattr(module, "run"):
        return int(module.run(argv))
    for names, what in _KINDS.items():
        if hasattr(module, names):
            program = f"parapet {module.__name__.rpartition('.')[2]}"
            return hand_over(program, what, getattr(module, names), module.__name__, module.USAGE, argv)
    from parapet.pipelines import command

    return command.run(module.COMMAND, argv)


def command_of(pipeline: str, action: str = "") -> type[Command[Any]]:
    """Returns the declaration of a pipeline without actions, or of one action."""
    module = module_of(pipeline)
    if action and not hasattr(module, "command"):
        module = importlib.import_module(f"parapet.pipelines.{pipeline}.{canonical(action)}")
    own = (action or pipeline in _PERTURBATIONS) and hasattr(module, "command")
    declared: type[Command[Any]] = module.command(action) if own else module.COMMAND
    return declared


_PERTURBATIONS = ("rewrite", *GROUPS["perturb dialogues with more options"])


class _Perturbation(NamedTuple):
    """A command named after a perturbation, which the module of ``perturb`` runs."""

    name: str

    def run(self, argv: Sequence[str]) -> int:
        """Runs the command. Returns the exit status."""
        from parapet.pipelines import perturb

        return perturb.run_named(self.name, argv)

    def command(self, _: str) -> type[Command[Any]]:
        """Returns its declaration."""
        from parapet.pipelines import perturb

        return perturb.command(self.name, program=self.name)


def module_of(command: str) -> Any:
    """Returns the module of a command, or what stands for that of a perturbation."""
    if command in _PERTURBATIONS:
        return _Perturbation(command)
    return importlib.import_module(f"parapet.pipelines.{command}")


def actions_of(pipeline: str) -> Mapping[str, str]:
    """Returns the actions, models or tasks that may follow a pipeline's name, with summaries."""
    module = module_of(pipeline)
    for names in _KINDS:
        if hasattr(module, names):
            actions: Mapping[str, str] = getattr(module, names)
            return actions
    return {}


def parser_of(pipeline: str, action: str = "") -> Parser:
    """Builds the command line of a pipeline without actions, or of one action of a pipeline."""
    from parapet.pipelines.flags import Parser

    return Parser(command_of(pipeline, action))
