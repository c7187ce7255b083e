"""The built-in suites of the papers: they can be read, their numbers are the papers', what they refer to is there."""

import re
import tomllib
from statistics import fmean
from typing import Any

import pytest
from inn_toy import SERVICE, dialogues, texts
from kit import cases, corpus, run, write
from tiny_checkpoints import save_gpt2

from parapet.pipelines.suite.graph import Graph
from parapet.pipelines.suite.page import beside_ours
from parapet.pipelines.suite.suite_file import SUITES, read_suite
from parapet.transforms.perturb.ood.plan import FALLBACK

PAPERS = {"sgdx": "sgd_x.txt", "raddle": "raddle.txt", "sgsacc": "sgsacc.txt", "babi": "babi_dialog.txt"}
# Shares that the paper of SGSAcc has as such, and we in per cent, as all others.
SHARES = {"sgsacc": {96.3, 97.0, 96.0, 95.7, 95.8, 95.4}}


def settings(name, folder):
    """What a user has to give: here SGD's folder, and task 1 of bAbI."""
    (folder / "sgd_x" / "data").mkdir(parents=True)
    for file in ("candidates", "kb-all", "task1-API-calls-trn", "task1-API-calls-dev", "task1-API-calls-tst"):
        (folder / f"dialog-babi-{file}.txt").touch()
    return [f"inputs.babi={folder}"] if name == "babi" else [f"corpus.sgd={folder}"]


@pytest.fixture(params=sorted(PAPERS))
def suite(request, tmp_path):
    return read_suite(request.param, settings(request.param, tmp_path))


def published(name, title, row):
    """The published numbers of a row."""
    tables = tomllib.loads((SUITES / f"{name}.toml").read_text(encoding="utf-8"))["tables"]
    found = [one for table in tables if table["title"].startswith(title) for one in table["rows"] if one["name"] == row]
    assert len(found) == 1
    return found[0]["published"]


