"""The estimates of ``parapet suite --dry_run``: what they count, what they say of every step, how they grow."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parapet.pipelines.main import main
from parapet.pipelines.suite.amounts import Amounts, count, splits, variants
from parapet.pipelines.suite.amounts import total as total_of
from parapet.pipelines.suite.checks import Plan, make_plan, warnings_of
from parapet.pipelines.suite.costs import (
    START,
    SUITE,
    StepCost,
    cost_of,
    estimate,
    loop_seconds,
    memory_of_machine,
    peak,
    predict,
    read_table,
    total,
    works,
)
from parapet.pipelines.suite.graph import make_graph
from parapet.pipelines.suite.options import lacks, parsed
from parapet.pipelines.suite.running import DONE, Outcome, Shown, _chains
from parapet.pipelines.suite.state import State
from parapet.pipelines.suite.suite_file import read_suite
from parapet.pipelines.suite.work import NotEstimated, Work
from parapet.schemas import layout
from parapet.schemas.layout import sample_root

SUITE_FILE = """
[corpus]
sgd = "corpus"
splits = ["test"]
[variants]
path = "variants"
[[sets]]
perturbation = "typos"
env = [0.5]
[[sets]]
perturbation = "ood"
rates = [0.2]
[[systems]]
name = "keywords"
model = "parapet.evaluation.dst.baseline:Keywords"
[[steps]]
pipeline = "few_shot"
sgd = "@corpus"
sizes = [2, 4]
test = 2
[[steps]]
pipeline = "unseen_services"
sgd = "@corpus"
[[steps]]
pipeline = "augment"
sgd = "@corpus"
oracle = "@variants"
[[steps]]
pipeline = "reminders"
dialogues = [40, 0, 10]
[[steps]]
pipeline = "restaurants"
sizes = 10
[[steps]]
name = "scored_with_a_model"
pipeline = "evaluate dst"
reference = "@corpus"
model = "my_model:Mine"
"""


def make(folder: Path, copies: int) -> None:
    """A suite whose corpus has the sample's dialogues so many times, under different ids."""
    for split in layout.read_root(sample_root()):
        place, variant = folder / "corpus" / split.split, folder / "variants" / "v1" / split.split
        place.mkdir(parents=True)
        variant.mkdir(parents=True)
        schema = layout.schema_bytes(split.raw)
        (place / "schema.json").write_bytes(schema)
        renamed = [{**raw, "service_name": f"{raw['service_name']}1"} for raw in split.raw]  # as in SGD-X
        (variant / "schema.json").write_bytes(layout.schema_bytes(renamed))
        for i, path in enumerate(layout.dialogue_files(sample_root(), split.split), 1):
            dialogues = [
                {**one, "dialogue_id": f"{c}-{one['dialogue_id']}"}
                for c in range(copies)
                for one in json.loads(path.read_bytes())
            ]
            (place / f"dialogues_{i:03}.json").write_bytes(layout.dialogue_bytes(dialogues))
    (folder / "suite.toml").write_text(SUITE_FILE, encoding="utf-8")


def estimated(file: str, folder: Path, speed: float = 1.0) -> dict[str, StepCost]:
    state = State(folder / "out")
    suite = read_suite(file, [])
    graph = make_graph(suite, state.sets_of, lacks)
    flags = {name: parsed(step, state.output) for name, step in graph.steps.items()}
    return estimate(graph, flags, list(graph.steps), state, suite.folder, speed)


@pytest.mark.parametrize("indented", [True, False])
def test_what_is_counted_is_what_is_there(indented: bool, tmp_path: Path) -> None:
    dialogues = json.loads(layout.dialogue_files(sample_root(), "test")[0].read_bytes())
    (tmp_path / "test").mkdir()
    data = layout.dialogue_bytes(dialogues) if indented else orjson.dumps(dialogues)
    (tmp_path / "test" / "dialogues_001.json").write_bytes(data)
    (tmp_path / "test" / "schema.json").write_bytes((sample_root() / "test" / "schema.json").read_bytes())
    found = splits(count(tmp_path))["test"]
    assert found.dialogues == len(dialogues)
    assert found.turns == sum(turn["speaker"] == "USER" for one in dialogues for turn in one["turns"])
    assert found.touched == pytest.approx(sum(len(one["services"]) for one in dialogues) / len(dialogues), rel=0.05)
    assert found.megabytes == pytest.approx(len(layout.dialogue_bytes(dialogues)) / 1e6, rel=0.02)
    assert found.services == len(json.loads((tmp_path / "test" / "schema.json").read_bytes()))


