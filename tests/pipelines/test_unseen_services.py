"""``parapet unseen_services`` as a person runs it: nothing lost, nothing of what is held out in training."""

import kit
import pytest
from kit import cases, dialogues_of, json_of, lacking, refused_at_once, run, write

from parapet.pipelines.splits import run_named
from parapet.schemas.layout import read_root
from parapet.transforms.variants.table1 import names_seen


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return run("unseen_services", "--test_seen", output=tmp_path_factory.mktemp("made") / "out").folder


def test_the_splits_as_given(made, sample):
    given = json_of(made / "statistics.json")["as_given"]
    splits = {one.split: one.services for one in read_root(sample)}
    known = {one.service_name for one in splits["train"]}
    unseen = [one for one in splits["test"] if one.service_name not in known]
    assert given["test"]["unseen_services"] == sorted(one.service_name for one in unseen) != []
    tests = dialogues_of(sample / "test").values()
    kinds = [(bool({*one["services"]} & known), bool({*one["services"]} - known)) for one in tests]
    counts = {"seen": (True, False), "both": (True, True), "unseen": (False, True)}
    assert given["test"]["dialogues_by_services"] == {name: kinds.count(kind) for name, kind in counts.items()}
    share = names_seen(unseen, splits["train"])["slot_names_seen"]
    assert given["test"]["seen"]["slot_names_seen"] == pytest.approx(share, abs=1e-6)
    assert given["train"]["unseen_services"] == []


def test_one_schema_and_idle_frames(tmp_path):
    """As MultiWOZ 2.2 is: one schema for all splits, a frame for every service in every user turn."""
    names = ("hotel", "train", "taxi")
    area = {"description": "area", "is_categorical": False}
    services = [kit.service(name, [{"name": f"{name}-area", **area}]) for name in names]

    def dialogue(name, *touched):
        values = {one: {f"{one}-area": ["north"]} if one in touched else {} for one in names}
        turn = kit.turn("USER", "North.", *(kit.frame(one, state=kit.state(**values[one])) for one in names))
        return {"dialogue_id": name, "services": list(touched), "turns": [{**turn, "turn_id": "0"}]}

    root = tmp_path / "mw"
    of_splits = {
        "train": [dialogue("1", "hotel"), dialogue("2", "hotel", "train"), {"turns": 1}],
        "test": [dialogue("3", "train"), dialogue("4", "taxi")],
    }
    for split, dialogues in of_splits.items():
        write(root / split / "dialogues_001.json", dialogues)
    write(root / "schema.json", services)
    out = tmp_path / "out"
    said = run("unseen_services", sgd=root, output=out, status=1).errors
    assert "1 of 5 dialogues could not be used, more than --max_bad 1% allows, so nothing was published" in said
    said = run("unseen_services", sgd=root, output=out, max_bad="100%")
    assert "train: train 1, test 1; 0% of slot names seen in training; 2 dialogues left out" in said.output
    assert not lacking(said.errors, "no dialogue to test on: hotel", "no dialogue left to train on: hotel")
    assert "left out: 1 of 5 dialogues (not_sgd 1); see " in said.errors
    (first,) = said.dialogues("train/train").values()
    assert [frame["service"] for frame in first["turns"][0]["frames"]] == ["hotel", "taxi"]
    assert [one.service_name for one in read_root(out / "train")[0].services] == ["hotel", "taxi"]
    (tested,) = said.dialogues("train/test").values()
    assert tested == of_splits["test"][0]  # as it is, keys of others too
    numbers = json_of(out / "statistics.json")
    assert numbers["held_out"]["train"]["without_idle_frames"] == 1
    assert numbers["as_given"]["test"]["unseen_services"] == ["taxi"]
    assert (out / "dead_letters.jsonl").read_text().count("not_sgd") == 1


@cases(
    "flags told",
    (["--hold_out", "Hotels"], "--hold_out: there is no domain 'Hotels': must be one of Ferries, Gyms"),
    (["--hold_out", ","], "--hold_out: must be one or more of Ferries"),
    (
        ["--test_split", "train"],
        "--test_split: there are no dialogues in 'train' to test on; these splits have some: dev, t",
    ),
)
def test_mistakes(flags, told, tmp_path):
    assert told in refused_at_once("unseen_services", *flags, output=tmp_path / "out")


def test_real_dialogues(real_data, tmp_path):
    root = real_data / "sgd"
    flags = ["--sgd", str(root), "--hold_out", "Restaurants,Travel", "--quiet"]
    assert run_named("unseen_services", ["--output", str(tmp_path / "out"), *flags]) == 0
    numbers = json_of(tmp_path / "out" / "statistics.json")
    schemas = {one.split: one.services for one in read_root(root)}
    known = {one.service_name for one in schemas["train"]}
    unseen = [one for one in schemas["dev"] if one.service_name not in known]
    share = names_seen(unseen, schemas["train"])["slot_names_seen"]
    assert numbers["as_given"]["dev"]["seen"]["slot_names_seen"] == pytest.approx(share, abs=1e-6)
    sets = numbers["held_out"]["Travel"]["sets"]
    assert {name: of["dialogues"] for name, of in sets.items()} == {"train": 128, "dev": 339, "test": 45}
    assert numbers["short"] == ["no dialogue left to train on: Restaurants"]
