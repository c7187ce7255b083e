"""The names of the commands, and the module and parser of each. Imports nothing heavy."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from parapet.pipelines.app import Command
    from parapet.pipelines.flags import StrictParser

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


def canonical(name: str) -> str:
    """Replaces each ``-`` in a name by ``_``: flags and commands may be spelled either way."""
    return name.replace("-", "_")


def spelling(name: str, names: Iterable[str]) -> str | None:
    """Finds the spelling of a name in a list; None if the list does not have it."""
    return next((other for other in names if canonical(other) == canonical(name)), None)


def hand_over(
    program: str,
    what: str,
    names: Iterable[str],
    package: str,
    usage: str,
    argv: Sequence[str],
    run: Callable[[str, Sequence[str]], int] | None = None,
) -> int:
    """Runs ``program NAME ...`` as ``package.NAME.run(...)``; returns its exit status.

    Args:
      program: the program as people type it: ``parapet``, ``parapet mturk``.
      what: the word for a name: ``pipeline``, ``action``.
      names: the known names; a ``-`` in a name is a ``_`` in its module.
      package: the package of the modules.
      usage: the help.
      argv: the arguments after the program.
      run: runs a name, if all names share one module.
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
    if run is not None:
        return run(spelled, rest)
    if package == "parapet.pipelines":
        return run_module(module_of(spelled), rest)
    if hasattr(parent := importlib.import_module(package), "run_action"):
        return int(parent.run_action(spelled, rest))
    return run_module(importlib.import_module(f"{package}.{canonical(spelled)}"), rest)


def run_module(module: Any, argv: Sequence[str]) -> int:
    """Runs the command of a module. Returns the exit status."""
    if hasattr(module, "COMMAND"):
        from parapet.pipelines import app

        return app.run(module.COMMAND, argv)
    return int(module.run(argv))


def command_of(pipeline: str, action: str = "") -> type[Command[Any]] | None:
    """Returns the declaration of a pipeline without actions, or of one action; None where it has none yet."""
    module = module_of(pipeline)
    if action and hasattr(module, "command"):
        declared: type[Command[Any]] = module.command(action)
        return declared
    if action and not hasattr(module, "parser"):
        module = importlib.import_module(f"parapet.pipelines.{pipeline}.{canonical(action)}")
    return getattr(module, "COMMAND", None)


# Commands that have no module of their own, and the module that runs them by name.
_SHARED = dict.fromkeys(("rewrite", *GROUPS["perturb dialogues with more options"]), "perturb")


class _Named(NamedTuple):
    """A command that shares a module with others."""

    module: str
    name: str

    def run(self, argv: Sequence[str]) -> int:
        """Runs the command. Returns the exit status."""
        return int(importlib.import_module(f"parapet.pipelines.{self.module}").run_named(self.name, argv))

    def parser(self) -> StrictParser:
        """Builds the command line."""
        module = importlib.import_module(f"parapet.pipelines.{self.module}")
        parser: StrictParser = module.parser(self.name, self.name)
        return parser


def module_of(command: str) -> Any:
    """Returns an object with a command's ``run`` and ``parser``: its module, or an adapter of a shared module."""
    if command in _SHARED:
        return _Named(_SHARED[command], command)
    return importlib.import_module(f"parapet.pipelines.{command}")


def actions_of(pipeline: str) -> Mapping[str, str]:
    """Returns the actions, models or tasks that may follow a pipeline's name, with summaries."""
    module = module_of(pipeline)
    for names in ("ACTIONS", "MODELS", "TASKS"):
        if hasattr(module, names):
            actions: Mapping[str, str] = getattr(module, names)
            return actions
    return {}


def parser_of(pipeline: str, action: str = "") -> StrictParser:
    """Builds the parser of a pipeline without actions, or of one action of a pipeline."""
    if (declared := command_of(pipeline, action)) is not None:
        from parapet.pipelines import app

        return app.parser_of(declared)
    module = module_of(pipeline)
    if action and hasattr(module, "parser"):
        parser: StrictParser = module.parser(action)  # each model has flags of its own
        return parser
    if action:
        module = importlib.import_module(f"parapet.pipelines.{pipeline}.{canonical(action)}")
    parser = module.parser()
    return parser
