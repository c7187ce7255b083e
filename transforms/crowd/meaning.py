"""Check whether an answer means its own element, rather than another one of the service or something unrelated.

An answer is compared with its element (name, description, other workers' answers) and with all other elements of the
same kind in the service. Its *margin* is how much nearer it is to its own element than to the nearest other one; a
*floor* on the similarity detects answers about an unrelated subject. Both depend on the number of other answers. Texts
are compared by TF-IDF of character n-grams, or by MiniLM if the extra ``meaning`` is installed.

``benchmarks.meaning`` fits the thresholds on published variants and measures their error rates.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from parapet.schemas.service import TASKS, Element, Task
from parapet.transforms.reports import meaning
from parapet.transforms.reports.text import cached_words, name_words

Vector = Mapping[object, float]  # of length 1; empty for a text without words

_GRAMS = (2, 3, 4)
_OTHERS = 2.0  # weight of other workers' answers: as much as name and description together
# factor of the other element's nearness in the margin
_OF_NEAREST: Mapping[Task, float] = {"names": 1.0, "descriptions": 0.8}


# The numbers of other answers for which thresholds were fitted; other numbers are rounded down to one of these.
OTHERS = (0, 1, 2, 4)


class Thresholds(NamedTuple):
    """Thresholds for each of ``OTHERS``.

    Attributes:
      margins: answers with a smaller margin are held.
      floors: answers with a smaller similarity to the element are held.
      false_alarms: the share of correct answers that are held, on the services that were not used for fitting.
    """

    margins: tuple[float, ...]
    floors: tuple[float, ...]
    false_alarms: tuple[float, ...] = ()


# By measure and task. Fitted by benchmarks.meaning on the published variants of two thirds of SGD's services, for a
# false alarm rate of 5 % (descriptions: 4.5 %) by the margin and 0.5 % by the floor. MiniLM's floor for names holds
# 0.9 % of the published ones and 99.7 % of four random words; at 0.5 % it would hold 97 % of the latter.
THRESHOLDS: Mapping[tuple[str, Task], Thresholds] = {
    ("n-grams", "names"): Thresholds((-0.514, -0.38, -0.306, -0.225), (0.0,) * 4, (0.061, 0.053, 0.051, 0.042)),
    ("n-grams", "descriptions"): Thresholds(
        (-0.534, -0.321, -0.212, -0.15), (0.026, 0.023, 0.021, 0.021), (0.055, 0.048, 0.061, 0.065)
    ),
    ("MiniLM", "names"): Thresholds((-0.422, -0.378, -0.28, -0.174), (0.3,) * 4, (0.040, 0.051, 0.034, 0.040)),
    ("MiniLM", "descriptions"): Thresholds((-0.165, 0.029, 0.118, 0.152), (0.303,) * 4, (0.050, 0.046, 0.051, 0.046)),
}


def stated() -> dict[str, Any]:
    """Return the report's data about the check.

    They are the measure, and the thresholds and expected false alarm rates by task and number of other answers.
    """
    columns = ("others", "margin", "floor", "expected_false_alarms")
    content: dict[str, Any] = {"measure": measure()}
    for task in TASKS:
        rows = zip(OTHERS, *THRESHOLDS[measure(), task], strict=True)
        content[task] = [dict(zip(columns, row, strict=True)) for row in rows]
    return content


class Doubt(NamedTuple):
    """The similarity of an answer to its own element, compared with others.

    Attributes:
      margin: how much nearer it is to its own element than to ``nearest``; None if the service has no other element of
        this kind.
      nearest: the nearest other element.
      similarity: the similarity to its own element, from 0 to 1.
      others: the number of other answers for its own element.
    """

    margin: float | None
    nearest: Element | None
    similarity: float
    others: int

    def reason(self, thresholds: Thresholds) -> str | None:
        """Return the reason to hold the answer, with the other element after a colon, or None."""
        i = bisect_right(OTHERS, self.others) - 1
        if self.margin is not None and self.nearest is not None and self.margin < thresholds.margins[i]:
            return f"other_element: {self.nearest.name}"
        return "off_topic" if self.similarity < thresholds.floors[i] else None


def measure() -> str:
    """Return the available measure: a key of ``THRESHOLDS``."""
    return "MiniLM" if meaning.has_model() else "n-grams"


def plain(text: str, task: Task) -> str:
    """Normalise a name or description for comparison: its words, separated by single spaces."""
    return " ".join(name_words(text) if task == "names" else cached_words(text))


class Meaning:
    """Compares answers with the elements of one kind in one service.

    Args:
      task: ``names`` or ``descriptions``.
      elements: all elements of the kind.
      answers: the answers of all workers to each element, by its field; equal answers count once.
      measure: a key of ``THRESHOLDS``.
    """

    def __init__(
        self, task: Task, elements: Sequence[Element], answers: Mapping[str, Iterable[str]], measure: str
    ) -> None:
        self.task, self.elements = task, elements
        own: dict[str, tuple[str, str]] = {}
        distinct: dict[str, list[str]] = {}
        for element in elements:
            name = plain(element.name, "names")
            own[element.field] = (name, plain(element.description, "descriptions") or name)
            distinct[element.field] = sorted({plain(text, task) for text in answers.get(element.field, ())} - {""})
        self.vector = embedded if measure == "MiniLM" else NGrams([*chain(*own.values(), *distinct.values())])
        self.own = {field: [*map(self.vector, pair)] for field, pair in own.items()}
        self.whole = {field: self.vector(" ".join(pair)) for field, pair in own.items()}
        self.answers = {field: frozenset(texts) for field, texts in distinct.items()}
        self.together = {field: total(map(self.vector, texts)) for field, texts in distinct.items()}
        self.nearness = lru_cache(maxsize=1 << 10)(self._nearness)

    def doubt(self, element: Element, answer: str) -> Doubt:
        """Return how far an answer is from its element."""
        text = plain(answer, self.task)
        vector, near = self.nearness(text)
        others = [candidate for candidate in self.elements if candidate.field != element.field]
        nearest = max(others, key=lambda candidate: near[candidate.field], default=None)
        margin = None
        if nearest is not None:
            margin = round(near[element.field] - _OF_NEAREST[self.task] * near[nearest.field], 6)
        similarity = max(dot(vector, own) for own in (self.whole[element.field], *self.own[element.field]))
        return Doubt(margin, nearest, round(similarity, 6), len(self.answers[element.field] - {text}))

    def _nearness(self, text: str) -> tuple[Vector, Mapping[str, float]]:
        """Return the vector of an answer's words and its nearness to each element, by the element's field."""
        vector, near = self.vector(text), {}
        for field, own in self.own.items():
            by_schema = sum(dot(vector, vector_of_text) for vector_of_text in own)
            n, by_answers = len(self.answers[field]), dot(vector, self.together[field])
            if text in self.answers[field]:
                n, by_answers = n - 1, by_answers - dot(vector, vector)
            near[field] = by_schema + _OTHERS * (by_answers / n if n else by_schema / 2)
        return vector, near


@lru_cache(maxsize=1 << 14)
def embedded(text: str) -> Vector:
    """Return MiniLM's embedding, rounded to five digits because the last bits differ between processors."""
    return {i: round(x, 5) for i, x in enumerate(meaning.embedding(text).tolist())} if text else {}


