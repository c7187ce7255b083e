"""Turns in more words, and in simple ones: what they say stays, and no dialogue repeats itself."""

import tomllib
from collections import Counter
from importlib import resources

import kit
from hypothesis import example, given
from hypothesis import strategies as st
from kit import cases, dialogue, dialogues_of, sample_dialogues, turn

from parapet.schemas.dialogue import typed
from parapet.transforms.perturb.rewrites import affirms, denies
from parapet.transforms.perturb.simple import simplified
from parapet.transforms.perturb.user_turns import Span, UserTurn, user_turns
from parapet.transforms.perturb.variations import KINDS, Typos, Verbose, write_into


def user(text, *acts, **slots):
    """A turn of the user's: values of slots that it says."""
    spans = [kit.span(slot, text, value) for slot, value in slots.items()]
    state = kit.state("Find", **{slot: [value] for slot, value in slots.items()})
    return turn("USER", text, kit.frame("Restaurants_1", *map(kit.act, acts), slots=spans, state=state))


def turns_of(*turns):
    return list(user_turns(typed(dialogue("1", *turns))))


def made_of(text, *acts, turns=(), **slots):
    """What eighty seeds make of a turn, besides the turn itself."""
    *_, last = turns_of(*turns, user(text, *acts, **slots))
    return {Verbose(seed=seed).rewrite_all([last])[0].text for seed in range(80)} - {""}


REQUEST = user("Find me a table.", "INFORM_INTENT")


@cases(
    "text acts slots expected",
    ("I need a house in Fresno.", "INFORM_INTENT", {}, "I need a house in Fresno. Could you help me out?"),
    ("Okay, what's the address?", "REQUEST", {}, "Okay, could you please tell me the address?"),
    ("Do they deliver to the door?", "REQUEST", {}, "Do you happen to know if they deliver to the door?"),
    ("Sounds good. Is it far?", "REQUEST SELECT", {}, "Sounds good. Just a quick question. Is it far?"),
    ("Not that one.", "REQUEST_ALTS", {}, "Not that one. I'd like to see some others."),
    ("Yes!", "AFFIRM_INTENT", {}, "Yes! I'd like that very much."),
    ("That's right.", "AFFIRM", {}, "That's right. Please go ahead with that."),
    ("No. I want two.", "NEGATE INFORM", {}, "No. I want two. Sorry for the confusion."),
    ("No, that's all. Thanks.", "NEGATE THANK_YOU", {}, "No, that's all. Thanks. You've been a great help."),
    ("Thank you.", "THANK_YOU", {}, "Thank you so much for all of your help."),
    ("Fresno", "INFORM", {"city": "Fresno"}, "I'd like to go with Fresno"),
    ("I want it for two people.", "INFORM", {}, "I want it for two people, if that's possible."),
    ("hey there", "INFORM", {}, "hey there. i was hoping you could help me"),
    ('"Find a table for two."', "INFORM_INTENT", {}, '"I was hoping you could find a table for two."'),
    ('Play "Hey".', "INFORM", {}, 'Would you be able to play "Hey"?'),
)
def test_turns_in_more_words(text, acts, slots, expected):
    before = [] if acts == "INFORM_INTENT" else [REQUEST, turn("SYSTEM", "-")]
    assert expected in made_of(text, *acts.split(), turns=before, **slots)


@cases("text acts", ("Is it far?", "SELECT"), ("Please sort this:\n3 1 2", ""), ("?!", "INFORM"))
def test_turns_that_stay(text, acts):
    assert made_of(text, *acts.split(), turns=[REQUEST, turn("SYSTEM", "-")]) == set()


def test_text_goes_inside_a_quotation():
    for text in ('"Find a table for two people."', "“How many people can it seat?”"):
        assert all(new[0] == text[0] and new[-1] == text[-1] for new in made_of(text))
    for new in made_of('My favorite song is called "The Old House by the Sea".', "INFORM_INTENT"):
        assert new.endswith('called "The Old House by the Sea".')


def check_dialogues(dialogues):
    """The laws of the set: lengths, values, yes and no; and no dialogue repeats itself."""
    counts = Counter()
    for one in dialogues:
        turns = list(user_turns(typed(one)))
        made = Verbose(seed=1).rewrite_all(turns)
        for before, after in zip(turns, made, strict=True):
            counts["turns"] += 1
            if not after.text:
                continue
            text, new = before.utterance, after.text
            assert 1.3 * len(text.strip()) <= len(new.strip()) <= max(2 * len(text), 50), (text, new)
            assert [new[slice(*place)] for place in after.places] == [text[slice(*place)] for place in before.ranges]
            assert (affirms(new), denies(new)) == (affirms(text), denies(text)), (text, new)
            counts["changed"] += 1
            counts["same"] += sum(new == other.text for other in made) > 1
    assert counts["changed"] > 0.75 * counts["turns"]
    assert counts["same"] == 0


