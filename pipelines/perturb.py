"""``parapet perturb NAME``, and the commands named after a perturbation: runs a perturbation on a corpus."""

from __future__ import annotations

import argparse
import importlib
import inspect
import logging
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.pipelines import back_translate as translating
from parapet.pipelines import runners
from parapet.pipelines.app import add_flags, read_config
from parapet.pipelines.command import run_command, say, say_summary, starting, warn_dead_letters
from parapet.pipelines.dispatch import canonical, spelling
from parapet.pipelines.endpoint_flags import FLAGS as ENDPOINT_FLAGS
from parapet.pipelines.endpoint_flags import EndpointOptions, address
from parapet.pipelines.flags import INPUT, Parser, add_dry_run, add_max_bad, add_seed, add_sgd, add_split
from parapet.schemas.errors import InputError
from parapet.schemas.layout import TEST, sample_root
from parapet.transforms.perturbation import Command, Option
from parapet.transforms.running import plugins

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.schemas.dialogue import DialogueFile
    from parapet.transforms.perturbation.base import Perturbation
    from parapet.transforms.perturbation.corpora import Corpus
    from parapet.transforms.perturbations.back_translation import Translating
    from parapet.transforms.perturbations.variations import LanguageVariations
    from parapet.transforms.running.runs import RunInfo
    from parapet.transforms.translation.memory import Engine

EXAMPLE = """\
  parapet perturb typos --output typos           # the sample's test dialogues
  parapet perturb my_perturbation --sgd sgd --split dev,test --output perturbed
  parapet perturb typos --help                   # the options of one"""

EXAMPLE_OF_ONE = """\
  parapet perturb {name} --output perturbed           # the sample
  parapet perturb {name} --sgd sgd --split test --output perturbed"""

USAGE = """usage: parapet perturb PERTURBATION [flags]

Perturbs a corpus, and writes OUT/SET/test/dialogues_001.json, a row for every
change in OUT/SET/turns, statistics, and a page with examples.
"""

# Modules that declare the commands of Parapet's own perturbations. Help imports nothing but these.
REWRITE = "rewrite"
DECLARED = {
    REWRITE: "parapet.transforms.variants",
    "language_variations": "parapet.transforms.perturbations",
    "speech_errors": "parapet.transforms.perturbations.speech",
    "unseen_entities": "parapet.transforms.perturbations.entities",
    "ood": "parapet.transforms.perturbations.ood",
}
SUMMARIES = {  # of Parapet's own perturbations
    "typos": "users mistype words, but no values",
    "verbose": "users say the same in more words",
    "simple": "users say the same in fewer words",
    "paraphrase": "users say the same in other words",
    "speech_errors": "users are misheard by a speech recogniser",
    "unseen_entities": "users name values that training does not have",
    "ood": "users also say things that are out of domain",
}
TOOLKITS = {  # that only tasks of agents have
    "distractors": "Adds similar tools of the other tasks: OUT/distractors-10/FILE.",
    "corrupted": "Replaces and reorders words of names and descriptions: OUT/corrupted-replace/, -order/, -both/.",
    "missing_tool": "Takes the right tools away: nothing is to be called. OUT/missing_tool/FILE.",
}
DISTRACTORS = (5, 10, 20)  # numbers of tools added to a task's tools
CORRUPTIONS = ("replace", "order", "both")
TRANSLATING = "language_variations"  # a command that shares flags and memories with other translating commands

_SHARED = ("seed", "max_bad")  # options of perturbations that have common flags


class Config(msgspec.Struct, frozen=True):
    """The settings of a run.

    Attributes:
      command: how the perturbation is run.
      info: the run, as its manifest has it.
      perturbation: made of its options, and fitted.
      corpus: the dialogues that are perturbed.
      analyzed: the files that are analyzed.
      inputs: (flag, place) of the files or the folder that are perturbed.
      dry_run: whether only the costs are printed.
    """

    command: Command
    info: RunInfo
    perturbation: Perturbation
    corpus: Corpus
    analyzed: Sequence[DialogueFile]
    inputs: Sequence[tuple[str, str]]
    dry_run: bool


