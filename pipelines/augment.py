"""``parapet augment``: training sets that have the same dialogues under the original schemas and under others."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from parapet.pipelines.corpora import CorpusPipeline
from parapet.schemas.layout import TRAIN
from parapet.transforms.core import options
from parapet.transforms.core.options import option

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.splits.augment import Plan


class Augment(CorpusPipeline["Plan"]):
    """``parapet augment``."""

    name = "augment"
    description = (
        "Makes training sets from dialogues and schema variants: OUT/SET/train/dialogues_001.json. "
        "Every set has the original dialogues, too."
    )
    example = """\
  parapet augment --output training_sets                # the sample, with corrupted schemas
  parapet augment --sgd sgd --backtrans back_translated --oracle sgd/sgd_x/data \\
    --sets none,backtrans,oracle,corrupted,backtrans+oracle --output training_sets"""
    group = "training sets"
    done = "augmented"
    sgd: str = options.sgd()
    split: str = options.split(TRAIN)
    backtrans: str = options.folder("back-translated variants: the output of 'back_translate'")
    oracle: str = options.folder("crowdsourced variants: the output of 'compose', or sgd_x/data")
    variant: str = options.variant()
    sets: tuple[str, ...] | None = option(
        None,
        "none, backtrans, oracle, corrupted, or mixes such as backtrans+oracle "
        "(default: none, corrupted, and those with a folder)",
        commas=True,
    )
    corruptions: tuple[Literal["replace", "order", "both"], ...] = option(
        ("replace", "order", "both"),
        "variants of the set corrupted: words replaced, words in another order, both",
        commas=True,
    )
    replace_rate: float = option(0.2, "probability that a word is replaced", ge=0, le=1)
    order_rate: float = option(0.3, "share of words that change places", ge=0, le=1)
    max_bad: Fraction = options.max_bad("dialogues of a variant")
    seed: str = options.seed()

    def check(self) -> Plan:
        """Reads, matches and corrupts the schemas. Raises InputError if no service of a variant matches."""
        from parapet.transforms.splits import augment

        folders = {kind: folder for kind in ("backtrans", "oracle") if (folder := getattr(self, kind))}
        sets = augment.parse_sets(augment.default_sets(folders) if self.sets is None else self.sets)
        augment.check_folders(sets, folders)
        variants = [name for name in self.variant.split(",") if name]
        operations = [operation for operation in augment.OPERATIONS if operation in self.corruptions]
        corrupting = augment.CorruptionConfig(operations, augment.Rates(self.replace_rate, self.order_rate), self.seed)
        plan = augment.make_plan(self.root, self.split, sets, folders, variants, corrupting)
        for problem in plan.problems:
            logging.warning("does not match the corpus: %s", problem)
        return plan

    def wire(self, pipeline: beam.Pipeline, plan: Plan) -> None:
        """Writes the dialogues, schemas and mappings of each set, and dead letters."""
        import apache_beam as beam

        from parapet.transforms.core.progress import expect_dialogues
        from parapet.transforms.splits import augment

        expect_dialogues(plan.files)
        augment = augment.Augment(plan, self.run_info(plan.options()))
        _ = pipeline | "Dialogue files" >> beam.Create(plan.files) | "Sets" >> augment

    def lines(self, plan: Plan, statistics: Any) -> Iterator[str]:
        """Yields what was written for each set."""
        from parapet.transforms.splits.augment import lines_of

        yield from lines_of(statistics)


COMMAND = Augment
