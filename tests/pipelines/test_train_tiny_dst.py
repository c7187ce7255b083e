"""``parapet train tiny_dst``: it learns a toy set, is predicted with and scored, and goes on where it was stopped."""

import shutil

import msgspec
import pytest
from kit import edit, json_of, refused, rows_of, run, write
from tiny_dialogues import FOOD, write_corpus

from parapet.evaluation.models.dst import tiny
from parapet.evaluation.models.dst.data import Openings, read_labels
from parapet.evaluation.models.examples import held_out


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
    run("train", *flags(toy / "corpus", out, "--epochs", "60", "--patience", "60"))
    return out


def test_learns_predicts_and_is_scored(model, toy, tmp_path):
    head = json_of(model / "run.json")
    log = rows_of(model / "log.jsonl")
    assert head["result"]["dev"] == max(row["dev"] for row in log) > 0.6  # none after the first epoch
    assert log[0]["loss"] > 2 * log[-1]["loss"]
    states = run("predict", "tiny_dst", model=model, reference=toy / "corpus", output=tmp_path / "states")
    counts = states.manifest["counts"]
    assert counts["asked/original"] == counts["predicted/original"] > 0
    given = {"reference": toy / "corpus", "predictions": states.folder / "predictions"}
    metrics = run("evaluate", task="dst", **given, output=tmp_path / "scores").json("metrics.json")
    assert metrics["#ALL_SERVICES"]["joint_goal_accuracy"] == pytest.approx(head["result"]["dev"])


def test_a_training_keeps_its_state_in_its_folder(toy, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "state.pt").write_bytes(b"of others")
    (tmp_path / "out/.training").symlink_to(tmp_path, target_is_directory=True)
    said = refused("train", *flags(toy / "corpus", tmp_path / "out", "--epochs", "1"), status=1)
    assert "out/.training: leads outside of the output folder by a link: remove the link" in said
    assert (tmp_path / "state.pt").read_bytes() == b"of others"


def test_held_out_dialogues_choose_instead_of_dev(toy, tmp_path):
    run("train", *flags(toy / "corpus", tmp_path, "--held_out", "0.3", "--epochs", "1"))
    assert {one["flag"] for one in json_of(tmp_path / "run.json")["inputs"]} == {"train"}


def test_what_cannot_be_trained_or_run_is_told(model, toy, tmp_path):
    def told(name="tiny_dst", **flags):
        return refused("train" if "train" in flags else "predict", name, output=tmp_path / "out", **flags)

    corpus = toy / "corpus"
    assert "--held_out: 1.5: must be above" in told(train=corpus, held_out=1.5)
    assert "--epochs: 0: must be 1 or more" in told(train=corpus, epochs="0")
    empty = write_corpus(tmp_path / "empty")
    for schema in empty.glob("*/schema.json"):
        write(schema, [{**FOOD, "slots": [], "intents": []}])
    assert "no service of the schema has a slot" in told(train=empty)
    other = tmp_path / "other"
    # With run.json it is refused before it is read.
    shutil.copytree(model, other, ignore=shutil.ignore_patterns(".*", "run.json"))
    assert "contains no model" in told(model=corpus, reference=corpus)
    weights = other / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-50])
    assert "is truncated or damaged" in told(model=other, reference=corpus)
    edit(other / "model.json", lambda card: card.update(size=8))
    weights.write_bytes((model / "weights.safetensors").read_bytes())
    assert "does not match model.json beside it" in told(model=other, reference=corpus)
    assert "is a model of another kind, 'tiny_dst'" in told("sgp_dst", model=other, reference=corpus)


def test_predictions_do_not_depend_on_batches(model, toy):
    asked = [one.asked for one in read_labels(str(toy / "corpus"), "train").rows]
    together = tiny.load(str(model), "cpu", 64).predict(asked)
    alone = tiny.load(str(model), "cpu", 1)
    assert [alone.predict([one])[0] for one in asked[:12]] == together[:12]
    assert tiny.load(str(model), "cpu", 7).predict(asked[::-1])[::-1] == together


def test_perturbed_copies_are_trained_on_too(toy, tmp_path):
    """Augmentation: dialogues of one id in several corpora are all used."""
    sets = {"sgd": toy / "corpus", "split": "train", "kinds": "verbose", "env": "none"}
    run("language_variations", "--quiet", **sets, output=tmp_path / "varied")
    both = flags(toy / "corpus", tmp_path / "both", "--epochs", "1")
    run("train", *both[:4], str(tmp_path / "varied" / "verbose"), *both[4:])
    run("train", *flags(toy / "corpus", tmp_path / "plain", "--epochs", "1"))
    steps = [json_of(tmp_path / name / "run.json")["result"]["steps"] for name in ("both", "plain")]
    assert steps == [9, 5]  # of 36 and 18 dialogues, four at a time


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
