"""Draw five good answers to each element, rank them, and compose the variants v1 to v5 of each service.

v1 has the nearest answer to each element, v5 the furthest. Near and far are distances of the text. They are no scale of
difficulty: ``diameter`` is far from ``size`` in letters, and near in meaning. SGD-X, Lee et al. 2022, section 2.3.

No two elements of a service have the same name in a variant: if they would get it, answers at equal distances swap
places first; if that does not help, another answer is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, groupby, islice, permutations, product
from math import comb
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam.pvalue import TaggedOutput

from parapet.schemas import errors, layout, rows
from parapet.schemas.service import TASKS, VARIANTS, Element, Task, elements_of, parse_service
from parapet.transforms.core.seeding import seed_text, stable_digest
from parapet.transforms.crowd import ingest, vet
from parapet.transforms.variants import distance, matching
from parapet.transforms.variants.distance import Method, Metric

SELECTIONS = ("random", "diverse")

# With more subsets than this, the most distant five are chosen greedily.
_EXACT = 3_000

# The most distant five are chosen among at most this many texts, since each is compared with each other one.
_MOST_COMPARED = 500


def draw(texts: Sequence[str], seed: int, element_id: str, field: str) -> list[str]:
    """Shuffles the texts so that further answers do not change their relative order; the first five are used."""
    return sorted(texts, key=lambda text: stable_digest(str(seed), element_id, field, text))


def most_diverse(texts: Sequence[str], n: int, metric: Metric) -> list[str]:
    """Sorts the ``n`` texts with the largest sum of pairwise distances first.

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
        """Returns (distance, text) of the answers that are used, the nearest first; ties by text."""
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

    def rank(self, answers: Iterable[GoodAnswer | vet.SchemaAnswer]) -> Ranking:
        """Draws and ranks the good answers to an element, all names or all descriptions."""
        by_text = {answer.canonical: answer for answer in answers}
        first = next(iter(by_text.values()))
        metric = self.method.metric(first.task)
        texts = draw(list(by_text), self.seed, first.element_id, first.task)
        if self.selection == "diverse":
            texts = most_diverse(texts, self.needed, metric)
        ranked = [RankedAnswer(float(metric(first.original, t)), t, by_text[t].response_id) for t in texts]
        return Ranking(first.element_id, first.place, first.task, ranked, self.needed)


class Rank(ingest.WithDeadLetters):
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
            raise errors.InputError(f"{selection!r} is unknown: must be 'random' or 'diverse'", "selection")
        self.ranker = Ranker(Method(name, description), seed, selection, answers)

    def outputs(self, vetted: beam.PCollection) -> beam.DoOutputsTuple:
        """Returns ``rankings`` and ``dead_letters``."""
        good = vetted | "Good" >> beam.Filter(lambda pair: pair[1].disposition == "surplus")
        elements = good | "Elements" >> ingest.Group(GoodAnswer, by=[_by_element])
        ranker = self.ranker
        return elements | "Rank" >> self.apart(lambda group: _rank(group[1][0], ranker))


def _by_element(pair: tuple[str, vet.SchemaAnswer]) -> tuple[str, GoodAnswer]:
    a = pair[1]
    good = GoodAnswer(a.response_id, a.canonical, a.original, a.element_id, a.place, a.task)
    return f"{a.element_id} {a.task} {a.place}", good


def _rank(answers: list[GoodAnswer], ranker: Ranker) -> Iterator[tuple[str, Ranking]]:
    ranking = ranker.rank(answers)
    yield ranking.element_id, ranking


# How often a service's elements are reordered before the search.
_RESTARTS = 12

# Arrangements of one element's answers that are tried: enough to try all for any real element.
_TRIES = 1_000

# Combinations of arrangements that are tried for elements with conflicting names.
_COMBINATIONS = 20_000


class Candidates(msgspec.Struct):
    """The answers that an element may use as its names.

    Attributes:
      key: the element's id.
      texts: the answers in the order of the draw.
      distances: the distance of each text to the original.
      original: if not empty, an element with too few texts repeats one of them, or the original as a last resort.
      scopes: elements that share a scope must have different names.
    """

    key: str
    texts: list[str]
    distances: list[float]
    original: str = ""
    scopes: tuple[str, ...] = ("",)

    def places(self, name: str) -> set[tuple[str, str]]:
        """Returns the (scope, name) pairs that the element occupies if it gets this name."""
        return {(scope, name) for scope in self.scopes}


