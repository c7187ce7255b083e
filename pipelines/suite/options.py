"""The options of a step as the flags of its command, checked by the command's own parser before anything runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Never

from parapet.pipelines import dispatch
from parapet.pipelines.flags import Parser, StrictParser
from parapet.pipelines.suite.steps import Options, Step, Value, resolved
from parapet.pipelines.suite.suite_file import unknown_key
from parapet.schemas.errors import DISTRIBUTION, InputError, install_line
from parapet.transforms import plugins

# What a model of 'parapet train' is computed with; the others need nothing.
_OF_MODELS = {
    **dict.fromkeys(("tiny_dst", "embeddings", "memn2n", "classifier", "damd"), "models"),
    **dict.fromkeys(("t5dst", "sgp_dst", "ft_t5", "pt_t5", "soloist"), "local"),
}
_NOT_IN_SUITES = ("suite", "mturk", "doctor", "completion")
ENGINES = ("engine", "speaker", "listener")  # the options that name one


def parser_of(step: Step) -> StrictParser:
    """The parser of a step's command. Raises InputError, without a place, where there is no such command."""
    pipeline, *action = step.command
    known = [name for name in dispatch.PIPELINES if name not in _NOT_IN_SUITES]
    if pipeline not in known:
        raise InputError(unknown_key(pipeline, known, "pipeline"))
    if pipeline == "perturb":
        name = " ".join(action)
        return _parser_of_class(name, _perturbation(name))
    actions = dispatch.actions_of(pipeline)
    what = {"evaluate": "task", "train": "model", "predict": "model"}.get(pipeline, "action")
    if not actions and action:
        raise InputError(f"'{pipeline}' takes no {' '.join(action)!r}")
    if actions and len(action) != 1:
        raise InputError(f"'{pipeline}' needs a {what}: one of {', '.join(actions)}")
    if actions and action[0] not in actions:
        raise InputError(unknown_key(action[0], actions, what))
    return _parser(pipeline, *action)


@cache  # thousands of steps may have one command
def _parser(*command: str) -> StrictParser:
    return dispatch.parser_of(*command)


@cache
def _parser_of_class(name: str, _: Any) -> StrictParser:  # another class may be installed under the name
    from parapet.pipelines.perturb import parser

    return parser(name)


def _perturbation(name: str) -> Any:
    """The class of a perturbation. Raises InputError where there is none of that name."""
    from parapet.transforms.perturbation.registry import Registry

    registry = Registry()
    if name not in registry:
        raise InputError(unknown_key(name, registry, "perturbation"))
    return registry[name]


def sets_of(name: str, options: Options) -> tuple[Sequence[str], bool]:
    """The sets that a perturbation with these options makes, and whether each has a folder. Raises InputError."""
    from parapet.pipelines.perturb import options_of, type_of
    from parapet.transforms.perturbation.registry import perturbation_of

    chosen = _perturbation(name)
    if name == "paraphrase":  # is made with its memory or translations, which may not be there yet
        sets, in_folders = sets_of("verbose", {key: options[key] for key in ("env",) if key in options})
        return [name + one.removeprefix("verbose") for one in sets], in_folders
    values = {}
    for option in options_of(chosen):
        value = options.get(option.name, False)
        if value is not False:
            try:
                values[option.name] = value if value is True else type_of(option)(_joined(value))
            except ValueError:
                raise InputError(f"{option.name}: {value!r} is no number") from None
    perturbation = perturbation_of(chosen, {"seed": str(options.get("seed", "0")), **values}, as_flags=True)
    return perturbation.sets, perturbation.in_folders


def command_line(step: Step, output: Path, runner_flags: Sequence[str] = ()) -> list[str]:
    """The command of a step: its words and flags.

    Args:
      step: the step.
      output: of the suite.
      runner_flags: flags of Beam's own, for steps that run on Beam.

    Raises:
      InputError: an option that the command does not have, or a value that it does not take. ``where`` is the option.
    """
    argv, _ = parsed(step, output, runner_flags)
    return [step.pipeline, *(["--task"] if step.pipeline == "evaluate" else []), *step.command[1:], *argv]


def parsed(step: Step, output: Path, runner_flags: Sequence[str] = ()) -> tuple[list[str], argparse.Namespace]:
    """The flags of a step, and what its command reads in them. Arguments and errors are those of ``command_line``."""
    parser = parser_of(step)
    actions = {action.dest: action for action in parser._actions if action.option_strings and action.dest != "help"}
    flags: list[str] = []
    for key, value in step.options.items():
        key = dispatch.canonical(key)
        if key == "output" or key not in actions:
            known = sorted(actions.keys() - {"output", "quiet", "log_format", "help_all"})
            raise InputError(unknown_key(key, known, "option", f"'parapet {' '.join(step.command)}'"), "", key)
        flags += _flag(actions[key], resolved(value, output), key)
    argv = [*flags, "--output", str(output / step.name), *(runner_flags if isinstance(parser, Parser) else ())]

    def refuse(message: str) -> Never:
        raise InputError(message.removeprefix("argument "))

    parser.error = refuse  # type: ignore[method-assign]  # instead of ending the program
    return argv, parser.parse(argv)[0]


def _flag(action: argparse.Action, value: Value, key: str) -> Iterator[str] | list[str]:
    """An option as its flag has it."""
    flag = max(action.option_strings, key=len)
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise InputError(f"expected true or false, found {value!r}", "", key)
        return [flag] if value else []
    if isinstance(value, bool):
        raise InputError(f"expected a value, found {str(value).lower()}: --{key} is no switch", "", key)
    if action.nargs in ("+", "*") or isinstance(action.nargs, int):
        return [flag, *map(str, _items(value))]
    return [f"{flag}={_joined(value)}"]


def _items(value: Value) -> list[Value]:
    if isinstance(value, dict):
        return [f"{name}={item}" for name, item in value.items()]
    return list(value) if isinstance(value, list) else [value]


def _joined(value: Value) -> str:
    return ",".join(map(str, _items(value)))


def lacks(step: Step) -> str:
    """The extra that a step needs and that is not installed, with the line that installs it; empty where none is."""
    missing = [extra for extra in sorted(set(_extras(step))) if not _is_installed(extra)]
    if not missing:
        return ""
    return f"needs the extra {', '.join(missing)}: {install_line(','.join(missing))}"


def _extras(step: Step) -> Iterator[str]:
    if step.pipeline in ("train", "predict"):
        yield from filter(None, [_OF_MODELS.get(" ".join(step.command[1:]))])
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
    from parapet.pipelines.doctor.packages import installed, requirements_of

    return all(installed(requirement.name) is not None for requirement in requirements_of(DISTRIBUTION, extra))
