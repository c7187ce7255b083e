"""``parapet suite``: a whole evaluation from one file: sets, systems, scores, one table, a release."""

from __future__ import annotations

import argparse
import fnmatch
import logging
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.command import EXIT_FAILURE, run_checked, say
from parapet.pipelines.flags import INPUT, RUNNING, Parser, add_dry_run
from parapet.pipelines.suite.suite_file import SuiteFile, built_in, read_suite, unknown_key
from parapet.schemas.errors import InputError
from parapet.schemas.published import stays_within
from parapet.transforms.text import counted

if TYPE_CHECKING:
    from parapet.pipelines.suite.checks import Plan
    from parapet.pipelines.suite.costs import StepCost
    from parapet.pipelines.suite.running import Outcome
    from parapet.pipelines.suite.state import State
    from parapet.pipelines.suite.steps import Graph

EXAMPLE = """\
  parapet suite sample                                       # the bundled sample through every pipeline
  parapet suite my_suite.toml --output my_suite --dry_run    # check the file, show the steps; run nothing
  parapet suite my_suite.toml --output my_suite              # run them; again: only what has changed
  parapet suite sgdx --set corpus.sgd=sgd --set variants.path=sgd/sgd_x/data --output sgdx"""

_DEFAULT_OUTPUT = "NAME-suite"


class Config(msgspec.Struct, frozen=True):
    """A run.

    Attributes:
      suite: the file.
      graph: its steps.
      output: the output folder.
      names: the steps that are wanted, with those that they need.
      state: of the output folder.
      stale: those of the steps that have changed, as far as can be said before any runs, and all that need them.
      plan: of the stale ones; None where there are none.
      jobs: how many run at a time.
      dry_run: whether to show what would be done, and do nothing.
      runner_flags: flags of Beam's own, for the steps that run on Beam.
    """

    suite: SuiteFile
    graph: Graph
    output: Path
    names: list[str]
    state: State
    stale: list[str]
    plan: Plan | None
    jobs: int
    dry_run: bool
    runner_flags: list[str]


def parser() -> Parser:
    """The flags."""
    what = (
        "From one file that names a corpus, sets and systems: makes the sets, scores the systems on them, and puts "
        "all numbers into one table, OUT/index.html. What is there and unchanged is not made again."
    )
    flags = Parser("suite", what, EXAMPLE)
    output = next(action for action in flags._actions if action.dest == "output")
    output.required, output.default = False, _DEFAULT_OUTPUT
    output.help = "local folder to write"
    add = flags.group(INPUT)
    add("suite", metavar="FILE|NAME", help=f"suite in TOML (docs/suite.md), or {', '.join(built_in())}")
    text = "change a value of the file: corpus.sgd=my_corpus, systems.ours.model=tracker.py:Tracker"
    add("--set", action="append", default=[], metavar="KEY=VALUE", help=text)
    add = flags.group(RUNNING)
    add(
        "--only",
        nargs="+",
        default=[],
        metavar="STEP",
        help="run only these steps, such as scores/*, and what they need",
    )
    add("--skip", nargs="+", default=[], metavar="STEP", help="leave out these steps, and what cannot do without them")
    add("--jobs", type=int, default=0, metavar="N", help="steps to run at a time (default: one for each core)")
    add_dry_run(flags)
    return flags


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "run it again to go on")


