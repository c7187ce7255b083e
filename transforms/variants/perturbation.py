"""Renaming to variants as a perturbation: each variant is a set. Names are found once and written for each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from parapet.schemas.dialogue_files import DialogueFile, read_each
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import MAX_SCHEMA_FILE, read_whole
from parapet.transforms.corpora import Corpus, Item, read_file
from parapet.transforms.counts import Counted, Counts
from parapet.transforms.dead_letters import Tally, of_variants
from parapet.transforms.perturbation import Detailed, Perturbation, Perturbed, Place, Shared
from parapet.transforms.report import Example, Report, Table
from parapet.transforms.text import counted, number
from parapet.transforms.variants.dialogues import Places, places_of, rename
from parapet.transforms.variants.folders import MAPPING, mapping_bytes
from parapet.transforms.variants.matching import Plan, Split


class ApplyVariants(Perturbation):
    """Dialogues under the names of schema variants (SGD-X, Lee et al. 2022, section 3).

    Args:
      plan: the variants, matched with the corpus.
    """

    name = "rewrite"
    metrics = ()
    keeps_empty_files = False
    shown = 0

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.variants, self.splits_of = plan.variants, plan.splits
        self.schemas, self.mapping = plan.schemas, mapping_bytes(plan.mapped)

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

    def report(
        self, statistics: Mapping[str, Any], examples: Mapping[str, Sequence[Example]], options: Mapping[str, object]
    ) -> Report:
        """The page and the card."""
        sets = statistics["sets"]
        matched = "recorded names" if options["matched_by"] == "mapping" else "their positions in the schemas"
        intents = counted(statistics["unknown_intents"], "intent")
        return Report(
            command=self.name,
            title="Dialogues under the names of schema variants",
            headline=f"{counted(statistics['dialogues'], 'dialogue')}, {counted(len(sets), 'variant')}",
            lead="Each folder is the same corpus with the services, intents and slots of one variant of its schema "
            "(SGD-X, Lee et al. 2022): in frames, states, actions, service calls and results. Utterances and values "
            f"are unchanged. Intents and slots were matched by {matched}.",
            notes=[f"{intents} that no schema has: unchanged."] if statistics["unknown_intents"] else [],
            sections=[
                Table(
                    title="Variants",
                    columns=["variant", "dialogues", "left out"],
                    rows=[[name, number(of["dialogues"]), number(of["left_out"])] for name, of in sets.items()],
                )
            ],
            links={
                MAPPING: "the names of each variant",
                "statistics.json": "all numbers",
                "dead_letters.jsonl": "dialogues that were left out",
            },
        )

    def metadata_files(self, statistics: Mapping[str, Any], reported: Mapping[str, Sequence[Any]]) -> dict[str, bytes]:
        """The names of each variant."""
        return {MAPPING: self.mapping}
