"""Leaderboards: what stands in them, which differences are tested, and the files and sections that are made of them."""

import csv
import io
import random

import pyarrow.parquet as pq
import pytest
from compare_folders import JGA, groups, intents, mean, sensitivity, states
from kit import cases, lacking, raised, write
from msgspec.structs import replace

from parapet.evaluation.compare.board import Config, compare_systems, pivot, read_board, terminal_lines
from parapet.evaluation.compare.page import files_of, headline, lead, leader, sections
from parapet.evaluation.results import SENSITIVITY, VARIANTS
from parapet.evaluation.task import json_bytes
from parapet.schemas.errors import InputError
from parapet.transforms.report.report import Dots, Table

# RADDLE, Table 2: joint goal accuracy and Combined of six sets, joint goal accuracy and intent accuracy on unseen
# entities, joint goal accuracy and F1 out of domain.
RADDLE_SETS = ("original", "paraphrase", "simple", "typos", "verbose", "SR-30")
GPT_2 = "40.52 67.36 31.36 62.72 28.82 59.44 22.31 54.15 30.40 54.16 31.41 65.95 28.28 51.29 47.37 83.86"
SOLOIST = "53.17 76.13 40.27 64.89 37.18 63.61 22.73 57.77 38.21 65.71 36.81 70.48 69.05 96.98 56.28 96.18"


def board_of(systems, *metrics, baseline="", replicates=99):
    return compare_systems(systems, Config(metrics=metrics, baseline=baseline, replicates=replicates))


def table(board, title):
    return next(one for one in sections(board) if isinstance(one, Table) and one.title == title)


def raddle(folder, printed):
    row = [float(value) for value in printed.split()]
    goals = {name: {JGA: row[2 * i] / 100} for i, name in enumerate(RADDLE_SETS)}
    goals |= {"unseen": {JGA: row[12] / 100}, "ood-50": {JGA: row[14] / 100}}
    responses = {
        name: {"combined": row[2 * i + 1], "inform": 0.5, "success": 0.4, "bleu": 10.0}
        for i, name in enumerate(RADDLE_SETS)
    }
    return [
        groups(folder / "response", "response", responses, sets=list(RADDLE_SETS)),
        groups(folder / "dst", "dst", goals),
        groups(folder / "intent", "intent", {"unseen": {"accuracy": row[13] / 100, "macro_f1": 0.1}}),
        groups(folder / "ood", "ood", {"ood-50": {"f1": row[15] / 100, "fpr95": 0.2}}),
    ]


def test_the_average_is_raddles(tmp_path):
    board = board_of({"GPT-2": raddle(tmp_path / "gpt", GPT_2), "Soloist": raddle(tmp_path / "soloist", SOLOIST)})
    averages = {name: round(number.value or 0, 2) for name, number in board.average.items()}
    assert (averages, len(board.averaged)) == ({"Soloist": 59.09, "GPT-2": 47.46}, 16)
    whole = pivot(board, {"all": ""})
    assert whole.headings == [
        "mean",
        "original",
        "typos",
        "verbose",
        "simple",
        "paraphrase",
        "SR-30",
        "unseen",
        "ood-50",
    ]
    assert list(whole.blocks) == [
        "Average, of 100", "Joint goal accuracy, %", "Combined, of 100", "Inform, %", "Success, %", "BLEU, of 100",
        "Intent accuracy, %", "Intent macro-F1, %", "Out-of-domain F1, %",
    ]  # fmt: skip
    shown = table(board, "Systems by set")
    at = {(block, row[0]): row for i, row in enumerate(shown.rows)
          for block in [max((j, name) for j, name in shown.groups.items() if j <= i)[1]]}  # fmt: skip
    assert at["Average, of 100", "Soloist"] == ["Soloist", "59.1", *[""] * 8]
    assert at["Joint goal accuracy, %", "GPT-2"][2:4] == ["40.5", "22.3\n-18.2 points"]
    assert (at["Combined, of 100", "GPT-2"][-2:], at["Out-of-domain F1, %", "Soloist"][-1]) == (["", ""], "96.2")


def numbers(seed, right, n=40):
    drawn = random.Random(seed)
    return [float(drawn.random() < right) for _ in range(n)]