def command_of(name: str) -> Command:
    """Returns the command of a perturbation. Raises InputError if it is not installed or cannot be imported.

    For a class that declares no command, each keyword argument becomes a flag. Its default determines how the flag is
    parsed: False as a switch, a number (or None with a number's annotation) as a number, a tuple as a comma-separated
    list, anything else as text. The ``Args`` of the docstring are the help.
    """
    if name in DECLARED:
        command: Command = importlib.import_module(DECLARED[name]).COMMAND
        return command
    from parapet.transforms.perturbation.corpus import Registry, unknown

    registry = Registry()
    if name not in registry:
        raise InputError(unknown(name))
    perturbation = registry[name]
    if perturbation.command is not None:
        return perturbation.command
    summary = (inspect.getdoc(perturbation) or "").partition("\n")[0]
    return Command(
        f"{name}:",
        f"{summary} Writes OUT/SET/test/dialogues_001.json, statistics, a card and a page.",
        EXAMPLE_OF_ONE.format(name=name),
        {f"options of {name}": [_option(perturbation, parameter) for parameter in options_of(perturbation)]},
        has_messages=perturbation.keeps_turns and not perturbation.needs_annotation,
    )


def _option(perturbation: type[Perturbation], parameter: inspect.Parameter) -> Option:
    from parapet.transforms.perturbation import REQUIRED

    default, text = parameter.default, _about(perturbation, parameter.name)
    if default is False:
        return Option(parameter.name, text)
    kind = type_of(parameter)
    shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
    if shown not in ("", None, parameter.empty):
        text += f" (default: {shown})"
    metavar = {int: "N", float: "X"}.get(kind, "LIST" if isinstance(default, tuple) else "TEXT")
    return Option(parameter.name, text, metavar, REQUIRED if default is parameter.empty else None, type=kind)


def _about(perturbation: type[Perturbation], option: str) -> str:
    """Returns the docstring's text on an option, from the class or a base class."""
    for cls in perturbation.__mro__:
        for text in re.findall(rf"^ +{option}: (.*(?:\n {{4,}}.*)*)", inspect.cleandoc(cls.__doc__ or ""), re.M)[:1]:
            if not text.startswith("see "):
                return re.sub(r"\s+", " ", text).replace("`", "").replace("%", "%%").removesuffix(".")
    return "an option of this perturbation"


def type_of(option: inspect.Parameter) -> type:
    """Returns the type of an option's flag: that of its default, or of its annotation if the default is None."""
    if isinstance(option.default, int | float):
        return type(option.default)
    annotated = set(re.findall(r"\w+", str(option.annotation))) - {"None", "class"}
    return {frozenset({"int"}): int, frozenset({"float"}): float}.get(frozenset(annotated), str)


def options_of(perturbation: type[Perturbation]) -> list[inspect.Parameter]:
    """Lists the options of a perturbation, without those that all perturbations have."""
    parameters = inspect.signature(perturbation).parameters.values()
    return [
        option
        for option in parameters
        if option.kind in (option.KEYWORD_ONLY, option.POSITIONAL_OR_KEYWORD) and option.name not in _SHARED
    ]


_FEW = 64 << 10  # bytes of dialogues for which a slow perturbation starts several workers


def parser(name: str = "", program: str = "") -> Parser:
    """Builds the command line: the flags of all perturbations, and the options of one.

    Args:
      name: the name of the perturbation; empty for the common flags only.
      program: the name of the command, if it is not ``perturb NAME``.
    """
    command = command_of(name) if name else Command("", "Perturbs a corpus.", EXAMPLE)
    result = Parser(program or f"perturb {name or 'PERTURBATION'}", command.description, command.examples)
    add_sgd(result)
    if command.has_messages:
        text = "chats (JSON lines) instead of a corpus"
        result.group(INPUT)("--messages", nargs="+", default=[], metavar="FILE", reads=True, help=text)
    if command.has_split:
        add_split(result, many=True)
    for title, options in command.groups.items():
        add = result.group(title)
        for option in options:
            add(f"--{option.name}", **option.flag())
    if name == TRANSLATING:
        add_translation_flags(result)
    add_max_bad(result, command.records)
    if command.has_dry_run:
        add_dry_run(result)
    if command.has_seed:
        add_seed(result)
    if command.is_slow:
        result.set_defaults(large=_FEW)
    return result


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if not argv or argv[0].startswith("-"):
        print(usage(), end="")
        return 0 if argv and canonical(argv[0]) in ("_h", "__help", "__help_all") else 2
    name = spelling(argv[0], [*DECLARED, *plugins.names(plugins.PERTURBATIONS)]) or argv[0]
    return run_named(name, argv[1:], f"perturb {name}")


