"""Commands as declarations: frozen dataclasses whose fields are flags, keys of a suite's step and Python arguments.

A module with one command has it as ``COMMAND``; one with several offers ``command(name)``. Fields are declared by
:func:`parapet.transforms.running.options.option`.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from parapet.pipelines.dispatch import canonical
from parapet.pipelines.flags import Parser, StrictParser
from parapet.schemas.errors import InputError
from parapet.transforms.running import options

if TYPE_CHECKING:
    import apache_beam as beam

Config = TypeVar("Config")
Settings = TypeVar("Settings")  # what a command works with: its options, checked, and what they name, read
Option = str | int | float | bool | None

MOST = 2**31  # upper bound of numbers that declare none
_METAVARS = {int: "N", float: "X", Decimal: "X", str: "TEXT"}


@dataclass(frozen=True, kw_only=True)
class Command(Generic[Settings]):
    """A command that is not a Beam pipeline.

    Attributes:
      name: the words after ``parapet``.
      description: paragraphs of the help; ``example`` are command lines, ``note`` is shown by ``--help-all``.
      group: the section of the help of options that name none.
      takes_beam_flags: whether Beam's own flags are allowed, for its field ``runner_flags`` or its pipeline.
      stopped: the message after Ctrl-C.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    example: ClassVar[str]
    note: ClassVar[str] = ""
    group: ClassVar[str] = "input"
    takes_beam_flags: ClassVar[bool] = False
    stopped: ClassVar[str] = "nothing was written, run the same command again"

    @classmethod
    def defaults(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the defaults that depend on given options. Raises InputError if these exclude each other."""
        return {}

    @classmethod
    def terms(cls) -> dict[str, dict[str, str]]:
        """Returns further sections of the help: title to terms and their meanings."""
        return {}

    def check(self) -> Settings:
        """Reads what the options name. Raises InputError, before anything is done, for what cannot be used."""
        raise NotImplementedError

    def act(self, settings: Settings) -> int | None:
        """Does the work; may return an exit status."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Pipeline(Command[Settings]):
    """A command that builds and runs a Beam pipeline, and reports what it wrote.

    Attributes:
      large: the bytes of input that repay the start of several workers.
    """

    large: ClassVar[int] = 24 << 20
    stopped: ClassVar[str] = "nothing was published, run the same command again"

    takes_beam_flags: ClassVar[bool] = True
    output: str = options.output_folder()
    workers: int | None = options.workers()

    @property
    def processes(self) -> int | None:
        """The number of local processes; None for as many as the inputs repay."""
        return self.workers

    def inputs(self, settings: Settings) -> list[tuple[str, str]]:
        """Lists (flag, path) of the files that workers read, which on Dataflow must be in a bucket."""
        return []

    def build(self, pipeline: beam.Pipeline, settings: Settings) -> None:
        """Wires the pipeline."""
        raise NotImplementedError

    def report(self, settings: Settings, counters: dict[str, int]) -> int | None:
        """Prints the results; may return an exit status."""
        return None

    def statistics(self) -> Any:
        """Reads the statistics that the run wrote."""
        from parapet.transforms.storage.files import read_written

        return json.loads(read_written(self.output, "statistics.json"))


def parser_of(kind: type[Command[Any]]) -> StrictParser:
    """Builds the command line of a command."""
    words = (kind.name, kind.description, kind.example, kind.note)
    parser = Parser(*words) if kind.takes_beam_flags else StrictParser(*words)
    add_flags(parser, kind, kind.group)
    parser.terms, parser.dependent = kind.terms(), kind.defaults
    return parser


class Flag(NamedTuple):
    """A field that has a flag.

    Attributes:
      name: the name of the field.
      kind: the type of one value.
      many: whether it has several values.
      choices: the allowed values; empty for any.
      default: the field's default; :data:`options.REQUIRED` if it has none.
      facts: what :func:`options.option` declares.
    """

    name: str
    kind: type
    many: bool
    choices: Any
    default: Any
    facts: Mapping[str, Any]

    @property
    def reads(self) -> bool:
        """Whether its values are files or folders that must exist."""
        return bool(self.facts["reads"])

    @property
    def has_commas(self) -> bool:
        """Whether several values are one text with commas."""
        return bool(self.facts["commas"])


def flags_of(config: type[Any]) -> list[Flag]:
    """Lists the flags of a configuration class, those of base classes first."""
    hints = get_type_hints(config)
    flags = []
    without = getattr(config, "without", ())
    for item in fields(config):
        bases = (base.__dataclass_fields__.get(item.name) for base in config.__mro__ if is_dataclass(base))
        facts = next((base.metadata for base in bases if base is not None and base.metadata), None)
        if facts is not None and item.name not in without:
            default = item.default if item.default_factory is MISSING else item.default_factory()
            kind, many, choices = _value_type(hints[item.name])
            flags.append(Flag(item.name, kind, many, choices or facts["choices"], default, facts))
    return flags


def _value_type(hint: Any) -> tuple[type, bool, tuple[Any, ...]]:
    """Returns the type of a single value, whether the flag takes several, and the choices."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _value_type(next(argument for argument in arguments if argument is not NoneType))
    if origin in (list, tuple):
        kind, _, choices = _value_type(arguments[0])
        return kind, True, choices
    if origin is Literal:
        return type(arguments[0]), False, arguments
    return hint, False, ()


def add_flags(parser: StrictParser, config: type[Any], group: str, **words: str) -> None:
    """Adds the flags of a configuration class to a parser.

    Args:
      parser: the command's parser.
      config: the class.
      group: the help section of flags that name none.
      words: replacements of ``{NAME}`` in help texts, besides class variables.
    """
    for flag in flags_of(config):
        facts, title = flag.facts, flag.facts["group"] or group
        if f"--{flag.name}" in parser.flags:
            continue
        add = parser.group(title)
        text = re.sub(r"\{(\w+)\}", lambda match: words.get(match[1]) or getattr(config, match[1]), facts["text"])
        arguments: dict[str, Any] = {"help": text.replace("%", "%%"), "rare": facts["rare"]}
        if flag.kind is bool:
            arguments["action"] = "store_true"
        else:
            if flag.choices and not flag.has_commas:
                arguments |= {"choices": flag.choices, "metavar": facts["metavar"] or None}
            else:
                metavar = "LIST" if flag.has_commas else _METAVARS.get(flag.kind, "TEXT")
                arguments |= {"type": partial(_parsed, flag), "metavar": facts["metavar"] or metavar}
            arguments["default"] = None if flag.default is options.REQUIRED else _as_text(flag)
        if facts["repeated"]:
            arguments["action"] = "append"
        elif flag.many and not flag.has_commas:
            arguments |= {"nargs": "+", "action": "extend" if facts["extend"] else "store"}
        if flag.default is options.REQUIRED and not facts["positional"]:
            arguments["required"] = True
        names = (flag.name,) if facts["positional"] else (f"--{flag.name}", *facts["also"])
        action = add(*names, reads=facts["reads"], **arguments)
        if completes := facts["completes"]:
            action.completer = lambda completes=completes, **_: completes  # type: ignore[attr-defined]


def _as_text(flag: Flag) -> Any:
    """Returns the default of a flag as the parser and the help have it."""
    if flag.has_commas and flag.default is not None:
        return ",".join(map(str, flag.default))
    return list(flag.default) if isinstance(flag.default, tuple) else flag.default


def _parsed(flag: Flag, text: str) -> Any:
    """Parses the text of a flag, for argparse."""
    try:
        return _value(flag, text)
    except InputError as error:
        raise argparse.ArgumentTypeError(error.reason) from None


def _value(flag: Flag, text: str) -> Any:
    """Makes the value of an option from a text of the command line. Raises InputError if it cannot be used.

    A list with commas may only be empty where its default is.
    """
    if not flag.has_commas:
        return _single(flag, text)
    values = tuple(_single(flag, part.strip()) for part in text.split(",") if part.strip())
    if not values and flag.default != ():
        example = f" (example: {_as_text(flag)})" if isinstance(flag.default, tuple) else ""
        raise InputError(f"must be one or more values{example}")
    return values


def _single(flag: Flag, text: str) -> Any:
    if parse := flag.facts["parse"]:
        return parse(text)
    if flag.choices and text not in flag.choices:
        raise InputError(f"{text!r} must be one of {', '.join(map(str, flag.choices))}")
    try:
        value = flag.kind(text)
    except ValueError:
        raise InputError(f"{text!r} is not a {'whole ' * (flag.kind is int)}number") from None
    if isinstance(value, int | float) and (reason := out_of_range(value, flag.facts)):
        raise InputError(f"{value}: {reason}")
    return value


def from_table(kind: type[Config], table: Mapping[str, Any]) -> Config:
    """Makes a configuration of the table of a TOML file: a suite's step.

    Raises:
      InputError: there is no such option, or its value cannot be used; ``where`` is the option.
    """
    flags = {flag.name: flag for flag in flags_of(kind)}
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = canonical(key)
        if name not in flags:
            near = difflib.get_close_matches(name, flags, n=1)
            hint = f": did you mean {near[0]!r}?" if near else f": must be one of {', '.join(sorted(flags))}"
            raise InputError(f"unknown option {key!r}{hint}", "", key)
        try:
            values[name] = _from_toml(flags[name], value)
        except InputError as error:
            raise InputError(error.reason, "", key) from None
    for name, flag in flags.items():
        if flag.default is options.REQUIRED and name not in values:
            raise InputError("is required", "", name)
    return kind(**(getattr(kind, "defaults", dict)(values) | values))


def _from_toml(flag: Flag, value: Any) -> Any:
    if (flag.kind is bool) != isinstance(value, bool):
        expected = "true or false" if flag.kind is bool else "a value"
        raise InputError(f"expected {expected}, found {json.dumps(value, default=str)}")
    if flag.kind is bool:
        return value
    if isinstance(value, dict) and not flag.many:
        value = json.dumps(value)
    elif isinstance(value, dict):
        value = [f"{name}={item}" for name, item in value.items()]
    if flag.has_commas:
        return _value(flag, ",".join(map(str, value)) if isinstance(value, list) else str(value))
    if flag.many:
        return [_single(flag, str(item)) for item in (value if isinstance(value, list) else [value])]
    return _single(flag, ",".join(map(str, value)) if isinstance(value, list) else str(value))


def command_line(command: Command[Any]) -> list[str]:
    """Formats a command as people type it, without options that have their default, and the output last."""
    words = [word for word in command.name.split() if word != "--tasks"]  # which is among its flags, too
    for flag in sorted(flags_of(type(command)), key=lambda flag: flag.name == "output"):
        value, default = getattr(command, flag.name), None if flag.default is options.REQUIRED else flag.default
        if value == default or (flag.many and list(value or ()) == list(default or ())):
            continue
        if flag.facts["positional"]:
            words.append(str(value))
        elif flag.facts["repeated"]:
            words += [f"--{flag.name}={item}" for item in value]
        elif flag.kind is bool:
            words.append(f"--{flag.name}")
        elif flag.has_commas:
            words.append(f"--{flag.name}={','.join(map(str, value))}")
        elif flag.many:
            words += [f"--{flag.name}", *map(str, value)]
        else:
            words.append(f"--{flag.name}={_as_word(value)}")
    return words


def _as_word(value: object) -> str:
    if isinstance(value, Fraction):
        return f"{float(100 * value):.10g}%"
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _names(config: type[Any]) -> list[str]:
    return [item.name for item in fields(config)]


def read_config(config: type[Config], args: argparse.Namespace, **own: object) -> Config:
    """Reads a configuration from parsed flags.

    Args:
      config: its class.
      args: the flags; missing ones keep their defaults.
      own: fields without flags, or whose value differs from that of their flag.

    """
    return config(**{name: getattr(args, name) for name in _names(config) if hasattr(args, name)} | own)


def out_of_range(number: float, limits: Mapping[str, Any]) -> str:
    """Describes the allowed range if a number lies outside; empty if it lies inside."""
    least, above, most, below = (limits[name] for name in ("ge", "gt", "le", "lt"))
    inside = (least is None or number >= least) and (above is None or number > above)
    if inside and (number <= most if most is not None else number < below if below is not None else number <= MOST):
        return ""
    if below is not None and below <= 1:
        return f"must be above {above:g} and below {below:g}"
    if most is not None:
        return f"must be a number from {least:,.9g} to {most:,.9g}"
    return f"must be a number above {above:g}" if above is not None else f"must be {least or 0:,.9g} or more"


def input_paths(config: Any) -> list[tuple[str, str]]:
    """Lists (flag, path) of all files and folders that a configuration names."""
    values = [(flag.name, getattr(config, flag.name)) for flag in flags_of(type(config)) if flag.facts["path"]]
    return [(name, path) for name, value in values if value for path in (value if isinstance(value, list) else [value])]


def content_options(config: Any) -> dict[str, Option]:
    """Lists the flags that determine the content of an output, for ``run.json``: all except files and folders."""
    names = sorted(flag.name for flag in flags_of(type(config)) if not flag.facts["path"] and flag.name != "output")
    return {name: getattr(config, name) for name in names}