Taken = list[set[tuple[str, str]]]  # for each variant, the (scope, name) pairs in use


def ranked(texts: Sequence[str], distances: Sequence[float]) -> list[str]:
    """Sorts the texts by increasing distance; ties by text."""
    return [text for _, text in sorted(zip(distances, texts, strict=True))]


def assign_names(elements: Sequence[Candidates], n: int) -> dict[str, list[str]]:
    """Assigns ``n`` names to each element by increasing distance, so that names are unique within each variant.

    Args:
      elements: all elements of a service whose names must differ from each other.
      n: the number of variants.

    Returns:
      Element key to its names, one per variant. Elements without ``n`` free names are left out.
    """
    assigned = _one_by_one(elements, n)
    if len(assigned) == len(elements):
        return assigned
    for group in _sharing_texts([element for element in elements if element.original or len(element.texts) >= n]):
        if any(element.key not in assigned for element in group):
            assigned.update(_search(group, n))
    return assigned


def _one_by_one(elements: Sequence[Candidates], n: int) -> dict[str, list[str]]:
    """Assigns each element its first free names.

    An element without free names moves to the front for a retry.
    """
    order = list(elements)
    moved: set[str] = set()
    while True:
        taken: Taken = [set() for _ in range(n)]
        assigned: dict[str, list[str]] = {}
        for element in order:
            names = next((names for names in _arrangements(element, n) if _free(element, names, taken)), None)
            if names is None and element.key not in moved and len(moved) < _RESTARTS:
                # Earlier elements may have alternatives that this one lacks.
                moved.add(element.key)
                order.remove(element)
                order.insert(0, element)
                break
            if names is not None:
                assigned[element.key] = names
                for seen, name in zip(taken, names, strict=True):
                    seen.update(element.places(name))
        else:
            return assigned


def _sharing_texts(elements: Sequence[Candidates]) -> list[list[Candidates]]:
    """Groups elements that share texts; groups can be assigned names independently."""
    groups: list[tuple[set[str], list[Candidates]]] = []
    for element in elements:
        texts, group = {*element.texts, element.original}, [element]
        for other in [other for other in groups if texts & other[0] - {""}]:
            groups.remove(other)
            texts, group = texts | other[0], other[1] + group
        groups.append((texts, group))
    return [group for _, group in groups]


def _search(elements: Sequence[Candidates], n: int) -> dict[str, list[str]]:
    """Searches for names for all elements by backtracking, up to a limit; empty if there is no solution."""
    steps = iter(range(_COMBINATIONS))

    def complete(i: int, taken: Taken) -> dict[str, list[str]] | None:
        if i == len(elements):
            return {}
        arrangements = _arrangements(elements[i], n)
        while next(steps, None) is not None and (names := next(arrangements, None)):
            if _free(elements[i], names, taken):
                with_names = [seen | elements[i].places(name) for seen, name in zip(taken, names, strict=True)]
                if (others := complete(i + 1, with_names)) is not None:
                    return {elements[i].key: names, **others}
        return None

    return complete(0, [set() for _ in range(n)]) or {}


def _free(element: Candidates, names: list[str], taken: Taken) -> bool:
    return all(seen.isdisjoint(element.places(name)) for name, seen in zip(names, taken, strict=True))


def _arrangements(element: Candidates, n: int) -> Iterator[list[str]]:
    """Yields all arrangements of ``n`` texts by increasing distance: drawn ones first, ties by text first."""
    distance = dict(zip(element.texts, element.distances, strict=True))
    for size in range(min(n, len(element.texts)), -1, -1) if element.original else (n,):
        orders = (order for texts in combinations(element.texts, size) for order in _orders(texts, distance))
        filled = (names for order in orders for names in _fill(order, element.original, n))
        yield from islice(filled, _TRIES)


def _orders(texts: Sequence[str], distance: Mapping[str, float]) -> Iterator[list[str]]:
    """Yields the texts by increasing distance, with every order of texts at the same distance."""
    ties = groupby(sorted(texts, key=lambda text: (distance[text], text)), key=distance.__getitem__)
    for groups in product(*[list(permutations(tied)) for _, tied in ties]):
        yield [text for group in groups for text in group]


