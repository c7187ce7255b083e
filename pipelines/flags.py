"""Parsers with strict flags, their help, and the flags that many commands share.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NoReturn

from parapet.pipelines import progress, runners
from parapet.pipelines.dispatch import canonical, spelling
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS, TEST, as_path, sample_root

EXIT_USAGE = 2
INPUT, OUTPUT, RUNNING = "input", "output", "running"

Add = Callable[..., argparse.Action]

_MOST_COLUMNS = 100  # for the help on a wide terminal
_EXAMPLE_LINES = 5  # lines of examples in the short help
_COMMENT = re.compile(r"^(.*\S)\s+(# .*)$")
_WHERE_RUNNER_FLAGS_GO = "Flags of Apache Beam (--runner, --direct_running_mode, --project, ...) go to the runner."


class Formatter(argparse.HelpFormatter):
    """Formats flags in two columns, with one line per default, and ``FILE...`` for one or more files."""

    def __init__(self, prog: str, width: int = 0) -> None:
        columns = min(shutil.get_terminal_size().columns, _MOST_COLUMNS)
        super().__init__(prog, max_help_position=24, width=width or columns - 2)

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        if action.nargs == argparse.ONE_OR_MORE:
            return f"{self._metavar_formatter(action, default_metavar)(1)[0]}..."
        return super()._format_args(action, default_metavar)

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        if action.required and action.option_strings:
            return f"{text} (required)"
        default = action.default
        shown = f"{default:g}" if isinstance(default, float) else str(default)
        if isinstance(default, bool) or not isinstance(default, str | int | float) or "(default" in text:
            return text
        if not shown or default == argparse.SUPPRESS:
            return text
        return f"{text} (default: {shown.replace('%', '%%')})"

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _wrapped(" ".join(text.split()), width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = (_wrapped(" ".join(paragraph.split()), width) for paragraph in text.split("\n\n"))
        return "\n\n".join("\n".join(indent + line for line in lines) for lines in paragraphs)


# Names that other tools use for flags of inputs and outputs, and our names.
_INPUTS = ("__sgd", "__schemas", "__reference", "__tasks", "__responses", "__config", "__systems")
_MEANT = {
    **dict.fromkeys(("__input", "__in", "__corpus", "__dataset", "__data", "__file"), _INPUTS),
    **dict.fromkeys(("__out", "__output_dir", "__outdir", "__dest"), ("__output",)),
    **dict.fromkeys(("__jobs", "__processes", "__threads"), ("__workers", "__jobs")),
}

# The bundled sample, as in the files of suites: a path, or behind NAME= or a comma.
_SAMPLE = re.compile(r"(?:^|(?<=[=,]))@sample(?=[/,]|$)")


class StrictParser(argparse.ArgumentParser):
    """An argparse parser with strict, grouped flags; its error for an unknown flag suggests the nearest one.

    Args:
      name: the name of the command, without ``parapet``.
      description: paragraphs; they are wrapped.
      example: command lines, indented by two spaces; long ones are wrapped at their flags.
      note: further paragraphs, shown by ``--help-all``.

    Attributes:
      options: the declared options and arguments; ``flags`` has those with a name by each of their names.
      terms: further sections of the help: title to terms and their meanings.
      dependent: returns the defaults that depend on given options; these have other values than None.
      raises: whether errors are raised as InputError, instead of ending the program.
    """

    raises = False

    def __init__(self, name: str, description: str, example: str, note: str = "") -> None:
        super().__init__(
            prog=f"parapet {name}",
            description=description,
            formatter_class=Formatter,
            add_help=False,
            allow_abbrev=False,
        )
        self.example, self.note, self.rare_note = example, note, ""
        self.terms: dict[str, dict[str, str]] = {}
        self.dependent: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
        self.options: list[argparse.Action] = []
        self.flags: dict[str, argparse.Action] = {}
        self._sections: dict[str, list[argparse.Action]] = {INPUT: [], OUTPUT: []}
        add = self.group(RUNNING)
        add("--quiet", action="store_true", help="no progress, no summary; errors only")
        add("--log_format", rare=True, choices=("text", "json"), default="text", help="format of messages")
        add("-h", "--help", action="help", help="show the common flags")
        add("--help-all", rare=True, dest="help", action=_HelpAll, help="show all flags")
        self._of_all_commands = list(self.options)

    def group(self, title: str, rare: bool = False) -> Add:
        """Returns a function that adds flags to the group with this title.

        The function takes the arguments of ``add_argument``, and three more: ``rare`` (only ``--help-all`` shows the
        flag), ``reads`` (its values are files or folders that must exist) and ``apart`` (they may be, so that the
        output must not be one of them).
        """
        section = self._sections.setdefault(title, [])

        def add(
            *names: str, rare: bool = rare, reads: bool = False, apart: bool = False, **options: Any
        ) -> argparse.Action:
            action = self.add_argument(*names, **options)
            action.rare, action.reads, action.apart = rare, reads, reads or apart  # type: ignore[attr-defined]
            section.append(action)
            self.options.append(action)
            self.flags |= dict.fromkeys(action.option_strings, action)
            return action

        return add

    def shown_groups(self, rare: bool = True) -> Iterator[tuple[str, list[argparse.Action]]]:
        """Yields (title, flags) of each group in the order of the help; without ``rare``, only the common flags."""
        for title, section in sorted(self._sections.items(), key=lambda item: item[0] == RUNNING):
            actions = [action for action in section if rare or not is_rare(action)]
            if actions:
                yield title, sorted(actions, key=self._of_all_commands.__contains__)

    def format_usage(self) -> str:
        """Formats the command with its required flags, and ``[flags]``."""
        formatter = Formatter(self.prog)
        words = []
        for action in (action for _, actions in self.shown_groups() for action in actions):
            if action.required:
                shown = formatter._format_args(action, action.dest.upper())
                words.append(" ".join([*action.option_strings[-1:], shown]).replace(" ", "\xa0"))
        line = " ".join(["usage:", self.prog, *words, "[flags]"])
        return "\n".join(_wrapped(line, formatter._width, "    ")).replace("\xa0", " ") + "\n"

    def format_help(self, rare: bool = False) -> str:
        """Formats the help; with ``rare``, it includes the rarely used flags."""
        formatter = Formatter(self.prog)
        formatter.add_text(self.description)
        for title, actions in self.shown_groups(rare):
            formatter.start_section(title)
            formatter.add_arguments(actions)
            formatter.end_section()
        for title, terms in self.terms.items():
            formatter.start_section(title)
            formatter.add_arguments([argparse.Action([], "", metavar=term, help=text) for term, text in terms.items()])
            formatter.end_section()
        examples = wrap_commands(self.example)
        while not rare and "\n".join(examples).count("\n") > _EXAMPLE_LINES:
            examples.pop()
        parts = [self.format_usage(), formatter.format_help(), "\n".join(["example:", *examples])]
        if rare:
            parts += [formatter._fill_text(note, formatter._width, "") for note in (self.note, self.rare_note) if note]
        else:
            hidden = sum(is_rare(action) for action in self.options) - 1  # do not count --help-all itself
            more = f"{hidden} more flag{'s' * (hidden > 1)}{', and notes' * bool(self.note)}"
            parts.append(f"'{self.prog} --help-all' shows {more}.")
        return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Exits like argparse, but prints the message above a live display."""
        if message:
            progress.write(message)
        sys.exit(status)

    def error(self, message: str) -> NoReturn:
        """Exits with status 2 after one line that says what to do; or raises InputError."""
        if self.raises:
            raise InputError(message.removeprefix("argument "))
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n  '{self.prog} --help' shows the flags\n")

    def parse(self, argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
        """Parses strictly; returns the flags and an empty list, as no flags are left for others."""
        return self.parse_args(self.check_flags(sys.argv[1:] if argv is None else argv, tuple)), []

    def parse_known_args(  # type: ignore[override]
        self, argv: Sequence[str], namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parses the arguments, and adds the defaults that depend on them."""
        args, rest = super().parse_known_args(argv, namespace)
        if namespace is None:
            values, _ = super().parse_known_args(argv, argparse.Namespace(**dict.fromkeys(vars(args))))
            given = {name: value for name, value in vars(values).items() if value is not None}
            vars(args).update(self.dependent(given) | given)
        return args, rest

    def check_flags(self, argv: Sequence[str], others: Callable[[], Iterable[str]]) -> list[str]:
        """Returns the arguments with each flag spelled as it is defined, and paths for ``@sample``.

        Exits if a flag is neither ours nor in ``others()``, and suggests the nearest one: for a mistyped ``--ouput``,
        argparse would only report that ``--output`` is missing. Exits, too, if a path is empty, as where a variable of
        the shell is not set.
        """
        argv = [_SAMPLE.sub(lambda _: str(sample_root()), argument) for argument in argv]
        ours = {canonical(flag): flag for flag in self.flags if flag.startswith("--")}
        end = argv.index("--") if "--" in argv else len(argv)
        result, strange = list(argv), {}
        for i, argument in enumerate(argv[:end]):
            flag, equals, value = argument.partition("=")
            if flag.startswith("--"):
                if canonical(flag) in ours:
                    result[i] = ours[canonical(flag)] + equals + value
                    action = self.flags[ours[canonical(flag)]]
                    is_path = is_input(action) or action.dest == "output"
                    if is_path and not (value if equals else "".join(argv[i + 1 : i + 2])):
                        self.error(f"{flag}: is empty: give a path")
                else:
                    strange[i] = (flag, equals + value)
        if strange and not {"-h", "--help", "--help-all"} & set(result[:end]):
            known = [*others()]
            for i, (flag, rest) in strange.items():
                if (spelled := spelling(flag, known)) is None:
                    near = difflib.get_close_matches(canonical(flag), [*ours, *map(canonical, known)], n=1, cutoff=0.6)
                    meant = [name for name in _MEANT.get(canonical(flag), ()) if name in ours]
                    nearest = spelling((meant or near)[0], [*ours.values(), *known]) if meant or near else ""
                    self.error(f"unknown flag {flag}" + (f": did you mean {nearest}?" if nearest else ""))
                result[i] = spelled + rest
        return result


class Parser(StrictParser):
    """The parser of a Beam pipeline: it has ``--output``, and leaves Beam's own flags to the runner."""

    def __init__(self, name: str, description: str, example: str, note: str = "") -> None:
        super().__init__(name, description, example, note)
        self.rare_note = _WHERE_RUNNER_FLAGS_GO
        add_output(self)
        add_workers(self)

    def parse(self, argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
        """Parses our flags strictly; also returns Beam's flags, for the runner."""
        argv = sys.argv[1:] if argv is None else argv
        if reason := runners.refused(argv):
            self.error(reason)
        is_dry = "--dry_run" not in self.flags and runners.names_dataflow(argv)
        dry = [flag for flag in argv if is_dry and flag in ("--dry_run", "--dry-run")]
        argv = self.check_flags([flag for flag in argv if flag not in dry], beam_flags)
        args, rest = self.parse_known_args(argv)
        if dry:
            args.dry_run = True
        if rest:
            self._check_runner_flags(rest)
        if any(c in args.output for c in "*?["):
            self.error(f"--output {args.output}: the name must not contain *, ? or [, which Beam reads as patterns")
        args.output = args.output.rstrip("/") or "/"
        try:
            as_path(args.output)
        except InputError as error:
            self.error(f"--output {args.output}: {error.reason}")
        return args, rest

    def _check_runner_flags(self, rest: Sequence[str]) -> None:
        known = beam_flags()
        takes_value = False
        for token in rest:
            if not token.startswith("-"):
                if not takes_value:
                    self.error(f"unexpected argument {token!r}")
                takes_value = False
                continue
            flag = token.split("=", 1)[0]
            if flag not in known:
                self.error(f"unknown flag {flag}")
            takes_value = "=" not in token and known[flag]


class _Recorder(argparse.ArgumentParser):
    """Notes each flag that is added, and whether it takes a value."""

    def __init__(self) -> None:
        self.takes_value: dict[str, bool] = {}
        super().__init__(add_help=False, conflict_handler="resolve")

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        options.pop("default", None)  # a default of Beam's may need Beam's own parser
        action = super().add_argument(*names, **options)
        self.takes_value |= dict.fromkeys(action.option_strings, action.nargs != 0)
        return action


@cache
def beam_flags() -> Mapping[str, bool]:
    """Maps every flag that Beam knows to whether it takes a value."""
    from apache_beam.options.pipeline_options import PipelineOptions, TestOptions

    recorder = _Recorder()
    for cls in PipelineOptions.__subclasses__():
        if "_add_argparse_args" in vars(cls) and cls is not TestOptions:  # TestOptions has a --dry_run NAME of its own
            cls._add_argparse_args(recorder)
    return recorder.takes_value


class _HelpAll(argparse.Action):
    """Prints the help with all flags, and exits."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        assert isinstance(parser, StrictParser)
        print(parser.format_help(rare=True), end="")
        parser.exit()


def is_rare(action: argparse.Action) -> bool:
    """Whether only ``--help-all`` shows a flag."""
    return getattr(action, "rare", False)


def is_input(action: argparse.Action) -> bool:
    """Whether the values of a flag are files or folders that must exist."""
    return getattr(action, "reads", False)


def may_be_path(action: argparse.Action) -> bool:
    """Whether the values of a flag are files or folders, or may be."""
    return getattr(action, "apart", False)


def wrap_commands(text: str, width: int = 78) -> list[str]:
    """Wraps command lines before flags, and moves comments that do not fit to the line above."""
    commands, comments = [], ""
    for line in re.sub(r"\\\n *", "", text).splitlines():
        command, comment = match.groups() if (match := _COMMENT.match(line)) else (line, "")
        if line.lstrip().startswith("#"):
            comments += f"{line}\n"
        elif len(line) <= width:
            commands.append(comments + line)
            comments = ""
        else:
            indent = command[: -len(command.lstrip())]
            parts = re.split(r" (?=--)", command.strip())
            whole = [part.replace(" ", "\xa0") if len(part) < width - 8 else part for part in parts]
            broken = _wrapped(indent + " ".join(whole), width - 2, f"{indent}    ")
            comments += f"{indent}{comment}\n" if comment else ""
            commands.append(comments + " \\\n".join(broken).replace("\xa0", " "))
            comments = ""
    return commands


def _wrapped(text: str, width: int, further: str = "") -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=further, break_on_hyphens=False, break_long_words=False)


SCHEMA_VARIANTS = "schema variants: output of 'compose', or sgd_x/data"
PARALLEL_CALLS = "requests at a time, up to 32"

# Flags that many commands share, with the same help text everywhere.


def add_output(parser: StrictParser) -> None:
    """Adds ``--output``, a folder."""
    parser.group(OUTPUT)("--output", required=True, metavar="OUT", help="folder to write, local or gs://")


def add_sgd(parser: StrictParser) -> None:
    """Adds ``--sgd``: the corpus."""
    text = "corpus in the SGD format (default: the bundled sample)"
    parser.group(INPUT)("--sgd", metavar="ROOT", reads=True, help=text)


def add_split(parser: StrictParser, default: str = TEST, many: bool = False) -> None:
    """Adds ``--split``; if ``many``, it takes several splits. Training commands use the default ``train``."""
    text = "train, dev, test, comma-separated" if many else "train, dev or test"
    metavar = "LIST" if many else "NAME"
    action = parser.group(INPUT)("--split", metavar=metavar, default=default, help=text)
    action.completer = lambda **_: SPLITS  # type: ignore[attr-defined]  # for argcomplete


def add_schemas(parser: StrictParser) -> None:
    """Adds ``--schemas``."""
    text = "corpus, schemas or tools (default: the bundled sample)"
    parser.group(INPUT)("--schemas", metavar="ROOT", reads=True, help=text)


def add_variant(parser: StrictParser) -> None:
    """Adds ``--variant``, which selects variants from the folder ``--variants``."""
    text = "variants to use, such as v1,v3 (default: all)"
    parser.group(INPUT)("--variant", rare=True, metavar="LIST", default="", help=text)


def add_seed(parser: StrictParser, of: str = "", kind: type = str, default: str | int = "0") -> None:
    """Adds ``--seed``: any text, or a number if ``kind`` is int. ``of`` names the part of the run that is random."""
    text = f"random seed{f' of {of}' * bool(of)}"
    parser.group(RUNNING)("--seed", type=kind, default=default, metavar="TEXT" if kind is str else "N", help=text)


def add_json(parser: StrictParser) -> None:
    """Adds ``--json``."""
    parser.group(OUTPUT)("--json", action="store_true", help="print JSON")


def add_dry_run(parser: StrictParser) -> None:
    """Adds ``--dry_run``."""
    parser.group(RUNNING)("--dry_run", action="store_true", help="print what would be done, and its cost; do nothing")


def add_workers(parser: StrictParser) -> None:
    """Adds ``--workers``, the number of local processes."""
    text = "local processes (default: 1; for large inputs one for each core, up to 8)"
    parser.group(RUNNING)("--workers", rare=True, type=whole_number(1), metavar="N", help=text)


def whole_number(least: int, most: int = sys.maxsize) -> Callable[[str], int]:
    """Returns the type of a flag whose value is a whole number from ``least`` to ``most``."""
    allowed = f"of {least} or more" if most == sys.maxsize else f"from {least} to {most}"

    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number {allowed}")
        return int(text)

    return parse


def add_max_bad(parser: StrictParser, records: str = "dialogues") -> None:
    """Adds ``--max_bad``, the share of the input records that may be unusable, as a Fraction."""
    text = f"share of {records} that may be unusable (default: 1%%)"
    parser.group(RUNNING)("--max_bad", type=_share, default=Fraction(1, 100), metavar="SHARE", help=text)


def _share(text: str) -> Fraction:
    """Parses ``5%`` or ``0.05``. Refuses a bare 1, which could mean 1% or 100%."""
    try:
        number = Fraction(text.strip().removesuffix("%"))
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a share: give a percentage from 0% to 100%, or a fraction such as 0.05"
        ) from None
    is_percentage = text.strip().endswith("%")
    if not is_percentage and number >= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is ambiguous: write {text.strip()}% or 100%")
    share = number / 100 if is_percentage else number
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a share: give a percentage from 0% to 100%, or a fraction such as 0.05"
        )
    return share
