"""``parapet perturb NAME --tasks``: the requests of agents' tasks perturbed, or their toolkits."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from parapet.pipelines.command import check_apart, counted, run_checked, say, starting
from parapet.pipelines.flags import INPUT, StrictParser, add_output, add_seed
from parapet.pipelines.perturb import TOOLKITS, class_of, command_of
from parapet.pipelines.sets import TASKS
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from parapet.transforms.perturbation.base import Perturbation


class Plan(NamedTuple):
    """What is perturbed, how, and where to."""

    files: list[str]
    perturbation: Perturbation
    output: str


def parser(name: str) -> StrictParser:
    """The command line: the options of a perturbation, and tasks in place of a corpus."""
    command = command_of(name)
    description = f"""\
Perturbs what users say in tasks in BFCL's format, by {name}: OUT/SET/FILE, with the right calls beside it. Values that
these need stay as they are. For 'parapet evaluate --task tool_calls --sets {name}=OUT/SET'."""
    made = StrictParser(
        f"perturb {name} --tasks", description, f"  parapet perturb {name} --tasks tasks.json --output out"
    )
    made.group(INPUT)("--tasks", required=True, nargs="+", metavar="PATH", reads=True, help=TASKS)
    add_output(made)
    for title, options in command.groups.items():
        add = made.group(title)
        for option in options:
            add(f"--{option.name}", **option.flag())
    if command.has_seed:
        add_seed(made)
    return made


def toolkit_parser(name: str) -> StrictParser:
    """The command line of ``distractors`` and ``missing_tool``."""
    example = f"  parapet perturb {name} --tasks tasks.json --output perturbed"
    made = StrictParser(f"perturb {name} --tasks", TOOLKITS[name], example)
    made.group(INPUT)("--tasks", required=True, nargs="+", metavar="PATH", reads=True, help=TASKS)
    add_output(made)
    if name == "distractors":
        text = "how many tools are added: one set for each number"
        made.group("distractors")("--count", type=int, nargs="+", default=[5, 10, 20], metavar="N", help=text)
        add_seed(made, "the order of the tools")
    return made


def _check_toolkit(name: str, args: argparse.Namespace) -> tuple[str, list[str], argparse.Namespace]:
    if name == "distractors" and min(args.count) < 1:
        raise InputError("1 or more", "--count")
    return name, _files_of(args), args


def _act_toolkit(prepared: tuple[str, list[str], argparse.Namespace]) -> None:
    from parapet.evaluation.task import publish
    from parapet.schemas.errors import run_header
    from parapet.schemas.layout import as_path
    from parapet.schemas.tools import ANSWERS
    from parapet.transforms.perturbation.toolkits import Catalogue, with_distractors, without_the_right_tool

    name, paths, args = prepared
    places = [as_path(path) for path in paths]
    read = {place: (lines_of(place), lines_of(place.parent / ANSWERS / place.name)) for place in places}
    catalogue = Catalogue(tool for tasks, _ in read.values() for task in tasks for tool in task["function"])
    files: dict[str, bytes] = {}
    counts: dict[str, int] = {}
    for place, (tasks, truths) in read.items():
        right = {truth["id"]: truth for truth in truths}
        for count in args.count if name == "distractors" else (0,):
            set_name = f"{name}-{count}" if count else name
            if count:
                more = partial(with_distractors, catalogue=catalogue, count=count, seed=str(args.seed))
                made = [more(task, right.get(task["id"])) for task in tasks]
            else:
                found = (without_the_right_tool(task, right.get(task["id"]), catalogue) for task in tasks)
                made = [task for task in found if task is not None]
            answers = truths if count else [{"id": task["id"], "ground_truth": []} for task in made]
            if made:
                files[f"{set_name}/{place.name}"] = json_lines(made)
            if made and answers:
                files[f"{set_name}/{ANSWERS}/{place.name}"] = json_lines(answers)
            counts[set_name] = counts.get(set_name, 0) + len(made)
    if not files:
        raise InputError("no task has a right call: there is nothing to take away", "--tasks")
    options = {"seed": args.seed, "count": args.count} if name == "distractors" else {}
    publish(args.output, files, {**run_header(f"perturb_{name}", options), "counts": counts})
    for set_name, n in counts.items():
        say(f"{args.output}/{set_name}: {counted(n, 'task')}")


def _files_of(args: argparse.Namespace) -> list[str]:
    """The files of ``--tasks``. Raises InputError where one cannot be read."""
    from parapet.evaluation.tools.tasks import list_files, read_tasks

    for path in args.tasks:
        check_apart(args.output, tasks=path)
    (files,) = list_files(args.tasks, {}).values()
    for path in files:
        read_tasks(path)
    return files


def run(name: str, argv: Sequence[str]) -> int:
    """Runs the command. Returns the exit status."""
    if name in TOOLKITS:
        check = partial(_check_toolkit, name)
        return run_checked(toolkit_parser(name), argv, check, _act_toolkit, "nothing was written, run it again")
    try:
        with starting(f"parapet perturb {name}", argv):  # a perturbation may import much
            flags = parser(name)
    except InputError as error:
        print(f"parapet perturb: {error}", file=sys.stderr)
        return 2
    return run_checked(flags, argv, partial(_check, name), _act, "nothing was written, run the same command again")


def _check(name: str, args: argparse.Namespace) -> Plan:
    from parapet.transforms.perturbation.corpus import complete
    from parapet.transforms.running.fence import calling

    files = _files_of(args)
    with calling():
        made = complete(class_of(name, command_of(name)).from_flags({**vars(args), "sgd": ""}))
    if not made.keeps_turns or made.needs_corpus():
        raise InputError(f"{name} needs dialogues: a task's request is a single turn", "--tasks")
    return Plan(files, made, args.output)


def _act(plan: Plan) -> None:
    from parapet.evaluation.task import publish
    from parapet.schemas.errors import run_header
    from parapet.schemas.layout import as_path
    from parapet.schemas.tools import ANSWERS
    from parapet.transforms.perturbation.corpus import perturbed_sets
    from parapet.transforms.perturbation.task_corpus import corpus_of_tasks, messages_of, reworded_tasks

    files: dict[str, bytes] = {}
    counts: dict[str, int] = {"messages": 0}
    for path in plan.files:
        place = as_path(path)
        tasks, truths = lines_of(place), lines_of(place.parent / ANSWERS / place.name)
        counts["messages"] += sum(1 for task in tasks for _ in messages_of(task))
        corpus = corpus_of_tasks(tasks, {one["id"]: one for one in truths})
        for name, perturbed in perturbed_sets(corpus, plan.perturbation).items():
            reworded, changed = reworded_tasks(tasks, perturbed)
            files[f"{name}/{place.name}"] = json_lines(reworded)
            if truths:
                files[f"{name}/{ANSWERS}/{place.name}"] = json_lines(truths)
            counts[f"changed/{name}"] = counts.get(f"changed/{name}", 0) + changed
    options: dict[str, Any] = {"perturbation": plan.perturbation.name, **plan.perturbation.recorded_options()}
    publish(plan.output, files, {**run_header("perturb_tasks", options), "counts": counts})
    for kind, n in counts.items():
        if name := kind.partition("/")[2]:
            say(f"{plan.output}/{name}: {n:,} of {counted(counts['messages'], 'message')} changed")


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of tasks, or of right calls, as they are; none of a file that is not there."""
    from parapet.evaluation.sets import read_lines

    return [row for _, row in read_lines(str(path), dict)] if path.is_file() else []


def json_lines(rows: Sequence[object]) -> bytes:
    """Rows as a file has them."""
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode("utf-8", "surrogatepass")
