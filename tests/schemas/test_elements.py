import pytest

from parapet.schemas.service import FIELD


@pytest.mark.parametrize("field", ["intent_0", "slot_0", "slot_10", "slot_999999", "service"])
def test_fields_of_ours(field):
    assert FIELD.fullmatch(field)


@pytest.mark.parametrize(
    "field",
    ["", "slot", "slot_", "slot_01", "slot_-1", "slot_٣", "slot_1000000", "service_0", "Slot_1", "slot_1\n", "x"],
)
def test_fields_of_others(field):
    assert not FIELD.fullmatch(field)
