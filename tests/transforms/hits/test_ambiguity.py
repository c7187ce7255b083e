import pytest

from parapet.schemas.errors import InputError
from parapet.schemas.service import Intent, Service, Slot, elements_of
from parapet.transforms.crowd.hits.schema_pages import ambiguous_elements, read_ambiguous

SLOTS = ["type", "where_to", "alarm_time", "new_alarm_time", "restaurant_name", "number_of_rooms", "pct", "city"]
SERVICE = Service("Services_3", "Finds doctors", [Slot(name, name) for name in SLOTS], [Intent("FindDoctor", "Finds")])
IDS = [element.id for element in elements_of(SERVICE, "descriptions")]


def test_none_marks_none_and_a_list_only_its_own():
    assert ambiguous_elements(SERVICE, "none") == set()
    assert ambiguous_elements(SERVICE, "FILE", frozenset({"Services_3/slot/city", "Other_1/slot/x"})) == {
        "Services_3/slot/city"
    }


def test_list_with_comments_and_byte_order_mark(tmp_path):
    path = tmp_path / "list.txt"
    path.write_bytes(b"\xef\xbb\xbf# mine\n\nServices_3/slot/city  # which city?\r\nServices_3/service\n")
    assert read_ambiguous(path, IDS) == {"Services_3/slot/city", "Services_3/service"}


def test_unknown_id_names_file_and_line(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("Services_3/slot/city\nServices_3/slot/town\n")
    with pytest.raises(InputError, match=r"list.txt: line 2: no element 'Services_3/slot/town'"):
        read_ambiguous(path, IDS)
