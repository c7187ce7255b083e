"""The steps of a suite: ``parapet`` commands, each with its own folder, and how they refer to each other.

In the options of a step, ``@STEP/path`` refers to the output of another step and ``@sample`` to the bundled sample.
A step's table makes the command, so that all options are checked before anything runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from parapet.pipelines import app, main, perturb
from parapet.schemas.errors import InputError, install_line, no_such
from parapet.schemas.layout import sample_root
from parapet.transforms.core import plugins

Options = dict[str, Any]

SAMPLE = "@sample"  # the bundled sample, usable as any path
TASKS = ("dst", "response", "generation", "intent", "ood", "ranking", "tool_calls")
COMPARISON = "comparison"
TABLES = ("table.csv", "table.parquet", "table.tex", "table.md")
# Files in the suite's folder; steps must not have these names, as each step has a folder there.
RESULTS = ("run.json", "index.html", "README.md", *TABLES, "release.toml", "release_licence.txt")
ENGINES = ("engine", "speaker", "listener")  # options that name an engine

# Options of which a command can have less, if inputs are missing.
_SCORED = ("sets", "variants", "classifier")
_REDUCIBLE = {"evaluate": _SCORED, "predict": _SCORED, "compare": ("systems",)}
_OF_SYSTEMS = ("scores", "models", "predictions")  # folders of steps that belong to a system
# At the beginning of a text, or after NAME=.
_REFERENCE = re.compile(r"(?:^|(?<==))@([\w.+\-/]+)")
# The extras that models of 'parapet train' need; the others need none.
_OF_MODELS = {
    **dict.fromkeys(("embeddings", "memn2n", "classifier", "damd"), "models"),
    **dict.fromkeys(("t5dst", "sgp_dst", "sgd_baseline", "ft_t5", "pt_t5", "soloist"), "local"),
}
_NOT_IN_SUITES = ("suite", "mturk", "doctor", "plan")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A command of a suite.

    Attributes:
      name: the name of the step, and of its folder below the output.
      command: the words of the command: ``("perturb", "typos")``, ``("evaluate", "dst")``.
      options: by the name of the flag.
      place: its position in the suite's file, for messages.
      about: describes the output; by default as its command is described.
      files: files to write below the output before it runs: path to content.
      reads: further inputs, in the notation of options.
    """

    name: str
    command: tuple[str, ...]
    options: Options
    place: str
    about: str = ""
    files: dict[str, str] = {}
    reads: Any = ()


def without(step: Step, lost: Collection[str]) -> Step | None:
    """Returns a step without its inputs from other steps that are lost; None if it cannot do without them."""

    def is_lost(value: object) -> bool:
        return any(owner(reference, lost) for reference in references(value))

    if not lost:
        return step
    options = dict(step.options)
    for key in options.keys() & _REDUCIBLE.get(step.command[0], ()):
        value = options.pop(key)
        if isinstance(value, dict):
            value = {name: item for name, item in value.items() if not is_lost(item)}
        elif isinstance(value, list):
            value = [item for item in value if not is_lost(item)]
        if value and not is_lost(value):
            options[key] = value
    if is_lost([options, step.reads]):
        return None
    if step.command[0] == "compare":
        systems = [str(system).partition("=")[0] for system in options.get("systems", ())]
        fewest = 1 if step.name == COMPARISON else 2
        if len(systems) < fewest or options.get("baseline", systems[0]) not in systems:
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
    """Lists the references in the value of an option, in full and without the ``@``."""
    return [_in_full(reference) for text in texts(value) for reference in _REFERENCE.findall(text)]


def owner(reference: str, steps: Collection[str]) -> str | None:
    """Returns the step that writes what a reference names: ``sets/typos`` for ``sets/typos/typos``."""
    words = reference.split("/")
    return next((name for n in range(len(words), 0, -1) if (name := "/".join(words[:n])) in steps), None)


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


def entry_of(name: str) -> str:
    """Returns the entry of the file that a step or reference belongs to: ``systems/ours`` for ``models/ours/dst``."""
    kind, _, rest = name.partition("/")
    if kind in _OF_SYSTEMS:
        return f"systems/{rest.partition('/')[0]}"
    return f"sets/{rest.partition('/')[0]}" if kind == "sets" else kind


def command_of(step: Step, output: Path) -> app.Command[Any]:
    """Makes the command of a step.

    Args:
      step: the step.
      output: the suite's output folder.

    Raises:
      InputError: there is no such command, it does not have an option, or does not accept its value. ``where`` is the
        option.
    """
    if "output" in step.options:
        raise InputError("the suite chooses the folder of each step", "", "output")
    return app.from_table(_kind_of(step), {**resolved(step.options, output), "output": str(output / step.name)})


def _kind_of(step: Step) -> type[app.Command[Any]]:
    pipeline, action, has_tasks = step.command[0], " ".join(step.command[1:]), "tasks" in step.options
    known = [name for name in main.PIPELINES if name not in _NOT_IN_SUITES]
    if pipeline not in known:
        raise InputError(no_such("pipeline", pipeline, known))
    if pipeline == "perturb" or (pipeline == "rewrite" and has_tasks):
        return perturb.command(action or pipeline, has_tasks)
    actions = main.actions_of(pipeline)
    if action not in (actions or [""]):
        raise InputError(no_such(f"kind of '{pipeline}'", action, actions))
    return main.command_of(pipeline, action)


def sets_of(step: Step, name: str) -> tuple[Sequence[str], bool]:
    """Returns the sets that a perturbation makes, and whether each has a folder.

    Raises InputError for wrong options.
    """
    from parapet.transforms.perturb.apply import complete

    if step.command[0] == "language_variations":  # which reads translations, which may not exist yet
        env = {key: value for key, value in step.options.items() if key == "env"}
        step = msgspec.structs.replace(step, command=("perturb", "verbose"), options=env)
        sets, in_folders = sets_of(step, "verbose")
        return [name + set_name.removeprefix("verbose") for set_name in sets], in_folders
    perturbation: Any = command_of(step, Path()).make()  # type: ignore[attr-defined]
    if name in perturb.TOOLKITS:
        return perturbation.sets, True
    return complete(perturbation).sets, perturbation.in_folders


def lacks(step: Step) -> str:
    """Names a missing extra that a step needs, with the command that installs it; empty if none is missing."""
    names = {step.command[-1], *(str(step.options.get(flag)) for flag in ENGINES)}
    extras = {"llm"} if step.options.get("endpoint") else set[str]()
    if step.command[0] in ("train", "predict") and step.command[-1] in _OF_MODELS:
        extras.add(_OF_MODELS[step.command[-1]])
    for group in (plugins.PERTURBATIONS, plugins.TRANSLATION_ENGINES, plugins.SPEECH_ENGINES):
        extras.update(
            *(plugin.extras for plugin in plugins.installed(group) if plugin.built_in and plugin.name in names)
        )
    missing = ",".join(extra for extra in sorted(extras) if not _is_installed(extra))
    return f"requires the extra {missing}: {install_line(missing)}" if missing else ""


@cache
def _is_installed(extra: str) -> bool:
    from parapet.pipelines.doctor import problems

    return not any(problems(extra))