class NGrams:
    """TF-IDF vectors of character n-grams within words, normalised to length 1.

    Args:
      texts: all texts of a service; n-grams that occur in all of them get a low weight.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        gram_counts = Counter(gram for text in texts for gram in _grams(text))
        self.weights = {gram: math.log((1 + len(texts)) / (1 + n)) + 1 for gram, n in gram_counts.items()}
        self.unseen = math.log(1 + len(texts)) + 1

    def __call__(self, text: str) -> Vector:
        """Return the vector of a text."""
        raw = {gram: n * self.weights.get(gram, self.unseen) for gram, n in _grams(text).items()}
        length = math.sqrt(math.fsum(x * x for x in raw.values()))
        return {gram: x / length for gram, x in raw.items()}


@lru_cache(maxsize=1 << 14)
def _grams(text: str) -> Counter[str]:
    padded = [f" {word} " for word in re.findall(r"\w+", text)]
    return Counter(word[i : i + n] for word in padded for n in _GRAMS for i in range(len(word) - n + 1))


def total(vectors: Iterable[Vector]) -> Vector:
    """Return the sum of vectors."""
    summed: dict[object, float] = defaultdict(float)
    for key, x in chain.from_iterable(vector.items() for vector in vectors):
        summed[key] += x
    return summed


def dot(one: Vector, other: Vector) -> float:
    """Return the dot product: the cosine, if both vectors have length 1."""
    if len(one) > len(other):
        one, other = other, one
    return sum(x * other[key] for key, x in one.items() if key in other)
