"""The options of a step as the flags of its command, checked by the command's own parser before anything runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from parapet.pipelines import dispatch
from parapet.pipelines.flags import Parser, StrictParser
from parapet.pipelines.suite.references import resolved
from parapet.pipelines.suite.steps import Step
from parapet.pipelines.suite.suite_file import Options, Value, unknown_key
from parapet.schemas.distribution import DISTRIBUTION, install_line
from parapet.schemas.errors import InputError

# What a model of 'parapet train' is computed with; the others need nothing.
_OF_MODELS = {
    **dict.fromkeys(("tiny_dst", "embeddings", "memn2n", "classifier", "damd"), "models"),
    **dict.fromkeys(("t5dst", "sgp_dst", "ft_t5", "pt_t5", "soloist"), "local"),
}
_NOT_IN_SUITES = ("suite", "mturk", "doctor", "completion")
_OF_ENGINES = {"google": "google", "local": "local", "azure": "azure", "moonshine": "moonshine"}


def parser_of(step: Step) -> StrictParser:
    """The parser of a step's command. Raises InputError, without a place, where there is no such command."""
    pipeline, *action = step.command
    known = [name for name in dispatch.PIPELINES if name not in _NOT_IN_SUITES]
    if pipeline not in known:
        raise InputError(unknown_key(pipeline, known, "pipeline"))
    if pipeline == "perturb":
        return _perturb_parser(" ".join(action))
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


def _perturb_parser(name: str) -> StrictParser:
    from parapet.transforms.perturbations import Registry

    registry = Registry()
    if name not in registry:
        raise InputError(unknown_key(name, registry, "perturbation"))
    return _parser_of_class(name, registry[name])  # type: ignore[arg-type]  # mypy takes instances for the class


def sets_of(name: str, options: Options) -> tuple[Sequence[str], bool]:
    """The sets that a perturbation with these options makes, and whether each has a folder. Raises InputError."""
    from parapet.pipelines.perturb import options_of, type_of
    from parapet.transforms.perturbations import Registry, perturbation_of

    registry = Registry()
    if name not in registry:
        raise InputError(unknown_key(name, registry, "perturbation"))
    if name == "paraphrase":  # is made with its memory or translations, which may not be there yet
        sets, in_folders = sets_of("verbose", {key: options[key] for key in ("env",) if key in options})
        return [name + one.removeprefix("verbose") for one in sets], in_folders
    chosen = registry[name]
    given = {}
    for option in options_of(chosen):
        if option.name in options and options[option.name] is not False:
            value = options[option.name]
            try:
                given[option.name] = value if value is True else type_of(option)(_joined(value))
            except ValueError:
                raise InputError(f"{option.name}: {value!r} is no number") from None
    perturbation = perturbation_of(chosen, {"seed": str(options.get("seed", "0")), **given}, as_flags=True)
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
    argv = _argv(step, parser_of(step), output, runner_flags)
    words = ["--task", *step.command[1:]] if step.pipeline == "evaluate" else step.command[1:]
    return [step.pipeline, *words, *argv]


def parsed(step: Step, output: Path) -> argparse.Namespace:
    """The flags of a step as its command parses them, with its defaults. Raises InputError, as ``command_line``."""
    parser = parser_of(step)
    return parser.parse(_argv(step, parser, output, ()))[0]


def _argv(step: Step, parser: StrictParser, output: Path, runner_flags: Sequence[str]) -> list[str]:
    actions = {action.dest: action for action in parser._actions if action.option_strings and action.dest != "help"}
    flags: list[str] = []
    for key, value in step.options.items():
        key = dispatch.canonical(key)
        if key == "output" or key not in actions:
            known = sorted(actions.keys() - {"output", "quiet", "log_format", "help_all"})
            raise InputError(unknown_key(key, known, "option", f"'parapet {' '.join(step.command)}'"), "", key)
        flags += _flag(actions[key], resolved(value, output), key)
    argv = [*flags, "--output", str(output / step.name), *(runner_flags if isinstance(parser, Parser) else ())]
    _check(parser, argv)
    return argv


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


class _Refused(Exception):
    """What a parser says instead of ending the program."""


def _check(parser: StrictParser, argv: Sequence[str]) -> None:
    """Parses flags. Raises InputError with the parser's reason."""

    def refuse(message: str) -> None:
        raise _Refused(message)

    parser.error = refuse  # type: ignore[assignment, method-assign]
    try:
        parser.parse(argv)
    except _Refused as refused:
        raise InputError(str(refused).removeprefix("argument ")) from None


def lacks(step: Step) -> str:
    """The extra that a step needs and that is not installed, with the line that installs it; empty where none is."""
    missing = [extra for extra in sorted(set(_extras(step))) if not _is_installed(extra)]
    if not missing:
        return ""
    return f"needs the extra {', '.join(missing)}: {install_line(','.join(missing))}"


def _extras(step: Step) -> Iterator[str]:
    if step.pipeline in ("train", "predict"):
        extra = _OF_MODELS.get(" ".join(step.command[1:]))
        if extra:
            yield extra
    if step.pipeline == "perturb":
        from parapet.transforms import plugins

        for plugin in plugins.installed(plugins.PERTURBATIONS):
            if (plugin.name,) == step.command[1:] and plugin.built_in:
                yield from plugin.extras
    if step.pipeline == "speech_errors":
        yield "speech"
    for flag in ("engine", "speaker", "listener"):
        engine = _OF_ENGINES.get(str(step.options.get(flag)))
        if engine:
            yield engine


@cache
def _is_installed(extra: str) -> bool:
    from parapet.pipelines.doctor.requirements import installed, requirements_of

    return all(installed(requirement.name) is not None for requirement in requirements_of(DISTRIBUTION, extra))
