"""The names of the commands, and the module and parser of each. Imports nothing heavy."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

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
        "plan": "how many examples and repeats show a difference",
        "proxy": "any agent or harness under other wordings of its tools",
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
        "check": "what is wrong with data: corpora, tools, answers, ...",
        "doctor": "what is installed and set up here, and what is missing",
    },
}
PIPELINES = {name: summary for commands in GROUPS.values() for name, summary in commands.items()}


# The tables of what may follow a command's name, and the word for their entries. A module that has one also has ABOUT,
# a paragraph of the help, and EXAMPLE, command lines.
_KINDS = {"ACTIONS": "action", "MODELS": "model", "TASKS": "task"}
_PERTURBATIONS = ("rewrite", *GROUPS["perturb dialogues with more options"])  # which the module of ``perturb`` runs


def canonical(name: str) -> str:
    """Replaces each ``-`` in a name by ``_``: flags and commands may be spelled either way."""
    return name.replace("-", "_")


def spelling(name: str, names: Iterable[str]) -> str | None:
    """Finds the spelling of a name in a list; None if the list does not have it."""
    return next((other for other in names if canonical(other) == canonical(name)), None)


def hand_over(
    program: str,
    what: str,
    names: Collection[str],
    usage: str,
    argv: Sequence[str],
    run: Callable[[str, list[str]], int],
) -> int:
    """Runs what the first argument names. Returns the exit status.

    Args:
      program: the program as people type it: ``parapet``, ``parapet mturk``.
      what: the word for a name: ``command``, ``action``.
      names: the known names.
      usage: the help.
      argv: the arguments after the program.
      run: runs a name with the other arguments.
    """
    if not argv or canonical(argv[0]) in ("_h", "__help", "__help_all", "help"):
        print(usage, end="")
        return 0 if argv else 2
    name, *rest = argv
    if spelled := spelling(name, names):
        return run(spelled, rest)
    from parapet.schemas.errors import no_such

    print(f"{program}: {no_such(what, name, names)}", file=sys.stderr)
    return 2


def run(pipeline: str, argv: Sequence[str]) -> int:
    """Runs a command. Returns the exit status."""
    module = _module(pipeline)
    if pipeline in _PERTURBATIONS:
        return int(module.run_named(pipeline, argv))
    return int(module.run(argv)) if hasattr(module, "run") else run_action(pipeline, argv)


def run_action(pipeline: str, argv: Sequence[str]) -> int:
    """Runs a command that has a declaration, or one for each of its actions, which the first argument names."""
    from parapet.pipelines import command

    module, names = _module(pipeline), actions_of(pipeline)
    if not names:
        return command.run(module.COMMAND, argv)

    def of_action(action: str, rest: list[str]) -> int:
        return command.run(module.command(action), rest)

    return hand_over(f"parapet {pipeline}", _kind_of(pipeline), names, usage_of(pipeline), argv, of_action)


def _kind_of(pipeline: str) -> str:
    """Returns the word for what follows a pipeline's name."""
    return next(word for table, word in _KINDS.items() if hasattr(_module(pipeline), table))


def usage_of(pipeline: str) -> str:
    """Returns the help of a command with actions, which lists them."""
    module, actions = _module(pipeline), actions_of(pipeline)
    what = _kind_of(pipeline)
    placeholder = f"{'--task ' * (what == 'task')}{what.upper()}"
    width = max(map(len, actions)) + 1
    listed = "\n".join(f"  {name:{width}}{summary}" for name, summary in actions.items())
    parts = [f"usage: parapet {pipeline} {placeholder} [flags]", module.ABOUT, f"{what}s:\n{listed}"]
    ending = f"'parapet {pipeline} {placeholder} --help' shows its flags."
    return "\n\n".join([*parts, f"example:\n{module.EXAMPLE}", ending, ""])


def command_of(pipeline: str, action: str = "") -> type[Command[Any]]:
    """Returns the declaration of a pipeline without actions, or of one action."""
    module = _module(pipeline)
    if pipeline in _PERTURBATIONS:
        return cast("type[Command[Any]]", module.command(pipeline, program=pipeline))
    return cast("type[Command[Any]]", module.command(action) if action else module.COMMAND)


def _module(pipeline: str) -> Any:
    return importlib.import_module(f"parapet.pipelines.{'perturb' if pipeline in _PERTURBATIONS else pipeline}")


def actions_of(pipeline: str) -> Mapping[str, str]:
    """Returns the actions, models or tasks that may follow a pipeline's name, with summaries."""
    module = _module(pipeline)
    return next((getattr(module, table) for table in _KINDS if hasattr(module, table)), {})


def parser_of(pipeline: str, action: str = "") -> Parser:
    """Builds the command line of a pipeline without actions, or of one action of a pipeline."""
    from parapet.pipelines.flags import Parser

    return Parser(command_of(pipeline, action))
