"""Results of systems and their comparison: tables of results, what is compared, leaderboards, and their files."""

import csv
import io
import json
import math
import random

import pyarrow.parquet as pq
import pytest
from compare_folders import JGA, KEYS, groups, intent_metrics, intents, mean, sensitivity, states, table
from kit import cases, lacking, raised, write
from msgspec.structs import replace

from parapet.evaluation import results as tables
from parapet.evaluation.compare.board import Config, compare_systems, pivot, read_board, terminal_lines
from parapet.evaluation.compare.page import files_of, headline, lead, leader, sections
from parapet.evaluation.task import json_bytes
from parapet.schemas.errors import InputError
from parapet.transforms.report.report import Dots, Table

ACCURACIES = {"#MEAN": 0.6, "Inns_1": 1.0, "original": 0.8, "v1": 0.5, "v10": 0.2, "v2": math.nan}
NUMBERS = {"#ALL": {"accuracy": 0.6, "schema_sensitivity": 0.2}}
NUMBERS |= {name: {"accuracy": value} for name, value in ACCURACIES.items()}


def test_rows_of_a_task(tmp_path):
    sizes = {"#ALL": 40, "original": 10, "v1": 10}
    rows = tables.results_of("intent", NUMBERS, sizes, {"Inns_1": "Inns_1"}, {("v1", "accuracy"): (0.4, 0.6)})
    write(tmp_path / "results.parquet", tables.results_bytes(rows))
    read = {(row.set, row.group, row.metric): row for row in tables.read_results(tmp_path / "results.parquet")}
    assert list(read.values()) == rows
    assert read["v1", "all", "accuracy"] == tables.ResultRow("", "intent", "v1", "all", "accuracy", 0.5, 0.4, 0.6, 10)
    assert (read["#MEAN", "all", "accuracy"].n, read["v10", "all", "accuracy"].n) == (40, None)
    assert read["#ALL", "Inns_1", "accuracy"].value == 1.0
    assert read["v2", "all", "accuracy"].value is None
    assert read["#VARIANTS", "all", "accuracy"].value is None
    assert read["#VARIANTS", "all", "schema_sensitivity"].value == 0.2
    numbers = {"original": {"f1": 0.9}, "v1": {"f1": 0.5}, "v2": {"f1": 0.25}}
    mean_of_variants = tables.ResultRow("", "ood", tables.VARIANTS, "all", "f1", 0.375, n=7)
    assert tables.results_of("ood", numbers, {"v1": 3, "v2": 4})[-1] == mean_of_variants
    assert {row.set for row in tables.results_of("ood", {"v1": {"f1": 0.5}}, {})} == {"v1"}


# RADDLE, Table 2: joint goal accuracy and Combined of six sets, joint goal accuracy and intent accuracy on unseen
# entities, joint goal accuracy and F1 out of domain.
RADDLE_SETS = ("original", "paraphrase", "simple", "typos", "verbose", "SR-30")
GPT_2 = "40.52 67.36 31.36 62.72 28.82 59.44 22.31 54.15 30.40 54.16 31.41 65.95 28.28 51.29 47.37 83.86"
SOLOIST = "53.17 76.13 40.27 64.89 37.18 63.61 22.73 57.77 38.21 65.71 36.81 70.48 69.05 96.98 56.28 96.18"


def board_of(systems, *metrics, baseline="", replicates=99):
    return compare_systems(systems, Config(metrics=metrics, baseline=baseline, replicates=replicates))


def table_of(board, title):
    return next(one for one in sections(board) if isinstance(one, Table) and one.title == title)