def test_dialogues_of_the_sample():
    check_dialogues(sample_dialogues("train") + sample_dialogues("test"))


def test_dialogues_of_sgd(real_data):
    check_dialogues(list(dialogues_of(real_data / "sgd" / "dev").values())[:150])


def test_frames_say_neither_yes_nor_no():
    text = resources.files("parapet.transforms.perturb").joinpath("verbose.toml").read_text("utf-8")
    frames = [frame for table in tomllib.loads(text).values() for kind in table.values() for frame in kind]
    assert not [frame for frame in frames if denies(frame) or affirms(frame)]
    for banned in ("The thing is", "give you an idea", "been meaning to", "sorted out", "have in mind"):
        assert banned not in text


ACTS = ["INFORM", "INFORM_INTENT", "REQUEST", "REQUEST_ALTS", "AFFIRM", "NEGATE", "SELECT", "THANK_YOU", "GOODBYE"]


def said(text, acts="", *values, position=0, wrong=()):
    spans = tuple(Span("S_1", "slot", text.index(v), text.index(v) + len(v)) for v in values)
    low = tuple(value.lower() for value in values)
    return UserTurn("1", position, text, spans, low, frozenset(acts.split()), ("S_1",), wrong)


@cases(
    "text acts values simple",
    ("Hi, could you help me find a bus to Fresno?", "INFORM", ("Fresno",), "Find a bus to Fresno."),
    ("I'm looking for a Thai place?", "INFORM", ("Thai",), "I want a Thai place."),
    ("Yes please, on the 10th.", "AFFIRM INFORM", ("the 10th",), "Yes, on the 10th."),
    ("That one sounds perfect.", "SELECT", (), "Perfect."),
    ("Okay. That will be it. Thanks. Bye!", "GOODBYE SELECT", (), "Okay, thanks, bye."),
    ("That's good. That's all I need for now.", "GOODBYE SELECT", (), "Good, that's all."),
    ("Yes, that is right. How much is it?", "AFFIRM REQUEST", (), "Yes. How much is it?"),
    ("Thanks! Book it at 7 p.m. Can you help me?", "INFORM", ("7 p.m.",), "Book it at 7 p.m. Can you help me?"),
    ("Please wait, I will be leaving on Monday.", "INFORM", ("Monday",), "Wait, I will be leaving on Monday."),
)
def test_simple(text, acts, values, simple):
    assert simplified(said(text, acts, *values)).text == simple


@cases(
    "text acts values",
    ("Yes, but make it Monday.", "AFFIRM", ()),
    ("Thank you, and off I go.", "GOODBYE THANK_YOU", ()),
    ("What is the movie about?", "REQUEST", ()),
    ("I want to get a cab and am fine with sharing.", "INFORM", ()),
    ("I would like to know if it is far.", "REQUEST", ()),
    ("What is the address and do they serve wine?", "REQUEST", ()),
    ("Please Please Me", "INFORM", ("Please Please Me",)),
    ("?!", "INFORM", ()),
)
def test_not_sure(text, acts, values):
    assert simplified(said(text, acts, *values)).reason in ("no_rule", "no_word", "not_shorter")


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
    turn = UserTurn("1", 0, text, spans, ("fresno", "that"), frozenset(acts), ("S_1",), ())
    (made,) = (Typos(perturb_values=perturb_values) if kind == "typos" else KINDS[kind]()).rewrite_all([turn])
    assert not made.reason.startswith("torn")
    if not made.text:
        assert made.reason
        return
    slots = [{"slot": span.slot, "start": span.start, "exclusive_end": span.end} for span in spans]
    new = write_into(kit.turn("USER", text, {"slots": slots}), made)
    for span, place in zip(spans, new["frames"][0]["slots"], strict=True):
        found = new["utterance"][place["start"] : place["exclusive_end"]]
        if kind != "typos" or not perturb_values:
            assert found == text[span.start : span.end]
    if kind == "verbose":
        assert len(new["utterance"].split()) > len(text.split())
    if kind == "simple":
        assert len(new["utterance"]) < len(text)
