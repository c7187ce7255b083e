"""What a suite checks before anything runs: commands, paths, room on the disk, and the cost of paid engines."""

from __future__ import annotations

import argparse
import contextlib
import logging
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from parapet.pipelines.command import check_there
from parapet.pipelines.suite.options import ENGINES, command_line, parsed, parser_of
from parapet.pipelines.suite.steps import Graph, owner, references, resolved
from parapet.pipelines.suite.suite_file import SuiteFile
from parapet.schemas.errors import InputError
from parapet.schemas.layout import dialogue_files

_PAID = ("google", "azure")  # engines that bill what they are sent
_VARIANTS = 5  # that a corpus is rewritten for, as far as nobody has counted them
# Inputs for which the commands look themselves.
_OTHER_INPUTS = ("responses", "decisions", "checkpoint", "nli_model")


def check_steps(
    suite: SuiteFile, graph: Graph, names: Sequence[str], output: Path, runner_flags: Sequence[str]
) -> None:
    """Raises InputError where a step has no such command or option, or an input that no step makes is not there."""
    if not _is_there(str(_corpus(suite, output))) and not suite.corpus.sgd.startswith("@"):
        raise suite.error("there is no such folder", f"corpus.sgd = {suite.corpus.sgd}")
    for name in names:
        step = graph.steps[name]
        place = f"{step.place} ({name})"
        try:
            parser, (_, flags) = parser_of(step), parsed(step, output, runner_flags)
        except InputError as error:
            where = place if not error.where else f"{place}.{error.where}"
            raise suite.error(error.reason if not error.path else f"{error.path}: {error.reason}", where) from None
        outside = argparse.Namespace(**{key: _outside(value, output) for key, value in vars(flags).items()})
        with contextlib.chdir(suite.folder):
            try:
                check_there(parser, outside)
            except InputError as error:
                raise suite.error(f"{error.path}: {error.reason}", f"{place}.{error.where.lstrip('-')}") from None
            inputs = {key: getattr(outside, key, []) for key in _OTHER_INPUTS}
            model = str(getattr(outside, "model", ""))
            if step.command == ("evaluate", "dst") and ".py" in model:
                inputs["model"] = model.rpartition(":")[0] or model
            for key, values in inputs.items():
                for path in values if isinstance(values, list) else filter(None, [values]):
                    if not _is_there(path):
                        raise suite.error(f"{path}: there is no such file or folder", f"{place}.{key}")


def _is_there(path: str) -> bool:
    return "://" in path or Path(path).exists()  # buckets are not asked


def _corpus(suite: SuiteFile, output: Path) -> Path:
    return suite.folder / str(resolved(suite.corpus.sgd, output))


def _outside(value: object, output: Path) -> object:
    """A value without the paths that a step makes."""
    if isinstance(value, list):
        return [item for item in value if str(output) not in str(item)]
    return None if isinstance(value, str) and str(output) in value else value


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


def bills(
    graph: Graph, names: Sequence[str], output: Path, runner_flags: Sequence[str], folder: Path
) -> Iterator[tuple[str, str]]:
    """What steps with paid engines say of their cost, line by line: their commands are run with ``--dry_run``."""
    for name in names:
        step = graph.steps[name]
        paid = [engine for flag in ENGINES if (engine := step.options.get(flag)) in _PAID]
        if paid and not graph.needs[name].isdisjoint(names):
            yield name, f"{paid[0]}: known when {', '.join(sorted(graph.needs[name]))} is done"
        elif paid:
            words = [sys.executable, "-m", "parapet", *command_line(step, output, runner_flags), "--dry_run"]
            result = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False)  # noqa: S603 (ours)
            lines = (result.stdout.strip() or result.stderr.strip() or "its dry run failed").splitlines()
            if result.returncode:
                raise InputError(lines[-1].removeprefix("error: "), "", name)
            yield from ((name, line) for line in lines)
