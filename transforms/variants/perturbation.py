"""Renaming to variants as a perturbation: each variant is a set. Names are found once and written for each of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from parapet.schemas.dialogue import DialogueFile, read_each
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import MAX_SCHEMA_FILE, read_whole
from parapet.transforms.corpora import Corpus, Item, read_file
from parapet.transforms.counts import Counted, Counts
from parapet.transforms.dead_letters import Tally, of_variants
from parapet.transforms.perturbation.base import Detailed, Metric, Numbers, Perturbation, Perturbed, Place, Shared
from parapet.transforms.text import counted
from parapet.transforms.variants import COMMAND
from parapet.transforms.variants.dialogues import Places, places_of, rename
from parapet.transforms.variants.folders import MAPPING, find_mapping, find_variants, mapping_bytes
from parapet.transforms.variants.matching import Plan, Split, check_matched, make_plan


class ApplyVariants(Perturbation):
    """Dialogues under the names of schema variants (SGD-X, Lee et al. 2022, section 3).

    Args:
      plan: the variants, matched with the corpus.
    """

    name = "rewrite"
    command = COMMAND
    metrics = ()
    title = "Dialogues under the names of schema variants"
    tables = (
        Numbers(
            "Variants",
            "sets/*",
            ("variant",),
            (Metric("dialogues", "rewritten", shown_first=True), Metric("left_out", "left out", shown_first=True)),
        ),
    )
    links: ClassVar = {MAPPING: "the names of each variant"}
    keeps_empty_files = False
    shown = 0

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.variants, self.splits_of = plan.variants, plan.splits
        self.schemas, self.mapping = plan.schemas, mapping_bytes(plan.mapped)
        self.problems, self.plan_remarks, self.matched_by = plan.problems, plan.remarks, ""

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any]) -> ApplyVariants:
        """Reads and matches the schemas. Raises InputError where none of a variant's services match."""
        variants = find_variants(flags["variants"], [name for name in flags["variant"].split(",") if name])
        mapping = find_mapping(flags["variants"], flags["mapping"])
        plan = make_plan(flags["sgd"], variants, mapping)
        check_matched([of for split in plan.splits.values() for of in split.variants], plan.problems, flags["max_bad"])
        perturbation = cls(plan)
        perturbation.matched_by = "position" if mapping is None else "mapping"
        return perturbation

    def remarks(self) -> Iterator[tuple[int, str]]:
        """What does not match."""
        yield from ((logging.WARNING, f"does not match: {line}") for line in self.problems)
        yield from ((logging.WARNING, line) for line in self.plan_remarks)

    def recorded_options(self) -> Mapping[str, object]:
        """The variants, and how they were matched."""
        return {"variants": [*self.sets], "variant": "", "mapping": "", "matched_by": self.matched_by}

    @property
    def sets(self) -> tuple[str, ...]:
        """The names of the variants."""
        return tuple(self.variants)

    def row_sets(self) -> Sequence[str]:
        """None: all that changes are names, which ``mapping.json`` lists."""
        return ()

    def items(self, file: DialogueFile) -> Iterator[Item]:
        """The dialogues of a file. They are not typed: finding their names checks them, in a third of the time."""
        for position, (raw, plain) in enumerate(read_each(read_file(file), file.path)):
            yield Item(position, raw, plain)

    def state_of(self, place: Place, state: Any, shared: Shared) -> Split:
        """The services of the dialogue's split, with their names in each variant."""
        return self.splits_of[place[0].rpartition("/")[0]]

    def perturb_sets(self, item: Item, state: Split) -> Iterator[tuple[str, Perturbed | InputError]]:
        """The dialogue under the names of one variant after another, renamed in place."""
        places = places_of(item.raw, state.known)
        counts: dict[Counted, int] = {"unknown_intents": places.unknown_intents} if isinstance(places, Places) else {}
        for variant in state.variants:
            try:
                # A copy, for the driver takes one dialogue for one text; what is in it is still changed in place.
                dialogue = {**rename(variant, places)}
            except InputError as error:
                yield variant.name, error
            else:
                yield variant.name, Detailed(dialogue, counts=counts)

    def schema_files(self, corpus: Corpus) -> list[tuple[str, bytes]]:
        """The schemas of the variants, byte for byte."""
        # Read here, not by the workers: the variants may be on this machine while the dialogues are on gs://.
        return [(path, read_whole(as_path(source), MAX_SCHEMA_FILE)) for path, source in self.schemas]

    def tallies(self, counts: Counts) -> list[Tally]:
        """The dialogues of each variant that may be left out."""
        return of_variants(counts, self.variants)

    def statistics(self, counts: Counts, reported: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """The dialogues of each variant."""
        of_all = counts.sum("left_out", set="")
        left_out = {name: counts.sum("left_out", set=name) + of_all for name in self.sets}
        return {
            "files": counts.sum("files"),
            "dialogues": counts.sum("dialogues", set=""),
            "left_out": sum(left_out.values()),
            # The same for each variant that has the dialogue.
            "unknown_intents": max(counts.by("set", "unknown_intents").values(), default=0),
            "sets": {
                name: {"dialogues": counts.sum("dialogues", set=name), "left_out": left_out[name]} for name in self.sets
            },
        }

    def notes(self, statistics: Mapping[str, Any]) -> Iterator[str]:
        """A warning of names that could not be changed."""
        if statistics["unknown_intents"]:
            yield f"unchanged: {counted(statistics['unknown_intents'], 'intent')} that no schema has"

    def metadata_files(self, statistics: Mapping[str, Any], reported: Mapping[str, Sequence[Any]]) -> dict[str, bytes]:
        """The names of each variant."""
        return {MAPPING: self.mapping}
