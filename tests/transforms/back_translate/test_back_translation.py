"""Names and descriptions as they come back: which say the same, and what is not used of them."""

import kit
from hypothesis import given
from hypothesis import strategies as st
from kit import cases

from parapet.schemas.rows import BackTranslation
from parapet.schemas.service import parse_service
from parapet.transforms.report.text import Conventions
from parapet.transforms.variants.back_translation import back_translated, refusal, source_texts, without_collisions

SLOTS = [kit.slot("amount", "How much"), kit.slot("account_type", "", "checking")]
TRANSFER = kit.intent("TransferMoney", "Sends cash", "amount", "recipient", results=["amount"], account_type="checking")
RECIPIENT = kit.slot("recipient", "Name of the recipient")
RAW = kit.service("Banks_1", [*SLOTS, RECIPIENT], [TRANSFER], "Handles  accounts")


def legs(answers):
    """Pivot texts are the English ones in capitals; texts without an answer come back as they are."""
    texts = [text for source in source_texts(parse_service(RAW)) for text in source.candidates]
    assert answers.keys() <= {*texts}
    return {text: (text.upper(), answers.get(text, text)) for text in texts}


def translated(answers):
    variant, rows = back_translated(RAW, "zh", legs(answers), Conventions())
    return variant, {(row.element_id.partition("/")[2], row.field): row for row in rows}


def test_a_text_is_translated_alone_and_in_phrases():
    sources = {(source.place, source.field): [*source.candidates] for source in source_texts(parse_service(RAW))}
    assert sources["slot_2", "name"] == ["recipient", "It is the recipient.", "recipient: Name of the recipient"]
    assert sources["slot_2", "description"] == [
        *("Name of the recipient.", "It is the name of the recipient.", "recipient: Name of the recipient")
    ]
    transfer = ["transfer money", "i want to transfer money.", "transfer money: sends cash"]
    assert [text.lower() for text in sources["intent_0", "name"]] == transfer
    assert (sources["slot_1", "description"], sources["service", "description"]) == ([], ["Handles accounts."])


@cases(
    "back reason",
    ("Amount", "identical"),
    ("The amount.", "identical"),
    ("...", "other_words"),
    ("金額 of money", "other_words"),
    ("sheep", "other_words"),
    ("amounts", "other_form"),
)
def test_a_name_that_cannot_be_used_stays(back, reason):
    variant, rows = translated({"amount": back})
    row = rows["slot/amount", "name"]
    assert (row.emitted, row.reason, row.back_text) == ("amount", reason, back)
    assert variant["slots"][0]["name"] == "amount"


def test_the_farthest_of_the_good_ones_is_used():
    both = {
        "recipient: Name of the recipient": "recipient: The name of the receiver",
        "It is the name of the recipient.": "It's the Recipient Name.",
        "Name of the recipient.": "Name of the bank.",
        "It is the recipient.": "It is the receiver.",
        "transfer money": "transfer of money",
        "I want to transfer money.": "I want to send funds.",
    }
    variant, rows = translated(both)
    assert [slot["name"] for slot in variant["slots"]] == ["amount", "account_type", "receiver"]
    assert variant["slots"][2]["description"] == "Recipient name"
    assert variant["intents"][0]["name"] == "SendFunds"
    assert variant["intents"][0]["required_slots"] == ["amount", "receiver"]
    assert rows["slot/recipient", "description"].text == "It is the name of the recipient."


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True), st.data())
def test_names_end_unique_and_each_is_new_or_original(originals, data):
    rows = []
    for name in originals:
        new = data.draw(st.sampled_from("abcdef"))
        reason = "identical" if new == name else ""
        rows.append(BackTranslation(f"S/slot/{name}", "name", "zh", name, name, "x", new, new, reason))
    settled = without_collisions(rows, [("",)] * len(rows))
    names = [row.emitted for row in settled]
    assert len(set(names)) == len(names)
    for before, after in zip(rows, settled, strict=True):
        assert after.emitted in (before.emitted, before.original)
        assert (after.reason == "collision") == (after.emitted != before.emitted)


def test_names_of_other_scopes_do_not_collide():
    rows = [BackTranslation(f"T/{i}", "name", "pt", "unit", "unit", "x", "measure", "measure", "") for i in range(3)]
    settled = without_collisions(rows, [("a/",), ("b/",), ("b/", "c/")])
    assert [(row.emitted, row.reason) for row in settled] == [("measure", ""), ("measure", ""), ("unit", "collision")]


@cases(
    "before after is_action reason",
    ("event date", "date of the event", False, ""),
    ("movie name", "film name", False, ""),
    ("seating class", "seat class", False, ""),
    ("Name of the director of the movie", "Name of the film director", False, ""),
    ("Whether the booking is refundable or not", "If the booking is refundable or not", False, ""),
    ("City where the apartment is located", "The city where the apartment is located", False, ""),
    ("reserve car", "book a car", True, ""),
    ("buy event tickets", "buy tickets for events", True, ""),
    ("Find a house at a given location", "Find a house in a particular location", True, ""),
    ("city", "Oranjestad city", False, "other_words"),
    ("location", "the location is great", False, "other_words"),
    ("directed by", "the", False, "other_words"),
    ("outbound arrival time", "arrival time", False, "other_words"),
    ("Number of passengers to book tickets for", "Number of passengers to book tickets to", False, "other_words"),
    ("City or town of the event", "City or city of the event", False, "other_words"),
    ("to station", "for station", False, "grammar"),
    ("Ending city for the trip", "Ending the city for the trip", False, "grammar"),
    ("Look for hotels in the city", "Search hotels in the city", False, "grammar"),
    ("new alarm name", "new name of alarm", False, "other_order"),
    ("Date for the visit or to check availability", "Visit date or to check availability", False, "other_order"),
    ("rent", "renting", False, "other_form"),
    ("passengers", "passenger", False, "other_form"),
    ("get weather", "having time", True, "other_words"),
    ("book appointment", "marking of the book", True, "other_words"),
    ("reserve car", "reserving car", True, "other_form"),
    ("visit property", "visit to the property", True, "other_form"),
    ("buy event tickets", "buy tickets of event", True, "grammar"),
)
def test_what_says_the_same_and_what_does_not(before, after, is_action, reason):
    assert refusal(before, after, is_action) == reason


SOME = ["the", "a", "of", "for", "and", "to", "at", ",", ".", "'s", "city", "town", "book", "booking", "date", "start"]
WORDS = st.lists(st.sampled_from(SOME), max_size=8).map(" ".join)


@given(WORDS | st.text(max_size=20), WORDS | st.text(max_size=20), st.booleans())
def test_any_two_texts_are_judged(before, after, is_action):
    assert isinstance(refusal(before, after, is_action), str)
