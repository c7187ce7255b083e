"""Answers a shell that asks for completions at Tab, by argcomplete: ``register-python-argcomplete parapet``.

Only the parser of the command on the line is built.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise

from parapet.pipelines.dispatch import PIPELINES, actions_of, parser_of


def answer() -> None:
    """Answers a shell that asks for completions at the cursor, and exits."""
    try:
        import argcomplete
        from argcomplete.lexers import split_line
    except ImportError:
        sys.exit(1)  # the shell then completes file names
    line, cursor = os.environ.get("COMP_LINE", ""), int(os.environ.get("COMP_POINT", "0"))
    _, _, _, words, _ = split_line(line, cursor)
    argcomplete.autocomplete(tree(words[1:]), always_complete_options="long")


def tree(words: Sequence[str]) -> argparse.ArgumentParser:
    """Builds one parser for the whole command line, with the flags of the command on it.

    Args:
      words: whole words before the cursor, without ``parapet``.
    """
    root = argparse.ArgumentParser(prog="parapet")
    root.add_argument("--version", action="store_true", help="print the version")
    _add(root, PIPELINES, {name: _of_pipeline(name, words[1:]) for name in words[:1] if name in PIPELINES})
    return root


def _add(to: argparse.ArgumentParser, names: Mapping[str, str], known: Mapping[str, argparse.ArgumentParser]) -> None:
    """Adds sub-commands. Those without a parser in ``known`` are added by name only."""
    commands = to.add_subparsers()
    for name, summary in names.items():
        parents = [known[name]] if name in known else []
        commands.add_parser(name, help=summary.replace("%", "%%"), parents=parents, add_help=False)


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
    """Builds the parser of ``evaluate``, whose flags depend on the value of ``--task``."""
    named = [other for word, other in pairwise(words) if word == "--task"]
    named += [word.removeprefix("--task=") for word in words if word.startswith("--task=")]
    known = [parser_of("evaluate", task) for task in named if task in tasks]
    parser = argparse.ArgumentParser(parents=known[:1], add_help=not known)
    parser.add_argument("--task", choices=tuple(tasks), help="what is evaluated")
    return parser
