"""``parapet perturb NAME --tasks``: perturbs the requests of agents' tasks, or their toolkits."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from parapet.pipelines.command import counted, run_checked, say, starting
from parapet.pipelines.flags import INPUT, StrictParser, add_output, add_seed
from parapet.pipelines.perturb import DISTRACTORS, TOOLKITS, class_of, command_of
from parapet.pipelines.sets import TASKS
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from parapet.transforms.perturbation.base import Perturbation


class Plan(NamedTuple):
    """The files to perturb, the perturbation and the output folder."""

    files: list[str]
    perturbation: Perturbation
    output: str


def parser(name: str) -> StrictParser:
    """Builds the command line: the options of a perturbation, with tasks instead of a corpus."""
    command = command_of(name)
    description = f"""\
Perturbs what users say in tasks in BFCL's format, by {name}: OUT/SET/FILE, with the right calls beside it. Values that
these need stay as they are. For 'parapet evaluate --task tool_calls --sets {name}=OUT/SET'."""
    parser = StrictParser(
        f"perturb {name} --tasks", description, f"  parapet perturb {name} --tasks tasks.json --output out"
    )
    parser.group(INPUT)("--tasks", required=True, nargs="+", metavar="PATH", reads=True, help=TASKS)
    add_output(parser)
    for title, options in command.groups.items():
        add = parser.group(title)
        for option in options:
            add(f"--{option.name}", **option.flag())
    if command.has_seed:
        add_seed(parser)
    return parser


def toolkit_parser(name: str) -> StrictParser:
    """Builds the command line of ``distractors``, ``missing_tool`` and ``corrupted``."""
    example = f"  parapet perturb {name} --tasks tasks.json --output perturbed"
    parser = StrictParser(f"perturb {name} --tasks", TOOLKITS[name], example)
    parser.group(INPUT)("--tasks", required=True, nargs="+", metavar="PATH", reads=True, help=TASKS)
    add_output(parser)
    if name == "distractors":
        text = "how many tools are added: one set for each number"
        parser.group("distractors")("--count", type=int, nargs="+", default=list(DISTRACTORS), metavar="N", help=text)
        add_seed(parser, "the order of the tools")
    if name == "corrupted":
        add_seed(parser, "the words")
    return parser


def _check_toolkit(name: str, args: argparse.Namespace) -> tuple[str, list[str], argparse.Namespace]:
    if name == "distractors" and min(args.count) < 1:
        raise InputError("must be 1 or more", "--count")
    return name, _files_of(args), args


_Rows = list[dict[str, Any]]
_Read = dict[Any, tuple[_Rows, _Rows]]  # file to its tasks and their right calls


def _act_toolkit(prepared: tuple[str, list[str], argparse.Namespace]) -> None:
    from parapet.evaluation.task import publish
    from parapet.schemas.errors import run_header
    from parapet.schemas.layout import as_path
    from parapet.schemas.tasks import ANSWERS, answers_beside

    name, paths, args = prepared
    places = [as_path(path) for path in paths]
    read = {place: (lines_of(place), lines_of(answers_beside(place))) for place in places}
    toolkits = _corrupted(read, str(args.seed)) if name == "corrupted" else _toolkits(name, read, args)
    files: dict[str, bytes] = {}
    counts: dict[str, int] = {}
    fewer: dict[str, int] = {}
    for set_name, place, tasks, answers in toolkits:
        counts[set_name] = counts.get(set_name, 0) + len(tasks)
        if name == "distractors":
            count = int(set_name.rpartition("-")[2])
            more = _added(read[place][0], tasks)
            fewer[set_name] = fewer.get(set_name, 0) + sum(n < count for n in more)
            tasks = tasks if any(more) else []
        files |= {f"{set_name}/{place.name}": json_lines(tasks)} if tasks else {}
        files |= {f"{set_name}/{ANSWERS}/{place.name}": json_lines(answers)} if tasks and answers else {}
    if not files:
        raise InputError(_IMPOSSIBLE[name], "--tasks")
    options = {key: vars(args)[key] for key in ("seed", "count") if key in args}
    publish(args.output, files, {**run_header(f"perturb_{name}", options), "counts": counts})
    for set_name, n in counts.items():
        lacking = f", {fewer[set_name]:,} of them with fewer tools than asked for" if fewer.get(set_name) else ""
        say(f"{args.output}/{set_name}: {counted(n, 'task')}{lacking}")


_IMPOSSIBLE = {
    "distractors": "the tasks have no other tools to add: all offer the same ones, or tools that may do the same",
    "missing_tool": "no task has a correct call, so there is no tool to remove, or no tool would be left",
}


def impossible(name: str, path: Path) -> str:
    """Returns why distractors or a missing tool would change no task of a file; empty if they change some."""
    from parapet.schemas.tasks import answers_beside

    if name not in _IMPOSSIBLE or not path.is_file():
        return ""
    tasks, truths = lines_of(path), lines_of(answers_beside(path))
    (toolkits,) = _toolkits(name, {path: (tasks, truths)}, argparse.Namespace(count=[1], seed=""))
    changed = any(_added(tasks, toolkits[2])) if name == "distractors" else toolkits[2]
    return "" if changed else _IMPOSSIBLE[name]


def _added(tasks: _Rows, perturbed: _Rows) -> list[int]:
    """Returns the number of tools that each task has more than before."""
    return [len(new["function"]) - len(old["function"]) for old, new in zip(tasks, perturbed, strict=True)]


def _toolkits(name: str, read: _Read, args: argparse.Namespace) -> Iterator[tuple[str, Path, _Rows, _Rows]]:
    """Yields (set, file, tasks, right calls) for tasks with distractors, or without the right tool."""
    from parapet.transforms.perturbation.toolkits import Catalogue, with_distractors, without_the_right_tool

    catalogue = Catalogue(tool for tasks, _ in read.values() for task in tasks for tool in task["function"])
    for place, (tasks, truths) in read.items():
        right = {truth["id"]: truth for truth in truths}
        if name == "missing_tool":
            toolkits = (without_the_right_tool(task, right.get(task["id"]), catalogue) for task in tasks)
            left = [task for task in toolkits if task is not None]
            yield name, place, left, [{"id": task["id"], "ground_truth": []} for task in left]
            continue
        for count in args.count:
            more = partial(with_distractors, catalogue=catalogue, count=count, seed=str(args.seed))
            yield f"{name}-{count}", place, [more(task, right.get(task["id"])) for task in tasks], truths


def _corrupted(read: _Read, seed: str) -> Iterator[tuple[str, Path, _Rows, _Rows]]:
    """Yields (set, file, tasks, right calls) for each corruption, with the corrupted names."""
    from parapet.transforms.perturbation.toolkits import corrupted_tools
    from parapet.transforms.variants.tasks import renamed_task

    for place, (tasks, truths) in read.items():
        right = {truth["id"]: truth for truth in truths}
        for operation, variant in corrupted_tools(str(place), seed).items():
            pairs = [renamed_task(task, right.get(task["id"]), variant) for task in tasks]
            yield (
                f"corrupted-{operation}",
                place,
                [task for task, _ in pairs],
                [truth for _, truth in pairs if truth is not None],
            )


def _files_of(args: argparse.Namespace) -> list[str]:
    """Lists the files of ``--tasks``. Raises InputError if one cannot be read."""
    from parapet.evaluation.tools.tasks import list_files, read_tasks

    (files,) = list_files(args.tasks, {}).values()
    for path in files:
        read_tasks(path)
    return files


def run(name: str, argv: Sequence[str]) -> int:
    """Runs the command. Returns the exit status."""
    if name in TOOLKITS:
        check = partial(_check_toolkit, name)
        return run_checked(
            toolkit_parser(name), argv, check, _act_toolkit, "nothing was written, run the same command again"
        )
    try:
        with starting(f"parapet perturb {name}", argv):  # importing a perturbation may take long
            flags = parser(name)
    except InputError as error:
        print(f"parapet perturb: {error}", file=sys.stderr)
        return 2
    return run_checked(flags, argv, partial(_check, name), _act, "nothing was written, run the same command again")


def _check(name: str, args: argparse.Namespace) -> Plan:
    from parapet.transforms.perturbation.corpus import complete

    files = _files_of(args)
    perturbation = complete(class_of(name, command_of(name)).from_flags({**vars(args), "sgd": ""}))
    if not perturbation.keeps_turns or perturbation.needs_corpus():
        raise InputError(f"{name} requires dialogues, but the request of a task is a single turn", "--tasks")
    return Plan(files, perturbation, args.output)


def _act(plan: Plan) -> None:
    from parapet.evaluation.task import publish
    from parapet.schemas.errors import run_header
    from parapet.schemas.layout import as_path
    from parapet.schemas.tasks import ANSWERS, answers_beside
    from parapet.transforms.perturbation.corpus import perturbed_sets
    from parapet.transforms.perturbation.languages import OTHER_LANGUAGES, check_most
    from parapet.transforms.perturbation.task_corpus import corpus_of_tasks, messages_of, reworded_tasks

    files: dict[str, bytes] = {}
    counts, others = {"messages": 0, OTHER_LANGUAGES: 0}, Counter[str]()
    languages = plan.perturbation.languages
    for path in plan.files:
        place = as_path(path)
        tasks, truths = lines_of(place), lines_of(answers_beside(place))
        counts["messages"] += sum(1 for task in tasks for _ in messages_of(task))
        corpus, of_file = corpus_of_tasks(tasks, {truth["id"]: truth for truth in truths}, languages)
        others += of_file
        for name, perturbed in perturbed_sets(corpus, plan.perturbation).items():
            reworded, changed = reworded_tasks(tasks, perturbed)
            files[f"{name}/{place.name}"] = json_lines(reworded)
            if truths:
                files[f"{name}/{ANSWERS}/{place.name}"] = json_lines(truths)
            counts[f"changed/{name}"] = counts.get(f"changed/{name}", 0) + changed
    check_most(plan.perturbation.name, languages, counts["messages"], others, "--tasks", "message")
    counts[OTHER_LANGUAGES] = others.total()
    options: dict[str, Any] = {"perturbation": plan.perturbation.name, **plan.perturbation.recorded_options()}
    publish(plan.output, files, {**run_header("perturb_tasks", options), "counts": counts})
    if n := counts[OTHER_LANGUAGES]:
        known = ", ".join(languages)
        logging.warning("%s in other languages than %s: they stay as they are", counted(n, "message"), known)
    for kind, n in counts.items():
        if name := kind.partition("/")[2]:
            say(f"{plan.output}/{name}: {n:,} of {counted(counts['messages'], 'message')} changed")


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Reads the lines of a file of tasks or right calls as dicts; empty if the file does not exist."""
    from parapet.schemas.tasks import by_id

    return list(by_id(path.read_bytes(), path).values()) if path.is_file() else []


def json_lines(rows: Sequence[object]) -> bytes:
    """Encodes rows as JSON lines."""
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode("utf-8", "surrogatepass")
