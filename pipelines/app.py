"""Commands as declarations: frozen dataclasses whose fields are flags, keys of a suite's step and Python arguments.

A module with one command has it as ``COMMAND``; one with several offers ``command(name)``. Fields are declared by
:func:`parapet.transforms.core.options.option`.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import shutil
import sys
import textwrap
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, NoReturn, TypeVar

from parapet.pipelines import main, progress
from parapet.schemas.errors import InputError, no_such
from parapet.schemas.layout import sample_root
from parapet.transforms.core import options
from parapet.transforms.core.options import INPUT, OUTPUT, REQUIRED, RUNNING

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
        flags = {flag.name for flag in flags_of(type(self))}
        shared = flags.intersection(kind.__struct_fields__)  # type: ignore[attr-defined]
        return kind(**{name: getattr(self, name) for name in shared} | own)

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
# Typed by hand, since a class that compares its objects is not "Hashable" to a type checker.
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
        name = main.canonical(key)
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


EXIT_USAGE = 2

_MOST_COLUMNS = 100  # for the help on a wide terminal
_EXAMPLE_LINES = 5  # lines of examples in the short help
_COMMENT = re.compile(r"^(.*\S)\s+(# .*)$")
_WHERE_RUNNER_FLAGS_GO = "Flags of Apache Beam (--runner, --direct_running_mode, --project, ...) go to the runner."
_METAVARS = {int: "N", float: "X", Decimal: "X", str: "TEXT"}


class Formatter(argparse.HelpFormatter):
    """Formats flags in two columns, and ``FILE...`` for one or more files."""

    def __init__(self, prog: str, width: int = 0) -> None:
        width = width or min(shutil.get_terminal_size().columns, _MOST_COLUMNS) - 2
        super().__init__(prog, max_help_position=24, width=width)

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        if action.nargs == argparse.ONE_OR_MORE:
            return f"{self._metavar_formatter(action, default_metavar)(1)[0]}..."
        return super()._format_args(action, default_metavar)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _wrapped(" ".join(text.split()), width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = (_wrapped(" ".join(paragraph.split()), width) for paragraph in text.split("\n\n"))
        return "\n\n".join("\n".join(indent + line for line in lines) for lines in paragraphs)


# The bundled sample, as in the files of suites: a path, or behind NAME= or a comma.
_SAMPLE = re.compile(r"(?:^|(?<=[=,]))@sample(?=[/,]|$)")


class Parser(argparse.ArgumentParser):
    """The command line of a command. What it parses has the given options alone, as a declaration has the defaults.

    Attributes:
      kind: the command.
      sections: the flags by the sections of the help.
      rare: the names of those that only ``--help-all`` shows.
    """

    def __init__(self, kind: type[Command[Any]]) -> None:
        super().__init__(
            prog=f"parapet {kind.name}",
            description=kind.description,
            formatter_class=Formatter,
            add_help=False,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
        )
        self.kind = kind
        self.sections: dict[str, list[argparse.Action]] = {INPUT: [], OUTPUT: []}
        self.rare = {"help_all"}
        for flag in flags_of(kind):
            self._add(flag)
        add = self.add_argument
        self.sections[RUNNING] = [
            *self.sections.pop(RUNNING, []),
            add("--quiet", action="store_true", default=False, help="no progress, no summary; errors only"),
            add("-h", "--help", action="help", help="show the common flags"),
            add("--help-all", action="store_true", help="show all flags"),
        ]

    def _add(self, flag: Flag) -> None:
        facts, how = flag.facts, dict[str, Any]()
        if flag.kind is bool:
            how["action"] = "store_true"
        elif flag.choices and not flag.has_commas:
            how |= {"choices": flag.choices, "metavar": facts["metavar"] or None}
        else:
            metavar = "LIST" if flag.has_commas else _METAVARS.get(flag.kind, "TEXT")
            how |= {"type": lambda text: _parsed(flag, text), "metavar": facts["metavar"] or metavar}
        if facts["repeated"]:
            how["action"] = "append"
        elif flag.many and not flag.has_commas:
            how |= {"nargs": "+", "action": "extend" if facts["extend"] else "store"}
        if flag.default is REQUIRED and not facts["positional"]:
            how["required"] = True
        names = (flag.name,) if facts["positional"] else (f"--{flag.name}", *facts["also"])
        action = self.add_argument(*names, help=self._help_of(flag).replace("%", "%%"), **how)
        if facts["completes"]:
            action.completer = lambda **_: facts["completes"]  # type: ignore[attr-defined]
        self.sections.setdefault(facts["group"] or self.kind.group, []).append(action)
        if facts["rare"]:
            self.rare.add(flag.name)

    def _help_of(self, flag: Flag) -> str:
        text = re.sub(r"\{(\w+)\}", lambda match: str(getattr(self.kind, match[1])), flag.facts["text"])
        if flag.default is REQUIRED:
            return text if flag.facts["positional"] else f"{text} (required)"
        default = ",".join(map(str, flag.default)) if flag.has_commas and flag.default else flag.default
        is_shown = isinstance(default, str | int | float) and default is not False and default != ""
        if not is_shown or "(default" in text:
            return text
        return f"{text} (default: {f'{default:g}' if isinstance(default, float) else default})"

    def shown_groups(self, rare: bool = True) -> Iterator[tuple[str, list[argparse.Action]]]:
        """Yields (title, flags) of each section; without ``rare``, only the common flags."""
        for title, actions in self.sections.items():
            if shown := [action for action in actions if rare or action.dest not in self.rare]:
                yield title, shown

    def format_usage(self) -> str:
        """Formats the command with its required flags, and ``[flags]``."""
        formatter = Formatter(self.prog)
        required = (action for _, actions in self.shown_groups() for action in actions if action.required)
        arguments = ([*of.option_strings[-1:], formatter._format_args(of, of.dest.upper())] for of in required)
        words = (" ".join(argument).replace(" ", "\xa0") for argument in arguments)
        line = " ".join(["usage:", self.prog, *words, "[flags]"])
        return "\n".join(_wrapped(line, formatter._width, "    ")).replace("\xa0", " ") + "\n"

    def format_help(self, rare: bool = False) -> str:
        """Formats the help; with ``rare``, it includes the rarely used flags."""
        formatter, kind = Formatter(self.prog), self.kind
        formatter.add_text(self.description)
        terms = {
            title: [argparse.Action([], "", metavar=term, help=text) for term, text in terms.items()]
            for title, terms in kind.terms().items()
        }
        for title, actions in [*self.shown_groups(rare), *terms.items()]:
            formatter.start_section(title)
            formatter.add_arguments(actions)
            formatter.end_section()
        examples = wrap_commands(kind.example)
        while not rare and "\n".join(examples).count("\n") > _EXAMPLE_LINES:
            examples.pop()
        parts = [self.format_usage(), formatter.format_help(), "\n".join(["example:", *examples])]
        if rare:
            notes = filter(None, (kind.note, _WHERE_RUNNER_FLAGS_GO * kind.takes_beam_flags))
            parts += [formatter._fill_text(note, formatter._width, "") for note in notes]
        else:
            hidden = len(self.rare) - 1  # do not count --help-all itself
            more = [f"{hidden} more flag{'s' * (hidden > 1)}"] * bool(hidden) + ["notes"] * bool(kind.note)
            parts += [f"'{self.prog} --help-all' shows {' and '.join(more)}."] * bool(more)
        return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"

    def error(self, message: str) -> NoReturn:
        """Exits with status 2 after one line that says what to do."""
        progress.write(f"{self.prog}: {message}\n  '{self.prog} --help' shows the flags\n")
        self.exit(EXIT_USAGE)

    def parse(self, argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
        """Parses strictly; returns the given options, and Beam's own flags for the runner."""
        argv = [_SAMPLE.sub(lambda _: str(sample_root()), text) for text in (sys.argv[1:] if argv is None else argv)]
        argv = self.spelled(argv)
        if "--help-all" in argv:
            print(self.format_help(rare=True), end="")
            self.exit()
        args, rest = self.parse_known_args(argv)
        try:
            strange = beam_parser().parse_known_args(rest)[1] if rest and self.kind.takes_beam_flags else rest
        except argparse.ArgumentError as error:
            self.error(str(error))
        if strange:
            self.error(f"unexpected argument {strange[0]!r}")
        return args, rest

    def spelled(self, argv: Sequence[str]) -> list[str]:
        """Spells each flag as it is declared.

        Exits if a flag is neither ours nor Beam's, and suggests the nearest one: for a mistyped ``--ouput``, argparse
        would only report that ``--output`` is missing.
        """
        ours = known = {main.canonical(flag): flag for flag in self._option_string_actions}
        end = argv.index("--") if "--" in argv else len(argv)
        flags = {i: word.partition("=") for i, word in enumerate(argv[:end]) if word.startswith("--")}
        if self.kind.takes_beam_flags and any(main.canonical(flag) not in known for flag, _, _ in flags.values()):
            known = {main.canonical(flag): flag for flag in beam_parser()._option_string_actions} | ours
        words = list(argv)
        for i, (flag, equals, value) in flags.items():
            name = main.canonical(flag)
            if name not in known:
                # Beam has so many flags that one of them resembles any word a little.
                near = difflib.get_close_matches(name, ours, n=1) or difflib.get_close_matches(name, known, 1, 0.8)
                self.error(f"unknown flag {flag}" + (f": did you mean {known[near[0]]}?" if near else ""))
            words[i] = known[name] + equals + value
        return words


