"""Metrics of a detector's scores, equal to scikit-learn's.

Three formulas over whole counts; scikit-learn itself, with SciPy, would be a large dependency for them, and holds them
in the tests. Items with one score are one step of a curve: they cannot be told apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import msgspec

# A score, and whether the item is of the positive class.
Scored = tuple[float, bool]


class Point(msgspec.Struct, frozen=True):
    """What is positive from a threshold on: right (``tp``) and wrong (``fp``)."""

    threshold: float
    tp: int
    fp: int


def points_of(items: Iterable[Scored]) -> list[Point]:
    """A point for each different score, the highest first."""
    found: list[Point] = []
    tp = fp = 0
    for score, positive in sorted(items, key=lambda item: -item[0]):
        tp, fp = tp + positive, fp + (not positive)
        if found and found[-1].threshold == score:
            found.pop()
        found.append(Point(score, tp, fp))
    return found


def auroc(points: Sequence[Point]) -> float | None:
    """Area under the ROC curve: how often a positive item scores above a negative, ties being half. None without both.

    scikit-learn's ``roc_auc_score``.
    """
    if not points or not points[-1].tp or not points[-1].fp:
        return None
    twice = before_tp = before_fp = 0
    for point in points:
        twice += (point.fp - before_fp) * (point.tp + before_tp)
        before_tp, before_fp = point.tp, point.fp
    return twice / (2 * points[-1].tp * points[-1].fp)


def aupr(points: Sequence[Point]) -> float | None:
    """Area under the precision-recall curve as average precision, without interpolation. None without positives.

    scikit-learn's ``average_precision_score``.
    """
    if not points or not points[-1].tp:
        return None
    before, terms = 0, []
    for point in points:
        terms.append((point.tp - before) * point.tp / (point.tp + point.fp))
        before = point.tp
    return math.fsum(terms) / points[-1].tp


def fpr95(points: Sequence[Point]) -> float | None:
    """The false positive rate at the highest threshold with a true positive rate of 95% or more. None without both.

    That of scikit-learn's ``roc_curve(..., drop_intermediate=False)``.
    """
    if not points or not points[-1].tp or not points[-1].fp:
        return None
    wanted = next(point for point in points if 20 * point.tp >= 19 * points[-1].tp)
    return wanted.fp / points[-1].fp


def best_threshold(points: Sequence[Point]) -> float | None:
    """The threshold, one of the scores, from which on F1 is highest; of several the highest. None without positives."""
    if not points or not points[-1].tp:
        return None
    positives = points[-1].tp
    best = max(points, key=lambda one: (Fraction(2 * one.tp, positives + one.tp + one.fp), one.threshold))
    return best.threshold


def precision_recall_f1(pairs: Iterable[tuple[bool, bool]]) -> tuple[float, float, float]:
    """Of (positive, predicted positive); 0 where there is nothing to divide by, as scikit-learn has it."""
    tp = fp = fn = 0
    for positive, predicted in pairs:
        tp += positive and predicted
        fp += predicted and not positive
        fn += positive and not predicted
    precision = tp / (tp + fp) if tp + fp else 0.0
    recall = tp / (tp + fn) if tp + fn else 0.0
    return precision, recall, 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 0.0
