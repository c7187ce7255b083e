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
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from parapet.schemas.service import TASKS, Element, Task
from parapet.transforms.reports import meaning
from parapet.transforms.reports.text import cached_words, name_words

Vector = Mapping[object, float]  # of length 1; empty for a text without words
Vectors = Callable[[str], Vector]

_GRAMS = (2, 3, 4)
_OTHERS = 2.0  # weight of other workers' answers: as much as name and description together
# factor of the other element's nearness in the margin
_OF_NEAREST: Mapping[Task, float] = {"names": 1.0, "descriptions": 0.8}


class Thresholds(NamedTuple):
    """Thresholds: answers with a smaller margin, or a similarity to the element below ``floor``, are held."""

    margin: float
    floor: float


# The numbers of other answers for which thresholds were fitted; other numbers are rounded down to one of these.
OTHERS = (0, 1, 2, 4)

# By measure and task, for each of OTHERS. Fitted by benchmarks.meaning on the published variants of two thirds of SGD's
# services, for a false alarm rate of 5 % (descriptions: 4.5 %) by the margin and 0.5 % by the floor. MiniLM's floor for
# names holds 0.9 % of the published ones and 99.7 % of four random words; at 0.5 % it would hold 97 % of the latter.
THRESHOLDS: Mapping[tuple[str, Task], tuple[Thresholds, ...]] = {
    ("n-grams", "names"): (
        Thresholds(-0.514, 0.0),
        Thresholds(-0.38, 0.0),
        Thresholds(-0.306, 0.0),
        Thresholds(-0.225, 0.0),
    ),
    ("n-grams", "descriptions"): (
        Thresholds(-0.534, 0.026),
        Thresholds(-0.321, 0.023),
        Thresholds(-0.212, 0.021),
        Thresholds(-0.15, 0.021),
    ),
    ("MiniLM", "names"): (
        Thresholds(-0.422, 0.3),
        Thresholds(-0.378, 0.3),
        Thresholds(-0.28, 0.3),
        Thresholds(-0.174, 0.3),
    ),
    ("MiniLM", "descriptions"): (
        Thresholds(-0.165, 0.303),
        Thresholds(0.029, 0.303),
        Thresholds(0.118, 0.303),
        Thresholds(0.152, 0.303),
    ),
}

# The share of correct answers that are held, on the services that were not used for fitting.
FALSE_ALARMS: Mapping[tuple[str, Task], tuple[float, ...]] = {
    ("n-grams", "names"): (0.061, 0.053, 0.051, 0.042),
    ("n-grams", "descriptions"): (0.055, 0.048, 0.061, 0.065),
    ("MiniLM", "names"): (0.040, 0.051, 0.034, 0.040),
    ("MiniLM", "descriptions"): (0.050, 0.046, 0.051, 0.046),
}


def stated() -> dict[str, Any]:
    """Return the report's data about the check.

    They are the measure, and the thresholds and expected false alarm rates by task and number of other answers.
    """
    used = measure()
    return {
        "measure": used,
        **{
            task: [
                {"others": n, **limits._asdict(), "expected_false_alarms": share}
                for n, limits, share in zip(OTHERS, THRESHOLDS[used, task], FALSE_ALARMS[used, task], strict=True)
            ]
            for task in TASKS
        },
    }


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

    def reason(self, thresholds: Sequence[Thresholds]) -> str:
        """Return the id of the reason to hold the answer, with the other element after a colon; empty if it passes.

        Args:
          thresholds: one for each of ``OTHERS``.
        """
        limits = thresholds[bisect_right(OTHERS, self.others) - 1]
        if self.margin is not None and self.nearest is not None and self.margin < limits.margin:
            return f"other_element: {self.nearest.name}"
        return "off_topic" if self.similarity < limits.floor else ""


class Compared(NamedTuple):
    """An answer: its words, their vector, and its nearness to each element, by the element's field."""

    words: str
    vector: Vector
    near: Mapping[str, float]


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
        texts_by_field = {
            field: sorted({plain(text, task) for text in texts} - {""}) for field, texts in answers.items()
        }
        own = {
            element.field: (
                plain(element.name, "names"),
                plain(element.description, "descriptions") or plain(element.name, "names"),
            )
            for element in elements
        }
        texts = [text for pair in own.values() for text in pair] + [
            text for said_texts in texts_by_field.values() for text in said_texts
        ]
        self.vector: Vectors = embedded if measure == "MiniLM" else NGrams(texts)
        self.own = {field: [self.vector(text) for text in pair] for field, pair in own.items()}
        self.whole = {field: self.vector(" ".join(pair)) for field, pair in own.items()}
        self.said = {
            field: (len(said_texts), total(map(self.vector, said_texts)))
            for field, said_texts in texts_by_field.items()
        }
        self.counted = {field: frozenset(said_texts) for field, said_texts in texts_by_field.items()}

    def compared(self, text: str) -> Compared:
        """Compare an answer with each element and with the other workers' answers."""
        answer = plain(text, self.task)
        vector = self.vector(answer)
        return Compared(
            answer, vector, {element.field: self._score(element, vector, answer) for element in self.elements}
        )

    def doubt(self, element: Element, answer: str | Compared) -> Doubt:
        """Return how far an answer is from its element."""
        answer_here, vector, near = self.compared(answer) if isinstance(answer, str) else answer
        others = [candidate for candidate in self.elements if candidate.field != element.field]
        nearest = max(others, key=lambda candidate: near[candidate.field], default=None)
        margin = None
        if nearest is not None:
            margin = round(near[element.field] - _OF_NEAREST[self.task] * near[nearest.field], 6)
        similarity = max(
            dot(vector, vector_of_other) for vector_of_other in (self.whole[element.field], *self.own[element.field])
        )
        repeated = self.counted.get(element.field, frozenset())
        return Doubt(margin, nearest, round(similarity, 6), len(repeated - {answer_here}))

    def _score(self, element: Element, vector: Vector, text: str) -> float:
        by_schema = sum(dot(vector, other_vector) for other_vector in self.own[element.field])
        n, together = self.said.get(element.field, (0, {}))
        nearness = dot(vector, together)
        if text in self.counted.get(element.field, ()):
            n, nearness = n - 1, nearness - dot(vector, vector)
        return by_schema + _OTHERS * (nearness / n if n else by_schema / 2)


def embedded(text: str) -> Vector:
    """Return MiniLM's embedding, rounded to five digits because the last bits differ between processors."""
    return _embedded(text) if text else {}


@lru_cache(maxsize=1 << 14)
def _embedded(text: str) -> Vector:
    return {i: round(x, 5) for i, x in enumerate(meaning.embedding(text).tolist())}


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
    for vector in vectors:
        for key, x in vector.items():
            summed[key] += x
    return dict(summed)


def dot(one: Vector, other: Vector) -> float:
    """Return the dot product: the cosine, if both vectors have length 1."""
    if len(one) > len(other):
        one, other = other, one
    return sum(x * other[key] for key, x in one.items() if key in other)