def raddle(folder, printed):
    row = [float(value) for value in printed.split()]
    goals = {name: {JGA: row[2 * i] / 100} for i, name in enumerate(RADDLE_SETS)}
    goals |= {"unseen": {JGA: row[12] / 100}, "ood-50": {JGA: row[14] / 100}}
    others = {"inform": 0.5, "success": 0.4, "bleu": 10.0}
    responses = {name: {"combined": row[2 * i + 1], **others} for i, name in enumerate(RADDLE_SETS)}
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
    sets = ["original", "typos", "verbose", "simple", "paraphrase", "SR-30", "unseen", "ood-50"]
    assert whole.headings == ["mean", *sets]
    assert list(whole.blocks) == [
        "Average, of 100", "Joint goal accuracy, %", "Combined, of 100", "Inform, %", "Success, %", "BLEU, of 100",
        "Intent accuracy, %", "Intent macro-F1, %", "Out-of-domain F1, %",
    ]  # fmt: skip
    shown = table_of(board, "Systems by set")
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
    made = {}
    for name, rates in {"ft": (0.6, 0.35, 0.2, 0.3), "pt": (0.75, 0.7, 0.6, 0.4)}.items():
        values = [numbers(i, rate) for i, rate in enumerate(rates)]
        sets = dict(zip(("original", "v1", "v2", "typos"), values, strict=True))
        made[name] = [states(folder / name, sets)]
    return made


def test_states_with_variants(trackers, tmp_path):
    board = board_of(trackers, baseline="ft", replicates=999)
    assert board.systems == ["pt", "ft"]
    values = {(one.system, one.set, one.group, one.metric): one for one in board.rows}
    variants = [numbers(1, 0.35), numbers(2, 0.2)]
    assert values["ft", tables.VARIANTS, "all", JGA].value == pytest.approx(mean([mean(of) for of in variants]))
    assert values["ft", tables.VARIANTS, "all", tables.SENSITIVITY].value == pytest.approx(sensitivity(variants))
    assert values["ft", tables.VARIANTS, "seen", JGA].value == pytest.approx(mean([mean(of[::2]) for of in variants]))
    for one in board.rows:
        if one.metric == JGA:
            assert None not in (one.value, one.low, one.high), one
            assert sorted([one.low, one.value, one.high]) == [one.low, one.value, one.high]
    # The average is over the four sets, not over what is computed from them.
    means = [mean(numbers(i, rate)) for i, rate in enumerate((0.6, 0.35, 0.2, 0.3))]
    assert board.average["ft"].value == pytest.approx(100 * mean(means))
    tests = {one.column: one for one in board.tests}
    assert {(one.first, one.second) for one in board.tests} == {("pt", "ft")}
    goals = [f"dst/{name}/{JGA}" for name in ("original", "v1", "v2", tables.VARIANTS, "typos")]
    assert list(tests) == [*goals, "average"]
    of_variants = tests[f"dst/{tables.VARIANTS}/{JGA}"]
    assert of_variants.p < 0.01
    assert of_variants.interval is not None
    assert of_variants.interval[0] > 0
    difference = values["pt", tables.VARIANTS, "all", JGA].value - mean([mean(of) for of in variants])
    assert of_variants.difference == pytest.approx(100 * difference)
    again = read_board(str(write(tmp_path / "leaderboard.json", json_bytes(board))))
    assert (again, sections(again), files_of(again)) == (board, sections(board), files_of(board))


def test_the_page_says_what_the_variants_cost_and_who_leads(trackers):
    board = board_of(trackers, replicates=999)
    chance = "(chance may have made the change)"
    falls = f"ft goes from 47.5% to 31.2% {chance} when schemas are reworded"
    assert headline(board) == f"{falls}; pt goes from 62.5% to 66.2% {chance}"
    assert lead(board) == "pt leads: 57.5% against 34.4% for ft (joint goal accuracy, mean over 4 sets)."
    one = board_of({"ft": trackers["ft"]})
    assert headline(one) == falls
    assert lead(one) == "ft: joint goal accuracy, mean over 4 sets: 34.4%."
    without = compare_systems(trackers, Config(sets=("original", "typos"), replicates=9))
    assert headline(without).startswith(f"pt goes from 62.5% to 35.0% {chance} on typos; ft goes")
    assert "is ahead, but not significantly: 48.8% against 37.5%" in lead(without)
    assert headline(board) in files_of(board)["report.html"].decode()
    without_original = compare_systems(trackers, Config(sets=("typos",)))
    assert headline(without_original) == leader(without_original)
    assert lead(without_original) == ""


