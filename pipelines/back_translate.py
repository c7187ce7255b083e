"""``parapet back_translate``: schemas through other languages and back, one variant per pivot."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines import translating
from parapet.pipelines.command import Parser, add_max_bad, check_apart, counted, read_good, run_command, run_header
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root
from parapet.transforms import plugins

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.back_translate.legs import Known
    from parapet.transforms.back_translate.making import Corpus

EXAMPLE = """\
  parapet back_translate --output my_back_translations              # the sample, from the memory that comes with it
  parapet back_translate --schemas my_corpus --engine google --google_project my-project \\
      --output my_back_translations --dry_run
  parapet back_translate --schemas my_corpus --engine local --model en-zh=opus-mt-en-zh zh-en=opus-mt-zh-en \\
      --pivots zh --output my_back_translations"""


def parser() -> Parser:
    """The flags."""
    what = (
        "Schemas -> one variant per pivot language (OUT/zh/train/schema.json), translated there and back.\n"
        "Every translation goes into OUT/memory.parquet: a text is paid for once."
    )
    made = Parser("back_translate", what, EXAMPLE)
    add = made.add_argument
    add("--schemas", metavar="ROOT", help="corpus or schema file (default: the bundled sample)")
    add("--pivots", metavar="LIST", default="zh,ja,ko", help="comma-separated languages (default zh,ja,ko)")
    add(
        "--engine",
        choices=translating.ENGINES,
        default="memory",
        metavar="ENGINE",
        help="who translates: %(choices)s (default memory: nobody, only a replay)",
    )
    add_max_bad(made, "texts of a pivot, staying English,")
    add("--dry_run", action="store_true", help="print what would be asked and what it costs, ask and write nothing")
    local = translating.add_flags(made)
    local.add_argument("--seed", metavar="TEXT", help="of the draw (default 0)")
    return made


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report)


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads schemas and memories, and opens the engine once. Raises InputError where it cannot work."""
    from parapet.transforms.back_translate.composing import texts_of
    from parapet.transforms.back_translate.legs import Known
    from parapet.transforms.translation import memory

    translating.check_flags(args)
    if args.engine != "local" and args.seed is not None:
        raise InputError(f"is for --engine local, and this is {args.engine}", "--seed")
    check_apart(args.output, schemas=args.schemas)
    args.corpus = corpus = _corpus(args)
    args.texts = texts_of([_typed(raw) for raw in corpus.raw.values()])
    args.rows = translating.read_memories(args, args.schemas)
    args.translator = translator = translating.open_engine(args, corpus.pivots, args.seed)
    of = (translator.provider, translator.model) if translator else ("", "")
    args.known = Known(memory.by_languages(args.rows, *of))
    if translator is None:
        _check_replay(args)
    return args


def _typed(raw: dict[str, Any]) -> Any:
    from parapet.schemas.service import parse_service

    return parse_service(raw)


def _corpus(args: argparse.Namespace) -> Corpus:
    from parapet.schemas.layout import raw_by_name, services_by_name, splits_of
    from parapet.transforms.back_translate.making import Corpus
    from parapet.transforms.naming import conventions_of

    pivots = translating.parse_pivots(args.pivots)
    splits = read_good(args.schemas or sample_root())
    conventions = conventions_of(services_by_name(splits).values())
    return Corpus(splits_of(splits), raw_by_name(splits), pivots, conventions)


