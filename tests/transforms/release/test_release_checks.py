"""What must hold in a dialogue of a release."""

import copy
import json

import msgspec
import pytest

from parapet.schemas import layout
from parapet.schemas.dialogue import Dialogue
from parapet.transforms.release.plan import dialogue_faults


@pytest.fixture
def services(sample):
    return layout.services_by_name(layout.read_root(sample))


@pytest.fixture
def dialogue(sample):
    """One with a span in the first turn that has any."""
    return copy.deepcopy(json.loads((sample / "train" / "dialogues_001.json").read_bytes())[0])


def first_span(dialogue):
    """Its place, the turn, the span."""
    for t, turn in enumerate(dialogue["turns"]):
        for f, frame in enumerate(turn["frames"]):
            if frame["slots"]:
                return f"turns[{t}].frames[{f}].slots[0]", turn, frame["slots"][0]
    raise AssertionError("no span")


def faults(dialogue, services):
    found = dialogue_faults(msgspec.convert(dialogue, Dialogue), services, "x.json")
    return [(fault.kind, fault.where, fault.reason) for fault in found]


def test_a_span_that_is_off_by_one(dialogue, services):
    where, turn, span = first_span(dialogue)
    span["start"] -= 1
    text = turn["utterance"][span["start"] : span["exclusive_end"]]
    assert faults(dialogue, services) == [("span_value", where, f"{text!r} is not a value of its slot")]


def test_a_span_outside(dialogue, services):
    where, turn, span = first_span(dialogue)
    span["exclusive_end"] = len(turn["utterance"]) + 1
    reason = f"span {span['start']}-{span['exclusive_end']} is not inside the utterance"
    assert ("span", where, reason) in faults(dialogue, services)


def test_a_frame_without_values_says_nothing_of_its_spans(dialogue, services):
    _, _, span = first_span(dialogue)
    for turn in dialogue["turns"]:
        for frame in turn["frames"]:
            for key in ("actions", "state"):
                frame.pop(key, None)
    span["start"] -= 1
    assert faults(dialogue, services) == []
