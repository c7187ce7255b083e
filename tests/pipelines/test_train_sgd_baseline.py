"""``parapet train sgd_baseline`` on a tiny random checkpoint, and what comes of it: predicted, scored, gone on with."""

import json
import shutil

import pytest
import stopped
from kit import edit, files_of, json_of, refused, rows_of, run
from tiny_checkpoints import save_bert
from tiny_dialogues import texts, write_corpus

from parapet.evaluation.models import saving
from parapet.evaluation.models import sgd_baseline as baseline
from parapet.evaluation.models.dst import read_labels

SMALL = ["--batch_size", "8", "--learning_rate", "0.004", "--quiet"]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A corpus of one service, whose values are all in the last two utterances; and a checkpoint."""
    folder = tmp_path_factory.mktemp("toy")
    write_corpus(folder / "corpus", turns=5)
    save_bert(folder / "bert", texts(), positions=128, spread=0.5)
    return folder


def flags(toy, out, *more):
    given = ["--checkpoint", str(toy / "bert"), "--train", str(toy / "corpus"), "--output", str(out)]
    return ["sgd_baseline", *given, *SMALL, *more]


@pytest.fixture(scope="module")
def model(toy):
    """One that learned the toy set."""
    out = toy / "model"
    run("train", *flags(toy, out, "--epochs", "60", "--patience", "60"))
    return out


def test_it_learns_and_what_it_learned_is_predicted_and_scored(model, toy, tmp_path):
    assert json_of(model / "run.json")["result"]["dev"] == 1.0
    corpus = toy / "corpus"
    run("predict", "sgd_baseline", model=model, reference=corpus, output=tmp_path / "states")
    predictions = tmp_path / "states" / "predictions"
    run("evaluate", "--task", "dst", reference=corpus, predictions=predictions, output=tmp_path / "scores")
    scores = json_of(tmp_path / "scores" / "metrics.json")["#ALL_SERVICES"]
    assert (scores["joint_goal_accuracy"], scores["active_intent_accuracy"]) == (1.0, 1.0)
    asked = [one.asked for one in read_labels(str(corpus), "test").rows]
    alone = baseline.load(str(model), "cpu", 1)
    assert [alone.predict([one])[0] for one in asked] == baseline.load(str(model), "cpu", 64).predict(asked)


def test_the_encoder_of_the_schema_stays_as_it_is(model, toy):
    folders = (toy / "bert", *(model / saving.FOLDER / part for part in baseline.PARTS))
    checkpoint, elements, utterances = (load(folder / "model.safetensors") for folder in folders)
    assert all(value.equal(checkpoint[f"bert.{name}"]) for name, value in elements.items())
    assert not utterances["embeddings.word_embeddings.weight"].equal(elements["embeddings.word_embeddings.weight"])


def load(path):
    from safetensors.torch import load_file

    return load_file(path)


def test_a_training_that_was_stopped_goes_on_to_the_same_bytes(toy, tmp_path, monkeypatch):
    few = ["--epochs", "3", "--dev_frames", "6"]
    run("train", *flags(toy, tmp_path / "whole", *few))
    stopped.at_step(monkeypatch, baseline.BaselineLearner, 11)  # of 7 an epoch
    assert "run the same command again" in run("train", *flags(toy, tmp_path / "cut", *few), status=1).errors
    assert stopped.left_in(tmp_path / "cut") == [".training/log.jsonl", ".training/state.pt"]
    run("train", *flags(toy, tmp_path / "cut", *few))
    assert files_of(tmp_path / "cut") == files_of(tmp_path / "whole")


def test_the_papers_training(toy, tmp_path):
    """Appendix A of the earlier version of SGD-X: five epochs, batches of 32, 1e-4."""
    given = ["--preset", "sgdx", "--dev_frames", "1", "--quiet", "--output", str(tmp_path / "out")]
    run("train", "sgd_baseline", *given, "--checkpoint", str(toy / "bert"), "--train", str(toy / "corpus"))
    options = json_of(tmp_path / "out" / "run.json")["options"]
    expected = {"batch_size": 32, "epochs": 5, "keep": "last", "learning_rate": 1e-4, "max_length": 80}
    assert options | expected | {"schedule": "linear", "warmup": 0.1, "clip": 1.0} == options
    rows = rows_of(tmp_path / "out" / "log.jsonl")
    assert [(row["epoch"], row["step"]) for row in rows] == [(epoch, 2 * epoch) for epoch in range(1, 6)]  # 54 turns
    assert [row["learning_rate"] for row in rows] == pytest.approx([1e-4 * (10 - step) / 9 for step in range(1, 10, 2)])


def test_what_cannot_be_trained_or_predicted_is_told(model, toy, tmp_path):
    def told(*more, status=2):
        return refused("train", *flags(toy, tmp_path / "out", *more), status=status)

    assert "must be at most 128, the number of positions of the checkpoint" in told("--max_length", "256", status=1)
    assert "--negatives" in told("--negatives", "0.5")
    folder = tmp_path / "model"
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns("run.json"))
    shutil.rmtree(folder / "checkpoint" / "elements")
    said = refused("predict", "sgd_baseline", model=folder, reference=toy / "corpus", output=tmp_path / "states")
    assert "checkpoint/elements: there is no such folder" in said
    said = refused("predict", "sgp_dst", model=folder, reference=toy / "corpus", output=tmp_path / "states")
    assert "is a model of another kind, 'sgd_baseline'" in said


def test_what_is_too_long_is_cut_and_counted(model, toy, tmp_path):
    folder = tmp_path / "short"
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns("run.json"))
    edit(folder / "model.json", lambda card: card.update(length=16))
    corpus = tmp_path / "corpus"
    shutil.copytree(toy / "corpus", corpus)
    dialogues = corpus / "test" / "dialogues_001.json"
    dialogues.write_text(dialogues.read_text().replace("where is it ?", 8 * "where is it ? "))
    said = run("predict", "sgd_baseline", model=folder, reference=corpus, output=tmp_path / "states")
    count = len(json.loads(dialogues.read_text()))
    assert f"original: {count} inputs longer than the model's --max_length" in said.errors
