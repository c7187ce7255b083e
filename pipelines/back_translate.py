"""``parapet back_translate``: schemas through other languages and back, one variant per pivot."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipelines.command import Parser, check_apart, counted, read_good, run_command
from schemas.errors import InputError
from schemas.layout import sample_root

if TYPE_CHECKING:
    import apache_beam as beam

    from transforms.back_translate.legs import Known
    from transforms.back_translate.making import Corpus
    from transforms.translation.engine import Engine

EXAMPLE = """\
  parapet back_translate --output my_back_translations              # the sample, from the memory that comes with it
  parapet back_translate --schemas my_corpus --engine google --google_project my-project \\
      --output my_back_translations --dry_run
  parapet back_translate --schemas my_corpus --engine local --model en-zh=opus-mt-en-zh zh-en=opus-mt-zh-en \\
      --pivots zh --output my_back_translations"""

PAID = ".paid"  # below the output: every answer as it came, until the memory that is published has it
ENGINES = ("memory", "google", "libretranslate", "local")

# The flags that only one of the engines has a use for.
_FLAGS_OF = {
    "google": ("google_project", "google_location", "google_model", "google_glossary", "google_endpoint"),
    "libretranslate": ("libretranslate_url",),
    "local": ("model", "beams", "sample", "temperature", "seed"),
}


def parser() -> Parser:
    """The flags."""
    what = (
        "Schemas -> one variant per pivot language (OUT/zh/train/schema.json), translated there and back.\n"
        "Every translation goes into OUT/memory.parquet: a text is paid for once."
    )
    made = Parser("back_translate", what, EXAMPLE)
    add = made.add_argument
    add("--schemas", metavar="ROOT", help="corpus or schema file (default: the bundled sample)")
    add("--pivots", metavar="LIST", default="zh,ja,ko", help="languages, parted by commas (default zh,ja,ko)")
    add("--engine", choices=ENGINES, default="memory", help="who translates (default memory: nobody, only a replay)")
    add(
        "--memory",
        nargs="+",
        default=[],
        metavar="PATH",
        help="translation memories, Parquet or CSV, or folders of them (OUT/memory.parquet is read in any case)",
    )
    add("--parallel_calls", type=int, metavar="N", help="requests under way at a time, up to 32 (default 4)")
    add("--leave_out", action="store_true", help="go on without texts that have no translation: they stay English")
    add("--dry_run", action="store_true", help="print what would be asked and what it costs, ask and write nothing")
    google = made.add_argument_group("google: Cloud Translation, with the extra 'google'")
    google.add_argument("--google_project", metavar="ID", help="project that pays (default: GOOGLE_CLOUD_PROJECT)")
    google.add_argument("--google_location", metavar="PLACE", help="region (default global)")
    google.add_argument("--google_model", metavar="NAME", help="model (default general/nmt)")
    google.add_argument("--google_glossary", metavar="NAME", help="glossary of that project and region")
    google.add_argument("--google_endpoint", metavar="HOST:PORT", help="another address; http://... without encryption")
    libre = made.add_argument_group("libretranslate: a server of your own; LIBRETRANSLATE_API_KEY where it wants one")
    libre.add_argument("--libretranslate_url", metavar="URL", help="its address, such as http://127.0.0.1:5000")
    local = made.add_argument_group("local: a model in a folder, with the extra 'local'")
    local.add_argument(
        "--model",
        nargs="+",
        metavar="[PAIR=]DIR",
        help="Marian, M2M100 or NLLB, also converted for CTranslate2: en-zh=DIR zh-en=DIR, or DIR for all pairs",
    )
    local.add_argument("--beams", type=int, metavar="N", help="of the search (default 4)")
    local.add_argument("--sample", action="store_true", default=None, help="draw words instead, for diversity")
    local.add_argument("--temperature", type=float, metavar="X", help="of the draw (default 1)")
    local.add_argument("--seed", metavar="TEXT", help="of the draw (default 0)")
    return made


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, build, check, report)


def check(args: argparse.Namespace) -> None:
    """Reads schemas and memories, and opens the engine once. Raises InputError where it cannot work."""
    from transforms.back_translate.legs import Known
    from transforms.back_translate.texts import texts_of
    from transforms.translation import memory

    for engine, flags in _FLAGS_OF.items():
        for flag in flags:
            if engine != args.engine and getattr(args, flag) is not None:
                raise InputError(f"is for --engine {engine}, and this is {args.engine}", f"--{flag}")
    check_apart(args.output, schemas=args.schemas)
    args.corpus = corpus = _corpus(args)
    args.texts = texts_of([_typed(raw) for raw in corpus.raw.values()])
    args.rows = _memory(args)
    args.translator = translator = None if args.engine == "memory" else make_engine(args)
    of = (translator.provider, translator.model) if translator else ("", "")
    args.known = Known(memory.by_languages(args.rows, *of))
    if translator is None:
        _check_replay(args)
    elif not args.dry_run:
        # Wrong keys and addresses are told before a worker starts.
        translator.open()
        translator.close()


def _typed(raw: dict[str, Any]) -> Any:
    from schemas.service import parse_service

    return parse_service(raw)


def _corpus(args: argparse.Namespace) -> Corpus:
    from schemas.layout import raw_by_name, services_by_name, splits_of
    from transforms.back_translate.making import Corpus
    from transforms.naming import conventions_of

    pivots = list(dict.fromkeys(pivot.strip() for pivot in args.pivots.split(",") if pivot.strip()))
    for pivot in pivots or [""]:
        if not pivot.isascii() or not pivot.replace("-", "").isalnum() or pivot == "en":
            raise InputError(f"{pivot!r} is no pivot: give codes of languages, such as zh,ja,ko", "--pivots")
    splits = read_good(args.schemas or sample_root())
    conventions = conventions_of(services_by_name(splits).values())
    return Corpus(splits_of(splits), raw_by_name(splits), pivots, conventions)


def _memory(args: argparse.Namespace) -> list[Any]:
    """What is given, what an earlier run published, what one that was cut off has paid for."""
    from schemas.layout import is_there
    from transforms.back_translate.making import MEMORY_FILE
    from transforms.files import join
    from transforms.translation.memory import merge, read_memory
    from transforms.translation.translate import read_parts

    given = list(args.memory)
    if not given and not args.schemas and args.engine == "memory":
        given = [str(sample_root() / "translations.csv")]
    before = join(args.output, MEMORY_FILE)
    if is_there(before):
        given.append(before)
    return merge(*(read_memory(path) for path in given), read_parts(join(args.output, PAID)))


def _check_replay(args: argparse.Namespace) -> None:
    from transforms.back_translate.legs import replay
    from transforms.back_translate.making import why_not

    _, lacking = replay(args.texts, args.corpus.pivots, args.known)
    if lacking and not args.leave_out and not args.dry_run:
        hint = "the engine 'memory' only replays: add a --memory that has them, or choose another --engine"
        raise InputError(f"{hint}; {why_not(sorted(lacking))}", "--memory")


def make_engine(args: argparse.Namespace) -> Engine:
    """The engine that the flags name. Raises InputError where it cannot be."""
    given = {flag: getattr(args, flag) for flag in _FLAGS_OF[args.engine] if getattr(args, flag) is not None}
    calls = 4 if args.parallel_calls is None else args.parallel_calls
    if not 1 <= calls <= 32:
        raise InputError(f"{calls}: give 1 to 32", "--parallel_calls")
    if args.engine == "google":
        from transforms.translation.google import Google

        project = given.pop("google_project", None) or os.environ.get("GOOGLE_CLOUD_PROJECT")
        if not project:
            raise InputError("say which project pays, or set GOOGLE_CLOUD_PROJECT", "--google_project")
        return Google(project, parallel=calls, **{flag.removeprefix("google_"): value for flag, value in given.items()})
    if args.engine == "libretranslate":
        from transforms.translation.libretranslate import LibreTranslate

        if "libretranslate_url" not in given:
            raise InputError("say where the server is", "--libretranslate_url")
        return LibreTranslate(given["libretranslate_url"], parallel=calls)
    from transforms.translation.local import Local

    if "model" not in given:
        raise InputError("name the folder of a model, or of one for each direction", "--model")
    pairs = {pair or "*": folder for pair, _, folder in (one.rpartition("=") for one in given.pop("model"))}
    legs = [f"{one}-{other}" for pivot in args.corpus.pivots for one, other in (("en", pivot), (pivot, "en"))]
    if "*" not in pairs and (lacking := [leg for leg in legs if leg not in pairs]):
        raise InputError(f"there is none for {', '.join(lacking)}: name its folder, as {lacking[0]}=DIR", "--model")
    return Local(pairs, **given)


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Texts -> pivot texts -> texts again -> everything that is written."""
    import apache_beam as beam

    from transforms.back_translate.legs import BackTranslate, replay
    from transforms.back_translate.making import make_files
    from transforms.files import Publish, WriteFiles, join, prepare

    prepare(args.output, "back_translate")
    if args.translator is None:
        found, lacking = replay(args.texts, args.corpus.pivots, args.known)
        translations = pipeline | "Translations" >> beam.Create(found)
        dead = pipeline | "Untranslated" >> beam.Create(lacking)
    else:
        paid = join(args.output, PAID)
        translations, dead = pipeline | "Back-translate" >> BackTranslate(
            args.texts, args.corpus.pivots, args.known, args.translator, paid
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
            leave_out=args.leave_out,
        )
        | "Write" >> WriteFiles(args.output)
    )
    written | "Publish" >> Publish(args.output, _header(args))