def _fill(order: list[str], original: str, n: int) -> Iterator[list[str]]:
    """Pads to ``n`` texts by repeating the furthest, or a nearer one if that collides, or else the original."""
    missing = n - len(order)
    if not missing:
        yield order
        return
    for filler in [*reversed(order), original]:
        yield [*order, *[filler] * missing]


NEEDED = len(VARIANTS)
COMPOSED = "composed"

Place = tuple[Task, str]  # task and form field


class Short(msgspec.Struct):
    """An element with fewer than five good answers.

    Attributes:
      place: the form field, such as ``slot_3``.
      have: the number of good answers; ``in_review`` is the number of those held.
      filled: the variants that repeat an answer or the original if the service was composed anyway.
      reason: ``too_few``, or ``name_collision`` if there are five answers but their names collide.
    """

    element_id: str
    task: Task
    place: str
    have: int
    in_review: int = 0
    reason: str = "too_few"
    filled: tuple[int, ...] = ()


class ComposedAnswer(msgspec.Struct, array_like=True):
    """A good answer: its distance to the original, and the variant that uses it, from 1, if any."""

    response_id: str
    distance: float
    variant: int | None = None


class Composed(msgspec.Struct):
    """A service, composed or not.

    Attributes:
      variants: the service in v1 to v5; empty if an element needs more answers.
      short: the elements that need more answers.
      answers: all good answers.
    """

    variants: list[dict[str, Any]] = []
    short: list[Short] = []
    answers: list[ComposedAnswer] = []


def elements_by_place(raw: Mapping[str, Any]) -> dict[Place, Element]:
    """Returns the elements of a service by task and form field, in the order of tasks and fields."""
    service = parse_service(raw)
    return {(task, element.field): element for task in TASKS for element in elements_of(service, task)}


def compose_service(
    raw: Mapping[str, Any], elements: Mapping[Place, Element], rankings: Iterable[Ranking], allow_partial: bool = False
) -> Composed:
    """Composes a service from the rankings of its elements.

    Args:
      raw: the service as read from its schema file.
      elements: its elements, see :func:`elements_by_place`.
      rankings: of its elements' names and descriptions, in any order.
      allow_partial: also compose a service whose elements have at least one good answer each, and repeat it.
    """
    ranking_at = {(ranking.task, ranking.place): ranking for ranking in rankings}
    chosen, short = choose_texts(elements, ranking_at, allow_partial)
    composed = Composed(short=short)
    for place, ranking in ranking_at.items():
        texts = chosen.get(place, [])
        # A repeated answer counts for the first variant that it fills.
        composed.answers += [
            ComposedAnswer(a.response_id, a.distance, texts.index(a.text) + 1 if a.text in texts else None)
            for a in ranking.answers
        ]
    for k in VARIANTS if chosen else ():
        names, descriptions = (
            {place: texts[k - 1] for (of_task, place), texts in chosen.items() if of_task == task} for task in TASKS
        )
        composed.variants.append(matching.compose_variant(raw, k, names, descriptions))
    return composed


def choose_texts(
    elements: Mapping[Place, Element], rankings: Mapping[Place, Ranking], allow_partial: bool = False
) -> tuple[dict[Place, list[str]], list[Short]]:
    """Chooses the five texts of every element by increasing distance; none if the service cannot be composed.

    Returns:
      The texts, and the elements that need more answers.
    """
    candidates = {place: _candidates(element, rankings.get(place)) for place, element in elements.items()}
    names = [answers for (task, _), answers in candidates.items() if task == "names"]
    assigned = assign_names(names, NEEDED)
    missing = {place for place, answers in candidates.items() if len(answers.texts) < NEEDED}
    of_names = {place for place in elements.keys() - missing if place[0] == "names"}
    collided = {place for place in of_names if candidates[place].key not in assigned}
    # An element without answers has nothing to repeat.
    partial = allow_partial and all(answers.texts for answers in candidates.values())
    if missing | collided and partial:
        for task, place in missing | collided:
            candidates[task, place].original = elements[task, place].text(task)
        assigned = assign_names(names, NEEDED)
    short = []
    for (task, place), element in elements.items():
        if (task, place) in missing | collided:
            have = len(candidates[task, place].texts)
            reason, first = ("too_few", have) if (task, place) in missing else ("name_collision", 0)
            short.append(Short(element.id, task, place, have, 0, reason, VARIANTS[first:] if partial else ()))
    chosen: dict[Place, list[str]] = {}
    for (task, place), answers in candidates.items():
        if task == "names" and answers.key in assigned:
            chosen[task, place] = assigned[answers.key]
        elif task == "descriptions" and (len(answers.texts) >= NEEDED or partial):
            texts = ranked(answers.texts[:NEEDED], answers.distances[:NEEDED])
            chosen[task, place] = texts + texts[-1:] * (NEEDED - len(texts))
    return (chosen if len(chosen) == len(elements) else {}), short


