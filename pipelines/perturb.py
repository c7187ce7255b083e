"""``parapet perturb``: any perturbation that is installed, ours or a plug-in's, on a corpus."""

from __future__ import annotations

import argparse
import inspect
import logging
import re
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.pipelines.command import check_apart, run_command, say_summary, starting, warn_dead_letters
from parapet.pipelines.dispatch import canonical, spelling
from parapet.pipelines.flags import Parser, add_max_bad, add_seed, add_sgd, add_split
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root
from parapet.transforms import plugins

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.schemas.dialogue_files import DialogueFile
    from parapet.transforms.corpora import Corpus
    from parapet.transforms.perturbation import Perturbation

EXAMPLE = """\
  parapet perturb typos --output typos           # the sample's test dialogues
  parapet perturb my_perturbation --sgd sgd --split dev,test --output perturbed
  parapet perturb typos --help                   # the options of one"""

EXAMPLE_OF_ONE = "  parapet perturb {name} --sgd sgd --split test --output perturbed"

USAGE = """usage: parapet perturb PERTURBATION [flags]

Perturbs a corpus: OUT/SET/test/dialogues_001.json, a row for every change in
OUT/SET/turns, statistics, a page.
"""

_SHARED = ("seed", "max_bad")  # options of a perturbation that have flags of their own


class Config(msgspec.Struct, frozen=True):
    """A run.

    Attributes:
      output: the output folder.
      perturbation: made of its options, and fitted.
      corpus: the dialogues that are perturbed.
      analyzed: the files that are analyzed.
      root: of the corpus.
      max_bad: the share of each kind of record that may be bad.
      options: of the perturbation, for ``run.json``.
      plugin: the plug-in that brings the perturbation, for ``run.json``.
    """

    output: str
    perturbation: Perturbation
    corpus: Corpus
    analyzed: Sequence[DialogueFile]
    root: str
    max_bad: Fraction
    options: dict[str, object]
    plugin: dict[str, object]


def parser(perturbation: type[Perturbation] | str | None = None) -> Parser:
    """The flags: those of every perturbation, and those that the options of one have, a class or its name."""
    if isinstance(perturbation, str):
        perturbation = class_of(perturbation)
    name, summary = "PERTURBATION", "Perturbs a corpus."
    flags: list[tuple[str, dict[str, Any]]] = []
    if perturbation is not None:
        name = perturbation.name
        summary, flags = summary_and_flags(perturbation)
    what = f"{summary} Writes OUT/SET/test/dialogues_001.json, statistics, a card and a page."
    result = Parser(f"perturb {name}", what, EXAMPLE if perturbation is None else EXAMPLE_OF_ONE.format(name=name))
    add_sgd(result)
    add_split(result, many=True)
    add = result.group(f"options of {name}")
    for flag, options in flags:
        add(flag, **options)
    add_max_bad(result)
    add_seed(result)
    return result


def class_of(name: str) -> type[Perturbation]:
    """The class of a perturbation. Raises InputError where none of this name is installed, or it cannot be imported."""
    from parapet.transforms.perturbations import Registry, unknown

    registry = Registry()
    spelled = spelling(name, registry)
    if spelled is None:
        raise InputError(unknown(name))
    return registry[spelled]


def summary_and_flags(perturbation: type[Perturbation]) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    """The first sentence of a perturbation's docstring, and the flags of its options.

    An option is a keyword argument of the class. Its default says how the flag is read: a switch where it is False, a
    number where it is one (or is annotated as one), a comma-separated list where it is a tuple, else text. The ``Args``
    of the docstring are its help.
    """
    document = inspect.getdoc(perturbation) or ""
    flags: list[tuple[str, dict[str, Any]]] = []
    for option in options_of(perturbation):
        default = option.default
        flag: dict[str, Any] = {"help": about(perturbation, option.name)}
        if default is False:
            flag["action"] = "store_true"
        else:
            flag |= {"default": None, "required": default is option.empty, "type": type_of(option)}
            flag["metavar"] = {int: "N", float: "X"}.get(flag["type"], "LIST" if isinstance(default, tuple) else "TEXT")
            shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
            if shown not in ("", None, option.empty):
                flag["help"] += f" (default: {shown})"
        flags.append((f"--{option.name}", flag))
    return document.partition("\n")[0], flags


