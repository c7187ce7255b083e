"""Check whether an answer means its own element, rather than another one of the service or something unrelated.

An answer is compared with its element (name, description, other workers' answers) and with all other elements of the
same kind in the service. Its *margin* is how much nearer it is to its own element than to the nearest other one; a
*floor* on the similarity detects answers about an unrelated subject. Both depend on the number of other answers. Texts
are compared by TF-IDF of character n-grams, or by MiniLM if the extra ``meaning`` is installed.

``benchmarks.meaning`` fits the thresholds on published variants and measures their error rates.
"""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parapet.schemas.service import TASKS, Element, Task
from parapet.transforms.report import meaning
from parapet.transforms.report.text import cached_words, name_words

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
    """Returns the report's data about the check.

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
        """Returns the reason to hold the answer, with the other element after a colon, or None."""
        i = bisect_right(OTHERS, self.others) - 1
        if self.margin is not None and self.nearest is not None and self.margin < thresholds.margins[i]:
            return f"other_element: {self.nearest.name}"
        return "off_topic" if self.similarity < thresholds.floors[i] else None


def measure() -> str:
    """Returns the available measure: a key of ``THRESHOLDS``."""
    return "MiniLM" if meaning.has_model() else "n-grams"


def plain(text: str, task: Task) -> str:
    """Normalises a name or description for comparison: its words, separated by single spaces."""
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
        self.positions = {element.field: i for i, element in enumerate(elements)}
        own: list[tuple[str, str]] = []
        self.answers: list[frozenset[str]] = []
        for element in elements:
            name = plain(element.name, "names")
            own.append((name, plain(element.description, "descriptions") or name))
            self.answers.append(frozenset(plain(text, task) for text in answers.get(element.field, ())) - {""})
        self.vectors = Embeddings() if measure == "MiniLM" else NGrams([*chain(*own, *map(sorted, self.answers))])
        # For each element: name, description, both together, and the sum of all answers.
        self.matrix = np.zeros((self.vectors.size, 4 * len(elements)))
        for i, (name, description) in enumerate(own):
            texts = (name, description, f"{name} {description}")
            for column, text in [*enumerate(texts), *((3, text) for text in sorted(self.answers[i]))]:
                places, values = self.vectors(text)
                self.matrix[places, 4 * i + column] += values
        self.compared: dict[str, tuple[list[float], list[float]]] = {}

    def doubt(self, element: Element, answer: str) -> Doubt:
        """Returns how far an answer is from its element."""
        text, i = plain(answer, self.task), self.positions[element.field]
        if text not in self.compared:
            self.compared[text] = self._compare(text)
        similarities, near = self.compared[text]
        nearest = max((j for j in range(len(self.elements)) if j != i), key=near.__getitem__, default=None)
        margin = None if nearest is None else round(near[i] - _OF_NEAREST[self.task] * near[nearest], 6)
        similarity = round(similarities[i], 6)
        n = len(self.answers[i] - {text})
        return Doubt(margin, None if nearest is None else self.elements[nearest], similarity, n)

    def _compare(self, text: str) -> tuple[list[float], list[float]]:
        """Returns an answer's similarity and nearness to each element."""
        places, values = self.vectors(text)
        # Row by row, in the order of a plain loop, so that the last bits are the same on any processor.
        products: list[float] = (self.matrix[places] * values[:, None]).sum(axis=0).tolist()
        near = []
        for i, answers in enumerate(self.answers):
            name, description, _, by_answers = products[4 * i : 4 * i + 4]
            n = len(answers)
            if text in answers:
                n, by_answers = n - 1, by_answers - float((values * values).sum())
            near.append(name + description + _OTHERS * (by_answers / n if n else (name + description) / 2))
        return [max(products[4 * i : 4 * i + 3]) for i in range(len(near))], near


Vector = tuple[NDArray[np.int64], NDArray[np.float64]]  # places and values; empty for a text without words
_NOTHING: Vector = (np.zeros(0, np.int64), np.zeros(0))


class Embeddings:
    """MiniLM's embeddings, rounded to five digits because the last bits differ between processors."""

    size = 384

    def __call__(self, text: str) -> Vector:
        """Returns the vector of a text."""
        return (np.arange(self.size), _embedding(text)) if text else _NOTHING


@lru_cache(maxsize=1 << 14)
def _embedding(text: str) -> NDArray[np.float64]:
    return np.array([round(x, 5) for x in meaning.embedding(text).tolist()])


class NGrams:
    """TF-IDF vectors of character n-grams within words, normalised to length 1.

    Args:
      texts: all texts of a service; n-grams that occur in all of them get a low weight.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        counts = Counter(gram for text in texts for gram in _grams(text))
        self.places = {gram: place for place, gram in enumerate(counts)}
        self.size = len(counts)
        # The last weight is that of n-grams that no text has.
        self.weights = np.array([math.log((1 + len(texts)) / (1 + n)) + 1 for n in (*counts.values(), 0)])

    def __call__(self, text: str) -> Vector:
        """Returns the vector of a text."""
        grams = _grams(text)
        places = np.fromiter((self.places.get(gram, -1) for gram in grams), np.int64, len(grams))
        values = np.fromiter(grams.values(), np.float64, len(grams)) * self.weights[places]
        if len(values):
            values /= math.sqrt(math.fsum(values * values))
        known = places >= 0
        return places[known], values[known]


@lru_cache(maxsize=1 << 10)
def _grams(text: str) -> Counter[str]:
    padded = [f" {word} " for word in re.findall(r"\w+", text)]
    return Counter(word[i : i + n] for word in padded for n in _GRAMS for i in range(len(word) - n + 1))
