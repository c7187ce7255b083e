"""The rules of the simple form, on turns that show one each; and every kind on any text."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parapet.transforms.perturbation.user_turns import Span, UserTurn, edited
from parapet.transforms.perturbations.results import write_into
from parapet.transforms.perturbations.simple import simple_operations
from parapet.transforms.perturbations.variations import KINDS, Typos

ACTS = ["INFORM", "INFORM_INTENT", "REQUEST", "REQUEST_ALTS", "AFFIRM", "NEGATE", "SELECT", "THANK_YOU", "GOODBYE"]


def said(text, acts="", *values, position=0, wrong=()):
    spans = tuple(Span("S_1", "slot", text.index(v), text.index(v) + len(v)) for v in values)
    low = tuple(value.lower() for value in values)
    return UserTurn("1", position, text, spans, low, frozenset(acts.split()), ("S_1",), wrong, ())


@pytest.mark.parametrize(
    ("text", "acts", "values", "simple"),
    [
        ("Hi, could you help me find a bus to Fresno?", "INFORM", ("Fresno",), "Find a bus to Fresno."),
        ("I am looking for a hotel in Paris.", "INFORM", ("Paris",), "I want a hotel in Paris."),
        ("I would prefer to see the show, if possible.", "INFORM", (), "I want to see the show."),
        ("I'm looking for a Thai place?", "INFORM", ("Thai",), "I want a Thai place."),
        ("Could you tell me their rules and fees?", "REQUEST", (), "What are their rules and fees?"),
        ("May I also have their phone number please?", "REQUEST", (), "What's their phone number?"),
        ("I was wondering if you could find one. Please go ahead and book it.", "INFORM", (), "Find one. Book it."),
        ("Yes please, on the 10th.", "AFFIRM INFORM", ("the 10th",), "Yes, on the 10th."),
        ("Yes, please, on the 10th.", "AFFIRM INFORM", ("the 10th",), "Yes, on the 10th."),
        ("That one sounds perfect.", "SELECT", (), "Perfect."),
        ("Cool. That will be it. Thanks. Bye!", "GOODBYE SELECT", (), "Cool, thanks, bye."),
        ("No, that is all.", "NEGATE THANK_YOU", (), "No, thanks."),
        ("That's good. That's all I need for now.", "GOODBYE SELECT", (), "Good, that's all."),
        ("Thanks a lot, I'm all set for today.", "GOODBYE THANK_YOU", (), "Thanks, that's all."),
        ("Thank you very much.", "GOODBYE THANK_YOU", (), "Thanks."),
        ("Yes, that is right. How much is it?", "AFFIRM REQUEST", (), "Yes. How much is it?"),
        ("Hello there! I want fish.", "INFORM", (), "I want fish."),
        ("Thanks! Book it at 7 p.m. Can you help me?", "INFORM", ("7 p.m.",), "Book it at 7 p.m."),
        ("Please wait, I will be leaving on Monday.", "INFORM", ("Monday",), "Wait, I'll be leaving on Monday."),
    ],
)
def test_simple(text, acts, values, simple):
    assert edited(text, simple_operations(said(text, acts, *values))[0]) == simple


@pytest.mark.parametrize(
    ("text", "acts", "values"),
    [
        ("Yes, but make it Monday.", "AFFIRM", ()),
        ("Yes, that is fine if it is free.", "AFFIRM", ()),
        ("Great, the second one.", "SELECT", ()),
        ("Okay. I will look into it.", "GOODBYE SELECT", ()),
        ("Thank you, and off I go.", "GOODBYE THANK_YOU", ()),
        ("What is the movie about?", "REQUEST", ()),
        ("What's their phone number?", "REQUEST", ()),
        ("I need a cab.", "INFORM", ()),
        ("I want to get a cab and am fine with sharing.", "INFORM", ()),
        ("I would like to know if it is far.", "REQUEST", ()),
        ("I will be leaving on Monday.", "INFORM", ("Monday",)),
        ("What is the address and do they serve wine?", "REQUEST", ()),
        ("Please Please Me", "INFORM", ("Please Please Me",)),
        ("I want to Believe", "INFORM", ("I want to Believe",)),
        ("?!", "INFORM", ()),
        ("", "INFORM", ()),
    ],
)
def test_not_sure(text, acts, values):
    operations, reason = simple_operations(said(text, acts, *values))
    assert operations == []
    assert reason in ("no_rule", "no_word", "not_shorter", "only_contraction")


SAID = """Yes No Thanks please Please can could you I'd I am want would like to find book a the what's their address
and Hi, Okay . ? ! , that is all good I'm Fresno 7 p.m. é 👍🏽 \ud83d \u0301 ｗ"""
WORDS = st.one_of(st.sampled_from(SAID.split()), st.text(max_size=4))


@given(
    st.lists(WORDS, max_size=14),
    st.sets(st.sampled_from([*ACTS, "OFFER"]), max_size=3),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12)), max_size=3),
    st.sampled_from(sorted(KINDS)),
    st.booleans(),
)
@example(["Thanks", "want", "want", ""], set(), [(5, 12)], "verbose", False)  # the value ends in a space
def test_any_turn_keeps_its_spans(words, acts, drawn, kind, perturb_values):
    """Overlapping spans, spans off by one, cut clusters: all are where they were, with the text they had."""
    text = " ".join(words)
    spans = tuple(Span("S_1", "s", start, start + n) for start, n in drawn if start + n <= len(text))
    turn = UserTurn("1", 0, text, spans, ("fresno", "that"), frozenset(acts), ("S_1",), (), ())
    made = (Typos(perturb_values=perturb_values) if kind == "typos" else KINDS[kind]()).vary(turn)
    raw = {
        "speaker": "USER",
        "utterance": text,
        "frames": [{"slots": [{"slot": s.slot, "start": s.start, "exclusive_end": s.end} for s in spans]}],
    }
    new = write_into(raw, made)
    for span, place in zip(spans, new["frames"][0]["slots"], strict=True):
        found = new["utterance"][place["start"] : place["exclusive_end"]]
        if kind != "typos" or not perturb_values:
            assert found == text[span.start : span.end]
    assert not made.reason.startswith("torn")
    assert bool(made.reason) != bool(made.operations)
    if made.operations and kind == "verbose":
        assert len(new["utterance"].split()) > len(text.split())
    if made.operations and kind == "simple":
        assert len(new["utterance"]) < len(text)


def test_a_span_outside_the_utterance():
    made = Typos().vary(said("something nice", wrong=("city",)))
    assert (made.utterance, made.reason) == ("something nice", "bad_span: city: not inside the utterance")
