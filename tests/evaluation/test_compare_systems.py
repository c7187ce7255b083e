"""What systems are compared on: reading what evaluate wrote, what they share, and what cannot be compared."""

import json

import msgspec
import pytest
from compare_folders import JGA, KEYS, groups, intent_metrics, intents, mean, sensitivity, states
from kit import cases, raised

from parapet.evaluation.compare.board import read_systems, read_task
from parapet.evaluation.compare.kinds import absent_groups, columns_of
from parapet.evaluation.compare.significance import read_rows
from parapet.evaluation.results import RESULTS, SENSITIVITY, VARIANTS, read_results, results_bytes
from parapet.schemas.errors import InputError

BASE = [1.0, 0.0, 1.0, 1.0]
SETS = {"original": BASE, "v1": [1.0, 0.0, 1.0, 0.0], "v2": [0.0, 0.0, 1.0, 0.5]}


def values_of(results):
    return {row.column: row.value for row in results.rows}


def test_states_by_set_and_by_group(tmp_path):
    results = read_task(states(tmp_path / "one", SETS, split="dev"))
    values = values_of(results)
    assert (results.variants, results.options["split"]) == (("v1", "v2"), "dev")
    assert {row.group for row in results.rows} == {"all", "seen", "unseen", "Inns_1", "Cabs_1"}
    assert values[f"dst/v2/{JGA}"] == 0.375
    assert values[f"dst/v2/unseen/{JGA}"] == 0.25
    assert values[f"dst/v2/Cabs_1/{JGA}"] == 0.25  # under the original's name
    assert values[f"dst/{VARIANTS}/{JGA}"] == (0.5 + 0.375) / 2
    assert values[f"dst/{VARIANTS}/{SENSITIVITY}"] == sensitivity([SETS["v1"], SETS["v2"]])
    assert [row.column for row in columns_of(results.rows)] == [
        "dst/original/joint_goal_accuracy", "dst/v1/joint_goal_accuracy", "dst/v2/joint_goal_accuracy",
        "dst/#VARIANTS/joint_goal_accuracy", "dst/#VARIANTS/schema_sensitivity",
    ]  # fmt: skip


def test_metrics_that_are_not_there(tmp_path):
    results = read_task(groups(tmp_path / "ood", "ood", {"#ALL": {"fpr95": 0.1, "bleu": 3.0}}))
    raised(
        InputError,
        columns_of,
        results.rows,
        ["f2"],
        match="there is no metric 'f2': must be one of bleu, fpr95",
    )
    raised(InputError, columns_of, results.rows, match="must name at least one metric")


def test_rows_that_do_not_average_to_the_number(tmp_path):
    results = read_task(intents(tmp_path / "one", intent_metrics(0.5, 1.0, 0.7), [1.0, None, 1.0]))
    _, parts = read_rows(results, [row for row in results.rows if row.metric == "accuracy"])
    assert parts == {("", "intent/b/accuracy"): ({"d0": (1.0, 1)},)}


def test_systems_are_compared_on_what_they_share(tmp_path):
    one = states(tmp_path / "one", {**SETS, "typos": BASE})
    other = states(tmp_path / "other", {**SETS, "v3": BASE, "simple": BASE})
    found = groups(tmp_path / "ood", "ood", {"#ALL": {"f1": 0.5}})
    systems, _ = read_systems({"a": [one, found], "b": [other]})
    assert systems.columns == [f"dst/{name}/joint_goal_accuracy" for name in ("original", "v1", "v2")]
    assert systems.left_out == [
        "set v3 of task dst: not scored for 'a'",
        "mean over the variants of dst: the systems were not scored on the same variants",
        "set typos of task dst: not scored for 'b'",
        "set simple of task dst: not scored for 'a'",
        "task ood: not scored for 'b'",
    ]
    with pytest.raises(InputError, match=r"in common: task dst: not scored for 'b'; task ood: .*--all shows all"):
        read_systems({"a": [one], "b": [found]})
    assert read_systems({"a": [one, found]})[0].left_out == []


def test_what_is_over_all_sets_is_no_common_number_of_different_sets(tmp_path):
    one = intents(tmp_path / "one", intent_metrics(0.5, 1.0, 0.7), [1.0, 1.0, 1.0])
    some = {name: of for name, of in intent_metrics(1, 1, 1).items() if name != "b"}
    systems, _ = read_systems({"one": [one], "other": [intents(tmp_path / "other", some, [1.0, 1.0], KEYS[:2])]})
    assert {row.set for row in systems.rows} == {"a"}
    assert systems.left_out == ["set b of task intent: not scored for 'other'"]


def test_what_cannot_be_compared(tmp_path):
    one = intents(tmp_path / "one", intent_metrics(0.5, 1.0, 2 / 3), [1.0, 0.0, 1.0])
    for path, reason in (
        (
            intents(tmp_path / "rows", intent_metrics(1, 1, 1), [1.0, 1.0], KEYS[:2]),
            "different turns of set 'b' were scored: 1 only for 'one', 0 only for 'other'; the first is turn 2 of "
            "dialogue 'd0'",
        ),
        (
            intents(tmp_path / "twice", intent_metrics(1, 1, 1), [1.0] * 4, [*KEYS, KEYS[0]]),
            "different turns of set 'a' were scored: 1 only for 'one', 1 only for 'other'",
        ),
        (
            intents(tmp_path / "options", intent_metrics(1, 1, 1), [1.0, 1.0, 1.0], positive="ood"),
            "scored in different ways: positive is None for 'one', 'ood' for 'other'",
        ),
    ):
        assert raised(InputError, read_systems, {"one": [one], "other": [path]}, match=reason).path == path
    raised(InputError, read_systems, {"a": [one], "b": [one, one]}, match="'b' has two results of task 'intent'")


