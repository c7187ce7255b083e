"""Commands as declarations: frozen dataclasses whose fields are flags, keys of a suite's step and Python arguments.

A module with one command has it as ``COMMAND``; one with several offers ``command(name)``. Fields are declared by
:func:`parapet.transforms.core.options.option`.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from fractions import Fraction
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from parapet.pipelines.dispatch import canonical
from parapet.schemas.errors import InputError, no_such
from parapet.transforms.core import options

if TYPE_CHECKING:
    import apache_beam as beam

Config = TypeVar("Config", bound="Command[Any]")
Struct = TypeVar("Struct")
Settings = TypeVar("Settings")  # what a command works with: its options, checked, and what they name, read
Option = str | int | float | bool | None

MOST = 2**31  # upper bound of numbers that declare none


class Command(options.Options, Generic[Settings]):
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

    def with_repeats(self, runner_flags: tuple[str, ...]) -> Command[Any]:
        """Returns the command that does the work: this one, or one that runs it several times."""
        return self

    def settings_of(self, kind: type[Struct], **own: object) -> Struct:
        """Makes a struct of the options that have the names of its fields, and of its ``own`` fields."""
        names: tuple[str, ...] = kind.__struct_fields__  # type: ignore[attr-defined]
        return kind(
            **{flag.name: getattr(self, flag.name) for flag in flags_of(type(self)) if flag.name in names} | own
        )

    def check(self) -> Settings:
        """Reads what the options name. Raises InputError, before anything is done, for what cannot be used."""
        raise NotImplementedError

    def act(self, settings: Settings) -> int | None:
        """Does the work; may return an exit status."""
        raise NotImplementedError


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
        """Prepares the output folder, and wires the pipeline."""
        from parapet.transforms.core.files import prepare

        prepare(self.output, self.name)
        self.wire(pipeline, settings)

    def wire(self, pipeline: beam.Pipeline, settings: Settings) -> None:
        """Wires the pipeline."""
        raise NotImplementedError

    def report(self, settings: Settings, counters: dict[str, int]) -> int | None:
        """Prints the results; may return an exit status."""
        return None

    def written(self, name: str) -> Any:
        """Reads a JSON file that the run wrote."""
        from parapet.transforms.core.files import read_written

        return json.loads(read_written(self.output, name))

    def statistics(self) -> Any:
        """Reads the statistics that the run wrote."""
        return self.written("statistics.json")


class Flag(NamedTuple):
    """A field that has a flag.

    Attributes:
      name: the name of the field.
      kind: the type of one value.
      many: whether it has several values.
      choices: the allowed values; empty for any.
      default: the field's default; :data:`options.REQUIRED` if it has none.
      reads: whether its values are files or folders that must exist.
      has_commas: whether several values are one text with commas.
      facts: what :func:`options.option` declares.
    """

    name: str
    kind: type
    many: bool
    choices: Any
    default: Any
    reads: bool
    has_commas: bool
    facts: Mapping[str, Any]


def _flags_of(config: Any) -> tuple[Flag, ...]:
    """Lists the flags of a configuration class, those of base classes first."""
    hints = typing.get_type_hints(config)
    flags = []
    without = getattr(config, "without", ())
    for item in fields(config):
        bases = (base.__dataclass_fields__.get(item.name) for base in config.__mro__ if is_dataclass(base))
        facts = next((base.metadata for base in bases if base is not None and base.metadata), None)
        if facts is not None and item.name not in without:
            default = item.default if item.default_factory is MISSING else item.default_factory()
            kind, many, choices = _value_type(hints[item.name])
            choices = choices or facts["choices"]
            flags.append(Flag(item.name, kind, many, choices, default, facts["reads"], facts["commas"], facts))
    return tuple(flags)


# A command asks for its flags several times, and a suite for those of many commands, which takes milliseconds each.
flags_of: Callable[[Any], tuple[Flag, ...]] = cache(_flags_of)


def _value_type(hint: Any) -> tuple[type, bool, tuple[Any, ...]]:
    """Returns the type of a single value, whether the flag takes several, and the choices."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, UnionType):
        return _value_type(next(argument for argument in arguments if argument is not NoneType))
    if origin in (list, tuple):
        kind, _, choices = _value_type(arguments[0])
        return kind, True, choices
    if origin is Literal:
        return type(arguments[0]), False, arguments
    return hint, False, ()


