"""Systems of several parts: a model for each domain, and for sets of other corpora, in one row as in RADDLE."""

import csv
import io
import json

import pytest
from compare_folders import JGA, groups, intent_metrics, intents, mean, states
from kit import cases, json_of, raised

from parapet.evaluation.compare.leaderboard import (
    SignificanceConfig,
    by_domain,
    grid,
    leaderboard,
    one_row,
    read_systems,
)
from parapet.evaluation.compare.page import sections, table_files
from parapet.evaluation.compare.results import Selection
from parapet.schemas.errors import InputError

DOMAINS = ("Attraction", "Train", "Hotel", "Restaurant")
ENV_0 = (0.561, 0.6047, 0.291, 0.6701)  # RADDLE, Table 4: Soloist's joint goal accuracy
COMBINED = {"Attraction": (0.79, 0.61, 13.33), "Train": (0.7828, 0.6818, 11.73), "Hotel": (0.71, 0.44, 10.21),
            "Restaurant": (0.84, 0.53, 12.2)}  # Table 3  # fmt: skip


def tracker(folder, sets):
    """What ``evaluate --task dst`` writes of a corpus of several domains: by set and domain joint goal accuracy."""
    numbers = {"sets": {}}
    for name, of in sets.items():
        metrics = {key: {JGA: value, "active_intent_accuracy": 0.9} for key, value in of.items()}
        metrics["#ALL_SERVICES"] = {JGA: 0.5, "active_intent_accuracy": 0.9}
        numbers["sets"][name] = {"metrics": metrics, "intervals": {}}
    path = groups(folder, "dst", {})
    (folder / "robustness.json").write_text(json.dumps(numbers))
    return path


def responder(folder, sets):
    """What ``evaluate --task response`` writes: by set and domain Inform, Success and BLEU."""
    metrics, domains = {}, {}
    for name, of in sets.items():
        scores = {
            domain: {"inform": a, "success": b, "bleu": c, "combined": 50 * (a + b) + c, "dialogues": 9, "responses": 9,
                     "intervals": {"combined": [c, 200.0], "bleu": None}}
            for domain, (a, b, c) in of.items()
        }  # fmt: skip
        metrics[name] = {"inform": 0.5, "success": 0.5, "bleu": 1.0, "combined": 51.0}
        domains[name] = {
            "all": {**metrics[name], "intervals": {"combined": [50.0, 52.0]}},
            "domains": scores,
            "mean": None,
        }
    path = groups(folder, "response", metrics, sets=list(sets))
    (folder / "domains.json").write_text(json.dumps(domains))
    return path


def board_of(systems, selection, metrics=()):
    return leaderboard(read_systems(systems, metrics, selection=selection), SignificanceConfig(replicates=99))


def values(board, system):
    return {(one.set, one.group, one.metric): one.value for one in board.values if one.system == system}


def test_a_number_of_raddle_is_the_mean_over_domains(tmp_path):
    env_0 = dict(zip(DOMAINS, ENV_0, strict=True))
    ours = {
        "Soloist": [
            tracker(tmp_path / "dst", {"original": env_0, "typos": dict.fromkeys(DOMAINS, 0.25)}),
            responder(tmp_path / "response", {"original": COMBINED, "typos": COMBINED}),
        ]
    }
    board = board_of(ours, Selection(domains=DOMAINS))
    found = values(board, "Soloist")
    assert round(100 * (found["original", "all", JGA] or 0), 2) == 53.17  # Table 2
    assert (found["original", "Hotel", JGA], found["typos", "all", JGA]) == (0.291, 0.25)
    assert found["original", "all", "combined"] == pytest.approx(79.175)
    assert found["original", "Train", "inform"] == 0.7828
    plain = values(board_of(ours, Selection()), "Soloist")
    assert plain["original", "all", JGA] == 0.5
    assert ("original", "Hotel", "combined") not in plain
    states_table, responses_table = by_domain(board)
    assert states_table.columns == ["set", *DOMAINS]
    assert states_table.rows[0] == ["original", "56.1", "60.5", "29.1", "67.0"]
    assert responses_table.columns[1:5] == [
        "Attraction Inform", "Attraction Success", "Attraction BLEU", "Train Inform"
    ]  # fmt: skip
    assert responses_table.rows[0][1:5] == ["79.0", "61.0", "13.3", "78.3"]
    intervals = {one.group: (one.low, one.high) for one in board.values if one.column.name[-8:] == "combined"}
    assert intervals == {"all": (None, None)} | {name: (of[2], 200.0) for name, of in COMBINED.items()}
    assert {"Responses by domain, of 100", "Joint goal accuracy by domain, %"} <= {one.title for one in sections(board)}


def parts(folder, name, right):
    """A system of a model for each of two domains, one for reminders, and a detector."""
    made = {
        f"{name}/{domain}": [states(folder / name / domain, {"original": rate, "typos": [0.0, *rate[1:]]})]
        for domain, rate in {"Hotel": [right, 1.0, 0.0, 1.0], "Train": [right, 0.0, 0.0, 1.0]}.items()
    }
    made[f"{name}/unseen"] = [
        states(folder / name / "unseen", {"original": [right, right]}),
        intents(
            folder / name / "intent",
            {"#ALL": intent_metrics(0, 0, right)["#ALL"]},
            [right] * 3,
            [("", f"d{i}", 0) for i in range(3)],
        ),
    ]
    made[f"{name}/ood"] = [groups(folder / name / "ood", "ood", {"#ALL": {"f1": right}, "ood-50": {"f1": right}})]
    return made


