"""What a suite checks before anything runs: commands, paths, room on the disk, and the cost of paid engines."""

from __future__ import annotations

import argparse
import logging
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from parapet.pipelines.command import check_there
from parapet.pipelines.dispatch import canonical
from parapet.pipelines.flags import StrictParser
from parapet.pipelines.suite.options import ENGINES, command_line, parser_of
from parapet.pipelines.suite.steps import Graph, Step, owner, references, resolved
from parapet.pipelines.suite.suite_file import SuiteFile
from parapet.schemas.errors import InputError
from parapet.schemas.layout import dialogue_files

_PAID = ("google", "azure")  # engines that bill what they are sent
_VARIANTS = 5  # that a corpus is rewritten for, as far as nobody has counted them
# Inputs for which the commands look themselves.
_OTHER_INPUTS = ("responses", "decisions", "checkpoint", "nli_model")


def check_steps(
    suite: SuiteFile, graph: Graph, names: Sequence[str], output: Path, runner_flags: Sequence[str]
) -> dict[str, list[str]]:
    """The command lines of the steps that are to run.

    Raises:
      InputError: a command does not exist, or does not take an option; an input is not there.
    """
    commands = {}
    for name in names:
        step = graph.steps[name]
        where = f"{step.place} ({name})"
        try:
            commands[name] = command_line(step, output, runner_flags)
        except InputError as error:
            place = where if not error.where else f"{where}.{error.where}"
            raise suite.error(error.reason if not error.path else f"{error.path}: {error.reason}", place) from None
        _check_paths(suite, step, where)
    if "://" not in suite.corpus.sgd and not suite.corpus.sgd.startswith("@") and not _corpus(suite, output).exists():
        raise suite.error("there is no such folder", f"corpus.sgd = {suite.corpus.sgd}")
    return commands


def _corpus(suite: SuiteFile, output: Path) -> Path:
    return suite.folder / str(resolved(suite.corpus.sgd, output))


def _check_paths(suite: SuiteFile, step: Step, where: str) -> None:
    """Raises InputError where an input that no step makes is not there."""
    parser = parser_of(step)
    inputs: dict[str, str | list[str]] = dict(_outside(parser, step, suite.folder))
    try:
        check_there(parser, argparse.Namespace(**inputs))
    except InputError as error:
        raise suite.error(f"{error.path}: {error.reason}", f"{where}.{error.where.lstrip('-')}") from None
    others = {key: inputs.get(key, []) for key in _OTHER_INPUTS}
    model = str(step.options.get("model", ""))
    if step.command == ("evaluate", "dst") and ".py" in model:
        others["model"] = str(suite.folder / (model.rpartition(":")[0] or model))
    for key, values in others.items():
        for path in values if isinstance(values, list) else [values]:
            if not Path(path).exists() and "://" not in path:
                raise suite.error(f"{path}: there is no such file or folder", f"{where}.{key}")


def _outside(parser: StrictParser, step: Step, folder: Path) -> Iterator[tuple[str, str | list[str]]]:
    """The options that name something outside the suite, with paths from where the suite's file is."""
    metavars = {action.dest: str(action.metavar) for action in parser._actions}
    for option, value in step.options.items():
        key = canonical(option)
        words = metavars.get(key, "").split("|")  # such as "reference" in the place of a file
        items = [f"{name}={item}" for name, item in value.items()] if isinstance(value, dict) else value
        texts = [text for text in (items if isinstance(items, list) else [items]) if isinstance(text, str)]
        paths = [_from(folder, text) for text in texts if text not in ("", *words) and not list(references(text))]
        if paths:
            yield key, paths if isinstance(items, list) else paths[0]


def _from(folder: Path, text: str) -> str:
    name, equals, path = text.rpartition("=")
    return text if "://" in text else f"{name}{equals}{folder / path}"


def warn_of_little_room(suite: SuiteFile, graph: Graph, names: Sequence[str], output: Path) -> None:
    """Warns where the disk has less room than the steps may write: the corpus again for each set that they make."""
    copies = sum(any(owner(name, names) for name in references(scored.root)) for scored in graph.sets)
    copies += _VARIANTS * ("rewrite" in names)
    if "release" in names:
        copies += 1 + len(graph.sets) + _VARIANTS * ("rewrite" in graph.steps)
    corpus = str(_corpus(suite, output))
    files = [] if "://" in corpus else [file for split in suite.corpus.splits for file in dialogue_files(corpus, split)]
    size = copies * sum(file.stat().st_size for file in files)
    free = shutil.disk_usage(next(path for path in (output, *output.parents) if path.exists())).free
    if size > free:
        reason = "about %.1f GB will be written, and the disk has %.1f GB left"
        logging.warning(reason, size / 1e9, free / 1e9)


def bills(graph: Graph, commands: Mapping[str, Sequence[str]], folder: Path) -> dict[str, str]:
    """What steps with paid engines say of their cost: their commands are run with ``--dry_run``."""
    costs = {}
    for name, command in commands.items():
        options = graph.steps[name].options
        paid = [engine for flag in ENGINES if (engine := options.get(flag)) in _PAID]
        if not paid:
            continue
        if any(need in commands for need in graph.needs[name]):
            costs[name] = f"{paid[0]}: known when {', '.join(sorted(graph.needs[name]))} is done"
            continue
        words = [sys.executable, "-m", "parapet", *command, "--dry_run"]
        result = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False)  # noqa: S603 (our own)
        text = result.stdout.strip() or result.stderr.strip()
        if result.returncode:
            raise InputError(text.removeprefix("error: ").splitlines()[-1] if text else "its dry run failed", "", name)
        costs[name] = text
    return costs
