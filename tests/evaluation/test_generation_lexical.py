"""The lexical scorer: what its rules see, and what they do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import cases

from parapet.evaluation.generation.lexical import Lexical

CLASSES = ("entailment", "neutral", "contradiction")


def judged(premise, hypothesis):
    (judgement,) = Lexical().entailment([(premise, hypothesis)])
    return CLASSES[judgement.index(max(judgement))]


@cases(
    "premise hypothesis wanted",
    # Values are said, as they are.
    ("How about Opa in Oslo?", "Name of the restaurant is Opa", "entailment"),
    ("How about Opa in Oslo?", "Name of the restaurant is Zen", "neutral"),
    ("It costs $1,630.", "Amount of money is $1630", "entailment"),
    ("A table for two people at 7:00 pm", "Number of seats is 2", "entailment"),
    ("It leaves at 7:30 pm.", "time is 7 pm", "neutral"),
    ("It opens at 3 pm.Its rating is 4.5.", "rating is 4.5", "entailment"),
    ("It's called Life is Beautiful.", "Name of the movie is Life is Beautiful", "entailment"),
    ("Try Opa or Zen.", "restaurant name are Opa, Nisa and Zen", "neutral"),
    ("He went to Bed Bath and Beyond", "shop is Bed Bath and Beyond", "entailment"),
    ("The movie has no subtitles", "Language of subtitles is None", "entailment"),
    # A value that is said of something else.
    ("It has 0 stops and 1 bed.", "Number of stops is 1", "contradiction"),
    ("You leave from Oslo to Bergen", "Destination city is Oslo", "contradiction"),
    ("You leave from Oslo to Bergen", "City where the bus leaves from is Oslo", "entailment"),
    # Booleans are spoken of, and affirmed or denied.
    ("They have live music on Fridays.", "Whether the restaurant has live music? Yes.", "entailment"),
    ("They have live music on Fridays.", "Whether the restaurant has live music? No.", "contradiction"),
    ("They don't have live music.", "It does not have live music.", "entailment"),
    ("It's good for children, but it is not free.", "good for kids? Yes.", "entailment"),
    ("It's good for children, but it is not free.", "free entry? No.", "entailment"),
    ("There is no entrance fee.", "free entry? Yes.", "entailment"),
    ("It arrives on the same day.", "arrives next day? No.", "entailment"),
    ("The phone number is 12345.", "free entry? No.", "neutral"),
    # The forms of the paper's rules.
    ("They have live music on Fridays.", "Does has live music", "entailment"),
    ("It's good for children.", "Is good for kids", "entailment"),
    ("There is no wifi.", "Does not wifi", "entailment"),
    ("It is not a nonstop flight.", "Flights is not nonstop", "entailment"),
    ("Is it free of charge?", "Is it free is dontcare", "neutral"),
    ("Not in Oslo, but it is in Oslo county.", "City is Oslo", "entailment"),
    ("It is good for children.", "It is true that the place is good for kids.", "entailment"),
    ("I found 7 cars, one for $5.", "count is 7", "entailment"),
    ("Do you want to reserve it?", "intent is reserve restaurant", "entailment"),
    ("See you soon!", "Bye bye.", "entailment"),
    ("What else?", "What else do you need?", "entailment"),
    # Of the turn before only what a yes or no is about.
    ("Do they have live music?\nWhether it has live music\nYes, they do.", "has live music? Yes.", "entailment"),
    ("Do they have live music?\nWhether it has live music\nSorry, no.", "has live music? Yes.", "contradiction"),
    ("Do they have live music?\nWhether it has live music\nIt's on Main St.", "has live music? Yes.", "neutral"),
    ("Find me something in Oslo.\ncity\nAll right.", "city is Oslo", "neutral"),
    # Requests are questions about the slot.
    ("Which city are you in?", "Request City of the restaurant", "entailment"),
    ("You are in the city.", "Request City of the restaurant", "neutral"),
    # The other acts.
    ("I found 7 cars, one for $5.", "There are 7 results.", "entailment"),
    ("I found 7 cars, one for $5.", "The number of results is 5.", "neutral"),
    ("Do you want to reserve it?", "Offer to reserve a table at a restaurant", "entailment"),
    ("Do you want to see it?", "Offer to reserve a table at a restaurant", "neutral"),
    ("Your table is booked.", "The request was successful.", "entailment"),
    ("I couldn't get it booked.", "The request was successful.", "neutral"),
    ("I couldn't get it booked.", "Reserve table failed.", "entailment"),
    ("Have a nice trip!", "Goodbye.", "entailment"),
    ("Anything else?", "Request more.", "entailment"),
    ("It is on Main Street.", "Request more.", "neutral"),
    ("Select that one", "Select one", "entailment"),
    ("", "Goodbye.", "neutral"),
    ("Do they have live music?\nlive music\n ", "has live music? Yes.", "neutral"),
)
def test_what_is_entailed(premise, hypothesis, wanted):
    assert judged(premise, hypothesis) == wanted


_TEXTS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(["Request x", "x? Yes.", "x? No.", "It is not x.", "There are 5 results.", "a is b", " is ", "\n"]),
)


@given(_TEXTS, _TEXTS)
def test_any_texts_have_a_judgement(premise, hypothesis):
    first, second = Lexical().entailment([(premise, hypothesis), (premise, hypothesis)])
    assert (first, sum(first)) == (second, pytest.approx(1))
    assert all(0 <= one <= 1 for one in first)
