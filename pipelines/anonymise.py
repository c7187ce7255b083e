"""``parapet anonymise``: replaces names, numbers and addresses in chats by placeholders."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.command import counted, run_command, say, warn_dead_letters
from parapet.pipelines.flags import INPUT, OUTPUT, Parser, add_max_bad, add_seed
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.anonymise.writing import Config

EXAMPLE = """\
  parapet anonymise --output anonymous                   # the sample's chats
  parapet anonymise --chats march.csv april.csv --bots concierge,ella --phone_regions GB,IE --output anonymous
  parapet anonymise --chats chats.jsonl --spacy_model en_core_web_lg --entities names.txt --output anonymous"""


def parser() -> Parser:
    """Builds the command line."""
    description = (
        "Replaces names, places, numbers and addresses in chats by placeholders such as <PERSON_1> and <PHONE_1>, the "
        "same throughout a chat. Writes OUT/chats/00001.jsonl and, in the format of dialog bAbI, OUT/babi/00001.txt. "
        "OUT/suspects lists what may have been missed."
    )
    parser = Parser("anonymise", description, EXAMPLE)
    add = parser.group(INPUT)
    add(
        "--chats",
        nargs="+",
        metavar="FILE",
        reads=True,
        help="JSON lines (turns of speaker and text) or CSV (chat_id, speaker, text); default: those of the sample",
    )
    add("--bots", metavar="LIST", default="", help="further names of speakers that are bots, besides agent and bot")
    add = parser.group("what is replaced")
    add("--entities", metavar="FILE", reads=True, help="more to replace, one per line: TEXT or KIND<TAB>TEXT")
    add("--keep", metavar="LIST", default="", help="kinds to leave as they are, such as TIME,DATE")
    add("--spacy_model", metavar="NAME", help="spaCy model that finds names (default: rules)")
    add("--phone_regions", metavar="LIST", default="US,GB", help="countries of phone numbers without a country code")
    add(
        "--placeholders",
        choices=("numbered", "paper"),
        default="numbered",
        help="<PERSON_1>, or <person> as in the paper, with all numbers and days",
    )
    add = parser.group(OUTPUT)
    text = "also write a set, OUT/concierge: shares of train,dev,test such as 0.8,0.1,0.1"
    add("--splits", metavar="LIST", help=text)
    add_max_bad(parser, "chats")
    add_seed(parser, "--splits")
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


def inputs(config: Config) -> list[tuple[str, str]]:
    """Lists the files that workers read: the chats."""
    return [("--chats", file.path) for file in config.files]


def check(args: argparse.Namespace) -> Config:
    """Reads the flags, the lists and the first bytes of the chats. Raises InputError if one of them cannot be used."""
    from parapet.transforms.anonymise import chats, mentions
    from parapet.transforms.anonymise.mentions import KINDS, check_regions
    from parapet.transforms.anonymise.replacing import Rules
    from parapet.transforms.anonymise.writing import Config, parse_splits
    from parapet.transforms.perturbation.corpora import listed

    files = chats.list_chats(args.chats or [str(sample_root() / "chats.jsonl")])
    entities = mentions.read_entities(args.entities) if args.entities else []
    regions = tuple(listed(args.phone_regions.upper()))
    check_regions(regions)
    kept = listed(args.keep.upper())
    for kind in kept:
        if kind not in KINDS:
            raise InputError(f"there is no kind {kind!r}: must be one of {', '.join(KINDS)}", "--keep")
    if args.spacy_model:
        mentions.check_model(args.spacy_model)
    return Config(
        output=args.output,
        files=tuple(files),
        rules=Rules(tuple(entities), args.spacy_model, regions, frozenset(kept), args.placeholders == "paper"),
        bots=frozenset(part.strip().lower() for part in args.bots.split(",") if part.strip()),
        splits=None if args.splits is None else parse_splits(args.splits, args.seed),
        max_bad=args.max_bad,
    )


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Wires the pipeline: replaces names in the chats, and writes chats, suspects, statistics and a page."""
    from functools import partial

    import apache_beam as beam

    from parapet.transforms.anonymise import writing
    from parapet.transforms.running.runs import FinishRun, RunInfo, WriteEach
    from parapet.transforms.storage import files

    info = RunInfo("anonymise", config.output, config.options(), config.max_bad, "anonymised")
    files.prepare(config.output, info.pipeline)
    chats = pipeline | "Files of chats" >> beam.Create(config.files)
    names = (
        chats
        | "Spread" >> beam.Reshuffle()
        | "Names" >> beam.FlatMap(writing.names_of_file, config)
        | "Different names" >> beam.Distinct()
    )
    write = WriteEach(
        partial(writing.write_file, config=config),
        beam.pvalue.AsList(names),
        others=(writing.SET,) if config.splits else (),
        progress=("chats", "turns"),
    )
    outputs = chats | "Spread chats" >> beam.Reshuffle() | "Chats" >> write
    if config.splits:
        write_set = WriteEach(partial(writing.write_set, output=config.output, config=config.splits), shown=0)
        of_set = outputs.others[writing.SET] | "Gather set" >> beam.combiners.ToList() | "Set" >> write_set
        outputs = outputs.with_more("Set", written=of_set.written, counts=of_set.counts)
    _ = outputs | "Finish" >> FinishRun(
        info,
        partial(writing.metadata_files, config=config),
        tallies=writing.tallies,
        invariants=config.invariants(),
    )


def report(config: Config, _: dict[str, int]) -> None:
    """Prints the numbers of replacements and suspects, and never quotes a chat."""
    from parapet.transforms.anonymise.writing import tallies
    from parapet.transforms.storage.files import read_written

    statistics = json.loads(read_written(config.output, "statistics.json"))
    replaced = ", ".join(f"{numbers['mentions']:,} {kind}" for kind, numbers in statistics["replaced"].items())
    chats, turns = counted(statistics["written"], "chat"), counted(statistics["turns"], "turn")
    say(f"{chats}, {turns}: {replaced or 'nothing to replace'}")
    if "set" in statistics:
        numbers = statistics["set"]
        chats = ", ".join(f"{n:,} {name}" for name, n in numbers["dialogues"].items())
        say(f"{config.output}/concierge: {chats}; {numbers['candidates']:,} candidates")
    suspects = {kind: n for kind, n in statistics["suspects"].items() if n}
    if suspects:
        kinds = ", ".join(f"{n:,} {kind}" for kind, n in suspects.items())
        chats = counted(statistics["chats_with_suspects"], "chat")
        logging.warning("%s may have been missed in %s; see %s/suspects", kinds, chats, config.output)
    warn_dead_letters(config.output, tallies)