def check(args: argparse.Namespace) -> Config:
    """Reads the file, makes its graph, and checks what has to run. Raises InputError where that cannot work."""
    from parapet.pipelines.suite.graph import make_graph
    from parapet.pipelines.suite.options import lacks
    from parapet.pipelines.suite.state import FOLDER, State

    if "://" in args.output:
        raise InputError("a suite writes to a local folder", args.output, "--output")
    if args.jobs < 0:
        raise InputError("1 or more", "--jobs")
    suite = read_suite(args.suite, args.set)
    output = Path(f"{suite.name}-suite" if args.output == _DEFAULT_OUTPUT else args.output).absolute()
    if output.is_file():
        raise InputError("is a file: give a folder", args.output, "--output")
    if output.is_dir() and not (output / FOLDER).is_dir() and any(output.iterdir()):
        raise InputError("holds files that no suite has written: give a new folder", args.output, "--output")
    if not stays_within(str(output), f"{FOLDER}/any"):
        raise InputError("leads outside of the suite's folder by a link: remove the link", output / FOLDER)
    state = State(output)
    graph = make_graph(suite, state.sets_of, lacks, lambda name: any(_matches(name, one) for one in args.skip))
    names = list(graph.steps)
    for pattern in args.skip:
        if not any(_matches(one.name, pattern) for one in graph.left_out):
            raise InputError(unknown_key(pattern, names, "step"), "--skip")
    if args.only:
        chosen = [name for name in names if any(_matches(name, pattern) for pattern in args.only)]
        for pattern in args.only:
            if not any(_matches(name, pattern) for name in names):
                raise InputError(unknown_key(pattern, names, "step"), "--only")
        needed = graph.with_needs(chosen)
        names = [name for name in names if name in needed]
    stale, plan = _stale(suite, graph, state, names), None
    if stale:
        from parapet.pipelines.suite.checks import make_plan
        from parapet.pipelines.suite.running import warm_up

        if args.dry_run:
            from parapet.pipelines.suite.costs import speed_here

            plan = make_plan(suite, graph, stale, state, args.runner_flags, speed_here())
        else:
            warm_up()
            plan = make_plan(suite, graph, stale, state, args.runner_flags)
    return Config(
        suite, graph, output, names, state, stale, plan, args.jobs or _cores(), args.dry_run, args.runner_flags
    )


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _matches(name: str, pattern: str) -> bool:
    return name == pattern or name.startswith(f"{pattern}/") or fnmatch.fnmatchcase(name, pattern)


def act(config: Config) -> int:
    """Runs what has changed, and writes the page."""
    from parapet.pipelines.suite.results import write_results
    from parapet.pipelines.suite.running import UNCHANGED, Outcome, locked

    for names, first in config.graph.lacking():
        logging.warning("left out: %s: %s%s", names, first.reason, f" (needs {first.needs})" if first.needs else "")
    if config.plan is not None:
        from parapet.pipelines.suite.checks import warnings_of

        for warning in warnings_of(config.plan, config.jobs):
            logging.warning("%s", warning)
    if config.dry_run:
        _show(config)
        return 0
    if config.plan is not None:
        _show_bills(config.plan)
    with locked(config.output):
        outcomes = {name: Outcome(UNCHANGED) for name in config.names}
        if config.plan is not None:
            outcomes = _run_steps(config, config.plan)
        config.state.save()
        write_results(config.suite, config.graph, config.state, outcomes)
    return _end(config, outcomes)


def _stale(suite: SuiteFile, graph: Graph, state: State, names: Sequence[str]) -> list[str]:
    """The steps that must run, as far as can be said before any runs: those that have changed, and all after them."""
    stale: dict[str, None] = {}
    for name in names:
        step = graph.steps[name]
        after_stale = not graph.needs[name].isdisjoint(stale)
        if after_stale or not state.is_current(step, state.fingerprint(step, suite.folder)):
            stale[name] = None
    return list(stale)


def _run_steps(config: Config, plan: Plan) -> dict[str, Outcome]:
    from parapet.pipelines.suite.checks import total_seconds
    from parapet.pipelines.suite.running import Runner, Shown

    remaining = partial(total_seconds, config.graph, jobs=config.jobs)
    with Shown(config.suite.title, config.names, config.state.logs, plan.seconds, remaining) as shown:
        folder = config.suite.folder
        runner = Runner(config.graph, config.state, folder, config.runner_flags, config.jobs, shown, plan.seconds)
        return runner.run(config.names)


