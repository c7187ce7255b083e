"""From dialogue files to what is injected where: corpus and source are read, utterances judged, places served."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import apache_beam as beam
import msgspec

from parapet.transforms.ood import reading
from parapet.transforms.ood.language import Schemas
from parapet.transforms.ood.places import Place
from parapet.transforms.ood.plan import Injection, Recipe, plan
from parapet.transforms.ood.pool import Foreign
from parapet.transforms.ood.sources import SourceFile
from parapet.transforms.ood.statistics import check_foreign
from parapet.transforms.ood.texts import stopwords

_TURNS = "planned_turns/"


class Planned(NamedTuple):
    """PCollections of what was planned.

    Attributes:
      injections: (dialogue file, Injection).
      counts: (name, n), to be summed.
      dead: (file, letters) of what could not be read of splits that are not written, and of the source.
    """

    injections: beam.PCollection
    counts: beam.PCollection
    dead: beam.PCollection


class PlanInjections(beam.PTransform):
    """Plans what is injected into the dialogues of a corpus, at exact rates.

    Args:
      recipe: how.
      sources: files of foreign utterances; none where they are the corpus's own.
      schemas: of the corpus, where they are its own.
    """

    def __init__(self, recipe: Recipe, sources: Sequence[SourceFile], schemas: Schemas | None) -> None:
        super().__init__()
        self.recipe, self.sources, self.schemas = recipe, list(sources), schemas

    def expand(self, files: beam.PCollection) -> Planned:
        """All DialogueFiles of the corpus, those of splits that are not written as well, to what is planned."""
        corpus = files | "Corpus" >> reading.ReadCorpus(self.recipe)
        source = files.pipeline | "Source files" >> beam.Create(self.sources) | "Source" >> reading.ReadSource()
        utterances = (corpus.foreign, source.foreign) | "Utterances" >> beam.Flatten()
        pool, of_pool = utterances | "Pool" >> reading.Pool(corpus[reading.TURNS], stopwords(), self.schemas)
        counts = (corpus[reading.COUNTS], source[reading.COUNTS], of_pool) | "Counts" >> beam.Flatten()
        once = files.pipeline | "Once" >> beam.Create([self.recipe], reshuffle=False)
        injections = once | "Plan" >> beam.FlatMap(
            planned,
            beam.pvalue.AsIter(corpus[reading.PLACES]),
            beam.pvalue.AsIter(pool),
            beam.pvalue.AsList(counts | "Sum counts" >> beam.CombinePerKey(sum)),
        )
        return Planned(injections, counts, (corpus[reading.DEAD], source[reading.DEAD]) | "Dead" >> beam.Flatten())


def planned(
    recipe: Recipe, places: Iterable[Place], pool: Iterable[Foreign], sums: Iterable[tuple[str, int]]
) -> list[tuple[str, Injection]]:
    """:func:`~parapet.transforms.ood.plan.plan`, given the summed counts; checks first that the source is foreign."""
    counts = dict(sums)
    if not recipe.own:
        check_foreign(counts)
    turns = {name.removeprefix(_TURNS): n for name, n in counts.items() if name.startswith(_TURNS)}
    turns = {"" if split == "all" else split: n for split, n in turns.items()}
    if not recipe.splits:
        recipe = msgspec.structs.replace(recipe, splits=tuple(sorted(turns)))
    return plan(recipe, places, pool, turns)
