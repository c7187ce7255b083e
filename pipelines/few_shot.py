"""``parapet few_shot``: small training sets for each domain, and tests."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.command import run_command, say, warn_dead_letters
from parapet.pipelines.flags import EXIT_USAGE, INPUT, Parser, add_max_bad, add_seed, add_sgd
from parapet.schemas.errors import InputError
from parapet.schemas.layout import TEST, TRAIN, sample_root

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.schemas.dialogue import DialogueFile
    from parapet.transforms.running.runs import RunInfo
    from parapet.transforms.splits.few_shot import Rule, Schemas

EXAMPLE = """\
  parapet few_shot --sizes 2,4 --test 4 --output small                    # the sample
  parapet few_shot --sgd sgd --domains Restaurants,Hotels --test 200 --output small
  parapet few_shot --sgd sgd --unseen_services --multi_domain --sizes 1000 --output unseen"""


class Config(msgspec.Struct, frozen=True):
    """The settings of a run; ``require_full`` makes sets with too few dialogues an error."""

    root: str
    schemas: Schemas
    files: list[DialogueFile]
    rule: Rule
    run: RunInfo
    require_full: bool


def parser() -> Parser:
    """Builds the command line."""
    description = (
        "Makes for each domain small nested training sets in which every slot occurs, and a test: "
        "OUT/Restaurants/50/train/dialogues_001.json, OUT/Restaurants/test/dialogues_001.json."
    )
    parser = Parser("few_shot", description, EXAMPLE)
    add_sgd(parser)
    add = parser.group(INPUT)
    add("--train_split", rare=True, metavar="NAME", default=TRAIN, help="split of the training dialogues")
    add("--test_split", rare=True, metavar="NAME", default=TEST, help="split of the tests")
    add = parser.group("sets")
    add("--domains", metavar="LIST", help="such as Restaurants,Hotels (default: all of the training schema)")
    add("--sizes", metavar="LIST", default="5,10,25,50", help="dialogues in each training set")
    add("--test", type=int, metavar="N", default=100, help="dialogues in each test")
    add("--multi_domain", action="store_true", help="also use dialogues that touch other domains")
    text = "train on dialogues that do not touch the domain; --domains are then those of the test schema"
    add("--unseen_services", action="store_true", help=text)
    add("--require_full", action="store_true", help="exit with status 2 if a domain has too few dialogues")
    add_max_bad(parser)
    add_seed(parser)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, lambda config: [("--sgd", config.root)])


def check(args: argparse.Namespace) -> Config:
    """Reads the schemas. Raises InputError if the corpus does not allow the split."""
    from parapet.schemas.dialogue import list_files
    from parapet.schemas.layout import as_path
    from parapet.transforms.running.runs import RunInfo
    from parapet.transforms.splits.few_shot import Rule, domain_slots, read_schemas

    root = args.sgd or str(sample_root())
    schemas = read_schemas(root)
    sizes = _sizes(args.sizes)
    if args.test < 1:
        raise InputError(f"{args.test}: must be 1 or more", "--test")
    if args.train_split == args.test_split:
        raise InputError("must differ from --train_split: the test needs its own dialogues", "--test_split")
    splits = (args.train_split, args.test_split)
    for flag, split in zip(("--train_split", "--test_split"), splits, strict=True):
        if split not in schemas:
            others = ", ".join(schemas) or "none"
            raise InputError(f"there are no dialogues in {split!r}; these splits have some: {others}", root, flag)
    for line in dict.fromkeys(str(bad.error) for split in splits for bad in schemas[split].bad):
        logging.warning("%s", line)
    domains = _domains(args.domains, sorted(domain_slots(schemas[splits[args.unseen_services]])))
    rule = Rule(domains, sizes, args.test, *splits, args.multi_domain, args.seed, args.unseen_services)
    options = {**msgspec.to_builtins(rule), "max_bad": float(args.max_bad)}
    info = RunInfo("few_shot", args.output, options, args.max_bad)
    return Config(root, schemas, list_files(as_path(root), splits), rule, info, args.require_full)


def _domains(text: str | None, domains: Sequence[str]) -> tuple[str, ...]:
    from parapet.transforms.perturbation.corpora import listed

    requested = domains if text is None else sorted(set(listed(text)))
    if unknown := [name for name in requested if name not in domains]:
        raise InputError(f"there is no domain {unknown[0]!r}: must be one of {', '.join(domains)}", "--domains")
    if not requested:
        raise InputError(f"must be one or more of {', '.join(domains)}", "--domains")
    return tuple(requested)


def _sizes(text: str) -> tuple[int, ...]:
    from parapet.transforms.perturbation.corpora import listed

    parts = listed(text)
    if not parts or not all(part.isascii() and part.isdigit() and 0 < int(part) < 10**6 for part in parts):
        raise InputError("must be numbers of dialogues (example: 5,10,25,50)", "--sizes")
    return tuple(sorted({int(part) for part in parts}))


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Wires the pipeline: chooses dialogues and writes the sets."""
    import apache_beam as beam

    from parapet.transforms.running.progress import expect_dialogues
    from parapet.transforms.splits.few_shot import WriteFewShot
    from parapet.transforms.storage import files

    expect_dialogues(config.files)
    files.prepare(config.run.output, config.run.pipeline)
    split = WriteFewShot(config.schemas, config.rule, config.run)
    _ = pipeline | "Dialogue files" >> beam.Create(config.files) | "Split" >> split


def report(config: Config, _: dict[str, int]) -> int | None:
    """Prints the sizes of the sets, and what is less than requested."""
    from parapet.transforms.running.counts import of_dialogues
    from parapet.transforms.splits.few_shot import summary
    from parapet.transforms.storage.files import read_written

    statistics = json.loads(read_written(config.run.output, "statistics.json"))
    for line in summary(statistics):
        say(line)
    warn_dead_letters(config.run.output, of_dialogues)
    for line in statistics["short"]:
        (logging.error if config.require_full else logging.warning)("%s", line)
    return EXIT_USAGE if config.require_full and statistics["short"] else None
