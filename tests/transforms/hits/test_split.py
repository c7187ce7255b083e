import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parapet.transforms.crowd.hits.page import split


@settings(deadline=None)  # other tests may hold the machine
@given(st.lists(st.integers(1, 100)), st.integers(100, 300))
def test_all_items_in_order_none_over_capacity_no_part_too_many(sizes, capacity):
    runs = split(sizes, capacity)
    assert [i for run in runs for i in run] == list(range(len(sizes)))
    assert all(0 < sum(sizes[i] for i in run) <= capacity for run in runs)
    # Two neighbours that fit together would mean twice too many.
    assert len(runs) <= 2 * (sum(sizes) // capacity) + 1


def test_an_item_over_capacity_is_an_error():
    with pytest.raises(ValueError, match="larger"):
        split([5, 11], 10)
