"""What may take the place of a user turn: refused turns of SGD in other words."""

from hypothesis import given
from hypothesis import strategies as st
from kit import cases

from parapet.transforms.perturb.rewrites import refusal
from parapet.transforms.report import meaning


@cases(
    "before after reason",
    ("I want to call a cab.", "I want to call a taxi.", ""),
    ("Okay, perfect. Reserve it.", "Okay, perfect. Book it.", ""),
    ("I am ok.", "I'm OK!", "copy"),
    ("Find me a cab.", "Sure! Here is it: Find me a taxi.", "boilerplate"),
    ("Find me a cab.", "Find me a taxi.\nThank you.", "boilerplate"),
    ("No that's everything, thank you.", "It's not all, thank you.", "polarity"),
    ("I need four one way flights.", "I need four flights.", "facts"),
    ("I'll go on March 9th instead.", "I go instead of March 9th.", "roles"),
    ("What bus station does it arrive at?", "What bus station arrives?", "roles"),
    ("What is their phone?", "What is your phone?", "person"),
    ("I depart soon.", "Childhood is over, says my aunt.", "meaning"),
)
@cases("model", False, meaning.has_model())
def test_what_is_refused(before, after, reason, model, monkeypatch):
    monkeypatch.setattr(meaning, "has_model", lambda: model)
    assert refusal(before, after, ["March 9th"]) == reason


@given(st.text(), st.text())
def test_similarity_is_a_cosine(left, right):
    assert -1e-9 <= meaning.of_grams(left, right) == meaning.of_grams(right, left) <= 1 + 1e-9
    assert refusal(left, left) == "copy"
