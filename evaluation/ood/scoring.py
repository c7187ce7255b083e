"""The metrics of a set's turns, and a threshold that is tuned on others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from parapet.evaluation.lines import Key, groups_of, with_mean
from parapet.evaluation.ood import curves
from parapet.evaluation.ood.reading import OOD, Turn

Class = Literal["ood", "in_domain"]

METRICS = ("accuracy", "precision", "recall", "f1", "auroc", "aupr", "fpr95")


class Settings(msgspec.Struct, frozen=True):
    """How turns are scored.

    Attributes:
      positive: the class that is to be found: precision, recall, F1, AUPR and FPR95 are its.
      high: the class that a high score speaks for.
      threshold: from which on a turn is positive, in terms of the positive class's score; None where the predicted
        labels count, if there are any.
    """

    positive: Class = "ood"
    high: Class = "ood"
    threshold: float | None = None


def scored(turns: Iterable[Turn], settings: Settings) -> list[curves.Scored]:
    """Scores as of the positive class, and whether a turn is of it. All turns must have a score."""
    return [
        (_score(turn, settings), turn.ood == (settings.positive == OOD)) for turn in turns if turn.score is not None
    ]


def _score(turn: Turn, settings: Settings) -> float:
    assert turn.score is not None
    # Not -0.0: it would be told apart in the outputs.
    return turn.score if settings.positive == settings.high else 0.0 - turn.score


def tuned(turns: Sequence[Turn], settings: Settings) -> tuple[float, float] | None:
    """(the threshold of the highest F1, that F1); None where no turn is of the positive class."""
    items = scored(turns, settings)
    threshold = curves.best_threshold(curves.points_of(items))
    if threshold is None:
        return None
    return threshold, curves.precision_recall_f1((positive, score >= threshold) for score, positive in items)[2]


def is_positive(turn: Turn, settings: Settings) -> bool | None:
    """Whether a turn is taken for positive; None where nothing says so."""
    if settings.threshold is not None:
        return _score(turn, settings) >= settings.threshold
    return None if turn.predicted is None else turn.predicted == (settings.positive == OOD)


def metrics_of(turns: Sequence[Turn], settings: Settings) -> dict[str, float | None]:
    """``METRICS`` of turns, of which there is at least one; None where one is not defined."""
    found: dict[str, float | None] = dict.fromkeys(METRICS)
    truth = [turn.ood == (settings.positive == OOD) for turn in turns]
    said = [is_positive(turn, settings) for turn in turns]
    if said[0] is not None:
        found["accuracy"] = sum(a == b for a, b in zip(truth, said, strict=True)) / len(turns)
        pairs = [(a, bool(b)) for a, b in zip(truth, said, strict=True)]
        found["precision"], found["recall"], found["f1"] = curves.precision_recall_f1(pairs)
    if turns[0].score is not None:
        points = curves.points_of(scored(turns, settings))
        found |= {"auroc": curves.auroc(points), "aupr": curves.aupr(points), "fpr95": curves.fpr95(points)}
    return found


def evaluate(turns: Mapping[Key, Turn], settings: Settings) -> tuple[dict[str, Any], dict[str, Any]]:
    """(``metrics.json``, how many turns each group has)."""
    metrics, counts = {}, {}
    for name, keys in groups_of(turns).items():
        of = [turns[key] for key in keys]
        metrics[name] = metrics_of(of, settings)
        counts[name] = {"turns": len(of), "ood": sum(turn.ood for turn in of)}
    return with_mean(metrics), counts
