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
from parapet.transforms.perturbations.ood import CHAT, OWN, PLACES
from parapet.transforms.perturbations.ood.plan import MOST_USES, Config, Injection, Row, injected, parse_rates, set_name
from parapet.transforms.perturbations.ood.planning import plan_injections, tallies_of_sources
from parapet.transforms.perturbations.ood.pool import STATUSES, pool_numbers
from parapet.transforms.perturbations.ood.requests import Topics, topics_of_services
from parapet.transforms.perturbations.ood.sources import PLUG_IN, SMALL_TALK, list_sources, names_of, plugin_of
from parapet.transforms.reports.numbers import Metric, Numbers
from parapet.transforms.reports.report import Example, Line, Part
from parapet.transforms.running import plugins
from parapet.transforms.running.counts import Balance, Counted, Counts, Exact, Invariant, Tally, Zero


class OutOfDomain(Perturbation):
    """User turns of another domain, each followed by a fallback of the system (Lee and Shalyminov 2019).

    Args:
      seed: of everything that is drawn.
      rates: injected turns per user turn, a set each: ``ood-10``, ``ood-20``. A set has all that lower rates have.
      source: foreign utterances, separated by commas: ``own``, the corpus's requests to services that a dialogue does
        not have; ``chat``, small talk and general questions; files and folders, as ``parapet ood --source`` takes them;
        and names of plug-ins.
      place: ``append`` them at the end, or ``between``: they interrupt after an answer of the system.
      max_bad: the share of the source's rows that may be unusable; they are left out.
    """

    name = "ood"
    languages = (ENGLISH,)
    needs_annotation = True
    row_schema = OOD_TURNS
    metrics = ()
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
                Metric("share", "share", meaning="Injected turns among all user turns of the set.", percent=True),
                Metric("dialogues_with_ood", "dialogues with one"),
            ),
        ),
        Numbers("The foreign utterances", "pool/*", ("status",), (Metric("", "utterances"),), STATUSES, chart="bars"),
        Numbers("Injected turns by source", "sets/*/sources/*", ("set", "source"),
                (Metric("turns", "turns"), Metric("distinct", "distinct"))),
    )  # fmt: skip
    keeps_turns = False
    analyzes_all_splits = True  # the same utterance must not be injected into two splits

    topics: Topics  # set by prepare()

    def __init__(
        self,
        *,
        seed: int | str = 0,
        rates: Texts = (0.1, 0.2, 0.5),
        source: str | Path = f"{OWN},{CHAT}",
        place: str = "between",
        max_bad: float = 0.01,
    ) -> None:
        super().__init__(seed=seed)
        if place not in PLACES:
            raise InputError(f"{place!r} must be one of {', '.join(PLACES)}", "--place")
        self.max_bad = share_of(max_bad, "--max_bad")
        self.rates, self.place, self.source = parse_rates(comma_separated(rates)), place, str(source)
        self.sources = list_sources(self.source)

    @property
    def config(self) -> Config:
        """Return the options that determine the sets."""
        has_files = any(file.kind != SMALL_TALK for file in self.sources)
        own = OWN in names_of(self.source)
        return Config(self.rates, self.place, self.seed, tuple(sorted(self.splits)), own, has_files)

    @property
    def sets(self) -> tuple[str, ...]:
        """Return the names of sets (``ood-10``), one for each rate."""
        return tuple(self.config.sets)

    def recorded_options(self) -> dict[str, object]:
        """Return the options, with the names of files."""
        names = [name if name in (OWN, CHAT) else PurePath(name).name for name in names_of(self.source)]
        kinds = {file.kind for file in self.sources} - {SMALL_TALK}
        return {
            "source": ", ".join([*names, *sorted(f"({kind})" for kind in kinds)]),
            "rates": list(self.rates),
            "place": self.place,
            "seed": self.seed,
        }

    def plugins_used(self) -> Sequence[plugins.Chosen | None]:
        """Return the plug-ins among the sources."""
        return [plugin_of(file.path) for file in self.sources if file.kind == PLUG_IN]

    def worker_inputs(self) -> Sequence[tuple[str, str]]:
        """Return the sources that are files or folders."""
        names = names_of(self.source)
        return [("--source", name) for name in names if name not in (OWN, CHAT) and not plugin_of(name)]

    def prepare(self, corpus: Corpus) -> None:
        """Learn what the services of the corpus are about."""
        self.topics = topics_of_services(service for schemas in corpus.folders.values() for service in schemas.services)

    def analyze(self, files: beam.PCollection[DialogueFile]) -> Analysis:
        """Plan the injections, which are the state of a dialogue."""
        return plan_injections(files, self.config, self.sources, self.topics)

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
        counts: Counter[Counted] = Counter(("sources", injection.utterance.origin) for injection in injections)
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
        """Yield warnings about utterances that are used often, or resemble in-domain turns."""
        for name, numbers in statistics["sets"].items():
            most = max((split["most_uses"] for split in numbers["splits"].values()), default=0)
            if most > MOST_USES:
                yield (
                    f"{name} has foreign utterances up to {most} times, in different dialogues: lower --rates, or add "
                    "files of your own to --source"
                )
        pool = statistics["pool"]
        if 3 * pool["familiar"] > pool["kept"]:
            yield (
                f"{pool['familiar']:,} of {pool['kept']:,} foreign utterances have only words that "
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


def _with_context(turns: Sequence[Any], row: Row) -> dict[str, Any]:
    at = row["turn"]
    after = turns[at + 2]["utterance"] if at + 2 < len(turns) else ""
    return {**row, "before": turns[at - 1]["utterance"] if at else "", "after": after}


def _numbers_of_set(rate: str, splits: Sequence[str], counts: Counts) -> dict[str, Any]:
    name = set_name(rate)
    distinct = counts.by("value", "distinct_of_source", set=name)
    turns = counts.by("value", "sources", set=name)
    return {
        "rate": float(rate),
        "splits": {split or "all": _numbers_of_split(rate, split, counts) for split in splits},
        "sources": {source: {"turns": turns.get(source, 0), "distinct": n} for source, n in distinct.items()},
    }


def _numbers_of_split(rate: str, split: str, counts: Counts) -> dict[str, Any]:
    names = ("in_domain_turns", "ood_turns", "dialogues_with_ood", "distinct", "most_uses")
    numbers = {name: counts.sum(name, set=set_name(rate), split=split) for name in names}
    in_domain, ood = numbers["in_domain_turns"], numbers["ood_turns"]
    return {**numbers, "wanted": size_of(rate, in_domain), "share": ood / (in_domain + ood) if in_domain else None}
