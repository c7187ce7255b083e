"""``parapet train`` for trackers on tiny random checkpoints, and what comes of it: predicted, scored, gone on with."""

import functools
import json
import shutil

import msgspec
import pytest
import stopped
import torch
import transformers
from kit import cases, edit, json_of, refused, rows_of, run, write
from safetensors.torch import load_file
from tiny_checkpoints import save_bert, save_t5
from tiny_dialogues import FOOD, texts, write_corpus

from parapet.evaluation.models import saving, sgd_baseline, sgp_dst, t5dst
from parapet.evaluation.models.dst import Openings, read_labels
from parapet.evaluation.models.inference import held_out
from parapet.evaluation.models.sgp_rules import KINDS

# Of each model the checkpoint, the turns of the corpus's dialogues, its flags, and those with which it is trained once.
MODELS = {
    "t5dst": ("t5", 3, "--batch_size 8 --learning_rate 0.005 --warmup 0.1", "--epochs 1 --max_output 8 --dev_frames 0"),
    "sgp_dst": ("bert", 99, "--batch_size 16 --learning_rate 0.003 --max_length 128", ""),
    "sgd_baseline": ("wide", 5, "--batch_size 8 --learning_rate 0.004", "--epochs 60 --patience 60"),
}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """Corpora and checkpoints. Of five turns, all values are in the last two utterances."""
    folder = tmp_path_factory.mktemp("toy")
    for turns in (3, 5, 99):
        write_corpus(folder / f"corpus{turns}", turns=turns)
    save_t5(folder / "t5", texts())
    save_bert(folder / "bert", texts(), positions=128)
    save_bert(folder / "wide", texts(), positions=128, spread=0.5)
    return folder


def inputs(toy, model):
    checkpoint, turns, *_ = MODELS[model]
    return [model, "--quiet", "--checkpoint", toy / checkpoint, "--train", toy / f"corpus{turns}"]


def flags(toy, model, out, *more):
    return [*inputs(toy, model), *MODELS[model][2].split(), "--output", out, *more]


@pytest.fixture(scope="module")
def trained(toy):
    @functools.cache
    def model(name):
        return run("train", *flags(toy, name, toy / f"trained_{name}", *MODELS[name][3].split())).folder

    return model


def test_it_learns_and_what_it_learned_is_predicted_and_scored(trained, toy, tmp_path):
    model, corpus = trained("sgd_baseline"), toy / "corpus5"
    assert json_of(model / "run.json")["result"]["dev"] == 1.0
    states = run("predict", "sgd_baseline", model=model, reference=corpus, output=tmp_path / "states").folder
    given = {"reference": corpus, "predictions": states / "predictions"}
    scores = run("evaluate", task="dst", **given, output=tmp_path / "scores").json("metrics.json")["#ALL_SERVICES"]
    assert (scores["joint_goal_accuracy"], scores["active_intent_accuracy"]) == (1.0, 1.0)
    asked = [row.asked for row in read_labels(str(corpus), "test").rows]
    alone = sgd_baseline.load(str(model), "cpu", 1)
    assert [alone.predict([one])[0] for one in asked] == sgd_baseline.load(str(model), "cpu", 64).predict(asked)


def test_the_encoder_of_the_schema_stays_as_it_is(trained, toy):
    folders = (toy / "wide", *(trained("sgd_baseline") / saving.FOLDER / part for part in sgd_baseline.PARTS))
    checkpoint, elements, utterances = (load_file(folder / "model.safetensors") for folder in folders)
    assert all(value.equal(checkpoint[f"bert.{name}"]) for name, value in elements.items())
    assert not utterances["embeddings.word_embeddings.weight"].equal(elements["embeddings.word_embeddings.weight"])