def test_answers_are_counted_without_reading_all() -> None:
    of_columns = {name: count(sample_root() / "crowd" / name)[""].answers for name in ("names.csv", "rewrites.csv")}
    assert of_columns["rewrites.csv"] == 220
    in_xml = (sample_root() / "crowd" / "assignments.jsonl").read_text(encoding="utf-8")
    assert count(sample_root() / "crowd" / "assignments.jsonl")[""].answers == in_xml.count("<QuestionIdentifier>")
    assert of_columns["names.csv"] > 500


def test_the_counts_of_what_cannot_be_parsed(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    for name, content in {"dialogues_001.json": b"\xff{[", "schema.json": b"[1", "answers.csv": b"\xff,\0\n"}.items():
        (tmp_path / "test" / name).write_bytes(content)
    found = count(tmp_path)["test"]
    assert (found.files, found.dialogues, found.services, found.answers) == (1, 0, 0, 0)
    assert count(tmp_path / "nothing") == {}


def test_every_step_of_the_sample_is_estimated_or_says_why_not(tmp_path: Path) -> None:
    costs = estimated("sample", tmp_path)
    unknown = {name: cost.reason for name, cost in costs.items() if cost.cpu is None}
    assert all(name.startswith(("models/", "predictions/")) for name in unknown)
    assert all("depends on the model" in reason for reason in unknown.values())
    for name, cost in costs.items():
        if name not in unknown:
            assert min(cost.cpu or 0, cost.memory or 0, cost.written or 0) > 0, name
            assert all(n > 0 for n in cost.counts.values()), name
            assert not cost.reason
    assert estimated("sample", tmp_path) == costs


def test_each_estimate_grows_with_the_corpus(tmp_path: Path) -> None:
    sizes = (1, 3, 9)
    for copies in sizes:
        make(tmp_path / str(copies), copies)
    costs = [estimated(str(tmp_path / str(copies) / "suite.toml"), tmp_path / str(copies)) for copies in sizes]
    of_dialogues = {"rewrite", "sets/typos", "sets/ood", "augment", "unseen_services", "scores/keywords/dst"}
    for name in costs[0]:
        for less, more in itertools.pairwise(one[name] for one in costs):
            # A little less: ids of other lengths in as many dialogues.
            assert 0.99 * (less.cpu or 0) <= (more.cpu or 0)
            assert 0.99 * (less.memory or 0) <= (more.memory or 0)
            assert 0.99 * (less.written or 0) <= (more.written or 0)
            if name in of_dialogues:
                assert (less.cpu or 0) < (more.cpu or 0), name
                assert sum(less.counts.values()) < sum(more.counts.values()), name
    assert costs[0]["scored_with_a_model"].cpu is None
    assert "how long my_model:Mine takes depends on the model" in costs[0]["scored_with_a_model"].reason


def test_on_a_slower_machine_only_the_time_grows(tmp_path: Path) -> None:
    make(tmp_path, 1)
    here, slow = (estimated(str(tmp_path / "suite.toml"), tmp_path, speed) for speed in (1.0, 3.0))
    assert here.keys() == slow.keys()
    for name, cost in here.items():
        assert slow[name].cpu == (None if cost.cpu is None else pytest.approx(3 * cost.cpu))
        assert (slow[name].memory, slow[name].written) == (cost.memory, cost.written)


def test_workers_of_a_step_take_memory(tmp_path: Path) -> None:
    make(tmp_path, 1)
    alone = estimated(str(tmp_path / "suite.toml"), tmp_path)["sets/typos"].memory or 0
    with (tmp_path / "suite.toml").open("a", encoding="utf-8") as file:
        file.write('[[steps]]\nname = "by_three"\npipeline = "perturb typos"\nenv = [0.5]\nworkers = 3\n')
    with_workers = estimated(str(tmp_path / "suite.toml"), tmp_path)["by_three"].memory or 0
    assert with_workers > alone + 3 * 50


def test_a_step_that_nobody_knows_begins_before_others(tmp_path: Path) -> None:
    make(tmp_path, 1)
    (tmp_path / "my_model.py").touch()
    suite, state = read_suite(str(tmp_path / "suite.toml"), []), State(tmp_path / "out")
    graph = make_graph(suite, state.sets_of, lacks)
    plan = make_plan(suite, graph, list(graph.steps), state, [])
    assert plan.seconds["scored_with_a_model"] is None
    lengths = _chains(graph, plan.seconds)
    assert lengths["scored_with_a_model"] == max(seconds for seconds in plan.seconds.values() if seconds is not None)
    with Shown("a suite", list(graph.steps), tmp_path, plan.seconds, lambda left: sum(left.values())) as shown:
        assert shown.seconds_left() is None
        shown.ended(graph.steps["scored_with_a_model"], Outcome(DONE))
        assert shown.seconds_left() == pytest.approx(total(plan.costs[one].cpu for one in shown.estimates))


def test_predicted_outputs_are_those_that_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path, 2)
    text = (tmp_path / "suite.toml").read_text(encoding="utf-8").partition('[[steps]]\nname = "scored_with')[0]
    (tmp_path / "suite.toml").write_text(text, encoding="utf-8")
    suite, output = read_suite(str(tmp_path / "suite.toml"), []), tmp_path / "out"
    state = State(output)
    graph = make_graph(suite, state.sets_of, lacks)
    flags = {name: parsed(step, output) for name, step in graph.steps.items()}
    before = works(graph, flags, list(graph.steps), state, suite.folder)
    assert main(["suite", str(tmp_path / "suite.toml"), "--output", str(output), "--quiet"]) == 0
    for name in (
        "rewrite",
        "sets/typos",
        "sets/ood",
        "augment",
        "unseen_services",
        "few_shot",
        "reminders",
        "restaurants",
    ):
        work = before[name]
        assert isinstance(work, Work)
        predicted, written = total_of(work.output.values()), total_of(count(output / name).values())
        tolerance = 0.5 if name == "few_shot" else 0.25
        assert predicted.dialogues == pytest.approx(written.dialogues, rel=tolerance), name
        assert predicted.turns == pytest.approx(written.turns, rel=tolerance), name
        assert predicted.megabytes == pytest.approx(written.megabytes, rel=tolerance), name
    after = works(graph, flags, [], State(output), suite.folder)
    scored = [one["scores/keywords/dst"] for one in (before, after)]
    assert all(isinstance(one, Work) for one in scored)
    assert scored[0].counts["turns"] == pytest.approx(scored[1].counts["turns"], rel=0.1)  # type: ignore[union-attr]
    records = State(output).records
    assert all(records[name].cpu > 0 and records[name].memory > 50 for name in graph.steps)
    capsys.readouterr()
    (tmp_path / "corpus/test/schema.json").write_bytes(b"[]")
    assert main(["suite", str(tmp_path / "suite.toml"), "--output", str(output), "--dry_run"]) == 0
    assert "reminders                unchanged" in capsys.readouterr().out


