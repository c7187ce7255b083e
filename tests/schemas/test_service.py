import copy

import pytest

from parapet.schemas.errors import InputError
from parapet.schemas.service import parse_service

RAW = {
    "service_name": "Hotels_1",
    "description": "Find and book hotels",
    "slots": [
        {"name": "city", "description": "Where", "is_categorical": False, "possible_values": []},
        {"name": "stars", "description": "How good", "is_categorical": True, "possible_values": ["1", "2"]},
    ],
    "intents": [
        {
            "name": "FindHotel",
            "description": "Look for a hotel",
            "is_transactional": False,
            "required_slots": ["city"],
            "optional_slots": {"stars": "dontcare"},
            "result_slots": ["city", "stars"],
        }
    ],
}


def changed(path, value):
    """RAW with one place set, or taken out where the value is None."""
    raw = copy.deepcopy(RAW)
    *way, last = path
    at = raw
    for step in way:
        at = at[step]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return raw


def refusal(raw):
    with pytest.raises(InputError) as caught:
        parse_service(raw, "corpus/schema.json", "[4]")
    assert caught.value.path == "corpus/schema.json"
    return caught.value.where, caught.value.reason


def test_categorical_without_values():
    where, reason = refusal(changed(["slots", 1, "possible_values"], []))
    assert where == "[4].slots[1].possible_values"
    assert reason == "service 'Hotels_1': slot 'stars' is categorical and has no possible values"


@pytest.mark.parametrize("kind", ["slots", "intents"])
def test_one_name_twice(kind):
    raw = copy.deepcopy(RAW)
    raw[kind].append(raw[kind][0])
    where, reason = refusal(raw)
    assert where == f"[4].{kind}[0].name"
    assert f"{RAW[kind][0]['name']!r} stands 2 times" in reason


@pytest.mark.parametrize("kind", ["slots", "intents"])
def test_an_empty_name(kind):
    where, reason = refusal(changed([kind, 0, "name"], "  "))
    assert (where, reason) == (f"[4].{kind}[0].name", "service 'Hotels_1': the name is empty")


def test_a_slot_and_an_intent_may_share_a_name():
    service = parse_service(changed(["intents", 0, "name"], "city"))
    assert service.intents[0].name == service.slots[0].name == "city"


@pytest.mark.parametrize("raw", [None, 3, "Hotels_1", [], [RAW]])
def test_no_object_at_all(raw):
    where, reason = refusal(raw)
    assert where == "[4]"
    assert reason.startswith("Expected `object`")
