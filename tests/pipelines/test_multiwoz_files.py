"""MultiWOZ 2.2 as its repository has it: one schema.json for all splits, dialogues with ids of turns and without acts.

The names and the dialogues are invented; the shape of the files is theirs.
"""

import json

import multiwoz_corpus
import pytest
from kit import dialogues_of, refused, run, write

import parapet

BOOKING = 4  # the turn in which a value is copied
DOMAINS = ("hotel", "restaurant")


def schema():
    services = multiwoz_corpus.schema()
    for slot in (slot for service in services for slot in service["slots"] if not slot["is_categorical"]):
        del slot["possible_values"]
    return services


def dialogue(number):
    """A dialogue whose frames have no actions, and a value that is copied from another slot."""
    made = multiwoz_corpus.dialogue(number, DOMAINS)
    for frame in (frame for turn in made["turns"] for frame in turn["frames"]):
        del frame["actions"]
    (frame,) = (frame for frame in made["turns"][BOOKING]["frames"] if frame["service"] == "hotel")
    frame["slots"].append(copied("hotel"))
    return made


def copied(prefix):
    return {"copy_from": f"{prefix}-name", "slot": f"{prefix}-name", "value": ["larch house", "Larch House"]}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("data") / "MultiWOZ_2.2"
    write(root / "schema.json", schema())
    write(root / "dialog_acts.json", {"MUL0000.json": {"0": {"dialog_act": {"Hotel-Inform": [["name", "larch"]]}}}})
    write(root / "README.md", "MultiWOZ 2.2")
    for split, numbers in {"train": range(4), "dev": (4, 5), "test": (6, 7)}.items():
        write(root / split / "dialogues_001.json", json.dumps([dialogue(n) for n in numbers], indent=4))
    return root


@pytest.mark.parametrize("kind", ["typos", "verbose", "unseen_entities"])
def test_it_is_perturbed_and_keeps_its_shape(kind, root, tmp_path):
    made = run("perturb", kind, sgd=root, output=tmp_path / "out")
    assert not made.dead_letters
    assert "warning" not in made.errors
    folder = tmp_path / "out" if kind == "unseen_entities" else tmp_path / "out" / kind
    assert json.loads((folder / "schema.json").read_bytes()) == schema()
    texts = 0
    for name, perturbed in dialogues_of(folder / "test").items():
        original = dialogue(int(name.removeprefix("MUL").removesuffix(".json")))
        for before, after in zip(original["turns"], perturbed["turns"], strict=True):
            texts += before["utterance"] != after["utterance"]
            for old, new in zip(before["frames"], after["frames"], strict=True):
                assert set(old) == set(new)
                assert kind == "unseen_entities" or old.get("state") == new.get("state")
                names = [[span for span in of["slots"] if span["slot"] == "hotel-name"] for of in (old, new)]
                for was, span in zip(*names, strict=True):
                    shown = after["utterance"][span.get("start", 0) : span.get("exclusive_end", 0)]
                    assert "start" not in was or (shown == was["value"]) == (kind != "unseen_entities")
            assert set(before) == set(after)
    assert texts


def test_splits_alone_and_together(root, tmp_path):
    run("perturb", "typos", sgd=root, split="train,test", output=tmp_path / "both")
    run("perturb", "typos", sgd=root / "test", output=tmp_path / "alone")
    path = tmp_path / "alone/typos/dialogues_001.json"
    assert path.read_bytes() == (tmp_path / "both/typos/test/dialogues_001.json").read_bytes()
    assert parapet.load_corpus(root).splits == ("train", "dev", "test")
    assert parapet.load_corpus(root / "test").services() == schema()
    assert "MultiWOZ_2.2: give one of them" in refused("perturb", "typos", sgd=root.parent, output=tmp_path / "no")


def test_every_service_of_the_one_schema_counts_as_seen(root, tmp_path):
    made = run("evaluate", task="dst", reference=root, model="names", output=tmp_path / "out")
    assert "unseen" not in made.errors
    assert "#SEEN_SERVICES" in json.dumps(made.json("metrics.json"))


def test_variants_of_its_schema(root, tmp_path):
    write(tmp_path / "variants/v1/schema.json", json.loads(json.dumps(schema()).replace("hotel-", "inn-")))
    assert not run("rewrite", sgd=root, variants=tmp_path / "variants", output=tmp_path / "out").dead_letters
    turn = dialogues_of(tmp_path / "out/v1/test")["MUL0006.json"]["turns"][BOOKING]
    assert turn["frames"][0]["slots"][-1] == copied("inn")
