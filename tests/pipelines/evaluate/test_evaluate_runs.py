"""Several runs of a system: repeated answers of endpoints, repeated models, folders of runs, and what all show."""

import csv
import random
import shutil
from statistics import fmean, stdev

import pytest
from chat_server import ChatServer
from compare_folders import sensitivity
from kit import BUNDLED, edit, files_of, json_of, lacking, refused, rows_of, run, write
from state_predictions import DIALOGUES, wrong

from parapet.evaluation.results import read_results

TASKS = BUNDLED / "tools/tasks.jsonl"
SETS = ("original", "v1", "v2")
AGENT = """
import random
class Agent:
    def __init__(self, right, seed=0):
        self.right, self.random = right, random.Random(seed)
    def predict(self, tasks):
        from parapet.evaluation.tools.exports import right_calls
        from parapet.evaluation.tools.tasks import read_tasks
        known = read_tasks(TASKS)
        return [
            [{call["name"]: call["arguments"]} for call in right_calls(known[task.id])]
            if self.random.random() < self.right else [{"none": {}}] for task in tasks
        ]
class Unseeded(Agent):
    def __init__(self):
        super().__init__(1.0)
"""


@pytest.fixture
def agent(tmp_path):
    """A file with an agent that is right at random, and the same tasks as two variants."""
    for name in ("v1", "v2"):
        for file in ("tasks.jsonl", "possible_answer/tasks.jsonl"):
            write(tmp_path / "variants" / name / file, (TASKS.parent / file).read_bytes())
    return write(tmp_path / "agent.py", AGENT.replace("TASKS)", f"{str(TASKS)!r})"))


def evaluate(folder, output="out", **flags):
    given = {"task": "tool_calls", "reference": TASKS, "variants": folder / "variants"}
    return run("evaluate", **given, output=folder / output, **flags)


def coefficient(values):
    return sensitivity([[value] for value in values])


def of_all_runs(folder):
    return {(row.set, row.metric): row.value for row in read_results(folder / "results.parquet") if row.run is None}


def test_repeats_of_a_model(agent, tmp_path):
    said = evaluate(tmp_path, model=f"{agent}:Agent", model_args="right=0.6", repeats=4).output
    single = evaluate(tmp_path, "single", model=f"{agent}:Agent", model_args=["right=0.6", "seed=2"])
    assert files_of(tmp_path / "out/run-2") == files_of(single.folder)
    # The same in plain Python, from the rows of the runs.
    runs = [rows_of(tmp_path / f"out/run-{i}/rows.parquet") for i in range(4)]
    right = {name: [[row["accuracy"] for row in rows if row["set"] == name] for rows in runs] for name in SETS}
    accuracies = [fmean(of_run) for of_run in right["original"]]
    numbers = of_all_runs(tmp_path / "out")
    assert numbers["original", "accuracy"] == pytest.approx(fmean(accuracies))
    assert numbers["original", "accuracy_sd"] == pytest.approx(stdev(accuracies))
    of_tasks = [*zip(*right["original"], strict=True)]
    assert numbers["original", "pass^4"] == fmean(all(of_task) for of_task in of_tasks)
    variances = [stdev(of_task) ** 2 for of_task in of_tasks]
    floor = 1.96 * (2 * sum(variances)) ** 0.5 / 40
    assert numbers["original", "accuracy_noise_floor"] == pytest.approx(floor, rel=1e-4)
    # Two variants, so pairs of repeats.
    pairs = [coefficient([of_task[i], of_task[(i + 1) % 4]]) for of_task in of_tasks for i in range(4)]
    reworded = [coefficient(pair) for i in range(4) for pair in zip(right["v1"][i], right["v2"][i], strict=True)]
    assert numbers["#VARIANTS", "schema_sensitivity"] == pytest.approx(fmean(reworded))
    assert numbers["#VARIANTS", "schema_sensitivity_of_noise"] == pytest.approx(fmean(pairs))
    assert numbers["#VARIANTS", "schema_sensitivity_excess"] == pytest.approx(fmean(reworded) - fmean(pairs))
    excess = next(row for row in read_results(tmp_path / "out/results.parquet") if row.metric.endswith("_excess"))
    assert excess.low < 0 < excess.high  # the variants are the original
    assert json_of(tmp_path / "out/metrics.json")["original"]["accuracy"] == pytest.approx(fmean(accuracies))
    mean = f"{100 * fmean(accuracies):.1f}% ± {100 * stdev(accuracies):.1f}"
    page = (tmp_path / "out/report.html").read_text()
    assert not lacking(said, f"accuracy, original, mean over 4 runs: {mean}", "noise floor of two runs", "pass^4")
    assert not lacking(page, mean, "of repeats of the original", 'href="run-3/report.html"', "pass^2")
    # Fewer runs replace them.
    evaluate(tmp_path, model=f"{agent}:Agent", model_args="right=0.6", repeats=2)
    assert sorted(path.name for path in (tmp_path / "out").glob("run-*")) == ["run-0", "run-1"]