def _show(config: Config) -> None:
    """Prints the steps, and what they would cost."""
    from parapet.pipelines.suite.checks import shown, total_seconds
    from parapet.pipelines.suite.costs import peak, total

    stale, plan = config.stale, config.plan
    costs = plan.costs if plan is not None else {}
    if costs:
        say(f"{'':24} {'CPU':>8} {'memory':>8} {'writes':>8}")
    for name in config.names:
        needs = sorted(config.graph.needs[name])
        several = [*needs[:2], f"{len(needs) - 2} more"] if len(needs) > 3 else needs
        after = f"  after {', '.join(several)}" if needs else ""
        if name not in costs:
            say(f"{name:24} unchanged{after}")
            continue
        cost = costs[name]
        why = f" ({'not estimated: ' * (cost.cpu is None)}{cost.reason})" if cost.reason else ""
        say(f"{_row(name, cost)}{after}{why}")
    if plan is None:
        say("nothing has changed: nothing would run")
        return
    _show_bills(plan)
    known = [cost for cost in costs.values() if cost.cpu is not None]
    if not known:
        say(f"{counted(len(stale), 'step')} would run; nothing is known of what they cost")
        return
    say(_row("the suite itself", plan.own))
    cpu = total([plan.own.cpu, *(cost.cpu for cost in known)])
    wall = total_seconds(config.graph, plan.seconds, config.jobs) + (plan.own.cpu or 0.0)
    unknown = counted(len(costs) - len(known), "step")
    say(
        f"{counted(len(stale), 'step')} would run: {_duration(cpu)} of CPU time, about {_duration(wall)} on "
        f"{counted(config.jobs, 'core')}; up to {shown(peak(costs, config.jobs))} of memory; "
        f"{shown(total(cost.written for cost in costs.values()))} to write, {shown(plan.free)} free"
        + (f"; without {unknown} that cannot be estimated" if len(known) < len(costs) else "")
    )


def _row(name: str, cost: StepCost) -> str:
    """A line of the table of costs."""
    from parapet.pipelines.suite.checks import shown

    sizes = ["-" if size is None else shown(size) for size in (cost.memory, cost.written)]
    cells = ["-" if cost.cpu is None else _duration(cost.cpu), *sizes]
    return f"{name:24} {' '.join(f'{cell:>8}' for cell in cells)}"


def _show_bills(plan: Plan) -> None:
    for name, text in plan.bills.items():
        for line in text.splitlines():
            say(f"{name}: {line}")


def _duration(seconds: float) -> str:
    """``1.4 s``, ``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _end(config: Config, outcomes: dict[str, Outcome]) -> int:
    """Prints the end of a run; gives the exit status."""
    from parapet.pipelines.suite.running import BLOCKED, DONE, FAILED

    by_status = {
        status: [name for name, one in outcomes.items() if one.status == status] for status in (DONE, FAILED, BLOCKED)
    }
    unchanged = len(outcomes) - sum(map(len, by_status.values()))
    page = config.output / "index.html"
    if page.is_relative_to(Path.cwd()):
        page = page.relative_to(Path.cwd())
    for line in _scores(config) if by_status[DONE] else []:
        say(line)
    say(f"{counted(len(by_status[DONE]), 'step')} run, {unchanged} unchanged: {page}")
    if failed := by_status[FAILED]:
        blocked = by_status[BLOCKED]
        they = "they need" if len(blocked) > 1 else "it needs"
        also = f"; not run, because {they} what failed: {', '.join(blocked)}" if blocked else ""
        logging.error("%s failed: %s%s", counted(len(failed), "step"), ", ".join(failed), also)
    return EXIT_FAILURE if by_status[FAILED] else 0


def _scores(config: Config) -> list[str]:
    """The table of all systems, as far as it fits a terminal."""
    from parapet.evaluation.compare.leaderboard import read_board
    from parapet.evaluation.compare.tables import terminal_lines
    from parapet.pipelines.suite.steps import COMPARISON

    place = config.output / COMPARISON / "leaderboard.json"
    return terminal_lines(read_board(str(place))) if place.is_file() else []


if __name__ == "__main__":
    sys.exit(run())