def test_a_training_that_was_stopped_goes_on_to_the_same_bytes(toy, tmp_path, monkeypatch):
    few = {"epochs": 1, "module_epochs": "combine=3", "negatives": 0.1, "dev_frames": 6, "batch_size": 12}
    whole = run("train", *flags(toy, "sgp_dst", tmp_path / "whole"), **few).files
    assert len({whole[f"checkpoint/{kind}/model.safetensors"] for kind in KINDS}) == 4
    rows = [json.loads(row) for row in whole["log.jsonl"].splitlines()]
    assert [row["step"] for row in rows] == [16, 22, 28]  # in the second and the third epoch "combine" alone
    stopped.at_step(monkeypatch, sgp_dst.SgpLearner, 18)
    cut = flags(toy, "sgp_dst", tmp_path / "cut")
    assert "run the same command again" in run("train", *cut, **few, status=1).errors
    assert stopped.left_in(tmp_path / "cut") == [".training/log.jsonl", ".training/state.pt"]
    assert run("train", *cut, **few).files == whole


def counted_steps(monkeypatch):
    """The sizes of the batches of all steps; dev is left out."""
    sizes = []
    loss = t5dst.T5Learner.loss

    def counting(self, batch):
        sizes.append(len(batch))
        return loss(self, batch)

    monkeypatch.setattr(t5dst.T5Learner, "loss", counting)
    monkeypatch.setattr(t5dst.T5Learner, "dev", lambda self: 0.5)
    return sizes


def test_t5dst_is_trained_as_the_paper_says(toy, tmp_path, monkeypatch):
    """Lee et al. 2022, Appendix A: batches of 16, a constant 1e-4; with fewer steps than its 50,000."""
    sizes = counted_steps(monkeypatch)
    few = {"preset": "sgdx", "steps": 20, "max_output": 32}
    made = run("train", *inputs(toy, "t5dst"), **few, output=tmp_path / "out")
    assert sizes == [16] * 20
    log = rows_of(tmp_path / "out" / "log.jsonl")
    assert [(row["step"], row["learning_rate"]) for row in log] == [(step, 1e-4) for step in range(2, 21, 2)]
    # The others: test_presets.py
    expected = {"eval_steps": 2, "schedule": "constant", "warmup": 0.0, "keep": "last", "equal_values": "random"}
    assert made.manifest["options"] | expected | few == made.manifest["options"]
    assert made.manifest["result"]["parameters"] == parameters_of(json_of(toy / "t5" / "config.json"))
    lengths = {"length": 512, "answer": 32, "prompts": "slots", "answers": "raw"}
    assert made.json("model.json") == {"model": "t5dst", "format": 1, **lengths}


def parameters_of(config):
    """Of a T5 with tied embeddings and plain feed-forward layers: counted by hand from its sizes."""
    wide, inner, heads = config["d_model"], config["num_heads"] * config["d_kv"], config["num_heads"]
    attention, forward = 4 * wide * inner + wide, 2 * wide * config["d_ff"] + wide  # each with its norm
    biases, norms = 2 * config["relative_attention_num_buckets"] * heads, 2 * wide
    layers = config["num_layers"] * (attention + forward) + config["num_decoder_layers"] * (2 * attention + forward)
    return config["vocab_size"] * wide + layers + biases + norms


def test_t5_base_has_the_parameters_that_it_is_known_for():
    """The paper's checkpoint, google-t5/t5-base, without its weights; the formula is that of the tiny one."""
    sizes = {"d_model": 768, "d_kv": 64, "d_ff": 3072, "num_layers": 12, "num_decoder_layers": 12, "num_heads": 12}
    config = transformers.T5Config(vocab_size=32128, **sizes)
    with torch.device("meta"):
        model = transformers.T5ForConditionalGeneration(config)
    parameters = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    assert parameters == parameters_of(config.to_dict()) == 222_903_552


