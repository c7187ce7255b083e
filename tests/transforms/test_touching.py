"""What a dialogue touches: not what it lists, nor what persists in idle frames."""

import json

import kit
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import frame, state, turn
from multiwoz_corpus import DOMAINS, dialogue

from parapet.schemas.dialogue import Dialogue
from parapet.schemas.errors import InputError
from parapet.schemas.service import Service
from parapet.transforms.perturb import corpora
from parapet.transforms.perturb.corpora import services_in_turns

SERVICES = {name: Service(name, "", [], []) for name in ("A_1", "B_1", "C")}


def idle(name):
    return frame(name, state=state())


def typed(services, *turns):
    raw = kit.dialogue("1", *(turn("SYSTEM" if i % 2 else "USER", "Hm.", *frames) for i, frames in enumerate(turns)))
    raw["services"] = services
    return raw, msgspec.convert(raw, Dialogue)


def test_the_list_of_a_dialogue_counts_only_where_it_has_no_frame():
    assert corpora.touched_services(typed(["B_1", "A_1"], [idle("A_1")])[1]) == ()
    assert corpora.touched_services(typed(["B_1", "A_1"], [], [])[1]) == ("A_1", "B_1")


def test_touched_and_idle_and_without():
    call = {"method": "FindB_1", "parameters": {}}
    raw, found = typed(["A_1", "B_1"], [idle("A_1"), idle("C")], [frame("B_1", service_call=call)])
    assert corpora.touched_services(found) == ("B_1",)
    assert corpora.services_in(found, SERVICES) == ["A_1", "B_1", "C"]
    cut = corpora.without(raw, ("A_1",))
    assert [[one["service"] for one in turn["frames"]] for turn in cut["turns"]] == [["C"], ["B_1"]]
    assert (cut["services"], len(raw["turns"][0]["frames"]), raw["services"]) == (["B_1"], 2, ["A_1", "B_1"])
    for services, frames in ((["Z_1"], [idle("A_1")]), (["A_1"], [idle("Z_1")])):
        with pytest.raises(InputError, match="unknown_service: 'Z_1' is not in the split's schema"):
            corpora.services_in(typed(services, frames)[1], SERVICES)


@given(st.integers(0, 99), st.lists(st.sampled_from(DOMAINS), min_size=1, unique=True), st.booleans())
def test_dialogues_shaped_as_multiwoz(number, domains, lists_all):
    """Whether intents persist or not, each turn touches what it was made to be about, and the closing nothing."""
    found = msgspec.convert(dialogue(number, domains, lists_all=lists_all), Dialogue)
    assert corpora.touched_services(found) == corpora.domains_of(found) == tuple(sorted(domains))
    per_turn = corpora.touched_in_turns(found)
    assert (per_turn[-2:], corpora.services_in_turns(found)[-1]) == ([(), ()], (domains[-1],))
    user = [services for turn, services in zip(found.turns, per_turn, strict=True) if turn.speaker == "USER"][:-1]
    assert list(dict.fromkeys(user)) == [(domain,) for domain in domains]


def test_of_sgd_every_frame_and_all_that_is_listed(sample, real_data):
    paths = sorted([*real_data.glob("sgd/dev/dialogues_*.json"), *sample.glob("*/dialogues_*.json")])
    assert len(paths) > 4
    for path in paths:
        for raw in json.loads(path.read_bytes()):
            found = msgspec.convert(raw, Dialogue)
            of_frames = [tuple(dict.fromkeys(frame.service for frame in turn.frames)) for turn in found.turns]
            assert corpora.touched_in_turns(found) == of_frames
            assert corpora.touched_services(found) == tuple(sorted(found.services))


def test_what_a_turn_speaks_of_when_it_touches_nothing():
    _, found = typed(["A_1"], [idle("A_1")], [], [frame("B_1", state=state("Find"))], [frame("A_1")], [])
    assert services_in_turns(found) == [("B_1",)] * 5
    _, nothing = typed(["A_1"], [idle("B_1"), idle("C")], [])
    assert services_in_turns(nothing) == [("B_1", "C"), ("A_1",)]