def value_of(flag: Flag, text: str) -> Any:
    """Makes the value of an option from a text of the command line. Raises InputError if it cannot be used.

    A list with commas may only be empty where its default is.
    """
    if not flag.has_commas:
        return _single(flag, text)
    values = tuple(_single(flag, part.strip()) for part in text.split(",") if part.strip())
    if not values and flag.default != ():
        raise InputError("must be one or more values")
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


def read_config(kind: type[Config], given: Mapping[str, Any]) -> Config:
    """Makes a command of the options among the values, and of the defaults that depend on them."""
    given = {name: value for name, value in given.items() if name in kind.__dataclass_fields__}
    return kind(**(kind.defaults(given) | given))


def from_table(kind: type[Config], table: Mapping[str, Any]) -> Config:
    """Makes a command of the table of a TOML file: a suite's step.

    Raises:
      InputError: there is no such option, or its value cannot be used; ``where`` is the option.
    """
    flags = {flag.name: flag for flag in flags_of(kind)}
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = canonical(key)
        if name not in flags:
            raise InputError(no_such("option", name, sorted(flags)), "", key)
        try:
            values[name] = _from_toml(flags[name], value)
        except InputError as error:
            raise InputError(error.reason, "", key) from None
    for name, flag in flags.items():
        if flag.default is options.REQUIRED and name not in values:
            raise InputError("is required", "", name)
    return read_config(kind, values)


def _from_toml(flag: Flag, value: Any) -> Any:
    if (flag.kind is bool) != isinstance(value, bool):
        expected = "true or false" if flag.kind is bool else "a value"
        raise InputError(f"expected {expected}, found {json.dumps(value, default=str)}")
    if flag.kind is bool:
        return value
    if isinstance(value, dict):
        value = [f"{name}={item}" for name, item in value.items()] if flag.many else json.dumps(value)
    texts = [str(item) for item in (value if isinstance(value, list) else [value])]
    if flag.many and not flag.has_commas:
        return [_single(flag, text) for text in texts]
    return value_of(flag, ",".join(texts))


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


def out_of_range(number: float, limits: Mapping[str, Any]) -> str:
    """Describes the allowed range if a number lies outside; empty if it lies inside."""
    least, above, most, below = (limits[name] for name in ("ge", "gt", "le", "lt"))
    inside = (least is None or number >= least) and (above is None or number > above)
    if inside and (number <= most if most is not None else number < below if below is not None else number <= MOST):
        return ""
    if below is not None and below <= 1:
        return f"must be above {above:g} and below {below:g}"
    if most is not None and above is not None:
        return f"must be above {above:g} and at most {most:,.9g}"
    if most is not None:
        return f"must be a number from {least:,.9g} to {most:,.9g}"
    return f"must be a number above {above:g}" if above is not None else f"must be {least or 0:,.9g} or more"


def paths_of(config: Any) -> Iterator[tuple[Flag, str]]:
    """Yields the files and folders that options name, also as ``NAME=PATH``."""
    for flag in flags_of(type(config)):
        value = getattr(config, flag.name) if flag.facts["path"] else ()
        for text in [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else ():
            if text:
                yield flag, text.partition("=")[2] if "=" in flag.facts["metavar"] else text


def input_paths(config: Any) -> list[tuple[str, str]]:
    """Lists (flag, path) of all files and folders that a configuration names."""
    return [(flag.name, path) for flag, path in paths_of(config)]


def content_options(config: Any) -> dict[str, Option]:
    """Lists the flags that determine the content of an output, for ``run.json``: all except files and folders."""
    names = sorted(flag.name for flag in flags_of(type(config)) if not flag.facts["path"] and flag.name != "output")
    return {name: getattr(config, name) for name in names}
