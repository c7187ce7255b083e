"""The steps of a suite: ``parapet`` commands, each with its own folder, and their graph.

In the options of a step, ``@STEP/path`` refers to the output of another step and ``@sample`` to the bundled sample.
A step's table makes the command, so that all options are checked before anything runs.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from parapet.pipelines import dispatch
from parapet.pipelines.app import Command, from_table
from parapet.pipelines.perturb import CORRUPTIONS, DISTRACTORS, TOOLKITS
from parapet.schemas.errors import InputError, install_line
from parapet.schemas.layout import sample_root
from parapet.transforms.reports.text import counted
from parapet.transforms.running import plugins

Value = str | bool | int | float | list[Any] | dict[str, Any]
Options = dict[str, Value]

SAMPLE = "@sample"  # the bundled sample, usable as any path
TASKS = ("dst", "response", "generation", "intent", "ood", "ranking", "tool_calls")
COMPARISON = "comparison"
TABLES = ("table.csv", "table.parquet", "table.tex", "table.md")
# Files in the suite's folder; steps must not have these names, as each step has a folder there.
RESULTS = ("run.json", "index.html", "README.md", *TABLES, "release.toml", "release_licence.txt")

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
      about: describes the output.
      needs: what the user must provide, for a step that may be left out.
      after: further steps that must run before, besides those that the options refer to.
      files: files to write below the output before it runs: path to content.
      reads: further inputs, in the notation of options.
    """

    name: str
    command: tuple[str, ...]
    options: Options
    place: str
    about: str = ""
    needs: str = ""
    after: tuple[str, ...] = ()
    files: dict[str, str] = {}
    reads: tuple[Value, ...] = ()

    @property
    def pipeline(self) -> str:
        """The first word of the command."""
        return self.command[0]


class LeftOut(msgspec.Struct, frozen=True):
    """An entry of the file that is left out, and what it would need."""

    name: str
    place: str
    reason: str
    needs: str


class ScoredSet(msgspec.Struct, frozen=True):
    """A set on which systems are scored, and its folder."""

    name: str
    root: str


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of a suite.

    Attributes:
      steps: by name, each after those that it needs.
      needs: the steps that each step needs.
      sets: the robustness sets, in the file's order.
      systems: the names of the scored systems.
      left_out: entries of the file that are left out.
      variants: the names of the variants, as far as they are known.
    """

    steps: dict[str, Step]
    needs: dict[str, frozenset[str]]
    sets: list[ScoredSet]
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
        result: set[str] = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name not in result:
                result.add(name)
                todo += self.needs[name]
        return result


def without(step: Step, lost: Collection[str]) -> Step | None:
    """Returns a step without inputs that failed steps should have made; None if it needs them.

    Only sets, variants, systems and a classifier can be dropped.

    Args:
      step: the step.
      lost: the steps that failed.
    """

    def uses(value: object) -> bool:
        return any(owner(reference, lost) is not None for reference in references(value))

    options = dict(step.options)
    for key in ("sets", "variants", "systems", "classifier"):
        value = options.get(key)
        if isinstance(value, dict):
            options[key] = {name: item for name, item in value.items() if not uses(item)}
        elif isinstance(value, list):
            options[key] = [item for item in value if not uses(item)]
        elif uses(value):
            del options[key]
        if options.get(key) in ({}, []):
            del options[key]
    no_systems = "systems" in step.options and "systems" not in options
    if no_systems or uses(options) or not set(step.after).isdisjoint(lost):
        return None
    return msgspec.structs.replace(step, options=options)


def references(value: object) -> Iterator[str]:
    """Yields the references in an option's values, without the ``@``."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from references(item)
    elif isinstance(value, str):
        yield from _REFERENCE.findall(value)


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


def resolved(value: Value, output: Path) -> Value:
    """Replaces the references in an option by paths."""
    if isinstance(value, dict):
        return {key: resolved(item, output) for key, item in value.items()}
    if isinstance(value, list):
        return [resolved(item, output) for item in value]
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: place_of(match[1], output), value)
    return value


def place_of(reference: str, output: Path) -> str:
    """Returns the path that ``@reference`` names."""
    head, _, rest = reference.partition("/")
    if head == SAMPLE[1:]:
        return str(sample_root() / rest) if rest else str(sample_root())
    return str(output / _in_full(reference))


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