@pytest.fixture(scope="module")
def trackers(tmp_path_factory):
    """Two systems: fine-tuned, and pre-trained as well."""
    folder = tmp_path_factory.mktemp("trackers")
    names = ("original", "v1", "v2", "typos")
    return {
        name: [
            states(folder / name, {one: numbers(i, rate) for i, (one, rate) in enumerate(zip(names, of, strict=True))})
        ]
        for name, of in {"ft": (0.6, 0.35, 0.2, 0.3), "pt": (0.75, 0.7, 0.6, 0.4)}.items()
    }  # fmt: skip


def test_states_with_variants(trackers, tmp_path):
    board = board_of(trackers, baseline="ft", replicates=999)
    assert board.systems == ["pt", "ft"]
    values = {(one.system, one.set, one.group, one.metric): one for one in board.rows}
    variants = [numbers(1, 0.35), numbers(2, 0.2)]
    assert values["ft", VARIANTS, "all", JGA].value == pytest.approx(mean([mean(of) for of in variants]))
    assert values["ft", VARIANTS, "all", SENSITIVITY].value == pytest.approx(sensitivity(variants))
    assert values["ft", VARIANTS, "seen", JGA].value == pytest.approx(mean([mean(of[::2]) for of in variants]))
    for one in board.rows:
        if one.metric == JGA:
            assert None not in (one.value, one.low, one.high), one
            assert sorted([one.low, one.value, one.high]) == [one.low, one.value, one.high]
    # The average is over the four sets, not over what is computed from them.
    assert board.average["ft"].value == pytest.approx(
        100 * mean([mean(numbers(i, rate)) for i, rate in enumerate((0.6, 0.35, 0.2, 0.3))])
    )
    tests = {one.column: one for one in board.tests}
    assert {(one.first, one.second) for one in board.tests} == {("pt", "ft")}
    goals = [f"dst/{name}/{JGA}" for name in ("original", "v1", "v2", VARIANTS, "typos")]
    assert list(tests) == [*goals, "average"]
    of_variants = tests[f"dst/{VARIANTS}/{JGA}"]
    assert of_variants.p < 0.01
    assert of_variants.interval is not None
    assert of_variants.interval[0] > 0
    assert of_variants.difference == pytest.approx(
        100 * ((values["pt", VARIANTS, "all", JGA].value or 0) - mean([mean(of) for of in variants]))
    )
    again = read_board(str(write(tmp_path / "leaderboard.json", json_bytes(board))))
    assert (again, sections(again), files_of(again)) == (board, sections(board), files_of(board))


def test_the_page_says_what_the_variants_cost_and_who_leads(trackers):
    board = board_of(trackers, replicates=999)
    assert headline(board) == (
        "ft goes from 47.5% to 31.2% (the intervals overlap) when schemas are reworded; "
        "pt goes from 62.5% to 66.2% (the intervals overlap)"
    )
    assert lead(board) == "pt leads: 57.5% against 34.4% for ft (joint goal accuracy, mean over 4 sets)."
    one = board_of({"ft": trackers["ft"]})
    assert headline(one) == headline(board).partition(";")[0]
    assert lead(one) == "ft: joint goal accuracy, mean over 4 sets: 34.4%."
    without = compare_systems(trackers, Config(sets=("original", "typos"), replicates=9))
    assert headline(without).startswith("pt goes from 62.5% to 35.0% (the intervals overlap) on typos; ft goes")
    assert "is ahead, but not significantly: 48.8% against 37.5%" in lead(without)
    files = files_of(board)
    assert headline(board) in files["report.html"].decode()
    without_original = compare_systems(trackers, Config(sets=("typos",)))
    assert headline(without_original) == leader(without_original)
    assert lead(without_original) == ""


@cases(
    "interval said",
    ((0.2, 0.4), "falls from 50.0% to 30.0%"),
    ((0.2, 0.45), "goes from 50.0% to 30.0% (the intervals overlap)"),
    ((None, None), "goes from 50.0% to 30.0%"),
)
def test_a_number_falls_only_if_the_intervals_are_apart(trackers, interval, said):
    board = board_of({"ft": trackers["ft"]})
    of_sets = {"original": (0.5, 0.45, 0.55), VARIANTS: (0.3, *interval)}
    rows = [
        replace(row, value=value, low=low, high=high)
        for row in board.rows
        if (row.metric, row.group, row.set in of_sets) == (JGA, "all", True)
        for value, low, high in [of_sets[row.set]]
    ]
    assert headline(replace(board, rows=rows)) == f"ft {said} when schemas are reworded"


