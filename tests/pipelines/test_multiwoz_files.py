"""MultiWOZ 2.2 as its repository has it: one schema.json for all splits, dialogues with ids of turns and without acts.

The names and the dialogues are invented; the shape of the files is theirs.
"""

import json

import pytest
from kit import TWO_WORKERS, dialogues_of, files_of, refused, run, write

import parapet

SAID = "I want a cheap room at Larch House, with free parking."
AGAIN = "Please book that for Friday, and tell me the reference number."


def slot(name, description, *values, **more):
    values = {"possible_values": list(values)} if values else {}
    return {"name": name, "description": description, **values, "is_categorical": bool(values), **more}


def intent(name, description, booking=False, **optional):
    optional = {name.replace("_", "-"): value for name, value in optional.items()}
    slots = {"required_slots": [], "optional_slots": optional}
    return {"name": name, "description": description, "is_transactional": booking, **slots}


SCHEMA = [
    {
        "service_name": "hotel",
        "slots": [
            slot("hotel-pricerange", "price budget of the hotel", "expensive", "cheap", "moderate"),
            slot("hotel-parking", "whether the hotel has parking", "free", "no", "yes"),
            slot("hotel-bookday", "day of the hotel booking", "monday", "friday"),
            slot("hotel-name", "name of the hotel"),
            slot("hotel-ref", "reference number of the hotel booking"),
        ],
        "description": "hotel reservations and vacation stays",
        "intents": [
            intent("find_hotel", "search for a hotel to stay in", hotel_pricerange="dontcare"),
            intent("book_hotel", "book a hotel to stay in", booking=True, hotel_bookday="dontcare"),
        ],
    },
    {
        "service_name": "police",
        "slots": [slot("police-address", "address of the police station")],
        "description": "police station",
        "intents": [intent("find_police", "search for police station")],
    },
]


def frame(service, intent="NONE", requested=(), values=None, slots=()):
    state = {"active_intent": intent, "requested_slots": list(requested), "slot_values": values or {}}
    return {"service": service, "slots": list(slots), "state": state}


def dialogue(name):
    start = SAID.index("Larch")
    span = {"exclusive_end": start + 11, "slot": "hotel-name", "start": start, "value": "Larch House"}
    copied = {"copy_from": "hotel-name", "slot": "hotel-name", "value": ["larch house", "Larch House"]}
    names = {"hotel-name": ["larch house", "Larch House"], "hotel-pricerange": ["cheap"], "hotel-parking": ["yes"]}
    booked = {**names, "hotel-bookday": ["friday"]}
    said_by_system = {"exclusive_end": 11, "slot": "hotel-name", "start": 0, "value": "Larch House"}
    turns = [
        ("USER", SAID, [frame("hotel", "find_hotel", [], names, [span]), frame("police")]),
        ("SYSTEM", "Larch House is free. Which day?", [{"service": "hotel", "slots": [said_by_system]}]),
        ("USER", AGAIN, [frame("hotel", "book_hotel", ["hotel-ref"], booked, [copied]), frame("police")]),
        ("SYSTEM", "It is booked.", []),
        ("USER", "Thank you, that is all I needed.", [frame("hotel", "NONE", [], booked), frame("police")]),
        ("SYSTEM", "Goodbye!", []),
    ]
    keys = ("frames", "speaker", "turn_id", "utterance")
    made = [dict(zip(keys, (of, speaker, str(i), text), strict=True)) for i, (speaker, text, of) in enumerate(turns)]
    return {"dialogue_id": f"{name}.json", "services": ["hotel"], "turns": made}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("data") / "MultiWOZ_2.2"
    write(root / "schema.json", SCHEMA)
    acts = {"dialog_act": {"Hotel-Inform": [["name", "larch house"]]}}
    write(root / "dialog_acts.json", {"MULA.json": {"0": acts}})
    write(root / "README.md", "MultiWOZ 2.2")
    for split, names in {"train": "ABCD", "dev": "EF", "test": "GH"}.items():
        write(root / f"{split}/dialogues_001.json", json.dumps([dialogue(f"MUL{name}") for name in names], indent=4))
    return root


@pytest.mark.parametrize("kind", ["typos", "verbose", "simple", "paraphrase", "unseen_entities"])
def test_it_is_perturbed_and_keeps_its_shape(kind, root, tmp_path):
    made = run("perturb", kind, sgd=root, output=tmp_path / "out")
    assert not made.dead_letters
    assert "warning" not in made.errors
    folder = tmp_path / "out" if kind == "unseen_entities" else tmp_path / "out" / kind
    assert json.loads((folder / "schema.json").read_bytes()) == SCHEMA
    texts = 0
    for name, found in dialogues_of(folder / "test").items():
        for before, after in zip(dialogue(name.removesuffix(".json"))["turns"], found["turns"], strict=True):
            texts += before["utterance"] != after["utterance"]
            for span in (span for frame in after["frames"] for span in frame["slots"] if "start" in span):
                shown = after["utterance"][span["start"] : span["exclusive_end"]]
                assert (shown == "Larch House") == (kind != "unseen_entities")
            if kind != "unseen_entities":
                states = [[frame.get("state") for frame in one["frames"]] for one in (before, after)]
                assert states[0] == states[1]
            assert set(before) == set(after)
    assert texts


def test_splits_alone_and_together_on_one_or_two_workers(root, tmp_path):
    run("perturb", "typos", sgd=root, split="train,test", output=tmp_path / "one")
    run("perturb", "typos", *TWO_WORKERS, sgd=root, split="train,test", output=tmp_path / "two")
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    run("perturb", "typos", sgd=root / "test", output=tmp_path / "alone")
    path = tmp_path / "alone/typos/dialogues_001.json"
    assert path.read_bytes() == (tmp_path / "one/typos/test/dialogues_001.json").read_bytes()
    assert parapet.load_corpus(root).splits == ("train", "dev", "test")
    assert parapet.load_corpus(root / "test").services() == SCHEMA
    assert "MultiWOZ_2.2: give one of them" in refused("perturb", "typos", sgd=root.parent, output=tmp_path / "no")


def test_every_service_of_the_one_schema_counts_as_seen(root, tmp_path):
    made = run("evaluate", task="dst", reference=root, model="keywords", output=tmp_path / "out")
    assert "unseen" not in made.errors
    assert "#SEEN_SERVICES" in json.dumps(made.json("metrics.json"))


def test_variants_of_its_schema(root, tmp_path):
    write(tmp_path / "variants/v1/schema.json", json.loads(json.dumps(SCHEMA).replace("hotel-", "inn-")))
    assert not run("rewrite", sgd=root, variants=tmp_path / "variants", output=tmp_path / "out").dead_letters
    turn = dialogues_of(tmp_path / "out/v1/test")["MULG.json"]["turns"][2]
    copied = {"copy_from": "inn-name", "slot": "inn-name", "value": ["larch house", "Larch House"]}
    assert turn["frames"][0]["slots"][0] == copied
