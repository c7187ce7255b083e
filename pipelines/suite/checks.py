"""What a suite checks before anything runs: commands, paths, room on the disk, time, and the cost of paid engines."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from parapet.pipelines.command import check_there
from parapet.pipelines.dispatch import canonical
from parapet.pipelines.flags import StrictParser
from parapet.pipelines.suite.options import command_line, parser_of
from parapet.pipelines.suite.references import references, resolved
from parapet.pipelines.suite.state import State
from parapet.pipelines.suite.steps import Graph, Step
from parapet.pipelines.suite.suite_file import SuiteFile
from parapet.schemas.errors import InputError

PAID = ("google", "azure")  # engines that bill what they are sent
_START = 1.5  # seconds of any step, forked from a process that has Beam imported
# Seconds for each MB of dialogues (some 40 of them) on one core of 2026, measured on SGD; a lower bound for training.
_SECONDS_PER_MB = {
    "rewrite": 0.05,
    "perturb": 0.06,
    "language_variations": 0.1,
    "unseen_entities": 0.3,
    "ood": 0.25,
    "speech_errors": 45.0,
    "evaluate": 0.1,
    "predict": 5.0,
    "train": 20.0,
    "augment": 0.1,
    "release": 0.6,
}
# Bytes written for each byte of the corpus.
_BYTES = {"rewrite": 5.5, "perturb": 1.2, "language_variations": 4.0, "speech_errors": 4.0, "ood": 4.0, "predict": 6.0}


class Plan(msgspec.Struct, frozen=True):
    """What a run would do.

    Attributes:
      seconds: an estimate for each step, from the last time or from the corpus's size.
      bytes: an estimate of what will be written.
      free: what there is room for.
      costs: of steps with paid engines, what their commands say that they would send, and what it costs.
    """

    seconds: dict[str, float]
    bytes: float
    free: int
    costs: dict[str, str]


def make_plan(suite: SuiteFile, graph: Graph, names: Sequence[str], state: State, runner_flags: Sequence[str]) -> Plan:
    """Checks the steps that are to run.

    Raises:
      InputError: a command does not exist, or does not take an option; an input is not there; the disk is too small.
    """
    commands = {}
    for name in names:
        step = graph.steps[name]
        where = f"{step.place} ({name})"
        try:
            commands[name] = command_line(step, state.output, runner_flags)
        except InputError as error:
            place = where if not error.where else f"{where}.{error.where}"
            raise suite.error(error.reason if not error.path else f"{error.path}: {error.reason}", place) from None
        _check_paths(suite, step, where)
    corpus = suite.folder / str(resolved(suite.corpus.sgd, state.output))
    if "://" not in suite.corpus.sgd and not suite.corpus.sgd.startswith("@") and not corpus.exists():
        raise suite.error("there is no such folder", f"corpus.sgd = {suite.corpus.sgd}")
    megabytes = _megabytes(corpus)
    seconds = {name: _seconds(graph.steps[name], state, megabytes) for name in names}
    size = sum(_BYTES.get(graph.steps[name].pipeline, 0.5) for name in names) * megabytes * 1e6
    free = shutil.disk_usage(_existing(state.output)).free
    if size > free:
        reason = f"about {size / 1e9:,.1f} GB will be written, and the disk has {free / 1e9:,.1f} GB left"
        raise InputError(reason, state.output, "--output")
    return Plan(seconds, size, free, _costs(graph, commands, suite.folder))


def _check_paths(suite: SuiteFile, step: Step, where: str) -> None:
    """Raises InputError where an input that no step makes is not there."""
    parser = parser_of(step)
    given = argparse.Namespace(**dict(_outside(parser, step, suite.folder)))
    try:
        check_there(parser, given)
    except InputError as error:
        raise suite.error(f"{error.path}: {error.reason}", f"{where}.{error.where.lstrip('-')}") from None
    for key in ("responses", "decisions", "checkpoint", "nli_model"):  # for which the commands look themselves
        values = getattr(given, key, [])
        for path in values if isinstance(values, list) else [values]:
            if not Path(path).exists() and "://" not in path:
                raise suite.error(f"{path}: there is no such file or folder", f"{where}.{key}")
    model = step.options.get("model")
    if step.command == ("evaluate", "dst") and isinstance(model, str) and ".py" in model:
        path = model.rpartition(":")[0] or model
        if not (suite.folder / path).is_file():
            raise suite.error(f"{path}: there is no such file", f"{where}.model")


def _outside(parser: StrictParser, step: Step, folder: Path) -> Iterator[tuple[str, object]]:
    """The options that name something outside the suite, with paths from where the suite's file is."""
    metavars = {action.dest: str(action.metavar) for action in parser._actions}
    for option, value in step.options.items():
        key = canonical(option)
        words = metavars.get(key, "").split("|")  # such as "reference" in the place of a file
        items = [f"{name}={item}" for name, item in value.items()] if isinstance(value, dict) else value
        texts = [text for text in (items if isinstance(items, list) else [items]) if isinstance(text, str)]
        kept = [_from(folder, text) for text in texts if text not in ("", *words) and not list(references(text))]
        if kept:
            yield key, kept if isinstance(items, list) else kept[0]


def _from(folder: Path, text: str) -> str:
    name, equals, path = text.rpartition("=")
    return text if "://" in text else f"{name}{equals}{folder / path}"


def _megabytes(corpus: Path) -> float:
    files = corpus.rglob("dialogues_*.json") if corpus.is_dir() else []
    return sum(path.stat().st_size for path in files) / 1e6


def _existing(path: Path) -> Path:
    return path if path.exists() or path == path.parent else _existing(path.parent)


def _seconds(step: Step, state: State, megabytes: float) -> float:
    record = state.records.get(step.name)
    if record is not None and record.seconds:
        return record.seconds
    several = max(len(list(references(step.options))), 1) if step.pipeline in ("evaluate", "predict", "release") else 1
    return _START + _SECONDS_PER_MB.get(step.pipeline, 0.05) * megabytes * several


def total_seconds(graph: Graph, seconds: Mapping[str, float], jobs: int) -> float:
    """How long steps take side by side: the longest chain, or all work shared by the workers, whichever is more."""
    ends: dict[str, float] = {}
    for name in graph.steps:
        if name in seconds:
            ends[name] = seconds[name] + max((ends.get(need, 0.0) for need in graph.needs[name]), default=0.0)
    return max(max(ends.values(), default=0.0), sum(seconds.values()) / jobs)


def _costs(graph: Graph, commands: Mapping[str, Sequence[str]], folder: Path) -> dict[str, str]:
    """What steps with paid engines say of their cost: their commands are run with ``--dry_run``."""
    costs = {}
    for name, command in commands.items():
        options = graph.steps[name].options
        paid = [engine for flag in ("engine", "speaker", "listener") if (engine := options.get(flag)) in PAID]
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
