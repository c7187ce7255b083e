"""``parapet train soloist`` and ``parapet predict soloist``, as a person runs them."""

import json

import pytest
import stopped
from inn_toy import texts, write_corpus
from kit import TWO_WORKERS, files_of, rows_of, train, write
from tiny_gpt2 import save_gpt2

from parapet.evaluation.models.systems.soloist import SoloistLearner
from parapet.pipelines.evaluate import run as evaluate
from parapet.pipelines.predict import run as predict

LEARNED = 0.6  # of the states and goals; a new model writes none
FLAGS = ["--max_length", "100", "--learning_rate", "0.006", "--epochs", "60", "--patience", "60", "--batch_size", "4"]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    write_corpus(folder / "corpus")
    save_gpt2(folder / "gpt2", texts())
    return folder


def flags_of(toy, output):
    corpus, checkpoint = str(toy / "corpus"), str(toy / "gpt2")
    return ["soloist", "--quiet", "--train", corpus, "--checkpoint", checkpoint, *FLAGS, "--output", str(output)]


@pytest.fixture(scope="module")
def model(toy):
    assert train(flags_of(toy, toy / "model")) == 0
    return toy / "model"


def scores(folder, task, *flags):
    assert evaluate(["--task", task, "--quiet", *flags, "--output", str(folder / task)]) == 0
    return json.loads((folder / task / "metrics.json").read_text())


@pytest.mark.thorough
def test_a_toy_set_is_learned_predicted_and_evaluated(model, toy, tmp_path):
    """With another set, whose dialogues are the same in another order; on one worker and on two the same."""
    other = tmp_path / "other"
    for relative, data in files_of(toy / "corpus").items():
        place = other / relative
        place.parent.mkdir(parents=True, exist_ok=True)
        turned = place.name.startswith("dialogues")
        place.write_bytes(json.dumps(json.loads(data)[::-1]).encode() if turned else data)
    reference = ["--reference", str(toy / "corpus")]
    flags = ["soloist", "--quiet", "--model", str(model), *reference, "--sets", f"other={other}"]
    one, two = tmp_path / "one", tmp_path / "two"
    assert predict([*flags, "--output", str(one)]) == 0
    assert predict([*flags, "--batch_size", "5", "--output", str(two), *TWO_WORKERS]) == 0
    assert files_of(one) == files_of(two)
    said = {name: rows_of(one / "responses" / name / "test" / "responses.jsonl") for name in ("original", "other")}
    assert sorted(map(json.dumps, said["original"])) == sorted(map(json.dumps, said["other"]))
    states = scores(tmp_path, "dst", *reference, "--predictions", str(one / "predictions"), "--sets", f"other={other}")
    assert states["#ALL_SERVICES"]["joint_goal_accuracy"] > LEARNED
    results = json.loads(next((one / "predictions" / "original" / "test").iterdir()).read_text())
    truth = json.loads((toy / "corpus" / "test" / "dialogues_001.json").read_text())
    pairs = [
        (frame["state"], right["state"])
        for dialogue, of in zip(results, truth, strict=True)
        for turn, its in zip(dialogue["turns"][::2], of["turns"][::2], strict=True)
        for frame, right in zip(turn["frames"], its["frames"], strict=True)
    ]
    assert sum(a == b for a, b in pairs) / len(pairs) > LEARNED
    sets = ["--sets", f"other={other}", "--predictions", str(one / "responses")]
    metrics = scores(tmp_path, "response", *reference, *sets)
    assert metrics["original"]["inform"] > LEARNED
    assert metrics["original"]["success"] > LEARNED
    for metric in ("inform", "success"):
        assert metrics["other"][metric] == metrics["original"][metric]
    counts = json.loads((one / "run.json").read_text())["counts"]
    assert counts["answered/original"] == counts["asked/other"] == 18


@pytest.mark.thorough
def test_responses_depend_on_the_database(model, toy, tmp_path):
    """Told of further inns in Rome, it says that there are many."""
    more = [{"city": "Rome", "stars": "two", "inn_name": f"New {n}"} for n in range(9)]
    (tmp_path / "db.json").write_text(json.dumps({"Inns_1": more}))
    flags = ["soloist", "--quiet", "--model", str(model), "--reference", str(toy / "corpus")]
    assert predict([*flags, "--knowledge_base", str(tmp_path / "db.json"), "--output", str(tmp_path / "out")]) == 0
    rows = rows_of(tmp_path / "out" / "responses" / "original" / "test" / "responses.jsonl")
    said = [row["response"] for row in rows if row["dialogue_id"] == "1_00000" and row["turn"] == 3]
    assert said == ["there is [inns_1_inn_name] among many ."]


def test_a_stopped_training_goes_on_to_the_same_bytes(toy, tmp_path, monkeypatch):
    def flags(name):
        few = ["--epochs", "2", "--batch_size", "8", "--consistency", "0.5", "--held_out", "0.2"]
        return [*flags_of(toy, tmp_path / name), *few]

    assert train(flags("whole")) == 0
    with monkeypatch.context() as patched:
        stopped.at_step(patched, SoloistLearner, 10, stopped.Stopped)
        assert train(flags("cut")) == 1
    assert len(rows_of(tmp_path / "cut" / ".training" / "log.jsonl")) == 1
    assert train(flags("cut")) == 0
    assert files_of(tmp_path / "cut") == files_of(tmp_path / "whole")
    head = json.loads((tmp_path / "cut" / "run.json").read_text())
    assert head["options"]["consistency"] == 0.5
    assert {one["flag"] for one in head["inputs"]} == {"train"}


@pytest.mark.thorough
def test_bad_input_is_told(model, toy, tmp_path, capsys):
    good = flags_of(toy, tmp_path / "out")
    empty = tmp_path / "empty"
    for relative, data in files_of(toy / "corpus").items():
        write(empty / relative, data)
    schema = json.loads((empty / "train" / "schema.json").read_text())
    schema[0]["slots"] = []
    schema[0]["intents"][0] |= {"required_slots": [], "optional_slots": {}, "result_slots": []}
    for split in ("train", "dev", "test"):
        (empty / split / "schema.json").write_text(json.dumps(schema))
    for flags, reason in (
        ([*good, "--checkpoint", "gpt2"], "there is no such folder; models are not downloaded here"),
        ([*good, "--max_length", "999"], "the checkpoint has 192 positions, of which belief states and responses need"),
        ([*good, "--held_out", "2"], "--held_out: 2.0: give a share"),
        ([*good, "--consistency", "-1"], "--consistency: -1.0: give a number"),
        ([*good, "--split", "nowhere"], "there are no dialogues in 'nowhere'"),
        ([*good, "--train", str(empty)], "no service of the schema has a slot"),
    ):
        status = train(flags)
        told = capsys.readouterr().err
        assert (status, "Traceback" in told) in ((2, False), (1, False))
        assert reason in told
    plain = ["soloist", "--model", str(model), "--reference", str(toy / "corpus"), "--output", str(tmp_path / "o")]
    for flags, reason in (
        ([*plain, "--top_p", "2"], "--top_p: 2.0: give a number"),
        ([*plain, "--model", str(tmp_path)], "no model is here"),
        ([*plain, "--reference", str(empty), "--sets", "a=b"], "there is no such file or folder"),
    ):
        assert predict(flags) == 2
        assert reason in capsys.readouterr().err
