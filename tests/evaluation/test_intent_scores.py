"""Accuracy and macro-F1, held against scikit-learn."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from parapet.evaluation import intent as scores
from parapet.evaluation.intent import Item

LABELS = st.sampled_from(["a", "b", "c", "d", "only predicted"])


@settings(max_examples=25)
@given(st.lists(st.tuples(LABELS.filter(lambda label: label != "only predicted"), LABELS), min_size=1, max_size=60))
def test_equal_to_scikit_learn(pairs):
    truth, said = [one for one, _ in pairs], [one for _, one in pairs]
    classes = sorted(set(truth))
    items = [Item(label, predicted, "") for label, predicted in pairs]
    details = scores.details_of(items)
    found = scores.overall(items, details)
    options = {"labels": classes, "zero_division": 0}
    precision, recall, f1, support = sk.precision_recall_fscore_support(truth, said, **options)
    assert found["accuracy"] == pytest.approx(sk.accuracy_score(truth, said), abs=1e-12)
    assert found["macro_f1"] == pytest.approx(sk.f1_score(truth, said, average="macro", **options), abs=1e-12)
    assert found["macro_precision"] == pytest.approx(precision.mean(), abs=1e-12)
    assert found["macro_recall"] == pytest.approx(recall.mean(), abs=1e-12)
    of_classes = details["classes"]
    assert list(of_classes) == classes
    for i, label in enumerate(classes):
        one = of_classes[label]
        assert (one["precision"], one["recall"], one["f1"]) == pytest.approx(
            (precision[i], recall[i], f1[i]), abs=1e-12
        )
        assert (one["support"], one["predicted"]) == (support[i], said.count(label))