def run_named(name: str, argv: Sequence[str], program: str = "") -> int:
    """Runs the command of a perturbation under the name ``parapet PROGRAM``. Returns the exit status."""
    program = program or name
    has_tasks = any(argument.partition("=")[0] == "--tasks" for argument in argv)  # agents' tasks instead of a corpus
    if name in TOOLKITS or (has_tasks and name != REWRITE):
        from parapet.pipelines import perturb_tasks

        return perturb_tasks.run(name, argv)
    try:
        with starting(f"parapet {program}", argv):  # importing a perturbation may take long
            if name not in DECLARED:
                runners.import_beam(argv)
            command, flags = command_of(name), parser(name, program)
    except InputError as error:
        print(f"parapet {program.partition(' ')[0]}: {error}", file=sys.stderr)
        return 2
    if not command.has_messages and any(argument.partition("=")[0] == "--messages" for argument in argv):
        reason = "needs a corpus with schemas and states, which chat messages have not"
        others = "use typos, verbose, simple, paraphrase or speech_errors"
        print(f"parapet {program.partition(' ')[0]}: --messages: {name} {reason}: {others}", file=sys.stderr)
        return 2
    if has_tasks:
        from parapet.pipelines import rewrite_tasks as tasks

        return run_command(flags, argv, tasks.check, tasks.build, tasks.report, tasks.inputs)
    return run_command(flags, argv, partial(check, name, program, command), build, report, inputs)


def usage() -> str:
    """The help: the perturbations that are installed. None of them is imported, so that help is quick."""
    installed = plugins.installed(plugins.PERTURBATIONS)
    summaries = {plugin.name: f"plug-in of {plugin.distribution} {plugin.version}" for plugin in installed}
    summaries |= {plugin.name: SUMMARIES.get(plugin.name, "built in") for plugin in installed if plugin.built_in}
    listed = "\n".join(f"  {name:20}{summaries[name]}" for name in summaries)
    listed += "\n\nonly for agents' tasks (--tasks):\n"
    listed += "\n".join(f"  {name:20}{summaries.partition(':')[0].rstrip('.')}" for name, summaries in TOOLKITS.items())
    return f"{USAGE}\nperturbations:\n{listed}\n\nexample:\n{EXAMPLE}\n"


def class_of(name: str, command: Command) -> type[Perturbation]:
    """Imports the class of a perturbation."""
    from parapet.transforms.perturbation.corpus import Registry

    module, _, attribute = command.target.partition(":")
    if attribute:
        perturbation: type[Perturbation] = getattr(importlib.import_module(module), attribute)
        return perturbation
    return Registry()[module]


