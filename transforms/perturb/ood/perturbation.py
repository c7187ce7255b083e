"""Out-of-domain utterances as a perturbation: injected at exact rates according to a plan over all dialogues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import apache_beam as beam

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.rows import OOD_TURNS
from parapet.transforms.core.counts import Counted, Counts, Exact, Invariant, Tally
from parapet.transforms.perturb import base, corpora, mixes
from parapet.transforms.perturb.ood import CHAT, OWN, utterances
from parapet.transforms.perturb.ood.plan import MOST_USES, Config, Injection, injected, set_name
from parapet.transforms.perturb.ood.planning import plan_injections
from parapet.transforms.report.numbers import Metric, Numbers


class OutOfDomain(base.Perturbation):
    """User turns of another domain, each followed by a fallback of the system (Lee and Shalyminov 2019).

    Args:
      seed: of everything that is drawn.
      rates: injected turns per user turn, a set each: ``ood-10``, ``ood-20``. A set has all that lower rates have.
      source: foreign utterances, separated by commas: ``own``, the corpus's requests to services that a dialogue does
        not have; ``chat``, small talk and general questions; files and folders, as ``parapet ood --source`` takes them.
      max_bad: the share of the source's rows that may be unusable; they are left out.
    """

    name = "ood"
    languages = (corpora.ENGLISH,)
    needs_annotation = True
    row_schema = OOD_TURNS
    title = "Out-of-domain utterances"
    known_odd = "Requests have the English of their authors, and the user goes on as if nothing had been asked."
    tables = (
        Numbers(
            "The sets",
            "sets/*/splits/*",
            ("set", "split"),
            (
                Metric("rate", "rate", meaning="Injected turns per in-domain user turn, exact over the split. A set "
                       "has all injections of the sets with lower rates.", percent=True),
                Metric("in_domain_turns", "in-domain user turns", shown_first=True),
                Metric("ood_turns", "injected turns", shown_first=True),
                Metric("distinct", "distinct"),
                Metric("most_uses", "most uses of one"),
                Metric("dialogues_with_ood", "dialogues with one"),
            ),
        ),
        Numbers("The foreign utterances", "pool/*", ("status",), (Metric("", "utterances"),), utterances.STATUSES,
                chart="bars"),
        Numbers("Injected turns by source", "sets/*/sources/*", ("set", "source"),
                (Metric("turns", "turns"), Metric("distinct", "distinct"))),
    )  # fmt: skip
    keeps_turns = False
    analyzes_all_splits = True  # the same utterance must not be injected into two splits

    topics: utterances.Topics  # set by prepare()

    def __init__(
        self,
        *,
        seed: int | str = 0,
        rates: base.Texts = (0.1, 0.2, 0.5),
        source: str | Path = f"{OWN},{CHAT}",
        max_bad: float = 0.01,
    ) -> None:
        super().__init__(seed=seed)
        self.max_bad = base.share_of(max_bad, "--max_bad")
        self.rates, self.source = tuple(mixes.parse_rates(base.comma_separated(rates), "--rates")), str(source)
        self.sources = utterances.list_sources(self.source)

    @property
    def config(self) -> Config:
        """Returns the options that determine the sets."""
        return Config(self.rates, self.seed, tuple(sorted(self.splits)), OWN in utterances.names_of(self.source))

    @property
    def sets(self) -> tuple[str, ...]:
        """Returns the names of sets (``ood-10``), one for each rate."""
        return tuple(self.config.sets)

    def recorded_options(self) -> dict[str, object]:
        """Returns the options, with the names of files."""
        names = [name if name in (OWN, CHAT) else PurePath(name).name for name in utterances.names_of(self.source)]
        return {"source": ", ".join(names), "rates": list(self.rates), "seed": self.seed}

    def worker_inputs(self) -> Sequence[tuple[str, str]]:
        """Returns the sources that are files or folders."""
        names = utterances.names_of(self.source)
        return [("--source", name) for name in names if name not in (OWN, CHAT)]

    def prepare(self, corpus: corpora.Corpus) -> None:
        """Learns what the services of the corpus are about."""
        self.topics = utterances.topics_of_services(
            service for schemas in corpus.folders.values() for service in schemas.services
        )

    def analyze(self, files: beam.PCollection[DialogueFile]) -> base.Analysis:
        """Plans the injections, which are the state of a dialogue."""
        return plan_injections(files, self.config, self.sources, self.topics)

    def analysis_tallies(self, counts: Counts) -> list[Tally]:
        """Returns a tally of the rows of the source."""
        left_out = counts.sum("source_rows_left_out")
        return [Tally("source row", counts.sum("source_rows") + left_out, left_out)]

    def perturb_set(self, dialogue: dict[str, Any], set_name: str, state: Sequence[Injection] | None) -> base.Perturbed:
        """Returns the dialogue with the injections of a set, and a row for every user turn."""
        least = len(self.sets) - self.sets.index(set_name)
        injections = [injection for injection in state or () if injection.sets >= least]
        new, rows = injected(dialogue, injections, self.seed)
        ood = [row for row in rows if row["label"] == "ood"]
        counts: Counter[Counted] = Counter(("sources", injection.utterance.origin) for injection in injections)
        counts["user_turns"] = sum(turn["speaker"] == "USER" for turn in dialogue["turns"])
        counts["in_domain_turns"], counts["ood_turns"] = len(rows) - len(ood), len(ood)
        counts["dialogues_with_ood"] = int(bool(injections))
        return base.Perturbed(new, rows, counts=counts)

    def invariants(self) -> Sequence[Invariant]:
        """Checks that rates are exact, and original turns are kept."""
        rates: list[Invariant] = []
        for rate in self.rates:
            name = set_name(rate)
            rates += [
                Exact("ood_turns", "user_turns", name, partial(mixes.size_of, rate), name),
                Exact("in_domain_turns", "user_turns", name, int, name),
            ]
        return (*super().invariants(), *rates)

    def statistics(self, counts: Counts) -> dict[str, Any]:
        """Counts the turns of each set and split, and the pool by status."""
        splits = sorted(self.splits) or list(counts.by("split", "user_turns"))
        return {
            "sets": {set_name(rate): _numbers_of_set(rate, splits, counts) for rate in self.rates},
            "pool": utterances.pool_numbers(counts),
        }

    def notes(self, statistics: Mapping[str, Any]) -> Iterator[str]:
        """Yields warnings about utterances that are used often."""
        for name, numbers in statistics["sets"].items():
            most = max((split["most_uses"] for split in numbers["splits"].values()), default=0)
            if most > MOST_USES:
                yield (
                    f"{name} has foreign utterances up to {most} times, in different dialogues: lower --rates, or add "
                    "files of your own to --source"
                )


def _numbers_of_set(rate: str, splits: Sequence[str], counts: Counts) -> dict[str, Any]:
    name = set_name(rate)
    distinct = counts.by("value", "distinct_of_source", set=name)
    turns = counts.by("value", "sources", set=name)
    per_split = ("in_domain_turns", "ood_turns", "dialogues_with_ood", "distinct", "most_uses")
    return {
        "rate": float(rate),
        "splits": {
            split or "all": {count: counts.sum(count, set=name, split=split) for count in per_split} for split in splits
        },
        "sources": {source: {"turns": turns.get(source, 0), "distinct": n} for source, n in distinct.items()},
    }
