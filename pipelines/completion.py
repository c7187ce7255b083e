"""``parapet completion``: a script with which a shell completes the command line, and the answers to it at each Tab.

The script calls ``parapet``, which answers with argcomplete from the parsers of the commands: so the flags are those of
the installed version, and plug-ins are among the choices. Only the parser of the command on the line is built.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise

from parapet.pipelines.command import run_checked
from parapet.pipelines.dispatch import PIPELINES, actions_of, parser_of
from parapet.pipelines.flags import INPUT, StrictParser
from parapet.schemas.errors import InputError

SHELLS = ("bash", "zsh", "fish")

DESCRIPTION = "Prints a script with which a shell completes commands, flags and their values."

EXAMPLE = """\
  source <(parapet completion bash)                          # this shell; in ~/.bashrc, every shell
  parapet completion zsh > ~/.zfunc/_parapet                 # a folder in $fpath, before compinit
  parapet completion fish > ~/.config/fish/completions/parapet.fish"""


def parser() -> StrictParser:
    """The command line."""
    parser = StrictParser("completion", DESCRIPTION, EXAMPLE)
    parser.group(INPUT)("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_checked(parser(), argv, lambda args: str(args.shell), act, "nothing was written")


def act(shell: str) -> None:
    """Prints the script. Raises InputError where argcomplete is missing."""
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        raise InputError("argcomplete is not installed: pip install argcomplete") from None
    print(shellcode(["parapet"], shell=shell), end="")


def answer() -> None:
    """Answers a shell that asks for completions at the cursor, and ends the process."""
    try:
        import argcomplete
        from argcomplete.lexers import split_line
    except ImportError:
        sys.exit(1)  # the shell then completes files
    line, cursor = os.environ.get("COMP_LINE", ""), int(os.environ.get("COMP_POINT", "0"))
    _, _, _, words, _ = split_line(line, cursor)
    argcomplete.autocomplete(tree(words[1:]), always_complete_options="long")


def tree(words: Sequence[str]) -> argparse.ArgumentParser:
    """The whole command line as one parser, with the flags of the command on it.

    Args:
      words: whole words before the cursor, without ``parapet``.
    """
    root = argparse.ArgumentParser(prog="parapet")
    root.add_argument("--version", action="store_true", help="print the version")
    _add(root, PIPELINES, {name: _of_pipeline(name, words[1:]) for name in words[:1] if name in PIPELINES})
    return root


def _add(to: argparse.ArgumentParser, names: Mapping[str, str], known: Mapping[str, argparse.ArgumentParser]) -> None:
    """Adds sub-commands; those without a parser among ``known`` are mere names."""
    commands = to.add_subparsers()
    for name, what in names.items():
        parents = [known[name]] if name in known else []
        commands.add_parser(name, help=what.replace("%", "%%"), parents=parents, add_help=False)


def _of_pipeline(name: str, words: Sequence[str]) -> argparse.ArgumentParser:
    actions = actions_of(name)
    if not actions:
        return parser_of(name)
    if name == "evaluate":
        return _of_evaluate(actions, words)
    group = argparse.ArgumentParser()
    _add(group, actions, {action: parser_of(name, action) for action in words[:1] if action in actions})
    return group


def _of_evaluate(tasks: Mapping[str, str], words: Sequence[str]) -> argparse.ArgumentParser:
    """Its flags are those of the task, which is itself the value of a flag."""
    named = [other for one, other in pairwise(words) if one == "--task"]
    named += [word.removeprefix("--task=") for word in words if word.startswith("--task=")]
    known = [parser_of("evaluate", task) for task in named if task in tasks]
    made = argparse.ArgumentParser(parents=known[:1], add_help=not known)
    made.add_argument("--task", choices=tuple(tasks), help="what is evaluated")
    return made
