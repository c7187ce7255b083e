"""``parapet few_shot``: small nested training sets for each domain, with their tests."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.flags import INPUT, Parser, add_max_bad, add_seed, add_sgd
from parapet.pipelines.splits import run_split
from parapet.schemas.errors import InputError
from parapet.schemas.layout import TEST, TRAIN

if TYPE_CHECKING:
    from parapet.transforms.splits.few_shot import FewShot
    from parapet.transforms.splits.split import SplitCorpus

EXAMPLE = """\
  parapet few_shot --sizes 2,4 --test 4 --output small                    # the sample
  parapet few_shot --sgd sgd --domains Restaurants,Hotels --test 200 --output small
  parapet few_shot --sgd sgd --test_split dev --multi_domain --output small"""


def parser() -> Parser:
    """The flags."""
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
    add("--require_full", action="store_true", help="exit with status 2 if a domain has too few dialogues")
    add_max_bad(parser)
    add_seed(parser)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_split(parser(), argv, split_of)


def split_of(args: argparse.Namespace, corpus: SplitCorpus) -> FewShot:
    """The split of the flags. Raises InputError where the corpus does not allow it."""
    from parapet.transforms.splits.few_shot import FewShot, Rule, domain_slots

    sizes = _sizes(args.sizes)
    if args.test < 1:
        raise InputError(f"{args.test} is too few: give 1 or more", "--test")
    if args.train_split == args.test_split:
        raise InputError("must differ from --train_split: a test needs dialogues of its own", "--test_split")
    for flag, split in (("--train_split", args.train_split), ("--test_split", args.test_split)):
        if split not in corpus.schemas:
            splits = ", ".join(corpus.schemas) or "none"
            raise InputError(f"there are no dialogues in {split!r}; there are in: {splits}", corpus.root, flag)
    domains = _domains(args.domains, sorted(domain_slots(corpus.schemas[args.train_split])))
    rule = Rule(domains, sizes, args.test, args.train_split, args.test_split, args.multi_domain, args.seed)
    return FewShot(corpus=corpus, rule=rule)


def _sizes(text: str) -> tuple[int, ...]:
    from parapet.transforms.corpora import listed

    parts = listed(text)
    if not parts or not all(part.isascii() and part.isdigit() and 0 < int(part) < 10**6 for part in parts):
        raise InputError("give numbers of dialogues, such as 5,10,25,50", "--sizes")
    return tuple(sorted({int(part) for part in parts}))


def _domains(text: str | None, domains: list[str]) -> tuple[str, ...]:
    if text is None:
        return tuple(domains)
    requested = sorted({part.strip() for part in text.split(",") if part.strip()})
    for domain in requested:
        if domain not in domains:
            reason = f"the training schema has no domain {domain!r}; it has: {', '.join(domains)}"
            raise InputError(reason, "--domains")
    if not requested:
        raise InputError(f"give one or more of: {', '.join(domains)}", "--domains")
    return tuple(requested)


if __name__ == "__main__":
    sys.exit(run())
