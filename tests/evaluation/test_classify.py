"""Labelled items equal to scikit-learn, rankings of responses, and what is wrong in lines of predictions."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import cases, raised, write
from sklearn import metrics as sk

from parapet.evaluation import intent, ood, ranking
from parapet.evaluation.intent import Item
from parapet.evaluation.ood import IN_DOMAIN, OOD, metrics_of
from parapet.evaluation.sets import ALL, Keyed, keyed_rows
from parapet.evaluation.task import json_bytes
from parapet.schemas.errors import InputError

LABELS = st.sampled_from(["a", "b", "c", "d", "only predicted"])


@settings(max_examples=25)
@given(st.lists(st.tuples(LABELS.filter(lambda label: label != "only predicted"), LABELS), min_size=1, max_size=60))
def test_intents_equal_to_scikit_learn(pairs):
    truth, said = [one for one, _ in pairs], [one for _, one in pairs]
    classes = sorted(set(truth))
    items = [Item(label, predicted, "") for label, predicted in pairs]
    details = intent.details_of(items)
    found = intent.overall(items, details)
    options = {"labels": classes, "zero_division": 0}
    precision, recall, f1, support = sk.precision_recall_fscore_support(truth, said, **options)
    assert found["accuracy"] == pytest.approx(sk.accuracy_score(truth, said), abs=1e-12)
    assert found["macro_f1"] == pytest.approx(sk.f1_score(truth, said, average="macro", **options), abs=1e-12)
    assert found["macro_precision"] == pytest.approx(precision.mean(), abs=1e-12)
    assert found["macro_recall"] == pytest.approx(recall.mean(), abs=1e-12)
    of_classes = details["classes"]
    assert list(of_classes) == classes
    for label, *numbers in zip(classes, precision, recall, f1, support, strict=True):
        assert [*of_classes[label].values()] == pytest.approx([*numbers, said.count(label)], abs=1e-12)


# Few different scores, so that ties are many.
SCORES = st.one_of(st.sampled_from([-1.0, 0.0, -0.0, 0.5, 1.0]), st.floats(-1e6, 1e6))
ITEMS = st.lists(st.tuples(SCORES, st.booleans()), min_size=1, max_size=50)


@settings(max_examples=25)
@given(ITEMS)
def test_curves_equal_to_scikit_learn(items):
    scores, truth = np.array([score for score, _ in items]), np.array([positive for _, positive in items])
    areas, best = ood.areas(items), ood.best_threshold(items)
    both = truth.any() and not truth.all()
    assert (areas["auroc"] is not None) == both == (areas["fpr95"] is not None)
    assert (areas["aupr"] is not None) == truth.any() == (best is not None)
    if both:
        assert areas["auroc"] == pytest.approx(sk.roc_auc_score(truth, scores), abs=1e-12)
        fpr, tpr, _ = sk.roc_curve(truth, scores, drop_intermediate=False)
        assert areas["fpr95"] == pytest.approx(fpr[np.argmax(tpr >= 0.95 - 1e-12)], abs=1e-12)
    if best is not None:
        assert areas["aupr"] == pytest.approx(sk.average_precision_score(truth, scores), abs=1e-12)
        precision, recall, thresholds = sk.precision_recall_curve(truth, scores)
        f1 = 2 * precision[:-1] * recall[:-1] / np.maximum(precision[:-1] + recall[:-1], 1e-300)
        highest = np.flatnonzero(f1 >= f1.max() - 1e-12)[-1]
        assert best == (thresholds[highest], pytest.approx(f1[highest], abs=1e-12))


@settings(max_examples=25)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1))
def test_precision_and_recall_equal_to_scikit_learn(pairs):
    truth, said = [label for label, _ in pairs], [predicted for _, predicted in pairs]
    wanted = sk.precision_recall_fscore_support(truth, said, pos_label=True, average="binary", zero_division=0)[:3]
    names = {True: OOD, False: IN_DOMAIN}
    found = ood.confusion([Item(names[label], names[predicted], "") for label, predicted in pairs])
    assert [*found.values()] == pytest.approx([sk.accuracy_score(truth, said), *wanted], abs=1e-12)


def test_what_is_not_defined_is_none():
    assert metrics_of([Item(OOD, None, "", 0.9), Item(OOD, None, "", 0.4)]) == {
        "accuracy": None, "precision": None, "recall": None, "f1": None, "auroc": None, "aupr": 1.0, "fpr95": None,
    }  # fmt: skip
    found = metrics_of([Item(label, OOD, "") for label in [OOD] * 2 + [IN_DOMAIN] * 3])
    assert (found["precision"], found["recall"], found["auroc"]) == (0.4, 1.0, None)


class Row(Keyed, kw_only=True):
    value: float


@cases(
    "text line reason",
    ('{"id": "a", "value": NaN}', "line 1", "not JSON"),
    ('{"id": "a", "value": 1e999}', "line 1", "out of range"),
    ('{"id": "a", "value": "\\ud800"}', "line 1", ""),
    ('{"id": "a"}', "line 1", "missing required field `value`"),
    ('{"value": 1}', "line 1", "give an id, or dialogue_id and turn"),
    ('{"id": "a", "turn": 1, "value": 1}', "line 1", "one or the other"),
    ('{"dialogue_id": "a", "turn": -1, "value": 1}', "line 1", "there is no turn -1"),
    ('{"set": "#ALL", "id": "a", "value": 1}', "line 1", "cannot be called"),
    ('{"id": "a", "value": 1}\n{"id": "a", "value": 1}', "line 2", "appears twice: first in line 1"),
    ('{"set": "s", "id": "a", "value": 1}\n{"id": "a", "value": 1}', "line 2", "has no set"),
    ("[1]", "line 1", "Expected `object`"),
    (b'{"id": "\xff", "value": 1}', "line 1", ""),
    ("[" * 100_000, "line 1", ""),
    ("\n \n", "", "contains no rows"),
)
def test_what_is_wrong_is_told_by_line(tmp_path, text, line, reason):
    path = str(write(tmp_path / "rows.jsonl", text))
    caught = raised(InputError, lambda: [*keyed_rows(path, Row)])
    assert (caught.path, caught.where) == (path, line)
    assert reason in caught.reason


def test_numbers_that_are_none_are_null():
    value = {"b": [1.5, float("nan"), {"c": float("-inf")}], "a": "ä"}
    assert json.loads(json_bytes(value)) == {"a": "ä", "b": [1.5, None, {"c": None}]}
    assert json_bytes({"b": 1, "a": 2}) == b'{\n  "a": 2,\n  "b": 1\n}\n'


# Accuracy per response, per dialogue and by field of API calls.


TEST = """\
1 r_1 R_phone r_1_phone
2 hi\thello
3 food in rome\tapi_call french rome four cheap