@cases(
    "value interval options change",
    (0.3, (0.2, 0.4), {"replicates": 0}, "falls from 50.0% to 30.0%"),
    (0.3, (0.2, 0.45), {"replicates": 0}, "goes from 50.0% to 30.0% (the intervals overlap)"),
    (0.3, (None, None), {}, "goes from 50.0% to 30.0%"),
    # The paired test decides, as the same dialogues are compared.
    (0.3, (0.2, 0.45), {}, "falls from 50.0% to 30.0%"),
    (0.7, (0.5, 0.8), {}, "rises from 50.0% to 70.0%"),
    (0.3, (0.2, 0.4), {"noise": True}, "goes from 50.0% to 30.0% (chance may have made the change)"),
)
def test_a_number_falls_only_if_the_test_is_clear(trackers, value, interval, options, change):
    board = board_of({"ft": trackers["ft"]})
    of_sets = {"original": (0.5, 0.45, 0.55), tables.VARIANTS: (value, *interval)}
    rows = [row for row in board.rows if (row.metric, row.group) == (JGA, "all") and row.set in of_sets]
    rows = [replace(row, **dict(zip(("value", "low", "high"), of_sets[row.set], strict=True))) for row in rows]
    config = replace(board.config, replicates=options.get("replicates", 99))
    noise = [("ft", f"dst/{tables.VARIANTS}/{JGA}")] if options.get("noise") else []
    assert headline(replace(board, rows=rows, config=config, noise=noise)) == f"ft {change} when schemas are reworded"


def test_mixes_are_only_in_the_long_table(tmp_path):
    names = ["original", "typos", "typos-env1", "typos-env2", "verbose", "prod-env1"]
    systems = {}
    for j, name in enumerate("ab"):
        goals = states(tmp_path / name, {one: numbers(i, 0.3 + j * 0.4) for i, one in enumerate(names)})
        systems[name] = [goals, groups(tmp_path / f"{name}_ood", "ood", {"ood-10": {"f1": 0.5 + j / 10}})]
    board = board_of(systems, baseline="a")
    columns = table_of(board, "Systems by set").columns
    assert columns == ["system", "mean", "original", "typos", "verbose", "ood-10", "prod-env1"]
    files = files_of(board)
    assert b"typos-env1" in files["table.csv"]
    assert b"typos-env1" not in files["table.md"]
    charted = next(one for one in sections(board) if isinstance(one, Dots)).dots
    assert not [dot for dot in charted if dot.label.startswith("typos-env")]
    assert not [row for row in table_of(board, "Differences").rows if "typos-env" in row[1]]


def test_where_low_is_good_and_what_is_requested(tmp_path):
    path = groups(tmp_path / "one", "ood", {"#ALL": {"f1": 0.8, "fpr95": 0.1, "bleu": 30.0}})
    board = board_of({"one": [path], "two": [path]}, "f1", "fpr95", "bleu")
    assert (board.averaged, board.average["one"].value) == (["ood/#ALL/f1", "ood/#ALL/bleu"], 55.0)
    assert (leader(board), board.systems) == ("one and two are level: 55.0 (average of 2 numbers)", ["one", "two"])


def test_numbers_that_a_system_lacks_are_dashes(tmp_path, trackers):
    # RADDLE's DAMD has no results out of domain.
    damd = [states(tmp_path / "damd", {name: numbers(i, 0.5) for i, name in enumerate(("original", "v1", "v2"))})]
    ood = [groups(tmp_path / "ood", "ood", {"ood-10": {"f1": 0.9}})]
    board = compare_systems({"damd": damd, "ft": trackers["ft"] + ood, "detector": ood}, Config(replicates=9))
    assert (board.left_out, board.systems, board.averaged) == ([], ["damd", "detector", "ft"], [])
    assert [board.average[name].value for name in board.systems] == [None] * 3
    assert leader(board) == "No number is known for all systems"
    shown = table_of(board, "Systems by set")
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
    shown = table_of(board, "Joint goal accuracy by set, %")
    assert (shown.columns[1], (0, 1) in shown.best, shown.rows[0][4:]) == ("mean", True, ["–", "–"])
    expected = 100 * mean([mean(numbers(1, 0.9)), mean(numbers(1, 0.8))])
    assert board.average["best"].value == pytest.approx(expected)
    assert shown.rows[0][1].split("\n")[0] == f"{expected:.1f}"
    assert next(line for line in terminal_lines(board) if line.startswith("mean")).split()[-2] == f"{expected:.1f}"