def test_mixes_are_only_in_the_long_table(tmp_path):
    names = ["original", "typos", "typos-env1", "typos-env2", "verbose", "prod-env1"]
    systems = {
        name: [
            states(tmp_path / name, {one: numbers(i, 0.3 + j * 0.4) for i, one in enumerate(names)}),
            groups(tmp_path / f"{name}_ood", "ood", {"ood-10": {"f1": 0.5 + j / 10}}),
        ]
        for j, name in enumerate("ab")
    }
    board = board_of(systems, baseline="a")
    columns = table(board, "Systems by set").columns
    assert columns == ["system", "mean", "original", "typos", "verbose", "ood-10", "prod-env1"]
    files = files_of(board)
    assert b"typos-env1" in files["table.csv"]
    assert b"typos-env1" not in files["table.md"]
    charted = next(one for one in sections(board) if isinstance(one, Dots)).dots
    assert not [dot for dot in charted if dot.label.startswith("typos-env")]
    assert not [row for row in table(board, "Differences").rows if "typos-env" in row[1]]


def test_where_low_is_good_and_what_is_requested(tmp_path):
    path = groups(tmp_path / "one", "ood", {"#ALL": {"f1": 0.8, "fpr95": 0.1, "bleu": 30.0}})
    board = board_of({"one": [path], "two": [path]}, "f1", "fpr95", "bleu")
    assert (board.averaged, board.average["one"].value) == (["ood/#ALL/f1", "ood/#ALL/bleu"], 55.0)
    assert (leader(board), board.systems) == (
        "one and two are level: 55.0 (average of 2 numbers)",
        ["one", "two"],
    )


