"""Out-of-domain utterances as a perturbation: injected at exact rates according to a plan over all dialogues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import apache_beam as beam

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.rows import OOD_TURNS
from parapet.transforms.perturbation.base import (
    Analysis,
    Perturbation,
    Perturbed,
    Texts,
    comma_separated,
    share_of,
    size_of,
)
from parapet.transforms.perturbation.corpora import Corpus
from parapet.transforms.perturbation.languages import ENGLISH
from parapet.transforms.perturbation.report import place_of
from parapet.transforms.perturbations.ood import OWN, PLACES
from parapet.transforms.perturbations.ood.language import Schemas, schemas_of
from parapet.transforms.perturbations.ood.plan import (
    MOST_USES,
    TURNS_A_USE,
    Config,
    Injection,
    Row,
    injected,
    parse_rates,
    set_name,
)
from parapet.transforms.perturbations.ood.planning import plan_injections, tallies_of_sources
from parapet.transforms.perturbations.ood.pool import STATUSES, pool_numbers
from parapet.transforms.perturbations.ood.sources import is_chat, kinds_of, list_sources, plugin_of
from parapet.transforms.reports.numbers import Metric, Numbers
from parapet.transforms.reports.report import Example, Line, Part
from parapet.transforms.running import plugins
from parapet.transforms.running.counts import Balance, Counted, Counts, Exact, Invariant, Tally, Zero


class OutOfDomain(Perturbation):
    """User turns of another domain, each followed by a fallback of the system (Lee and Shalyminov 2019).

    Args:
      seed: of everything that is drawn.
      rates: injected turns per user turn, a set each: ``ood-10``, ``ood-20``. A set has all that lower rates have.
      source: foreign utterances: ``own``, the corpus's user turns where they are foreign to a dialogue; ``chat``, small
        talk about anything; a file or
        folder of them, as ``parapet ood --source`` takes it; or the name of a plug-in.
      place: ``append`` them at the end, or ``between``: they interrupt after an answer of the system.
      max_bad: the share of the source's rows that may be unusable; they are left out.
    """

    name = "ood"
    languages = (ENGLISH,)
    needs_annotation = True
    row_schema = OOD_TURNS
    metrics = ()
    title = "Out-of-domain utterances"
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
                Metric("share", "share", meaning="Injected turns among all user turns of the set.", percent=True),
                Metric("dialogues_with_ood", "dialogues with one"),
            ),
        ),
        Numbers("The foreign utterances", "pool/*", ("status",), (Metric("", "utterances"),), STATUSES, chart="bars"),
        Numbers("Injected turns by domain or file", "sets/*/sources/*", ("set", "source"), (Metric("", "turns"),),
                in_card=False),
    )  # fmt: skip
    keeps_turns = False
    analyzes_all_splits = True  # the same utterance must not be injected into two splits

    schemas: Schemas | None = None  # the corpus's schemas, if utterances are its own

    def __init__(
        self,
        *,
        seed: int | str = 0,
        rates: Texts = (0.1, 0.2, 0.5),
        source: str | Path = OWN,
        place: str = "between",
        max_bad: float = 0.01,
    ) -> None:
        super().__init__(seed=seed)
        if place not in PLACES:
            raise InputError(f"{place!r} must be one of {', '.join(PLACES)}", "--place")
        self.max_bad = share_of(max_bad, "--max_bad")
        self.rates, self.place, self.source = parse_rates(comma_separated(rates)), place, str(source)
        self.own = self.source == OWN
        self.sources = [] if self.own else list_sources(self.source)
        self.chat = is_chat(self.source)

    @property
    def config(self) -> Config:
        """Return the options that determine the sets."""
        return Config(self.rates, self.place, self.seed, tuple(sorted(self.splits)), self.own, self.chat)

    @property
    def sets(self) -> tuple[str, ...]:
        """Return the names of sets (``ood-10``), one for each rate."""
        return tuple(self.config.sets)

    def recorded_options(self) -> dict[str, object]:
        """Return the options, including a description of the source and the maximum uses of an utterance."""
        again = {"at_most": MOST_USES, "user_turns_each": TURNS_A_USE}
        return {
            "source": self.source_description(),
            "rates": list(self.rates),
            "place": self.place,
            "seed": self.seed,
            "uses": again if self.own or self.chat else {"at_most": 1},
        }

    def plugins_used(self) -> Sequence[plugins.Chosen | None]:
        """Return the plug-in used as the source, if any."""
        return [None if self.own else plugin_of(self.source)]

    def worker_inputs(self) -> Sequence[tuple[str, str]]:
        """Return the source if it is a file or folder."""
        return [] if self.own or self.chat or plugin_of(self.source) else [("--source", self.source)]

    def source_description(self) -> str:
        """Describe the source for the card and the page."""
        if self.own:
            return "the corpus's own user turns, of dialogues that share no domain, foreign to those they are in"
        if self.chat:
            return "small talk about anything, a list of Parapet's own"
        plugin = plugin_of(self.source)
        return f"{plugin.plugin.name if plugin else PurePath(self.source).name} ({', '.join(kinds_of(self.sources))})"

    def needs_corpus(self) -> bool:
        """Whether the schemas are needed: they tell which domains understand the corpus's own utterances."""
        return self.own

    def prepare(self, corpus: Corpus) -> None:
        """Learn what the domains of the corpus are about."""
        if self.own:
            self.schemas = schemas_of(service for schemas in corpus.folders.values() for service in schemas.services)

    def analyze(self, files: beam.PCollection[DialogueFile]) -> Analysis:
        """Plan the injections, which are the state of a dialogue."""
        return plan_injections(files, self.config, self.sources, self.schemas)

    def analysis_tallies(self, counts: Counts) -> list[Tally]:
        """Return tallies for the dialogues of splits that are not written, and for rows of the source."""
        return tallies_of_sources(counts)

    def perturb_set(self, dialogue: dict[str, Any], set_name: str, state: Sequence[Injection] | None) -> Perturbed:
        """Return the dialogue with the injections of a set, and a row for every user turn."""
        return self._perturbed(dialogue, self._of_set(state, set_name))

    def _of_set(self, state: Sequence[Injection] | None, name: str) -> list[Injection]:
        least = len(self.sets) - self.sets.index(name)
        return [injection for injection in state or () if injection.sets >= least]

    def _perturbed(self, dialogue: dict[str, Any], injections: Sequence[Injection]) -> Perturbed:
        new, rows = injected(dialogue, injections, self.place, self.seed)
        turns = new["turns"]
        ood = [row for row in rows if row["label"] == "ood"]
        counts: Counter[Counted] = Counter(("sources", _origin(injection)) for injection in injections)
        counts["user_turns"] = sum(turn["speaker"] == "USER" for turn in dialogue["turns"])
        counts["in_domain_turns"], counts["ood_turns"] = len(rows) - len(ood), len(ood)
        counts["dialogues_with_ood"] = int(bool(injections))
        counts["twice_in_dialogue"] = len(injections) - len({injection.utterance.key for injection in injections})
        shown = [_with_context(turns, row) for row in ood]
        return Perturbed(new, rows, counts=counts, shown=shown)

    def invariants(self) -> Sequence[Invariant]:
        """Check that rates are exact, original turns are kept, and no dialogue has an utterance twice."""
        rates: list[Invariant] = []
        for rate in self.rates:
            name = set_name(rate)
            rates += [
                Exact("ood_turns", "user_turns", name, partial(size_of, rate), name),
                Exact("in_domain_turns", "user_turns", name, int, name),
            ]
        return (
            *super().invariants(),
            *rates,
            Balance("texts", ("pool",)),
            Zero("twice_in_dialogue", "utterances that a dialogue has twice"),
        )

    def statistics(self, counts: Counts, reported: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """Count the turns of each set and split, and the pool by status."""
        splits = sorted(self.splits) or list(counts.by("split", "user_turns"))
        return {
            "sets": {set_name(rate): _numbers_of_set(rate, splits, counts) for rate in self.rates},
            "pool": pool_numbers(counts),
        }

    def notes(self, statistics: Mapping[str, Any]) -> Iterator[str]:
        """Yield a warning if the utterances of another source resemble in-domain turns."""
        pool = statistics["pool"]
        if 3 * pool["familiar"] > pool["kept"]:
            yield (
                f"{pool['familiar']:,} of {pool['kept']:,} foreign utterances have only content words that "
                "occur in in-domain turns, too: check that they are out of domain"
            )

    def example(self, shown: Mapping[str, Any]) -> Example:
        """Show an injected turn and its fallback with the surrounding turns, if any."""
        around = [
            Line("SYSTEM", [Part(shown["before"])]),
            Line("USER", [Part(added=shown["utterance"])]),
            Line("SYSTEM", [Part(added=shown["fallback"])]),
            Line("USER", [Part(shown["after"])]),
        ]
        lines = [line for line in around if line.parts[0].text or line.parts[0].added]
        return Example(f"{place_of(shown)}; from {shown['source']}", lines)


def _origin(injection: Injection) -> str:
    """Return the domains of an utterance, or its file if they are unknown."""
    utterance = injection.utterance
    return "+".join(utterance.domains) or utterance.source.split(":")[0].split("/")[0]


def _with_context(turns: Sequence[Any], row: Row) -> dict[str, Any]:
    at = row["turn"]
    after = turns[at + 2]["utterance"] if at + 2 < len(turns) else ""
    return {**row, "before": turns[at - 1]["utterance"] if at else "", "after": after}


def _numbers_of_set(rate: str, splits: Sequence[str], counts: Counts) -> dict[str, Any]:
    name = set_name(rate)
    of_splits = {split or "all": _numbers_of_split(rate, split, counts) for split in splits}
    return {"rate": float(rate), "splits": of_splits, "sources": counts.by("value", "sources", set=name)}


def _numbers_of_split(rate: str, split: str, counts: Counts) -> dict[str, Any]:
    name = set_name(rate)
    in_domain = counts.sum("in_domain_turns", set=name, split=split)
    ood = counts.sum("ood_turns", set=name, split=split)
    return {
        "in_domain_turns": in_domain,
        "ood_turns": ood,
        "wanted": size_of(rate, in_domain),
        "share": ood / (in_domain + ood) if in_domain else None,
        "dialogues_with_ood": counts.sum("dialogues_with_ood", set=name, split=split),
    }
