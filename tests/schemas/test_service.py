""""""

import copy

import pytest
from kit import cases, intent, lacking, raised, service, slot

from parapet.schemas.errors import InputError
from parapet.schemas.json_schemas import FOLDER, RECORDS, json_schema
from parapet.schemas.service import FIELD, parse_service

RAW = service(
    "Hotels_1",
    [slot("city", "Where"), slot("stars", "How good", "1", "2")],
    [intent("FindHotel", "Look for a hotel", "city", results=["city", "stars"], stars="dontcare")],
    "Find and book hotels",
)


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


def test_elements_compared_with_a_text_are_compared_by_name():
    one, other = parse_service(RAW), parse_service(changed(["description"], "Something else"))
    assert (one == "Hotels_1", one == "Hotels_2", one != "Hotels_1") == (True, False, False)
    assert ("city" in one.slots, "FindHotel" in one.intents, "Oslo" in one.slots) == (True, True, False)
    assert (one == parse_service(RAW), one != other, one.slots == other.slots) == (True, True, True)


def refusal(raw):
    caught = raised(InputError, parse_service, raw, "corpus/schema.json", "[4]")
    assert caught.path == "corpus/schema.json"
    return caught.where, caught.reason


@cases(
    "place value where reason",
    (
        ["slots", 1, "possible_values"],
        [],
        "slots[1].possible_values",
        "slot 'stars' is categorical, but has no possible",
    ),
    (["slots"], [RAW["slots"][0]] * 2, "slots[0].name", "'city' appears 2 times"),
    (["intents"], [RAW["intents"][0]] * 2, "intents[0].name", "'FindHotel' appears 2 times"),
    (["slots", 0, "name"], "  ", "slots[0].name", "the name is empty"),
    (["intents", 0, "name"], "  ", "intents[0].name", "the name is empty"),
)
def test_rules_of_a_service(place, value, where, reason):
    told_where, told_reason = refusal(changed(place, value))
    assert told_where == f"[4].{where}"
    assert told_reason.startswith(f"service 'Hotels_1': {reason}")


def test_a_slot_and_an_intent_may_share_a_name():
    service = parse_service(changed(["intents", 0, "name"], "city"))
    assert service.intents[0].name == service.slots[0].name == "city"


@pytest.mark.parametrize("raw", [None, 3, "Hotels_1", [], [RAW]])
def test_no_object_at_all(raw):
    where, reason = refusal(raw)
    assert where == "[4]"
    assert reason.startswith("Expected `object`")


def test_fields_of_forms():
    assert all(map(FIELD.fullmatch, ("intent_0", "slot_0", "slot_10", "slot_999999", "service")))
    others = ["slot", "slot_", "slot_01", "slot_-1", "slot_٣", "slot_1000000", "service_0", "Slot_1", "x"]
    assert not any(map(FIELD.fullmatch, ["", "slot_1\n", *others]))


# The published JSON Schemas are those of the records.


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_the_published_schema_is_that_of_the_record(name):
    assert (FOLDER / f"{name}.schema.json").read_bytes() == json_schema(name), (
        "run python -m parapet.schemas.json_schemas"
    )


def test_nothing_else_is_published():
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(f"{name}.schema.json" for name in RECORDS)


@cases("name", "../../x", "..", "a..b", "", "a/b", "a\\b", "-a", ".a", "a b", "a\n", "é", "a" * 101, "a:b")
def test_a_service_name_must_do_as_a_file_name(name):
    where, reason = refusal(changed(["service_name"], name))
    assert where == "[4].service_name"
    assert not lacking(reason, repr(name), "files are named after it")
