"""What an act is said by: our own rules, words of variants, tampered values. The paper's: test_sgsacc_paper.py."""

from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised

from parapet.evaluation.generation import corpus
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
WORDS = corpus.words_of(RESTAURANTS)
RULES = ("paper", "extended")
KINDS = {slot.name: corpus.kind_of(slot) for slot in RESTAURANTS.slots}


def an_act(act, slot="", *values, canonical=(), intent=""):
    kind = KINDS.get(slot, "marker") if slot else "none"
    return corpus.Act("Restaurants_1", act, slot, values, canonical or values, kind, intent)


def test_a_boolean_is_tampered_by_its_opposite():
    for value, other in (("True", "False"), ("False", "True"), ("false", "True")):
        found = corpus.tampered(an_act("INFORM", "is_busy", value), {}, "0")
        assert found is not None
        assert found.values == (other,)


@given(
    st.sampled_from([*corpus.PHRASES, "INFORM", "OFFER", "REQUEST", "INFORM_COUNT", "OFFER_INTENT", "WHATEVER"]),
    st.sampled_from(["", "intent", "count", "strange", *KINDS]),
    st.lists(st.text(max_size=8), max_size=3),
)
def test_every_act_has_references(act, slot, values):
    for rules in RULES:
        found = corpus.references(an_act(act, slot, *values), WORDS, rules)
        assert found
        assert len(set(found)) == len(found)


def a_variant(**changed):
    slots = [Slot(f"{slot.name}_v", f"v {slot.description}", slot.is_categorical, slot.possible_values)
             for slot in RESTAURANTS.slots]  # fmt: skip
    intents = [Intent(f"V{intent.name}", f"V {intent.description}") for intent in RESTAURANTS.intents]
    fields = {"service_name": "Restaurants_11", "slots": slots, "intents": intents, **changed}
    return SplitSchemas("train", "schema.json", [], [Service(description="", **fields)])


def test_a_variant_says_it_in_its_own_words():
    words = corpus.varied_words([RESTAURANTS], [a_variant()], "v1")["Restaurants_1"]
    assert words.slot("city") == corpus.Words("city v", "v City in which the restaurant is located")
    assert corpus.references(an_act("INFORM", "city", "Oslo"), words) == (
        "v City in which the restaurant is located is Oslo",
        "city v is Oslo",
    )
    offer = an_act("OFFER_INTENT", "intent", "FindBars")
    assert corpus.references(offer, words)[0] == "Offer to V Find bars"
    assert (corpus.references(offer, words, "paper"), words.domain) == (("intent is vfind bars",), "Restaurants")


@cases(
    "changed said",
    ({"service_name": "Hotels_11"}, "v1 has no variant of service 'Restaurants_1'"),
    ({"slots": []}, "v1: service 'Restaurants_11' has 0 slots, the original 6"),
)
def test_a_variant_that_does_not_match(changed, said):
    raised(InputError, corpus.varied_words, [RESTAURANTS], [a_variant(**changed)], "v1", match=said)


@cases(
    "name description wanted",
    ("good_for_kids", "Whether the place is good for kids", ["It is not true that the place is good for kids."]),
    ("pets", "Boolean flag indicating whether or not pets may enter", ["It is not true that pets may enter."]),
    ("is_redeye", "Is the flight a red-eye?", ["It is not redeye."]),
    ("is_alcohol_served", "Is alcohol served?", []),  # "It is not alcohol served."
    ("add_bags", "Whether to carry bags", []),
    ("no_cost", "Whether entry is free or if there is a cost", []),
    ("refundable", "Whether the booking is refundable or not", []),
    ("wifi_yes_no", "Wifi availability", []),
)
def test_no_sentence_is_broken_english(name, description, wanted):
    words = corpus.words_of(Service("Places_1", "", [Slot(name, description, True, ["True", "False"])], []))
    act = corpus.Act("Places_1", "INFORM", name, ("False",), ("False",), "boolean")
    assert list(corpus.references(act, words, "extended"))[2:] == wanted


POOLS = {
    ("Restaurants_1", "city"): (("NYC", "New York"), ("New York", "New York"), ("Oslo", "Oslo"), ("oslo!", "Oslo")),
    ("Restaurants_1", "price_range"): (("cheap", "cheap"), ("pricey", "pricey")),
    ("Restaurants_1", "<count>"): (("1", "1"),),
    ("Restaurants_1", "<intent>"): (("FindBars", "FindBars"), ("ReserveTable", "ReserveTable")),
}


def test_tampered_values_are_others_of_the_slot():
    for seed in "0123456789":
        from_oslo = corpus.tampered(an_act("INFORM", "city", "Oslo"), POOLS, seed)
        from_nyc = corpus.tampered(an_act("INFORM", "city", "NYC", canonical=("New York",)), POOLS, seed)
        assert from_oslo is not None
        assert from_nyc is not None
        assert from_oslo.values[0] in ("NYC", "New York")
        assert from_nyc.values[0] in ("Oslo", "oslo!")  # "New York" is the same city
    cheap = corpus.tampered(an_act("OFFER", "price_range", "cheap"), POOLS, "0")
    assert cheap is not None
    assert cheap.values == ("pricey",)
    offered = corpus.tampered(an_act("OFFER_INTENT", "intent", "FindBars"), POOLS, "0")
    assert offered is not None
    assert corpus.references(offered, WORDS)[0] == "Offer to reserve a table at a restaurant"
