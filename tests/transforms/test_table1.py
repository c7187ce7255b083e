"""The measures against a slow plain reference, sacrebleu itself and known values."""

import itertools

from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from parapet.schemas.service import Intent, Service, Slot
from parapet.transforms.report.report import Table, page
from parapet.transforms.variants import table1
from parapet.transforms.variants.table1 import statistics_report, text_table

# Words, so that n-grams of higher orders match, and what tokenizers stumble on.
SAID = ["the", "The", "city", "of", "hotel", "hotel,", "U.S.", "3.5", "&amp;", "ÉTÉ", "-\n", "\t", "—"]
WORDS = st.sampled_from(SAID)
TEXT = st.lists(WORDS, max_size=9).map(" ".join) | st.text(max_size=20)
PAIRS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=6)


def described(texts):
    """A service with these descriptions, of itself and its slots."""
    return Service("", texts[0], [Slot(f"s{i}", text) for i, text in enumerate(texts[1:])], [])


def corpus_bleu(hypotheses, references):
    """BLEU as the measures have it, of texts instead of services."""
    item = table1.Item(described(references), {"h": described(hypotheses)})
    return table1.measures_of([item], ["h"])["variants"]["h"]["description_bleu"]


def measures(originals, variants):
    """The measures of services in memory; the lists belong together by position."""
    of_position = [{name: services[i] for name, services in variants.items()} for i in range(len(originals))]
    items = list(itertools.starmap(table1.Item, zip(originals, of_position, strict=True)))
    return table1.measures_of(items, list(variants))


def service(name, slots, intents, description):
    return Service(name, description, [Slot(*slot) for slot in slots], [Intent(*intent) for intent in intents])


HOTELS = service(
    "Hotels_1",
    [("city", "The city of the hotel"), ("stars", "How many stars the hotel has")],
    [("FindHotel", "Find a hotel in a city")],
    "A service to find a hotel",
)
BANKS = service("Banks_1", [("amount", "How much money to send")], [("SendMoney", "Send money")], "Manage your money")


def renamed(original, suffix, change):
    """A variant of ``original``: its texts as ``change`` has them, else as they were."""
    return Service(
        original.service_name + suffix,
        change.get(original.description, original.description),
        [Slot(change.get(s.name, s.name), change.get(s.description, s.description)) for s in original.slots],
        [Intent(change.get(i.name, i.name), change.get(i.description, i.description)) for i in original.intents],
    )


@given(PAIRS)
def test_corpus_bleu_is_sacrebleus_to_the_last_bit(pairs):
    hypotheses, references = (list(texts) for texts in zip(*pairs, strict=True))
    expected = BLEU(lowercase=True, tokenize="intl").corpus_score(hypotheses, [references]).score
    assert corpus_bleu(hypotheses, references) == expected


def test_seen_shares_count_every_occurrence():
    unseen = [
        service("A_2", [("city", ""), ("date", "")], [("FindHotel", "")], ""),
        service("B_2", [("city", ""), ("fare", "")], [("BuyTicket", ""), ("SendMoney", "")], ""),
    ]
    # "city" counts twice: 2 of 4 slots (once each it would be 1 of 3); FindHotel and SendMoney of three intents.
    assert table1.names_seen(unseen, [HOTELS, BANKS]) == {"slot_names_seen": 0.5, "intent_names_seen": 2 / 3}
    assert table1.names_seen([], [HOTELS]) == {"slot_names_seen": None, "intent_names_seen": None}


def multiwoz(domain, slots):
    """A service of MultiWOZ 2.2, by the names of its slots."""
    return service(domain, [(f"{domain}-{slot}", "") for slot in slots.split()], [], "")


MULTIWOZ = [
    multiwoz("attraction", "area name type entrancefee openhours address phone postcode"),
    multiwoz(
        "hotel",
        "pricerange type parking bookday bookpeople bookstay stars internet name area address phone postcode ref",
    ),
    multiwoz("restaurant", "pricerange area food name bookday bookpeople booktime address phone postcode ref"),
    multiwoz("taxi", "leaveat destination departure arriveby type phone"),
    multiwoz("train", "arriveby departure day bookpeople leaveat destination trainid ref price duration"),
]


