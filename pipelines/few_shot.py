"""``parapet few_shot``: small training sets for each domain, and tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.pipelines import app, corpora
from parapet.schemas.errors import InputError
from parapet.schemas.layout import TEST, TRAIN
from parapet.transforms.core import options
from parapet.transforms.core.options import option

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.splits.few_shot import WriteFewShot


class FewShot(corpora.CorpusPipeline["WriteFewShot"]):
    """``parapet few_shot``."""

    name = "few_shot"
    description = (
        "Makes for each domain small nested training sets in which every slot occurs, and a test: "
        "OUT/Restaurants/50/train/dialogues_001.json, OUT/Restaurants/test/dialogues_001.json."
    )
    example = """\
  parapet few_shot --sizes 2,4 --test 4 --output small                    # the sample
  parapet few_shot --sgd sgd --domains Restaurants,Hotels --test 200 --output small
  parapet few_shot --sgd sgd --unseen_services --multi_domain --sizes 1000 --output unseen"""
    group = "sets"
    sgd: str = options.sgd()
    train_split: str = option(TRAIN, "split of the training dialogues", group=options.INPUT, rare=True, metavar="NAME")
    test_split: str = option(TEST, "split of the tests", group=options.INPUT, rare=True, metavar="NAME")
    domains: tuple[str, ...] | None = option(
        None, "such as Restaurants,Hotels (default: all of the training schema)", commas=True
    )
    sizes: tuple[int, ...] = option((5, 10, 25, 50), "dialogues in each training set", commas=True, ge=1, le=999_999)
    test: int = option(100, "dialogues in each test", ge=1)
    multi_domain: bool = option(False, "also use dialogues that touch other domains")
    unseen_services: bool = option(
        False, "train on dialogues that do not touch the domain; --domains are then those of the test schema"
    )
    require_full: bool = option(False, "exit with status 2 if a domain has too few dialogues")
    max_bad: Fraction = options.max_bad()
    seed: str = options.seed()

    def check(self) -> WriteFewShot:
        """Reads the schemas. Raises InputError if the corpus does not allow the split."""
        from parapet.transforms.splits.few_shot import Rule, WriteFewShot, domains_in, read_schemas

        schemas = read_schemas(self.root)
        if self.train_split == self.test_split:
            raise InputError("must differ from --train_split: the test needs its own dialogues", "--test_split")
        splits = (self.train_split, self.test_split)
        for flag, split in zip(("--train_split", "--test_split"), splits, strict=True):
            if split not in schemas:
                others = ", ".join(schemas) or "none"
                reason = f"there are no dialogues in {split!r}; these splits have some: {others}"
                raise InputError(reason, self.root, flag)
        for line in dict.fromkeys(str(bad.error) for split in splits for bad in schemas[split].bad):
            logging.warning("%s", line)
        known = domains_in(schemas[splits[self.unseen_services]])
        for name in self.domains or ():
            if name not in known:
                raise InputError(f"there is no domain {name!r}: must be one of {', '.join(known)}", "--domains")
        domains = tuple(known if self.domains is None else sorted({*self.domains}))
        rule = self.settings_of(Rule, domains=domains, sizes=tuple(sorted({*self.sizes})))
        return WriteFewShot(schemas, rule, self.run_info(msgspec.to_builtins(rule)))

    def wire(self, pipeline: beam.Pipeline, split: WriteFewShot) -> None:
        """Chooses dialogues and writes the sets."""
        import apache_beam as beam

        from parapet.schemas.dialogue import list_files
        from parapet.schemas.layout import as_path
        from parapet.transforms.core.progress import expect_dialogues

        dialogue_files = list_files(as_path(self.root), (self.train_split, self.test_split))
        expect_dialogues(dialogue_files)
        _ = pipeline | "Dialogue files" >> beam.Create(dialogue_files) | "Split" >> split

    def report(self, split: WriteFewShot, counters: dict[str, int]) -> int | None:
        """Prints the sizes of the sets, and what is less than requested."""
        super().report(split, counters)
        short = self.statistics()["short"]
        for line in short:
            (logging.error if self.require_full else logging.warning)("%s", line)
        return app.EXIT_USAGE if self.require_full and short else None

    def lines(self, split: WriteFewShot, statistics: Any) -> Iterator[str]:
        """Yields the sizes of each domain's sets."""
        from parapet.transforms.splits.few_shot import summary

        return summary(statistics)


COMMAND = FewShot
