"""Out-of-domain utterances as a perturbation: injected at exact rates, which takes a plan over all dialogues."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.ood_turns import OOD_TURNS
from parapet.transforms.corpora import Corpus
from parapet.transforms.ood import OWN
from parapet.transforms.ood.injecting import injected
from parapet.transforms.ood.language import Schemas, schemas_of
from parapet.transforms.ood.plan import PLACES, Injection, Recipe, parse_rates
from parapet.transforms.ood.sources import list_sources
from parapet.transforms.perturbation import Perturbation, Perturbed, Place, Texts, comma_separated, share_of

if TYPE_CHECKING:
    import apache_beam as beam


class OutOfDomain(Perturbation):
    """User turns of another domain, each followed by a fallback of the system (Lee and Shalyminov 2019).

    Args:
      seed: of everything that is drawn.
      rates: injected turns per user turn, a set each: ``ood-10``, ``ood-20``. A set has all that lower rates have.
      source: foreign utterances: ``own``, the corpus's user turns where they are foreign to a dialogue; a file or
        folder of them, as ``parapet ood --source`` takes it; or the name of a plug-in.
      place: ``append`` them at the end, or ``between``: they break in after an answer of the system.
      max_bad: up to which share of the source's rows may be unusable; they are left out.
    """

    name = "ood"
    row_schema = OOD_TURNS

    schemas: Schemas | None = None  # of the corpus, where utterances are its own

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
            raise InputError(f"{place!r} is none of {', '.join(PLACES)}", "--place")
        self.max_bad = share_of(max_bad, "--max_bad")
        self.recipe = Recipe(parse_rates(comma_separated(rates)), place, self.seed, (), source == OWN)
        self.sources = [] if self.recipe.own else list_sources(str(source))

    @property
    def sets(self) -> tuple[str, ...]:
        """``ood-10`` and so on, one for each rate."""
        return tuple(self.recipe.sets)

    def needs_corpus(self) -> bool:
        """Only the corpus's own utterances need its schemas, which say what a domain understands."""
        return self.recipe.own

    def fit(self, corpus: Corpus) -> None:
        """Learns what the domains of the corpus speak of."""
        if self.recipe.own:
            self.schemas = schemas_of(service for of in corpus.folders.values() for service in of.services)

    def analyze(self, files: beam.PCollection[DialogueFile]) -> beam.PCollection[tuple[Place, Any]]:
        """The state of a dialogue: its injections."""
        import apache_beam as beam

        from parapet.transforms.dead_letters import DeadLettersFile
        from parapet.transforms.ood.planning import PlanInjections, of_source

        planned = files | "Injections" >> PlanInjections(self.recipe, self.sources, self.schemas)
        _ = planned.dead | "Check source" >> DeadLettersFile(planned.counts, of_source, self.max_bad)
        return (
            planned.injections
            | "By dialogue" >> beam.MapTuple(lambda file, injection: ((file, injection.dialogue), injection))
            | "Of a dialogue" >> beam.GroupByKey()
            | "State" >> beam.MapTuple(lambda place, injections: (place, sorted(injections)))
        )

    def perturb(self, dialogue: dict[str, Any], set_name: str, state: list[Injection] | None) -> Perturbed:
        """The dialogue with the injections that the set has, and a row for every user turn."""
        from parapet.transforms.ood.planning import check_unicode

        if error := check_unicode(dialogue):
            raise error
        least = len(self.sets) - self.sets.index(set_name)
        chosen = [injection for injection in state or () if injection.sets >= least]
        return Perturbed(*injected(dialogue, chosen, self.recipe.place, self.seed))
