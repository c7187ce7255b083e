import copy

import pytest

from parapet.schemas.errors import InputError
from parapet.schemas.service import Intent, Service, Slot, parse_service, variant_service_name

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


def test_a_service_is_typed():
    assert parse_service(RAW) == Service(
        "Hotels_1",
        "Find and book hotels",
        [Slot("city", "Where"), Slot("stars", "How good", True, ["1", "2"])],
        [Intent("FindHotel", "Look for a hotel", False, ["city"], {"stars": "dontcare"}, ["city", "stars"])],
    )


@pytest.mark.parametrize(
    "name", ["../../x", "..", "a..b", "", "a/b", "a\\b", "-a", ".a", "a b", "a\n", "é", "a" * 101, "a:b"]
)
def test_a_service_name_must_do_as_a_file_name(name):
    where, reason = refusal(changed(["service_name"], name))
    assert where == "[4].service_name"
    assert repr(name) in reason
    assert "it names files" in reason


@pytest.mark.parametrize(
    ("key", "value"),
    [("required_slots", ["city", "price"]), ("optional_slots", {"price": "1"}), ("result_slots", ["price"])],
)
def test_a_reference_to_a_slot_that_lacks(key, value):
    where, reason = refusal(changed(["intents", 0, key], value))
    assert where == f"[4].intents[0].{key}"
    assert reason == "service 'Hotels_1': intent 'FindHotel' refers to slot 'price', which the service lacks"


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


@pytest.mark.parametrize(
    ("path", "value", "where", "reason"),
    [
        (["slots"], None, "[4]", "missing required field `slots`"),
        (["slots", 0, "name"], 7, "[4].slots[0].name", "Expected `str`, got `int`"),
        (["slots", 1, "possible_values"], "1, 2", "[4].slots[1].possible_values", "Expected `array`, got `str`"),
        (["intents", 0, "is_transactional"], "no", "[4].intents[0].is_transactional", "Expected `bool`, got `str`"),
        (["intents", 0, "optional_slots"], ["stars"], "[4].intents[0].optional_slots", "Expected `object`"),
    ],
)
def test_a_wrong_type_is_told_with_its_place(path, value, where, reason):
    found = refusal(changed(path, value))
    assert found[0] == where
    assert reason in found[1]


@pytest.mark.parametrize("raw", [None, 3, "Hotels_1", [], [RAW]])
def test_no_object_at_all(raw):
    where, reason = refusal(raw)
    assert where == "[4]"
    assert reason.startswith("Expected `object`")


def test_variant_service_names():
    assert [variant_service_name("Hotels_1", k) for k in (1, 5, "_bt")] == ["Hotels_11", "Hotels_15", "Hotels_1_bt"]
