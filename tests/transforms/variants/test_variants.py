"""Variants found, services matched, dialogue files listed."""

import copy
import json

import kit
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised, write

from benchmarks.rewrite_reference import rename
from parapet.schemas.dialogue import Dialogue, problems_of
from parapet.schemas.errors import InputError
from parapet.schemas.layout import read_root, read_schema_file
from parapet.schemas.service import Intent, Service, Slot, elements_of
from parapet.transforms.variants import matching
from parapet.transforms.variants.perturbation import Places

TAXI = Service(
    "Taxi_1",
    "Rides",
    [Slot("to", "Where to"), Slot("from", "Where from"), Slot("intent", "What for"), Slot("shared", "", True, ["yes"])],
    [Intent("GetTaxi", "Get one"), Intent("FindTaxi", "Look for one")],
)
BUS = Service("Bus_1", "Buses", [Slot("to", "Where to"), Slot("count", "How many")], [Intent("GetBus", "Buy a ticket")])
SERVICES = {service.service_name: service for service in (TAXI, BUS)}

# to and from swap; so do the intents.
TAXI_NAMES = matching.Names(
    "Taxi_11",
    {"GetTaxi": "FindTaxi", "FindTaxi": "GetTaxi"},
    {"to": "from", "from": "to", "intent": "purpose", "shared": "pooled"},
)
BUS_NAMES = matching.Names("Bus_11", {"GetBus": "BuySeat"}, {"to": "goal", "count": "seats"})
NAMES = {"Taxi_1": TAXI_NAMES, "Bus_1": BUS_NAMES}


def renamed(service, names):
    raw = msgspec.to_builtins(service)
    raw["service_name"] = names.service
    for kind, new in (("slots", names.slots), ("intents", names.intents)):
        for element in raw[kind]:
            element["name"] = new[element["name"]]
    return raw


VARIANT = [renamed(TAXI, TAXI_NAMES), renamed(BUS, BUS_NAMES)]


@pytest.fixture
def corpus(tmp_path):
    """Both services in train, one in test; v1 of both, v2 and v10 empty but for their schemas."""
    for split, n in (("train", 2), ("test", 1)):
        write(tmp_path / "sgd" / split / "schema.json", msgspec.to_builtins([TAXI, BUS])[:n])
        write(tmp_path / "sgd" / split / "dialogues_001.json", [])
        for variant in ("v1", "v2", "v10"):
            write(tmp_path / "variants" / variant / split / "schema.json", VARIANT[:n])
    write(tmp_path / "variants" / ".hidden" / "v1" / "schema.json", [])
    (tmp_path / "variants" / "notes").mkdir()
    return tmp_path


def matches(corpus, *wanted):
    return matching.match_folders(matching.find_variants(corpus / "variants", wanted), read_root(corpus / "sgd"))


def problems(corpus, *wanted):
    return [line for matched in matches(corpus, *wanted).values() for line in matched.problems]


def test_variants_in_natural_order_all_or_those_wanted(corpus):
    variants = corpus / "variants"
    assert list(matching.find_variants(variants)) == ["v1", "v2", "v10"]
    assert list(matching.find_variants(variants, ["v10", "v1"])) == ["v1", "v10"]
    assert matching.find_variants(variants / "v2") == {"v2": variants / "v2"}
    raised(InputError, matching.find_variants, variants / "notes", [], match="contains no variants")
    raised(InputError, matching.find_variants, corpus / "none", [], match="there is no such folder")


def test_all_mismatches_are_listed_with_their_files(corpus):
    variants = corpus / "variants"
    bad = copy.deepcopy(VARIANT)
    bad[0]["slots"].pop()
    write(variants / "v1/train/schema.json", bad)
    write(variants / "v2/train/schema.json", VARIANT[:1])
    (variants / "v10/test/schema.json").unlink()
    assert problems(corpus) == [
        # v1 has it two ways: neither can be chosen.
        f"{variants}/v1: train/schema.json: service 'Taxi_1': the variant's service 'Taxi_11' is invalid: "
        f"service 'Taxi_11' differs from the one in {variants}/v1/test/schema.json",
        f"{variants}/v1: test/schema.json: service 'Taxi_1': the variant's service 'Taxi_11' is invalid: "
        f"service 'Taxi_11' differs from the one in {variants}/v1/train/schema.json",
        f"{variants}/v2: train/schema.json: service 'Bus_1': the variant has no service 'Bus_11'",
        f"{variants}/v10: test/schema.json: the variant has no such split, only train/schema.json",
    ]
    of_variants = matches(corpus)
    v1, v2, v10 = (matched.splits["train"] for matched in of_variants.values())
    assert (list(v1.names), list(v2.names), list(v10.names)) == (["Bus_1"], ["Taxi_1"], ["Taxi_1", "Bus_1"])
    assert of_variants["v10"].splits["test"].bad == {"Taxi_1": "the variant has no such split, only train/schema.json"}


