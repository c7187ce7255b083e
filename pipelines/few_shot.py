"""``parapet few_shot``: small nested training sets for each domain, with their tests."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.flags import Parser, add_max_bad
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
        "Dialogues -> for each domain nested training sets in which every slot occurs, and a test:\n"
        "OUT/Restaurants/50/train/dialogues_001.json, OUT/Restaurants/test/dialogues_001.json."
    )
    parser = Parser("few_shot", description, EXAMPLE)
    add = parser.add_argument
    add("--sgd", metavar="ROOT", help="corpus (default: the bundled sample)")
    add("--domains", metavar="LIST", help="domains, such as Restaurants,Hotels (default: all of the training schema)")
    add("--sizes", metavar="LIST", default="5,10,25,50", help="dialogues of the training sets (default 5,10,25,50)")
    add("--test", type=int, metavar="N", default=100, help="dialogues of each test (default 100)")
    add("--train_split", default=TRAIN, help=f"where training dialogues are taken from (default {TRAIN})")
    add("--test_split", default=TEST, help=f"where the dialogues of the tests are taken from (default {TEST})")
    add("--multi_domain", action="store_true", help="also take dialogues that touch other domains")
    add("--seed", default="0", help="random seed: any text (default 0)")
    add("--require_full", action="store_true", help="exit status 2 if a domain has too few dialogues")
    add_max_bad(parser)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_split(parser(), argv, split_of)


def split_of(args: argparse.Namespace, corpus: SplitCorpus) -> FewShot:
    """The split of the flags. Raises InputError where the corpus does not allow it."""
    from parapet.transforms.splits.few_shot import FewShot, domain_slots
    from parapet.transforms.splits.few_shot_choosing import Rule

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
