"""``parapet train`` and ``parapet predict`` for whole systems, soloist and damd, as a person runs them."""

import functools
import json

import kit
import msgspec
import pytest
from inn_toy import dialogues, texts, write_corpus
from kit import cases, files_of, json_of, refused, rows_of, run, write
from tiny_checkpoints import save_gpt2

from parapet.evaluation.models.systems import act_parts, acts_of
from parapet.schemas.dialogue import Dialogue

# Of the states, acts and goals; a new model writes none.
LEARNED = {"soloist": 0.6, "damd": 0.95}
FLAGS = {
    "soloist": "--max_length 100 --learning_rate 0.006 --epochs 60 --patience 60 --batch_size 4 --acts",
    "damd": "--learning_rate 0.01 --epochs 40 --patience 40 --batch_size 8 --schedule constant --hidden 32",
}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    write_corpus(folder / "corpus")
    save_gpt2(folder / "gpt2", texts())
    return folder


def flags_of(toy, model, output):
    checkpoint = ["--checkpoint", str(toy / "gpt2")] if model == "soloist" else []
    return [model, "--quiet", "--train", str(toy / "corpus"), *checkpoint, *FLAGS[model].split(), "--output", output]


@pytest.fixture(scope="module")
def trained(toy):
    @functools.cache
    def model(name):
        return run("train", *flags_of(toy, name, toy / name)).folder

    return model


@pytest.mark.thorough
@cases("name", "soloist", "damd")
def test_a_toy_set_is_learned_predicted_and_evaluated(name, trained, toy, tmp_path):
    """With another set, whose dialogues are the same in another order."""
    other, least = tmp_path / "other", LEARNED[name]
    for relative, data in files_of(toy / "corpus").items():
        write(other / relative, json.loads(data)[::-1] if "dialogues" in relative else data)
    both = {"reference": toy / "corpus", "sets": f"other={other}"}
    one = run("predict", name, "--quiet", model=trained(name), **both, output=tmp_path / "one").folder
    said = {of: rows_of(one / "responses" / of / "test" / "responses.jsonl") for of in ("original", "other")}
    assert sorted(map(json.dumps, said["original"])) == sorted(map(json.dumps, said["other"]))
    scored = run("evaluate", task="dst", predictions=one / "predictions", **both, output=tmp_path / "dst")
    states = scored.json("metrics.json")["#ALL_SERVICES"]
    assert all(states[metric] > least for metric in ("joint_goal_accuracy", "active_intent_accuracy"))
    assert states["requested_slots_f1"] > least
    scored = run("evaluate", task="response", predictions=one / "responses", **both, output=tmp_path / "response")
    metrics = scored.json("metrics.json")
    assert all(metrics["original"][metric] > least for metric in ("inform", "success", "act_accuracy"))
    assert not [metric for metric in ("inform", "success") if metrics["other"][metric] != metrics["original"][metric]]
    assert "act accuracy" in scored.output
    truth = {raw["dialogue_id"]: msgspec.convert(raw, Dialogue) for raw in dialogues()}
    acts = [acts_of(act_parts(truth[row["dialogue_id"]].turns[row["turn"]])) for row in said["original"]]
    right = [row["acts"] == msgspec.to_builtins(of) for row, of in zip(said["original"], acts, strict=True)]
    assert sum(right) / len(right) > least
    counts = json_of(one / "run.json")["counts"]
    assert counts["answered/original"] == counts["asked/other"] == 18


@pytest.mark.thorough
@cases("name", "soloist", "damd")
def test_responses_depend_on_the_database(name, trained, toy, tmp_path):
    """With further inns in Rome in it, it says that there are many."""
    more = [{"city": "Rome", "stars": "two", "inn_name": f"New {n}"} for n in range(9)]
    base = write(tmp_path / "db.json", {"Inns_1": more})
    given = {"model": trained(name), "reference": toy / "corpus", "knowledge_base": base}
    out = run("predict", name, "--quiet", **given, output=tmp_path / "out").folder
    rows = rows_of(out / "responses" / "original" / "test" / "responses.jsonl")
    said = [row["response"] for row in rows if row["dialogue_id"] == "1_00000" and row["turn"] == 3]
    assert said == ["there is [inns_1_inn_name] among many ."]


@pytest.mark.thorough
def test_bad_input_is_told(toy, tmp_path):
    damd, soloist = (flags_of(toy, name, tmp_path / "out") for name in ("damd", "soloist"))
    told = refused("train", *damd, vocabulary=9, status=(1, 2))
    assert "--vocabulary: 9: must be larger, because the names and placeholders alone are" in told
    told = refused("train", *soloist, max_length=999, status=(1, 2))
    assert "the checkpoint has 192 positions, and belief states and responses need" in told
    assert "--consistency: -1.0: must be" in refused("train", *soloist, "--consistency", "-1")
    empty = write_corpus(tmp_path / "empty")
    bare = [kit.service("Inns_1", [], [kit.intent("FindInn", "look for an inn")], "places to stay")]
    for split in ("train", "dev", "test"):
        write(empty / split / "schema.json", bare)
    assert "no service of the schema has a slot" in refused("train", *soloist, train=empty, status=(1, 2))
