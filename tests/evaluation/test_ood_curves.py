"""Curves of a detector's scores, held against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from parapet.evaluation import ood
from parapet.evaluation.ood import Threshold, Turn, metrics_of, tune

# Few different scores, so that ties are many.
SCORES = st.one_of(st.sampled_from([-1.0, 0.0, -0.0, 0.5, 1.0]), st.floats(-1e6, 1e6))
ITEMS = st.lists(st.tuples(SCORES, st.booleans()), min_size=1, max_size=50)


@settings(max_examples=25)
@given(ITEMS)
def test_equal_to_scikit_learn(items):
    curve = ood.curve_of(items)
    scores, truth = np.array([score for score, _ in items]), np.array([positive for _, positive in items])
    both = truth.any() and not truth.all()
    assert (ood.auroc(curve) is not None) == both == (ood.fpr95(curve) is not None)
    assert (ood.aupr(curve) is not None) == truth.any()
    if both:
        assert ood.auroc(curve) == pytest.approx(sk.roc_auc_score(truth, scores), abs=1e-12)
        fpr, tpr, _ = sk.roc_curve(truth, scores, drop_intermediate=False)
        assert ood.fpr95(curve) == pytest.approx(fpr[np.argmax(tpr >= 0.95 - 1e-12)], abs=1e-12)
    if truth.any():
        assert ood.aupr(curve) == pytest.approx(sk.average_precision_score(truth, scores), abs=1e-12)
        best = ood.best_threshold(curve)
        assert best is not None
        precision, recall, thresholds = sk.precision_recall_curve(truth, scores)
        f1 = 2 * precision[:-1] * recall[:-1] / np.maximum(precision[:-1] + recall[:-1], 1e-300)
        assert best == thresholds[np.flatnonzero(f1 >= f1.max() - 1e-12)[-1]]
    else:
        assert ood.best_threshold(curve) is None


@settings(max_examples=25)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1))
def test_precision_and_recall_equal_to_scikit_learn(pairs):
    truth, said = [one for one, _ in pairs], [one for _, one in pairs]
    wanted = sk.precision_recall_fscore_support(truth, said, pos_label=True, average="binary", zero_division=0)[:3]
    assert ood.precision_recall_f1(pairs) == pytest.approx(wanted, abs=1e-12)


TURNS = [
    Turn(ood, score, None, "") for ood, score in [(True, 0.9), (True, 0.4), (False, 0.5), (False, 0.1), (False, 0.2)]
]


def test_metrics_by_a_threshold():
    assert metrics_of(TURNS, [turn.score >= 0.4 for turn in TURNS]) == pytest.approx(
        {"accuracy": 0.8, "precision": 2 / 3, "recall": 1.0, "f1": 0.8, "auroc": 5 / 6, "aupr": 5 / 6, "fpr95": 1 / 3}
    )
    assert tune(TURNS) == Threshold(0.4, 0.8, 5)
    assert tune(TURNS[2:]) is None


def test_of_thresholds_with_one_f1_the_highest_is_taken():
    # From 3 on: 1 of 2 found, none wrong. From 1 on: both found, 2 wrong. F1 is 2/3 either way.
    assert ood.best_threshold(ood.curve_of([(3.0, True), (2.0, False), (1.5, False), (1.0, True)])) == 3.0


def test_what_is_not_defined_is_none():
    assert metrics_of(TURNS[:2], [None, None]) == {
        "accuracy": None, "precision": None, "recall": None, "f1": None, "auroc": None, "aupr": 1.0, "fpr95": None,
    }  # fmt: skip
    found = metrics_of([Turn(turn.ood, None, True, "") for turn in TURNS], [True] * 5)
    assert (found["precision"], found["recall"], found["auroc"]) == (0.4, 1.0, None)