def _parsed(flag: Flag, text: str) -> Any:
    """Parses the text of a flag, for argparse."""
    try:
        if not text and (flag.reads or flag.name == "output"):  # such as a variable of the shell that is not set
            raise InputError("is empty: give a path")
        return value_of(flag, text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


@cache
def beam_parser() -> argparse.ArgumentParser:
    """Makes a parser of every flag that Beam knows."""
    from apache_beam.options.pipeline_options import PipelineOptions, TestOptions, _BeamArgumentParser

    parser: argparse.ArgumentParser = _BeamArgumentParser(
        add_help=False, conflict_handler="resolve", exit_on_error=False
    )
    for cls in PipelineOptions.__subclasses__():
        if "_add_argparse_args" in vars(cls) and cls is not TestOptions:  # TestOptions has a --dry_run NAME of its own
            cls._add_argparse_args(parser)
    return parser


def wrap_commands(text: str, width: int = 78) -> list[str]:
    """Wraps command lines before flags, and moves comments that do not fit to the line above."""
    commands, comments = [], ""
    for line in re.sub(r"\\\n *", "", text).splitlines():
        indent = line[: -len(line.lstrip())]
        if len(line) > width and (match := _COMMENT.match(line)):
            line, comment = match.groups()
            comments += f"{indent}{comment}\n"
        if line.lstrip().startswith("#"):
            comments += f"{line}\n"
            continue
        whole = [part.replace(" ", "\xa0") if len(part) < width - 8 else part for part in re.split(r" (?=--)", line)]
        broken = _wrapped(" ".join(whole), width if len(line) <= width else width - 2, f"{indent}    ")
        commands.append(comments + " \\\n".join(broken).replace("\xa0", " "))
        comments = ""
    return commands


def _wrapped(text: str, width: int, further: str = "") -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=further, break_on_hyphens=False, break_long_words=False)