def check(name: str, program: str, command: Command, args: argparse.Namespace) -> Config:
    """Reads flags and corpus, and fits the perturbation. Raises InputError where they cannot work."""
    from parapet.transforms.perturbation.corpora import check_languages, listed, messages_corpus, read_corpus
    from parapet.transforms.perturbation.corpus import check_needs_none, complete
    from parapet.transforms.running.runs import RunInfo

    which = class_of(name, command)
    root = str(args.sgd or sample_root())
    messages: list[str] = getattr(args, "messages", [])
    if messages:
        _check_messages(args)
    perturbation: Perturbation = (
        language_variations(args) if name == TRANSLATING else complete(which.from_flags({**vars(args), "sgd": root}))
    )
    if messages:
        check_needs_none(perturbation, "chat messages", "--messages")
        corpus = messages_corpus(messages)
    else:
        splits = list(dict.fromkeys(listed(args.split))) if command.has_split else None
        corpus = read_corpus(root, splits)
    perturbation.splits = tuple(corpus.folders)
    where = "--messages" if messages else "--sgd"
    check_languages(perturbation.name, perturbation.languages, corpus, where)
    needs_whole = perturbation.needs_corpus() or perturbation.analyzes_all_splits
    whole = read_corpus(root, None) if needs_whole and not messages else corpus
    perturbation.fit(whole)
    analyzed = whole if perturbation.analyzes_all_splits else corpus
    for level, line in [*((logging.WARNING, line) for line in analyzed.problems), *perturbation.remarks()]:
        logging.log(level, "%s", line)
    options = {
        **({"split": args.split} if command.has_split and not messages else {}),
        **({"seed": args.seed} if command.has_seed else {}),
        "max_bad": float(args.max_bad),
        **_recorded(command.options, vars(args)),
        **perturbation.recorded_options(),
    }
    options = {option: value for option, value in options.items() if value not in ("", None, (), [])}
    own = [] if name in DECLARED else [plugins.choose(plugins.PERTURBATIONS, which.name, "")]
    header = plugins.recorded(*own, *perturbation.plugins_used())
    read = [("--messages", path) for path in messages] or [("--sgd", root)]
    info = RunInfo(program, args.output, options, args.max_bad, command.done + perturbation.kept, header)
    return Config(command, info, perturbation, corpus, analyzed.files, read, getattr(args, "dry_run", False))


def _check_messages(args: argparse.Namespace) -> None:
    """Raises InputError if another flag contradicts ``--messages``."""
    if args.sgd:
        raise InputError("give either --sgd or --messages", "--messages")
    if getattr(args, "split", TEST) != TEST:
        raise InputError("has no effect with --messages, which have no splits", "--split")


def _recorded(options: Iterable[Option], flags: Mapping[str, Any]) -> dict[str, object]:
    """Returns the flags for ``run.json``. Files and folders have their names only, as paths differ between machines."""
    return {
        option.name: str(flags[option.name]).rpartition("/")[2]
        if option.apart or (option.reads and not option.many)
        else flags[option.name]
        for option in options
        if flags[option.name] is not None and flags[option.name] is not False
    }