def _candidates(element: Element, ranking: Ranking | None) -> Candidates:
    answers = [] if ranking is None else ranking.answers
    texts, distances = [answer.text for answer in answers], [answer.distance for answer in answers]
    return Candidates(element.id, texts, distances, scopes=element.scopes)


class Compose(ingest.WithDeadLetters):
    """Composes the variants of each service.

    The input is the result of :class:`Rank`. The result is a PCollection of (service name, ``{"v1": SERVICE, …, "v5":
    SERVICE}``), one for each service whose elements have five good answers; SERVICE is as in ``schema.json``.
    ``with_outputs()`` has ``variants``, ``dead_letters`` (rankings of services and elements that the schemas do not
    have) and ``composed``: pairs (service name, :class:`Composed`) for every service, with what is missing.

    Args:
      schemas: the schemas of the corpus: anything that ``parapet.compose`` accepts.
      allow_partial: also compose services whose elements have at least one good answer each, which is repeated.

    Raises:
      InputError: the schemas cannot be read.

    Example:
      >>> import apache_beam as beam, parapet
      >>> from parapet.schemas.layout import sample_root
      >>> crowd = sample_root() / "crowd"
      >>> with beam.Pipeline() as pipeline:
      ...     answers = pipeline | parapet.beam.ReadAnswers([crowd / "names.csv", crowd / "descriptions.csv"])
      ...     vetted = answers | parapet.beam.Dedupe() | parapet.beam.Vet(sample_root(), crowd / "decisions.csv")
      ...     variants = vetted | parapet.beam.Rank() | parapet.beam.Compose(sample_root())
      ...     gyms = variants | beam.Filter(lambda pair: pair[0] == "Gyms_1")
      ...     _ = gyms | beam.MapTuple(lambda service, variants: print(list(variants), variants["v3"]["service_name"]))
      ['v1', 'v2', 'v3', 'v4', 'v5'] Gyms_13
    """

    main = "variants"

    def __init__(self, schemas: Any, allow_partial: bool = False) -> None:
        super().__init__()
        self.raws, self.allow_partial = layout.raw_by_name(vet.read_schemas(schemas)), allow_partial

    def outputs(self, rankings: beam.PCollection) -> beam.DoOutputsTuple:
        """Returns ``variants``, ``composed`` and ``dead_letters``."""
        schemas = rankings.pipeline | "Schemas" >> beam.Create(list(self.raws.items()), reshuffle=False)
        by = [lambda pair: (pair[0].partition("/")[0], pair[1]), None]
        services = (rankings, schemas) | "Services" >> ingest.Group(Ranking, dict, by=by)
        allow_partial = self.allow_partial
        return services | "Compose" >> self.apart(lambda group: _compose(group, allow_partial), COMPOSED)


def _compose(
    group: tuple[str, tuple[list[Ranking], list[dict[str, Any]]]], allow_partial: bool
) -> Iterator[tuple[str, dict[str, Any]] | TaggedOutput | rows.DeadLetter]:
    name, (rankings, services) = group
    for raw in services:
        elements = elements_by_place(raw)
        yield from (_unknown(ranking) for ranking in rankings if (ranking.task, ranking.place) not in elements)
        known = (ranking for ranking in rankings if (ranking.task, ranking.place) in elements)
        composed = compose_service(raw, elements, known, allow_partial)
        yield TaggedOutput(COMPOSED, (name, composed))
        if composed.variants:
            yield name, {f"v{k}": variant for k, variant in zip(VARIANTS, composed.variants, strict=True)}
    if not services:
        yield from map(_unknown, rankings)


def _unknown(ranking: Ranking) -> rows.DeadLetter:
    texts = ", ".join(answer.text for answer in ranking.answers)
    reason = f"unknown_element: the schemas have no {ranking.element_id}"
    return rows.DeadLetter("compose", ranking.element_id, reason, texts)
