"""The steps of a suite: ``parapet`` commands, each with its own folder, and their graph.

In the options of a step, ``@STEP/path`` refers to the output of another step and ``@sample`` to the bundled sample.
A step's table makes the command, so that all options are checked before anything runs.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from parapet.pipelines import dispatch
from parapet.pipelines.app import Command, from_table
from parapet.pipelines.perturb import TOOLKITS
from parapet.schemas.errors import InputError, install_line
from parapet.schemas.layout import sample_root
from parapet.transforms.reports.text import counted
from parapet.transforms.running import plugins

Options = dict[str, Any]

SAMPLE = "@sample"  # the bundled sample, usable as any path
TASKS = ("dst", "response", "generation", "intent", "ood", "ranking", "tool_calls")
COMPARISON = "comparison"
TABLES = ("table.csv", "table.parquet", "table.tex", "table.md")
# Files in the suite's folder; steps must not have these names, as each step has a folder there.
RESULTS = ("run.json", "index.html", "README.md", *TABLES, "release.toml", "release_licence.txt")

_REDUCIBLE = ("sets", "variants", "systems", "classifier")  # options that a step can have less of, or do without
_OF_SYSTEMS = ("scores", "models", "predictions")  # folders of steps that belong to a system
# At the beginning of a text, or after NAME=.
_REFERENCE = re.compile(r"(?:^|(?<==))@([\w.+\-/]+)")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A command of a suite.

    Attributes:
      name: the name of the step, and of its folder below the output.
      command: the words of the command: ``("perturb", "typos")``, ``("evaluate", "dst")``.
      options: by the name of the flag.
      place: its position in the suite's file, for messages.
      about: describes the output; by default as its command is described.
      needs: what the user must provide, for a step that may be left out.
      files: files to write below the output before it runs: path to content.
      reads: further inputs, in the notation of options.
    """

    name: str
    command: tuple[str, ...]
    options: Options
    place: str
    about: str = ""
    needs: str = ""
    files: dict[str, str] = {}
    reads: Any = ()

    @property
    def pipeline(self) -> str:
        """The first word of the command."""
        return self.command[0]