def test_every_published_number_stands_in_the_paper(suite, real_data):
    text = (real_data / "papers" / PAPERS[suite.name]).read_text(encoding="utf-8")
    known = {float(number) for number in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?", text)} | SHARES.get(suite.name, set())
    published = {number for table in suite.tables for row in table.rows for number in row.published}
    assert {number for number in published if number == number} <= known


def test_what_stands_in_one_line_of_the_paper_stands_in_one_row(real_data):
    """Tables of RADDLE, whose numbers are many: none is in the place of another."""
    text = (real_data / "papers" / PAPERS["raddle"]).read_text(encoding="utf-8")
    lines = [re.findall(r"\d+\.\d+", line) for line in text.splitlines()]
    whole = {tuple(map(float, line)) for line in lines if len(line) in (3, 4, 5, 12)}
    tables = tomllib.loads((SUITES / "raddle.toml").read_text(encoding="utf-8"))["tables"]
    rows = [row for table in tables if re.match("Table [3457]:", table["title"]) for row in table["rows"]]
    compared = [tuple(row["published"]) for row in rows if "published" in row]
    assert (len(compared), [row for row in compared if row not in whole]) == (13 + 13 + 3 + 2, [])


def test_the_papers_own_means_are_those_of_the_rows():
    for row in ("normalized Levenshtein distance of names", "BLEU of descriptions"):
        numbers = published("sgdx", "Table 1", row)
        assert fmean(numbers[1:6]) == pytest.approx(numbers[6], abs=0.05)
    for system in ("GPT-2", "Soloist"):
        accuracy = published("raddle", "Table 2: joint goal accuracy", system)
        combined = published("raddle", "Table 2: combined", system)
        average, intents, f1 = published("raddle", "Table 2: average", system)
        assert len(accuracy) == 8
        assert fmean([*accuracy, *combined, intents, f1]) == pytest.approx(average, abs=0.01)
        sources = [f"Table 6: out-of-domain turns from {name}" for name in ("DSTC", "Stanford", "Reddit", "Twitter")]
        of_sources = [published("raddle", title, f"{system}, 50 %") for title in sources]
        assert fmean(numbers[2] for numbers in of_sources) == pytest.approx(f1, abs=0.01)
        for precision, recall, score, _ in of_sources:
            assert 2 * precision * recall / (precision + recall) == pytest.approx(score, abs=0.01)
    env_0 = published("raddle", "Table 4: Soloist", "Env-0")
    assert fmean(env_0) == pytest.approx(published("raddle", "Table 2: joint goal accuracy", "Soloist")[0], abs=0.01)
    for system in ("SGP-DST", "T5DST"):
        for services in ("all", "seen", "unseen"):
            original, variants, difference, _ = published("sgdx", "Table 2", f"{system}, {services}")
            assert 100 * (variants / original - 1) == pytest.approx(difference, abs=0.15)


def test_the_graph_can_be_made_and_every_pointer_leads_to_a_step(suite):
    graph = Graph(suite)  # raises for a step or a pointer that leads nowhere
    assert graph.steps
    assert not [one for one in graph.left_out if not (one.needs or one.reason.endswith("is left out"))]


def test_a_system_of_ones_own_has_rows_in_the_tables_of_the_paper(tmp_path):
    given = settings("sgdx", tmp_path)
    suites = [read_suite("sgdx", [*given, *more]) for more in ([], ["systems.mine.model=mine.py:Tracker"])]
    rows = [[row.name for table in suite.tables for row in table.rows] for suite in suites]
    assert [name for name in rows[1] if name not in rows[0]] == ["mine, all", "mine, seen", "mine, unseen", "mine"]
    assert not [name for name in rows[0] if "{system}" in name]
    assert [Graph(suite).systems for suite in suites] == [["names", "meaning"], ["names", "meaning", "mine"]]
    suite = read_suite("sgdx", [*given, "systems.mine.style=json", "systems.mine.endpoint=http://127.0.0.1:1"])
    assert suite.systems[-1] == {"name": "mine", "style": "json", "endpoint": "http://127.0.0.1:1"}


def test_with_what_it_needs_a_system_is_there(tmp_path):
    given = settings("sgdx", tmp_path)
    graph = Graph(read_suite("sgdx", [*given, "inputs.t5=t5", "systems.T5DST.train.steps=2"]))
    assert graph.systems == ["names", "meaning", "T5DST"]
    assert {"checkpoint": "t5", "dev": str(tmp_path)}.items() <= graph.steps["models/T5DST/dst"].options.items()
    graph = Graph(read_suite("sgdx", [*given, "systems.T5DST.predictions=states"]))
    assert "models/T5DST/dst" not in graph.steps
    assert graph.steps["scores/T5DST/dst"].options["predictions"] == "states"


@cases("system model", ("SGP-DST", "sgp_dst"), ("T5DST", "t5dst"), ("SGD-Baseline", "sgd_baseline"))
def test_a_system_of_sgdx_is_trained_on_each_training_set(system, model, tmp_path):
    given = ["inputs.bert=net", "inputs.t5=net", "steps.training_sets.split=train"]
    translated = ["steps.back_translate.engine=google", "steps.back_translate.google_project=ours"]
    steps = Graph(read_suite("sgdx", [*settings("sgdx", tmp_path), *given, *translated])).steps
    trainings = [steps[f"models/{system}{suffix}/dst"] for suffix in ("", "-backtrans", "-oracle", "-corrupted")]
    assert {step.command for step in trainings} == {("train", model)}
    assert {(step.options["preset"], step.options["checkpoint"]) for step in trainings} == {("sgdx", "net")}
    others = ["@back_translated_training_set/backtrans", "@training_sets/oracle", "@training_sets/corrupted"]
    assert [step.options["train"] for step in trainings] == [str(tmp_path), *others]
    assert list(steps[f"Table-3-{system}"].options["systems"]) == ["none", "backtrans", "oracle", "corrupted"]


def test_steps_on_the_corpus_take_the_split_that_systems_are_scored_on(tmp_path):
    suite = read_suite("sgsacc", [*settings("sgsacc", tmp_path), "corpus.splits=dev", "inputs.nli=nli", "inputs.t5=t5"])
    steps = Graph(suite).steps
    names = ("reference-lexical", "FT-T5-nli", "ensemble", "scores/PT-T5/generation", "predictions/FT-T5/generation")
    assert {steps[name].options["split"] for name in names} == {"dev"}


def test_steps_that_need_what_is_left_out_are_left_out_or_compare_the_rest(tmp_path):
    judged = read_suite("sgsacc", [*settings("sgsacc", tmp_path), "inputs.nli=nli"])  # but no T5
    graph = Graph(judged)
    assert list(graph.steps) == ["reference-lexical", "reference-nli", "scores/reference/generation", "comparison"]
    assert graph.systems == ["reference"]
    folder = tmp_path / "t5"
    states = [f"systems.{name}.predictions=states" for name in ("T5DST", "T5DST-oracle")]
    predicted = read_suite("sgdx", [*settings("sgdx", folder), *states])
    compared = Graph(predicted).steps["Table-3-T5DST"].options
    assert compared["systems"] == {"none": "@scores/T5DST", "oracle": "@scores/T5DST-oracle"}
    for only in states:  # nothing to compare, or no baseline
        assert "Table-3-T5DST" not in Graph(read_suite("sgdx", [f"corpus.sgd={folder}", only])).steps


def test_the_page_says_what_the_numbers_that_are_missing_need(tmp_path):
    suite = read_suite("sgdx", settings("sgdx", tmp_path))
    graph = Graph(suite)
    shown = {table.title.partition(":")[0]: beside_ours(table, suite.seeds, graph, tmp_path) for table in suite.tables}
    table = shown["Table 2"]
    assert table.rows[3] == ["T5DST, all", "–\npaper 72.6", "–\npaper 64.0", "–\npaper -11.9", "–\npaper 40.4"]
    systems, services = ("SGP-DST", "T5DST"), ("all", "seen", "unseen")  # those of ours alone have no numbers yet
    assert [row[0] for row in table.rows] == [f"{system}, {service}" for system in systems for service in services]
    assert table.note.count("--set inputs.t5=DIR") == 1
    assert shown["Figure 4"].rows == []
    changes = next(table for table in suite.tables if table.title.startswith("Table 3: relative"))
    first = beside_ours(changes, suite.seeds, graph, tmp_path).rows[0]
    assert first == ["SGP-DST, backtrans", "–\npaper 8", "–\npaper -17"]
    numbers = [("SGP-DST", 0.499, 0.519), ("SGP-DST-backtrans", 0.541, 0.431)]
    numbers += [("SGD-Baseline", 0.2, 0.4), ("SGD-Baseline-oracle", 0.3, 0.3)]
    for system, variants, sensitivity in numbers:
        row = {"#ALL_SERVICES": {"variants": variants, "schema_sensitivity": sensitivity}}
        write(tmp_path / "scores" / system / "dst/robustness.json", {"variants": {"table": row}})
    shown_changes = beside_ours(changes, suite.seeds, graph, tmp_path).rows
    assert shown_changes[0] == ["SGP-DST, backtrans", "8\npaper 8, +0", "-17\npaper -17, +0"]
    # SGD Baseline, of which the paper has no numbers
    assert shown_changes[4:] == [["SGD-Baseline, oracle", "50", "-25"]]


def test_detectors_and_gpt2_are_trained_on_foreign_turns_and_on_reminders(tmp_path):
    """Each rate trains a model; those test sets are predicted and scored whose utterances are given."""
    given = settings("raddle", tmp_path)
    assert Graph(read_suite("raddle", given)).systems == ["meaning"]
    graph = Graph(read_suite("raddle", [*given, "inputs.foreign=own"]))
    assert graph.systems == ["meaning", "classifier-10", "classifier-20", "classifier-50"]
    assert graph.steps["ood_training-20"].options["source"] == "own"
    assert graph.steps["models/classifier-20/ood"].options["train"] == "@ood_training-20"
    given = [*given, "inputs.gpt2=gpt2"]
    steps = Graph(read_suite("raddle", given)).steps
    assert [name for name in steps if name.startswith("Table-6")] == []
    parts = {f"Table-7-GPT-2{part}" for part in ("", "-predictions", "-states", "-responses")}
    assert {name for name in steps if name.startswith("Table-7-GPT-2")} == parts
    steps = Graph(read_suite("raddle", [*given, "inputs.foreign=own", "inputs.reddit=chat"])).steps
    assert steps["Table-6-GPT-2-20"].options["train"] == ["@ood_training-20/ood-20"]
    assert {steps[f"ood_training-{rate}"].options["split"] for rate in (10, 20, 50)} == {"train,test"}
    tested = {"foreign": "@ood_training-50/ood-50", "reddit": "@sets/reddit/ood-50", "ood-50": "@sets/ood/ood-50"}
    for part in ("predictions", "detection", "states"):
        assert steps[f"Table-6-GPT-2-20-{part}"].options["sets"] == tested
    assert not [name for name in steps if "Soloist" in name]


@pytest.mark.thorough
def test_toy_nets_have_rows_in_tables_6_and_7(tmp_path):
    answered = [dialogue for dialogue in dialogues() if dialogue["turns"][-1]["speaker"] == "SYSTEM"]
    corpus(tmp_path / "corpus", [SERVICE], train=answered, dev=answered, test=answered[::3])
    write(tmp_path / "reddit.txt", "I burned the toast.\nPancakes are the best.\nThe rain will not stop today.\n")
    save_gpt2(tmp_path / "gpt2", [*texts(), FALLBACK], positions=1024)
    given = [f"corpus.sgd={tmp_path / 'corpus'}", f"inputs.gpt2={tmp_path / 'gpt2'}", "inputs.foreign=chat"]
    given += [f"inputs.reddit={tmp_path / 'reddit.txt'}", "sets.ood.source=chat", "steps.reminders.dialogues=[4,2,4]"]
    toy = {"max_length": 100, "learning_rate": 0.006, "batch_size": 8, "epochs": 30, "consistency": 0.0}
    given += [f"steps.Table-6-{{system}}-{{rate}}.{key}={value}" for key, value in toy.items()]
    given += ["steps.Table-7-{system}.steps=1"]
    flags = [word for setting in given for word in ("--set", setting)]
    made = run("suite", "raddle", *flags, "--only", "Table-6-GPT-2-50-*", "Table-7-GPT-2-*", output=tmp_path / "out")
    suite = read_suite("raddle", given)
    tables = [beside_ours(table, suite.seeds, Graph(suite), made.folder) for table in suite.tables]

    def shown(title, name):
        (row,) = (row for table in tables if table.title.startswith(title) for row in table.rows if row[0] == name)
        return [cell.partition("\n")[0] for cell in row[1:]]

    scored = made.json("Table-6-GPT-2-50-detection/metrics.json")["foreign"]
    row = shown("Table 6: out-of-domain turns from DSTC", "GPT-2, 50 %")
    assert row[:3] == [f"{100 * scored[name]:.2f}" for name in ("precision", "recall", "f1")]
    assert scored["f1"] > 0.5  # nothing is detected by an untrained net
    states = made.json("Table-6-GPT-2-50-states/robustness.json")["sets"]["reddit"]["metrics"]["#ALL_SERVICES"]
    row = shown("Table 6: out-of-domain turns from Reddit", "GPT-2, 50 %")
    assert row[3] == f"{100 * states['joint_goal_accuracy']:.2f}"
    assert shown("Table 6: out-of-domain turns from Twitter", "GPT-2, 50 %") == ["–"] * 4
    metrics = made.json("Table-7-GPT-2-responses/metrics.json")["#ALL"]
    assert shown("Table 7: unseen entities in reminders", "GPT-2")[4] == f"{100 * metrics['act_accuracy']:.2f}"


def test_what_is_left_out_says_the_line_that_gives_it(suite):
    raw: dict[str, Any] = tomllib.loads((SUITES / f"{suite.name}.toml").read_text(encoding="utf-8"))
    for one in Graph(suite).left_out:
        for given in re.findall(r"--set ([\w.+\-]+)=", one.needs):
            level, entry = given.split(".")[:2]
            entries = [{"name": of} if isinstance(of, str) else of for of in raw[level]]
            names = [of.get("name") or of.get("perturbation") or of["pipeline"].split()[0] for of in entries]
            assert entry in names, given


def test_tasks_that_are_there_are_trained_and_scored(tmp_path):
    graph = Graph(read_suite("babi", settings("babi", tmp_path)))
    scored = [name for name, step in graph.steps.items() if step.command == ("evaluate", "ranking")]
    seeded = ("embeddings", "embeddings-bigrams", "embeddings-match", "memn2n", "memn2n-match")
    named = [f"{model}-1-{seed}-scores" for model in seeded for seed in range(5)]
    named += [f"{model}-1-scores" for model in ("nearest", "rules", "tfidf", "tfidf-match")]
    assert sorted(scored) == sorted(named)
    assert graph.steps["memn2n-match-1-3"].options["match"] == str(tmp_path / "dialog-babi-kb-all.txt")
    assert graph.needs["memn2n-1-4-answers"] == {"memn2n-1-4"}
