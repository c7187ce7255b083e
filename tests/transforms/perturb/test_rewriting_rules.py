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
from parapet.transforms.perturb import english
from parapet.transforms.perturb.paraphrase import rephrased
from parapet.transforms.perturb.rewrites import affirms, denies
from parapet.transforms.perturb.simple import simplified
from parapet.transforms.perturb.user_turns import Span, UserTurn, user_turns
from parapet.transforms.perturb.variations import KINDS, Paraphrase, Typos, Verbose, write_into


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


SAID = """Yes No Thanks please Please can could you I'd I am don't want would like to find book a the what's their is it
address and Hi, Okay . ? ! , that is all good I'm Fresno 7 p.m. when does the show start é 👍🏽 \ud83d \u0301 ｗ \ue000
"quoted" mail@x.org Ελλάδα 東京 I'll be leaving sounds great not sure for two people"""
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


# Paraphrases by rules: what is drawn for a turn, what no form may do, and the grammar that they need.


FILE = resources.files("parapet.transforms.perturb").joinpath("paraphrases.toml")
TABLE = tomllib.loads(FILE.read_text(encoding="utf-8"))

# Written anew, not those of the rules: words that turn what a sentence says into its opposite.
NO = re.compile(r"\b(?:no|not|nope|nah|never|nothing|without|cannot)\b|n['’]t\b", re.IGNORECASE)
YES = re.compile(r"\b(?:yes|yeah|yep|yup|okay|ok|alright|all right)\b", re.IGNORECASE)

VALUES = re.compile(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|dozen|couple|single|double|half|noon|(?:to)?night"
    r"|morning|afternoon|evening|today|tomorrow|week|weekend|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|dollars?|free|cheap|moderate)\b"
)


def drawn(text, *values):
    """All that is drawn for a turn; the turn itself where it stays as it is."""
    turn = said(text, *values)
    return {rephrased(turn, b"%d" % n).text or text for n in range(200)}


@cases(
    "text values expected",
    (
        "Yes, when does the show start?",
        (),
        {
            f"{yes}, {question}"
            for yes in ("Yeah", "Yep", "Yes indeed")
            for verb in ("starts", "begins")
            for question in (
                *(f"{ask} when the show {verb}?" for ask in ("could you tell me", "do you know", "may I ask")),
                *(f"{ask} know when the show {verb}?" for ask in ("would you happen to", "can you let me")),
                *(f"{tell} when the show {verb}." for tell in ("I'd like to know", "please tell me")),
            )
        },
    ),
    (
        "reserve a table at Nopa and call them",
        ("Nopa",),
        {
            f"{start} {verb} a table at Nopa and call them{mark}"
            for start in ("could you", "would you be able to", "would you please", "I'd like you to")
            for mark in ("" if start[0] == "I" else "?",)
            for verb in ("reserve", "book")
        },
    ),
    ("Okay. 2 pm.", ("2 pm",), {"All right. 2 pm.", "Alright then. 2 pm."}),
    ("That won't work.", (), {"That won't work."}),
    ('"Can you help me?"', (), {'"Can you help me?"'}),
)
def test_all_that_is_drawn(text, values, expected):
    assert drawn(text, *values) == expected


@cases("text", "Hi, there!", "Thanks, I really appreciate it.", "Hello there, thanks. Thank you again, bye. Bye!")
def test_greetings_and_thanks_are_not_doubled(text):
    for new in drawn(text):
        for words in ("there", "hi|hello|hey", "thank|grateful|appreciate", "bye"):
            assert len(re.findall(words, new.lower())) <= max(1, len(re.findall(words, text.lower()))), new


def test_a_long_quotation_is_rephrased_inside():
    for new in drawn('"' + "I have told you all about the house. " * 8 + 'Can you find it?"'):
        assert new[0] == new[-1] == '"'
        assert new[-2] in "?."
        assert ("?" in new) != any(start in new for start in ("I'd ", "I need ", "Please ", "It would ", "I'm ")), new


@cases("text", "I want to see a doctor, is there one in Fresno?", "Tell me the fee, and can anyone join?")
def test_a_clause_that_another_follows_asks_only_where_it_asked(text):
    for new in drawn(text, *re.findall("Fresno", text)):
        assert new.count("?") == 1
        assert new.endswith("?")