def test_most_slots_of_a_domain_of_multiwoz_are_seen_in_the_others():
    """SGD-X, section 1: 60 to 100 % in the set-up that leaves one domain out."""
    shares = {}
    for held_out in MULTIWOZ:
        others = [domain for domain in MULTIWOZ if domain is not held_out]
        shares[held_out.service_name] = round(100 * table1.names_seen([held_out], others)["slot_names_seen"])
    assert shares == {"attraction": 75, "hotel": 71, "restaurant": 82, "taxi": 100, "train": 60}


def booleans(*descriptions):
    return Service("A_1", "", [Slot("s", text, True, ["True", "False"]) for text in descriptions], [])


def test_boolean_slots_are_described_alike():
    """As in SGD, by two words; letter case does not matter, and other slots do not count."""
    assert table1.described_alike([booleans("Boolean flag", "Whether it is"), booleans("boolean, or not")]) == 2 / 3
    assert table1.described_alike([booleans("Boolean flag", "Whether it is"), booleans("whether")]) == 1.0
    assert table1.described_alike([booleans("Whether", "If", "Is it", "")]) == 0.5
    assert table1.described_alike([HOTELS, BANKS]) is None


V1 = {"city": "town", "The city of the hotel": "The town of the hotel", "FindHotel": "SearchHotel"}


def test_table_takes_names_from_unseen_services_only():
    trains = renamed(BANKS, "_2", {"amount": "stars", "SendMoney": "FindHotel"})
    items = [
        table1.Item(HOTELS, {"v1": renamed(HOTELS, "1", V1)}),
        table1.Item(trains, {"v1": renamed(trains, "1", {"stars": "sum"})}, unseen=True),
    ]
    found = table1.statistics_of(table1.Inputs(items, ["v1"], "test", [HOTELS], []), [*map(table1.measure, items)])
    assert found["original"] == {"slot_names_seen": 1.0, "intent_names_seen": 1.0}
    assert (found["variants"]["v1"]["slot_names_seen"], found["variants"]["v1"]["intent_names_seen"]) == (0.0, 1.0)
    assert found["average"] == found["variants"]["v1"]
    assert list(found)[:4] == ["original", "variants", "average", "self_bleu"]
    assert found["booleans_described_alike"] == {"original": None, "v1": None}


MEASURES = ("slot_names_seen", "intent_names_seen", "name_distance", "description_bleu")


def statistics(variants=("v1", "v2", "v3", "v4", "v5"), **more):
    measured = [(0.1, 0.0, 0.281 + i / 10, 17.76 / (i + 1)) for i in range(len(variants))]
    rows = {name: dict(zip(MEASURES, of, strict=True)) for name, of in zip(variants, measured, strict=True)}
    return {
        "original": {"slot_names_seen": 0.627, "intent_names_seen": 0.8},
        "variants": rows,
        "average": {**rows[variants[0]], "name_distance": 0.46},
        **{"booleans_described_alike": {"original": 1.0}, "self_bleu": 4.49, "bleu_signature": "case:lc|tok:13a"},
        **{"split": "dev", "services": 34, "unseen_services": 8, "services_without_variants": []},
        **more,
    }


def rows(report):
    """The rows of the table, by variant."""
    [table] = [section for section in report.sections if isinstance(section, Table)]
    return {row[0]: list(row[1:]) for row in table.rows}


def test_numbers_that_are_not_defined():
    none = dict.fromkeys(MEASURES)
    without = statistics(variants=("v1",)) | {"variants": {"v1": none}, "average": none, "self_bleu": None}
    assert rows(statistics_report(without))["v1"] == ["–", "–", "–", "–"]
    page(statistics_report(without))


def test_services_without_variants_are_named():
    report = statistics_report(statistics(services_without_variants=["Banks_2", "Media_2"]))
    assert report.notes == ["2 services of the original in no variant and not counted: Banks_2, Media_2."]


def test_the_original_alone():
    nothing = {"variants": {}, "average": {}, "self_bleu": None}
    report = statistics_report(statistics() | nothing)
    assert rows(report) == {"original": ["63%", "80%"]}
    text = page(report)
    assert "name distance" not in text
    assert "Names seen in train are counted over the 8 services of dev that train lacks." in text
    assert text_table(statistics() | nothing).splitlines() == [
        "          slots seen  intents seen",
        "original       62.7%         80.0%",
    ]