def test_comparisons_show_means_and_mark_noise(agent, tmp_path):
    evaluate(tmp_path, "random", model=f"{agent}:Agent", model_args="right=0.6", repeats=3)
    evaluate(tmp_path, "others", model=f"{agent}:Agent", model_args=["right=0.6", "seed=7"], repeats=2)
    evaluate(tmp_path, "knows", model=f"{agent}:Unseeded")
    systems = [f"{name}={tmp_path / name}" for name in ("random", "others", "knows")]
    said = run("compare", "--systems", *systems, output=tmp_path / "board").output
    numbers = {name: of_all_runs(tmp_path / name) for name in ("random", "others")}
    mean, deviation = (100 * numbers["random"]["v1", metric] for metric in ("accuracy", "accuracy_sd"))
    assert not lacking(said, f"{mean:.1f} ± {deviation:.1f} ≈", "≈ may differ from the original by chance only")
    rows = csv.DictReader((tmp_path / "board/table.csv").open())
    table = {(row["system"], row["set"], row["metric"]): row for row in rows}
    passed = pytest.approx(numbers["random"]["original", "pass^3"])
    assert float(table["random", "original", "pass^3"]["value"]) == passed
    for name in ("random", "others", "knows"):
        assert [table[name, of_set, "accuracy"]["noise"] for of_set in SETS] == ["", "yes", "yes"]
    tests = [test for test in json_of(tmp_path / "board/leaderboard.json")["tests"] if "original/" in test["column"]]
    tests = {(test["first"], test["second"]): test for test in tests}
    floors = [numbers[name]["original", "accuracy_noise_floor"] ** 2 / n for name, n in (("random", 3), ("others", 2))]
    same = next(test for names, test in tests.items() if "knows" not in names)
    assert same["floor"] == pytest.approx(100 * (sum(floors) / 2) ** 0.5)
    assert abs(same["difference"]) < same["floor"]
    assert tests["knows", "random"]["p_holm"] < 0.05
    page = (tmp_path / "board/report.html").read_text()
    assert not lacking(page, "Repeats", "Noise in schema sensitivity", f"{same['difference']:+.2f} ≈")
    # Of some sets, too.
    run("compare", "--sets", "v1", "--systems", *systems[:2], output=tmp_path / "part")
    assert f"{mean:.1f}% ± {deviation:.1f}" in (tmp_path / "part/report.html").read_text()
    # A run that was evaluated again is not mixed with the others.
    edit(tmp_path / "random/run-1/run.json", lambda manifest: manifest.update(version="0"))
    assert "run-1: has changed since" in refused("compare", "--systems", *systems, output=tmp_path / "again")


def by_seed(body):
    """An agent whose answer depends on the request and the seed."""
    name = random.Random(f"{body['messages'][-1]['content']} {body['seed']}").choice(body["tools"])["function"]["name"]
    call = {"id": "1", "type": "function", "function": {"name": name, "arguments": "{}"}}
    return {"content": None, "tool_calls": [call]}


