"""``parapet back_translate``: translates schemas to other languages and back, one variant per pivot.

``language_variations`` shares the engines' flags and the functions that open an engine and its memories.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.pipelines.command import counted, read_good, run_command, say
from parapet.pipelines.flags import PARALLEL_CALLS, Parser, add_dry_run, add_max_bad, add_schemas
from parapet.schemas.errors import InputError, run_header
from parapet.schemas.layout import sample_root
from parapet.transforms.running import plugins

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.schemas.rows import Translation
    from parapet.transforms.translation.memory import Engine
    from parapet.transforms.translation.translate import Known
    from parapet.transforms.variants.back_translation import Corpus

PAID = ".paid"  # hidden folder in the output: answers are kept here as they arrive, until the final memory is published
CHECKPOINT = "checkpoint"  # an engine of language_variations that takes two flags of the engine "local"
EMBEDDED = "embedded"
MEMORY = "memory"  # no engine: only looks up translations in the memories
ENGINE = "translation engine; memory only looks up --memory"  # for the help of --engine
ENGINES = plugins.Names(plugins.TRANSLATION_ENGINES, MEMORY)

# The flags that belong to a single engine.
_FLAGS_OF = {
    "google": ("google_project", "google_location", "google_model", "google_endpoint"),
    "local": ("model", "beams"),
}
FLAGS = ("memory", "parallel_calls", *(flag for flags in _FLAGS_OF.values() for flag in flags))


def add_flags(parser: Parser, rare: bool = False, more: str = "") -> None:
    """Adds the flags of all engines, except ``--engine`` and ``--pivots``.

    Args:
      parser: the parser.
      rare: whether only ``--help-all`` shows them, because translation is not the command's main purpose.
      more: text appended to the help of ``--model``.
    """
    add = parser.group("translation")
    add(
        "--memory",
        nargs="+",
        default=[],
        metavar="PATH",
        reads=True,
        help="translation memories: Parquet, CSV, or folders (OUT/memory.parquet is always read)",
    )
    add(
        "--model",
        rare=rare,
        nargs="+",
        metavar="[PAIR=]DIR",
        help="models for --engine local: Marian, M2M100 or NLLB; for all pairs, or en-zh=DIR zh-en=DIR" + more,
    )
    add(
        "--google_project",
        rare=rare,
        metavar="ID",
        help="project that pays for --engine google (default: GOOGLE_CLOUD_PROJECT)",
    )
    add("--parallel_calls", rare=True, type=int, metavar="N", help=f"{PARALLEL_CALLS} (default: 4)")
    add = parser.group("--engine google", rare=True)
    add("--google_location", metavar="PLACE", help="region (default: global)")
    add("--google_model", metavar="NAME", help="translation model (default: general/nmt)")
    add("--google_endpoint", metavar="HOST:PORT", help="another address; http://... without encryption")
    add = parser.group("--engine local", rare=True)
    add("--beams", type=int, metavar="N", help="beams of the search (default: 4)")


def check_flags(args: argparse.Namespace) -> None:
    """Raises InputError if a flag belongs to another engine than the selected one."""
    for engine, flags in _FLAGS_OF.items():
        for flag in flags:
            shared = args.engine == CHECKPOINT and flag in ("model", "beams")
            if engine != args.engine and not shared and getattr(args, flag) is not None:
                raise InputError(f"is for --engine {engine}, but this is --engine {args.engine}", f"--{flag}")


def parse_pivots(given: str) -> list[str]:
    """Parses a list such as ``zh,ja`` to language codes without duplicates. Raises InputError for an invalid code."""
    pivots = list(dict.fromkeys(pivot.strip() for pivot in given.split(",") if pivot.strip()))
    for pivot in pivots or [""]:
        if not pivot.isascii() or not pivot.replace("-", "").isalnum() or pivot == "en":
            raise InputError(f"{pivot!r} is not a language code such as zh, ja or ko", "--pivots")
    return pivots


def read_memories(args: argparse.Namespace) -> list[Translation]:
    """Reads the memories of ``--memory``, of an earlier run's output, and of an interrupted run.

    Args:
      args: with ``memory`` and ``output``.

    Raises:
      InputError: a memory cannot be read.
    """
    from parapet.schemas.layout import is_there
    from parapet.transforms.storage.files import join
    from parapet.transforms.translation.memory import MEMORY_FILE, merge, read_memory
    from parapet.transforms.translation.translate import read_parts

    memories = list(args.memory)
    before = join(args.output, MEMORY_FILE)
    if is_there(before):
        memories.append(before)
    return merge(*(read_memory(path) for path in memories), read_parts(join(args.output, PAID)))


def open_engine(args: argparse.Namespace, pivots: Sequence[str]) -> Engine | None:
    """Opens the engine that the flags name, so that wrong keys and addresses are reported before any worker starts.

    Args:
      args: with the flags of :func:`add_flags`, ``engine``, and ``dry_run``, with which nothing is opened.
      pivots: the languages.

    Returns:
      The engine; None for ``memory``.

    Raises:
      InputError: the flags do not fit the engine, or it cannot be opened.
    """
    chosen = plugin_of(args)
    if chosen is None:
        return None
    from parapet.transforms.translation.memory import Engine as Protocol

    if args.parallel_calls is not None and not hasattr(plugins.load(chosen), "from_options"):
        raise InputError(f"cannot be set for --engine {args.engine}, which decides it itself", "--parallel_calls")
    options = {flag: getattr(args, flag) for flag in FLAGS if getattr(args, flag) is not None}
    engine: Engine = plugins.make(chosen, plugins.members(Protocol), options={**options, "pivots": pivots})
    if not args.dry_run:
        engine.open()
        engine.close()
    return engine


def plugin_of(args: argparse.Namespace) -> plugins.Chosen | None:
    """Looks up the engine of ``--engine``; None for ``memory``."""
    return None if args.engine == MEMORY else plugins.choose(plugins.TRANSLATION_ENGINES, args.engine, "--engine")


def bill(engine: str, dollars_per_million: float, counters: Mapping[str, int]) -> str:
    """Formats the numbers of characters and requests sent to an engine, and their cost, from the run's counters."""
    characters, requests = counters.get("codepoints", 0), counters.get("requests", 0)
    dollars = characters * dollars_per_million / 1e6
    return f"sent to {engine}: {counted(characters, 'character')} in {counted(requests, 'request')}, ${dollars:,.2f}"


