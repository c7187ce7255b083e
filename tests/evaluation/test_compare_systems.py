"""What systems are compared on: reading what evaluate wrote, what they share, and what cannot be compared."""

import json

from compare_folders import JGA, KEYS, groups, intent_metrics, intents, mean, sensitivity, states, table
from kit import cases, raised

from parapet.evaluation.compare.board import Config, compare_systems, read_task
from parapet.evaluation.results import SENSITIVITY, VARIANTS, columns_of, read_rows, results_of
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
    raised(InputError, columns_of, results.rows, ["f2"], match="no system has f2: choose from bleu, fpr95")
    raised(InputError, columns_of, results.rows, match="no system has a main metric: choose from bleu, fpr95")


def test_rows_that_do_not_average_to_the_number(tmp_path):
    results = read_task(intents(tmp_path / "one", intent_metrics(0.5, 1.0, 0.7), [1.0, None, 1.0]))
    parts = read_rows(results.path, [row for row in results.rows if row.metric == "accuracy"], ())
    assert parts == {"intent/b/accuracy": ({"d0": (1.0, 1)},)}


def compared(systems):
    return compare_systems(systems, Config(replicates=0))


def test_what_systems_do_not_share_is_shown_and_not_averaged(tmp_path):
    one = states(tmp_path / "one", {**SETS, "typos": BASE})
    other = states(tmp_path / "other", {**SETS, "v3": BASE, "simple": BASE})
    found = groups(tmp_path / "ood", "ood", {"#ALL": {"f1": 0.5}})
    board = compared({"a": [one, found], "b": [other]})
    goals = [f"dst/{name}/joint_goal_accuracy" for name in ("original", "v1", "v2", "v3", "typos", "simple")]
    assert (board.columns, board.averaged) == ([*goals, "ood/#ALL/f1"], goals[:3])
    assert board.left_out == ["mean over the variants of dst: the systems were not scored on the same variants"]
    assert compared({"a": [one, found]}).left_out == []


def test_what_is_over_all_sets_is_no_common_number_of_different_sets(tmp_path):
    one = intents(tmp_path / "one", intent_metrics(0.5, 1.0, 0.7), [1.0, 1.0, 1.0])
    some = {name: of for name, of in intent_metrics(1, 1, 1).items() if name != "b"}
    board = compared({"one": [one], "other": [intents(tmp_path / "other", some, [1.0, 1.0], KEYS[:2])]})
    assert {row.set for row in board.rows} == {"a", "b"}


def sized(folder, n):
    """A system whose numbers are over two items of set a and ``n`` of set b."""
    rows = results_of("intent", intent_metrics(0.5, 1.0, 2 / 3), {"a": 2, "b": n})
    return table(folder, "intent", rows)


def test_what_cannot_be_compared(tmp_path):
    one = sized(tmp_path / "one", 3)
    options = intents(tmp_path / "options", intent_metrics(1, 1, 1), [1.0, 1.0, 1.0], positive="ood")
    right = intents(tmp_path / "right", intent_metrics(1, 1, 1), [1.0, 1.0, 1.0])
    keys = [*KEYS[:2], ("b", "d7", 0)]
    others = intents(tmp_path / "others", intent_metrics(1, 1, 1), [1.0, 1.0, 1.0], keys)
    raised(InputError, compared, {"a": [right], "b": [others]}, match="other dialogues of set 'b' were scored than for")
    for path, reason in (
        (sized(tmp_path / "rows", 4), "3 items of set 'b' were scored for 'one', 4 for 'other': evaluate the systems"),
        (options, "scored in different ways: positive is None for 'one', 'ood' for 'other'"),
    ):
        assert raised(InputError, compared, {"one": [one], "other": [path]}, match=reason).path == path
    raised(InputError, compared, {"a": [one], "b": [one, one]}, match="'b' has two results of task 'intent'")


def test_requests_that_an_endpoint_refused_are_no_other_items(tmp_path):
    systems = {"one": [sized(tmp_path / "one", 3)], "other": [sized(tmp_path / "other", 2)]}
    path = tmp_path / "other/run.json"
    for key, name in (("refused/b", "b"), ("refused_frames/b", "b"), ("refused", "#ALL")):
        path.write_text(json.dumps({**json.loads(path.read_text()), "counts": {"turns": 2, key: 1}}))
        left_out = [f"1 item of set {name} of task intent for 'other', which its endpoint refused"]
        assert compared(systems).left_out == left_out


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


def test_rows_that_cannot_be_read(tmp_path):
    path = states(tmp_path / "one", SETS)
    (tmp_path / "one/rows/v1/dialogues_001.parquet").write_bytes(b"PAR1")
    raised(InputError, compared, {"one": [path]}, match="cannot be read as Parquet")


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
    columns = [row for row in results.rows if row.metric == JGA]
    parts = read_rows(results.path, columns, results.variants)
    assert set(parts) == {row.column for row in columns}
    assert parts[f"dst/v1/{JGA}"] == ({"d0": (1.0, 2), "d1": (1.0, 2)},)
    assert parts[f"dst/{VARIANTS}/seen/{JGA}"] == (
        {"d0": (1.0, 1), "d1": (1.0, 1)}, {"d0": (0.0, 1), "d1": (1.0, 1)}
    )  # fmt: skip


def test_groups_of_services_that_are_not_there_are_left_out(tmp_path):
    of_all = {"sgsacc": 0.9, "slot_error_rate": 0.1, "bleu": 30.0}
    numbers = {"#ALL": of_all, "#SEEN_DOMAINS": {"sgsacc": 0.9, "slot_error_rate": 0.1}}
    path = groups(tmp_path / "dev", "generation", numbers, {"#SEEN_DOMAINS": "seen"})
    board = compare_systems({"one": [path]}, Config(metrics=("sgsacc", "seen/sgsacc", "unseen/sgsacc")))
    assert board.columns == ["generation/#ALL/sgsacc", "generation/#ALL/seen/sgsacc"]
    assert board.left_out == ["unseen/sgsacc: no system has it"]