def _header(args: argparse.Namespace) -> dict[str, Any]:
    from importlib.metadata import version

    engine = args.translator
    options = {
        "pivots": args.corpus.pivots,
        "provider": engine.provider if engine else "memory",
        "model": engine.model if engine else "",
        "leave_out": args.leave_out,
    }
    return {"pipeline": "back_translate", "version": version("parapet"), "options": options}


def report(args: argparse.Namespace, counters: dict[str, int]) -> None:
    """Says what there was to pay, and what came of it."""
    if args.dry_run:
        _say_plan(args)
        return
    from transforms.files import clear, join, read_written

    clear(join(args.output, PAID))  # the memory that was published has it all
    statistics = json.loads(read_written(args.output, "statistics.json"))
    lines = (read_written(args.output, "dead_letters.jsonl")).count(b"\n")
    if lines:
        logging.warning("left in English: %s, see %s/dead_letters.jsonl", counted(lines, "text"), args.output)
    if args.quiet:
        return
    sys.stdout.write(text_table(statistics))
    if args.translator is not None:
        sent, requests = counters.get("codepoints", 0), counters.get("requests", 0)
        dollars = sent * args.translator.dollars_per_million / 1e6
        print(f"asked {args.engine}: {counted(sent, 'character')} in {counted(requests, 'request')}, ${dollars:,.2f}")
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
    from transforms.translation.memory import missing

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