CHOSEN = Selection(
    sets=("original", "typos", "unseen", "ood"), domains=("Hotel", "Train"), average=(JGA, "unseen/accuracy", "ood/f1")
)


def test_one_row_of_a_model_for_each_domain_and_set(tmp_path):
    board = board_of({**parts(tmp_path, "good", 1.0), **parts(tmp_path, "bad", 0.0)}, CHOSEN)
    assert board.systems == ["good", "bad"]
    good, bad = values(board, "good"), values(board, "bad")
    assert (good["original", "all", JGA], bad["original", "Hotel", JGA]) == (pytest.approx(mean([0.75, 0.5])), 0.5)
    assert good["typos", "all", JGA] == pytest.approx(mean([0.5, 0.25]))
    assert (good["unseen", "all", JGA], good["unseen", "all", "accuracy"], good["ood", "all", "f1"]) == (1.0, 1.0, 1.0)
    row = one_row(board)
    assert row.headings == [
        "original JGA", "typos JGA", "unseen JGA",
        "unseen intent accuracy", "ood out-of-domain F1",
    ]  # fmt: skip
    assert board.average["good"].value == pytest.approx(100 * mean([0.625, 0.375, 1.0, 1.0, 1.0]))
    # What is a mean over dialogues is so over those of all domains: there are intervals and tests.
    tested = {test.column: test.difference for test in board.tests}
    assert tested["dst/original/joint_goal_accuracy"] == pytest.approx(25.0)
    assert next(one.low for one in board.values if one.column.name == "dst/original/joint_goal_accuracy") is not None
    assert "intent/unseen/accuracy" in tested
    assert [one.title for one in sections(board)][:2] == ["The average and its numbers, of 100", "Systems by set"]
    assert grid(board).headings == ["original", "typos", "unseen", "ood"]
    files = table_files(board)
    assert files["table.md"].decode().splitlines()[2].startswith("| system | average | original JGA |")
    rows = list(csv.DictReader(io.StringIO(files["table.csv"].decode())))
    assert {row["group"] for row in rows} == {"all", "Hotel", "Train", "seen", "unseen", "Inns_1", "Cabs_1"}


def test_raddles_sixteen_columns_come_from_the_flag(tmp_path):
    sets = ("original", "paraphrase", "simple", "typos", "verbose", "SR-30")
    ours = {
        "one": [
            tracker(tmp_path / "dst", {name: {"Hotel": 0.4} for name in (*sets, "typos-env1", "unseen", "ood")}),
            responder(tmp_path / "response", {name: {"Hotel": (1.0, 0.5, 5.0)} for name in (*sets, "typos-env1")}),
            groups(tmp_path / "ood", "ood", {"ood": {"f1": 0.8}}),
        ]
    }
    # The set is called as the group of unseen services is.
    tracked = json_of(tmp_path / "dst" / "robustness.json")
    for of_set in tracked["sets"].values():
        of_set["metrics"]["#UNSEEN_SERVICES"] = {JGA: 0.0, "active_intent_accuracy": 0.0}
    (tmp_path / "dst" / "robustness.json").write_text(json.dumps(tracked))
    chosen = Selection(
        (*sets, "unseen", "ood"), ("Hotel",), (JGA, "combined", "unseen/active_intent_accuracy", "ood/f1")
    )
    board = board_of(ours, chosen)
    assert len([column for column in board.columns if column.in_average]) == 16
    assert "typos-env1" not in {column.set for column in board.columns}
    assert board.average["one"].value == pytest.approx(mean([40.0] * 8 + [80.0] * 6 + [90.0, 80.0]))
    assert one_row(board).headings[:4] == [
        "original JGA", "original Combined", "paraphrase JGA", "paraphrase Combined"
    ]  # fmt: skip


@cases(
    "sets domains average reason",
    (("typos", "typos"), (), (), "'typos' appears twice"),
    (("Hotel",), ("Hotel",), (), "'Hotel' is both a set and a domain"),
    (("speech",), ("Hotel", "Train"), (), "no system has a set 'speech'"),
    ((), ("Hotel", "Train", "Taxi"), (), "'good' has no domain 'Taxi', only Hotel, Train"),
    ((), ("Hotel", "Train"), ("f2",), "there is no metric 'f2'"),
    ((), ("Hotel", "Train"), ("fpr95",), "lower values are better, so it cannot be part of an average"),
)
def test_what_cannot_be_chosen(tmp_path, sets, domains, average, reason):
    ours = {name: of for name, of in parts(tmp_path, "good", 1.0).items() if name in ("good/Hotel", "good/Train")}
    ours["good"] = [groups(tmp_path / "ood", "ood", {"#ALL": {"f1": 0.5, "fpr95": 0.1}})]
    raised(InputError, lambda: board_of(ours, Selection(sets, domains, average)), match=reason)


def test_a_result_with_several_sets_is_of_no_single_one(tmp_path):
    path = groups(tmp_path / "ood", "ood", {"ood-10": {"f1": 0.5}, "ood-20": {"f1": 0.5}})
    with pytest.raises(InputError, match="good/far must name one of the sets: ood-10, ood-20"):
        board_of({"good/far": [path]}, Selection(("far",)))
    assert values(board_of({"good/ood-20": [path]}, Selection(("ood-20",))), "good") == {("ood-20", "all", "f1"): 0.5}
    # A name with a slash is a name where its end is no part.
    assert board_of({"org/model": [path]}, Selection()).systems == ["org/model"]
