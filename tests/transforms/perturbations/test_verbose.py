"""Turns in more words, and in simple ones: what they say stays, and no dialogue repeats itself."""

import re
import tomllib
from collections import Counter
from importlib import resources

import kit
from hypothesis import example, given
from hypothesis import strategies as st
from kit import cases, dialogue, dialogues_of, sample_dialogues, turn

from parapet.schemas.dialogue import typed
from parapet.transforms.perturbation.user_turns import Span, UserTurn, edited, user_turns, value_ranges
from parapet.transforms.perturbations.gate import affirms, denies
from parapet.transforms.perturbations.results import write_into
from parapet.transforms.perturbations.simple import simple_operations
from parapet.transforms.perturbations.variations import KINDS, Typos, Verbose
from parapet.transforms.perturbations.verbose import known_thing, opening, verbose


def user(text, *acts, **slots):
    """A turn of the user's: values of slots that it says."""
    spans = [kit.span(slot, text, value) for slot, value in slots.items()]
    state = kit.state("Find", **{slot: [value] for slot, value in slots.items()})
    return turn("USER", text, kit.frame("Restaurants_1", *map(kit.act, acts), slots=spans, state=state))


def turns_of(*turns):
    return list(user_turns(typed(dialogue("1", *turns))))


def made_of(text, *acts, **slots):
    """What twenty seeds make of a turn."""
    (one,) = turns_of(user(text, *acts, **slots))
    return {Verbose(seed=seed).vary(one).utterance for seed in range(20)}


@cases(
    "text acts slots pattern",  # A request in a longer frame, with its own words.
    ("Find me a table in Fresno.", "INFORM_INTENT", {"city": "Fresno"}, r".* a table in Fresno\b.*[.?]"),
    ("What's the address?", "REQUEST", {}, r".*\bthe address.*[.?]"),
    ("Do they deliver to the door?", "REQUEST", {}, r".*\bthey deliver to the door[.?].*"),
    ("When does it open", "REQUEST", {}, r".*\bwhen it opens.*"),
    # An answer as a whole sentence that answers what was asked.
    ("Yes!", "AFFIRM_INTENT", {}, r"Yes, .*!"),
    ("No", "NEGATE_INTENT", {}, r"No, .*"),
    ("No. Make it for two.", "NEGATE INFORM", {}, r"No[., ].*\b[mM]ake it for two\b.*"),
    ("Thank you.", "THANK_YOU", {}, r"(?:Thank|I ).*\."),
    # A piece becomes a sentence.
    ("Fresno, please.", "INFORM", {"city": "Fresno"}, r"(?=.{15}).*\bFresno\b.*\."),
    # A word that leads to another clause stays in front of it.
    ("Yes I want a taxi.", "AFFIRM_INTENT INFORM", {}, r"Yes, .*\b[aA] taxi\b.*"),
    ("instead let it be one to seat two", "INFORM", {}, r"instead, (?!let ).*\bone to seat two\b.*"),
    # A noun with a verb is a sentence, one without is none.
    ("Fresno is where we meet", "INFORM", {"city": "Fresno"}, r".*(?:that|,) Fresno is where we meet.*"),
    ("The one to pay the rent.", "INFORM", {}, r"(?!.*\bthat the one).*"),
    # Who greets wants nothing yet; and who turns something down asks for others.
    ("Good evening.", "INFORM", {}, r"Good evening\. (?:I (?:hope that you|am glad|could do)|It would be good if).*"),
    ("Not that one.", "REQUEST_ALTS", {}, r"Not that one\. .*\b(?:others?|another|better|more)\b.*"),
    # Without marks and capitals, as the turn; with one "please".
    ("hey there", "INFORM", {}, r"hey there\. It? .*[^.]"),
    ("To buy a stamp, please.", "INFORM", {}, r"(?!.*please.*please).*"),
)
def test_turns_in_more_words(text, acts, slots, pattern):
    made = made_of(text, *acts.split(), **slots)
    assert len(made) > 1
    for one in made - {text}:
        assert re.fullmatch(pattern, one), one


def test_what_the_state_holds_is_restated():
    before = user("A table in Fresno.", "INFORM_INTENT", city="Fresno")
    asked = user("Can you give me their phone number and the full street address?", "REQUEST")
    asked["frames"][0]["state"]["slot_values"] = {"city": ["Fresno"]}
    turns = turns_of(before, turn("SYSTEM", "Cala is nice."), asked)
    assert known_thing(turns[1]) == "the restaurant in Fresno"
    said = [verbose(turns[1], b"%d" % seed, set()) for seed in range(40)]
    texts = ["".join(operation.text for operation in made.operations) for made in said]
    assert any("the restaurant in Fresno " in text for text in texts)
    # The value has changed, or the turn says the place itself: nobody knows which is meant.
    asked["frames"][0]["state"]["slot_values"] = {"city": ["Reno"]}
    assert known_thing(turns_of(before, turn("SYSTEM", "-"), asked)[1]) == "the restaurant"
    asked["utterance"] = "And of the restaurant?"
    assert known_thing(turns_of(before, turn("SYSTEM", "-"), asked)[1]) == ""


