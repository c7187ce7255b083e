"""``parapet doctor``: which extras, models, credentials and plug-ins are there, and what each would enable."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.pipelines.command import EXIT_FAILURE, counted, run_checked
from parapet.pipelines.flags import INPUT, OUTPUT, StrictParser
from parapet.schemas.errors import InputError, install_line

if TYPE_CHECKING:
    from parapet.pipelines.doctor.packages import Finding
    from parapet.transforms.checkpoints import Checkpoint

Report = Mapping[str, Sequence["Finding"]]

DESCRIPTION = """\
Shows what is installed and set up: the core, extras, models, credentials, plug-ins, the machine; and for what is
missing, what it would enable and how to install it. Makes no network requests, writes nothing, shows no secret."""

EXAMPLE = """\
  parapet doctor
  parapet doctor --model opus-mt-en-de roberta-large-mnli         # what these folders could be used for
  parapet doctor --format json"""

NOTE = "The status is 0 where the core works, whatever else is missing, and 1 where it does not."

TRANSLATES = ("marian", "m2m_100")  # NLLB's is the architecture of M2M100


def parser() -> StrictParser:
    """The command line."""
    parser = StrictParser("doctor", DESCRIPTION, EXAMPLE, NOTE)
    text = "folders with models: shows which commands take them"
    parser.group(INPUT)("--model", nargs="+", default=[], metavar="DIR", help=text)
    parser.group(OUTPUT)("--format", choices=("text", "json"), default="text", help="format of the report")
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status: 1 where the core does not work."""
    return run_checked(parser(), argv, lambda args: args, act, "nothing was written")


def act(args: argparse.Namespace) -> int:
    """Checks everything and prints the report. Raises InputError where Parapet is not installed."""
    from importlib.metadata import PackageNotFoundError

    try:
        report = look_around(args.model)
    except PackageNotFoundError as error:
        raise InputError(f"{error.name} is not installed: {install_line()}") from None
    works = not any(finding.state == "wrong" for finding in report["core"])
    if args.format == "json":
        content = {"core_works": works, **msgspec.to_builtins(dict(report))}
        print(json.dumps(content, indent=2, ensure_ascii=False))
    elif not args.quiet or not works:
        from rich.console import Console

        plain = not (sys.stdout.encoding or "").lower().startswith("utf")
        console = Console(highlight=False, soft_wrap=True, emoji=False)
        for line, style in lines(report, works, plain):
            console.print(line, style=style or None, markup=False)
    return 0 if works else EXIT_FAILURE


def look_around(folders: Sequence[str]) -> Report:
    """Everything, by section.

    Args:
      folders: with models.
    """
    from parapet.pipelines.doctor import credentials, machine, packages
    from parapet.transforms import plugins

    python, *others = machine.machine(Path.cwd())
    return {
        "core": [python, *packages.core()],
        "extras": packages.extras(),
        "models": [*packages.models(), *(inspect(folder) for folder in folders)],
        "credentials": credentials.credentials(),
        "plug-ins": [
            packages.Finding(one.name, "there", what, f"{one.distribution} {one.version} ({one.target})")
            for group, what in plugins.GROUPS.items()
            for one in plugins.installed(group)
            if not one.built_in
        ],
        "machine": others,
    }


def inspect(folder: str) -> Finding:
    """Which commands take the model in a folder; where none does, why."""
    from parapet.pipelines.doctor.packages import Finding
    from parapet.transforms.checkpoints import opened, read_json

    try:
        if model := read_json(Path(folder), "model.json").get("model"):
            return Finding(folder, "there", f"predict {model} --model {folder}", f"a model of 'parapet train {model}'")
        checkpoint = opened(folder)
    except InputError as error:
        return Finding(folder, "wrong", detail=error.reason)
    uses: list[str] = []
    reasons: dict[str, None] = {}
    for flags, check in _uses(folder, checkpoint).items():
        try:
            check()
            uses.append(flags)
        except InputError as error:
            reasons[error.reason] = None
    what = checkpoint.heads[0] if checkpoint.heads else f"a model of type {checkpoint.kind or 'unknown'!r}"
    if uses:
        return Finding(folder, "there", "; ".join(uses), what)
    return Finding(folder, "wrong", detail=f"{what}: {'; '.join(reasons) or 'no command takes it'}")


def _uses(folder: str, checkpoint: Checkpoint) -> dict[str, Callable[[], Any]]:
    """The flags that could take such a model, to the check that their command makes."""
    from parapet.evaluation.generation import scorers
    from parapet.evaluation.models.pretrained import models_of
    from parapet.transforms import checkpoints
    from parapet.transforms.translation import local

    kind = checkpoint.kind
    uses: dict[str, Callable[[], Any]] = {}
    if kind in TRANSLATES or (Path(folder) / local.CONVERTED).is_file():
        uses[f"back_translate --engine local --model {folder}"] = lambda: local.inspect(folder)
    if any(head.endswith("ForSequenceClassification") for head in checkpoint.heads):
        uses[f"evaluate --task generation --scorer nli --nli_model {folder}"] = lambda: scorers.inspect(folder)
    if models := models_of(kind):
        uses[f"train {', '.join(models)} --checkpoint {folder}"] = lambda: checkpoints.inspect(folder, (kind,))
    return uses


MARKS = {"there": ("✓", "ok", "green"), "missing": ("–", "--", "yellow"), "wrong": ("✗", "!!", "red")}


def lines(found: Report, works: bool, plain: bool = False) -> Iterator[tuple[str, str]]:
    """The report as lines, each with its style.

    Args:
      found: by section.
      works: whether the core does.
      plain: marks in ASCII.
    """
    for section, findings in found.items():
        yield section.capitalize(), "bold"
        width = max((len(one.name) for one in findings if len(one.name) < 20), default=0)
        for one in findings:
            mark, ascii_mark, colour = MARKS[one.state]
            head = f"  {ascii_mark if plain else mark} {one.name:{width}}  {one.enables or one.detail}"
            yield head.rstrip(), colour
            margin = " " * (width + 6 + plain)
            if one.enables and one.detail:
                yield f"{margin}{one.detail}", "dim"
            if one.next:
                yield f"{margin}{'->' if plain else '→'} {one.next}", ""
        if not findings:
            yield "  none", "dim"
        yield "", ""
    states = [one.state for name, findings in found.items() if name != "core" for one in findings]
    rest = f"{counted(states.count('missing'), 'optional part')} missing, {states.count('wrong'):,} wrong"
    yield (f"The core works; {rest}." if works else "The core does not work: see above."), "bold"


if __name__ == "__main__":
    sys.exit(run())
