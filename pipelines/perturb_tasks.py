"""``parapet perturb NAME --tasks``: perturbs the requests of agents' tasks, or their toolkits."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.pipelines.command import counted, run_command, say, starting
from parapet.pipelines.flags import INPUT, Parser, add_seed
from parapet.pipelines.perturb import DISTRACTORS, TOOLKITS, TRANSLATING, class_of, command_of
from parapet.pipelines.sets import TASKS
from parapet.schemas.errors import InputError, run_header

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.perturbation.task_corpus import Reworded
    from parapet.transforms.perturbation.toolkits import Toolkits

_SEEDED = {"distractors": "the order of the tools", "corrupted": "the words"}  # what the seed decides


class Config(msgspec.Struct, frozen=True):
    """The settings of a run: the files of tasks, what is done to them, and the head of ``run.json``."""

    files: list[str]
    output: str
    sets: Reworded | Toolkits
    header: dict[str, Any]


def parser(name: str) -> Parser:
    """Builds the command line: the options of a perturbation, or of a change of toolkits, with tasks as the input."""
    command = None if name in TOOLKITS else command_of(name)
    description = f"""\
Perturbs what users say in tasks in BFCL's format, by {name}: OUT/SET/FILE, with the right calls beside it. Values that
these need stay as they are. For 'parapet evaluate --task tool_calls --sets {name}=OUT/SET'."""
    example = f"  parapet perturb {name} --tasks tasks.json --output perturbed"
    result = Parser(f"perturb {name} --tasks", TOOLKITS.get(name, description), example)
    result.group(INPUT)("--tasks", required=True, nargs="+", metavar="PATH", reads=True, help=TASKS)
    if name == "distractors":
        text = "how many tools are added: one set for each number"
        result.group(name)("--count", type=int, nargs="+", default=list(DISTRACTORS), metavar="N", help=text)
    for title, options in command.groups.items() if command else ():
        add = result.group(title)
        for option in options:
            add(f"--{option.name}", **option.flag())
    if command.has_seed if command else name in _SEEDED:
        add_seed(result, _SEEDED.get(name, ""))
    return result


def run(name: str, argv: Sequence[str]) -> int:
    """Runs the command. Returns the exit status."""
    check = _check_toolkit if name in TOOLKITS else _check
    try:
        with starting(f"parapet perturb {name}", argv):  # importing a perturbation may take long
            flags = parser(name)
    except InputError as error:
        print(f"parapet perturb: {error}", file=sys.stderr)
        return 2
    return run_command(flags, argv, partial(check, name), build, report, inputs)


def _check(name: str, args: argparse.Namespace) -> Config:
    from parapet.transforms.perturbation.corpus import complete
    from parapet.transforms.perturbation.task_corpus import Reworded

    files = _files_of(args)
    if name == TRANSLATING:
        raise InputError(f"{name} is for dialogues: use typos, verbose, simple or paraphrase", "--tasks")
    perturbation = complete(class_of(name, command_of(name)).from_flags({"dry_run": False, **vars(args), "sgd": ""}))
    if not perturbation.keeps_turns or perturbation.needs_corpus():
        raise InputError(f"{name} requires dialogues, but the request of a task is a single turn", "--tasks")
    options = {"perturbation": perturbation.name, **perturbation.recorded_options()}
    return Config(files, args.output, Reworded(perturbation), run_header("perturb_tasks", options))


def _check_toolkit(name: str, args: argparse.Namespace) -> Config:
    from parapet.transforms.perturbation.toolkits import Toolkits

    options = {key: vars(args)[key] for key in ("seed", "count") if key in args}
    sets = Toolkits(name, options.get("count", ()), str(options.get("seed", "")))
    if min(sets.counts, default=1) < 1:
        raise InputError("must be 1 or more", "--count")
    return Config(_files_of(args), args.output, sets, run_header(f"perturb_{name}", options))


def _files_of(args: argparse.Namespace) -> list[str]:
    """Lists the files of ``--tasks``. Raises InputError if one cannot be read."""
    from parapet.evaluation.tools.tasks import list_files, read_tasks

    (files,) = list_files(args.tasks, {}).values()
    for path in files:
        read_tasks(path)
    return files


def inputs(config: Config) -> list[tuple[str, str]]:
    """Lists the files that workers read: the tasks."""
    return [("--tasks", path) for path in config.files]


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Wires the pipeline: writes each file of tasks in every set."""
    import apache_beam as beam

    from parapet.transforms.perturbation.toolkits import Toolkits, catalogue_of, tools_of
    from parapet.transforms.running.counts import CountKey
    from parapet.transforms.running.runs import WriteEach
    from parapet.transforms.storage import files

    files.prepare(config.output, config.header["pipeline"])
    paths = pipeline | "Files" >> beam.Create(config.files)
    side = []
    if isinstance(config.sets, Toolkits) and config.sets.name != "corrupted":
        tools = beam.pvalue.AsDict(paths | "Tools" >> beam.Map(tools_of))
        once = pipeline | "Once" >> beam.Create([config.files], reshuffle=False)
        side = [beam.pvalue.AsSingleton(once | "Catalogue" >> beam.Map(catalogue_of, tools))]
    write = partial(config.sets.write, output=config.output)
    outputs = paths | "Tasks" >> WriteEach(write, *side, shown=0, progress=())
    counts = outputs.counts | "By name" >> beam.MapTuple(lambda key, n: (str(CountKey(*key)), n))
    _ = outputs.written | "Publish" >> files.Publish(config.output, config.header, counts, config.sets.check)


def report(config: Config, counters: dict[str, int]) -> None:
    """Prints the number of tasks, or of changed messages, in each set."""
    from parapet.schemas.layout import MANIFEST
    from parapet.transforms.perturbation.languages import OTHER_LANGUAGES
    from parapet.transforms.perturbation.task_corpus import Reworded
    from parapet.transforms.storage.files import read_written

    counts = json.loads(read_written(config.output, MANIFEST))["counts"]
    if isinstance(config.sets, Reworded):
        if n := counts[OTHER_LANGUAGES]:
            known = ", ".join(config.sets.perturbation.languages)
            logging.warning("%s in other languages than %s: they stay as they are", counted(n, "message"), known)
        for name in config.sets.sets:
            messages = counted(counts["messages"], "message")
            say(f"{config.output}/{name}: {counts[f'changed/{name}']:,} of {messages} changed")
        return
    for name in config.sets.sets:
        fewer = counters.get(f"fewer_tools/{name}")
        lacking = f", {fewer:,} of them with fewer tools than asked for" if fewer else ""
        say(f"{config.output}/{name}: {counted(counts[name], 'task')}{lacking}")
