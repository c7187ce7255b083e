"""``parapet train soloist`` and ``parapet predict soloist``, as a person runs them."""

import json

import kit
import pytest
import stopped
from inn_toy import texts, write_corpus
from kit import files_of, json_of, refused, rows_of, run, write
from tiny_checkpoints import save_gpt2

from parapet.evaluation.models.soloist import SoloistLearner

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
    run("train", *flags_of(toy, toy / "model"), "--acts")
    return toy / "model"


@pytest.mark.thorough
def test_a_toy_set_is_learned_predicted_and_evaluated(model, toy, tmp_path):
    """With another set, whose dialogues are the same in another order."""
    other = tmp_path / "other"
    for relative, data in files_of(toy / "corpus").items():
        write(other / relative, json.loads(data)[::-1] if "dialogues" in relative else data)
    reference = ["--reference", str(toy / "corpus")]
    flags = ["soloist", "--quiet", "--model", str(model), *reference, "--sets", f"other={other}"]
    one = run("predict", *flags, output=tmp_path / "one").folder
    said = {name: rows_of(one / "responses" / name / "test" / "responses.jsonl") for name in ("original", "other")}
    assert sorted(map(json.dumps, said["original"])) == sorted(map(json.dumps, said["other"]))
    of_both = {"reference": toy / "corpus", "sets": f"other={other}"}
    scored = run("evaluate", task="dst", predictions=one / "predictions", output=tmp_path / "dst", **of_both)
    assert scored.json("metrics.json")["#ALL_SERVICES"]["joint_goal_accuracy"] > LEARNED
    results = json_of(next((one / "predictions" / "original" / "test").iterdir()))
    pairs = [
        (frame["state"], right["state"])
        for dialogue, of in zip(results, json_of(toy / "corpus" / "test" / "dialogues_001.json"), strict=True)
        for turn, its in zip(dialogue["turns"][::2], of["turns"][::2], strict=True)
        for frame, right in zip(turn["frames"], its["frames"], strict=True)
    ]
    assert sum(a == b for a, b in pairs) / len(pairs) > LEARNED
    scored = run("evaluate", task="response", predictions=one / "responses", output=tmp_path / "response", **of_both)
    metrics = scored.json("metrics.json")
    assert metrics["original"]["inform"] > LEARNED
    assert metrics["original"]["success"] > LEARNED
    assert metrics["original"]["act_accuracy"] > LEARNED
    assert "act accuracy" in scored.output
    assert not [metric for metric in ("inform", "success") if metrics["other"][metric] != metrics["original"][metric]]
    counts = json_of(one / "run.json")["counts"]
    assert counts["answered/original"] == counts["asked/other"] == 18


@pytest.mark.thorough
def test_responses_depend_on_the_database(model, toy, tmp_path):
    """Told of further inns in Rome, it says that there are many."""
    more = [{"city": "Rome", "stars": "two", "inn_name": f"New {n}"} for n in range(9)]
    (tmp_path / "db.json").write_text(json.dumps({"Inns_1": more}))
    flags = ["soloist", "--quiet", "--model", str(model), "--reference", str(toy / "corpus")]
    run("predict", *flags, "--knowledge_base", tmp_path / "db.json", "--output", tmp_path / "out")
    rows = rows_of(tmp_path / "out" / "responses" / "original" / "test" / "responses.jsonl")
    said = [row["response"] for row in rows if row["dialogue_id"] == "1_00000" and row["turn"] == 3]
    assert said == ["there is [inns_1_inn_name] among many ."]


@pytest.mark.thorough  # test_train_sgp_dst.py stops and resumes the same loop
def test_a_stopped_training_goes_on_to_the_same_bytes(toy, tmp_path, monkeypatch):
    def flags(name):
        few = ["--epochs", "2", "--batch_size", "8", "--consistency", "0.5", "--held_out", "0.2"]
        return [*flags_of(toy, tmp_path / name), *few]

    run("train", *flags("whole"))
    with monkeypatch.context() as patched:
        stopped.at_step(patched, SoloistLearner, 10, stopped.Stopped)
        run("train", *flags("cut"), status=1)
    assert len(rows_of(tmp_path / "cut" / ".training" / "log.jsonl")) == 1
    run("train", *flags("cut"))
    assert files_of(tmp_path / "cut") == files_of(tmp_path / "whole")
    head = json_of(tmp_path / "cut" / "run.json")
    assert (head["options"]["consistency"], {one["flag"] for one in head["inputs"]}) == (0.5, {"train"})


@pytest.mark.thorough
def test_bad_input_is_told(model, toy, tmp_path):
    good = flags_of(toy, tmp_path / "out")
    empty = tmp_path / "empty"
    for relative, data in files_of(toy / "corpus").items():
        write(empty / relative, data)
    bare = [kit.service("Inns_1", [], [kit.intent("FindInn", "look for an inn")], "places to stay")]
    for split in ("train", "dev", "test"):
        write(empty / split / "schema.json", bare)
    assert "the checkpoint has 192 positions, and belief states and responses need" in refused(
        "train", *good, max_length=999, status=(1, 2)
    )
    assert "--consistency: -1.0: must be" in refused("train", *good, "--consistency", "-1")
    assert "no service of the schema has a slot" in refused("train", *good, train=empty, status=(1, 2))
