"""Where names stand in a dialogue, and what stands there under others."""

import copy
import json

import kit
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised
from variant_corpora import BUS, NAMES, SERVICES, TAXI, changed

from benchmarks.rewrite_reference import rename
from parapet.schemas.dialogue import Dialogue, problems_of
from parapet.schemas.errors import InputError
from parapet.transforms.variants.matching import Names, Variant, known_names
from parapet.transforms.variants.perturbation import Places

KNOWN = known_names(SERVICES.values())


def written(dialogue, names=NAMES):
    return rename_to(Places(copy.deepcopy(dialogue), KNOWN), names)


def rename_to(places, names):
    return places.rename(Variant("v1", names, {}))


def test_a_slot_is_copied_from_another_service():
    way = ["turns", 1, "frames", 1, "slots", 0, "copy_from"]
    assert written(changed(way, "from"))["turns"][1]["frames"][1]["slots"][0]["copy_from"] == "to"
    with pytest.raises(InputError, match="copy_from 'gone': none of the dialogue's services has it"):
        Places(changed(way, "gone"), KNOWN)


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
        call = {"method": intent, "parameters": record(service, words)}
        optional = {
            "actions": st.lists(action, max_size=3),
            "state": st.fixed_dictionaries(state),
            "service_call": st.fixed_dictionaries(call),
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
    for service in (TAXI, BUS):
        olds = [[intent.name for intent in service.intents], [slot.name for slot in service.slots]]
        news = []
        for names in olds:
            fresh = dict.fromkeys((*names, "x", "y", "to_2", "GetTaxi", "intent", "count"))
            chosen = draw(st.permutations(list(fresh)))[: len(names)]
            news.append(dict(zip(names, chosen, strict=False)) | dict.fromkeys(names[len(chosen) :], "last"))
        found[service.service_name] = Names(f"{service.service_name}9", *news)
    return found


@given(dialogues(), renamings())
def test_as_a_plain_reference_and_back_again(dialogue, names):
    original, expected = json.dumps(dialogue), copy.deepcopy(dialogue)
    rename(expected, {old: (new.service, new.slots, new.intents) for old, new in names.items()})
    rename_to(Places(dialogue, KNOWN), names)
    assert dialogue == expected
    back = {
        new.service: Names(old, {b: a for a, b in new.intents.items()}, {b: a for a, b in new.slots.items()})
        for old, new in names.items()
    }
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


def test_an_intent_that_no_schema_has_stays():
    dialogue = changed(["turns", 0, "frames", 0, "state", "active_intent"], "find_taxi")
    assert written(dialogue)["turns"][0]["frames"][0]["state"]["active_intent"] == "find_taxi"
