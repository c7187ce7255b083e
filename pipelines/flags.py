"""The command lines of declared commands: strict flags, and their help.

Flags are grouped by purpose. ``--help`` shows the common flags, ``--help-all`` all of them. ``-`` and ``_`` are
interchangeable in the name of a flag.
"""

from __future__ import annotations

import argparse
import difflib
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cache
from typing import Any, NoReturn

from parapet.pipelines import app, progress
from parapet.pipelines.dispatch import canonical
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root
from parapet.transforms.core.options import INPUT, OUTPUT, REQUIRED, RUNNING

EXIT_USAGE = 2

_MOST_COLUMNS = 100  # for the help on a wide terminal
_EXAMPLE_LINES = 5  # lines of examples in the short help
_COMMENT = re.compile(r"^(.*\S)\s+(# .*)$")
_WHERE_RUNNER_FLAGS_GO = "Flags of Apache Beam (--runner, --direct_running_mode, --project, ...) go to the runner."
_METAVARS = {int: "N", float: "X", Decimal: "X", str: "TEXT"}


class Formatter(argparse.HelpFormatter):
    """Formats flags in two columns, and ``FILE...`` for one or more files."""

    def __init__(self, prog: str, width: int = 0) -> None:
        columns = min(shutil.get_terminal_size().columns, _MOST_COLUMNS)
        super().__init__(prog, max_help_position=24, width=width or columns - 2)

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

    def __init__(self, kind: type[app.Command[Any]]) -> None:
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
        for flag in app.flags_of(kind):
            self._add(flag)
        add = self.add_argument
        self.sections[RUNNING] = [
            *self.sections.pop(RUNNING, []),
            add("--quiet", action="store_true", default=False, help="no progress, no summary; errors only"),
            add("-h", "--help", action="help", help="show the common flags"),
            add("--help-all", action="store_true", help="show all flags"),
        ]

    def _add(self, flag: app.Flag) -> None:
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

    def _help_of(self, flag: app.Flag) -> str:
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
        ours = known = {canonical(flag): flag for flag in self._option_string_actions}
        end = argv.index("--") if "--" in argv else len(argv)
        flags = {i: word.partition("=") for i, word in enumerate(argv[:end]) if word.startswith("--")}
        if self.kind.takes_beam_flags and any(canonical(flag) not in known for flag, _, _ in flags.values()):
            known = {canonical(flag): flag for flag in beam_parser()._option_string_actions} | ours
        words = list(argv)
        for i, (flag, equals, value) in flags.items():
            name = canonical(flag)
            if name not in known:
                # Beam has so many flags that one of them resembles any word a little.
                near = difflib.get_close_matches(name, ours, n=1) or difflib.get_close_matches(name, known, 1, 0.8)
                self.error(f"unknown flag {flag}" + (f": did you mean {known[near[0]]}?" if near else ""))
            words[i] = known[name] + equals + value
        return words


def _parsed(flag: app.Flag, text: str) -> Any:
    """Parses the text of a flag, for argparse."""
    try:
        if not text and (flag.reads or flag.name == "output"):  # such as a variable of the shell that is not set
            raise InputError("is empty: give a path")
        return app.value_of(flag, text)
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
        parts = re.split(r" (?=--)", line)
        whole = [part.replace(" ", "\xa0") if len(part) < width - 8 else part for part in parts]
        broken = _wrapped(" ".join(whole), width if len(line) <= width else width - 2, f"{indent}    ")
        commands.append(comments + " \\\n".join(broken).replace("\xa0", " "))
        comments = ""
    return commands


def _wrapped(text: str, width: int, further: str = "") -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=further, break_on_hyphens=False, break_long_words=False)
