"""``parapet anonymise``: real chats without who is in them."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import Parser, add_max_bad, check_apart, counted, run_command, run_header, warn_left_out
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root

if TYPE_CHECKING:
    import apache_beam as beam

EXAMPLE = """\
  parapet anonymise --chats chats.jsonl --output anonymous
  parapet anonymise --chats march.csv april.csv --bots concierge,ella --phone_regions GB,IE --output anonymous
  parapet anonymise --chats chats.jsonl --spacy_model en_core_web_lg --entities names.txt --strict --output anonymous"""


def parser() -> Parser:
    """The flags."""
    what = (
        "Chats -> the same chats with names, places, numbers and addresses replaced by <PERSON_1>, <PHONE_1> and so\n"
        "on, the same thing by the same throughout a chat: OUT/chats/00001.jsonl and, in the format of dialog bAbI,\n"
        "OUT/babi/00001.txt; what a second look suspects in OUT/suspects."
    )
    made = Parser("anonymise", what, EXAMPLE)
    add = made.add_argument
    add(
        "--chats",
        nargs="+",
        metavar="FILE",
        help='JSON lines ({"chat_id", "turns": [{"speaker", "text"}]}), CSV (chat_id, speaker, text), or dialog bAbI '
        "(default: the sample's)",
    )
    add(
        "--bots", metavar="LIST", default="", help="speakers that are bots, besides agent, assistant, bot, operator ..."
    )
    add("--entities", metavar="FILE", help="what else to replace, one a line: TEXT or KIND<TAB>TEXT")
    add("--spacy_model", metavar="NAME", help="trained model that finds names (default: the words around them do)")
    add(
        "--phone_regions",
        metavar="LIST",
        default="US,GB",
        help="where phone numbers without a country code are from (default US,GB)",
    )
    add("--keep", metavar="LIST", default="", help="kinds that are not replaced, such as TIME,DATE")
    add("--bot_text", choices=("normalised", "kept"), default="normalised", help="bots in lower case (default) or not")
    add("--keep_ids", action="store_true", help="chats keep their ids (default: they are numbered)")
    add("--strict", action="store_true", help="publish nothing where a second look suspects anything")
    add_max_bad(made, "chats")
    return made


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


def inputs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read: the chats."""
    return [("--chats", path) for path in args.chats or [sample_chats()]]


def sample_chats() -> str:
    """The bundled chats."""
    return str(sample_root() / "chats.jsonl")


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads flags and lists, and looks at the chats. Raises InputError where they cannot work."""
    from parapet.transforms.anonymise import chats, entities
    from parapet.transforms.anonymise.mentions import KINDS
    from parapet.transforms.anonymise.numbers import check_regions
    from parapet.transforms.anonymise.replacing import Rules
    from parapet.transforms.anonymise.writing import Task
    from parapet.transforms.corpora import listed

    for path in args.chats or ():
        check_apart(args.output, chats=path)
    args.files = chats.list_chats(args.chats or [sample_chats()])
    listed_entities = entities.read_entities(args.entities) if args.entities else []
    regions = tuple(listed(args.phone_regions.upper()))
    check_regions(regions)
    kept = listed(args.keep.upper())
    for kind in kept:
        if kind not in KINDS:
            raise InputError(f"{kind!r} is no kind: there are {', '.join(KINDS)}", "--keep")
    if args.spacy_model:
        entities.check_model(args.spacy_model)
    rules = Rules(tuple(listed_entities), args.spacy_model, regions, frozenset(kept))
    bots = frozenset(part.strip().lower() for part in args.bots.split(",") if part.strip())
    args.task = Task(args.output, rules, bots, args.bot_text == "normalised", args.keep_ids)
    return args


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The flags that shape the content. None has a word of a chat, or the name of a file."""
    rules = args.task.rules
    return {
        "entities": len(rules.entities),
        "spacy_model": args.spacy_model and args.spacy_model.rstrip("/").rpartition("/")[2],
        "phone_regions": list(rules.regions),
        "keep": sorted(rules.kept),
        "bot_text": args.bot_text,
        "keep_ids": args.keep_ids,
        "strict": args.strict,
        "max_bad": float(args.max_bad),
    }


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Files of chats -> names that are replaced anywhere -> chats, what a second look suspects, numbers and a page."""
    from functools import partial

    import apache_beam as beam

    from parapet.transforms import files
    from parapet.transforms.anonymise import outputs, writing
    from parapet.transforms.anonymise.invariants import check_counts, tallies
    from parapet.transforms.dead_letters import DeadLettersFile

    files.prepare(args.output, "anonymise")
    chats = pipeline | "Files of chats" >> beam.Create(args.files)
    names = chats | "Names" >> writing.Names(args.task)
    written = chats | "Chats" >> writing.WriteChats(args.task, names)
    sums = written[writing.COUNTS] | "Sum" >> beam.CombinePerKey(sum)
    small = (
        pipeline
        | "Once" >> beam.Create([options_of(args)], reshuffle=False)
        | "Metadata files" >> beam.FlatMap(outputs.metadata_files, beam.pvalue.AsList(sums))
    )
    letters = written[writing.DEAD] | "Dead letters" >> DeadLettersFile(
        written[writing.COUNTS], tallies, args.max_bad, "anonymised"
    )
    others = (small, letters) | "Other files" >> beam.Flatten() | "Write" >> files.WriteFiles(args.output)
    balanced = partial(check_counts, files=len(args.files), strict=args.strict)
    (
        (written.written, others)
        | "All files" >> beam.Flatten()
        | "Publish" >> files.Publish(args.output, header(args), written[writing.COUNTS], balanced)
    )


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    return run_header("anonymise", options_of(args))


def report(args: argparse.Namespace, counters: dict[str, int]) -> None:
    """Says what was replaced, and what is suspected; never a word of a chat."""
    from parapet.transforms.anonymise.invariants import tallies
    from parapet.transforms.files import read_written

    numbers = json.loads(read_written(args.output, "statistics.json"))
    if not args.quiet:
        replaced = ", ".join(f"{one['mentions']:,} {kind}" for kind, one in numbers["replaced"].items())
        print(f"{counted(numbers['written'], 'chat')}, {counted(numbers['turns'], 'turn')}: {replaced or 'nothing'}")
    suspects = {kind: n for kind, n in numbers["suspects"].items() if n}
    if suspects:
        said = ", ".join(f"{n:,} {kind}" for kind, n in suspects.items())
        chats = counted(numbers["chats_with_suspects"], "chat")
        logging.warning("a second look suspects %s, in %s; see %s/suspects", said, chats, args.output)
    warn_left_out(args.output, tallies)


if __name__ == "__main__":
    sys.exit(run())
