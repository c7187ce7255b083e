"""Accuracy per response, per dialogue and by field of API calls."""

import json

import pytest
from kit import cases, raised

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


def write(folder, name, text):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def answers(*given):
    keys = [(0, 0), (0, 1), (1, 0), (1, 1)]
    return "".join(
        f'{{"dialogue": {d}, "turn": {t}, "answer": "{answer}"}}\n' for (d, t), answer in zip(keys, given, strict=False)
    )


def ranked(*given):
    rows = [
        {"dialogue": d, "turn": t, "answer": names[0] if names else "", "answers": names}
        for (d, t), names in zip([(0, 0), (0, 1), (1, 0), (1, 1)], given, strict=True)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


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
        write(tmp_path, "t.txt", TEST),
        write(tmp_path, "t.jsonl", ranked(["hello"], ["bye", "hello", call], ["bye", "hello"], ["hello", call])),
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
    reference = write(tmp_path, "reference.txt", "1 hi\thello\n\n")
    row = json.dumps({"dialogue": 0, "turn": 0, "answer": "hello", "answers": answers})
    with pytest.raises(InputError) as caught:
        ranking.read_test(reference, write(tmp_path, "a.jsonl", row), frozenset({"hello", "bye"}), top=2)
    assert reason in str(caught.value)


def test_files_by_task_oov_beside_plain(tmp_path):
    paths = [write(tmp_path, f"dialog-babi-task1-API-calls-tst{oov}.txt", TEST) for oov in ("", "-OOV")]
    given = tmp_path / "answers"
    write(
        given,
        "dialog-babi-task1-API-calls-tst.jsonl",
        answers("hello", "api_call french rome two cheap", "hello", "bye"),
    )
    oov = answers("hello", "api_call french rome four cheap", "hello", "hello")
    write(given, "dialog-babi-task1-API-calls-tst-OOV.jsonl", oov)
    files = [
        ranking.read_test(reference, answers, frozenset({"hello", "bye"}) if i > 9 else None)
        for i, (_, reference, answers) in enumerate(ranking.answer_files(ranking.list_tests(paths, {}), str(given)))
    ]
    metrics, details = ranking.evaluate(ranking.Answers(files, frozenset({"hello"})))
    assert metrics["task1-API-calls-tst"] == {
        "per_response": 0.75, "per_dialogue": 0.5, "api_call": 0.0, "api_call_cuisine": 1.0,
        "api_call_location": 1.0, "api_call_number": 0.0, "api_call_price": 1.0,
    }  # fmt: skip
    assert metrics[ALL]["api_call"] == metrics["#MEAN"]["api_call"] == 0.5
    assert [row.key for file in files for row in file.responses][:5] == [
        ("task1-API-calls-tst", "task1-API-calls-tst/0", 0), ("task1-API-calls-tst", "task1-API-calls-tst/0", 1),
        ("task1-API-calls-tst", "task1-API-calls-tst/1", 0), ("task1-API-calls-tst", "task1-API-calls-tst/1", 1),
        ("task1-API-calls-tst-OOV", "task1-API-calls-tst-OOV/0", 0),
    ]  # fmt: skip
    assert details["files"]["task1-API-calls-tst"]["not_among_candidates"] == 2


@cases(
    "name text reason",
    ("a.jsonl", answers("hello", "bye", "hello"), "no answer for dialogue 1 turn 1"),
    ("a.jsonl", answers("hello", "bye", "hello", "bye") * 2, "line 5: dialogue 0 turn 0 appears twice"),
    ("a.jsonl", '{"dialogue": 2, "turn": 0, "answer": ""}', "line 1: there is no dialogue 2: must be from 0 to 1"),
    ("a.jsonl", '{"dialogue": 1, "turn": -1, "answer": ""}', "dialogue 1 has no turn -1: turns of the bot are 0 to 1"),
    ("a.jsonl", '{"dialogue": 1, "turn": 0, "answer": null}', "line 1: answer: Expected `str`"),
    ("a.jsonl", answers("hello", "bye", "hello", "oops"), "line 4: 'oops' must be one of the candidates"),
)
def test_answers_that_do_not_fit(tmp_path, name, text, reason):
    reference = write(tmp_path, "reference.txt", TEST)
    caught = raised(InputError, ranking.read_test, reference, write(tmp_path, name, text), frozenset({"hello", "bye"}))
    assert reason in str(caught)


def test_every_file_has_its_answers(tmp_path):
    one, other = write(tmp_path / "x", "t.txt", TEST), write(tmp_path / "y", "t.txt", TEST)
    raised(InputError, ranking.list_tests, [one, other], {}, match="two files are called 't'")
    raised(InputError, ranking.answer_files, {"original": [one]}, str(tmp_path), match="expected t.jsonl")
    raised(InputError, ranking.answer_files, {"original": [one, other]}, one, match="is a file, but there are 2")
