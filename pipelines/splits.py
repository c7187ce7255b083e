"""``parapet few_shot`` and ``parapet unseen_services``, which differ in their flags and in the split that they make."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Sequence
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
    from parapet.transforms.splits.few_shot import FewShot
    from parapet.transforms.splits.split import Split, SplitCorpus, UnseenServices

FEW_SHOT = """\
  parapet few_shot --sizes 2,4 --test 4 --output small                    # the sample
  parapet few_shot --sgd sgd --domains Restaurants,Hotels --test 200 --output small
  parapet few_shot --sgd sgd --test_split dev --multi_domain --output small"""

UNSEEN_SERVICES = """\
  parapet unseen_services --output unseen                        # the sample, each domain held out
  parapet unseen_services --sgd sgd --hold_out Banks,Hotels --output unseen
  parapet unseen_services --sgd sgd --by service --test_seen --output unseen"""


class Config(msgspec.Struct, frozen=True):
    """The settings of a run: the split, its dialogue files, and whether sets with too few dialogues are an error."""

    run: RunInfo
    split: Split
    files: list[DialogueFile]
    require_full: bool


def _few_shot_parser() -> Parser:
    description = (
        "Makes for each domain small nested training sets in which every slot occurs, and a test: "
        "OUT/Restaurants/50/train/dialogues_001.json, OUT/Restaurants/test/dialogues_001.json."
    )
    parser = Parser("few_shot", description, FEW_SHOT)
    add_sgd(parser)
    add = parser.group(INPUT)
    add("--train_split", rare=True, metavar="NAME", default=TRAIN, help="split of the training dialogues")
    add("--test_split", rare=True, metavar="NAME", default=TEST, help="split of the tests")
    add = parser.group("sets")
    add("--domains", metavar="LIST", help="such as Restaurants,Hotels (default: all of the training schema)")
    add("--sizes", metavar="LIST", default="5,10,25,50", help="dialogues in each training set")
    add("--test", type=int, metavar="N", default=100, help="dialogues in each test")
    add("--multi_domain", action="store_true", help="also use dialogues that touch other domains")
    add("--require_full", action="store_true", help="exit with status 2 if a domain has too few dialogues")
    add_max_bad(parser)
    add_seed(parser)
    return parser


def _few_shot(args: argparse.Namespace, corpus: SplitCorpus) -> FewShot:
    """Makes the split from the flags. Raises InputError if the corpus does not allow it."""
    from parapet.transforms.splits.few_shot import FewShot, Rule, domain_slots
    from parapet.transforms.splits.split import chosen

    sizes = _sizes(args.sizes)
    if args.test < 1:
        raise InputError(f"{args.test}: must be 1 or more", "--test")
    if args.train_split == args.test_split:
        raise InputError("must differ from --train_split: the test needs its own dialogues", "--test_split")
    for flag, split in (("--train_split", args.train_split), ("--test_split", args.test_split)):
        if split not in corpus.schemas:
            splits = ", ".join(corpus.schemas) or "none"
            raise InputError(
                f"there are no dialogues in {split!r}; these splits have some: {splits}", corpus.root, flag
            )
    domains = chosen(domain_slots(corpus.schemas[args.train_split]), args.domains, "domain", "--domains")
    rule = Rule(tuple(domains), sizes, args.test, args.train_split, args.test_split, args.multi_domain, args.seed)
    return FewShot(corpus=corpus, rule=rule)


def _sizes(text: str) -> tuple[int, ...]:
    from parapet.transforms.perturbation.corpora import listed

    parts = listed(text)
    if not parts or not all(part.isascii() and part.isdigit() and 0 < int(part) < 10**6 for part in parts):
        raise InputError("must be numbers of dialogues (example: 5,10,25,50)", "--sizes")
    return tuple(sorted({int(part) for part in parts}))


def _unseen_services_parser() -> Parser:
    description = (
        "Makes for each domain (or service) a corpus whose train and dev have no dialogue that touches it, and whose "
        "test has no other: OUT/Museums/train/dialogues_001.json, OUT/Museums/test/dialogues_001.json."
    )
    parser = Parser("unseen_services", description, UNSEEN_SERVICES)
    add_sgd(parser)
    text = "split of the tests (default: test, else dev)"
    parser.group(INPUT)("--test_split", rare=True, metavar="NAME", help=text)
    add = parser.group("sets")
    add("--by", choices=("domain", "service"), default="domain", help="what is held out")
    add("--hold_out", metavar="LIST", help="such as Banks,Hotels (default: all of the test split)")
    add("--test_seen", action="store_true", help="also write the other dialogues of the test split, as test_seen")
    add_max_bad(parser)
    return parser


def _unseen_services(args: argparse.Namespace, corpus: SplitCorpus) -> UnseenServices:
    """Makes the split from the flags. Raises InputError if the corpus does not allow it."""
    from parapet.transforms.splits import split

    services = {split: schema.services for split, schema in corpus.schemas.items()}
    test_split = split.test_split_of(args.test_split, services)
    groups = split.groups_of((name for of_split in services.values() for name in of_split), args.by)
    tested = {
        name: tested_services
        for name, tested_services in groups.items()
        if any(service in services[test_split] for service in tested_services)
    }
    hold_out = split.chosen(tested, args.hold_out, args.by, "--hold_out")
    return split.UnseenServices(
        corpus=corpus,
        by=args.by,
        groups={name: tested[name] for name in hold_out},
        test_split=test_split,
        with_seen=args.test_seen,
    )


_PARSERS: dict[str, Callable[[], Parser]] = {"few_shot": _few_shot_parser, "unseen_services": _unseen_services_parser}
_SPLITS: dict[str, Callable[[argparse.Namespace, SplitCorpus], Split]] = {
    "few_shot": _few_shot,
    "unseen_services": _unseen_services,
}


def parser(name: str, program: str = "") -> Parser:
    """Builds the command line of ``few_shot`` or ``unseen_services``; ``program`` is always the same name."""
    return _PARSERS[name]()


def run_named(name: str, argv: Sequence[str] | None = None) -> int:
    """Runs the command of this name. Returns the exit status."""
    return run_command(parser(name), argv, lambda args: _check(args, name), _build, _report, _inputs)


def _check(args: argparse.Namespace, name: str) -> Config:
    from parapet.transforms.running.runs import RunInfo
    from parapet.transforms.splits.split import read_split_corpus

    corpus = read_split_corpus(args.sgd or str(sample_root()))
    split = _SPLITS[name](args, corpus)
    for line in corpus.problems_of(split.splits()):
        logging.warning("%s", line)
    options = {**split.options(), "max_bad": float(args.max_bad)}
    run = RunInfo(split.name, args.output, options, args.max_bad)
    return Config(run, split, corpus.files(split.splits()), getattr(args, "require_full", False))


def _inputs(config: Config) -> list[tuple[str, str]]:
    return [("--sgd", config.split.corpus.root)]


def _build(pipeline: beam.Pipeline, config: Config) -> None:
    import apache_beam as beam

    from parapet.transforms.running.progress import expect_dialogues
    from parapet.transforms.splits.split import WriteSplit
    from parapet.transforms.storage import files

    expect_dialogues(config.files)
    files.prepare(config.run.output, config.split.name)
    _ = pipeline | "Dialogue files" >> beam.Create(config.files) | "Split" >> WriteSplit(config.split, config.run)


def _report(config: Config, counters: dict[str, int]) -> int | None:
    from parapet.transforms.running.counts import of_dialogues
    from parapet.transforms.storage.files import read_written

    statistics = json.loads(read_written(config.run.output, "statistics.json"))
    for line in config.split.summary(statistics):
        say(line)
    warn_dead_letters(config.run.output, of_dialogues)
    for line in statistics["short"]:
        (logging.error if config.require_full else logging.warning)("%s", line)
    return EXIT_USAGE if config.require_full and statistics["short"] else None
