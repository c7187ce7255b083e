"""``parapet train sgp_dst`` on a tiny random checkpoint, and what comes of it: predicted, scored, gone on with."""

import json
import shutil

import pytest
import stopped
from kit import edit, files_of, json_of, refused, rows_of, run, train
from tiny_checkpoints import save_bert
from tiny_dialogues import texts, write_corpus

from parapet.evaluation.models import sgp_dst
from parapet.evaluation.models.dst import read_labels
from parapet.evaluation.models.sgp_rules import KINDS

SMALL = ["--batch_size", "16", "--learning_rate", "0.003", "--max_length", "128", "--quiet"]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A corpus and a checkpoint."""
    folder = tmp_path_factory.mktemp("toy")
    write_corpus(folder / "corpus")
    save_bert(folder / "bert", texts(), positions=128)
    return folder


def flags(toy, out, *more):
    given = ["--checkpoint", str(toy / "bert"), "--train", str(toy / "corpus"), "--output", str(out)]
    return ["sgp_dst", *given, *SMALL, *more]


@pytest.fixture(scope="module")
def model(toy):
    """One that learned the toy set."""
    out = toy / "model"
    run("train", *flags(toy, out, "--epochs", "15", "--patience", "15"))
    return out


@pytest.mark.thorough
def test_what_is_too_long_is_cut_and_counted(model, toy, tmp_path):
    """In each set, whatever it is called: even as a flag is."""
    folder = tmp_path / "short"
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns("run.json"))
    edit(folder / "model.json", lambda card: card.update(length=40))
    corpus = str(tmp_path / "corpus")
    shutil.copytree(toy / "corpus", corpus)
    dialogues = tmp_path / "corpus" / "test" / "dialogues_001.json"
    dialogues.write_text(dialogues.read_text().replace("where is it ?", 8 * "where is it ? "))
    asked = [one.asked for one in read_labels(corpus, "test").rows]
    _, expected = sgp_dst.load(str(folder), "cpu", 8).tracked(asked)
    assert sgp_dst.load(str(model), "cpu", 8).tracked(asked)[1] == 0
    given = ["sgp_dst", "--model", str(folder), "--reference", corpus, "--sets", f"output={corpus}"]
    said = run("predict", *given, output=tmp_path / "states")
    cut = "the oldest part of the dialogue was cut off"
    assert f"original: {expected} inputs longer than the model's --max_length: {cut}" in said.errors
    counts = said.manifest["counts"]
    assert 0 < counts["too_long/original"] == counts["too_long/output"] == expected


@pytest.mark.thorough
def test_the_papers_training(toy, tmp_path, monkeypatch):
    """Steps and learning rates of each module, as SGD-X has them in Appendix A: of 2e-5, at ten points each."""
    rates = {kind: [] for kind in KINDS}
    step = sgp_dst.BertAdam._step

    def recorded(self):
        before = [group["step"] for group in self.param_groups]
        step(self)
        for number, group in zip(before, self.param_groups, strict=True):
            if group["step"] > number and group["weight_decay"]:
                rates[group["module"]].append(group["lr"])

    monkeypatch.setattr(sgp_dst.BertAdam, "_step", recorded)
    # Batches of one, so that there are steps enough; the paper's are of 32.
    given = ["--preset", "sgdx", "--max_length", "128", "--batch_size", "1", "--dev_frames", "1", "--quiet"]
    more = ["--checkpoint", str(toy / "bert"), "--train", str(toy / "corpus"), "--output", str(tmp_path / "out")]
    run("train", "sgp_dst", *given, *more)
    options = json_of(tmp_path / "out" / "run.json")["options"]
    expected = {"preset": "sgdx", "module_warmup": "copy_slot=0.7", "module_epochs": "combine=3", "keep": "last"}
    assert options | expected == options
    rows = rows_of(tmp_path / "out" / "log.jsonl")
    assert rows[-1]["learning_rate"] == rates["combine"][-1] > 0  # of the module that the last step was for
    # 66 frames; 54 answers and 0.3 of 174 other inputs, thrice; 12 and 0.1 of 6; 12 and 0.01 of 18.
    counts = {"intents": 66, "combine": 3 * (54 + 52), "copy_slot": 13, "cross_copy": 12}
    assert {kind: len(found) for kind, found in rates.items()} == counts
    for kind, found in rates.items():
        warmup = 0.7 if kind == "copy_slot" else 0.1
        for tenth in range(10):
            number = tenth * len(found) // 10
            progress = number / len(found)
            share = progress / warmup if progress < warmup else (1 - progress) / (1 - warmup)
            assert found[number] == pytest.approx(2e-5 * share, abs=1e-12)


@pytest.mark.thorough
def test_what_cannot_be_trained_or_predict_is_told(model, toy, tmp_path):
    def told(*more, status=2):
        return refused("train", *flags(toy, tmp_path / "out", *more), status=status)

    assert "must be at most 128, the number of positions of the checkpoint" in told("--max_length", "256", status=1)
    assert "which leaves too few for the dialogue" in told("--max_length", "20", status=1)
    said = told("--module_epochs", "transfer=1")
    assert "--module_epochs: 'transfer' is not a module: must be one of intents, combine" in said
    said = told("--module_warmup", "combine=0,copy_slot=2")
    assert "--module_warmup: copy_slot=2: must be a number from 0 to 1" in said
    assert "--module_negatives: 'combine': must be MODULE=N, comma-separated" in told("--module_negatives", "combine")
    folder = tmp_path / "model"
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns("run.json"))
    shutil.rmtree(folder / "checkpoint" / "intents")
    said = refused("predict", "sgp_dst", model=folder, reference=toy / "corpus", output=tmp_path / "states")
    assert "checkpoint/intents: there is no such folder" in said


def test_a_training_that_was_stopped_goes_on_to_the_same_bytes(toy, tmp_path, monkeypatch, capsys):
    few = ["--epochs", "1", "--module_epochs", "combine=3", "--negatives", "0.1", "--dev_frames", "6"]
    few += ["--batch_size", "12"]
    assert train(flags(toy, tmp_path / "whole", *few)) == 0
    whole = files_of(tmp_path / "whole")
    assert len({whole[f"checkpoint/{kind}/model.safetensors"] for kind in KINDS}) == 4
    rows = [json.loads(row) for row in whole["log.jsonl"].splitlines()]
    assert [row["step"] for row in rows] == [16, 22, 28]  # in the second and the third epoch "combine" alone
    stopped.at_step(monkeypatch, sgp_dst.SgpLearner, 18)
    assert train(flags(toy, tmp_path / "cut", *few)) == 1
    assert "run the same command again" in capsys.readouterr().err
    assert stopped.left_in(tmp_path / "cut") == [".training/log.jsonl", ".training/state.pt"]
    assert (train(flags(toy, tmp_path / "cut", *few)), files_of(tmp_path / "cut")) == (0, whole)
