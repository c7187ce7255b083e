"""What an act is said by: our own rules, words of variants, tampered values. The paper's: test_sgsacc_paper.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parapet.evaluation.generation.corpus import (
    PHRASES,
    Act,
    Kind,
    Rules,
    Words,
    in_words,
    kind_of,
    listed,
    references,
    tampered,
    varied_words,
    words_of,
)
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SplitSchemas
from parapet.schemas.service import Intent, Service, Slot

RESTAURANTS = Service(
    "Restaurants_1",
    "Find restaurants",
    [
        Slot("city", "City in which the restaurant is located"),
        Slot("restaurant_name", "Name of the restaurant."),
        Slot("has_live_music", "Whether the restaurant has live music", True, ["True", "False"]),
        Slot("is_busy", "Is it busy?", True, ["False", "True"]),
        Slot("serves_alcohol", "Whether alcohol is served", True, ["True", "False"]),
        Slot("price_range", "Price range", True, ["cheap", "pricey"]),
    ],
    [Intent("ReserveTable", "Reserve a table at a restaurant"), Intent("FindBars", "Find bars")],
)
WORDS = words_of(RESTAURANTS)
RULES: tuple[Rules, ...] = ("paper", "extended")
KINDS: dict[str, Kind] = {slot.name: kind_of(slot) for slot in RESTAURANTS.slots}


def an_act(act: str, slot: str = "", *values: str, canonical: tuple[str, ...] = (), intent: str = "") -> Act:
    kind = KINDS.get(slot, "marker") if slot else "none"
    return Act("Restaurants_1", act, slot, values, canonical or values, kind, intent)


def test_kinds_of_slots():
    assert KINDS == {
        "city": "free",
        "restaurant_name": "free",
        "has_live_music": "boolean",
        "is_busy": "boolean",
        "serves_alcohol": "boolean",
        "price_range": "categorical",
    }


@pytest.mark.parametrize(
    ("act", "wanted"),
    [
        (an_act("INFORM", "city", "Oslo"), ["City in which the restaurant is located is Oslo", "city is Oslo"]),
        (
            an_act("OFFER", "restaurant_name", "Opa", "Nisa", "Zen"),
            ["Name of the restaurant are Opa, Nisa and Zen", "restaurant name are Opa, Nisa and Zen"],
        ),
        (an_act("CONFIRM", "price_range", "cheap"), ["Price range is cheap", "price range is cheap"]),
        (
            an_act("INFORM", "has_live_music", "True"),
            [
                "Whether the restaurant has live music? Yes.",
                "has live music? Yes.",
                "It has live music.",
                "They have live music.",
                "It is true that the restaurant has live music.",
            ],
        ),
        (
            an_act("INFORM", "has_live_music", "False"),
            [
                "Whether the restaurant has live music? No.",
                "has live music? No.",
                "It does not have live music.",
                "They do not have live music.",
                "It is not true that the restaurant has live music.",
            ],
        ),
        (an_act("INFORM", "is_busy", "False"), ["Is it busy? No.", "is busy? No.", "It is not busy."]),
        (
            an_act("CONFIRM", "serves_alcohol", "True"),
            ["Whether alcohol is served? Yes.", "serves alcohol? Yes.", "It is true that alcohol is served."],
        ),
        (
            an_act("CONFIRM", "serves_alcohol", "dontcare"),
            ["Whether alcohol is served is dontcare", "serves alcohol is dontcare"],
        ),
        (an_act("REQUEST", "city"), ["Request City in which the restaurant is located", "Request city"]),
        (an_act("REQUEST", "price_range", "cheap", "pricey"), ["Request Price range", "Request price range"]),
        (an_act("GOODBYE"), ["Goodbye.", "Have a nice day.", "Enjoy yourself."]),
        (an_act("REQ_MORE"), ["Request more.", "Is there anything else?", "Can I help you with anything else?"]),
        (an_act("INFORM_COUNT", "count", "7"), ["There are 7 results.", "The number of results is 7."]),
        (an_act("INFORM_COUNT", "count", "1"), ["There is 1 result.", "The number of results is 1."]),
        (
            an_act("OFFER_INTENT", "intent", "ReserveTable"),
            [
                "Offer to reserve a table at a restaurant",
                "Do you want to reserve a table at a restaurant?",
                "Offer to reserve table",
                "Do you want to reserve table?",
            ],
        ),
        (an_act("INFORM_INTENT", "intent", "FindBars"), ["Request to find bars", "I want to find bars."]),
        (an_act("NOTIFY_SUCCESS"), ["The request was successful.", "It is done."]),
        (
            an_act("NOTIFY_FAILURE", intent="ReserveTable"),
            ["The request failed.", "It could not be done.", "Reserve table failed."],
        ),
        (an_act("SELECT"), ["Select"]),
        (an_act("OFFER", "", "Opa"), ["Offer is Opa"]),
        (an_act("BOOK_NOW", "city"), ["Book now City in which the restaurant is located", "Book now city"]),
        (an_act("INFORM", "not_in_the_schema", "x"), ["not in the schema is x"]),
    ],
    ids=lambda one: f"{one.act} {one.slot}" if isinstance(one, Act) else "",
)
def test_references(act, wanted):
    assert list(references(act, WORDS, "extended")) == wanted
    paper = references(act, WORDS, "paper")
    if act.act not in ("GOODBYE", "REQ_MORE") and act.kind != "marker":
        assert paper[:2] == tuple(wanted[:2])  # descriptions and names are said alike


@pytest.mark.parametrize(
    ("name", "description", "wanted"),
    [
        ("good_for_kids", "Whether the place is good for kids", ["It is not true that the place is good for kids."]),
        ("pets", "Boolean flag indicating whether or not pets may enter", ["It is not true that pets may enter."]),
        ("is_redeye", "Is the flight a red-eye?", ["It is not redeye."]),
        ("is_alcohol_served", "Is alcohol served?", []),  # "It is not alcohol served."
        ("add_bags", "Whether to carry bags", []),
        ("no_cost", "Whether entry is free or if there is a cost", []),
        ("refundable", "Whether the booking is refundable or not", []),
        ("wifi_yes_no", "Wifi availability", []),
    ],
)
def test_no_sentence_is_broken_english(name, description, wanted):
    slot = Slot(name, description, True, ["True", "False"])
    words = words_of(Service("Places_1", "", [slot], []))
    act = Act("Places_1", "INFORM", name, ("False",), ("False",), "boolean")
    assert list(references(act, words, "extended"))[2:] == wanted


def test_names_in_words():
    assert [in_words(name) for name in ("has_live_music", "BuyBusTicket", "NumberOfTV", "a__b")] == [
        "has live music",
        "buy bus ticket",
        "number of TV",
        "a b",
    ]
    assert [listed(values) for values in (["A"], ["A", "B"], ["A", "B", "C"])] == ["A", "A and B", "A, B and C"]


POOLS = {
    ("Restaurants_1", "city"): (("NYC", "New York"), ("New York", "New York"), ("Oslo", "Oslo"), ("oslo!", "Oslo")),
    ("Restaurants_1", "price_range"): (("cheap", "cheap"), ("pricey", "pricey")),
    ("Restaurants_1", "<count>"): (("1", "1"),),
    ("Restaurants_1", "<intent>"): (("FindBars", "FindBars"), ("ReserveTable", "ReserveTable")),
}


def test_tampered_values_are_others_of_the_slot():
    for seed in "0123456789":
        from_oslo = tampered(an_act("INFORM", "city", "Oslo"), POOLS, seed)
        from_nyc = tampered(an_act("INFORM", "city", "NYC", canonical=("New York",)), POOLS, seed)
        assert from_oslo is not None
        assert from_nyc is not None
        assert from_oslo.values[0] in ("NYC", "New York")
        assert from_nyc.values[0] in ("Oslo", "oslo!")  # "New York" is the same city
    cheap = tampered(an_act("OFFER", "price_range", "cheap"), POOLS, "0")
    assert cheap is not None
    assert cheap.values == ("pricey",)
    offered = tampered(an_act("OFFER_INTENT", "intent", "FindBars"), POOLS, "0")
    assert offered is not None
    assert references(offered, WORDS)[0] == "Offer to reserve a table at a restaurant"


def test_a_boolean_is_tampered_by_its_opposite():
    for value, other in (("True", "False"), ("False", "True"), ("false", "True")):
        found = tampered(an_act("INFORM", "is_busy", value), {}, "0")
        assert found is not None
        assert found.values == (other,)


@pytest.mark.parametrize(
    "act",
    [
        an_act("REQUEST", "city"),
        an_act("REQUEST", "price_range", "cheap", "pricey"),
        an_act("GOODBYE"),
        an_act("INFORM_COUNT", "count", "1"),  # no other count is known
        an_act("INFORM", "unknown", "x"),
        an_act("INFORM", "city", "Oslo", "NYC", canonical=("Oslo", "New York")),  # nothing is left
    ],
)
def test_what_cannot_be_tampered(act):
    assert tampered(act, POOLS, "0") is None


def test_draws_depend_on_place_and_seed_alone():
    pools = {("Restaurants_1", "city"): tuple((f"c{i}", f"c{i}") for i in range(50))}
    act = an_act("INFORM", "city", "c7")
    drawn = [tampered(act, pools, seed, "1_00000", str(turn)) for seed in "01" for turn in range(4)]
    assert drawn == [tampered(act, pools, seed, "1_00000", str(turn)) for seed in "01" for turn in range(4)]
    assert len({one.values for one in drawn if one}) > 5


@given(
    st.sampled_from([*PHRASES, "INFORM", "OFFER", "REQUEST", "INFORM_COUNT", "OFFER_INTENT", "WHATEVER"]),
    st.sampled_from(["", "intent", "count", "strange", *KINDS]),
    st.lists(st.text(max_size=8), max_size=3),
)
def test_every_act_has_references(act, slot, values):
    for rules in RULES:
        found = references(an_act(act, slot, *values), WORDS, rules)
        assert found
        assert len(set(found)) == len(found)


def a_variant(**changed: object) -> SplitSchemas:
    slots = [Slot(f"{slot.name}_v", f"v {slot.description}", slot.is_categorical, slot.possible_values)
             for slot in RESTAURANTS.slots]  # fmt: skip
    intents = [Intent(f"V{intent.name}", f"V {intent.description}") for intent in RESTAURANTS.intents]
    fields = {"service_name": "Restaurants_11", "slots": slots, "intents": intents, **changed}
    return SplitSchemas("train", "schema.json", [], [Service(description="", **fields)])  # type: ignore[arg-type]


def test_a_variant_says_it_in_its_own_words():
    words = varied_words([RESTAURANTS], [a_variant()], "v1")["Restaurants_1"]
    assert words.slot("city") == Words("city v", "v City in which the restaurant is located")
    assert references(an_act("INFORM", "city", "Oslo"), words) == (
        "v City in which the restaurant is located is Oslo",
        "city v is Oslo",
    )
    offer = an_act("OFFER_INTENT", "intent", "FindBars")
    assert references(offer, words)[0] == "Offer to V Find bars"
    assert references(offer, words, "paper") == ("intent is vfind bars",)
    assert words.domain == "Restaurants"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"service_name": "Hotels_11"}, "v1 has no variant of service 'Restaurants_1'"),
        ({"slots": []}, "v1: service 'Restaurants_11' has 0 slots, the original 6"),
    ],
)
def test_a_variant_that_does_not_match(changed, said):
    with pytest.raises(InputError, match=said):
        varied_words([RESTAURANTS], [a_variant(**changed)], "v1")