EXAMPLE = """\
  parapet back_translate --output translated       # the sample, through Portuguese
  parapet back_translate --schemas my_corpus --engine google --google_project my-project --output translated --dry_run
  parapet back_translate --schemas my_corpus --engine local --model en-zh=opus-mt-en-zh zh-en=opus-mt-zh-en \\
      --pivots zh --output translated"""


class Config(msgspec.Struct, frozen=True):
    """The settings of a back-translation.

    Attributes:
      output: the folder to write.
      corpus: the schemas, and the pivots.
      texts: the distinct texts to translate.
      memory: all earlier translations; ``known`` has those by this engine.
      engine: its name; ``translator`` is None if only memories are used.
      plugin: the entry of ``run.json`` on the engine's plug-in.
      max_bad: the share of each pivot's texts that may stay English.
      dry_run: whether only the plan is printed.
    """

    output: str
    corpus: Corpus
    texts: list[str]
    memory: list[Translation]
    known: Known
    engine: str
    translator: Engine | None
    plugin: Mapping[str, object]
    max_bad: Fraction
    dry_run: bool


def parser() -> Parser:
    """Builds the command line."""
    description = (
        "Makes one schema variant per pivot language, by translation there and back: OUT/zh/train/schema.json and so "
        "on. Every translation is kept in OUT/memory.parquet: a text is paid for once."
    )
    parser = Parser("back_translate", description, EXAMPLE)
    add_schemas(parser)
    add = parser.group("translation")
    add("--pivots", metavar="LIST", help="pivot languages (default: pt with --engine embedded, else zh,ja,ko)")
    add("--engine", choices=ENGINES, help=f"{ENGINE} (default: memory with --memory, else embedded)")
    add_flags(parser)
    add_max_bad(parser, "texts of a pivot")
    add_dry_run(parser)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report)


def check(args: argparse.Namespace) -> Config:
    """Reads schemas and memories, and opens the engine once. Raises InputError if one of them cannot be used."""
    from parapet.transforms.translation.memory import by_languages
    from parapet.transforms.translation.translate import Known
    from parapet.transforms.variants.back_translation import texts_of

    args.engine = args.engine or (MEMORY if args.memory else EMBEDDED)
    check_flags(args)
    pivots = ("pt" if args.engine == EMBEDDED else "zh,ja,ko") if args.pivots is None else args.pivots
    corpus = _corpus(args.schemas or sample_root(), parse_pivots(pivots))
    memory = read_memories(args)
    translator = open_engine(args, corpus.pivots)
    engine = (translator.provider, translator.model) if translator else ("", "")
    config = Config(
        output=args.output,
        corpus=corpus,
        texts=texts_of(corpus.services()),
        memory=memory,
        known=Known(by_languages(memory, *engine)),
        engine=args.engine,
        translator=translator,
        plugin=plugins.recorded(plugin_of(args)),
        max_bad=args.max_bad,
        dry_run=args.dry_run,
    )
    if translator is None and not args.dry_run:
        _check_replay(config)
    return config


def _corpus(schemas: str | Path, pivots: list[str]) -> Corpus:
    from parapet.schemas.layout import raw_by_name, services_by_name, splits_of
    from parapet.transforms.reports.text import conventions_of
    from parapet.transforms.variants.back_translation import Corpus

    splits = read_good(schemas)
    conventions = conventions_of(services_by_name(splits).values())
    return Corpus(splits_of(splits), raw_by_name(splits), pivots, conventions, splits[0].tools)


