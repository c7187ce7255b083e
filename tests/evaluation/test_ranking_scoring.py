"""Accuracy per response, per dialogue and by field of API calls."""

import pytest
from kit import cases, raised, write

from parapet.evaluation import ranking
from parapet.evaluation.sets import ALL
from parapet.schemas.errors import InputError

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
    rankings = [answer if isinstance(answer, list) else None for answer in answers]
    return [
        {"dialogue": d, "turn": t, "answer": ranking[0] if ranking else answer}
        | ({"answers": ranking} if ranking else {})
        for (d, t), answer, ranking in zip(PLACES, answers, rankings, strict=False)
    ]


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
    test = ranking.read_test(
        str(write(tmp_path / "t.txt", TEST)),
        str(write(tmp_path / "t.jsonl", rows([["hello"], ["bye", "hello", call], ["bye", "hello"], ["hello", call]]))),
        frozenset({"hello", "bye", call}),
        top=3,
    )
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
    caught = raised(InputError, ranking.read_test, *places, frozenset({"hello", "bye"}), top=2)
    assert reason in str(caught)


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
    caught = raised(InputError, ranking.read_test, *places, frozenset({"hello", "bye"}))
    assert reason in str(caught)


def test_files_of_a_set_have_different_names():
    raised(InputError, ranking.list_tests, ["x/t.txt", "y/t.txt"], {}, match="two files are called 't'")
