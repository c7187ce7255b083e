"""``parapet export``: writes agents' tasks in the formats of bfcl-eval, inspect-ai and promptfoo."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from parapet.pipelines.command import counted, run_checked, say
from parapet.pipelines.flags import OUTPUT, StrictParser, add_output
from parapet.pipelines.sets import add_tasks, task_sets
from parapet.schemas.errors import InputError

FORMATS = ("bfcl", "inspect", "promptfoo")
Plan = tuple[str, str, dict[str, list[str]]]


def parser() -> StrictParser:
    """Builds the command line."""
    flags = StrictParser(
        "export",
        "Writes tasks of agents, their variants and perturbed sets as other tools read them: OUT/original, OUT/v1, ...",
        "  parapet export --reference tasks.jsonl --variants rewritten --to promptfoo --output exported",
        """\
bfcl: files for bfcl-eval's data folder; inspect: a dataset of inspect-ai; promptfoo: a configuration with test cases.
docs/tools.md shows how each is used.""",
    )
    add_tasks(flags)
    flags.group(OUTPUT)("--to", required=True, choices=FORMATS, help="format")
    add_output(flags)
    return flags


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "nothing was written, run the same command again")


def check(args: argparse.Namespace) -> Plan:
    """Lists the tasks' files. Raises InputError if there are none."""
    from parapet.evaluation.tools.tasks import list_files

    sets, _ = task_sets(args)
    return args.output, args.to, list_files(args.reference, sets)


def act(plan: Plan) -> None:
    """Reads the tasks and publishes the exported files."""
    from parapet.evaluation.task import publish
    from parapet.evaluation.tools.exports import export
    from parapet.evaluation.tools.tasks import read_tasks
    from parapet.schemas.errors import run_header

    output, to, sets = plan
    files: dict[str, bytes] = {}
    counts: dict[str, int] = {}
    for name, paths in sets.items():
        rows = {}
        for path in paths:
            for key, expected in read_tasks(path).items():
                if key in rows:
                    raise InputError(f"two files of the set {name} are called {key!r}", path)
                rows[key] = expected
        files |= export(list(rows.values()), to, name)
        counts[name] = len(rows)
    publish(output, files, {**run_header("export", {"to": to, "sets": list(sets)}), "counts": counts})
    for name, n in counts.items():
        say(f"{name}: {counted(n, 'task')}")