def test_a_dry_run_prints_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path, 1)
    flags = ["suite", str(tmp_path / "suite.toml"), "--output", str(tmp_path / "out"), "--jobs", "1", "--dry_run"]
    assert main(flags) == 0
    shown = capsys.readouterr().out
    rows = {line.split()[0]: line for line in shown.splitlines()[1:]}
    assert shown.splitlines()[0].split() == ["CPU", "memory", "writes"]
    assert re.fullmatch(r"rewrite +[\d.]+ s +\d+ MB +[\d.]+ MB", rows["rewrite"])
    assert "(not estimated: how long my_model:Mine takes depends on the model)" in rows["scored_with_a_model"]
    assert shown.splitlines()[-1].endswith("; without 1 step that cannot be estimated")
    assert re.match(
        r"\d+ steps would run: [\d.]+ s of CPU time, about [\d.]+ s on 1 core; up to", shown.splitlines()[-1]
    )
    assert not (tmp_path / "out").exists()


def test_inputs_that_are_not_counted(tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text(
        '[corpus]\nsgd = "gs://bucket/corpus"\n[[sets]]\nperturbation = "typos"\n', encoding="utf-8"
    )
    cost = estimated(str(tmp_path / "suite.toml"), tmp_path)["sets/typos"]
    assert (cost.cpu, cost.memory, cost.written) == (None, None, None)
    assert "gs://bucket/corpus" in cost.reason


def test_warnings_of_what_does_not_fit() -> None:
    large, small = StepCost(cpu=1.0, memory=1e9, written=5.0), StepCost(cpu=1.0, memory=10.0, written=5.0)
    there = memory_of_machine()
    assert there is not None
    assert there > 100
    full = list(warnings_of(Plan({"a": large, "b": small}, small, {}, 9.0, {}), jobs=2))
    assert len(full) == 2
    assert "1,000.0 TB" not in full[0]
    assert "of memory, and this machine has" in full[0]
    assert "about 10 MB will be written, and the disk has 9 MB left" in full[1]
    assert not list(warnings_of(Plan({"b": small}, small, {}, 10.0, {}), jobs=2))


def test_the_peak_is_of_the_largest_steps_side_by_side() -> None:
    costs = {str(n): StepCost(memory=float(n)) for n in (1, 20, 300)}
    suite = peak({}, 1)
    assert peak(costs, 1) == suite + 300
    assert peak(costs, 2) == suite + 320
    assert peak({**costs, "unknown": StepCost(reason="nobody knows")}, 9) == suite + 321


def test_the_table_is_whole(tmp_path: Path) -> None:
    table = read_table()
    make(tmp_path, 1)
    names: dict[str, set[str]] = {}
    for file in ("sample", str(tmp_path / "suite.toml")):
        state, suite = State(tmp_path / "out"), read_suite(file, [])
        graph = make_graph(suite, state.sets_of, lacks)
        flags = {name: parsed(step, state.output) for name, step in graph.steps.items()}
        for work in works(graph, flags, list(graph.steps), state, suite.folder).values():
            if not isinstance(work, NotEstimated):
                names.setdefault(work.row, set()).update(work.counts)
    assert names.keys() <= table.rows.keys()
    for row, kinds in table.rows.items():
        assert kinds.keys() == table.units.keys(), row
        for kind, coefficients in kinds.items():
            assert all(one > 0 for one in coefficients.values()), (row, kind)
            if row in names:
                assert coefficients.keys() <= {START, *names[row]}, (row, kind)
    assert SUITE in table.rows
    assert table.loop > 0


@given(st.dictionaries(st.sampled_from("abc"), st.floats(0, 1e6)), st.floats(0, 100), st.floats(0, 100))
def test_a_cost_is_linear_in_the_counts(counts: dict[str, float], start: float, each: float) -> None:
    coefficients = {START: start, "a": each}
    assert predict(coefficients, counts) == pytest.approx(start + each * counts.get("a", 0.0))
    assert cost_of(Work("no such row", counts)).reason == "no such row has not been measured"


def test_the_loop_takes_the_quickest_of_its_rounds() -> None:
    times = iter([0.0, 0.0, 5.0, 5.0, 5.0, 7.0, 7.0, 7.0, 10.0, 99.0])
    assert loop_seconds(8.0, lambda: next(times)) == 2.0


def test_variants_and_splits_of_folders() -> None:
    one = Amounts(dialogues=1, services=2)
    contents = {"": Amounts(others=1), "v1/train": one, "v1/test": one, "v2/test": one, "turns/x": Amounts(others=3)}
    assert {name: set(found) for name, found in variants(contents).items()} == {"v1": {"train", "test"}, "v2": {"test"}}
    assert splits({"": one}, ["dev"]) == {"": one}
    assert splits({"train": one, "test": one}, ["dev"]) == {}
