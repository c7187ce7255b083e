"""``parapet train t5dst`` on a tiny random checkpoint, and what comes of it: predicted, scored, gone on with."""

import shutil

import msgspec
import pytest
import stopped
import torch
import transformers
from kit import dialogues_of, edit, files_of, json_of, refused, rows_of, run, write
from tiny_checkpoints import save_t5
from tiny_dialogues import FOOD, texts, write_corpus

from parapet.evaluation.models import t5dst
from parapet.evaluation.models.dst import Openings, read_labels
from parapet.evaluation.models.inference import held_out
from parapet.evaluation.models.training import LOG

SMALL = ["--batch_size", "8", "--learning_rate", "0.005", "--warmup", "0.1", "--quiet"]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A corpus of the first two user turns, and a checkpoint."""
    folder = tmp_path_factory.mktemp("toy")
    write_corpus(folder / "corpus", turns=3)
    save_t5(folder / "t5", texts())
    return folder


def flags(toy, out, *more):
    given = ["--checkpoint", str(toy / "t5"), "--train", str(toy / "corpus"), "--output", str(out)]
    return ["t5dst", *given, *SMALL, *more]


@pytest.mark.thorough  # the preset is stopped below, and test_train_sgp_dst.py stops between epochs
def test_a_training_that_was_stopped_goes_on_to_the_same_bytes(toy, tmp_path, monkeypatch):
    few = ["--epochs", "3", "--negatives", "0.2", "--dev_frames", "4", "--batch_size", "16"]
    run("train", *flags(toy, tmp_path / "whole", *few))
    stopped.at_step(monkeypatch, t5dst.T5Learner, 11)  # of 8 an epoch
    assert "run the same command again" in run("train", *flags(toy, tmp_path / "cut", *few), status=1).errors
    assert stopped.left_in(tmp_path / "cut") == [".training/log.jsonl", ".training/state.pt"]
    run("train", *flags(toy, tmp_path / "cut", *few))
    assert files_of(tmp_path / "cut") == files_of(tmp_path / "whole")


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


def preset(toy, out, *more):
    given = ["--checkpoint", str(toy / "t5"), "--train", str(toy / "corpus"), "--output", str(out), "--quiet"]
    return ["t5dst", "--preset", "sgdx", *given, *more]


def test_the_preset_of_sgdx_is_the_papers(toy, tmp_path, monkeypatch):
    """Lee et al. 2022, Appendix A: batches of 16, a constant 1e-4; with fewer steps than its 50,000."""
    sizes = counted_steps(monkeypatch)
    run("train", *preset(toy, tmp_path / "out", "--steps", "20", "--max_output", "32"))
    assert sizes == [16] * 20
    log = rows_of(tmp_path / "out" / "log.jsonl")
    assert [(row["step"], row["learning_rate"]) for row in log] == [(step, 1e-4) for step in range(2, 21, 2)]
    head = json_of(tmp_path / "out" / "run.json")
    assert head["options"] | EXPECTED == head["options"]
    assert head["result"]["parameters"] == parameters_of(json_of(toy / "t5" / "config.json"))
    card = json_of(tmp_path / "out" / "model.json")
    assert card == {"model": "t5dst", "format": 1, "length": 512, "answer": 32, "prompts": "slots", "answers": "raw"}


EXPECTED = {
    "preset": "sgdx", "steps": 20, "eval_steps": 2, "epochs": None, "patience": None, "batch_size": 16,
    "learning_rate": 1e-4, "schedule": "constant", "warmup": 0.0, "keep": "last", "max_length": 512, "max_output": 32,
    "prompts": "slots", "answers": "raw", "equal_values": "random", "negatives": 1.0,
}  # fmt: skip


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


@pytest.mark.thorough
def test_a_preset_that_was_stopped_goes_on_to_the_same_bytes(toy, tmp_path, monkeypatch):
    few = ["--steps", "14", "--eval_steps", "5", "--max_output", "8", "--dev_frames", "4"]
    run("train", *preset(toy, tmp_path / "whole", *few))
    stopped.at_step(monkeypatch, t5dst.T5Learner, 9)
    run("train", *preset(toy, tmp_path / "cut", *few), status=1)
    assert [row["step"] for row in rows_of(tmp_path / "cut" / LOG)] == [5]
    run("train", *preset(toy, tmp_path / "cut", *few))
    assert files_of(tmp_path / "cut") == files_of(tmp_path / "whole")
    states = tmp_path / "states"
    run("predict", "t5dst", model=tmp_path / "cut", reference=toy / "corpus", output=states)
    said = dialogues_of(states / "predictions" / "original" / "test").values()
    turns = [turn for dialogue in said for turn in dialogue["turns"] if turn["speaker"] == "USER"]
    found = [frame["state"] for turn in turns for frame in turn["frames"]]
    # What it was not trained to predict it does not predict.
    assert {(state["active_intent"], *state["requested_slots"]) for state in found} == {("NONE",)}
    (tmp_path / "cut" / "run.json").unlink()  # with it, changed files are refused before they are read
    edit(tmp_path / "cut" / "model.json", lambda card: card.update(length=0))
    told = refused("predict", "t5dst", model=tmp_path / "cut", reference=toy / "corpus", output=tmp_path / "no")
    assert "is damaged, or was not written by Parapet" in told


def test_what_cannot_be_trained_is_told(toy, tmp_path, monkeypatch):
    def told(*more, status=2):
        return refused("train", *flags(toy, tmp_path / "out", *more), status=status)

    other = tmp_path / "other"
    shutil.copytree(toy / "t5", other)
    edit(other / "config.json", lambda config: config.update(model_type="bert"))
    assert "contains a model of type 'bert': expected t5, mt5, umt5 or longt5" in told("--checkpoint", str(other))
    (other / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    assert "config.json names no model_type: expected t5, mt5, umt5 or longt5" in told("--checkpoint", str(other))
    shutil.copy(toy / "t5" / "config.json", other)
    for path in other.glob("tokenizer*"):
        path.unlink()
    assert "lacks the files of a tokenizer" in told("--checkpoint", str(other))
    assert "--negatives: 1.5: must be a number from 0 to 1" in told("--negatives", "1.5")
    assert "--max_length: 3: must be 16 or more" in told("--max_length", "3")
    empty = write_corpus(tmp_path / "empty")
    write(empty / "train" / "dialogues_001.json", [])
    assert "no user turn of 'train' has a frame with a state" in told("--train", str(empty))
    bare = write_corpus(tmp_path / "bare")
    write(bare / "train" / "schema.json", [{**FOOD, "slots": [], "intents": []}])
    assert "no service of the schema has a slot" in told("--train", str(bare))

    def full(self, batch):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(t5dst.T5Learner, "loss", full)
    assert "out of memory: lower --batch_size, which is 8, or the flags for sizes and lengths" in told(status=1)


@pytest.fixture(scope="module")
def model(toy):
    """One that was trained for an epoch."""
    run("train", *flags(toy, toy / "model", "--epochs", "1", "--max_output", "8", "--dev_frames", "0"))
    return toy / "model"


def test_what_is_predicted_is_scored_as_dev_was(model, toy, tmp_path):
    states = run("predict", "t5dst", model=model, reference=toy / "corpus", output=tmp_path / "states")
    counts = states.manifest["counts"]
    assert counts["asked/original"] == counts["predicted/original"] > 0
    given = {"reference": toy / "corpus", "predictions": states.folder / "predictions"}
    metrics = run("evaluate", task="dst", **given, output=tmp_path / "scores").json("metrics.json")
    dev = json_of(model / "run.json")["result"]["dev"]
    assert metrics["#ALL_SERVICES"]["joint_goal_accuracy"] == pytest.approx(dev)


def test_what_cannot_predict_is_told(model, toy, tmp_path):
    def told(name, folder, status=2):
        given = {"model": folder, "reference": toy / "corpus", "output": tmp_path / "out"}
        return refused("predict", name, **given, status=status)

    other = tmp_path / "other"
    # With run.json it is refused before it is read.
    shutil.copytree(model, other, ignore=shutil.ignore_patterns(".*", "run.json"))
    assert "contains no model" in told("t5dst", toy / "corpus")
    assert "is a model of another kind, 't5dst'" in told("sgp_dst", other)
    weights = next(other.rglob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-50])
    assert "the model cannot be loaded" in told("t5dst", other, status=1)


def test_a_training_keeps_its_state_in_its_folder(toy, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "state.pt").write_bytes(b"of others")
    (tmp_path / "out/.training").symlink_to(tmp_path, target_is_directory=True)
    said = refused("train", *flags(toy, tmp_path / "out", "--epochs", "1"), status=1)
    assert "out/.training: leads outside of the output folder by a link: remove the link" in said
    assert (tmp_path / "state.pt").read_bytes() == b"of others"


def test_held_out_dialogues_choose_instead_of_dev(toy, tmp_path):
    few = ["--steps", "2", "--max_output", "8", "--dev_frames", "4"]
    run("train", *flags(toy, tmp_path / "out", "--held_out", "0.3", *few))
    assert {row["flag"] for row in json_of(tmp_path / "out/run.json")["inputs"]} == {"train"}
    told = refused("train", *flags(toy, tmp_path / "no", "--held_out", "1.5"))
    assert "--held_out: 1.5: must be above" in told


def test_perturbed_copies_are_trained_on_too(toy, tmp_path, monkeypatch):
    """Augmentation: dialogues of one id in several corpora are all used."""
    sizes = counted_steps(monkeypatch)
    sets = {"sgd": toy / "corpus", "split": "train", "kinds": "verbose", "env": "none"}
    run("language_variations", "--quiet", **sets, output=tmp_path / "varied")
    one_epoch = ["--epochs", "1", "--negatives", "1"]
    plain, both = flags(toy, tmp_path / "plain", *one_epoch), flags(toy, tmp_path / "both", *one_epoch)
    run("train", *plain)
    alone = sum(sizes)
    both.insert(both.index("--output"), str(tmp_path / "varied" / "verbose"))
    run("train", *both)
    assert sum(sizes) == 3 * alone


def test_versions_of_a_dialogue_are_held_out_together(toy):
    """Perturbed ones, which share the id, and those under other ids, which share the first utterance."""
    rows = read_labels(str(toy / "corpus"), "train").rows

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
