"""Finds the module of the command that a command line names, and its parser. Imports nothing heavy."""

from __future__ import annotations

import argparse
import difflib
import importlib
import sys
from collections.abc import Iterable, Mapping, Sequence


def hand_over(program: str, what: str, names: Iterable[str], package: str, usage: str, argv: Sequence[str]) -> int:
    """Runs ``program NAME ...`` as ``package.NAME.run(...)``; gives its exit status.

    Args:
      program: as people type it: ``parapet``, ``parapet mturk``.
      what: what a name is called: ``pipeline``, ``action``.
      names: those there are; a ``-`` in one is a ``_`` in its module.
      package: where the modules are.
      usage: the help.
      argv: what follows the program.
    """
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(usage, end="")
        return 0 if argv else 2
    name, *rest = argv
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"'{program} --help' lists the {what}s"
        print(f"{program}: there is no {what} {name!r}: {hint}", file=sys.stderr)
        return 2
    module = importlib.import_module(f"{package}.{name.replace('-', '_')}")
    return int(module.run(rest))


def actions_of(pipeline: str) -> Mapping[str, str]:
    """What stands after a pipeline's name, each with its summary: actions, models to train, tasks to evaluate."""
    module = importlib.import_module(f"parapet.pipelines.{pipeline}")
    for names in ("ACTIONS", "MODELS", "TASKS"):
        if hasattr(module, names):
            actions: Mapping[str, str] = getattr(module, names)
            return actions
    return {}


def parser_of(pipeline: str, action: str = "") -> argparse.ArgumentParser:
    """The parser of a pipeline without actions, or of one action of a pipeline."""
    package = f"parapet.pipelines.{pipeline}"
    families: Mapping[str, str] = getattr(importlib.import_module(package), "FAMILIES", {})
    module = importlib.import_module(f"{package}.{families.get(action, action.replace('-', '_'))}".rstrip("."))
    parser: argparse.ArgumentParser = module.parser(action) if families else module.parser()
    return parser
