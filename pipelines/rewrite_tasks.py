"""``parapet rewrite --tasks``: tasks of agents under each variant's names of tools and parameters."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from parapet.pipelines.command import check_apart, counted, run_checked, say
from parapet.pipelines.flags import INPUT, StrictParser, add_output
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from parapet.transforms.variants.tasks import Variant

DESCRIPTION = """\
Rewrites tasks in BFCL's format, with the calls that are right, under the names and descriptions of each variant of
their tools: OUT/v1/FILE and OUT/v1/possible_answer/FILE, for 'parapet evaluate --task tool_calls --variants OUT'."""
TASKS = "tasks in BFCL's format, with possible_answer/ beside them: files, or a folder"
EXAMPLE = "  parapet rewrite --tasks BFCL_v4_multiple.json --variants my_tools --output my_tasks"
NOTE = """\
A variant is a folder with tools.json: the definitions of the tasks' tools (or of --tools) in other words, in the same
order, as OpenAI, Anthropic, MCP or BFCL have them. Or with names.json besides: {"tools": {NAME: NEW}, "parameters":
{NAME: {POINTER: NEW}}}, for some of the tools. OUT/v1/names.json has all names."""


def parser() -> StrictParser:
    """The command line."""
    made = StrictParser("rewrite --tasks", DESCRIPTION, EXAMPLE, NOTE)
    add = made.group(INPUT)
    add("--tasks", required=True, nargs="+", metavar="PATH", reads=True, help=TASKS)
    add("--variants", required=True, metavar="DIR", reads=True, help="v1/tools.json, v2/tools.json, ...")
    text = "the definitions that variants are of (default: the tools of the tasks, in their order)"
    add("--tools", metavar="FILE", reads=True, help=text)
    add_output(made)
    return made


def run(argv: Sequence[str]) -> int:
    """Runs the command. Returns the exit status."""
    return run_checked(parser(), argv, _check, _act, "nothing was written, run the same command again")


class Plan(NamedTuple):
    """What is rewritten: files of tasks, the variants by name, and where to."""

    files: list[str]
    variants: dict[str, Variant]
    output: str


def _check(args: argparse.Namespace) -> Plan:
    from parapet.evaluation.tools.tasks import list_files, read_tasks
    from parapet.schemas.layout import as_path
    from parapet.schemas.tools import read_tools

    check_apart(args.output, variants=args.variants, tools=args.tools)
    for path in args.tasks:
        check_apart(args.output, tasks=path)
    (files,) = list_files(args.tasks, {}).values()
    tasks = [task for path in files for task in read_tasks(path).values()]
    folders = sorted(path.parent for path in as_path(args.variants).glob("*/tools.json"))
    if not folders:
        raise InputError("has no variants: expected v1/tools.json", args.variants, "--variants")
    if args.tools:
        original, _ = read_tools(args.tools)
    else:
        original = list(
            {tool.name: msgspec.to_builtins(tool) for task in tasks for tool in task.task.function}.values()
        )
    return Plan(files, {path.name: _variant(path, original) for path in folders}, args.output)


def _variant(folder: Path, original: Any) -> Variant:
    from parapet.schemas.limits import read_text
    from parapet.schemas.tools import Names, read_tools
    from parapet.transforms.variants.tasks import names_between, variant_of

    path, given = str(folder / "tools.json"), folder / "names.json"
    raw, _ = read_tools(path)
    try:
        said = msgspec.json.decode(read_text(given), type=Names) if given.is_file() else None
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(str(error), given) from None
    return variant_of(said or names_between(original, raw, path), raw, path)


def _act(plan: Plan) -> None:
    from parapet.evaluation.task import publish
    from parapet.evaluation.tools.tasks import ANSWERS
    from parapet.schemas.errors import run_header
    from parapet.schemas.layout import as_path
    from parapet.transforms.variants.tasks import rewritten

    files = {
        f"{name}/names.json": msgspec.json.format(msgspec.json.encode(one.names)) for name, one in plan.variants.items()
    }
    counts: Counter[str] = Counter()
    for path in plan.files:
        place = as_path(path)
        tasks = lines_of(place)
        truths = {one["id"]: one for one in lines_of(place.parent / ANSWERS / place.name)}
        for name, variant in plan.variants.items():
            pairs = [rewritten(task, truths.get(task["id"]), variant, path) for task in tasks]
            files[f"{name}/{place.name}"] = json_lines([task for task, _ in pairs])
            if truths:
                found = [truth for _, truth in pairs if truth is not None]
                files[f"{name}/{ANSWERS}/{place.name}"] = json_lines(found)
            counts[name] += len(pairs)
    publish(plan.output, files, {**run_header("rewrite_tasks", {"variants": list(plan.variants)}), "counts": counts})
    for name, n in counts.items():
        say(f"{plan.output}/{name}: {counted(n, 'task')}")


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of tasks, or of right calls, as they are; none of a file that is not there."""
    from parapet.evaluation.sets import read_lines

    return [row for _, row in read_lines(str(path), dict)] if path.is_file() else []


def json_lines(rows: Sequence[object]) -> bytes:
    """Rows as a file has them."""
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode("utf-8", "surrogatepass")
