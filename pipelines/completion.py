"""Answers a shell that asks for completions at Tab, by argcomplete: ``register-python-argcomplete parapet``.

Only the parser of the command on the line is built.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

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
