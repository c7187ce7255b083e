""""""

from parapet.schemas.service import Intent, Service, Slot
from parapet.transforms.crowd.hits.schema_pages import ambiguous_elements, read_ambiguous

SLOTS = ["type", "where_to", "alarm_time", "new_alarm_time", "restaurant_name", "number_of_rooms", "pct", "city"]


SERVICE = Service("Services_3", "Finds doctors", [Slot(name, name) for name in SLOTS], [Intent("FindDoctor", "Finds")])


def test_generic_short_and_contained_names_are_found():
    found = ambiguous_elements(SERVICE, "auto")
    assert found == {f"Services_3/slot/{name}" for name in ("type", "where_to", "alarm_time", "pct")} | {
        "Services_3/service"
    }


def test_a_hash_in_a_name_is_not_a_comment(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("A_1/slot/#rooms\n")
    assert read_ambiguous(path, ["A_1/slot/#rooms"]) == {"A_1/slot/#rooms"}
