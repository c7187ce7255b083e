"""The ``parapet`` program: its commands, completion at Tab, and Ctrl-C. Imports nothing heavy, so help is quick.

After Ctrl-C, Beam's threads may swallow the interrupt, or wait for ever for workers that are gone. So the first Ctrl-C
also sets a deadline, at which the process ends. What is unfinished then is only staged, so the next run removes it.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import importlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from parapet.pipelines.app import Command, Parser

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
    from parapet.pipelines.app import Parser

    return Parser(command_of(pipeline, action))


def complete() -> None:
    """Answers a shell that asks for completions at the cursor, and exits."""
    try:
        import argcomplete
        from argcomplete.lexers import split_line
    except ImportError:
        sys.exit(1)  # the shell then completes file names
    line, cursor = os.environ.get("COMP_LINE", ""), int(os.environ.get("COMP_POINT", "0"))
    _, _, _, words, _ = split_line(line, cursor)
    names, parser = parser_on(words[1:])
    os.environ["_ARGCOMPLETE"] = str(1 + names)  # argcomplete leaves out the words before the last name
    argcomplete.autocomplete(parser, always_complete_options="long")


def parser_on(words: Sequence[str]) -> tuple[int, argparse.ArgumentParser]:
    """Returns how many names of commands and actions begin a line, and the parser of what follows them.

    Args:
      words: whole words before the cursor, without ``parapet``.
    """
    choices = argparse.ArgumentParser()
    if not words or words[0] not in PIPELINES:
        choices.add_argument("--version", action="store_true")
        choices.add_argument("command", choices=PIPELINES)
        return 0, choices
    name, actions = words[0], actions_of(words[0])
    if name == "evaluate":
        from parapet.pipelines.evaluate import split_task

        task = split_task(words)[0] or ""
        parser = parser_of(name, task) if task in actions else choices
        parser.add_argument("--task", choices=tuple(actions), help="what is evaluated")
        return 1, parser
    if not actions:
        return 1, parser_of(name)
    if words[1:] and words[1] in actions:
        return 2, parser_of(name, words[1])
    choices.add_argument("action", choices=actions)
    return 1, choices


_PATIENCE = 2.5  # seconds in which a command may end by itself

outcome: Callable[[], str] = str  # says what a command that is stopped now has left; empty before it does anything

_is_ending = False
_said = threading.Lock()


def run_program(program: Callable[[], int]) -> int:
    """Runs a program; after Ctrl-C, ends this process with all of its threads."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored, as shells do in the background
        return program()
    signal.signal(signal.SIGINT, _interrupt)
    try:
        status = program()
    except KeyboardInterrupt:
        say_stopped()
        status = 1
    if _is_ending:
        _leave(status)
    return status


def say_stopped(detail: str = "") -> None:
    """Logs that the command was stopped, and what it has left; at most once after Ctrl-C.

    Args:
      detail: replaces the outcome of the command.
    """
    if _is_ending and not _said.acquire(blocking=False):
        return
    detail = detail or outcome()
    logging.error("%s", f"stopped; {detail}" if detail else "stopped before anything was done")


def _interrupt(*_: Any) -> None:
    global _is_ending
    if not _is_ending:
        _is_ending = True
        # What is broken off fails in its own way, in threads and destructors: that is no news.
        threading.excepthook = lambda _: None
        sys.unraisablehook = lambda _: None
        threading.Thread(target=_end, name="stop", daemon=True).start()
    raise KeyboardInterrupt


def _end() -> None:
    time.sleep(_PATIENCE)
    say_stopped()
    _leave(1)


def _leave(status: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


USAGE = """\
usage: parapet COMMAND [flags]

Builds datasets that show how robust a dialogue system or an agent is, and
scores systems on them. Without a corpus, a command uses the bundled sample.
{commands}
example:
  parapet suite sample --output sample          # every stage, on the sample
  parapet perturb typos --sgd my_corpus --output my_typos
  parapet evaluate --task dst --model names --output my_scores

'parapet COMMAND --help' shows the common flags and an example, '--help-all' all
flags. In flags and names, - and _ are alike.
"""


def usage() -> str:
    """Formats the commands by purpose."""
    groups = (
        f"\n{title}:\n" + "".join(f"  {name:22}{summary}\n" for name, summary in commands.items())
        for title, commands in GROUPS.items()
    )
    return USAGE.format(commands="".join(groups))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one pipeline. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    if argv is None:
        if "_ARGCOMPLETE" in os.environ:  # a shell asks for completions, see docs/running.md
            complete()
        atexit.register(gc.freeze)  # msgspec 0.22 may crash when the last collection frees structs within structs
        return run_program(lambda: main(sys.argv[1:]))
    if argv[:1] == ["--version"]:
        from parapet.schemas.errors import parapet_version

        print(f"parapet {parapet_version()}")
        return 0
    if argv[:1] == ["help"]:
        argv = [*argv[1:], "--help"]
    return hand_over("parapet", "command", PIPELINES, usage(), argv, run)