def _check_replay(config: Config) -> None:
    """Raises InputError if the memories lack more texts than ``--max_bad`` allows."""
    from parapet.transforms.translation.translate import replay
    from parapet.transforms.variants.back_translation import check_untranslated, legs_of

    translations, missing = replay(config.texts, config.corpus.pivots, config.known)
    legs = legs_of(config.corpus.pivots, translations)
    try:
        check_untranslated(config.texts, legs, sorted(missing), config.max_bad, "translated")
    except InputError as error:
        hint = (
            "the engine 'memory' only replays translations: add a --memory that contains them, or choose "
            "another --engine"
        )
        raise InputError(f"{hint}; {error.reason}", "--memory") from None


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Wires the pipeline: translates the texts to each pivot and back, and writes variants, memory and a page."""
    import apache_beam as beam

    from parapet.transforms.storage.files import Publish, WriteFiles, join, prepare
    from parapet.transforms.translation.translate import BackTranslate, replay
    from parapet.transforms.variants.back_translation import make_files

    prepare(config.output, "back_translate")
    pivots = config.corpus.pivots
    if config.translator is None:
        known, missing = replay(config.texts, pivots, config.known)
        translations = pipeline | "Translations" >> beam.Create(known)
        untranslated = pipeline | "Untranslated" >> beam.Create(missing)
    else:
        translations, untranslated = (
            pipeline
            | "Texts" >> beam.Create([(pivot, text) for pivot in pivots for text in config.texts])
            | "Back-translate" >> BackTranslate(config.known, config.translator, join(config.output, PAID))
        )
    _ = (
        pipeline
        | "Corpus" >> beam.Create([config.corpus], reshuffle=False)
        | "Make files"
        >> beam.FlatMap(
            make_files,
            translations=beam.pvalue.AsList(translations),
            memory=config.memory,
            untranslated=beam.pvalue.AsList(untranslated),
            max_bad=config.max_bad,
        )
        | "Write" >> WriteFiles(config.output)
        | "Publish" >> Publish(config.output, _header(config))
    )


def _header(config: Config) -> dict[str, Any]:
    engine = config.translator
    options = {
        "pivots": config.corpus.pivots,
        "provider": engine.provider if engine else "memory",
        "model": engine.model if engine else "",
        "max_bad": float(config.max_bad),
    }
    return {**run_header("back_translate", options), **config.plugin}


def report(config: Config, counters: dict[str, int]) -> None:
    """Prints the measures and the bill; for a dry run, what would be sent."""
    if config.dry_run:
        _print_plan(config)
        return
    from parapet.transforms.storage.files import clear, join, read_written

    clear(join(config.output, PAID))  # the published memory contains everything
    statistics = json.loads(read_written(config.output, "statistics.json"))
    lines = (read_written(config.output, "dead_letters.jsonl")).count(b"\n")
    if lines:
        logging.warning("%s left in English, see %s/dead_letters.jsonl", counted(lines, "text"), config.output)
    say(text_table(statistics))
    if config.translator is not None:
        say(bill(config.engine, config.translator.dollars_per_million, counters))
    say(f"report: {join(config.output, 'report.html')}")


def text_table(statistics: dict[str, Any]) -> str:
    """Formats the measures as text, one line per pivot."""
    from parapet.transforms.variants.table1 import measure_lines

    rows = {
        pivot: {
            **numbers,
            "kept": sum(sum(numbers[f"{field}_fallbacks"].values()) for field in ("name", "description")),
        }
        for pivot, numbers in statistics["pivots"].items()
    }
    columns = {
        "name distance": ("name_distance", ".3f"),
        "BLEU": ("description_bleu", ".1f"),
        "names identical": ("names_identical", ".1%"),
        "kept": ("kept", ""),
    }
    self_bleu = statistics["self_bleu"]
    return "\n".join([*measure_lines(rows, columns), f"self-BLEU {'-' if self_bleu is None else f'{self_bleu:.1f}'}"])


def _print_plan(config: Config) -> None:
    """Prints what would be sent: exact for the way into each pivot, estimated for the unknown part of the way back."""
    from parapet.transforms.translation.memory import missing

    known, texts = config.known, config.texts
    print(f"{counted(len(texts), 'text')}, {counted(sum(map(len, texts)), 'character')} in English")
    total = 0
    for pivot in config.corpus.pivots:
        into = known.of("en", pivot)
        missing_texts = missing(texts, into)
        back = missing((into[text] for text in texts if text in into), known.of(pivot, "en"))
        # The translations do not exist yet, so their length is estimated: it rarely exceeds that of the English text.
        characters = 2 * sum(map(len, missing_texts)) + sum(map(len, back))
        total += characters
        print(
            f"{pivot}: {counted(len(missing_texts) * 2 + len(back), 'text')} to translate, "
            f"about {characters:,} characters"
        )
    dollars = total * (config.translator.dollars_per_million if config.translator else 0) / 1e6
    print(f"about {total:,} characters, ${dollars:,.2f}; dry run: nothing was sent or written")