def test_the_sensitivity_of_what_is_nearly_always_wrong(tmp_path):
    systems = {}
    for name, right in {"broken": (30, 1, 0), "shaky": (90, 80, -80), "steady": (90, 80, 78)}.items():
        values = [([1.0] * abs(n) + [0.0] * (100 - abs(n)))[:: -1 if n < 0 else 1] for n in right]
        systems[name] = [states(tmp_path / name, dict(zip(("original", "v1", "v2"), values, strict=True)))]
    board = board_of(systems, baseline="shaky", replicates=999)
    shown = table_of(board, "Joint goal accuracy by set, %")
    at = shown.columns.index("schema sensitivity, %")
    assert [row[at].split("\n")[0] for row in shown.rows] == ["56.6", "2.8", "not defined"]
    assert at not in {column for _, column in shown.best}
    assert "not defined" in table_of(board, "Joint goal accuracy by service, %").rows[2]
    files = files_of(board)
    for text in (files["table.tex"].decode(), files["table.md"].decode(), "\n".join(terminal_lines(board))):
        assert "not defined" in text
        assert not [bold for bold in (r"\textbf{2.8}", "**2.8") if bold in text]
    values = {one.system: one for one in board.rows if one.metric == tables.SENSITIVITY and one.group == "all"}
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
    assert not [row for row in table_of(board, "Differences").rows if row[2] == "+100.00" and row[4] != "–"]
    tracker = {"original": [1.0] * 16, "v1": [0.0] * 16}  # eight dialogues with two frames each
    (first, second) = (one for one in board_of({"a": [states(tmp_path / "a", tracker)]}).rows if one.group == "all")
    of_both = (first.low, first.high, second.low, second.high)
    assert of_both == pytest.approx((*expected["all"][1:], *expected["none"][1:]), abs=1e-5)


def test_relative_changes_only_from_an_original_that_is_clearly_above_zero(tmp_path):
    sets = {"original": [1.0, *[0.0] * 39], "typos": [1.0] * 20 + [0.0] * 20}
    swapped = dict(zip(sets, reversed(sets.values()), strict=True))
    board = board_of({"low": [states(tmp_path / "low", sets)], "high": [states(tmp_path / "high", swapped)]})
    rows = {row[0]: row for row in table_of(board, "Joint goal accuracy by set, %").rows}
    changes = {name: row[-1].split("\n")[2:] for name, row in rows.items()}
    assert changes == {"low": ["+47.5 points"], "high": ["-47.5 points", "-95.0%"]}


