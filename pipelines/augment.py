"""``parapet augment``: training sets that have the same dialogues under the original schemas and under others."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from parapet.pipelines import app
from parapet.pipelines.command import counted, say, warn_dead_letters
from parapet.schemas.layout import TRAIN, sample_root
from parapet.transforms.running import options
from parapet.transforms.running.options import option

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.splits.augment.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Augment(app.Pipeline["Plan"]):
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

    def inputs(self, plan: Plan) -> list[tuple[str, str]]:
        """Lists the corpus."""
        return [("--sgd", self.sgd or str(sample_root()))]

    def check(self) -> Plan:
        """Reads, matches and corrupts the schemas. Raises InputError if no service of a variant matches."""
        from parapet.transforms.splits.augment import plan as plans
        from parapet.transforms.variants.matching import check_matched

        folders = {kind: folder for kind in ("backtrans", "oracle") if (folder := getattr(self, kind))}
        sets = plans.parse_sets(plans.default_sets(folders) if self.sets is None else self.sets)
        plans.check_folders(sets, folders)
        plan = plans.make_plan(
            self.sgd or sample_root(),
            self.split,
            sets,
            folders,
            [name for name in self.variant.split(",") if name],
            plans.CorruptionConfig(
                [operation for operation in plans.OPERATIONS if operation in self.corruptions],
                plans.Rates(self.replace_rate, self.order_rate),
                self.seed,
            ),
        )
        check_matched(plan.augmentation.versions[1:], plan.problems, self.max_bad)
        for line in plan.problems:
            logging.warning("does not match the corpus: %s", line)
        for line in plan.remarks:
            logging.warning("%s", line)
        return plan

    def build(self, pipeline: beam.Pipeline, plan: Plan) -> None:
        """Writes the dialogues, schemas and mappings of each set, and dead letters."""
        import apache_beam as beam

        from parapet.transforms.running.progress import expect_dialogues
        from parapet.transforms.running.runs import RunInfo
        from parapet.transforms.splits.augment import augmenting
        from parapet.transforms.storage.files import prepare

        prepare(self.output, self.name)
        expect_dialogues(plan.files)
        recorded = {**plan.options(), "max_bad": float(self.max_bad)}
        info = RunInfo(self.name, self.output, recorded, self.max_bad, "augmented")
        _ = pipeline | "Dialogue files" >> beam.Create(plan.files) | "Sets" >> augmenting.Augment(plan, info)

    def report(self, plan: Plan, counters: dict[str, int]) -> None:
        """Prints what was written for each set, and how much the corruptions changed."""
        from functools import partial

        from parapet.transforms.splits.augment.augmenting import lines_of, tallies_of

        statistics = self.statistics()
        for line in lines_of(statistics):
            say(line)
        warn_dead_letters(self.output, partial(tallies_of, plan=plan))
        if statistics["unknown_intents"]:
            logging.warning("left unchanged: %s that no schema has", counted(statistics["unknown_intents"], "intent"))


COMMAND = Augment