def about(perturbation: type[Perturbation], option: str) -> str:
    """What the docstring of a class says of an option, or that of a base class."""
    for cls in perturbation.__mro__:
        for text in re.findall(rf"^ +{option}: (.*(?:\n {{4,}}.*)*)", inspect.cleandoc(cls.__doc__ or ""), re.M)[:1]:
            if not text.startswith("see "):
                return re.sub(r"\s+", " ", text).replace("`", "").replace("%", "%%").removesuffix(".")
    return "an option of this perturbation"


def type_of(option: inspect.Parameter) -> type:
    """The type of an option's flag: that of its default, or of its annotation where the default is None."""
    if isinstance(option.default, int | float):
        return type(option.default)
    annotated = set(re.findall(r"\w+", str(option.annotation))) - {"None", "class"}
    return {frozenset({"int"}): int, frozenset({"float"}): float}.get(frozenset(annotated), str)


def options_of(perturbation: type[Perturbation]) -> list[inspect.Parameter]:
    """The options that a perturbation has besides those of every one."""
    parameters = inspect.signature(perturbation).parameters.values()
    return [
        option
        for option in parameters
        if option.kind in (option.KEYWORD_ONLY, option.POSITIONAL_OR_KEYWORD) and option.name not in _SHARED
    ]


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if not argv or argv[0].startswith("-"):
        print(usage(), end="")
        return 0 if argv and canonical(argv[0]) in ("_h", "__help", "__help_all") else 2
    try:
        with starting(f"parapet perturb {argv[0]}", argv):  # a perturbation may import much
            perturbation = class_of(argv[0])
    except InputError as error:
        print(f"parapet perturb: {error}", file=sys.stderr)
        return 2
    return run_command(parser(perturbation), argv[1:], partial(check, perturbation), build, report, inputs)


def usage() -> str:
    """The help: the perturbations that are installed. None of them is imported, so that help is quick."""
    listed = "\n".join(
        f"  {plugin.name:20}"
        + ("built in" if plugin.built_in else f"plug-in of {plugin.distribution} {plugin.version}")
        for plugin in plugins.installed(plugins.PERTURBATIONS)
    )
    return f"{USAGE}\nperturbations:\n{listed}\n\nexample:\n{EXAMPLE}\n"


def check(which: type[Perturbation], args: argparse.Namespace) -> Config:
    """Reads flags and corpus, and fits the perturbation. Raises InputError where they cannot work."""
    from parapet.transforms.corpora import listed, read_corpus
    from parapet.transforms.perturbations import perturbation_of
    from parapet.transforms.users_code import calling

    check_apart(args.output, sgd=args.sgd)
    chosen = {option.name: getattr(args, option.name) for option in options_of(which)}
    given: Mapping[str, object] = {option: value for option, value in chosen.items() if value not in (None, False)}
    with calling():
        perturbation = perturbation_of(which, {"seed": args.seed, **given}, as_flags=True)
    root = str(args.sgd or sample_root())
    corpus = read_corpus(root, listed(args.split))
    for line in corpus.problems:
        logging.warning("%s", line)
    perturbation.splits = tuple(corpus.folders)
    whole = read_corpus(root, None) if perturbation.needs_corpus() or perturbation.analyzes_all_splits else corpus
    with calling():
        perturbation.fit(whole)
    analyzed = whole.files if perturbation.analyzes_all_splits else corpus.files
    options = {"split": args.split, "seed": args.seed, "max_bad": float(args.max_bad), **given}
    plugin = plugins.recorded(plugins.choose(plugins.PERTURBATIONS, which.name, ""))
    return Config(args.output, perturbation, corpus, analyzed, root, args.max_bad, options, plugin)


def inputs(config: Config) -> list[tuple[str, str]]:
    """What workers read: the dialogues."""
    return [("--sgd", config.root)]


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Dialogue files -> the sets of the perturbation, their rows, numbers, a card and a page."""
    from parapet.transforms import files
    from parapet.transforms.perturbed_files import PerturbCorpus
    from parapet.transforms.runs import RunInfo

    name = f"perturb {config.perturbation.name}"
    files.prepare(config.output, name)
    info = RunInfo(name, config.output, config.options, config.max_bad, "perturbed", config.plugin)
    _ = pipeline | "Perturb" >> PerturbCorpus(config.perturbation, config.corpus, info, config.analyzed)


def report(config: Config, counters: dict[str, int]) -> None:
    """Prints the metrics of each set."""
    say_summary(config.output, config.perturbation)
    warn_dead_letters(config.output, config.perturbation.tallies)


if __name__ == "__main__":
    sys.exit(run())
