"""``parapet suite``: runs a whole evaluation from one file: sets, systems, scores, one table, a release."""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import json
import logging
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.pipelines import app, runners
from parapet.pipelines.command import EXIT_FAILURE, check_all_apart, check_there, say
from parapet.pipelines.suite import gates
from parapet.pipelines.suite.gates import verdicts_of
from parapet.pipelines.suite.steps import (
    COMPARISON,
    ENGINES,
    TABLES,
    command_of,
    lacks,
    resolved,
    sets_of,
    unknown_key,
)
from parapet.pipelines.suite.suite_file import SuiteFile, built_in, read_suite
from parapet.schemas.errors import InputError, code_sha256, run_header
from parapet.schemas.layout import stays_within
from parapet.transforms.reports.text import counted
from parapet.transforms.running import options
from parapet.transforms.running.options import REQUIRED, option

if TYPE_CHECKING:
    from parapet.pipelines.suite.running import Outcome
    from parapet.pipelines.suite.state import State
    from parapet.pipelines.suite.steps import Graph

_DEFAULT_OUTPUT = "NAME-suite"


class Plan(msgspec.Struct, frozen=True):
    """The steps of a suite, and which of them must run.

    Attributes:
      suite: the suite's file.
      graph: its steps.
      state: the state of the output folder.
      names: the requested steps, with those that they need.
      stale: the steps known to have changed before any step runs, and all steps that need them.
      bills: for a dry run, (step, line): what stale steps with paid engines would send, and what it would cost.
    """

    suite: SuiteFile
    graph: Graph
    state: State
    names: list[str]
    stale: list[str]
    bills: list[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Suite(app.Command[Plan]):
    """``parapet suite``; ``runner_flags`` are Beam's own flags, for the steps that run on Beam."""

    name = "suite"
    description = (
        "From one file that names a corpus, sets and systems: makes the sets, scores the systems on them, and puts "
        "all numbers into one table, OUT/index.html. What is there and unchanged is not made again."
    )
    example = """\
  parapet suite sample                                       # the bundled sample through every pipeline
  parapet suite my_suite.toml --output my_suite --dry_run    # check the file, show the steps; run nothing
  parapet suite my_suite.toml --output my_suite              # run them; again: only what has changed
  parapet suite sgdx --set corpus.sgd=sgd --set variants.path=sgd/sgd_x/data --output sgdx"""
    takes_beam_flags = True
    stopped = "run the same command again to continue"
    output: str = option(_DEFAULT_OUTPUT, "local folder to write", group=options.OUTPUT, metavar="OUT")
    workers: int | None = options.workers()
    suite: str = option(
        REQUIRED,
        f"suite in TOML (docs/suite.md), or {', '.join(built_in())}",
        metavar="FILE|NAME",
        positional=True,
    )
    set: list[str] = option(
        [],
        "change a value of the file: corpus.sgd=my_corpus, systems.ours.model=tracker.py:Tracker",
        metavar="KEY=VALUE",
        repeated=True,
    )
    tasks: str = options.folder("tasks of agents, in BFCL's format, in place of the suite's", "FILE")
    only: list[str] = option(
        [], "run only these steps, such as scores/*, and what they need", group=options.RUNNING, metavar="STEP"
    )
    skip: list[str] = option(
        [], "leave out these steps, and what cannot do without them", group=options.RUNNING, metavar="STEP"
    )
    jobs: int = option(0, "steps to run at a time (default: one for each core)", group=options.RUNNING, ge=0)
    dry_run: bool = options.dry_run()
    runner_flags: tuple[str, ...] = ()

    def check(self) -> Plan:
        """Reads the file, and checks the steps that must run. Raises InputError if a step cannot work."""
        from parapet.pipelines.suite.graph import make_graph
        from parapet.pipelines.suite.state import FOLDER, State

        if "://" in self.output:
            raise InputError("must be a local folder", self.output, "--output")
        suite = read_suite(self.suite, self.set, self.tasks)
        output = Path(f"{suite.name}-suite" if self.output == _DEFAULT_OUTPUT else self.output).absolute()
        if output.is_file():
            raise InputError("is a file: give a folder", self.output, "--output")
        if output.is_dir() and not (output / FOLDER).is_dir() and any(output.iterdir()):
            raise InputError("contains files that no suite has written: choose a new folder", self.output, "--output")
        if not stays_within(str(output), f"{FOLDER}/any"):
            raise InputError("leads outside of the suite's folder by a link: remove the link", output / FOLDER)
        state = State(output)
        graph = make_graph(suite, sets_of, lacks, lambda name: _matches(name, self.skip))
        gates.check_numbers(suite, graph)
        names, left_out = list(graph.steps), [entry.name for entry in graph.left_out]
        for flag, patterns, known in (("--skip", self.skip, left_out), ("--only", self.only, names)):
            for pattern in patterns:
                if not any(_matches(name, [pattern]) for name in known):
                    raise InputError(unknown_key(pattern, names, "step"), flag)
        if self.only:
            needed = graph.with_needs(name for name in names if _matches(name, self.only))
            names = [name for name in names if name in needed]
        stale = _stale(suite, graph, state, names)
        bill_lines: list[tuple[str, str]] = []
        if stale:
            from parapet.pipelines.suite.running import warm_up

            if not self.dry_run:
                warm_up()
            check_steps(suite, graph, stale, output, self.runner_flags)
            if self.dry_run:
                bill_lines = list(bills(graph, stale, output, self.runner_flags, suite.folder))
        return Plan(suite, graph, state, names, stale, bill_lines)

    def act(self, plan: Plan) -> int:
        """Runs the steps that have changed, and writes the page."""
        from parapet.pipelines.progress import Display
        from parapet.pipelines.suite.running import UNCHANGED, Outcome, Runner, locked

        suite, graph, state = plan.suite, plan.graph, plan.state
        for names, first in graph.lacking():
            logging.warning("left out: %s: %s%s", names, first.reason, f" (needs {first.needs})" if first.needs else "")
        if self.dry_run:
            _show(plan)
            for step, line in plan.bills:
                say(f"{step}: {line}")
            return 0
        with locked(state.output):
            outcomes = {name: Outcome(UNCHANGED) for name in plan.names}
            if plan.stale:
                with Display(suite.title, len(plan.names)) as display:
                    runner = Runner(
                        graph, state, suite.folder, self.runner_flags, self.jobs or runners.cores(), display
                    )
                    outcomes = runner.run(plan.names)
            state.save()
            write_results(suite, graph, state, outcomes)
        return _end(plan, outcomes)


COMMAND = Suite


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(name.startswith(f"{pattern}/") or fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _stale(suite: SuiteFile, graph: Graph, state: State, names: Sequence[str]) -> list[str]:
    """Lists the steps known to have changed before any step runs, and all steps after them."""
    stale: dict[str, None] = {}
    for name in names:
        step = graph.steps[name]
        after_stale = not graph.needs[name].isdisjoint(stale)
        if after_stale or not state.is_current(step, state.fingerprint(step, suite.folder)):
            stale[name] = None
    return list(stale)


def _show(plan: Plan) -> None:
    """Prints the steps in order, and which of them would run."""
    width = max(map(len, plan.names), default=0)
    for name in plan.names:
        needs = sorted(plan.graph.needs[name])
        several = [*needs[:2], f"{len(needs) - 2} more"] if len(needs) > 3 else needs
        after = f"after {', '.join(several)}" if needs else ""
        status = "runs" if name in plan.stale else "unchanged"
        say(f"{name:{width}}  {status:9}  {after}".rstrip())
    unchanged = len(plan.names) - len(plan.stale)
    say(f"{counted(len(plan.stale), 'step')} would run, {unchanged} unchanged")


def _end(plan: Plan, outcomes: dict[str, Outcome]) -> int:
    """Prints the summary of a run; returns the exit status."""
    from parapet.pipelines.suite.running import BLOCKED, DONE, FAILED, UNCHANGED

    statuses = (DONE, FAILED, BLOCKED, UNCHANGED)
    done, failed, blocked, unchanged = (
        [name for name, outcome in outcomes.items() if outcome.status == status] for status in statuses
    )
    page = plan.state.output / PAGE
    if page.is_relative_to(Path.cwd()):
        page = page.relative_to(Path.cwd())
    board = plan.state.output / COMPARISON / "leaderboard.json"
    is_lost = COMPARISON in [*failed, *blocked]  # then no number is known
    if done and board.is_file() and not is_lost:
        from parapet.evaluation.compare.board import read_board
        from parapet.evaluation.compare.tables import terminal_lines

        for line in terminal_lines(read_board(str(board))):
            say(line)
    say(f"{counted(len(done), 'step')} run, {len(unchanged)} unchanged: {page}")
    missed = False
    for verdict in verdicts_of(plan.suite, plan.state.output, is_lost):
        if verdict.is_met:
            say(f"gate met: {verdict.text()}")
        else:
            missed = True
            logging.error("gate missed: %s", verdict.text())
    if failed:
        they = "they depend on steps that" if len(blocked) > 1 else "it depends on steps that"
        also = f"; not run, because {they} failed: {', '.join(blocked)}" if blocked else ""
        logging.error("%s failed: %s%s", counted(len(failed), "step"), ", ".join(failed), also)
    return EXIT_FAILURE if failed or missed else 0


_PAID = ("google", "azure")  # engines that charge for requests
# Inputs that the commands check themselves.
_OTHER_INPUTS = ("responses", "decisions", "checkpoint", "nli_model")


def check_steps(
    suite: SuiteFile, graph: Graph, names: Sequence[str], output: Path, runner_flags: Sequence[str]
) -> None:
    """Raises InputError if a step's command or option does not exist, or an input that no step makes is missing."""
    for key, kind in (("tasks", "file"), ("sgd", "folder")):
        value = getattr(suite.corpus, key)
        path = _outside(str(resolved(value, output)), output)
        if path and not _is_there(str(suite.folder / str(path))):
            raise suite.error(f"there is no such {kind}", f"corpus.{key} = {value}")
    for name in names:
        step = graph.steps[name]
        place = f"{step.place} ({name})"
        try:
            command = command_of(step, output)
        except InputError as error:
            where = place if not error.where else f"{place}.{error.where}"
            raise suite.error(error.reason if not error.path else f"{error.path}: {error.reason}", where) from None
        outside = replace(command, **{f.name: _outside(getattr(command, f.name), output) for f in fields(command)})
        with contextlib.chdir(suite.folder):
            try:
                check_all_apart(command)
                check_there(outside)
            except InputError as error:
                raise suite.error(f"{error.path}: {error.reason}", f"{place}.{error.where.lstrip('-')}") from None
            inputs = {key: getattr(outside, key, []) for key in _OTHER_INPUTS}
            model = str(getattr(outside, "model", ""))
            if step.command == ("evaluate", "dst") and ".py" in model:
                inputs["model"] = model.rpartition(":")[0] or model
            for key, values in inputs.items():
                for path in values if isinstance(values, list | tuple) else filter(None, [values]):
                    if not _is_there(path):
                        raise suite.error(f"{path}: there is no such file or folder", f"{place}.{key}")


def _is_there(path: str) -> bool:
    return "://" in path or Path(path).exists()  # buckets are not queried


def _outside(value: object, output: Path) -> object:
    """Returns a value without paths below the output folder."""
    if isinstance(value, list | tuple):
        return [item for item in value if str(output) not in str(item)]
    return None if isinstance(value, str) and str(output) in value else value


def bills(
    graph: Graph, names: Sequence[str], output: Path, runner_flags: Sequence[str], folder: Path
) -> Iterator[tuple[str, str]]:
    """Yields the costs of steps with paid engines, line by line, by running their commands with ``--dry_run``."""
    for name in names:
        step = graph.steps[name]
        paid = [engine for flag in ENGINES if (engine := step.options.get(flag)) in _PAID]
        if paid and not graph.needs[name].isdisjoint(names):
            yield name, f"{paid[0]}: known once {', '.join(sorted(graph.needs[name]))} is done"
        elif paid:
            words = [
                sys.executable,
                "-m",
                "parapet",
                *app.command_line(command_of(step, output)),
                "--dry_run",
                "--quiet",
            ]
            result = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False)  # noqa: S603 (ours)
            lines = (result.stdout.strip() or result.stderr.strip() or "its dry run failed").splitlines()
            if result.returncode:
                raise InputError(lines[-1].removeprefix("error: "), "", name)
            yield from ((name, line) for line in lines)


MANIFEST, PAGE, CARD = "run.json", "index.html", "README.md"


def write_results(suite: SuiteFile, graph: Graph, state: State, outcomes: Mapping[str, Outcome]) -> None:
    """Writes the page, the tables and ``run.json``.

    Args:
      suite: the suite's file.
      graph: its steps.
      state: the state of the output folder.
      outcomes: the outcomes of the steps that were to run; for other steps, the output of earlier runs is shown.
    """
    from parapet.pipelines.suite.running import BLOCKED, FAILED
    from parapet.pipelines.suite.state import versions, write

    lost = {name: outcome for name, outcome in outcomes.items() if outcome.status in (FAILED, BLOCKED)}
    present = {name: step for name, step in graph.steps.items() if state.output_of(name) and name not in lost}
    described: dict[str, Any] = msgspec.to_builtins(suite, enc_hook=str)
    del described["folder"], described["path"]  # results must not depend on where the suite's file lies
    header = {
        **run_header("suite", {"suite": suite.name}),
        "code_sha256": code_sha256(),
        "packages": versions(),
        "suite": described,
        "steps": {name: {"command": state.records[name].command, "sha256": state.output_of(name)} for name in present},
        "left_out": {entry.name: entry.reason for entry in graph.left_out},
        "failed": {name: outcome.reason for name, outcome in lost.items()},
    }
    from parapet.pipelines.suite.page import suite_report  # imports Jinja
    from parapet.transforms.reports.report import card, page

    shown = suite_report(suite, graph, state, present, lost, header)
    files = {PAGE: page(shown).encode(), CARD: card(shown).encode()}
    if COMPARISON in present:
        files |= {path: (state.output / COMPARISON / path).read_bytes() for path in TABLES}
    for path, content in files.items():
        write(state.output / path, content)
    for path in TABLES:
        if path not in files:
            (state.output / path).unlink(missing_ok=True)
    listed = {path: hashlib.sha256(content).hexdigest() for path, content in sorted(files.items())}
    write(state.output / MANIFEST, (json.dumps({**header, "files": listed}, indent=1, sort_keys=True) + "\n").encode())
