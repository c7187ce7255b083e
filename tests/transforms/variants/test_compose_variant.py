from kit import intent, service, slot

from parapet.schemas.layout import read_schema_file
from parapet.schemas.service import elements_of
from parapet.transforms.variants.matching import compose_variant

RAW = {
    "owner": "someone",
    **service(
        "Taxi_1",
        [
            {"description": "Where to", "name": "to", "is_categorical": False, "possible_values": []},
            {**slot("fare", "How much", "1", "2"), "unit": "EUR"},
        ],
        [
            intent("GetTaxi", "Call one", "to", transactional=True, results=["fare", "to"], fare="dontcare"),
            {key: value for key, value in intent("Wait", "Stay").items() if key != "result_slots"},
        ],
        "Get a taxi",
    ),
}
NAMES = {"slot_0": "fare", "slot_1": "price", "intent_0": "OrderCab", "intent_1": "Hold"}
DESCRIPTIONS = {
    "slot_0": "The end of the ride",
    "slot_1": "What it costs",
    "intent_0": "Order a cab",
    "intent_1": "Let it wait",
    "service": "Cabs",
}


def own_texts(service):
    elements = elements_of(service, "descriptions")
    return {e.field: e.name for e in elements if e.kind != "service"}, {e.field: e.description for e in elements}


def test_published_variants_come_out_of_their_own_texts(real_data):
    """Given the published names and descriptions, the published files come out."""
    checked = 0
    for split in ("train", "dev"):
        originals = read_schema_file(real_data / f"sgd/{split}/schema.json", split).raw
        for k in range(1, 6):
            published = read_schema_file(real_data / f"sgd/sgd_x/data/v{k}/{split}/schema.json", split)
            for raw, other, typed in zip(originals, published.raw, published.services, strict=True):
                assert compose_variant(raw, k, *own_texts(typed)) == other
                checked += 1
    assert checked


def test_lists_of_slot_names_under_other_keys_are_renamed():
    """As ``offered_slots``, which some corpora have; other lists stay."""
    raw = {**RAW, "key_slots": ["to"], "tags": ["to", "ride"]}
    raw["intents"] = [
        {**RAW["intents"][0], "offered_slots": ["fare", "to"], "hints": {"to": "A place"}},
        RAW["intents"][1],
    ]
    raw["slots"] = [{**RAW["slots"][0], "depends_on": ["fare"], "possible_values": ["to"]}, RAW["slots"][1]]
    variant = compose_variant(raw, 3, NAMES, DESCRIPTIONS)
    assert (variant["key_slots"], variant["tags"]) == (["fare"], ["to", "ride"])
    assert variant["intents"][0]["offered_slots"] == ["price", "fare"]
    assert variant["intents"][0]["hints"] == {"fare": "A place"}
    assert (variant["slots"][0]["depends_on"], variant["slots"][0]["possible_values"]) == (["price"], ["to"])