def test_requests_that_an_endpoint_refused_are_no_other_turns(tmp_path):
    systems = {
        "one": [intents(tmp_path / "one", intent_metrics(0.5, 1.0, 2 / 3), [1.0, 0.0, 1.0])],
        "other": [intents(tmp_path / "other", intent_metrics(1, 1, 1), [1.0, 1.0], KEYS[:2])],
    }
    path = tmp_path / "other/run.json"
    run = json.loads(path.read_text())
    path.write_text(json.dumps({**run, "counts": {"turns": 2, "refused/b": 1}}))
    left_out = ["1 item of set b of task intent for 'other', which its endpoint refused"]
    assert read_systems(systems)[0].left_out == left_out
    path.write_text(json.dumps({**run, "counts": {"refused/a": 1}}))
    raised(InputError, read_systems, systems, match="different turns of set 'b' were scored")


@cases(
    "files reason",
    ({}, "there is no finished output of 'parapet evaluate'"),
    ({"run.json": "[]"}, "Expected `object`, got `array`"),
    ({"run.json": '{"pipeline": "ood"}'}, "contains the output of 'parapet ood'"),
    ({"run.json": '{"pipeline": "evaluate_ood"}'}, "there is no such file"),
    ({"run.json": '{"pipeline": "evaluate_ood"}', "results.parquet": "{"}, "cannot be read as Parquet"),
)
def test_folders_that_are_no_evaluation(tmp_path, files, reason):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    raised(InputError, read_task, str(tmp_path), match=reason)
    raised(InputError, read_task, str(tmp_path / "nothing"), match="there is no finished output")


@cases(
    "place content reason",
    ("rows/v1/dialogues_001.parquet", b"PAR1", "cannot be read as Parquet"),
    ("examples.json", b'[{"drop": "x"}]', "drop"),
)
def test_files_that_cannot_be_read(tmp_path, place, content, reason):
    path = states(tmp_path / "one", SETS)
    (tmp_path / "one" / place).write_bytes(content)
    raised(InputError, read_systems, {"one": [path]}, match=reason)


def test_other_tasks_have_a_mean_over_variants(tmp_path):
    sets = ["original", "v1", "v2"]
    of = {name: {"combined": value} for name, value in zip(sets, (80.0, 70.0, 50.0), strict=True)}
    of |= {"#ALL": {"combined": 65.0}, "Inns_1": {"searches": 0.5}}
    results = read_task(groups(tmp_path / "one", "response", of, {"Inns_1": "Inns_1"}))
    assert values_of(results)["response/#VARIANTS/combined"] == mean([70.0, 50.0])
    assert results.variants == ("v1", "v2")
    # A service, which is no set.
    assert values_of(results)["response/#ALL/Inns_1/searches"] == 0.5
    assert [column.set for column in columns_of(results.rows)] == [*sets, VARIANTS]


def test_rows_give_back_the_numbers(tmp_path):
    results = read_task(states(tmp_path / "one", SETS))
    columns = [row for row in results.rows if row.metric in (JGA, SENSITIVITY)]
    _, parts = read_rows(results, columns)
    assert set(parts) == {("", row.column) for row in columns}
    assert parts["", f"dst/v1/{JGA}"] == ({"d0": (1.0, 2), "d1": (1.0, 2)},)
    assert parts["", f"dst/{VARIANTS}/seen/{JGA}"] == (
        {"d0": (1.0, 1), "d1": (1.0, 1)}, {"d0": (0.0, 1), "d1": (1.0, 1)}
    )  # fmt: skip
    (by_dialogue,) = parts["", f"dst/{VARIANTS}/{SENSITIVITY}"]
    # The second frame of d0 is wrong under both variants.
    assert (by_dialogue["d0"], by_dialogue["d1"]) == ((pytest.approx(2**0.5), 2), (pytest.approx(2**0.5), 2))


def test_groups_of_services_that_are_not_there_are_left_out(tmp_path):
    of_all = {"sgsacc": 0.9, "slot_error_rate": 0.1, "bleu": 30.0}
    numbers = {"#ALL": of_all, "#SEEN_DOMAINS": {"sgsacc": 0.9, "slot_error_rate": 0.1}}
    results = read_task(groups(tmp_path / "dev", "generation", numbers, {"#SEEN_DOMAINS": "seen"}))
    requested = ["sgsacc", "seen/sgsacc", "unseen/sgsacc"]
    assert absent_groups(results.rows, requested) == ["unseen/sgsacc"]
    assert [row.column for row in columns_of(results.rows, requested)] == [
        "generation/#ALL/sgsacc", "generation/#ALL/seen/sgsacc"
    ]  # fmt: skip
    for wrong in ("unseen/f2", "unseen/bleu", "v1/sgsacc"):
        raised(InputError, columns_of, results.rows, ["sgsacc", wrong], match=f"there is no metric '{wrong}'")


def test_the_sensitivity_as_it_was_computed(tmp_path):
    path = states(tmp_path / "one", SETS, zero="drop")
    place = tmp_path / "one" / RESULTS
    drop = [
        msgspec.structs.replace(row, value=2 * 2**0.5 / 3) if (row.metric, row.group) == (SENSITIVITY, "all") else row
        for row in read_results(place)
    ]
    place.write_bytes(results_bytes(drop))
    results = read_task(path)
    _, parts = read_rows(results, results.rows)
    assert ("", f"dst/{VARIANTS}/{SENSITIVITY}") in parts