def test_sgd_baseline_is_trained_as_the_paper_says(toy, tmp_path):
    """Appendix A of the earlier version of SGD-X: five epochs, batches of 32, 1e-4."""
    made = run("train", *inputs(toy, "sgd_baseline"), preset="sgdx", dev_frames=1, output=tmp_path / "out")
    options = made.manifest["options"]
    expected = {"batch_size": 32, "epochs": 5, "keep": "last", "learning_rate": 1e-4, "max_length": 80}
    assert options | expected | {"schedule": "linear", "warmup": 0.1, "clip": 1.0} == options
    rows = rows_of(tmp_path / "out" / "log.jsonl")
    assert [(row["epoch"], row["step"]) for row in rows] == [(epoch, 2 * epoch) for epoch in range(1, 6)]  # 54 turns
    assert [row["learning_rate"] for row in rows] == pytest.approx([1e-4 * (10 - step) / 9 for step in range(1, 10, 2)])


@cases(
    "model more message",
    ("t5dst", "--negatives 1.5", "--negatives: 1.5: must be a number from 0 to 1"),
    ("t5dst", "--max_length 3", "--max_length: 3: must be 16 or more"),
    ("t5dst", "--held_out 1.5", "--held_out: 1.5: must be above"),
    ("sgp_dst", "--max_length 256", "must be at most 128, the number of positions of the checkpoint"),
    ("sgp_dst", "--max_length 20", "which leaves too few for the dialogue"),
    ("sgp_dst", "--module_epochs transfer=1", "--module_epochs: 'transfer' is not a module: must be one of intents,"),
    ("sgp_dst", "--module_warmup combine=0,copy_slot=2", "--module_warmup: copy_slot=2: must be a number from 0 to 1"),
    ("sgp_dst", "--module_negatives combine", "--module_negatives: 'combine': must be MODULE=N, comma-separated"),
    ("sgd_baseline", "--negatives 0.5", "--negatives"),
)
def test_flags_that_cannot_be_used(model, more, message, toy, tmp_path):
    assert message in refused("train", *flags(toy, model, tmp_path / "out", *more.split()), status=(1, 2))


def test_inputs_that_cannot_be_trained_on(toy, tmp_path):
    def told(*more):
        return refused("train", *flags(toy, "t5dst", tmp_path / "out", *more), status=(1, 2))

    other = shutil.copytree(toy / "t5", tmp_path / "other")
    write(other / "config.json", {"pooling_mode_mean_tokens": True})
    assert "config.json names no model_type: expected t5, mt5, umt5 or longt5" in told("--checkpoint", other)
    empty, bare = write_corpus(tmp_path / "empty"), write_corpus(tmp_path / "bare")
    write(empty / "train" / "dialogues_001.json", [])
    assert "no user turn of 'train' has a frame with a state" in told("--train", empty)
    write(bare / "train" / "schema.json", [{**FOOD, "slots": [], "intents": []}])
    assert "no service of the schema has a slot" in told("--train", bare)
    (tmp_path / "out").mkdir(exist_ok=True)
    write(tmp_path / "state.pt", b"of others")
    (tmp_path / "out/.training").symlink_to(tmp_path, target_is_directory=True)
    assert "out/.training: leads outside of the output folder by a link: remove the link" in told("--epochs", "1")
    assert (tmp_path / "state.pt").read_bytes() == b"of others"


def test_what_is_predicted_is_scored_as_dev_was(trained, toy, tmp_path):
    model, corpus = trained("t5dst"), toy / "corpus3"
    states = run("predict", "t5dst", model=model, reference=corpus, output=tmp_path / "states")
    counts = states.manifest["counts"]
    assert counts["asked/original"] == counts["predicted/original"] > 0
    given = {"reference": corpus, "predictions": states.folder / "predictions"}
    metrics = run("evaluate", task="dst", **given, output=tmp_path / "scores").json("metrics.json")
    dev = json_of(model / "run.json")["result"]["dev"]
    assert metrics["#ALL_SERVICES"]["joint_goal_accuracy"] == pytest.approx(dev)