def inputs(config: Config) -> list[tuple[str, str]]:
    """What workers read: the dialogues, and what the perturbation reads besides."""
    return [*config.inputs, *config.perturbation.worker_inputs()]


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Wires the pipeline: perturbs the dialogue files, and writes each set with rows, statistics, a card and a page."""
    from parapet.transforms.perturbation.files import PerturbCorpus
    from parapet.transforms.storage import files

    files.prepare(config.info.output, config.info.pipeline)
    _ = pipeline | "Perturb" >> PerturbCorpus(config.perturbation, config.corpus, config.info, config.analyzed)


def report(config: Config, counters: dict[str, int]) -> None:
    """Prints the metrics of each set; for a dry run, what it would cost."""
    from parapet.transforms.perturbation.corpora import in_languages
    from parapet.transforms.perturbation.report import notes_of

    perturbation, output = config.perturbation, config.info.output
    if config.dry_run:
        files = [in_languages(file, perturbation.languages) for file in config.corpus.files]
        for line in perturbation.plan_lines(files):
            print(line)
        return
    statistics = say_summary(output, perturbation)
    if perturbation.name == TRANSLATING:
        for line in end_translation(perturbation, output, counters):
            say(line)
    for note in notes_of(perturbation, statistics):
        logging.warning("%s", note)
    warn_dead_letters(output, perturbation.tallies, config.command.unusable)


RULES = "rules"  # the engine without translation
LLM = "llm"  # a language model behind an endpoint
ENGINES = plugins.Names(plugins.TRANSLATION_ENGINES, RULES, LLM, translating.CHECKPOINT, translating.MEMORY)
LEAST_OF_FILES = 0.5  # least share of turns for which files of rewritten turns must have an entry

_TRANSLATING = ("pivots", "dry_run", "prefix", *translating.FLAGS, *ENDPOINT_FLAGS)
_OF_LLM = ("model", "parallel_calls", "memory", "dry_run", *ENDPOINT_FLAGS)


@dataclass(frozen=True, kw_only=True)
class _LanguageModel(EndpointOptions):
    endpoint: str = address(rare=True)


def add_translation_flags(parser: Parser) -> None:
    """Adds the flags of translation."""
    add = parser.group("translation")
    text = "rules alone; llm at --endpoint; checkpoint, a paraphraser; memory: --memory; others translate and back "
    text += "(default: embedded if installed)"
    add("--engine", choices=ENGINES, help=text)
    add("--pivots", metavar="LIST", help="pivot languages, one drawn for each turn (default: pt)")
    translating.add_flags(parser, rare=True, more="; T5, BART or Pegasus for checkpoint; a name for llm")
    add_flags(parser, _LanguageModel, "--engine llm")
    text = "before each text of --engine checkpoint (default: 'paraphrase: ' for T5, else nothing)"
    parser.group("--engine checkpoint", rare=True)("--prefix", metavar="TEXT", help=text)


def language_variations(args: argparse.Namespace) -> LanguageVariations:
    """Makes the perturbation from the flags: reads memories and rewritten turns, and opens the engine.

    Raises:
      InputError: the flags cannot be used.
    """
    from parapet.transforms.perturbations.generated import KINDS as WRITTEN
    from parapet.transforms.perturbations.rewritten import Rewritten
    from parapet.transforms.perturbations.variations import (
        KINDS,
        LanguageVariations,
        Paraphrase,
        kinds_of,
        parse_envs,
        parse_rates,
    )

    envs = parse_envs(args.env)
    if args.least_changed is not None and not 0 <= args.least_changed <= 1:
        raise InputError(f"{args.least_changed:g} is not a number between 0 and 1 (example: 0.5)", "--least_changed")
    rewritten = Rewritten(args.rewritten) if args.rewritten else None
    if rewritten:
        rewritten.check(args.max_bad)
    kinds = kinds_of(args.kinds, rewritten)
    _check_flags(args, kinds)
    args.engine = _engine(args)
    written = [kind for kind in kinds if kind in WRITTEN and args.engine == LLM]
    wanted = "paraphrase" in kinds and rewritten is None and args.engine != RULES
    how = _writing(args, written) if written else _translation(args, wanted)
    parts = []
    for kind in kinds:
        typos = {name: getattr(args, name) for name in ("rates", "at_least", "perturb_values") if kind == "typos"}
        rules = {"engine": RULES} if kind == Paraphrase.name else {}
        part = KINDS[kind](seed=args.seed, rewritten=rewritten or (), **typos, **rules)
        usual = LEAST_OF_FILES if rewritten else part.usual_least
        part.least = usual if args.least_changed is None else args.least_changed
        part.is_written = kind in written
        if isinstance(part, Paraphrase) and how and not written:
            part.pivots = how.pivots
        parts.append(part)
    parse_rates(args.rates, args.at_least)
    variations = LanguageVariations(parts, envs, how)
    if how and how.engine and args.engine not in (translating.CHECKPOINT, LLM):
        variations.plugin = translating.plugin_of(args)
    return variations


def _check_flags(args: argparse.Namespace, kinds: Sequence[str]) -> None:
    """Raises InputError if a flag has no effect."""
    engine = _engine(args)
    of_kinds = {
        ("typos",): ("perturb_values", "rates"),
        ("verbose", "simple", "paraphrase") if engine == LLM else ("paraphrase",): ("engine", *_TRANSLATING),
    }
    for kind, flags in of_kinds.items():
        for flag in flags:
            if args.rewritten and getattr(args, flag):
                raise InputError(
                    "has no effect with --rewritten, whose turns are used unchanged: leave it out", f"--{flag}"
                )
            if not {*kind} & {*kinds} and getattr(args, flag):
                is_named = f"the kind {kind[0]}, but" if len(kind) == 1 else f"{', '.join(kind)}, which"
                raise InputError(
                    f"is for {is_named} --kinds does not include it: add it, or leave the flag out", f"--{flag}"
                )
    wrong = {RULES: _TRANSLATING, LLM: set(_TRANSLATING) - {*_OF_LLM}}.get(
        engine, set(ENDPOINT_FLAGS) - {*translating.FLAGS}
    )
    for flag in _TRANSLATING:
        if flag in wrong and getattr(args, flag):
            of_flag = f"--engine {LLM}" if flag in ENDPOINT_FLAGS else "an engine that translates"
            raise InputError(f"is for {of_flag}, but the engine is {engine}: add --engine", f"--{flag}")


def _engine(args: argparse.Namespace) -> str:
    """Returns the engine of ``--engine``, or the one that the other flags imply."""
    from parapet.transforms.translation.embedded import is_installed

    if args.engine or args.endpoint or args.memory:
        return str(args.engine or (LLM if args.endpoint else translating.MEMORY))
    return translating.EMBEDDED if args.pivots or is_installed() else RULES


def _translation(args: argparse.Namespace, wanted: bool) -> Translating | None:
    """Reads memories and opens the engine.

    Returns the settings of translation, which have no pivots if it is not wanted.
    """
    from parapet.transforms.perturbations.back_translation import Translating
    from parapet.transforms.storage.files import join
    from parapet.transforms.translation.local import PARAPHRASED
    from parapet.transforms.translation.memory import by_languages
    from parapet.transforms.translation.translate import Known

    # read even if unused, so that the output keeps translations that an earlier run paid for
    rows = translating.read_memories(args)
    paid = join(args.output, translating.PAID)
    if not wanted:
        return Translating(Known({}), None, paid, rows) if rows else None
    translating.check_flags(args)
    engine: Engine | None
    if args.engine == translating.CHECKPOINT:
        engine, pivots = _paraphraser(args), [PARAPHRASED]
    elif args.prefix is not None:
        raise InputError(f"is for --engine checkpoint, but this is --engine {args.engine}", "--prefix")
    else:
        pivots = translating.parse_pivots(args.pivots or "pt")
        engine = translating.open_engine(args, pivots)
    known = Known(by_languages(rows, *((engine.provider, engine.model) if engine else ("", ""))))
    if engine is None and not any(known.of("en", pivot) for pivot in pivots):
        hint = (
            "the engine 'memory' only replays translations: add a --memory that contains the user turns, or "
            "choose another --engine"
        )
        raise InputError(f"{hint}; there are no translations into {', '.join(pivots)}", "--engine")
    return Translating(known, engine, paid, rows, tuple(pivots), args.seed, args.engine == translating.EMBEDDED)


def _writing(args: argparse.Namespace, kinds: Sequence[str]) -> Translating:
    """Reads memories and opens the client of a language model that writes turns.

    Raises InputError if these cannot be used.
    """
    from parapet.transforms.perturbations.back_translation import Translating
    from parapet.transforms.perturbations.generated import Writer, language_of
    from parapet.transforms.storage.files import join
    from parapet.transforms.translation.memory import by_languages
    from parapet.transforms.translation.translate import Known

    if not args.model or len(args.model) != 1:
        raise InputError("is required: give the name of the model at the endpoint, such as gpt-4o-mini", "--model")
    writer = Writer(read_config(_LanguageModel, args).endpoint_of(args.model[0], parallel=args.parallel_calls))
    if not args.dry_run:
        writer.open()
        writer.close()
    rows = translating.read_memories(args)
    known = Known(by_languages(rows, writer.provider, writer.model))
    return Translating(known, writer, join(args.output, translating.PAID), rows, tuple(map(language_of, kinds)))


def _paraphraser(args: argparse.Namespace) -> Engine:
    """Opens a checkpoint that paraphrases. Raises InputError if the flags do not name one."""
    from parapet.transforms.translation.local import Paraphraser

    if args.pivots:
        raise InputError("is for an engine that translates, but this is --engine checkpoint", "--pivots")
    if args.model is None or len(args.model) != 1:
        raise InputError("must name exactly one folder, that of the checkpoint", "--model")
    engine = Paraphraser(args.model[0], prefix=args.prefix, **({} if args.beams is None else {"beams": args.beams}))
    if not args.dry_run:
        engine.open()
    return engine


def end_translation(perturbation: Any, output: str, counters: Mapping[str, int]) -> Iterator[str]:
    """Deletes the temporary answers, which the memory now contains, and yields lines on the cost of translation."""
    from parapet.transforms.storage.files import clear, join

    clear(join(output, translating.PAID))
    how = perturbation.translating
    if how and how.engine and not how.writer:
        yield translating.bill(how.engine.provider, how.engine.dollars_per_million, counters)