def test_what_no_system_has_is_left_out_of_everything(trackers, tmp_path):
    chosen = Config(sets=("typos", "SR-30", "original"), average=("joint_goal_accuracy", "combined", "SR-30/f1"))
    board = compare_systems(trackers, chosen)
    assert board.averaged == ["dst/typos/joint_goal_accuracy", "dst/original/joint_goal_accuracy"]
    assert board.left_out == [f"{name}: no system has it" for name in ("SR-30", "combined", "SR-30/f1")]
    raised(InputError, compare_systems, trackers, Config(sets=("SR-30",)), match="SR-30: no system has it")
    raised(InputError, compare_systems, trackers, Config(average=("f2",)), match="no system has f2: choose from joint_")
    ood = {"ood": [groups(tmp_path, "ood", {"#ALL": {"fpr95": 0.1, "bleu": 3.0}})]}
    raised(InputError, compare_systems, ood, Config(), match="no system has a main metric: choose from bleu, fpr95")
    board = board_of(trackers, JGA, f"seen/{JGA}", f"other/{JGA}")
    assert board.columns[-1] == f"dst/typos/seen/{JGA}"
    assert board.left_out == [f"other/{JGA}: no system has it"]
    board = board_of(trackers, f"seen/{JGA}")
    assert (board.columns[0], terminal_lines(board)) == (f"dst/original/seen/{JGA}", [])
    assert table_of(board, "Joint goal accuracy of seen and unseen services, %").groups == {}


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
    numbers = [{key: float(row[key]) if row[key] else None for key in ("value", "low", "high")} for row in rows]
    assert [row | of_row for row, of_row in zip(rows, numbers, strict=True)] == parquet
    assert {row["group"] for row in parquet} == {"all", "seen", "unseen", "Inns_1", "Cabs_1"}
    averages = [(name, "average", board.average[name].value) for name in ("pt", "ft")]
    assert [(row["system"], row["metric"], row["value"]) for row in parquet[-2:]] == averages
    lines = files["table.md"].decode().splitlines()
    assert lines[2] == "| system | mean | original | v1 | v2 | v1–v2 | schema sensitivity, % | typos |"
    assert lines[4].startswith("| pt | **")
    assert lines[7:10:2] == ["Joint goal accuracy of seen and unseen services, %", lines[2]]
    starts = ["| **seen services**", "| pt", "| ft", "| **unseen services**", "| pt", "| ft"]
    assert [line.split(" |")[0] for line in lines[11:]] == starts
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
    assert [row[1] for row in table_of(board, "Out-of-domain F1 by set, %").rows] == ["10.0", "10.0", "–"]


BASE = [1.0, 0.0, 1.0, 1.0]
SETS = {"original": BASE, "v1": [1.0, 0.0, 1.0, 0.0], "v2": [0.0, 0.0, 1.0, 0.5]}


def test_states_by_set_and_by_group(tmp_path):
    path = states(tmp_path / "one", SETS, split="dev")
    results = tables.read_task(path)
    values = {row.column: row.value for row in results.rows}
    assert (results.variants, results.options["split"]) == (("v1", "v2"), "dev")
    assert {row.group for row in results.rows} == {"all", "seen", "unseen", "Inns_1", "Cabs_1"}
    assert values[f"dst/v2/{JGA}"] == 0.375
    assert values[f"dst/v2/unseen/{JGA}"] == 0.25
    assert values[f"dst/v2/Cabs_1/{JGA}"] == 0.25  # under the original's name
    assert values[f"dst/{tables.VARIANTS}/{JGA}"] == (0.5 + 0.375) / 2
    assert values[f"dst/{tables.VARIANTS}/{tables.SENSITIVITY}"] == sensitivity([SETS["v1"], SETS["v2"]])
    goals = [f"dst/{name}/{JGA}" for name in ("original", "v1", "v2", tables.VARIANTS)]
    assert [row.column for row in tables.columns_of(results.rows)] == [*goals, "dst/#VARIANTS/schema_sensitivity"]
    # The rows give the numbers back.
    columns = [row for row in results.rows if row.metric == JGA]
    parts = tables.read_rows(results.path, columns, results.variants)
    assert set(parts) == {row.column for row in columns}
    assert parts[f"dst/v1/{JGA}"] == ({"d0": (1.0, 2), "d1": (1.0, 2)},)
    of_seen = {"d0": (1.0, 1), "d1": (1.0, 1)}, {"d0": (0.0, 1), "d1": (1.0, 1)}
    assert parts[f"dst/{tables.VARIANTS}/seen/{JGA}"] == of_seen
    (tmp_path / "one/rows/v1/dialogues_001.parquet").write_bytes(b"PAR1")
    raised(InputError, board_of, {"one": [path]}, match="cannot be read as Parquet")


def test_rows_that_do_not_average_to_the_number(tmp_path):
    results = tables.read_task(intents(tmp_path / "one", intent_metrics(0.5, 1.0, 0.7), [1.0, None, 1.0]))
    parts = tables.read_rows(results.path, [row for row in results.rows if row.metric == "accuracy"], ())
    assert parts == {"intent/b/accuracy": ({"d0": (1.0, 1)},)}


