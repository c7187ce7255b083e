import pytest

from parapet.schemas.service import FIELD, Element, Intent, Service, Slot, elements_of, response_id, task_id

SERVICE = Service(
    "Taxi_1",
    "Get a taxi",
    [
        Slot("to", "Where to"),
        Slot("kind", "Which car", True, ["big", "small"]),
        Slot("when", "What time", False, ["x"]),
    ],
    [Intent("GetTaxi", "Call one"), Intent("Cancel", "Send it away")],
)


def test_names_ask_for_intents_and_slots_in_the_order_of_the_schema():
    assert elements_of(SERVICE, "names") == [
        Element("Taxi_1/intent/GetTaxi", "intent_0", "intent", "GetTaxi", "Call one"),
        Element("Taxi_1/intent/Cancel", "intent_1", "intent", "Cancel", "Send it away"),
        Element("Taxi_1/slot/to", "slot_0", "slot", "to", "Where to"),
        Element("Taxi_1/slot/kind", "slot_1", "slot", "kind", "Which car", ("big", "small")),
        # Values of a slot that is not categorical are examples (MultiWOZ 2.2 has them), not what may be answered.
        Element("Taxi_1/slot/when", "slot_2", "slot", "when", "What time"),
    ]


def test_descriptions_ask_for_the_service_too():
    *others, last = elements_of(SERVICE, "descriptions")
    assert others == elements_of(SERVICE, "names")
    assert last == Element("Taxi_1/service", "service", "service", "Taxi_1", "Get a taxi")


def test_what_is_shown_and_what_is_asked():
    element = elements_of(SERVICE, "names")[2]
    assert (element.prompt("names"), element.text("names")) == ("Where to", "to")
    assert (element.prompt("descriptions"), element.text("descriptions")) == ("to", "Where to")


def test_ids():
    assert [task_id("Taxi_1", "names"), task_id("Taxi_1", "descriptions")] == ["Taxi_1:names", "Taxi_1:descriptions"]
    assert response_id("3XYZ", "slot_3") == "3XYZ:slot_3"


@pytest.mark.parametrize("field", ["intent_0", "slot_0", "slot_10", "slot_999999", "service"])
def test_fields_of_ours(field):
    assert FIELD.fullmatch(field)


@pytest.mark.parametrize(
    "field",
    ["", "slot", "slot_", "slot_01", "slot_-1", "slot_٣", "slot_1000000", "service_0", "Slot_1", "slot_1\n", "x"],
)
def test_fields_of_others(field):
    assert not FIELD.fullmatch(field)