def _check_replay(args: argparse.Namespace) -> None:
    from parapet.transforms.back_translate.legs import replay
    from parapet.transforms.back_translate.making import check_untranslated, legs_of

    found, lacking = replay(args.texts, args.corpus.pivots, args.known)
    if not args.dry_run:
        legs = legs_of(args.corpus.pivots, found)
        try:
            check_untranslated(args.texts, legs, sorted(lacking), args.max_bad, "translated")
        except InputError as error:
            hint = "the engine 'memory' only replays: add a --memory that has them, or choose another --engine"
            raise InputError(f"{hint}; {error.reason}", "--memory") from None


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Texts -> pivot texts -> texts again -> everything that is written."""
    import apache_beam as beam

    from parapet.transforms.back_translate.legs import BackTranslate, replay
    from parapet.transforms.back_translate.making import make_files
    from parapet.transforms.files import Publish, WriteFiles, join, prepare

    prepare(args.output, "back_translate")
    if args.translator is None:
        found, lacking = replay(args.texts, args.corpus.pivots, args.known)
        translations = pipeline | "Translations" >> beam.Create(found)
        dead = pipeline | "Untranslated" >> beam.Create(lacking)
    else:
        asked = [(pivot, text) for pivot in args.corpus.pivots for text in args.texts]
        translations, dead = (
            pipeline
            | "Texts" >> beam.Create(asked)
            | "Back-translate" >> BackTranslate(args.known, args.translator, join(args.output, translating.PAID))
        )
    written = (
        pipeline
        | "Corpus" >> beam.Create([args.corpus], reshuffle=False)
        | "Make files"
        >> beam.FlatMap(
            make_files,
            translations=beam.pvalue.AsList(translations),
            memory=args.rows,
            untranslated=beam.pvalue.AsList(dead),
            max_bad=args.max_bad,
        )
        | "Write" >> WriteFiles(args.output)
    )
    written | "Publish" >> Publish(args.output, _header(args))


def _header(args: argparse.Namespace) -> dict[str, Any]:
    engine = args.translator
    options = {
        "pivots": args.corpus.pivots,
        "provider": engine.provider if engine else "memory",
        "model": engine.model if engine else "",
        "max_bad": float(args.max_bad),
    }
    return {**run_header("back_translate", options), **plugins.recorded(translating.plugin_of(args))}


def report(args: argparse.Namespace, counters: dict[str, int]) -> None:
    """Prints what was translated and paid for, and the numbers."""
    if args.dry_run:
        _say_plan(args)
        return
    from parapet.transforms.files import clear, join, read_written

    clear(join(args.output, translating.PAID))  # the memory that was published has it all
    statistics = json.loads(read_written(args.output, "statistics.json"))
    lines = (read_written(args.output, "dead_letters.jsonl")).count(b"\n")
    if lines:
        logging.warning("left in English: %s, see %s/dead_letters.jsonl", counted(lines, "text"), args.output)
    if args.quiet:
        return
    sys.stdout.write(text_table(statistics))
    if args.translator is not None:
        print(translating.bill(args.engine, args.translator.dollars_per_million, counters))
    print(f"report: {join(args.output, 'report.html')}")


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
    return "\n".join([*lines, f"self-BLEU {_number(statistics['self_bleu'], '.1f')}"]) + "\n"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _say_plan(args: argparse.Namespace) -> None:
    """What would be asked: the way there exactly, the way back as far as it is known."""
    from parapet.transforms.translation.memory import missing

    known: Known = args.known
    print(f"{counted(len(args.texts), 'text')}, {counted(sum(map(len, args.texts)), 'character')}, in English")
    total = 0
    for pivot in args.corpus.pivots:
        there = missing(args.texts, known.of("en", pivot))
        back = missing(
            (known.of("en", pivot)[text] for text in args.texts if text in known.of("en", pivot)), known.of(pivot, "en")
        )
        # What comes back is not known yet; a text of another language is rarely longer than the English one.
        characters = 2 * sum(map(len, there)) + sum(map(len, back))
        total += characters
        print(f"{pivot}: {counted(len(there) * 2 + len(back), 'text')} to ask for, about {characters:,} characters")
    dollars = total * (args.translator.dollars_per_million if args.translator else 0) / 1e6
    print(f"about {total:,} characters, ${dollars:,.2f}; nothing was asked or written")


if __name__ == "__main__":
    sys.exit(run())
