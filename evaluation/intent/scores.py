"""Accuracy and macro-F1 over classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

METRICS = ("accuracy", "macro_f1", "macro_precision", "macro_recall")


class OfClass(msgspec.Struct, frozen=True):
    """How a class of the reference fared: ``support`` items have it, ``predicted`` were said to."""

    precision: float
    recall: float
    f1: float
    support: int
    predicted: int


def confusion(pairs: Iterable[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """Counts of (class in the reference, predicted class)."""
    return Counter(pairs)


def by_class(counts: Mapping[tuple[str, str], int]) -> dict[str, OfClass]:
    """The classes of the reference, sorted. Precision is 0 where a class is never predicted."""
    support: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    for (label, said), n in counts.items():
        support[label] += n
        predicted[said] += n
    found = {}
    for label in sorted(support):
        right, asked, said_so = counts.get((label, label), 0), support[label], predicted[label]
        precision = right / said_so if said_so else 0.0
        found[label] = OfClass(precision, right / asked, 2 * right / (asked + said_so), asked, said_so)
    return found


def only_predicted(counts: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Classes that no item of the reference has, with how often they were predicted.

    They are no part of the macro-average, which is over the classes of the reference. Each such prediction is wrong,
    and lowers the recall of the class it should have been.
    """
    known = {label for label, _ in counts}
    found: Counter[str] = Counter()
    for (_, said), n in counts.items():
        if said not in known:
            found[said] += n
    return dict(sorted(found.items()))


def overall(counts: Mapping[tuple[str, str], int]) -> dict[str, float | None]:
    """``METRICS`` of items, of which there is at least one; macro-averages are unweighted means over classes."""
    classes = by_class(counts).values()
    right = sum(n for (label, said), n in counts.items() if label == said)
    return {
        "accuracy": right / sum(counts.values()),
        "macro_f1": sum(one.f1 for one in classes) / len(classes),
        "macro_precision": sum(one.precision for one in classes) / len(classes),
        "macro_recall": sum(one.recall for one in classes) / len(classes),
    }


def most_confused(counts: Mapping[tuple[str, str], int], most: int = 20) -> list[tuple[str, str, int]]:
    """(class, what was said instead, how often), the most frequent first; ties by name."""
    wrong = [(label, said, n) for (label, said), n in counts.items() if label != said]
    return sorted(wrong, key=lambda one: (-one[2], one[0], one[1]))[:most]