@cases(
    "change reason",
    (lambda raw: raw["slots"].pop(), "has 3 slots, the original 4"),
    (lambda raw: raw["intents"].append({**raw["intents"][0], "name": "New"}), "has 3 intents, the original 2"),
    (lambda of: of["slots"][1].update(name="from"), "the variant's service 'Taxi_11' is invalid: [0].slots[0].name: "),
    (lambda raw: raw["slots"].reverse(), "'to' is not categorical, but 'pooled' in the variant is categorical"),
    (lambda raw: raw.update(service_name="../../Taxi_11"), "the variant has no service 'Taxi_11'"),
    (lambda raw: raw.update(service_name="Bus_11"), "the variant has no service 'Taxi_11'"),
)
def test_a_service_that_does_not_match(corpus, change, reason):
    bad = copy.deepcopy(VARIANT)
    change(bad[0])
    for split, n in (("train", 2), ("test", 1)):
        write(corpus / "variants/v1" / split / "schema.json", bad[:n])
    if "../" in bad[0]["service_name"]:
        write(corpus / "variants/v1/test/schema.json", VARIANT[:1])
    assert reason in "\n".join(problems(corpus, "v1"))


KNOWN = matching.known_names(SERVICES.values())


def written(dialogue, names=NAMES):
    return rename_to(Places(copy.deepcopy(dialogue), KNOWN), names)


def rename_to(places, names):
    return places.rename(matching.Variant("v1", names, {}))


def test_a_slot_is_copied_from_another_service():
    def copying(name):
        spans = [{"slot": "to", "copy_from": name, "value": ["from"]}]
        frames = kit.frame("Taxi_1"), kit.frame("Bus_1", slots=spans)
        return kit.dialogue("1", *(kit.turn("USER", "", frame) for frame in frames))

    assert written(copying("from"))["turns"][1]["frames"][0]["slots"][0]["copy_from"] == "to"
    raised(InputError, Places, copying("gone"), KNOWN, match="copy_from 'gone': none of the dialogue's services has it")


@cases(
    "service act slot new values",
    ("Taxi_1", "INFORM", "intent", "purpose", ["GetTaxi"]),  # as Homes_2 of SGD has it
    ("Taxi_1", "REQUEST", "intent", "purpose", ["GetTaxi"]),
    ("Taxi_1", "INFORM_INTENT", "intent", "intent", ["FindTaxi"]),
    ("Taxi_1", "OFFER_INTENT", "intent", "intent", ["FindTaxi"]),
    ("Taxi_1", "INFORM", "count", "count", ["GetTaxi"]),  # names nothing here
    ("Bus_1", "CONFIRM", "count", "seats", ["GetTaxi"]),
    ("Bus_1", "INFORM_COUNT", "count", "count", ["GetTaxi"]),
    ("Bus_1", "INFORM", "intent", "intent", ["GetTaxi"]),
)
def test_a_word_marks_in_its_own_acts_and_is_a_slot_in_others(service, act, slot, new, values):
    raw = kit.dialogue("1", kit.turn("USER", "", kit.frame(service, kit.act(act, slot, "GetTaxi"))))
    assert written(raw)["turns"][0]["frames"][0]["actions"] == [kit.act(act, new, *values)]
    assert list(problems_of(msgspec.convert(raw, Dialogue), SERVICES)) == []


def test_lists_of_slot_names_under_other_keys_are_renamed():
    frame = kit.frame("Taxi_1", offered_slots=["to", "from"], tags=["to", "new"], notes={"to": "x"}, empty=[])
    frame["state"] = {**kit.state(), "offered_slots": ["shared"], "words": ["from here"]}
    (renamed,) = written(kit.dialogue("1", kit.turn("USER", "", frame)))["turns"][0]["frames"]
    assert (renamed["offered_slots"], renamed["notes"]) == (["from", "to"], {"from": "x"})
    assert (renamed["tags"], renamed["empty"]) == (["to", "new"], [])
    assert (renamed["state"]["offered_slots"], renamed["state"]["words"]) == (["pooled"], ["from here"])


@st.composite
def dialogues(draw):
    words = st.sampled_from(["to", "from", "intent", "goal", "GetTaxi", "x", "é\x7f\u2028", "Taxi_1"])
    values = st.lists(words, max_size=2)

    def record(service, of):
        return st.dictionaries(st.sampled_from([slot.name for slot in service.slots]), of, max_size=4)

    def frame(service):
        slot = st.sampled_from([slot.name for slot in service.slots])
        intent = st.sampled_from([intent.name for intent in service.intents])
        intents = st.lists(intent, max_size=2)
        marking = st.sampled_from(["INFORM_INTENT", "OFFER_INTENT"])
        offered = {"act": marking, "slot": st.just("intent"), "values": intents, "canonical_values": intents}
        action = st.one_of(
            st.fixed_dictionaries({"act": st.just("INFORM"), "slot": slot | st.just(""), "values": values}),
            st.fixed_dictionaries(offered),
            st.just({"act": "INFORM_COUNT", "slot": "count", "values": ["2"]}),
        )
        state = {
            "active_intent": intent | st.just("NONE"),
            "requested_slots": st.lists(slot, max_size=3),
            "slot_values": record(service, values),
        }
        optional = {
            "actions": st.lists(action, max_size=3),
            "state": st.fixed_dictionaries(state),
            "service_call": st.fixed_dictionaries({"method": intent, "parameters": record(service, words)}),
            "service_results": st.lists(record(service, words), max_size=3),
        }
        spans = st.lists(st.fixed_dictionaries({"slot": slot, "start": st.integers(0, 9)}), max_size=2)
        return st.fixed_dictionaries({"service": st.just(service.service_name), "slots": spans}, optional=optional)

    frames = st.lists(st.sampled_from([TAXI, BUS]).flatmap(frame), max_size=2)
    turns = st.lists(st.fixed_dictionaries({"frames": frames, "utterance": words}), max_size=3)
    return {"dialogue_id": draw(words), "services": draw(st.just([]) | st.just(["Bus_1"])), "turns": draw(turns)}


