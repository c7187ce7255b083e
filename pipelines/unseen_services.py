"""``parapet unseen_services``: splits by domain or service, with nothing in training of what is tested on."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.flags import INPUT, Parser, add_max_bad, add_sgd
from parapet.pipelines.splits import run_split

if TYPE_CHECKING:
    from parapet.transforms.splits.split import SplitCorpus
    from parapet.transforms.splits.unseen_services import UnseenServices

EXAMPLE = """\
  parapet unseen_services --output unseen                        # the sample, each domain held out
  parapet unseen_services --sgd sgd --hold_out Banks,Hotels --output unseen
  parapet unseen_services --sgd sgd --by service --test_seen --output unseen"""


def parser() -> Parser:
    """The flags."""
    description = (
        "Makes for each domain (or service) a corpus whose train and dev have no dialogue that touches it, and whose "
        "test has no other: OUT/Museums/train/dialogues_001.json, OUT/Museums/test/dialogues_001.json."
    )
    parser = Parser("unseen_services", description, EXAMPLE)
    add_sgd(parser)
    text = "split of the tests (default: test, else dev)"
    parser.group(INPUT)("--test_split", rare=True, metavar="NAME", help=text)
    add = parser.group("sets")
    add("--by", choices=("domain", "service"), default="domain", help="what is held out")
    add("--hold_out", metavar="LIST", help="such as Banks,Hotels (default: all of the test split)")
    add("--test_seen", action="store_true", help="also write the other dialogues of the test split, as test_seen")
    add_max_bad(parser)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_split(parser(), argv, split_of)


def split_of(args: argparse.Namespace, corpus: SplitCorpus) -> UnseenServices:
    """The split of the flags. Raises InputError where the corpus does not allow it."""
    from parapet.transforms.corpora import listed
    from parapet.transforms.splits import unseen_services

    services = {split: schema.services for split, schema in corpus.schemas.items()}
    test_split = unseen_services.test_split_of(args.test_split, services)
    groups = unseen_services.groups_of((name for of_split in services.values() for name in of_split), args.by)
    tested = {name: of for name, of in groups.items() if any(service in services[test_split] for service in of)}
    requested = None if args.hold_out is None else listed(args.hold_out)
    return unseen_services.UnseenServices(
        corpus=corpus,
        by=args.by,
        groups=unseen_services.chosen(tested, requested, args.by),
        test_split=test_split,
        with_seen=args.test_seen,
    )


if __name__ == "__main__":
    sys.exit(run())
