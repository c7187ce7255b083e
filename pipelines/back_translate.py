"""``parapet back_translate``: schemas through other languages and back, one variant per pivot."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.pipelines import translating
from parapet.pipelines.command import check_apart, counted, read_good, run_command, say
from parapet.pipelines.flags import Parser, add_dry_run, add_max_bad, add_schemas, add_seed
from parapet.schemas.errors import InputError, run_header
from parapet.schemas.layout import sample_root
from parapet.transforms import plugins

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.schemas.rows import Translation
    from parapet.transforms.back_translate.legs import Known
    from parapet.transforms.back_translate.making import Corpus
    from parapet.transforms.translation.engine import Engine

EXAMPLE = """\
  parapet back_translate --output translated       # the sample, from its memory
  parapet back_translate --schemas my_corpus --engine google --google_project my-project --output translated --dry_run
  parapet back_translate --schemas my_corpus --engine local --model en-zh=opus-mt-en-zh zh-en=opus-mt-zh-en \\
      --pivots zh --output translated"""


class Config(msgspec.Struct, frozen=True):
    """A back-translation.

    Attributes:
      output: the folder to write.
      corpus: the schemas, and the pivots.
      texts: all that is to be translated, each once.
      memory: the translations that were given, published or paid for before; ``known`` are those of the engine.
      engine: its name; ``translator`` is None where a memory is replayed.
      plugin: what ``run.json`` says of the engine's plug-in.
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
    """The flags."""
    what = (
        "Makes one schema variant per pivot language, by translation there and back: OUT/zh/train/schema.json and so "
        "on. Every translation is kept in OUT/memory.parquet: a text is paid for once."
    )
    parser = Parser("back_translate", what, EXAMPLE)
    add_schemas(parser)
    add = parser.group("translation")
    add("--pivots", metavar="LIST", default="zh,ja,ko", help="pivot languages, comma-separated")
    add("--engine", choices=translating.ENGINES, default="memory", help=translating.ENGINE)
    translating.add_flags(parser)
    add_max_bad(parser, "texts of a pivot")
    add_dry_run(parser)
    add_seed(parser, "--sample", default=None)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report)


def check(args: argparse.Namespace) -> Config:
    """Reads schemas and memories, and opens the engine once. Raises InputError where it cannot work."""
    from parapet.transforms.back_translate.composing import texts_of
    from parapet.transforms.back_translate.legs import Known
    from parapet.transforms.translation.memory import by_languages

    translating.check_flags(args)
    if args.engine != "local" and args.seed is not None:
        raise InputError(f"is for --engine local, and this is {args.engine}", "--seed")
    check_apart(args.output, schemas=args.schemas)
    corpus = _corpus(args.schemas or sample_root(), translating.parse_pivots(args.pivots))
    memory = translating.read_memories(args, args.schemas)
    translator = translating.open_engine(args, corpus.pivots, args.seed)
    engine = (translator.provider, translator.model) if translator else ("", "")
    config = Config(
        output=args.output,
        corpus=corpus,
        texts=texts_of(corpus.services()),
        memory=memory,
        known=Known(by_languages(memory, *engine)),
        engine=args.engine,
        translator=translator,
        plugin=plugins.recorded(translating.plugin_of(args)),
        max_bad=args.max_bad,
        dry_run=args.dry_run,
    )
    if translator is None and not args.dry_run:
        _check_replay(config)
    return config


def _corpus(schemas: str | Path, pivots: list[str]) -> Corpus:
    from parapet.schemas.layout import raw_by_name, services_by_name, splits_of
    from parapet.transforms.back_translate.making import Corpus
    from parapet.transforms.naming import conventions_of

    splits = read_good(schemas)
    conventions = conventions_of(services_by_name(splits).values())
    return Corpus(splits_of(splits), raw_by_name(splits), pivots, conventions)


def _check_replay(config: Config) -> None:
    """Raises InputError where the memories lack more texts than may be bad."""
    from parapet.transforms.back_translate.legs import replay
    from parapet.transforms.back_translate.making import check_untranslated, legs_of

    translations, missing = replay(config.texts, config.corpus.pivots, config.known)
    legs = legs_of(config.corpus.pivots, translations)
    try:
        check_untranslated(config.texts, legs, sorted(missing), config.max_bad, "translated")
    except InputError as error:
        hint = "the engine 'memory' only replays: add a --memory that has them, or choose another --engine"
        raise InputError(f"{hint}; {error.reason}", "--memory") from None


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Texts -> pivot texts -> texts again -> everything that is written."""
    import apache_beam as beam

    from parapet.transforms.back_translate.legs import BackTranslate, replay
    from parapet.transforms.back_translate.making import make_files
    from parapet.transforms.files import Publish, WriteFiles, join, prepare

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
            | "Back-translate" >> BackTranslate(config.known, config.translator, join(config.output, translating.PAID))
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
    """Prints the measures and the bill; of a dry run, what would be sent."""
    if config.dry_run:
        _print_plan(config)
        return
    from parapet.transforms.files import clear, join, read_written

    clear(join(config.output, translating.PAID))  # the memory that was published has it all
    statistics = json.loads(read_written(config.output, "statistics.json"))
    lines = (read_written(config.output, "dead_letters.jsonl")).count(b"\n")
    if lines:
        logging.warning("left in English: %s, see %s/dead_letters.jsonl", counted(lines, "text"), config.output)
    say(text_table(statistics))
    if config.translator is not None:
        say(translating.bill(config.engine, config.translator.dollars_per_million, counters))
    say(f"report: {join(config.output, 'report.html')}")


def text_table(statistics: dict[str, Any]) -> str:
    """The measures as text, a line each pivot."""
    lines = [f"{'':8}  name distance  BLEU  names identical  kept"]
    for pivot, numbers in statistics["pivots"].items():
        kept = sum(sum(numbers[f"{field}_fallbacks"].values()) for field in ("name", "description"))
        cells = (
            f"{_number(numbers['name_distance'], '.3f'):>13}",
            f"{_number(numbers['description_bleu'], '.1f'):>4}",
            f"{_number(numbers['names_identical'], '.1%'):>15}",
            f"{kept:4}",
        )
        lines.append("  ".join((f"{pivot:8}", *cells)))
    return "\n".join([*lines, f"self-BLEU {_number(statistics['self_bleu'], '.1f')}"])


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _print_plan(config: Config) -> None:
    """What would be sent: exact for the way into each pivot, estimated for the way back where that is not known."""
    from parapet.transforms.translation.memory import missing

    known, texts = config.known, config.texts
    print(f"{counted(len(texts), 'text')}, {counted(sum(map(len, texts)), 'character')}, in English")
    total = 0
    for pivot in config.corpus.pivots:
        into = known.of("en", pivot)
        there = missing(texts, into)
        back = missing((into[text] for text in texts if text in into), known.of(pivot, "en"))
        # What comes back is not known yet; a text of another language is rarely longer than the English one.
        characters = 2 * sum(map(len, there)) + sum(map(len, back))
        total += characters
        print(f"{pivot}: {counted(len(there) * 2 + len(back), 'text')} to send, about {characters:,} characters")
    dollars = total * (config.translator.dollars_per_million if config.translator else 0) / 1e6
    print(f"about {total:,} characters, ${dollars:,.2f}; nothing was sent or written")


if __name__ == "__main__":
    sys.exit(run())
