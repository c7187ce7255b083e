"""``parapet train sgp_dst`` on a tiny random checkpoint, and what comes of it: predicted, scored, gone on with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import stopped
from folders import files_of
from seeding import train
from tiny_bert import save_bert
from tiny_dialogues import texts, write_corpus

from parapet.evaluation.models.dst.data import read_labels
from parapet.evaluation.models.dst.sgp import learning, tracking
from parapet.pipelines.evaluate import run as evaluate
from parapet.pipelines.predict import run as predict

SMALL = ["--batch_size", "16", "--learning_rate", "0.003", "--max_length", "128", "--quiet"]
LEARNED = 0.6  # of the goals; after the first epoch hardly one is right


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus and a checkpoint."""
    folder = tmp_path_factory.mktemp("toy")
    write_corpus(folder / "corpus")
    save_bert(folder / "bert", texts(), positions=128)
    return folder


def flags(toy: Path, out: Path, *more: str) -> list[str]:
    given = ["--checkpoint", str(toy / "bert"), "--train", str(toy / "corpus"), "--output", str(out)]
    return ["sgp_dst", *given, *SMALL, *more]


@pytest.fixture(scope="module")
def model(toy: Path) -> Path:
    """One that learned the toy set, with one encoder for all modules."""
    out = toy / "model"
    assert train(flags(toy, out, "--epochs", "60", "--patience", "60", "--shared")) == 0
    return out


def test_learns_predicts_and_is_scored(model: Path, toy: Path, tmp_path: Path) -> None:
    head = json.loads((model / "run.json").read_text())
    log = [json.loads(row) for row in (model / "log.jsonl").read_text().splitlines()]
    assert head["result"]["dev"] == max(row["dev"] for row in log) > LEARNED
    assert log[0]["loss"] > 2 * log[-1]["loss"]
    assert head["options"]["shared"] is True
    assert {"model.json", "weights.safetensors", "checkpoint/model.safetensors", "run.json"} < files_of(model).keys()
    states, scores = tmp_path / "states", tmp_path / "scores"
    reference = ["--reference", str(toy / "corpus")]
    assert predict(["sgp_dst", "--quiet", "--model", str(model), *reference, "--output", str(states)]) == 0
    given = ["--predictions", str(states / "predictions"), "--output", str(scores)]
    assert evaluate(["--task", "dst", "--quiet", *reference, *given]) == 0
    found = json.loads((scores / "metrics.json").read_text())["#ALL_SERVICES"]
    assert found["joint_goal_accuracy"] == pytest.approx(head["result"]["dev"])
    assert found["active_intent_accuracy"] > LEARNED  # training ends when all goals are right, whatever the intents are


def test_predictions_do_not_depend_on_batches(model: Path, toy: Path) -> None:
    asked = [one.asked for one in read_labels(str(toy / "corpus"), "train").rows]
    together = tracking.load(str(model), "cpu", 64).predict(asked)
    assert tracking.load(str(model), "cpu", 7).predict(asked[::-1])[::-1] == together
    alone = tracking.load(str(model), "cpu", 1)
    assert [alone.predict([one])[0] for one in asked[:8]] == together[:8]


def test_what_is_too_long_is_cut_and_counted(
    model: Path, toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In each set, whatever it is called: even as a flag is."""
    folder = tmp_path / "short"
    shutil.copytree(model, folder)
    card = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**card, "length": 40}))
    asked = [one.asked for one in read_labels(str(toy / "corpus"), "test").rows]
    _, expected = tracking.load(str(folder), "cpu", 8).tracked(asked)
    assert tracking.load(str(model), "cpu", 8).tracked(asked)[1] == 0
    corpus = str(toy / "corpus")
    given = ["sgp_dst", "--model", str(folder), "--reference", corpus, "--sets", f"output={corpus}"]
    assert predict([*given, "--output", str(tmp_path / "states")]) == 0
    cut = "the oldest part of the dialogue was cut off"
    told = f"original: {expected} inputs longer than the model's --max_length: {cut}"
    assert told in capsys.readouterr().err
    counts = json.loads((tmp_path / "states" / "run.json").read_text())["counts"]
    assert 0 < counts["too_long/original"] == counts["too_long/output"] == expected


def test_a_training_that_was_stopped_goes_on_to_the_same_bytes(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--epochs", "3", "--negatives", "0.1", "--dev_frames", "6", "--batch_size", "32"]
    assert train(flags(toy, tmp_path / "whole", *few)) == 0
    kinds = ("intent", "categorical", "free", "transfer")
    encoders = {files_of(tmp_path / "whole")[f"checkpoint/{kind}/model.safetensors"] for kind in kinds}
    assert len(encoders) == 4
    asked = [one.asked for one in read_labels(str(toy / "corpus"), "train").rows[:4]]
    assert len(tracking.load(str(tmp_path / "whole"), "cpu", 8).predict(asked)) == 4
    stopped.at_step(monkeypatch, learning.SgpLearner, 9)  # of 7 an epoch
    assert train(flags(toy, tmp_path / "cut", *few)) == 1
    assert "run the same command again" in capsys.readouterr().err
    assert sorted(files_of(tmp_path / "cut")) == [".training/log.jsonl", ".training/state.pt"]
    assert train(flags(toy, tmp_path / "cut", *few)) == 0
    assert files_of(tmp_path / "cut") == files_of(tmp_path / "whole")


def test_what_cannot_be_trained_or_predict_is_told(
    model: Path, toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(*more: str, status: int = 2) -> str:
        assert train(flags(toy, tmp_path / "out", *more)) == status
        said = capsys.readouterr().err
        assert "Traceback" not in said
        return said

    assert "there is no such folder; models are not downloaded here" in told("--checkpoint", "google-bert/bert-base")
    assert "the checkpoint has 128 positions" in told("--max_length", "256", status=1)
    assert "which leaves too few to the dialogue" in told("--max_length", "20", status=1)
    other = tmp_path / "other"
    shutil.copytree(toy / "bert", other)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "model_type": "t5"}))
    assert "holds a model of type 't5': bert, distilbert, electra or roberta is needed" in told(
        "--checkpoint", str(other)
    )
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    card = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**card, "shared": False}))
    given = ["--model", str(folder), "--reference", str(toy / "corpus"), "--output", str(tmp_path / "states")]
    assert predict(["sgp_dst", *given]) == 2
    assert "checkpoint/intent: there is no such folder" in capsys.readouterr().err
