"""``parapet unseen_services``: splits by domain or service, with nothing in training of what is tested on."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import Parser, add_max_bad, check_apart, run_command, run_header, warn_left_out
from parapet.schemas.layout import SPLITS, sample_root

if TYPE_CHECKING:
    import apache_beam as beam

EXAMPLE = """\
  parapet unseen_services --output unseen                        # the sample, each domain held out
  parapet unseen_services --sgd sgd --hold_out Banks,Hotels --output unseen
  parapet unseen_services --sgd sgd --by service --test_seen --output unseen"""


def parser() -> Parser:
    """The flags."""
    what = (
        "Dialogues -> for each domain (or service) a corpus whose train and dev have no dialogue that touches it, and\n"
        "whose test has no other: OUT/Museums/train/dialogues_001.json, OUT/Museums/test/dialogues_001.json."
    )
    made = Parser("unseen_services", what, EXAMPLE)
    add = made.add_argument
    add("--sgd", metavar="ROOT", help="corpus (default: the bundled sample)")
    add("--by", choices=("domain", "service"), default="domain", help="what is held out (default domain)")
    add("--hold_out", metavar="LIST", help="only these, such as Banks,Hotels (default: all of the test split)")
    add("--test_split", metavar="SPLIT", help="where the dialogues of the tests come from (default: test, else dev)")
    add("--test_seen", action="store_true", help="also write the others of the test split, as test_seen")
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
    from parapet.schemas.layout import SINGLE, as_path, read_root
    from parapet.transforms.corpora import listed
    from parapet.transforms.service_splits import plan
    from parapet.transforms.service_splits.statistics import About

    check_apart(args.output, sgd=args.sgd)
    root = args.sgd or sample_root()
    originals = read_root(root, leave_out_bad=True)
    found = dialogue_folders(as_path(root), originals)
    folders = {split: found[split] for split in SPLITS if split in found}
    test_split = plan.test_split_of(args.test_split, folders)
    for bad in dict.fromkeys(str(bad.error) for of in folders.values() for bad in of.bad):
        logging.warning("%s", bad)
    services = {split: {one.service_name: one for one in of.services} for split, of in folders.items()}
    groups = plan.groups_of((service for of in services.values() for service in of), args.by)
    tested = {name: of for name, of in groups.items() if any(service in services[test_split] for service in of)}
    asked = None if args.hold_out is None else listed(args.hold_out)
    held_out = plan.HeldOut(args.by, plan.chosen(tested, asked, args.by), test_split, args.test_seen)
    args.about = About(
        held_out=held_out,
        services=services,
        raw={split: {str(raw["service_name"]): raw for raw in of.raw} for split, of in folders.items()},
        listed=None if originals[0].split == SINGLE else frozenset(services["train"]),
    )
    args.files = list_files(as_path(root), folders)
    return args


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The flags that shape the content."""
    held_out = args.about.held_out
    return {
        "by": held_out.by,
        "hold_out": list(held_out.groups),
        "test_split": held_out.test_split,
        "test_seen": held_out.with_seen,
        "max_bad": float(args.max_bad),
    }


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Dialogue files -> the same files of every split, their schemas, numbers, a card and a page."""
    from functools import partial

    import apache_beam as beam

    from parapet.transforms import files
    from parapet.transforms.dead_letters import DeadLettersFile, of_dialogues
    from parapet.transforms.service_splits import outputs, writing

    files.prepare(args.output, "unseen_services")
    about = args.about
    written = (
        pipeline
        | "Dialogue files" >> beam.Create(args.files)
        | "Splits" >> writing.WriteSplits(args.output, about.held_out, about.services)
    )
    small = (
        pipeline
        | "Once" >> beam.Create([about], reshuffle=False)
        | "Metadata files"
        >> beam.FlatMap(
            outputs.metadata_files,
            beam.pvalue.AsList(written[writing.COMBINATIONS] | "Sum combinations" >> beam.CombinePerKey(sum)),
            beam.pvalue.AsList(written[writing.COUNTS] | "Sum counts" >> beam.CombinePerKey(sum)),
        )
    )
    dead = written[writing.DEAD] | "Dead letters" >> DeadLettersFile(
        written[writing.COUNTS], of_dialogues, args.max_bad, "read"
    )
    others = (small, dead) | "Other files" >> beam.Flatten() | "Write" >> files.WriteFiles(args.output)
    (
        (written.written, others)
        | "All files" >> beam.Flatten()
        | "Publish"
        >> files.Publish(
            args.output,
            header(args),
            written[writing.COUNTS],
            partial(outputs.check_invariants, held_out=about.held_out),
        )
    )


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    return run_header("unseen_services", options_of(args))


def report(args: argparse.Namespace, counters: dict[str, int]) -> None:
    """Says what each split has, and what it lacks."""
    from parapet.transforms.dead_letters import of_dialogues
    from parapet.transforms.files import read_written
    from parapet.transforms.service_splits.outputs import percent

    numbers = json.loads(read_written(args.output, "statistics.json"))
    if not args.quiet:
        for name, one in numbers["held_out"].items():
            sets = ", ".join(f"{key} {of['dialogues']:,}" for key, of in one["sets"].items())
            seen = f"{percent(one['seen']['slot_names_seen'])} of slot names seen"
            print(f"{name}: {sets}; {seen}; left out {sum(one['left_out'].values()):,}")
    for line in numbers["short"]:
        logging.warning("%s", line)
    warn_left_out(args.output, of_dialogues)


if __name__ == "__main__":
    sys.exit(run())
