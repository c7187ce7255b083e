"""``parapet ood``: dialogues with out-of-domain utterances at stated rates."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import (
    Parser,
    add_max_bad,
    add_split,
    check_apart,
    counted,
    run_command,
    run_header,
    warn_left_out,
)
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root
from parapet.transforms import plugins
from parapet.transforms.ood import OWN

if TYPE_CHECKING:
    import apache_beam as beam

EXAMPLE = """\
  parapet ood --output foreign                                               # the sample, its own other domains
  parapet ood --sgd sgd --split train,test --rates 0.1,0.5 --place append --output foreign
  parapet ood --sgd sgd --source kvret_train_public.json --output foreign"""


def parser() -> Parser:
    """The flags."""
    what = (
        "Dialogues + utterances from elsewhere -> the same dialogues with out-of-domain user turns, each followed by\n"
        "a fallback of the system: OUT/ood-10/train/dialogues_001.json, and a row for every user turn in\n"
        "OUT/ood-10/turns."
    )
    made = Parser("ood", what, EXAMPLE)
    add = made.add_argument
    add("--sgd", metavar="ROOT", help="corpus (default: the bundled sample)")
    add_split(made, many=True)
    add(
        "--source",
        metavar="SOURCE",
        default=OWN,
        help="foreign utterances: own (the corpus's user turns, where they are foreign to a dialogue), or a file or "
        "folder of text (a line each), JSON lines (text, utterance), DSTC2 calls, a Stanford key-value or an SGD "
        "corpus; or the name of a plug-in (default own)",
    )
    add("--rates", metavar="LIST", default="0.1,0.2,0.5", help="injected turns per user turn (default 0.1,0.2,0.5)")
    add(
        "--place",
        choices=("append", "between"),
        default="between",
        help="at the end, or breaking in after an answer of the system (default between)",
    )
    add("--seed", default="0", help="of places, utterances and fallbacks: any text (default 0)")
    add_max_bad(made, "dialogues, or rows of the source,")
    return made


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


def inputs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read: the dialogues, and the source."""
    found = [("--sgd", str(args.sgd or sample_root()))]
    return found if args.source == OWN or args.plugin else [*found, ("--source", args.source)]


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads flags, and lists corpus and source. Raises InputError where it cannot work."""
    from parapet.transforms.corpora import read_corpus
    from parapet.transforms.ood.language import schemas_of
    from parapet.transforms.ood.plan import Recipe, parse_rates
    from parapet.transforms.ood.planning import check_places_of
    from parapet.transforms.ood.sources import list_sources, plugin_of

    own = args.source == OWN
    check_apart(args.output, sgd=args.sgd, source=None if own else args.source)
    rates = parse_rates(args.rates)
    root = args.sgd or sample_root()
    asked = list(dict.fromkeys(split.strip() for split in args.split.split(",") if split.strip()))
    if not asked:
        raise InputError("give one or more splits, such as train,test", "--split")
    args.corpus = read_corpus(root, asked)
    splits = tuple(sorted({file.split for file in args.corpus.files}))
    every = read_corpus(root, None)  # whoever says something in another split says it there, too
    args.files = every.files
    for line in every.problems:
        logging.warning("%s", line)
    args.recipe = Recipe(rates, args.place, args.seed, splits, own)
    args.sources = [] if own else list_sources(args.source)
    args.plugin = None if own else plugin_of(args.source)
    args.schemas = None
    if own:
        args.schemas = schemas_of(service for of in every.folders.values() for service in of.services)
    check_places_of(args.corpus.files, args.recipe)
    return args


def about_source(args: argparse.Namespace) -> str:
    """What card and page say of the source."""
    if args.recipe.own:
        return "the corpus's own user turns, of dialogues that share no domain, foreign to those they are in"
    from pathlib import PurePath

    from parapet.transforms.ood.sources import kinds_of

    named = args.plugin.plugin.name if args.plugin else PurePath(args.source).name
    return f"{named} ({', '.join(kinds_of(args.sources))})"


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Corpus and source -> places and foreign utterances -> a plan -> the sets, their rows, numbers, a page."""
    from functools import partial

    import apache_beam as beam

    from parapet.transforms import files
    from parapet.transforms.dead_letters import DeadLettersFile
    from parapet.transforms.ood import outputs, planning, writing
    from parapet.transforms.ood.planning import PlanInjections

    files.prepare(args.output, "ood")
    recipe = args.recipe
    every = pipeline | "All dialogue files" >> beam.Create(args.files)
    planned = every | "Injections" >> PlanInjections(recipe, args.sources, args.schemas)
    dialogues = pipeline | "Dialogue files" >> beam.Create(args.corpus.files)
    written = (dialogues, planned.injections) | "Sets" >> writing.WriteSets(args.output, recipe)
    counts = (
        planned.counts,
        written[writing.COUNTS],
        writing.uses_of(written[writing.USED]),
    ) | "Counts" >> beam.Flatten()
    examples = written[writing.EXAMPLES] | "Examples" >> beam.combiners.Top.SmallestPerKey(
        writing.SHOWN, key=lambda drawn: drawn[0]
    )
    about = outputs.About(recipe, about_source(args), args.corpus.schemas)
    small = (
        pipeline
        | "About" >> beam.Create([about], reshuffle=False)
        | "Metadata files"
        >> beam.FlatMap(
            outputs.metadata_files,
            beam.pvalue.AsList(counts | "Sum counts" >> beam.CombinePerKey(sum)),
            beam.pvalue.AsList(examples),
        )
    )
    dead = (written[writing.DEAD], planned.dead) | "Dead" >> beam.Flatten()
    letters = dead | "Dead letters" >> DeadLettersFile(counts, planning.tallies, args.max_bad)
    others = (small, letters) | "Other files" >> beam.Flatten() | "Write" >> files.WriteFiles(args.output)
    (
        (written.written, others)
        | "All files" >> beam.Flatten()
        | "Publish"
        >> files.Publish(args.output, header(args), counts, partial(writing.check_invariants, recipe=recipe))
    )


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    from parapet.transforms.ood.plan import MOST_USES, TURNS_A_USE

    uses = {"at_most": MOST_USES, "user_turns_each": TURNS_A_USE} if args.recipe.own else {"at_most": 1}
    options = {
        "split": list(args.recipe.splits),
        "source": about_source(args),
        "rates": list(args.recipe.rates),
        "place": args.place,
        "seed": args.seed,
        "uses": uses,
        "max_bad": float(args.max_bad),
    }
    return {**run_header("ood", options), **plugins.recorded(args.plugin)}