1 hi\thello
2 <SILENCE>\tbye

"""


PLACES = [(0, 0), (0, 1), (1, 0), (1, 1)]


def rows(answers):
    """Rows of answers; of rankings, if they are lists."""
    made = []
    for (dialogue, turn), answer in zip(PLACES, answers, strict=False):
        said = {"answer": answer[0], "answers": answer} if isinstance(answer, list) else {"answer": answer}
        made.append({"dialogue": dialogue, "turn": turn, **said})
    return made


@cases(
    "answer right",
    ("api_call french  rome four cheap", (1, 1, 1, 1, 1)),
    ("api_call thai rome four cheap", (0, 0, 1, 1, 1)),
    ("api_call french rome four", (0, 1, 1, 1, 0)),
    ("api_call french rome four cheap more", (0, 1, 1, 1, 1)),
    ("hello french rome four cheap", (0, 0, 0, 0, 0)),
    ("", (0, 0, 0, 0, 0)),
)
def test_calls_by_field(answer, right):
    assert tuple(ranking.call_values("api_call french rome four cheap", answer).values()) == right
    assert ranking.call_values("hello", answer) == {}


def test_what_is_right_within_the_first_of_a_ranking(tmp_path):
    call = "api_call french rome four cheap"
    said = rows([["hello"], ["bye", "hello", call], ["bye", "hello"], ["hello", call]])
    places = str(write(tmp_path / "t.txt", TEST)), str(write(tmp_path / "t.jsonl", said))
    test = ranking.read_test(*places, frozenset({"hello", "bye", call}), top=3)
    metrics, _ = ranking.evaluate(ranking.Answers([test]), 3)
    found = metrics[ALL]
    assert [found[f"per_response{k}"] for k in ("", "_top_2", "_top_3")] == [0.25, 0.5, 0.75]
    assert [found[f"per_dialogue{k}"] for k in ("", "_top_2", "_top_3")] == [0, 0, 0.5]
    assert found["mean_reciprocal_rank"] == pytest.approx((1 + 1 / 3 + 1 / 2 + 0) / 4)
    assert [row.values["per_dialogue_top_3"] for row in test.responses] == [None, 1, None, 0]
    assert list(found) == list(ranking.metrics_of(3))
    assert found["api_call"] == 0  # of the best answer alone


@cases(
    "answers reason",
    (None, "line 1: has no answers: 'parapet predict MODEL --top K' writes them"),
    ([], "line 1: has no answers"),
    (["hello", "oops"], "line 1: 'oops' must be one of the candidates"),
)
def test_rankings_that_are_not_sound(tmp_path, answers, reason):
    row = {"dialogue": 0, "turn": 0, "answer": "hello", "answers": answers}
    places = str(write(tmp_path / "reference.txt", "1 hi\thello\n\n")), str(write(tmp_path / "a.jsonl", [row]))
    assert reason in str(raised(InputError, ranking.read_test, *places, frozenset({"hello", "bye"}), top=2))


@cases(
    "answers reason",
    (rows(["hello", "bye", "hello"]), "no answer for dialogue 1 turn 1"),
    (rows(["hello", "bye", "hello", "bye"]) * 2, "line 5: dialogue 0 turn 0 appears twice"),
    ([{"dialogue": 2, "turn": 0, "answer": ""}], "line 1: there is no dialogue 2: must be from 0 to 1"),
    ([{"dialogue": 1, "turn": -1, "answer": ""}], "dialogue 1 has no turn -1: turns of the bot are 0 to 1"),
    ([{"dialogue": 1, "turn": 0, "answer": None}], "line 1: answer: Expected `str`"),
    (rows(["hello", "bye", "hello", "oops"]), "line 4: 'oops' must be one of the candidates"),
)
def test_answers_that_do_not_fit(tmp_path, answers, reason):
    places = str(write(tmp_path / "reference.txt", TEST)), str(write(tmp_path / "a.jsonl", answers))
    assert reason in str(raised(InputError, ranking.read_test, *places, frozenset({"hello", "bye"})))


def test_files_of_a_set_have_different_names():
    raised(InputError, ranking.list_tests, ["x/t.txt", "y/t.txt"], {}, match="two files are called 't'")