def kind_of(step: Step) -> type[Command[Any]]:
    """Returns the command of a step. Raises InputError, without a place, if it does not exist."""
    pipeline, *action = step.command
    known = [name for name in dispatch.PIPELINES if name not in _NOT_IN_SUITES]
    if pipeline not in known:
        raise InputError(unknown_key(pipeline, known, "pipeline"))
    if pipeline == "perturb":
        name = " ".join(action)
        chosen = None if name in TOOLKITS else _perturbation(name)
        return _perturb_kind(name, chosen, chosen is None or "tasks" in step.options)
    actions = dispatch.actions_of(pipeline)
    kind = {"evaluate": "task", "train": "model", "predict": "model"}.get(pipeline, "action")
    if not actions and action:
        raise InputError(f"'{pipeline}' does not take {' '.join(action)!r}")
    if actions and len(action) != 1:
        raise InputError(f"'{pipeline}' requires a {kind}: must be one of {', '.join(actions)}")
    if actions and action[0] not in actions:
        raise InputError(unknown_key(action[0], actions, kind))
    return dispatch.command_of(pipeline, *action)


@cache
# the class is part of the key, as another one may have the same name
def _perturb_kind(name: str, _: Any, of_tasks: bool) -> type[Command[Any]]:
    from parapet.pipelines import perturb

    return perturb.command(name, of_tasks)


def _perturbation(name: str) -> Any:
    """Returns the class of a perturbation. Raises InputError if there is none of that name."""
    from parapet.transforms.perturbation.corpus import Registry

    registry = Registry()
    if name not in registry:
        raise InputError(unknown_key(name, registry, "perturbation"))
    return registry[name]


def sets_of(name: str, options: Options) -> tuple[Sequence[str], bool]:
    """Returns the sets that a perturbation makes, and whether each has a folder.

    Raises InputError for wrong options.
    """
    from parapet.pipelines.perturb import declared_options, own_flags
    from parapet.transforms.perturbation.corpus import perturbation_of

    if name in TOOLKITS:
        kinds = {"distractors": _items(options.get("count", list(DISTRACTORS))), "corrupted": CORRUPTIONS}
        return [f"{name}-{kind}" for kind in kinds.get(name, ())] or [name], True
    chosen = _perturbation(name)
    # It is constructed with a memory or translations, which may not exist yet.
    if name == "paraphrase" and "tasks" not in options:
        sets, in_folders = sets_of("verbose", {key: options[key] for key in ("env",) if key in options})
        return [name + set_name.removeprefix("verbose") for set_name in sets], in_folders
    values = {}
    for option in own_flags(declared_options(chosen)):
        value = options.get(option.name, False)
        if value is not False:
            try:
                values[option.name] = value if value is True else option.kind(_joined(value))
            except ValueError:
                raise InputError(f"{option.name}: {value!r} is not a number") from None
    perturbation = perturbation_of(chosen, {"seed": str(options.get("seed", "0")), **values}, as_flags=True)
    return perturbation.sets, perturbation.in_folders


def command_of(step: Step, output: Path) -> Command[Any]:
    """Makes the command of a step.

    Args:
      step: the step.
      output: the suite's output folder.

    Raises:
      InputError: the command does not have an option, or does not accept its value. ``where`` is the option.
    """
    kind = kind_of(step)
    if "output" in step.options:
        raise InputError("unknown option 'output': the suite chooses the folder of each step", "", "output")
    table = {key: resolved(value, output) for key, value in step.options.items()}
    return from_table(kind, {**table, "output": str(output / step.name)})


def _items(value: Value) -> list[Value]:
    if isinstance(value, dict):
        return [f"{name}={item}" for name, item in value.items()]
    return list(value) if isinstance(value, list) else [value]


def _joined(value: Value) -> str:
    return ",".join(map(str, _items(value)))


def lacks(step: Step) -> str:
    """Names a missing extra that a step needs, with the command that installs it; empty if none is missing."""
    missing = [extra for extra in sorted(set(_extras(step))) if not _is_installed(extra)]
    if not missing:
        return ""
    return f"requires the extra {', '.join(missing)}: {install_line(','.join(missing))}"


def _extras(step: Step) -> Iterator[str]:
    if step.pipeline in ("train", "predict"):
        yield from filter(None, [_OF_MODELS.get(" ".join(step.command[1:]))])
    if step.options.get("endpoint"):
        yield "llm"
    if step.pipeline == "speech_errors":
        yield "speech"
    engines = {str(step.options.get(flag)) for flag in ENGINES}
    chosen = {
        plugins.PERTURBATIONS: set(step.command[1:]) if step.pipeline == "perturb" else set(),
        plugins.TRANSLATION_ENGINES: engines,
        plugins.SPEECH_ENGINES: engines,
    }
    for group, names in chosen.items():
        for plugin in plugins.installed(group) if names - {"None"} else ():
            if plugin.built_in and plugin.name in names:
                yield from plugin.extras


@cache
def _is_installed(extra: str) -> bool:
    from parapet.pipelines.doctor import problems

    return not any(problems(extra))


def unknown_key(key: str, keys: Iterable[str], what: str = "key", of: str = "") -> str:
    """Formats the reason of an error about an unknown key, with the nearest known one."""
    known = list(keys)
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    return f"unknown {what} {key!r}{of and f' of {of}'}: {hint}"
