"""``parapet suite``: runs a whole evaluation from one file: sets, systems, scores, one table, a release."""

from __future__ import annotations

import argparse
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
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.pipelines.command import EXIT_FAILURE, check_all_apart, check_there, run_checked, say
from parapet.pipelines.flags import INPUT, RUNNING, Parser, add_dry_run
from parapet.pipelines.suite import gates
from parapet.pipelines.suite.gates import verdicts_of
from parapet.pipelines.suite.steps import (
    COMPARISON,
    ENGINES,
    TABLES,
    command_line,
    lacks,
    parsed,
    parser_of,
    resolved,
    sets_of,
    unknown_key,
)
from parapet.pipelines.suite.suite_file import SuiteFile, built_in, read_suite
from parapet.schemas.errors import InputError, code_sha256, run_header
from parapet.schemas.layout import stays_within
from parapet.transforms.reports.text import counted

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
    """The settings of a run.

    Attributes:
      args: the flags.
      suite: the suite's file.
      graph: its steps.
      state: the state of the output folder.
      names: the requested steps, with those that they need.
      stale: the steps known to have changed before any step runs, and all steps that need them.
      bills: for a dry run, (step, line): what stale steps with paid engines would send, and what it would cost.
    """

    args: argparse.Namespace
    suite: SuiteFile
    graph: Graph
    state: State
    names: list[str]
    stale: list[str]
    bills: list[tuple[str, str]]


def parser() -> Parser:
    """Builds the command line."""
    description = (
        "From one file that names a corpus, sets and systems: makes the sets, scores the systems on them, and puts "
        "all numbers into one table, OUT/index.html. What is there and unchanged is not made again."
    )
    flags = Parser("suite", description, EXAMPLE)
    output = flags.flags["--output"]
    output.required, output.default = False, _DEFAULT_OUTPUT
    output.help = "local folder to write"
    add = flags.group(INPUT)
    add("suite", metavar="FILE|NAME", help=f"suite in TOML (docs/suite.md), or {', '.join(built_in())}")
    text = "change a value of the file: corpus.sgd=my_corpus, systems.ours.model=tracker.py:Tracker"
    add("--set", action="append", default=[], metavar="KEY=VALUE", help=text)
    text = "tasks of agents, in BFCL's format, in place of the suite's"
    add("--tasks", metavar="FILE", reads=True, help=text)
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
    return run_checked(parser(), argv, check, act, "run the same command again to continue")


def check(args: argparse.Namespace) -> Config:
    """Reads the file, makes its graph, and checks the steps that must run. Raises InputError if a step cannot work."""
    from parapet.pipelines.suite.graph import make_graph
    from parapet.pipelines.suite.state import FOLDER, State

    if "://" in args.output:
        raise InputError("must be a local folder", args.output, "--output")
    if args.jobs < 0:
        raise InputError("must be 1 or more", "--jobs")
    suite = read_suite(args.suite, args.set, args.tasks or "")
    output = Path(f"{suite.name}-suite" if args.output == _DEFAULT_OUTPUT else args.output).absolute()
    if output.is_file():
        raise InputError("is a file: give a folder", args.output, "--output")
    if output.is_dir() and not (output / FOLDER).is_dir() and any(output.iterdir()):
        raise InputError("contains files that no suite has written: choose a new folder", args.output, "--output")
    if not stays_within(str(output), f"{FOLDER}/any"):
        raise InputError("leads outside of the suite's folder by a link: remove the link", output / FOLDER)
    state = State(output)
    graph = make_graph(suite, sets_of, lacks, lambda name: _matches(name, args.skip))
    gates.check_numbers(suite, graph)
    names, left_out = list(graph.steps), [entry.name for entry in graph.left_out]
    for flag, patterns, known in (("--skip", args.skip, left_out), ("--only", args.only, names)):
        for pattern in patterns:
            if not any(_matches(name, [pattern]) for name in known):
                raise InputError(unknown_key(pattern, names, "step"), flag)
    if args.only:
        needed = graph.with_needs(name for name in names if _matches(name, args.only))
        names = [name for name in names if name in needed]
    stale = _stale(suite, graph, state, names)
    bill_lines: list[tuple[str, str]] = []
    if stale:
        from parapet.pipelines.suite.running import warm_up

        if not args.dry_run:
            warm_up()
        check_steps(suite, graph, stale, output, args.runner_flags)
        if args.dry_run:
            bill_lines = list(bills(graph, stale, output, args.runner_flags, suite.folder))
    return Config(args, suite, graph, state, names, stale, bill_lines)


