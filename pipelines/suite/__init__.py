"""``parapet suite``: a whole evaluation from one file: sets, systems, scores, one table, a release."""

from __future__ import annotations

import argparse
import fnmatch
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.command import EXIT_FAILURE, run_checked, say
from parapet.pipelines.flags import INPUT, RUNNING, Parser, add_dry_run
from parapet.pipelines.suite.suite_file import SuiteFile, built_in, read_suite, unknown_key
from parapet.schemas.errors import InputError
from parapet.schemas.layout import stays_within
from parapet.transforms.text import counted

if TYPE_CHECKING:
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
      args: the flags.
      suite: the file.
      graph: its steps.
      state: of the output folder.
      names: the steps that are wanted, with those that they need.
      stale: those of the steps that have changed, as far as can be said before any runs, and all that need them.
      bills: (step, line): what the stale steps with paid engines say that they would send, and what it costs.
    """

    args: argparse.Namespace
    suite: SuiteFile
    graph: Graph
    state: State
    names: list[str]
    stale: list[str]
    bills: list[tuple[str, str]]


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
    graph = make_graph(suite, state.sets_of, lacks, lambda name: any(_matches(name, skip) for skip in args.skip))
    names = list(graph.steps)
    for pattern in args.skip:
        if not any(_matches(entry.name, pattern) for entry in graph.left_out):
            raise InputError(unknown_key(pattern, names, "step"), "--skip")
    if args.only:
        chosen = [[name for name in names if _matches(name, pattern)] for pattern in args.only]
        for pattern, matches in zip(args.only, chosen, strict=True):
            if not matches:
                raise InputError(unknown_key(pattern, names, "step"), "--only")
        needed = graph.with_needs(name for matches in chosen for name in matches)
        names = [name for name in names if name in needed]
    stale, bills = _stale(suite, graph, state, names), list[tuple[str, str]]()
    if stale:
        from parapet.pipelines.suite import checks
        from parapet.pipelines.suite.running import warm_up

        if not args.dry_run:
            warm_up()
        checks.check_steps(suite, graph, stale, output, args.runner_flags)
        bills = list(checks.bills(graph, stale, output, args.runner_flags, suite.folder))
        checks.warn_of_little_room(suite, graph, stale, output)
    return Config(args, suite, graph, state, names, stale, bills)


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _matches(name: str, pattern: str) -> bool:
    return name == pattern or name.startswith(f"{pattern}/") or fnmatch.fnmatchcase(name, pattern)


def act(config: Config) -> int:
    """Runs what has changed, and writes the page."""
    from parapet.pipelines.progress import Display
    from parapet.pipelines.suite.results import write_results
    from parapet.pipelines.suite.running import UNCHANGED, Outcome, Runner, locked

    for names, first in config.graph.lacking():
        logging.warning("left out: %s: %s%s", names, first.reason, f" (needs {first.needs})" if first.needs else "")
    suite, graph, state, args = config.suite, config.graph, config.state, config.args
    if args.dry_run:
        _show(config)
    for step, line in config.bills:
        say(f"{step}: {line}")
    if args.dry_run:
        return 0
    with locked(state.output):
        outcomes = {name: Outcome(UNCHANGED) for name in config.names}
        if config.stale:
            with Display(suite.title, len(config.names)) as display:
                runner = Runner(graph, state, suite.folder, args.runner_flags, args.jobs or _cores(), display)
                outcomes = runner.run(config.names)
        state.save()
        write_results(suite, graph, state, outcomes)
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


def _show(config: Config) -> None:
    """Prints the steps, and which would run after which."""
    width = max(map(len, config.names), default=0)
    for name in config.names:
        needs = sorted(config.graph.needs[name])
        several = [*needs[:2], f"{len(needs) - 2} more"] if len(needs) > 3 else needs
        after = f"after {', '.join(several)}" if needs else ""
        what = "runs" if name in config.stale else "unchanged"
        say(f"{name:{width}}  {what:9}  {after}".rstrip())
    unchanged = len(config.names) - len(config.stale)
    say(f"{counted(len(config.stale), 'step')} would run, {unchanged} unchanged")


def _end(config: Config, outcomes: dict[str, Outcome]) -> int:
    """Prints the end of a run; gives the exit status."""
    from parapet.pipelines.suite.running import BLOCKED, DONE, FAILED, UNCHANGED
    from parapet.pipelines.suite.steps import COMPARISON

    statuses = (DONE, FAILED, BLOCKED, UNCHANGED)
    done, failed, blocked, unchanged = (
        [name for name, outcome in outcomes.items() if outcome.status == status] for status in statuses
    )
    page = config.state.output / "index.html"
    if page.is_relative_to(Path.cwd()):
        page = page.relative_to(Path.cwd())
    board = config.state.output / COMPARISON / "leaderboard.json"
    if done and board.is_file():
        from parapet.evaluation.compare.leaderboard import read_board
        from parapet.evaluation.compare.tables import terminal_lines

        for line in terminal_lines(read_board(str(board))):
            say(line)
    say(f"{counted(len(done), 'step')} run, {len(unchanged)} unchanged: {page}")
    if failed:
        they = "they need" if len(blocked) > 1 else "it needs"
        also = f"; not run, because {they} what failed: {', '.join(blocked)}" if blocked else ""
        logging.error("%s failed: %s%s", counted(len(failed), "step"), ", ".join(failed), also)
    return EXIT_FAILURE if failed else 0


if __name__ == "__main__":
    sys.exit(run())
