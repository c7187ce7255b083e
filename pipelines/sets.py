"""The flags that name a corpus and its sets, the same for every task of ``evaluate`` and every model of ``predict``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from parapet.pipelines.command import Adds, add_split, check_apart
from parapet.schemas.layout import sample_root, split_of_folder

if TYPE_CHECKING:
    from parapet.evaluation.sets import Sources

REFERENCE = "corpus, or a release (default: the bundled sample)"
VARIANTS = "dialogues under each variant's names, as 'rewrite' writes them"
SETS = "other sets: typos=varied/typos SR-10=heard/SR-10"


def add_sets(
    parser: Adds,
    *,
    reference: str = REFERENCE,
    split: str = "whose dialogues",
    variants: str | None = VARIANTS,
    sets: str = SETS,
) -> None:
    """Adds the flags; the texts are those of their help. Without ``variants`` there are no flags for them."""
    add = parser.add_argument
    add("--reference", metavar="ROOT", help=reference)
    add_split(parser, text=split)
    if variants is not None:
        add("--variants", metavar="DIR", help=variants)
        add("--variant", default="", metavar="LIST", help="which of them, comma-separated (default all)")
    add("--sets", nargs="+", default=[], metavar="NAME=ROOT", help=sets)


def sources_of(args: argparse.Namespace, predictions: str | None = None) -> Sources:
    """What the flags name; the split is that of a reference that is a split's folder.

    Args:
      args: the flags.
      predictions: of all sets, if any.

    Raises:
      InputError: a value that is not ``NAME=ROOT``, or an output that is one of the inputs.
    """
    from parapet.evaluation.sets import Sources, parse_sets
    from parapet.transforms.corpora import listed

    reference = str(args.reference or sample_root())
    others = parse_sets(args.sets)
    variants: str | None = getattr(args, "variants", None)
    check_apart(args.output, reference=reference, variants=variants, predictions=predictions)
    for root in others.values():
        check_apart(args.output, sets=root)
    split = split_of_folder(reference) or args.split  # the other sets' dialogues are those of the same split
    return Sources(reference, split, variants, tuple(listed(getattr(args, "variant", ""))), others, predictions)
