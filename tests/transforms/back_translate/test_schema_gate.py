"""Which back-translations say the same as the name or description that they replace."""

from hypothesis import given
from hypothesis import strategies as st
from kit import cases

from parapet.transforms.variants.back_translation import refusal


@cases(
    "before after",
    ("event date", "date of the event"),
    ("movie name", "film name"),
    ("city of event", "event city"),
    ("seating class", "seat class"),
    ("reservation date", "date of booking"),
    ("Name of the director of the movie", "Name of the film director"),
    ("Address of event venue", "Address of the event location"),
    ("Total price of car rental", "Total car rental price"),
    ("Whether the booking is refundable or not", "If the booking is refundable or not"),
    ("Type of cab ride", "Kind of taxi ride"),
    (
        "Boolean flag indicating if pets are allowed in the hotel",
        "Boolean flag indicating whether pets are allowed at the hotel",
    ),
    ("City where the apartment is located", "The city where the apartment is located"),
)
def test_what_is_named_the_same(before, after):
    assert refusal(before, after, is_action=False) == ""


@cases(
    "before after",
    ("reserve car", "book a car"),
    ("buy event tickets", "buy tickets for events"),
    ("search hotel", "look for the hotel"),
    ("Find a house at a given location", "Find a house in a particular location"),
    ("A leading provider for searching and booking hotel rooms", "A leading provider to search and book hotel rooms"),
)
def test_what_is_done_the_same(before, after):
    assert refusal(before, after, is_action=True) == ""


@cases(
    "before after reason",
    ("city", "Oranjestad city", "other_words"),
    ("location", "the location is great", "other_words"),
    ("directed by", "the", "other_words"),
    ("area", "the Aaaa", "other_words"),
    ("to station", "for station", "grammar"),
    ("outbound arrival time", "arrival time", "other_words"),
    ("number of seats", "seat number", "other_words"),
    ("new alarm name", "new name of alarm", "other_order"),
    ("flight city of origin", "city of origin flight", "other_order"),
    ("street address", "address of the street", "other_words"),
    ("end date", "date of end", "other_order"),
    ("phone house", "house of phone", "other_order"),
    ("rent", "renting", "other_form"),
    ("passengers", "passenger", "other_form"),
    ("Date for the weather", "Date for the time", "other_words"),
    ("Ending city for the trip", "Ending the city for the trip", "grammar"),
    ("Number of rooms in the booking", "Number of rooms in booking", "grammar"),
    ("Number of passengers to book tickets for", "Number of passengers to book tickets to", "other_words"),
    ("Date for the visit or to check availability", "Visit date or to check availability", "other_order"),
    ("City or town of the event", "City or city of the event", "other_words"),
    ("Look for hotels in the city", "Search hotels in the city", "grammar"),
)
def test_what_is_not_the_same(before, after, reason):
    assert refusal(before, after, is_action=False) == reason


@cases(
    "before after reason",
    ("get weather", "having time", "other_words"),
    ("reserve car", "reserving car", "other_form"),
    ("book appointment", "marking of the book", "other_words"),
    ("schedule visit", "time of visit", "other_words"),
    ("visit property", "visit to the property", "other_form"),
    ("Browse attractions", "See all hotels", "other_words"),
    ("buy event tickets", "buy tickets of event", "grammar"),
)
def test_what_is_not_done_the_same(before, after, reason):
    assert refusal(before, after, is_action=True) == reason


WORDS = st.lists(
    st.sampled_from(
        ["the", "a", "of", "for", "and", "to", "at", ",", ".", "'s", "city", "town", "book", "booking", "date", "start"]
    ),
    max_size=8,
).map(" ".join)


@given(WORDS | st.text(max_size=20), WORDS | st.text(max_size=20), st.booleans())
def test_any_two_texts_are_judged(before, after, is_action):
    assert isinstance(refusal(before, after, is_action), str)
