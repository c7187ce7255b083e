"""``parapet train damd`` and ``parapet predict damd``, as a person runs them."""

import json

import msgspec
import pytest
import stopped
from inn_toy import dialogues, write_corpus
from kit import files_of, json_of, refused, rows_of, run

from parapet.evaluation.models.systems.damd import DamdLearner
from parapet.evaluation.models.systems.data import act_parts, acts_of
from parapet.pipelines.app import Parser, read_config
from parapet.pipelines.models import train_command
from parapet.schemas.dialogue import Dialogue

LEARNED = 0.95
FLAGS = ["--learning_rate", "0.01", "--epochs", "40", "--patience", "40", "--batch_size", "8", "--schedule", "constant",
         "--hidden", "32", "--embedding", "16"]  # fmt: skip


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    write_corpus(folder / "corpus")
    return folder


def flags_of(corpus, output):
    return ["damd", "--quiet", "--train", str(corpus), *FLAGS, "--output", str(output)]


@pytest.fixture(scope="module")
def model(toy):
    run("train", *flags_of(toy / "corpus", toy / "model"))
    return toy / "model"


@pytest.mark.thorough
def test_a_toy_set_is_learned_predicted_and_evaluated(model, toy, tmp_path):
    """Nearly all states, acts and goals."""
    reference = ["--reference", str(toy / "corpus")]
    flags = ["damd", "--quiet", "--model", str(model), *reference, "--sets", f"again={toy / 'corpus'}"]
    one = run("predict", *flags, output=tmp_path / "one").folder
    said = {"reference": toy / "corpus", "predictions": one / "predictions", "output": tmp_path / "dst"}
    states = run("evaluate", task="dst", **said).json("metrics.json")["#ALL_SERVICES"]
    assert states["joint_goal_accuracy"] > LEARNED
    assert states["active_intent_accuracy"] > LEARNED
    assert states["requested_slots_f1"] > LEARNED
    said |= {"predictions": one / "responses", "output": tmp_path / "response"}
    metrics = run("evaluate", task="response", **said).json("metrics.json")["#ALL"]
    assert metrics["inform"] > LEARNED
    assert metrics["success"] > LEARNED
    rows = rows_of(one / "responses" / "original" / "test" / "responses.jsonl")
    truth = {one["dialogue_id"]: msgspec.convert(one, Dialogue) for one in dialogues()}
    right = [acts_of(act_parts(truth[row["dialogue_id"]].turns[row["turn"]])) for row in rows]
    assert (
        sum(row["acts"] == msgspec.to_builtins(acts) for row, acts in zip(rows, right, strict=True)) / len(rows)
        > LEARNED
    )
    counts = json_of(one / "run.json")["counts"]
    assert counts["answered/original"] == counts["asked/again"] == 18


@pytest.mark.thorough
def test_responses_depend_on_the_database(model, toy, tmp_path):
    """With further inns in Rome in it, it says that there are many."""
    more = [{"city": "Rome", "stars": "two", "inn_name": f"New {n}"} for n in range(9)]
    (tmp_path / "db.json").write_text(json.dumps({"Inns_1": more}))
    flags = ["damd", "--quiet", "--model", str(model), "--reference", str(toy / "corpus")]
    found = []
    for name, own in (("without", []), ("with", ["--knowledge_base", str(tmp_path / "db.json")])):
        run("predict", *flags, *own, "--output", tmp_path / name)
        rows = rows_of(tmp_path / name / "responses" / "original" / "test" / "responses.jsonl")
        found += [row["response"] for row in rows if row["dialogue_id"] == "1_00000" and row["turn"] == 3]
    assert found == ["there is [inns_1_inn_name] only .", "there is [inns_1_inn_name] among many ."]


@pytest.mark.thorough
def test_a_stopped_training_goes_on_to_the_same_bytes(toy, tmp_path, monkeypatch):
    def flags(name):
        few = ["--epochs", "2", "--schedule", "plateau", "--held_out", "0.2"]
        return [*flags_of(toy / "corpus", tmp_path / name), *few]

    run("train", *flags("whole"))
    with monkeypatch.context() as patched:
        stopped.at_step(patched, DamdLearner, 10, stopped.Stopped)
        run("train", *flags("cut"), status=1)
    assert len(rows_of(tmp_path / "cut" / ".training" / "log.jsonl")) == 1
    run("train", *flags("cut"))
    assert files_of(tmp_path / "cut") == files_of(tmp_path / "whole")
    options = json_of(tmp_path / "cut" / "run.json")["options"]
    assert (options["schedule"], options["vocabulary"]) == ("plateau", 3000)


@pytest.mark.parametrize("preset", ["raddle", "damd"])
def test_presets_are_as_the_authors_train_it(preset):
    """config.py and README.md of github.com/thu-spmi/damd-multiwoz, "normal training without data augmentation"."""
    kind = train_command("damd")
    of = read_config(kind, vars(Parser(kind).parse(["--preset", preset, "--output", "out"])[0]))
    assert (of.vocabulary, of.embedding, of.hidden) == (3000, 50, 100)
    assert (of.batch_size, of.epochs, of.patience, of.learning_rate, of.clip) == (128, 100, 5, 0.005, 5.0)
    assert (of.steps, of.warmup, of.keep) == (None, 0.0, "best")
    assert [of.rate(0, 9, [0.1, 0.3, 0.2, 0.3, 0.2, 0.4][:n]) for n in range(7)] == [1, 1, 1, 1, 1, 0.5, 0.5]


@pytest.mark.thorough
def test_bad_input_is_told(toy, tmp_path):
    good = flags_of(toy / "corpus", tmp_path / "out")
    told = refused("train", *good, vocabulary=9, status=(1, 2))
    assert "--vocabulary: 9: must be larger, because the names and placeholders alone are" in told
    told = refused("predict", "damd", model=tmp_path, reference=toy / "corpus", output=tmp_path / "o")
    assert "contains no model: expected model.json, as 'parapet train damd' writes it" in told