def report(args: argparse.Namespace, counters: dict[str, int]) -> None:
    """Says what each set came to."""
    from parapet.transforms.files import read_written
    from parapet.transforms.ood.planning import tallies

    numbers = json.loads(read_written(args.output, "statistics.json"))
    if not args.quiet:
        pool = numbers["pool"]
        own = f", {pool['answer']:,} answers, {pool['understood']:,} understood" if args.recipe.own else ""
        print(
            f"{counted(pool['different'], 'different utterance')}: {pool['kept']:,} foreign, "
            f"{pool['near_duplicate']:,} near-duplicates, {pool['generic']:,} generic{own}"
        )
        for name, one in numbers["sets"].items():
            said = [
                f"{split} {of['ood_turns']:,} of {of['in_domain_turns'] + of['ood_turns']:,} user turns"
                for split, of in one["splits"].items()
            ]
            print(f"{name}: {', '.join(said)}")
    if 3 * numbers["pool"]["familiar"] > numbers["pool"]["kept"]:
        alike = f"{numbers['pool']['familiar']:,} of {numbers['pool']['kept']:,}"
        logging.warning(
            "%s foreign utterances have no content word that in-domain turns lack: are they foreign?", alike
        )
    warn_left_out(args.output, tallies)


if __name__ == "__main__":
    sys.exit(run())