def test_repeated_answers_of_an_endpoint(agent, tmp_path):
    with ChatServer(by_seed) as server:
        flags = {"endpoint": server.url, "model": "m", "reference": TASKS, "variants": tmp_path / "variants"}
        run("predict", "llm_tools", **flags, output=tmp_path / "once")
        seeds = [body["seed"] for body in server.requests]
        assert set(seeds) == {0}
        cache = tmp_path / "once/.answers.sqlite"
        thrice = {**flags, "cache": cache, "repeats": 3, "output": tmp_path / "calls"}
        planned = run("predict", "llm_tools", "--dry_run", **thrice).output
        run("predict", "llm_tools", **thrice)
        further = [body["seed"] for body in server.requests[len(seeds) :]]
        assert sorted(further) == sorted([1, 2] * len(seeds))
        assert planned.startswith(f"{2 * len(seeds)} calls to make, {len(seeds)} more are answered already")
        run("predict", "llm_tools", **thrice)
        assert len(server.requests) == 3 * len(seeds)
    for name in SETS:
        once = (tmp_path / f"once/predictions/{name}/tasks.jsonl").read_bytes()
        assert (tmp_path / f"calls/predictions/run-0/{name}/tasks.jsonl").read_bytes() == once
        assert (tmp_path / f"calls/predictions/run-1/{name}/tasks.jsonl").read_bytes() != once
    assert json_of(tmp_path / "calls/run.json")["counts"]["called/run-2/predictions/v2/tasks.jsonl"] == 40
    evaluate(tmp_path, predictions=tmp_path / "calls")
    single = evaluate(tmp_path, "single", predictions=tmp_path / "once")
    assert {row.run for row in read_results(tmp_path / "out/results.parquet")} == {0, 1, 2, None}
    assert (tmp_path / "out/run-0/rows.parquet").read_bytes() == (single.folder / "rows.parquet").read_bytes()
    # Of a single run, pages say that part of the sensitivity may be noise.
    run("compare", "--systems", f"once={single.folder}", f"thrice={tmp_path / 'out'}", output=tmp_path / "board")
    remark = "Part of the schema sensitivity is noise"
    assert remark in (single.folder / "report.html").read_text()
    page = (tmp_path / "board/report.html").read_text()
    assert f"once: {remark}" in page
    assert f"thrice: {remark}" not in page


def test_folders_of_runs_of_states(tmp_path):
    for i, seed in enumerate((1, 2)):
        write(tmp_path / f"states/run-{i}/dialogues_001.json", wrong(DIALOGUES, seed))
    flags = {"task": "dst", "replicates": 0}
    run("evaluate", predictions=tmp_path / "states", output=tmp_path / "out", **flags)
    single = run("evaluate", predictions=tmp_path / "states/run-1", output=tmp_path / "single", **flags)
    assert files_of(tmp_path / "out/run-1") == files_of(single.folder)
    goals = [json_of(tmp_path / f"out/run-{i}/metrics.json")["#ALL_SERVICES"]["joint_goal_accuracy"] for i in (0, 1)]
    assert goals[0] != goals[1]
    assert json_of(tmp_path / "out/metrics.json")["#ALL_SERVICES"]["joint_goal_accuracy"] == pytest.approx(fmean(goals))
    numbers = of_all_runs(tmp_path / "out")
    assert numbers["original", "joint_goal_accuracy_sd"] == pytest.approx(stdev(goals))
    assert numbers["original", "joint_goal_accuracy_noise_floor"] > 0
    shutil.rmtree(tmp_path / "states/run-0")
    said = refused("evaluate", predictions=tmp_path / "states", output=tmp_path / "again", **flags)
    assert "has run-1, so it must have all of run-0, run-1" in said


def test_what_repeats_need(agent, tmp_path):
    flags = {"task": "tool_calls", "reference": TASKS, "output": tmp_path / "out", "repeats": 2}
    assert "--repeats: requires --model" in refused("evaluate", predictions=tmp_path / "variants", **flags)
    model = {"model": f"{agent}:Agent", "model_args": ["right=1", "seed=x"]}
    assert "seed=x must be a whole number" in refused("evaluate", **model, **flags)


def test_repeats_in_a_suite(agent, tmp_path):
    system = '[[systems]]\nname = "{}"\nrepeats = 2\n{}\n'
    for file in ("tasks.jsonl", "possible_answer/tasks.jsonl"):
        write(tmp_path / "few" / file, rows_of(TASKS.parent / file)[:5])
    with ChatServer(by_seed) as server:
        text = f'[corpus]\ntasks = "{tmp_path}/few/tasks.jsonl"\n'
        text += system.format("class", f'model = "{agent}:Agent"\nmodel_args = {{ right = 0.5 }}')
        text += system.format("endpoint", f'endpoint = "{server.url}"\nmodel = "m"\nstyle = "tools"')
        run("suite", write(tmp_path / "suite.toml", text), output=tmp_path / "suite")
    for name in ("class", "endpoint"):
        assert list(json_of(tmp_path / f"suite/scores/{name}/tool_calls/run.json")["runs"]) == ["run-0", "run-1"]
    assert "class" in (tmp_path / "suite/index.html").read_text()
    assert '"class","tool_calls","original","all","pass^2"' in (tmp_path / "suite/table.csv").read_text()
    assert json_of(tmp_path / "suite/run.json")["failed"] == {}
