"""``parapet train tiny_dst``: it learns a toy set, is predicted with and scored, and goes on where it was stopped."""

import json

import pytest
from kit import files_of, train
from tiny_dialogues import FOOD, write_corpus

from parapet.pipelines.evaluate import run as evaluate
from parapet.pipelines.predict import run as predict


def flags(corpus, out, *more):
    return ["tiny_dst", "--quiet", "--train", str(corpus), "--output", str(out), *more]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    write_corpus(folder / "corpus", turns=3)
    return folder


@pytest.fixture(scope="module")
def model(toy):
    """One that learned the toy set."""
    out = toy / "model"
    assert train(flags(toy / "corpus", out, "--epochs", "60", "--patience", "60")) == 0
    return out


def test_learns_predicts_and_is_scored(model, toy, tmp_path):
    head = json.loads((model / "run.json").read_text())
    log = [json.loads(row) for row in (model / "log.jsonl").read_text().splitlines()]
    assert head["result"]["dev"] == max(row["dev"] for row in log) > 0.6  # none after the first epoch
    assert log[0]["loss"] > 2 * log[-1]["loss"]
    states, scores = tmp_path / "states", tmp_path / "scores"
    reference = ["--reference", str(toy / "corpus")]
    assert predict(["tiny_dst", "--quiet", "--model", str(model), *reference, "--output", str(states)]) == 0
    counts = json.loads((states / "run.json").read_text())["counts"]
    assert counts["asked/original"] == counts["predicted/original"] > 0
    given = ["--predictions", str(states / "predictions"), "--output", str(scores)]
    assert evaluate(["--task", "dst", "--quiet", *reference, *given]) == 0
    metrics = json.loads((scores / "metrics.json").read_text())
    assert metrics["#ALL_SERVICES"]["joint_goal_accuracy"] == pytest.approx(head["result"]["dev"])


def test_a_training_keeps_its_state_in_its_folder(toy, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "state.pt").write_bytes(b"of others")
    (tmp_path / "out/.training").symlink_to(tmp_path, target_is_directory=True)
    assert train(flags(toy / "corpus", tmp_path / "out", "--epochs", "1")) == 1
    assert "out/.training: leads outside of the output folder by a link: remove the link" in capsys.readouterr().err
    assert (tmp_path / "state.pt").read_bytes() == b"of others"


def test_held_out_dialogues_choose_instead_of_dev(toy, tmp_path):
    assert train(flags(toy / "corpus", tmp_path, "--held_out", "0.3", "--epochs", "1")) == 0
    assert {one["flag"] for one in json.loads((tmp_path / "run.json").read_text())["inputs"]} == {"train"}


def test_what_cannot_be_trained_or_run_is_told(model, toy, tmp_path, capsys):
    def told(argv, status=2):
        command = train if "--train" in argv else predict
        assert command([*argv, "--output", str(tmp_path / "out")]) == status
        said = capsys.readouterr().err
        assert "Traceback" not in said
        return said

    corpus = str(toy / "corpus")
    assert "--held_out: 1.5: give a share" in told(["tiny_dst", "--train", corpus, "--held_out", "1.5"])
    assert "--epochs: 0: give 1 or more" in told(["tiny_dst", "--train", corpus, "--epochs", "0"])
    empty = write_corpus(tmp_path / "empty")
    bare = json.dumps([{**FOOD, "slots": [], "intents": []}])
    for schema in empty.glob("*/schema.json"):
        schema.write_text(bare)
    assert "no service of the schema has a slot" in told(["tiny_dst", "--train", str(empty)])
    other = tmp_path / "other"
    other.mkdir()
    for name, data in files_of(model).items():
        if not name.startswith(".") and name != "run.json":  # with that, it is refused before it is read
            (other / name).write_bytes(data)
    reference = ["--reference", corpus]
    assert "no model is here" in told(["tiny_dst", "--model", corpus, *reference])
    weights = other / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-50])
    assert "is cut off or damaged" in told(["tiny_dst", "--model", str(other), *reference])
    card = json.loads((other / "model.json").read_text())
    (other / "model.json").write_text(json.dumps({**card, "size": 8}))
    weights.write_bytes((model / "weights.safetensors").read_bytes())
    assert "does not fit model.json beside it" in told(["tiny_dst", "--model", str(other), *reference])
    assert "is a model of another kind, 'tiny_dst'" in told(["sgp_dst", "--model", str(other), *reference])
