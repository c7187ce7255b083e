"""``parapet train classifier`` and ``parapet predict classifier``, as a person runs them."""

import pyarrow as pa
import pytest
from intent_toy import foreign, toy
from kit import edit, files_of, json_of, refused, rows_of, run, write
from tiny_checkpoints import save_bert

from parapet.evaluation.models.turns import Turn
from parapet.schemas.rows import OOD_TURNS, parquet_bytes

SMALL = {"buckets": 2048, "size": 16, "batch_size": 16, "quiet": True}
ALL_FOREIGN = 0.31  # F1 on the sets where all turns are called out of domain


def lines(path, turns):
    return write(path, [{"id": turn.key[1], "label": turn.label, "utterance": turn.utterance} for turn in turns])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Intents and labels of both kinds as JSON lines; and as ``parapet ood`` writes them."""
    folder = tmp_path_factory.mktemp("toy")
    turns, others = toy(), foreign()
    lines(folder / "train.jsonl", [turn for i, turn in enumerate(turns) if i % 5])
    lines(folder / "test.jsonl", turns[::5])
    known = [Turn(turn.key, turn.utterance, "in_domain") for turn in turns]
    lines(folder / "foreign.jsonl", known[::7] + others[::4])
    for name, some in (("ood-10", others[::5]), ("ood-50", others)):
        for i, split in enumerate(("train", "test")):
            rows = [
                {"dialogue_id": turn.key[1], "turn": 2 * n, "original_turn": None, "label": turn.label,
                 "source": None, "utterance": turn.utterance, "fallback": None}
                for n, turn in enumerate(known + some) if n % 2 == i
            ]  # fmt: skip
            place = folder / "foreign" / name / "turns" / split / "dialogues_001.parquet"
            write(place, parquet_bytes(pa.Table.from_pylist(rows, schema=OOD_TURNS)))
    return folder


def trained(output, **flags):
    return run("train", "classifier", **SMALL, **flags, output=output).folder


@pytest.fixture(scope="module")
def model(data):
    """A net from scratch, trained in one go, with a threshold."""
    return trained(data / "model", train=data / "train.jsonl", foreign=data / "foreign.jsonl")


@pytest.mark.parametrize("score", ["msp", "energy"])
def test_foreign_turns_by_the_scores_of_intents(score, model, data, tmp_path):
    if score == "energy":
        given = {"train": data / "train.jsonl", "foreign": data / "foreign.jsonl"}
        model = trained(tmp_path / "energy", **given, score=score)
    metrics = scored(model, data, tmp_path, "--task", "ood")
    assert metrics["#ALL"]["f1"] > ALL_FOREIGN + 0.15
    assert metrics["#ALL"]["auroc"] > 0.7
    threshold = json_of(model / "model.json")["threshold"]
    rows = rows_of(tmp_path / "out" / "predictions" / "ood-10" / "test" / "ood.jsonl")
    assert {(row["predicted"] == "ood", row["score"] >= threshold) for row in rows} == {(True, True), (False, False)}


def test_foreign_turns_that_are_learned(data, tmp_path):
    model = trained(tmp_path / "model", task="ood", train=data / "foreign")
    assert scored(model, data, tmp_path)["#ALL"]["f1"] > ALL_FOREIGN + 0.25


def scored(model, data, folder, *more):
    """What ``evaluate`` says of the test split of what ``parapet ood`` wrote."""
    said = run("predict", "classifier", *more, model=model, reference=data / "foreign", output=folder / "out")
    given = {"reference": data / "foreign", "predictions": said.folder / "predictions"}
    metrics = run("evaluate", task="ood", **given, output=folder / "scores").json("metrics.json")
    assert set(metrics) == {"#ALL", "#MEAN", "ood-10", "ood-50"}
    return metrics


@pytest.mark.thorough
def test_a_corpus_its_variants_and_sets(sample, tmp_path):
    """Trained on two corpora at once; predictions of an utterance are the same in all sets."""
    variants, other = tmp_path / "variants", tmp_path / "reversed"
    for relative, data in files_of(sample).items():
        write(variants / "v1" / relative, data.replace(b"BookRepair", b"ReserveMending"))
        write(other / relative, data)
    edit(other / "test" / "dialogues_001.json", lambda dialogues: dialogues[::-1])
    model = trained(tmp_path / "model", train=[sample, other], split="test", dev=sample, dev_split="test")
    sets = {"variants": variants, "sets": f"reversed={other}"}
    one = run("predict", "classifier", model=model, **sets, quiet=True, output=tmp_path / "one")

    def said(name):
        rows = rows_of(tmp_path / "one" / "predictions" / name / "test" / "intent.jsonl")
        return {(row["dialogue_id"], row["turn"]): (row["predicted"], row["label"]) for row in rows}

    original = said("original")
    assert original == said("v1") == said("reversed")
    assert len(original) == 49
    assert "BookRepair" in {label for _, label in original.values()}
    counts = one.manifest["counts"]
    assert (counts["turns/v1"], counts["answered"]) == (49, 147)
    given = {"task": "intent", "reference": sample, "predictions": tmp_path / "one" / "predictions"}
    metrics = run("evaluate", **sets, **given, output=tmp_path / "scores").json("metrics.json")
    right = sum(predicted == label for predicted, label in original.values())
    names = ("#ALL", "#MEAN", "original", "v1", "reversed")
    assert {name: of["accuracy"] for name, of in metrics.items()} == dict.fromkeys(names, pytest.approx(right / 49))


def test_a_checkpoint_as_a_person_trains_it(data, tmp_path):
    bert = save_bert(tmp_path / "bert", [turn.utterance for turn in toy()])
    flags = {"train": data / "train.jsonl", "checkpoint": bert, "max_length": 12, "batch_size": 16, "epochs": 4}
    told = run("train", "classifier", **flags, learning_rate=0.003, output=tmp_path / "model")
    assert "utterances are longer than 12 tokens: their beginnings are cut off" in told.errors
    assert "classifier: intent accuracy on dev" in told.output
    assert "checkpoint/tokenizer.json" in told.files
    again = {"model": told.folder, "reference": data / "test.jsonl", "output": tmp_path / "o"}
    assert "'FindBus' is not a label of --task ood" in refused("predict", "classifier", **again, task="ood")
    told = run("predict", "classifier", **again)
    assert "longer than the model's --max_length: the beginnings were cut off" in told.errors
    assert "predictions/intent.jsonl: 39 turns" in told.output


def test_bad_input_is_told(model, data, tmp_path):
    texts, labelled = data / "train.jsonl", data / "foreign"
    lines(tmp_path / "one.jsonl", [Turn(("", str(i), 0), "a", "A") for i in range(40)])
    write(tmp_path / "bare.jsonl", [{"id": 1, "utterance": "a"}])
    write(tmp_path / "t5" / "config.json", '{"model_type": "t5"}')
    splits = "contains no turns of split 'dev'; these splits have some: test, train"
    plain = {"model": model, "reference": data / "test.jsonl"}
    for command, flags, reason in (
        ("train", {"train": tmp_path / "one.jsonl"}, "all turns have the label 'A', so there is nothing to learn"),
        ("train", {"train": tmp_path / "bare.jsonl"}, "no user turn has a label for --task intent"),
        ("train", {"train": labelled}, "has labels for --task ood: give a corpus for --task intent"),
        ("train", {"train": texts, "task": "ood"}, "is not a label of --task ood: must be ood or in_domain"),
        ("train", {"train": texts, "foreign": labelled}, splits),
        ("train", {"train": texts, "checkpoint": tmp_path / "t5"}, "contains a model of type 't5': expected bert, "),
        ("predict", {**plain, "reference": labelled}, "has labels for --task ood"),
        ("predict", {**plain, "sets": "a=."}, "require a corpus"),
    ):
        assert reason in refused(command, "classifier", **flags, output=tmp_path / "out")


def test_intents_of_lines(model, data, tmp_path):
    reference = data / "test.jsonl"
    told = run("predict", "classifier", model=model, reference=reference, quiet=True, output=tmp_path / "out")
    assert told.manifest["counts"] == {"answered": 39, "asked": 39}
    given = {"task": "intent", "reference": reference, "predictions": tmp_path / "out" / "predictions" / "intent.jsonl"}
    metrics = run("evaluate", **given, output=tmp_path / "scores").json("metrics.json")
    assert metrics["#ALL"]["accuracy"] > 0.6  # a quarter is of each intent


def test_what_a_training_writes(model):
    assert sorted(files_of(model)) == ["log.jsonl", "model.json", "report.html", "run.json", "weights.safetensors"]
    head, card = json_of(model / "run.json"), json_of(model / "model.json")
    assert (head["pipeline"], head["result"]["threshold"]) == ("train_classifier", card["threshold"])
    assert head["result"]["threshold_f1"] > 0.7  # of "all are foreign" it is 0.56
    assert [one["flag"] for one in head["inputs"]] == ["train", "foreign"]
    assert card["labels"] == ["Alarm", "BuyTicket", "FindBus", "NONE"]
