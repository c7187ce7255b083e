"""Services as corruptions: names unique and nobody else's, every reference renamed, each text accounted for."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import intent, service, slot

from parapet.schemas.service import parse_service
from parapet.transforms.reports.text import Convention, Conventions
from parapet.transforms.splits.augment.plan import OPERATIONS, REASONS, Corruption, Rates, corrupted, vocabulary_of
from parapet.transforms.variants.matching import by_position


def service_of(slots, intents):
    optional = dict.fromkeys(slots[1:], "dontcare")
    made = [intent(name, "", *slots[:1], transactional=True, results=slots, **optional) for name in intents]
    return service("Shop_1", [slot(name, f"The {name}") for name in slots], made, "Sells things")


def corruption_of(raw, operation, rates, seed="0"):
    conventions = Conventions()
    return Corruption(operation, rates, seed, vocabulary_of([parse_service(raw)], conventions), conventions)


SLOTS = st.lists(
    st.lists(st.sampled_from(["a", "b", "c", "count"]), min_size=1, max_size=3).map("_".join),
    min_size=1,
    max_size=12,
    unique=True,
)


@settings(deadline=None)
@given(SLOTS, st.sampled_from(OPERATIONS), st.floats(0, 1), st.floats(0, 1), st.text(max_size=3))
def test_names_are_unique_and_no_other_original(slots, operation, replace, order, seed):
    """Few words, so that nearly everything collides."""
    raw = service_of(slots, ["GetA", "GetB", "BGet", "AGetB"])
    found, changes = corrupted(raw, corruption_of(raw, operation, Rates(replace, order), seed))
    typed = parse_service(found)
    names = by_position(parse_service(raw), typed)
    for renamed in (names.slots, names.intents):
        assert len(set(renamed.values())) == len(renamed)
        assert all(new == old or new not in renamed for old, new in renamed.items())
    assert not [new for old, new in names.slots.items() if new in ("intent", "count") and new != old]
    assert typed.service_name == f"Shop_1{operation}"
    assert all((change.emitted == change.original) == bool(change.reason) for change in changes)
    assert {change.reason for change in changes} <= {"", *REASONS}
    assert len(changes) == 2 * (len(slots) + 4) + 1


def test_a_collision_is_drawn_anew():
    """Three words have two orders in which none stays: where one is taken, the other is found."""
    raw = service_of(["a_b_c", "b_c_a"], ["Get"])
    for seed in map(str, range(10)):
        found, _ = corrupted(raw, corruption_of(raw, "order", Rates(1, 1), seed))
        assert found["slots"][0]["name"] == "c_a_b"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_names_keep_the_convention(operation):
    raw = service_of(["hotel-price_range", "hotel-stay_long", "hotel-area_code"], ["find_hotel", "book_hotel_room"])
    conventions = Conventions(Convention.DOMAIN_SLOT, Convention.SNAKE)
    vocabulary = vocabulary_of([parse_service(raw)], conventions)
    found, changes = corrupted(raw, Corruption(operation, Rates(1, 1), "0", vocabulary, conventions))
    for one in found["slots"]:
        domain, _, rest = one["name"].partition("-")
        assert (domain, len(rest.split("_"))) == ("hotel", 2)
        assert set(rest.split("_")) <= set(vocabulary.slots)
    reasons = Counter(change.reason for change in changes if change.field == "name")
    assert reasons == {"": 5} if operation != "both" else reasons[""] >= 3  # both together may lead back to the start
