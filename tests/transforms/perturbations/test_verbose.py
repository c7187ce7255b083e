"""Turns in more words: what they say stays, and no dialogue repeats itself."""

import re
import tomllib
from collections import Counter
from importlib import resources

import pytest

from parapet.schemas.dialogue import typed
from parapet.transforms.perturbation.user_turns import user_turns, value_ranges
from parapet.transforms.perturbations.gate import affirms, denies
from parapet.transforms.perturbations.variations import Verbose
from parapet.transforms.perturbations.verbose import known_thing, opening, verbose
from tests.kit import dialogue, dialogues_of, sample_dialogues, turn


def user(text, *acts, **slots):
    """A turn of the user's: values of slots that it says."""
    spans = [
        {"slot": slot, "start": text.index(value), "exclusive_end": text.index(value) + len(value)}
        for slot, value in slots.items()
    ]
    state = {"active_intent": "Find", "requested_slots": [], "slot_values": {k: [v] for k, v in slots.items()}}
    actions = [{"act": act, "slot": "", "values": []} for act in acts]
    return turn("USER", text, {"service": "Restaurants_1", "slots": spans, "actions": actions, "state": state})


def turns_of(*turns):
    return list(user_turns(typed(dialogue("1", *turns))))


def made_of(text, *acts, **slots):
    """What twenty seeds make of a turn."""
    (one,) = turns_of(user(text, *acts, **slots))
    return {Verbose(seed=seed).vary(one).utterance for seed in range(20)}


@pytest.mark.parametrize(
    ("text", "acts", "slots", "pattern"),
    [
        # A request in a longer frame, with its own words.
        ("Find me a table in Fresno.", "INFORM_INTENT", {"city": "Fresno"}, r".* a table in Fresno\b.*[.?]"),
        ("What's the address?", "REQUEST", {}, r".*\bthe address.*[.?]"),
        ("Do they deliver to the door?", "REQUEST", {}, r".*\bthey deliver to the door[.?].*"),
        ("When does it open", "REQUEST", {}, r".*\bwhen it opens.*"),
        # An answer as a whole sentence that answers what was asked.
        ("Yes.", "AFFIRM", {}, r"Yes, .*\."),
        ("Yes!", "AFFIRM_INTENT", {}, r"Yes, .*!"),
        ("No", "NEGATE_INTENT", {}, r"No, .*"),
        ("No. Make it for two.", "NEGATE INFORM", {}, r"No[., ].*\b[mM]ake it for two\b.*"),
        ("Thank you.", "THANK_YOU", {}, r"(?:Thank|I ).*\."),
        # A piece becomes a sentence.
        ("Fresno, please.", "INFORM", {"city": "Fresno"}, r"(?=.{15}).*\bFresno\b.*\."),
        ("In Fresno", "INFORM", {"city": "Fresno"}, r"(?=.{15}).*\bin Fresno\b.*"),
        # A word that leads to another clause stays in front of it.
        ("Yes I want a taxi.", "AFFIRM_INTENT INFORM", {}, r"Yes, .*\b[aA] taxi\b.*"),
    ],
)
def test_turns_in_more_words(text, acts, slots, pattern):
    made = made_of(text, *acts.split(), **slots)
    assert len(made) > 1
    for one in made:
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
    assert counts["same"] == 0
    assert counts["dialogues with a new value"] == 0


def test_dialogues_of_the_sample():
    check_dialogues(sample_dialogues("train") + sample_dialogues("test"), 0.5)  # few of its forms are those of SGD


def test_dialogues_of_sgd(real_data):
    check_dialogues(list(dialogues_of(real_data / "sgd" / "dev").values())[:150], 0.3)


def test_phrases_say_neither_yes_nor_no():
    """A phrase that did would change what the turn means, and be refused each time."""
    text = resources.files("parapet.transforms.perturbations").joinpath("verbose.toml").read_text("utf-8")
    tables = tomllib.loads(text)
    phrases = [
        one for mood in ("ask", "want", "tell", "agree", "decline", "end") for of in tables[mood].values() for one in of
    ]
    assert not [one for one in phrases if denies(one) or affirms(one)]
    assert len({opening(one) for one in phrases}) > 0.6 * len(phrases)
