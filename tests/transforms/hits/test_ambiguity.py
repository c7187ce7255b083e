import pytest

from parapet.schemas.errors import InputError
from parapet.schemas.service import Intent, Service, Slot, elements_of
from parapet.transforms.crowd.hits.schema_pages import ambiguous_elements, read_ambiguous

SLOTS = ["type", "where_to", "alarm_time", "new_alarm_time", "restaurant_name", "number_of_rooms", "pct", "city"]
SERVICE = Service("Services_3", "Finds doctors", [Slot(name, name) for name in SLOTS], [Intent("FindDoctor", "Finds")])
IDS = [element.id for element in elements_of(SERVICE, "descriptions")]


def test_generic_short_and_contained_names_are_found():
    found = ambiguous_elements(SERVICE, "auto")
    assert found == {f"Services_3/slot/{name}" for name in ("type", "where_to", "alarm_time", "pct")} | {
        "Services_3/service"
    }


def test_none_marks_none_and_a_list_only_its_own():
    assert ambiguous_elements(SERVICE, "none") == set()
    assert ambiguous_elements(SERVICE, "FILE", frozenset({"Services_3/slot/city", "Other_1/slot/x"})) == {
        "Services_3/slot/city"
    }


def test_list_with_comments_and_byte_order_mark(tmp_path):
    path = tmp_path / "list.txt"
    path.write_bytes(b"\xef\xbb\xbf# mine\n\nServices_3/slot/city  # which city?\r\nServices_3/service\n")
    assert read_ambiguous(path, IDS) == {"Services_3/slot/city", "Services_3/service"}


def test_a_hash_in_a_name_is_not_a_comment(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("A_1/slot/#rooms\n")
    assert read_ambiguous(path, ["A_1/slot/#rooms"]) == {"A_1/slot/#rooms"}


def test_unknown_id_names_file_and_line(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("Services_3/slot/city\nServices_3/slot/town\n")
    with pytest.raises(InputError, match=r"list.txt: line 2: no element 'Services_3/slot/town'"):
        read_ambiguous(path, IDS)


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_unreadable_list_is_an_input_error(tmp_path, content):
    path = tmp_path / "list.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"list\.txt"):
        read_ambiguous(path, IDS)
