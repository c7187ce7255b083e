"""The measures against a slow plain reference, sacrebleu itself and known values."""

from itertools import pairwise

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from kit import raised
from plain_distance import edit_distance
from sacrebleu.metrics.bleu import BLEU

from parapet.schemas.errors import InputError
from parapet.schemas.layout import read_schema_file
from parapet.schemas.service import Intent, Service, Slot
from parapet.transforms.report.report import Table, page
from parapet.transforms.variants import distance as distances
from parapet.transforms.variants import table1
from parapet.transforms.variants.distance import Method, jaccard, lemma_set, levenshtein
from parapet.transforms.variants.table1 import statistics_report

# Words, so that n-grams of higher orders match, and what tokenizers stumble on.
SAID = ["the", "The", "city", "of", "hotel", "hotel,", "U.S.", "3.5", "&amp;", "ÉTÉ", "-\n", "\t", "—"]
TEXT = st.lists(st.sampled_from(SAID), max_size=9).map(" ".join) | st.text(max_size=20)


def described(texts):
    """A service with these descriptions, of itself and its slots."""
    return Service("", texts[0], [Slot(f"s{i}", text) for i, text in enumerate(texts[1:])], [])


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


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=6))
def test_corpus_bleu_is_sacrebleus_to_the_last_bit(pairs):
    hypotheses, references = (list(texts) for texts in zip(*pairs, strict=True))
    expected = BLEU(lowercase=True, tokenize="intl").corpus_score(hypotheses, [references]).score
    item = table1.Item(described(references), {"h": described(hypotheses)})
    assert table1.measures_of([item], ["h"])["variants"]["h"]["description_bleu"] == expected


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


def test_numbers_that_are_not_defined_and_services_without_variants():
    none = dict.fromkeys(table1.MEASURES)
    lacking = {"services_without_variants": ["Banks_2", "Media_2"], "booleans_described_alike": {"original": 1.0}}
    of_dev = {"split": "dev", "services": 34, "unseen_services": 8, "bleu_signature": "case:lc|tok:13a", **lacking}
    original = {"slot_names_seen": 0.627, "intent_names_seen": 0.8}
    found = {"original": original, "variants": {"v1": none}, "average": none, "self_bleu": None, **of_dev}
    report = statistics_report(found)
    (table,) = (section for section in report.sections if isinstance(section, Table))
    assert ["v1", "–", "–", "–", "–"] in [list(row) for row in table.rows]
    assert report.notes == ["2 services of the original in no variant and not counted: Banks_2, Media_2."]
    alone = page(statistics_report({**found, "variants": {}, "average": {}}))
    assert "name distance" not in alone
    assert "Names seen in train are counted over the 8 services of dev that train lacks." in alone


# Distances.


SHORT = st.text(st.sampled_from("abé_😀"), max_size=8) | st.text(max_size=8)
SETS = st.frozensets(st.sampled_from("abcdef"))


@given(SHORT, SHORT)
def test_levenshtein_is_the_textbooks(first, second):
    assert levenshtein(first, second) == levenshtein(second, first) == edit_distance(first, second)
    # The ratio counts a substitution as two.
    total = len(first) + len(second)
    ratio = 1 - edit_distance(first, second, substitution=2) / total if total else 1
    assert distances.levenshtein_ratio(first, second) == pytest.approx(ratio)


@given(SETS, SETS, SETS)
def test_jaccard_counts_and_is_a_distance(a, b, c):
    both = sum(letter in a and letter in b for letter in "abcdef")
    either = sum(letter in a or letter in b for letter in "abcdef")
    assert jaccard(a, b) == pytest.approx(1 - both / either if either else 0)
    assert (jaccard(a, b), jaccard(a, b) == 0) == (jaccard(b, a), a == b)
    assert jaccard(a, c) <= jaccard(a, b) + jaccard(b, c) + 1e-12


def test_articles_are_left_out():
    assert lemma_set("The number of seats") == {"number", "of", "seat"}


def test_the_distance_of_the_paper_has_the_lemmas_and_stopwords_of_spacy(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("attribute_ruler").add([[{"LOWER": "seats"}]], {"LEMMA": "Chair"})
    for word in ("number", "chair", "chairs", "the", "of", "whereupon"):
        nlp.get_pipe("attribute_ruler").add([[{"LOWER": word}]], {"LEMMA": word})
    nlp.to_disk(tmp_path / "model")
    distance = distances.SpacyJaccard(str(tmp_path / "model"))
    assert distance("The number of seats.", "Number whereupon chair") == 0
    assert distance("The number of seats.", "The chairs") == 1
    assert distance("The number of seats.", "The seats") == 0.5


def test_the_model_of_the_paper_must_be_installed():
    told = "^jaccard_spacy: spaCy model 'no_such' is not installed"
    raised(InputError, distances.SpacyJaccard, "no_such", match=told)


@given(st.text(st.sampled_from("the city numbers of.,A-' "), max_size=20))
def test_a_description_is_at_no_distance_from_itself_or_its_shouted_self(text):
    metric = Method().metric("descriptions")
    assert metric(text, text) == 0
    assert 0 <= metric(text, "the city") <= 1


def test_names_of_the_release_are_ordered_by_raw_levenshtein(real_data):
    """This reproduces the published order for every element of the services at hand."""
    checked = 0
    for split in ("train", "dev"):
        originals = read_schema_file(real_data / f"sgd/{split}/schema.json", split).services
        paths = [real_data / f"sgd/sgd_x/data/v{k}/{split}/schema.json" for k in range(1, 6)]
        variants = [read_schema_file(path, split).services for path in paths]
        for service, *others in zip(originals, *variants, strict=True):
            for kind in ("slots", "intents"):
                of_variants = [getattr(other, kind) for other in others]
                for element, *given_names in zip(getattr(service, kind), *of_variants, strict=True):
                    found = [levenshtein(element.name, other.name) for other in given_names]
                    assert all(a <= b for a, b in pairwise(found)), (service.service_name, element.name)
                    checked += 1
    assert checked
