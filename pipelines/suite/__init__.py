"""``parapet suite``: runs a whole evaluation from one file: sets, systems, scores, one table, a release."""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from parapet.pipelines import app, command
from parapet.pipelines.command import say
from parapet.pipelines.suite.suite_file import (
    COMPARISON,
    ENGINES,
    TABLES,
    SuiteFile,
    built_in,
    command_of,
    read_suite,
    resolved,
)
from parapet.schemas.errors import InputError, code_sha256, no_such, run_header
from parapet.schemas.layout import dialogue_files, stays_within
from parapet.transforms.core import options
from parapet.transforms.core.options import REQUIRED, option
from parapet.transforms.report.text import counted

if TYPE_CHECKING:
    from parapet.pipelines.suite.graph import Graph
    from parapet.pipelines.suite.running import Outcome, State

_DEFAULT_OUTPUT = "NAME-suite"
_PAID = ("google", "azure")  # engines that charge for requests
_MODELS = ("checkpoint", "nli_model", "model")  # options that commands check only when they load the model
_DISAGREE = 0.2  # a guess: the share of dialogues on which two systems differ
MANIFEST, PAGE, CARD = "run.json", "index.html", "README.md"


class Plan(NamedTuple):
    """The steps of a suite, and which of them must run.

    Attributes:
      suite: the suite's file.
      graph: its steps.
      state: the state of the output folder.
      names: the requested steps, with those that they need.
      stale: the steps known to have changed before any step runs, and all steps that need them.
    """

    suite: SuiteFile
    graph: Graph
    state: State
    names: list[str]
    stale: list[str]


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
    suite: str = option(
        REQUIRED, f"suite in TOML (docs/suite.md), or {', '.join(built_in())}", metavar="FILE|NAME", positional=True
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
        from parapet.pipelines.suite.graph import Graph
        from parapet.pipelines.suite.running import FOLDER, State, warm_up

        if "://" in self.output:
            raise InputError("must be a local folder", self.output, "--output")
        suite = read_suite(self.suite, self.set, self.tasks)
        output = Path(f"{suite.name}-suite" if self.output == _DEFAULT_OUTPUT else self.output).absolute()
        if output.exists() and not (output / FOLDER).is_dir() and not (output.is_dir() and not any(output.iterdir())):
            raise InputError("contains files that no suite has written: choose a new folder", self.output, "--output")
        if not stays_within(str(output), f"{FOLDER}/any"):
            raise InputError("leads outside of the suite's folder by a link: remove the link", output / FOLDER)
        state = State(output)
        graph = Graph(suite, lambda name: _matches(name, self.skip))
        if suite.gates:
            from parapet.pipelines.suite.page import check_gates

            check_gates(suite, graph)
        names, left_out = list(graph.steps), [entry.name for entry in graph.left_out]
        for flag, patterns, known in (("--skip", self.skip, left_out), ("--only", self.only, names)):
            for pattern in patterns:
                if not any(_matches(name, [pattern]) for name in known):
                    raise InputError(no_such("step", pattern, names), flag)
        if self.only:
            needed = graph.with_needs(name for name in names if _matches(name, self.only))
            names = [name for name in names if name in needed]
        stale: list[str] = []
        for name in names:
            step = graph.steps[name]
            is_after_stale = not graph.needs[name].isdisjoint(stale)
            if is_after_stale or not state.is_current(step, state.fingerprint(step, suite.folder)):
                stale.append(name)
        if stale and not self.dry_run:
            warm_up()
        plan = Plan(suite, graph, state, names, stale)
        _check_steps(plan)
        return plan

    def act(self, plan: Plan) -> int:
        """Runs the steps that have changed, and writes the page."""
        from parapet.pipelines.progress import Display
        from parapet.pipelines.suite.running import Runner, locked

        for names, first in plan.graph.lacking():
            logging.warning("left out: %s: %s%s", names, first.reason, f" (needs {first.needs})" if first.needs else "")
        if self.dry_run:
            _show(plan)
            return 0
        with locked(plan.state.output):
            with Display(plan.suite.title, len(plan.names)) as display:
                outcomes = Runner(plan, self.runner_flags, self.jobs or command.cores(), display).run()
            plan.state.save()
            write_results(plan, outcomes)
        return _end(plan, outcomes)


COMMAND = Suite


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(name.startswith(f"{pattern}/") or fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _show(plan: Plan) -> None:
    """Prints the steps in order, which of them would run, and what those with paid engines would cost."""
    bills = list(_bills(plan))
    width = max(map(len, plan.names), default=0)
    for name in plan.names:
        status = "runs" if name in plan.stale else "unchanged"
        after = f"after {', '.join(sorted(plan.graph.needs[name]))}" if plan.graph.needs[name] else ""
        say(f"{name:{width}}  {status:9}  {after}".rstrip())
    say(f"{counted(len(plan.stale), 'step')} would run, {len(plan.names) - len(plan.stale)} unchanged")
    for line in (*bills, *_visible_difference(plan)):
        say(line)


def _bills(plan: Plan) -> Iterator[str]:
    """Yields the costs of steps with paid engines, line by line, by running their commands with ``--dry_run``."""
    for name in plan.stale:
        step, needs = plan.graph.steps[name], sorted(plan.graph.needs[name])
        if not any(step.options.get(flag) in _PAID for flag in ENGINES):
            continue
        if not plan.graph.needs[name].isdisjoint(plan.stale):
            yield f"{name}: its cost is known once {', '.join(needs)} is done"
            continue
        words = [*app.command_line(command_of(step, plan.state.output)), "--dry_run", "--quiet"]
        words = [sys.executable, "-m", "parapet", *words]
        result = subprocess.run(words, capture_output=True, text=True, cwd=plan.suite.folder, check=False)  # noqa: S603 (ours)
        if result.returncode:
            raise command.UsageError(result.stderr.strip().rpartition("\n")[2].removeprefix("error: "), "", name)
        yield from (f"{name}: {line}" for line in result.stdout.splitlines())


def _visible_difference(plan: Plan) -> Iterator[str]:
    """Yields a line on the difference that the suite can show, by a guess; none if its size is not known yet."""
    from parapet.evaluation.planning import Study, Variance
    from parapet.evaluation.tools.tasks import read_tasks
    from parapet.schemas.dialogue import dialogue_ids

    graph, split, size = plan.graph, plan.suite.corpus.scored, 0
    place = plan.suite.folder / resolved(graph.tasks or graph.sgd, plan.state.output)
    if graph.tasks:
        with contextlib.suppress(InputError):  # a step makes the tasks, or refuses them
            size = len(read_tasks(str(place)))
    else:
        size = sum(len(dialogue_ids(path)) for path in (dialogue_files(place, split) or dialogue_files(place, "")))
    if size and graph.scores:
        shown = Study(Variance(_DISAGREE, has_difference=True)).difference(size)
        differences = "no difference" if shown is None else f"differences of {100 * shown:.0f} points"
        guess = f"if they disagree on {_DISAGREE:.0%} of the {counted(size, 'task' if graph.tasks else 'dialogue')}"
        yield f"this suite can show {differences} between two systems, {guess} (power 80%; more by 'parapet plan')"


def _end(plan: Plan, outcomes: dict[str, Outcome]) -> int:
    """Prints the summary of a run; returns the exit status."""
    from parapet.pipelines.suite.page import verdicts_of  # imports Jinja
    from parapet.pipelines.suite.running import BLOCKED, DONE, FAILED, UNCHANGED

    done, failed, blocked, unchanged = (
        [name for name, outcome in outcomes.items() if outcome.status == status]
        for status in (DONE, FAILED, BLOCKED, UNCHANGED)
    )
    output = plan.state.output
    if done and (output / TABLES[0]).is_file():
        from parapet.evaluation.compare.board import read_board, terminal_lines
        from parapet.evaluation.compare.page import headline

        board = read_board(str(output / COMPARISON / "leaderboard.json"))
        for line in (*terminal_lines(board), headline(board)):
            say(line)
    say(f"{counted(len(done), 'step')} run, {len(unchanged)} unchanged: {os.path.relpath(output / PAGE)}")
    verdicts = verdicts_of(plan.suite, output)
    for verdict in verdicts:
        if verdict.is_met:
            say(f"gate met: {verdict.text()}")
        else:
            logging.error("gate missed: %s", verdict.text())
    if failed:
        also = f"; not run, because they need what failed: {', '.join(blocked)}" if blocked else ""
        logging.error("%s failed: %s%s", counted(len(failed), "step"), ", ".join(failed), also)
    return command.EXIT_FAILURE if failed or not all(verdict.is_met for verdict in verdicts) else 0


def _check_steps(plan: Plan) -> None:
    """Raises InputError if a step's command or option does not exist, or an input that no step makes is missing."""
    made_in = f"{plan.state.output}/"
    for name in plan.stale:
        step = plan.graph.steps[name]
        try:
            parsed = command_of(step, plan.state.output)
            with contextlib.chdir(plan.suite.folder):
                command.check_all_apart(parsed)
                command.check_there(parsed, made_in)
                for key in _MODELS:
                    path = str(getattr(parsed, key, None) or "")
                    if key == "model":  # FILE.py:NAME
                        path = path.rpartition(":")[0] if ".py:" in path else ""
                    if path and "://" not in path and not path.startswith(made_in) and not Path(path).exists():
                        raise InputError("there is no such file or folder", path, key)
        except InputError as error:
            reason = f"{error.path}: {error.reason}" if error.path else error.reason
            place = f"{step.place} ({name})"
            raise plan.suite.error(reason, ".".join(filter(None, [place, error.where.lstrip("-")]))) from None


def write_results(plan: Plan, outcomes: Mapping[str, Outcome]) -> None:
    """Writes the tables, the page and ``run.json``.

    Args:
      plan: the suite.
      outcomes: the outcomes of the steps that were to run; for other steps, the output of earlier runs is shown.
    """
    from parapet.pipelines.suite.page import suite_report  # imports Jinja
    from parapet.pipelines.suite.running import BLOCKED, FAILED, versions
    from parapet.transforms.core.disk import write
    from parapet.transforms.report.report import card, page

    suite, graph, state = plan.suite, plan.graph, plan.state
    lost = {name: outcome for name, outcome in outcomes.items() if outcome.status in (FAILED, BLOCKED)}
    present = {name: step for name, step in graph.steps.items() if state.output_of(name) and name not in lost}
    files = {}
    for path in TABLES:
        if COMPARISON in present:
            files[path] = (state.output / COMPARISON / path).read_bytes()
            write(state.output / path, files[path])
        else:
            (state.output / path).unlink(missing_ok=True)
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
    shown = suite_report(plan, present, lost, header)
    pages = {PAGE: page(shown).encode(), CARD: card(shown).encode()}
    for path, content in pages.items():
        write(state.output / path, content)
    listed = {path: hashlib.sha256(content).hexdigest() for path, content in (files | pages).items()}
    write(state.output / MANIFEST, (json.dumps({**header, "files": listed}, indent=1, sort_keys=True) + "\n").encode())