class LeftOut(msgspec.Struct, frozen=True):
    """An entry of the file that is left out, and what it would need."""

    name: str
    reason: str
    needs: str


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of a suite.

    Attributes:
      steps: by name, each after those that it needs.
      needs: the steps that each step needs.
      systems: the names of the scored systems.
      left_out: entries of the file that are left out.
      variants: the names of the variants, as far as they are known.
    """

    steps: dict[str, Step]
    needs: dict[str, frozenset[str]]
    systems: list[str]
    left_out: list[LeftOut]
    variants: list[str] = []

    def lacking(self) -> list[tuple[str, LeftOut]]:
        """Groups the left-out entries by what they need: the formatted names, and the first entry of each group."""
        groups: dict[str, list[LeftOut]] = {}
        for entry in self.left_out:
            groups.setdefault(entry.needs or entry.reason, []).append(entry)
        named = []
        for group in groups.values():
            first, *others = dict.fromkeys(_label(entry.name) for entry in group)
            named.append((f"{first} and {counted(len(others), 'other')}" if others else first, group[0]))
        return named

    def with_needs(self, names: Iterable[str]) -> set[str]:
        """Returns the steps and all steps that they need."""
        result = set(names)
        for name in reversed(self.steps):
            if name in result:
                result |= self.needs[name]
        return result


def without(step: Step, lost: Collection[str]) -> Step | None:
    """Returns a step without inputs that failed steps should have made; None if it needs them.

    Args:
      step: the step.
      lost: the steps that failed.
    """

    def uses(value: object) -> bool:
        return any(owner(reference, lost) is not None for reference in references(value))

    options = {}
    for key, value in step.options.items():
        if key in _REDUCIBLE:
            if isinstance(value, dict):
                value = {name: item for name, item in value.items() if not uses(item)}
            elif isinstance(value, list):
                value = [item for item in value if not uses(item)]
            if not value or uses(value):
                continue
        options[key] = value
    if "systems" in step.options.keys() - options.keys() or uses([options, step.reads]):
        return None
    return msgspec.structs.replace(step, options=options)


def replaced(value: Any, replacement: Callable[[str], Any]) -> Any:
    """Replaces the texts in the value of an option."""
    if isinstance(value, dict):
        return {key: replaced(item, replacement) for key, item in value.items()}
    if isinstance(value, list):
        return [replaced(item, replacement) for item in value]
    return replacement(value) if isinstance(value, str) else value


def texts(value: Any) -> list[str]:
    """Lists the texts in the value of an option."""
    result: list[str] = []
    replaced(value, result.append)
    return result


def references(value: Any) -> list[str]:
    """Lists the references in the value of an option, without the ``@``."""
    return [reference for text in texts(value) for reference in _REFERENCE.findall(text)]


def owner(reference: str, steps: Collection[str]) -> str | None:
    """Returns the step that writes what ``@reference`` names: ``sets/typos`` for ``sets/typos/typos``."""
    parts = [path.split("/") for path in (_in_full(reference), reference)]
    prefixes = ["/".join(words[:n]) for words in parts for n in range(1, len(words) + 1)]
    return max((name for name in prefixes if name in steps), key=len, default=None)


def _in_full(reference: str) -> str:
    """Adds the default task to a reference: ``scores/ours`` becomes ``scores/ours/dst``."""
    kind, _, rest = reference.partition("/")
    name, _, below = rest.partition("/")
    if kind not in _OF_SYSTEMS or not name or below.partition("/")[0] in TASKS:
        return reference
    return f"{kind}/{name}/dst" + (f"/{below}" if below else "")


def resolved(value: Any, output: Path) -> Any:
    """Replaces the references in an option by paths."""
    return replaced(value, lambda text: _REFERENCE.sub(lambda match: place_of(match[1], output), text))


def place_of(reference: str, output: Path) -> str:
    """Returns the path that ``@reference`` names."""
    head, _, rest = reference.partition("/")
    return str(sample_root() / rest if head == SAMPLE[1:] else output / _in_full(reference))


def _label(name: str) -> str:
    """Returns what readers call a left-out step: ``ours``, or ``ours on v1, v2`` for ``scores/ours/dst: v1, v2``."""
    step, colon, sets = name.partition(": ")
    return entry_of(step).rpartition("/")[2] + (f" on {sets}" if colon else "")


def entry_of(name: str) -> str:
    """Returns the entry of the file that a step or reference belongs to: ``systems/ours`` for ``models/ours/dst``."""
    kind, _, rest = name.partition("/")
    if kind in _OF_SYSTEMS:
        return f"systems/{rest.partition('/')[0]}"
    return f"sets/{rest.partition('/')[0]}" if kind == "sets" else kind


# The extras that models of 'parapet train' need; the others need none.
_OF_MODELS = {
    **dict.fromkeys(("tiny_dst", "embeddings", "memn2n", "classifier", "damd"), "models"),
    **dict.fromkeys(("t5dst", "sgp_dst", "ft_t5", "pt_t5", "soloist"), "local"),
}
_NOT_IN_SUITES = ("suite", "mturk", "doctor")
ENGINES = ("engine", "speaker", "listener")  # options that name an engine


def _kind_of(step: Step) -> type[Command[Any]]:
    """Returns the command of a step. Raises InputError, without a place, if it does not exist."""
    pipeline, *action = step.command
    known = [name for name in dispatch.PIPELINES if name not in _NOT_IN_SUITES]
    if pipeline not in known:
        raise InputError(unknown_key(pipeline, known, "pipeline"))
    has_tasks = "tasks" in step.options
    if pipeline == "perturb" or (pipeline == "rewrite" and has_tasks):
        from parapet.pipelines import perturb

        return perturb.command(" ".join(action) or pipeline, has_tasks)
    actions = dispatch.actions_of(pipeline)
    if not actions and action:
        raise InputError(f"'{pipeline}' does not take {' '.join(action)!r}")
    if actions and " ".join(action) not in actions:
        raise InputError(unknown_key(" ".join(action), actions, f"kind of '{pipeline}'"))
    return dispatch.command_of(pipeline, *action)


def command_of(step: Step, output: Path) -> Command[Any]:
    """Makes the command of a step.

    Args:
      step: the step.
      output: the suite's output folder.

    Raises:
      InputError: the command does not have an option, or does not accept its value. ``where`` is the option.
    """
    if "output" in step.options:
        raise InputError("there is no option 'output': the suite chooses the folder of each step", "", "output")
    return from_table(_kind_of(step), {**resolved(step.options, output), "output": str(output / step.name)})


def sets_of(step: Step, name: str) -> tuple[Sequence[str], bool]:
    """Returns the sets that a perturbation makes, and whether each has a folder.

    Raises InputError for wrong options.
    """
    from parapet.transforms.perturbation.corpus import complete

    if step.pipeline == "language_variations":  # which reads translations, which may not exist yet
        env = {key: value for key, value in step.options.items() if key == "env"}
        step = msgspec.structs.replace(step, command=("perturb", "verbose"), options=env)
        sets, in_folders = sets_of(step, "verbose")
        return [name + set_name.removeprefix("verbose") for set_name in sets], in_folders
    made: Any = command_of(step, Path()).make()  # type: ignore[attr-defined]
    return (made.sets, True) if name in TOOLKITS else (complete(made).sets, made.in_folders)


def lacks(step: Step) -> str:
    """Names a missing extra that a step needs, with the command that installs it; empty if none is missing."""
    names = {step.command[-1], *(str(step.options.get(flag)) for flag in ENGINES)}
    extras = {"llm"} if step.options.get("endpoint") else set[str]()
    if step.pipeline in ("train", "predict") and step.command[-1] in _OF_MODELS:
        extras.add(_OF_MODELS[step.command[-1]])
    for group in (plugins.PERTURBATIONS, plugins.TRANSLATION_ENGINES, plugins.SPEECH_ENGINES):
        for plugin in plugins.installed(group):
            if plugin.built_in and plugin.name in names:
                extras.update(plugin.extras)
    missing = ",".join(extra for extra in sorted(extras) if not _is_installed(extra))
    return f"requires the extra {missing}: {install_line(missing)}" if missing else ""


@cache
def _is_installed(extra: str) -> bool:
    from parapet.pipelines.doctor import problems

    return not any(problems(extra))


def unknown_key(key: str, keys: Iterable[str], what: str = "key") -> str:
    """Formats the reason of an error about an unknown key, with the nearest known one."""
    known = list(keys)
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    return f"unknown {what} {key!r}: {hint}"