@st.composite
def renamings(draw):
    """New names for everything: old ones passed round, fresh ones, and words that mark in some acts."""
    found = {}
    for of in (TAXI, BUS):
        olds = [[intent.name for intent in of.intents], [slot.name for slot in of.slots]]
        news = []
        for names in olds:
            fresh = dict.fromkeys((*names, "x", "y", "to_2", "GetTaxi", "intent", "count"))
            chosen = draw(st.permutations(list(fresh)))[: len(names)]
            news.append(dict(zip(names, chosen, strict=False)) | dict.fromkeys(names[len(chosen) :], "last"))
        found[of.service_name] = matching.Names(f"{of.service_name}9", *news)
    return found


@given(dialogues(), renamings())
def test_as_a_plain_reference_and_back_again(dialogue, names):
    original, expected = json.dumps(dialogue), copy.deepcopy(dialogue)
    rename(expected, {old: (new.service, new.slots, new.intents) for old, new in names.items()})
    rename_to(Places(dialogue, KNOWN), names)
    assert dialogue == expected

    def turned(renamed):
        return {new: old for old, new in renamed.items()}

    back = {new.service: matching.Names(old, turned(new.intents), turned(new.slots)) for old, new in names.items()}
    known = {new: (frozenset(names.slots), frozenset(names.intents)) for new, names in back.items()}
    rename_to(Places(dialogue, known), back)
    assert dialogue == json.loads(original)


@given(dialogues(), st.randoms(use_true_random=False), st.sampled_from([None, 1, "x", [], {}, ["x"], {"x": 1}, [[]]]))
def test_whatever_stands_there_is_taken_or_told(dialogue, random, value):
    """No other exception, and what is taken can be written."""
    at = dialogue
    while True:
        keys = list(at) if isinstance(at, dict) else range(len(at))
        if not keys:
            break
        key = random.choice(list(keys))
        if not isinstance(at[key], dict | list) or random.random() < 0.2:
            at[key] = copy.deepcopy(value)
            break
        at = at[key]
    try:
        places = Places(dialogue, KNOWN)
    except InputError:
        return
    rename_to(places, NAMES)


@cases("dialogue", None, 1, "turns", [], {}, {"services": []}, {"services": [[]], "turns": []})
def test_what_is_no_dialogue(dialogue):
    raised(InputError, Places, dialogue, KNOWN, match="not_sgd")


def own_texts(service):
    elements = elements_of(service, "descriptions")
    return {e.field: e.name for e in elements if e.kind != "service"}, {e.field: e.description for e in elements}


def test_published_variants_come_out_of_their_own_texts(real_data):
    """Given the published names and descriptions, the published files come out."""
    checked = 0
    for split in ("train", "dev"):
        originals = read_schema_file(real_data / f"sgd/{split}/schema.json", split).raw
        for k in range(1, 6):
            published = read_schema_file(real_data / f"sgd/sgd_x/data/v{k}/{split}/schema.json", split)
            for raw, other, typed in zip(originals, published.raw, published.services, strict=True):
                assert matching.compose_variant(raw, k, *own_texts(typed)) == other
                checked += 1
    assert checked


def test_lists_of_slot_names_under_other_keys_of_a_schema_are_renamed():
    """As ``offered_slots``, which some corpora have; other lists stay."""
    slots = [{**kit.slot("to"), "depends_on": ["fare"], "possible_values": ["to"]}, kit.slot("fare")]
    intents = [{**kit.intent("GetTaxi"), "offered_slots": ["fare", "to"], "hints": {"to": "A place"}}]
    raw = {**kit.service("Taxi_1", slots, intents), "key_slots": ["to"], "tags": ["to", "ride"]}
    names = {"slot_0": "fare", "slot_1": "price", "intent_0": "OrderCab"}
    variant = matching.compose_variant(raw, 3, names, dict.fromkeys((*names, "service"), "Another text"))
    assert (variant["key_slots"], variant["tags"]) == (["fare"], ["to", "ride"])
    assert variant["intents"][0]["offered_slots"] == ["price", "fare"]
    assert variant["intents"][0]["hints"] == {"fare": "A place"}
    assert (variant["slots"][0]["depends_on"], variant["slots"][0]["possible_values"]) == (["price"], ["to"])