def _cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(name.startswith(f"{pattern}/") or fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def act(config: Config) -> int:
    """Runs the steps that have changed, and writes the page."""
    from parapet.pipelines.progress import Display
    from parapet.pipelines.suite.running import UNCHANGED, Outcome, Runner, locked

    for names, first in config.graph.lacking():
        logging.warning("left out: %s: %s%s", names, first.reason, f" (needs {first.needs})" if first.needs else "")
    suite, graph, state, args = config.suite, config.graph, config.state, config.args
    if args.dry_run:
        _show(config)
        for step, line in config.bills:
            say(f"{step}: {line}")
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
    """Lists the steps known to have changed before any step runs, and all steps after them."""
    stale: dict[str, None] = {}
    for name in names:
        step = graph.steps[name]
        after_stale = not graph.needs[name].isdisjoint(stale)
        if after_stale or not state.is_current(step, state.fingerprint(step, suite.folder)):
            stale[name] = None
    return list(stale)


def _show(config: Config) -> None:
    """Prints the steps in order, and which of them would run."""
    width = max(map(len, config.names), default=0)
    for name in config.names:
        needs = sorted(config.graph.needs[name])
        several = [*needs[:2], f"{len(needs) - 2} more"] if len(needs) > 3 else needs
        after = f"after {', '.join(several)}" if needs else ""
        status = "runs" if name in config.stale else "unchanged"
        say(f"{name:{width}}  {status:9}  {after}".rstrip())
    unchanged = len(config.names) - len(config.stale)
    say(f"{counted(len(config.stale), 'step')} would run, {unchanged} unchanged")


def _end(config: Config, outcomes: dict[str, Outcome]) -> int:
    """Prints the summary of a run; returns the exit status."""
    from parapet.pipelines.suite.running import BLOCKED, DONE, FAILED, UNCHANGED

    statuses = (DONE, FAILED, BLOCKED, UNCHANGED)
    done, failed, blocked, unchanged = (
        [name for name, outcome in outcomes.items() if outcome.status == status] for status in statuses
    )
    page = config.state.output / PAGE
    if page.is_relative_to(Path.cwd()):
        page = page.relative_to(Path.cwd())
    board = config.state.output / COMPARISON / "leaderboard.json"
    is_lost = COMPARISON in [*failed, *blocked]  # then no number is known
    if done and board.is_file() and not is_lost:
        from parapet.evaluation.compare.board import read_board
        from parapet.evaluation.compare.tables import terminal_lines

        for line in terminal_lines(read_board(str(board))):
            say(line)
    say(f"{counted(len(done), 'step')} run, {len(unchanged)} unchanged: {page}")
    missed = False
    for verdict in verdicts_of(config.suite, config.state.output, is_lost):
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
            parser, (_, flags) = parser_of(step), parsed(step, output, runner_flags)
        except InputError as error:
            where = place if not error.where else f"{place}.{error.where}"
            raise suite.error(error.reason if not error.path else f"{error.path}: {error.reason}", where) from None
        outside = argparse.Namespace(**{key: _outside(value, output) for key, value in vars(flags).items()})
        with contextlib.chdir(suite.folder):
            try:
                check_all_apart(parser, flags)
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
    return "://" in path or Path(path).exists()  # buckets are not queried


def _outside(value: object, output: Path) -> object:
    """Returns a value without paths below the output folder."""
    if isinstance(value, list):
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
            words = [sys.executable, "-m", "parapet", *command_line(step, output, runner_flags), "--dry_run", "--quiet"]
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
