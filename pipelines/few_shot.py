"""``parapet few_shot``: small nested training sets for each domain, with their tests."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import (
    EXIT_USAGE,
    Parser,
    add_max_bad,
    check_apart,
    counted,
    run_command,
    run_header,
    warn_left_out,
)
from parapet.schemas.errors import InputError
from parapet.schemas.layout import TEST, TRAIN, sample_root

if TYPE_CHECKING:
    import apache_beam as beam

EXAMPLE = """\
  parapet few_shot --sizes 2,4 --test 4 --output small                    # the sample
  parapet few_shot --sgd sgd --domains Restaurants,Hotels --test 200 --output small
  parapet few_shot --sgd sgd --test_split dev --multi_domain --output small"""


def parser() -> Parser:
    """The flags."""
    what = (
        "Dialogues -> for each domain nested training sets in which every slot occurs, and a test:\n"
        "OUT/Restaurants/50/train/dialogues_001.json, OUT/Restaurants/test/dialogues_001.json."
    )
    made = Parser("few_shot", what, EXAMPLE)
    add = made.add_argument
    add("--sgd", metavar="ROOT", help="corpus (default: the bundled sample)")
    add("--domains", metavar="LIST", help="domains, such as Restaurants,Hotels (default: all of the training schema)")
    add("--sizes", metavar="LIST", default="5,10,25,50", help="dialogues of the training sets (default 5,10,25,50)")
    add("--test", type=int, metavar="N", default=100, help="dialogues of each test (default 100)")
    add("--train_split", default=TRAIN, help=f"where training dialogues come from (default {TRAIN})")
    add("--test_split", default=TEST, help=f"where those of the tests come from (default {TEST})")
    add("--multi_domain", action="store_true", help="also take dialogues that touch other domains")
    add("--seed", default="0", help="of all that is drawn: any text (default 0)")
    add("--require_full", action="store_true", help="exit status 2 where a domain is short of dialogues")
    add_max_bad(made)
    return made


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


def inputs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read: the dialogues."""
    return [("--sgd", str(args.sgd or sample_root()))]


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads flags and schemas, and lists the dialogues. Raises InputError where it cannot work."""
    from parapet.schemas.dialogue_files import dialogue_folders, list_files
    from parapet.schemas.layout import as_path, read_root
    from parapet.transforms.corpora import domain_of
    from parapet.transforms.few_shot.candidates import Rule
    from parapet.transforms.few_shot.splitting import SplitSchema

    check_apart(args.output, sgd=args.sgd)
    sizes = _sizes(args.sizes)
    if args.test < 1:
        raise InputError(f"{args.test} is too few: give 1 or more", "--test")
    if args.train_split == args.test_split:
        raise InputError("give another than --train_split: a test apart from training", "--test_split")
    root = args.sgd or sample_root()
    originals = read_root(root, leave_out_bad=True)
    folders = dialogue_folders(as_path(root), originals)
    for flag, split in (("--train_split", args.train_split), ("--test_split", args.test_split)):
        if split not in folders:
            there = ", ".join(folder for folder in folders if folder) or "none"
            raise InputError(f"there are no dialogues in {split!r}; there are in: {there}", root, flag)
    splits = {split: folders[split] for split in (args.train_split, args.test_split)}
    for bad in (bad for of in splits.values() for bad in of.bad):
        logging.warning("%s", bad.error)
    args.schemas = {
        split: SplitSchema(
            {str(raw["service_name"]): raw for raw in of.raw}, {one.service_name: one for one in of.services}
        )
        for split, of in splits.items()
    }
    args.domain_slots = {}
    for one in splits[args.train_split].services:
        names = args.domain_slots.setdefault(domain_of(one.service_name), [])
        names += [f"{one.service_name}/slot/{slot.name}" for slot in one.slots]
    args.rule = Rule(
        domains=_domains(args.domains, sorted(args.domain_slots)),
        sizes=sizes,
        test=args.test,
        train_split=args.train_split,
        test_split=args.test_split,
        multi_domain=args.multi_domain,
        seed=args.seed,
    )
    args.files = list_files(as_path(root), splits)
    return args


def _sizes(given: str) -> tuple[int, ...]:
    from parapet.transforms.corpora import listed

    parts = listed(given)
    if not parts or not all(part.isascii() and part.isdigit() and 0 < int(part) < 10**6 for part in parts):
        raise InputError("give numbers of dialogues, such as 5,10,25,50", "--sizes")
    return tuple(sorted({int(part) for part in parts}))


def _domains(given: str | None, there: list[str]) -> tuple[str, ...]:
    if given is None:
        return tuple(there)
    asked = sorted({part.strip() for part in given.split(",") if part.strip()})
    for domain in asked:
        if domain not in there:
            raise InputError(f"the training schema has no domain {domain!r}; it has: {', '.join(there)}", "--domains")
    if not asked:
        raise InputError(f"give one or more of: {', '.join(there)}", "--domains")
    return tuple(asked)


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Dialogue files -> candidates -> what each domain gets -> its sets, their schemas, numbers and a card."""
    from functools import partial

    import apache_beam as beam

    from parapet.transforms import files
    from parapet.transforms.dead_letters import DeadLettersFile, of_dialogues
    from parapet.transforms.few_shot import splitting

    files.prepare(args.output, "few_shot")
    rule = args.rule
    dialogues = pipeline | "Dialogue files" >> beam.Create(args.files)
    read = dialogues | "Spread files" >> beam.Reshuffle() | "Read" >> splitting.ReadCandidates(rule, args.schemas)
    dead = read[splitting.DEAD] | "Dead letters" >> DeadLettersFile(read[splitting.COUNTS], of_dialogues, args.max_bad)
    chosen = (
        pipeline
        | "Rule" >> beam.Create([rule], reshuffle=False)
        | "Choose" >> beam.Map(splitting.chosen_of, beam.pvalue.AsIter(read.candidates), beam.pvalue.AsIter(dead))
    )
    by_path = dialogues | "By path" >> beam.Map(lambda file: (file.relative, file))
    sets = (
        {"file": by_path, "uses": chosen | "Uses" >> beam.FlatMap(splitting.uses_of, rule)}
        | "Join" >> beam.CoGroupByKey()
        | "Texts" >> beam.FlatMap(splitting.texts_of)
        | "By set" >> beam.GroupByKey()
    )
    set_files = sets | "Set files" >> beam.MapTuple(splitting.file_of)
    small = chosen | "Metadata files" >> beam.FlatMap(splitting.metadata_files, rule, args.schemas, args.domain_slots)
    counts = (
        read[splitting.COUNTS],
        chosen | "Count chosen" >> beam.FlatMap(splitting.counts_of, rule),
        sets | "Count written" >> beam.MapTuple(lambda _, texts: ("written", len(list(texts)))),
    ) | "Counts" >> beam.Flatten()
    written = (set_files, small, dead) | "All files" >> beam.Flatten() | "Write" >> files.WriteFiles(args.output)
    written | "Publish" >> files.Publish(
        args.output, header(args), counts, partial(splitting.check_invariants, rule=rule)
    )


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    import msgspec

    options = {**msgspec.to_builtins(args.rule), "max_bad": float(args.max_bad)}
    return run_header("few_shot", options)


def report(args: argparse.Namespace, counters: dict[str, int]) -> int | None:
    """Says what each domain got, and what it is short of; with ``--require_full`` that is an error."""
    from parapet.transforms.dead_letters import of_dialogues
    from parapet.transforms.files import read_written

    numbers = json.loads(read_written(args.output, "statistics.json"))
    if not args.quiet:
        for name, one in numbers["domains"].items():
            sizes = ", ".join(str(of["dialogues"]) for of in one["train"].values())
            if one["train_candidates"]:
                print(f"{name}: training sets of {sizes}; {counted(one['test']['dialogues'], 'test dialogue')}")
    warn_left_out(args.output, of_dialogues)
    for line in numbers["short"]:
        (logging.error if args.require_full else logging.warning)("%s", line)
    return EXIT_USAGE if args.require_full and numbers["short"] else None


if __name__ == "__main__":
    sys.exit(run())
