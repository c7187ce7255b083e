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
from parapet.pipelines.suite.costs import SUITE, StepCost, cost_of, estimate, memory_of_machine, peak, total
from parapet.pipelines.suite.options import command_line, parsed, parser_of
from parapet.pipelines.suite.references import references, resolved
from parapet.pipelines.suite.state import State
from parapet.pipelines.suite.steps import Graph, Step
from parapet.pipelines.suite.suite_file import SuiteFile
from parapet.pipelines.suite.work import Work
from parapet.schemas.errors import InputError

PAID = ("google", "azure")  # engines that bill what they are sent


class Plan(msgspec.Struct, frozen=True):
    """What a run would do.

    Attributes:
      costs: an estimate for each step.
      own: an estimate for what the suite does besides: its start, and the hashes of what is written.
      seconds: how long each step is expected to take on one core: as the last time, or as estimated; None where
        nobody knows.
      free: megabytes that there is room for.
      bills: of steps with paid engines, what their commands say that they would send, and what it costs.
    """

    costs: dict[str, StepCost]
    own: StepCost
    seconds: dict[str, float | None]
    free: float
    bills: dict[str, str]


def make_plan(
    suite: SuiteFile,
    graph: Graph,
    names: Sequence[str],
    state: State,
    runner_flags: Sequence[str],
    speed: float = 1.0,
) -> Plan:
    """Checks the steps that are to run, and estimates what they will cost.

    Args:
      suite: the file.
      graph: its steps.
      names: those that are to run.
      state: of the output folder.
      runner_flags: flags of Beam's own.
      speed: how many times as long as on the machine of the table everything takes on this one.

    Raises:
      InputError: a command does not exist, or does not take an option; an input is not there.
    """
    commands, flags = {}, {}
    for name in names:
        step = graph.steps[name]
        where = f"{step.place} ({name})"
        try:
            commands[name] = command_line(step, state.output, runner_flags)
            flags[name] = parsed(step, state.output)
        except InputError as error:
            place = where if not error.where else f"{where}.{error.where}"
            raise suite.error(error.reason if not error.path else f"{error.path}: {error.reason}", place) from None
        _check_paths(suite, step, where)
    corpus = suite.folder / str(resolved(suite.corpus.sgd, state.output))
    if "://" not in suite.corpus.sgd and not suite.corpus.sgd.startswith("@") and not corpus.exists():
        raise suite.error("there is no such folder", f"corpus.sgd = {suite.corpus.sgd}")
    scored = {name: parsed(step, state.output) for name, step in graph.steps.items() if step.pipeline == "evaluate"}
    costs = estimate(graph, {**scored, **flags}, names, state, suite.folder, speed)
    last = {name: record.seconds for name, record in state.records.items() if record.seconds}
    seconds = {name: last.get(name, cost.cpu) for name, cost in costs.items()}
    free = shutil.disk_usage(_existing(state.output)).free / 1e6
    own = cost_of(Work(SUITE, {"MB written": total(cost.written for cost in costs.values())}), speed)
    return Plan(costs, own, seconds, free, _bills(graph, commands, suite.folder))


def warnings_of(plan: Plan, jobs: int) -> Iterator[str]:
    """What will not fit, in memory with so many steps at a time, or on the disk."""
    most, there = peak(plan.costs, jobs), memory_of_machine()
    if there is not None and most > there:
        hint = f"; --jobs 1 needs {shown(peak(plan.costs, 1))}" if jobs > 1 else ""
        yield f"the steps may need {shown(most)} of memory, and this machine has {shown(there)}{hint}"
    if (size := total(cost.written for cost in plan.costs.values())) > plan.free:
        yield f"about {shown(size)} will be written, and the disk has {shown(plan.free)} left"


def shown(megabytes: float) -> str:
    """``0.3 MB``, ``12 MB``, ``3.4 GB``."""
    if megabytes >= 1000:
        return f"{megabytes / 1000:,.1f} GB"
    return f"{megabytes:.0f} MB" if megabytes >= 1 else f"{megabytes:.1f} MB"


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


def _existing(path: Path) -> Path:
    return path if path.exists() or path == path.parent else _existing(path.parent)


def total_seconds(graph: Graph, seconds: Mapping[str, float | None], jobs: int) -> float:
    """How long steps take side by side: the longest chain, or all work shared by the workers, whichever is more.

    Those that nobody knows are left out.
    """
    ends: dict[str, float] = {}
    for name in graph.steps:
        if name in seconds:
            ends[name] = (seconds[name] or 0.0) + max((ends.get(need, 0.0) for need in graph.needs[name]), default=0.0)
    return max(max(ends.values(), default=0.0), total(seconds.values()) / jobs)


def _bills(graph: Graph, commands: Mapping[str, Sequence[str]], folder: Path) -> dict[str, str]:
    """What steps with paid engines say of their cost: their commands are run with ``--dry_run``."""
    bills = {}
    for name, command in commands.items():
        options = graph.steps[name].options
        paid = [engine for flag in ("engine", "speaker", "listener") if (engine := options.get(flag)) in PAID]
        if not paid:
            continue
        if any(need in commands for need in graph.needs[name]):
            bills[name] = f"{paid[0]}: known when {', '.join(sorted(graph.needs[name]))} is done"
            continue
        words = [sys.executable, "-m", "parapet", *command, "--dry_run"]
        result = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False)  # noqa: S603 (our own)
        text = result.stdout.strip() or result.stderr.strip()
        if result.returncode:
            raise InputError(text.removeprefix("error: ").splitlines()[-1] if text else "its dry run failed", "", name)
        bills[name] = text
    return bills