def test_models_that_cannot_predict(trained, toy, tmp_path):
    def told(name, folder):
        given = {"model": folder, "reference": toy / "corpus5", "output": tmp_path / "out"}
        return refused("predict", name, **given, status=(1, 2))

    def copied(name):  # with run.json, changed files are refused before they are read
        return shutil.copytree(trained(name), tmp_path / name, ignore=shutil.ignore_patterns("run.json"))

    assert "contains no model" in told("t5dst", toy / "corpus5")
    t5, baseline = copied("t5dst"), copied("sgd_baseline")
    assert "is a model of another kind, 't5dst'" in told("sgp_dst", t5)
    weights = next(t5.rglob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-50])
    assert "the model cannot be loaded" in told("t5dst", t5)
    edit(t5 / "model.json", lambda card: card.update(length=0))
    assert "is damaged, or was not written by Parapet" in told("t5dst", t5)
    shutil.rmtree(baseline / "checkpoint" / "elements")
    assert "checkpoint/elements: there is no such folder" in told("sgd_baseline", baseline)


def test_what_is_too_long_is_cut_and_counted(trained, toy, tmp_path):
    """In each set, whatever it is called: even as a flag is."""
    folder = shutil.copytree(trained("sgd_baseline"), tmp_path / "short", ignore=shutil.ignore_patterns("run.json"))
    edit(folder / "model.json", lambda card: card.update(length=16))
    corpus = shutil.copytree(toy / "corpus5", tmp_path / "corpus")
    dialogues = corpus / "test" / "dialogues_001.json"
    dialogues.write_text(dialogues.read_text().replace("where is it ?", 8 * "where is it ? "))
    given = {"model": folder, "reference": corpus, "sets": f"output={corpus}"}
    said = run("predict", "sgd_baseline", **given, output=tmp_path / "states")
    count = len(json.loads(dialogues.read_text()))
    assert f"original: {count} inputs longer than the model's --max_length" in said.errors
    assert said.manifest["counts"]["too_long/output"] == count


def test_held_out_dialogues_choose_instead_of_dev(toy, tmp_path):
    few = {"held_out": 0.3, "steps": 2, "max_output": 8, "dev_frames": 4}
    made = run("train", *flags(toy, "t5dst", tmp_path / "out"), **few)
    assert {row["flag"] for row in made.manifest["inputs"]} == {"train"}


def test_perturbed_copies_are_trained_on_too(toy, tmp_path, monkeypatch):
    """Augmentation: dialogues of one id in several corpora are all used."""
    sizes = counted_steps(monkeypatch)
    sets = {"sgd": toy / "corpus3", "split": "train", "kinds": "verbose", "env": "none"}
    run("language_variations", "--quiet", **sets, output=tmp_path / "varied")
    one_epoch = ["--epochs", "1", "--negatives", "1"]
    run("train", *flags(toy, "t5dst", tmp_path / "plain", *one_epoch))
    alone = sum(sizes)
    both = [str(toy / "corpus3"), str(tmp_path / "varied" / "verbose")]
    run("train", *flags(toy, "t5dst", tmp_path / "both", *one_epoch), train=both)
    assert sum(sizes) == 3 * alone


def test_versions_of_a_dialogue_are_held_out_together(toy):
    """Perturbed ones, which share the id, and those under other ids, which share the first utterance."""
    rows = read_labels(str(toy / "corpus3"), "train").rows

    def version(row, mark, opening):
        asked = row.asked
        history = (("USER", opening + asked.history[0][1]), *asked.history[1:])
        new = msgspec.structs.replace(asked, dialogue_id=asked.dialogue_id + mark, history=history)
        return msgspec.structs.replace(row, asked=new)

    more = [version(row, "", "well, ") for row in rows] + [version(row, "_v1", "") for row in rows]
    parts = held_out([*rows, *more], 0.5, "0", Openings())
    ids = [{row.asked.dialogue_id.removesuffix("_v1") for row in part} for part in parts]
    assert all(ids)
    assert not ids[0] & ids[1]
