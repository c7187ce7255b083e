""""""

from parapet.schemas.service import Intent, Service, Slot
from parapet.transforms.crowd.hits.schema_pages import ambiguous_elements

SLOTS = ["type", "where_to", "alarm_time", "new_alarm_time", "restaurant_name", "number_of_rooms", "pct", "city"]


SERVICE = Service("Services_3", "Finds doctors", [Slot(name, name) for name in SLOTS], [Intent("FindDoctor", "Finds")])


def test_generic_short_and_contained_names_are_found():
    found = ambiguous_elements(SERVICE, "auto")
    assert found == {f"Services_3/slot/{name}" for name in ("type", "where_to", "alarm_time", "pct")} | {
        "Services_3/service"
    }