PARAPHRASES = [*TABLE["frames"], *TABLE["embedding"].values()]


def test_no_form_brings_a_value():
    """Numbers, times and money, which a tracker could take for values: none is in a form or a synonym."""
    synonyms = [word for name in ("nouns", "verb_forms", "other_words") for new in TABLE[name].values() for word in new]
    forms = [form for frame in PARAPHRASES for kind in ("to", "longer") for form in frame.get(kind, ())]
    for text in [*forms, *synonyms]:
        assert not VALUES.search(text), text


def test_every_frame_has_other_forms():
    for frame in PARAPHRASES:
        forms = frame.get("to") or frame["longer"]
        assert len(set(forms)) == len(forms) > 1, frame


@given(st.lists(WORDS, max_size=16), st.sets(st.integers(0, 15), max_size=3), st.integers(0, 99))
def test_values_and_what_is_denied_are_kept(words, valued, seed):
    """Any words, of which some are values: each is at its place, letter for letter; no no comes or goes."""
    text = " ".join(words)
    places, at = [], 0
    for i, word in enumerate(words):
        if i in valued and word.strip():
            places.append((at, at + len(word)))
        at += len(word) + 1
    spans = tuple(Span("S_1", f"slot{i}", *place) for i, place in enumerate(places))
    turn = UserTurn("1", 0, text, spans, (), frozenset(), ("S_1",), ())
    (made,) = Paraphrase(seed=seed).rewrite_all([turn])
    assert [made] == Paraphrase(seed=seed).rewrite_all([turn])
    assert bool(made.text) != bool(made.reason)
    if made.text:
        assert [made.text[slice(*place)] for place in made.places] == [text[slice(*place)] for place in places]
        assert bool(NO.search(made.text)) == bool(NO.search(text))
        assert bool(YES.search(made.text)) == bool(YES.search(text))


def test_a_turn_without_end():
    new = rephrased(said("Yes, I want to find a bus to Fresno, and what is the price? " * 400), b"0").text
    assert new.count("Fresno") == 400
    assert new.count("to find a bus") < 300
    for part in ("can you " * 9_000, "a" * 60_000, "." * 60_000, "no, " * 9_000, " " * 60_000, "7 " * 9_000):
        assert rephrased(said(part), b"0").text is not None


@cases(
    "question expected",
    ("when does it start", "when it starts"),
    ("What time does the last show begin", "What time the last show begins"),
    ("where's the hotel", "where the hotel is"),
    ("which airport do they fly from", "which airport they fly from"),
    ("who is the director of that movie", "who the director of that movie is"),
    ("how much it's costs", None),
    ("what happened", None),
    ("where is the hotel that you found and the bar", None),
)
def test_a_question_inside_another_sentence(question, expected):
    assert english.embedded(question, frozenset(TABLE["verbs"]["events"])) == expected


def test_forms_of_verbs():
    forms = {verb: english.ing_form(verb, TABLE["verbs"]["doubling"]) for verb in TABLE["verbs"]["all"]}
    expected = {"see": "seeing", "make": "making", "get": "getting", "buy": "buying", "give": "giving", "do": "doing"}
    assert ({verb: forms[verb] for verb in expected}, len(set(forms.values()))) == (expected, len(forms))
    thirds = {"have": "has", "be": "is", "go": "goes", "fly": "flies", "play": "plays", "finish": "finishes"}
    assert {verb: english.third_person(verb) for verb in thirds} == thirds


@given(st.lists(WORDS, max_size=16))
def test_sentences_and_clauses_are_the_whole_text(words):
    text = " ".join(words)
    parts = list(english.sentences(text))
    assert "".join("".join(part) for part in parts) == text
    for body, _, _ in parts:
        assert "".join(clause.text + clause.gap for clause in english.clauses(body)) == body


def test_a_second_verb_keeps_its_subject():
    for new in drawn("I want to book a house and would like to check in on Friday.", "Friday"):
        assert re.match(r"I(?:'m| was| need) ", new), new