def check_dialogues(dialogues, verbatim):
    """The laws of the set; ``verbatim`` is the largest share of turns that hold the original as it was."""
    kind = Verbose(seed=1)
    counts = Counter()
    for one in dialogues:
        turns = list(user_turns(typed(one)))
        new_values = set()
        made = kind.vary_all(turns)
        for before, after in zip(turns, made, strict=True):
            counts["turns"] += 1
            if not after.operations:
                continue
            text, new = before.utterance, after.utterance
            long, short = len(new), len(text)
            assert 1.3 * short <= long <= max(3 * short, 50), (text, new)
            assert [new[slice(*place)] for place in after.places] == [text[slice(*place)] for place in before.ranges]
            assert (affirms(new), denies(new)) == (affirms(text), denies(text)), (text, new)
            known = {value for value in before.values if value_ranges(text, [value])}
            state = before.before.frames if before.before else ()
            known |= {v.lower() for f in state if f.state for vs in f.state.slot_values.values() for v in vs}
            new_values |= {v for v in before.values if len(v) > 3 and v not in known and value_ranges(new, [v])}
            counts["changed"] += 1
            counts["verbatim"] += text.strip(" .!?").lower() in new.lower()
            counts["same"] += sum(new == other.utterance for other in made) > 1
        counts["dialogues with a new value"] += bool(new_values)
    assert counts["changed"] > 0.95 * counts["turns"]
    assert counts["verbatim"] <= verbatim * counts["changed"]
    assert (counts["same"], counts["dialogues with a new value"]) == (0, 0)


def test_dialogues_of_the_sample():
    check_dialogues(sample_dialogues("train") + sample_dialogues("test"), 0.5)  # few of its forms are those of SGD


def test_dialogues_of_sgd(real_data):
    check_dialogues(list(dialogues_of(real_data / "sgd" / "dev").values())[:150], 0.3)


def test_phrases_say_neither_yes_nor_no():
    """A phrase that did would change what the turn means, and be refused each time."""
    text = resources.files("parapet.transforms.perturbations").joinpath("verbose.toml").read_text("utf-8")
    tables = tomllib.loads(text)
    moods = ("ask", "alternatives", "greet", "want", "tell", "agree", "decline", "end")
    phrases = [one for mood in moods for of in tables[mood].values() for one in of]
    assert not [one for one in phrases if denies(one) or affirms(one)]
    assert len({opening(one) for one in phrases}) > 0.6 * len(phrases)


ACTS = ["INFORM", "INFORM_INTENT", "REQUEST", "REQUEST_ALTS", "AFFIRM", "NEGATE", "SELECT", "THANK_YOU", "GOODBYE"]


def said(text, acts="", *values, position=0, wrong=()):
    spans = tuple(Span("S_1", "slot", text.index(v), text.index(v) + len(v)) for v in values)
    low = tuple(value.lower() for value in values)
    return UserTurn("1", position, text, spans, low, frozenset(acts.split()), ("S_1",), wrong)


@cases(
    "text acts values simple",
    ("Hi, could you help me find a bus to Fresno?", "INFORM", ("Fresno",), "Find a bus to Fresno."),
    ("I would prefer to see the show, if possible.", "INFORM", (), "I want to see the show."),
    ("I'm looking for a Thai place?", "INFORM", ("Thai",), "I want a Thai place."),
    ("Could you tell me their rules and fees?", "REQUEST", (), "What are their rules and fees?"),
    ("I was wondering if you could find one. Please go ahead and book it.", "INFORM", (), "Find one. Book it."),
    ("Yes please, on the 10th.", "AFFIRM INFORM", ("the 10th",), "Yes, on the 10th."),
    ("Yes, please, on the 10th.", "AFFIRM INFORM", ("the 10th",), "Yes, on the 10th."),
    ("That one sounds perfect.", "SELECT", (), "Perfect."),
    ("Cool. That will be it. Thanks. Bye!", "GOODBYE SELECT", (), "Cool, thanks, bye."),
    ("No, that is all.", "NEGATE THANK_YOU", (), "No, thanks."),
    ("That's good. That's all I need for now.", "GOODBYE SELECT", (), "Good, that's all."),
    ("Thanks a lot, I'm all set for today.", "GOODBYE THANK_YOU", (), "Thanks, that's all."),
    ("Yes, that is right. How much is it?", "AFFIRM REQUEST", (), "Yes. How much is it?"),
    ("Hello there! I want fish.", "INFORM", (), "I want fish."),
    ("sounds good to me", "SELECT", (), "good"),
    ("Thanks! Book it at 7 p.m. Can you help me?", "INFORM", ("7 p.m.",), "Book it at 7 p.m."),
    ("Please wait, I will be leaving on Monday.", "INFORM", ("Monday",), "Wait, I'll be leaving on Monday."),
)
def test_simple(text, acts, values, simple):
    assert edited(text, simple_operations(said(text, acts, *values))[0]) == simple


@cases(
    "text acts values",
    ("Yes, but make it Monday.", "AFFIRM", ()),
    ("Okay. I will look into it.", "GOODBYE SELECT", ()),
    ("Thank you, and off I go.", "GOODBYE THANK_YOU", ()),
    ("What is the movie about?", "REQUEST", ()),
    ("hey there", "INFORM", ()),
    ("I want to get a cab and am fine with sharing.", "INFORM", ()),
    ("I would like to know if it is far.", "REQUEST", ()),
    ("I will be leaving on Monday.", "INFORM", ("Monday",)),
    ("What is the address and do they serve wine?", "REQUEST", ()),
    ("Please Please Me", "INFORM", ("Please Please Me",)),
    ("I want to Believe", "INFORM", ("I want to Believe",)),
    ("?!", "INFORM", ()),
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
    turn = UserTurn("1", 0, text, spans, ("fresno", "that"), frozenset(acts), ("S_1",), ())
    made = (Typos(perturb_values=perturb_values) if kind == "typos" else KINDS[kind]()).vary(turn)
    slots = [{"slot": span.slot, "start": span.start, "exclusive_end": span.end} for span in spans]
    new = write_into(kit.turn("USER", text, {"slots": slots}), made)
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
