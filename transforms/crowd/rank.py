"""Draw five good answers to each element, and rank them by their distance to the original.

Near and far are distances of the text. They are no scale of difficulty: ``diameter`` is far from ``size`` in letters,
and near in meaning. SGD-X, Lee et al. 2022, section 2.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from math import comb

import apache_beam as beam
import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.service import VARIANTS, Task
from parapet.transforms.core.seeding import seed_text, stable_digest
from parapet.transforms.crowd.ingest import Group, WithDeadLetters
from parapet.transforms.crowd.vet import SchemaAnswer
from parapet.transforms.variants import distance
from parapet.transforms.variants.distance import Method, Metric

SELECTIONS = ("random", "diverse")

# With more subsets than this, the most distant five are chosen greedily.
_EXACT = 3_000

# The most distant five are chosen among at most this many texts, since each is compared with each other one.
_MOST_COMPARED = 500


def draw(texts: Sequence[str], seed: int, element_id: str, field: str) -> list[str]:
    """Shuffle the texts so that further answers do not change their relative order; the first five are used."""
    return sorted(texts, key=lambda text: stable_digest(str(seed), element_id, field, text))


def most_diverse(texts: Sequence[str], n: int, metric: Metric) -> list[str]:
    """Sort the ``n`` texts with the largest sum of pairwise distances first.

    The result is exact for few subsets; otherwise the most distant pair is extended greedily. Ties are resolved by the
    order of ``texts``, so the draw decides. Only the first 500 texts are compared.
    """
    if len(texts) <= n:
        return list(texts)
    size = range(min(len(texts), _MOST_COMPARED))
    apart = [[0.0] * len(size) for _ in size]
    for i, j in combinations(size, 2):
        apart[i][j] = apart[j][i] = metric(texts[i], texts[j])
    if comb(len(size), n) <= _EXACT:
        chosen = max(combinations(size, n), key=lambda subset: sum(apart[i][j] for i, j in combinations(subset, 2)))
    else:
        chosen = max(combinations(size, 2), key=lambda pair: apart[pair[0]][pair[1]])
        while len(chosen) < n:
            chosen += (max((i for i in size if i not in chosen), key=lambda i: sum(apart[i][j] for j in chosen)),)
    return [texts[i] for i in sorted(chosen)] + [text for i, text in enumerate(texts) if i not in chosen]


class GoodAnswer(msgspec.Struct, array_like=True):
    """A vetted answer, reduced to what ranking needs. The names are those of :class:`SchemaAnswer`."""

    response_id: str
    canonical: str
    original: str
    element_id: str
    place: str
    task: Task


class RankedAnswer(msgspec.Struct, array_like=True):
    """An answer and its distance to the original."""

    distance: float
    text: str
    response_id: str


class Ranking(msgspec.Struct):
    """The good answers to an element, as its names or descriptions.

    Attributes:
      answers: in the order in which they were drawn. The first ``needed`` are used, unless they collide with names of
        other elements.
    """

    element_id: str
    place: str
    task: Task
    answers: list[RankedAnswer]
    needed: int = len(VARIANTS)

    @property
    def used(self) -> list[tuple[float, str]]:
        """Return (distance, text) of the answers that are used, the nearest first; ties by text."""
        return sorted((answer.distance, answer.text) for answer in self.answers[: self.needed])


class Ranker(msgspec.Struct, frozen=True):
    """How answers are drawn and ranked.

    Attributes:
      method: the distances.
      seed: the seed of the draw.
      selection: ``random``, or ``diverse`` for those that differ most from each other.
      needed: the number of answers that are used.
    """

    method: Method = Method()
    seed: int = 0
    selection: str = "random"
    needed: int = len(VARIANTS)

    def rank(self, answers: Iterable[GoodAnswer | SchemaAnswer]) -> Ranking:
        """Draw and rank the good answers to an element, all names or all descriptions."""
        by_text = {answer.canonical: answer for answer in answers}
        first = next(iter(by_text.values()))
        metric = self.method.metric(first.task)
        texts = draw(list(by_text), self.seed, first.element_id, first.task)
        if self.selection == "diverse":
            texts = most_diverse(texts, self.needed, metric)
        ranked = [RankedAnswer(float(metric(first.original, t)), t, by_text[t].response_id) for t in texts]
        return Ranking(first.element_id, first.place, first.task, ranked, self.needed)


class Rank(WithDeadLetters):
    """Draws the answers to each element that are used, and ranks them by their distance to the original.

    The input is the result of :class:`Vet`, of which the good answers count. The result is a PCollection of (element
    id, ranking), one for the names of each element and one for its descriptions. ``ranking.used`` has the (distance,
    text) that are used, the nearest first; ``ranking.answers`` all good ones, in the order of the draw.

    Args:
      name: the distance that ranks names: ``levenshtein``, ``jaccard``, or a plug-in of ``parapet.distances``.
      description: the distance that ranks descriptions, likewise.
      answers: the number of answers that are used, one for each variant.
      seed: the seed of the draw.
      selection: ``random``, or ``diverse`` for the answers that differ most from each other.

    Raises:
      InputError: an option is invalid.

    Example:
      >>> import apache_beam as beam, parapet
      >>> from parapet.schemas.layout import sample_root
      >>> names = str(sample_root() / "crowd" / "names.csv")
      >>> with beam.Pipeline() as pipeline:
      ...     answers = pipeline | parapet.beam.ReadAnswers([names]) | parapet.beam.Dedupe()
      ...     ranked = answers | parapet.beam.Vet(sample_root()) | parapet.beam.Rank(seed=1)
      ...     element = ranked | beam.Filter(lambda pair: pair[0] == "Repairs_1/slot/shop_name")
      ...     _ = element | beam.MapTuple(lambda element, ranking: print(ranking.used[:2]))
      [(4.0, 'workshop_name'), (8.0, 'fixit_place')]
    """

    main = "rankings"

    def __init__(
        self,
        name: str = "levenshtein",
        description: str = "jaccard",
        answers: int = len(VARIANTS),
        seed: int = 0,
        *,
        selection: str = "random",
    ) -> None:
        super().__init__()
        seed_text(seed)
        distance.metric_named(name, "name")  # checked here, where the argument is known
        distance.metric_named(description, "description")
        if selection not in SELECTIONS:
            raise InputError(f"{selection!r} is unknown: must be 'random' or 'diverse'", "selection")
        self.ranker = Ranker(Method(name, description), seed, selection, answers)

    def outputs(self, vetted: beam.PCollection) -> beam.DoOutputsTuple:
        """Return ``rankings`` and ``dead_letters``."""
        good = vetted | "Good" >> beam.Filter(lambda pair: pair[1].disposition == "surplus")
        elements = good | "Elements" >> Group(GoodAnswer, by=[_by_element])
        ranker = self.ranker
        return elements | "Rank" >> self.apart(lambda group: _rank(group[1][0], ranker))


def _by_element(pair: tuple[str, SchemaAnswer]) -> tuple[str, GoodAnswer]:
    a = pair[1]
    good = GoodAnswer(a.response_id, a.canonical, a.original, a.element_id, a.place, a.task)
    return f"{a.element_id} {a.task} {a.place}", good


def _rank(answers: list[GoodAnswer], ranker: Ranker) -> Iterator[tuple[str, Ranking]]:
    ranking = ranker.rank(answers)
    yield ranking.element_id, ranking