def test_what_systems_do_not_share_is_shown_and_not_averaged(tmp_path):
    one = states(tmp_path / "one", {**SETS, "typos": BASE})
    other = states(tmp_path / "other", {**SETS, "v3": BASE, "simple": BASE})
    found = groups(tmp_path / "ood", "ood", {"#ALL": {"f1": 0.5}})
    board = board_of({"a": [one, found], "b": [other]})
    goals = [f"dst/{name}/joint_goal_accuracy" for name in ("original", "v1", "v2", "v3", "typos", "simple")]
    assert (board.columns, board.averaged) == ([*goals, "ood/#ALL/f1"], goals[:3])
    assert board.left_out == ["mean over the variants of dst: the systems were not scored on the same variants"]
    assert board_of({"a": [one, found]}).left_out == []


def test_what_is_over_all_sets_is_no_common_number_of_different_sets(tmp_path):
    one = intents(tmp_path / "one", intent_metrics(0.5, 1.0, 0.7), [1.0, 1.0, 1.0])
    some = {name: of for name, of in intent_metrics(1, 1, 1).items() if name != "b"}
    board = board_of({"one": [one], "other": [intents(tmp_path / "other", some, [1.0, 1.0], KEYS[:2])]})
    assert {row.set for row in board.rows} == {"a", "b"}


def sized(folder, n):
    """A system whose numbers are over two items of set a and ``n`` of set b."""
    return table(folder, "intent", tables.results_of("intent", intent_metrics(0.5, 1.0, 2 / 3), {"a": 2, "b": n}))


def test_what_cannot_be_board_of(tmp_path):
    one = sized(tmp_path / "one", 3)
    options = intents(tmp_path / "options", intent_metrics(1, 1, 1), [1.0, 1.0, 1.0], positive="ood")
    right = intents(tmp_path / "right", intent_metrics(1, 1, 1), [1.0, 1.0, 1.0])
    keys = [*KEYS[:2], ("b", "d7", 0)]
    others = intents(tmp_path / "others", intent_metrics(1, 1, 1), [1.0, 1.0, 1.0], keys)
    raised(InputError, board_of, {"a": [right], "b": [others]}, match="other dialogues of set 'b' were scored than for")
    for path, reason in (
        (sized(tmp_path / "rows", 4), "3 items of set 'b' were scored for 'one', 4 for 'other': evaluate the systems"),
        (options, "scored in different ways: positive is None for 'one', 'ood' for 'other'"),
    ):
        assert raised(InputError, board_of, {"one": [one], "other": [path]}, match=reason).path == path
    raised(InputError, board_of, {"a": [one], "b": [one, one]}, match="'b' has two results of task 'intent'")


def test_requests_that_an_endpoint_refused_are_no_other_items(tmp_path):
    systems = {"one": [sized(tmp_path / "one", 3)], "other": [sized(tmp_path / "other", 2)]}
    path = tmp_path / "other/run.json"
    for key, name in (("refused/b", "b"), ("refused_frames/b", "b"), ("refused", "#ALL")):
        path.write_text(json.dumps({**json.loads(path.read_text()), "counts": {"turns": 2, key: 1}}))
        left_out = [f"1 item of set {name} of task intent for 'other', which its endpoint refused"]
        assert board_of(systems).left_out == left_out


@cases(
    "files reason",
    ({}, "there is no finished output of 'parapet evaluate'"),
    ({"run.json": '{"pipeline": "ood"}'}, "contains the output of 'parapet ood'"),
    ({"run.json": '{"pipeline": "evaluate_ood"}'}, "there is no such file"),
)
def test_folders_that_are_no_evaluation(tmp_path, files, reason):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    raised(InputError, tables.read_task, str(tmp_path), match=reason)
    raised(InputError, tables.read_task, str(tmp_path / "nothing"), match="there is no finished output")