def test_numbers_that_a_system_lacks_are_dashes(tmp_path, trackers):
    # RADDLE's DAMD has no results out of domain.
    damd = [states(tmp_path / "damd", {name: numbers(i, 0.5) for i, name in enumerate(("original", "v1", "v2"))})]
    ood = [groups(tmp_path / "ood", "ood", {"ood-10": {"f1": 0.9}})]
    board = compare_systems({"damd": damd, "ft": trackers["ft"] + ood, "detector": ood}, Config(replicates=9))
    assert (board.left_out, board.systems, board.averaged) == ([], ["damd", "detector", "ft"], [])
    assert [board.average[name].value for name in board.systems] == [None] * 3
    assert leader(board) == "No number is known for all systems"
    shown = table(board, "Systems by set")
    rows = {(i // 3, row[0]): [cell.split("\n")[0] for cell in row[1:]] for i, row in enumerate(shown.rows)}
    expected = ["mean", "original", "v1", "v2", "v1–v2", "schema sensitivity, %", "typos", "ood-10"]
    assert shown.columns[1:] == expected
    assert (rows[0, "damd"][0] == "–", rows[0, "damd"][6]) == (False, "–")
    assert (rows[0, "damd"][7], rows[0, "detector"]) == ("", ["–"] * 7 + [""])
    assert rows[1, "detector"] == ["90.0", *[""] * 6, "90.0"]
    assert {(test.first, test.second) for test in board.tests} == {("damd", "ft")}


def test_means_are_over_the_sets_that_all_systems_have(tmp_path):
    sets = {"original": 0.9, "v1": 0.8, "typos": 0.7, "verbose": 0.6}
    best = [states(tmp_path / "best", {name: numbers(1, right) for name, right in list(sets.items())[:2]})]
    weak = [states(tmp_path / "weak", {name: numbers(2, right / 3) for name, right in sets.items()})]
    board = compare_systems({"weak": weak, "best": best}, Config(replicates=0))
    assert (board.systems, leader(board).split(":")[0]) == (["best", "weak"], "best is ahead")
    assert leader(board).endswith("(joint goal accuracy, mean over 2 sets)")
    shown = table(board, "Joint goal accuracy by set, %")
    assert (shown.columns[1], (0, 1) in shown.best, shown.rows[0][4:]) == ("mean", True, ["–", "–"])
    expected = 100 * mean([mean(numbers(1, 0.9)), mean(numbers(1, 0.8))])
    assert board.average["best"].value == pytest.approx(expected)
    assert shown.rows[0][1].split("\n")[0] == f"{expected:.1f}"
    assert next(line for line in terminal_lines(board) if line.startswith("mean")).split()[-2] == f"{expected:.1f}"


def test_the_sensitivity_of_what_is_nearly_always_wrong(tmp_path):
    names = ("original", "v1", "v2")
    wrong = [0.0] * 99
    broken = dict(zip(names, ([1.0] * 30 + [0.0] * 70, [1.0, *wrong], [0.0, *wrong]), strict=True))
    shaky = {"original": [1.0] * 90 + [0.0] * 10, "v1": [1.0] * 80 + [0.0] * 20, "v2": [0.0] * 20 + [1.0] * 80}
    steady = {"original": [1.0] * 90 + [0.0] * 10, "v1": [1.0] * 80 + [0.0] * 20, "v2": [1.0] * 78 + [0.0] * 22}
    systems = {name: [states(tmp_path / name, values)]
               for name, values in {"broken": broken, "shaky": shaky, "steady": steady}.items()}  # fmt: skip
    board = board_of(systems, baseline="shaky", replicates=999)
    shown = table(board, "Joint goal accuracy by set, %")
    at = shown.columns.index("schema sensitivity, %")
    assert [row[at].split("\n")[0] for row in shown.rows] == ["56.6", "2.8", "not defined"]
    assert at not in {column for _, column in shown.best}
    assert "not defined" in table(board, "Joint goal accuracy by service, %").rows[2]
    files = files_of(board)
    for text in (files["table.tex"].decode(), files["table.md"].decode(), "\n".join(terminal_lines(board))):
        assert "not defined" in text
        assert not [bold for bold in (r"\textbf{2.8}", "**2.8") if bold in text]
    values = {one.system: one for one in board.rows if one.metric == SENSITIVITY and one.group == "all"}
    assert (values["broken"].value, values["broken"].low) == (None, None)
    assert "schema_sensitivity" not in {one.column.split("/")[-1] for one in board.tests if one.first == "broken"}


def test_intervals_never_claim_certainty(tmp_path):
    keys = [("original", f"d{i}", 0) for i in range(8)]
    systems = {}
    expected = {"all": (8, 0.67559, 1), "most": (6, 0.40927, 0.92852), "none": (0, 0, 0.32441)}  # scipy's binomtest
    for name, (right, *_) in expected.items():
        values = [float(i < right) for i in range(8)]
        systems[name] = [intents(tmp_path / name, {"original": {"accuracy": right / 8}}, values, keys)]
    board = board_of(systems, "accuracy")
    found = {one.system: (one.low, one.high) for one in board.rows}
    for name, (_, *interval) in expected.items():
        assert found[name] == pytest.approx(interval, abs=1e-5)
    assert not [row for row in table(board, "Differences").rows if row[2] == "+100.00" and row[4] != "–"]
    tracker = {"original": [1.0] * 16, "v1": [0.0] * 16}  # eight dialogues with two frames each
    (first, second) = (one for one in board_of({"a": [states(tmp_path / "a", tracker)]}).rows if one.group == "all")
    of_both = (first.low, first.high, second.low, second.high)
    assert of_both == pytest.approx((*expected["all"][1:], *expected["none"][1:]), abs=1e-5)


def test_relative_changes_only_from_an_original_that_is_clearly_above_zero(tmp_path):
    sets = {"original": [1.0, *[0.0] * 39], "typos": [1.0] * 20 + [0.0] * 20}
    swapped = dict(zip(sets, reversed(sets.values()), strict=True))
    board = board_of({"low": [states(tmp_path / "low", sets)], "high": [states(tmp_path / "high", swapped)]})
    rows = {row[0]: row for row in table(board, "Joint goal accuracy by set, %").rows}
    changes = {name: row[-1].split("\n")[2:] for name, row in rows.items()}
    assert changes == {"low": ["+47.5 points"], "high": ["-47.5 points", "-95.0%"]}


def test_what_no_system_has_is_left_out_of_everything(trackers):
    chosen = Config(sets=("typos", "SR-30", "original"), average=("joint_goal_accuracy", "combined", "SR-30/f1"))
    board = compare_systems(trackers, chosen)
    assert board.averaged == ["dst/typos/joint_goal_accuracy", "dst/original/joint_goal_accuracy"]
    assert board.left_out == [f"{name}: no system has it" for name in ("SR-30", "combined", "SR-30/f1")]
    raised(InputError, compare_systems, trackers, Config(sets=("SR-30",)), match="SR-30: no system has it")
    raised(InputError, compare_systems, trackers, Config(average=("f2",)), match="no system has f2: choose from joint_")


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"systems": ["a"]}'])
def test_no_board(tmp_path, content):
    raised(InputError, read_board, str(write(tmp_path / "leaderboard.json", content)), match=r"leaderboard\.json")
    raised(InputError, read_board, str(tmp_path / "none.json"), match="there is no such file")


def test_files(trackers):
    board = board_of(trackers)
    files = files_of(board)
    assert set(files) == {"leaderboard.json", "report.html", "table.csv", "table.parquet", "table.tex", "table.md"}
    rows = list(csv.DictReader(io.StringIO(files["table.csv"].decode())))
    assert list(rows[0]) == ["system", "task", "set", "group", "metric", "value", "low", "high", "noise"]
    parquet = pq.read_table(io.BytesIO(files["table.parquet"])).to_pylist()
    assert len(rows) == len(parquet) == len(board.rows) + 2
    for text, row in zip(rows, parquet, strict=True):
        assert {key: value for key, value in text.items() if key in ("system", "task", "set", "group", "metric")} == {
            key: row[key] for key in ("system", "task", "set", "group", "metric")
        }
        for key in ("value", "low", "high"):
            assert (float(text[key]) if text[key] else None) == row[key]
    assert {row["group"] for row in parquet} == {"all", "seen", "unseen", "Inns_1", "Cabs_1"}
    assert [(row["system"], row["metric"], row["value"]) for row in parquet[-2:]] == [
        (name, "average", board.average[name].value) for name in ("pt", "ft")
    ]
    lines = files["table.md"].decode().splitlines()
    assert lines[2] == "| system | mean | original | v1 | v2 | v1–v2 | schema sensitivity, % | typos |"
    assert lines[4].startswith("| pt | **")
    assert lines[7:10:2] == ["Joint goal accuracy of seen and unseen services, %", lines[2]]
    assert [line.split(" |")[0] for line in lines[11:]] == [
        "| **seen services**", "| pt", "| ft", "| **unseen services**", "| pt", "| ft"
    ]  # fmt: skip
    tex, seen = files["table.tex"].decode().split("\n\n")
    assert tex.splitlines()[0] == "% Joint goal accuracy by set, \\%"
    assert (tex.splitlines()[2], tex.count(r"\\"), seen.count(r"\\")) == (r"\begin{tabular}{lrrrrrrr}", 3, 7)
    assert r"\multicolumn{8}{l}{\emph{unseen services}} \\" in seen
    assert not lacking(tex, r"pt & \textbf{", "v1--v2")


def test_a_number_that_is_not_defined(tmp_path):
    values = {"a": None, "b": 0.1, "c": 0.1}
    systems = {name: [groups(tmp_path / name, "ood", {"#ALL": {"f1": value}})] for name, value in values.items()}
    board = board_of(systems)
    assert board.systems == ["b", "c", "a"]
    assert [row[1] for row in table(board, "Out-of-domain F1 by set, %").rows] == ["10.0", "10.0", "–"]


def test_groups_of_services_only(trackers):
    board = board_of(trackers, f"seen/{JGA}")
    assert (board.columns[0], terminal_lines(board)) == (f"dst/original/seen/{JGA}", [])
    assert table(board, "Joint goal accuracy of seen and unseen services, %").groups == {}


def test_one_system(trackers):
    board = board_of({"ft": trackers["ft"]})
    assert board.tests == []
    first = table(board, "Joint goal accuracy by set, %")
    assert (len(first.rows), first.best) == (1, [])
    assert leader(board).startswith("ft: joint goal accuracy, mean over 4 sets: ")
    assert table(board, "Differences").rows == []
    assert b"ft: joint goal accuracy, mean over 4 sets" in files_of(board)["report.html"]
