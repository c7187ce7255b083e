"""Paraphrases by rules: what is drawn for a turn, what no form may do, and the grammar that they need."""

import re
import tomllib
from importlib import resources

from hypothesis import given
from hypothesis import strategies as st
from kit import cases
from test_verbose import said

from parapet.transforms.perturb import english
from parapet.transforms.perturb.paraphrase import rephrased
from parapet.transforms.perturb.user_turns import Span, UserTurn
from parapet.transforms.perturb.variations import Paraphrase

FILE = resources.files("parapet.transforms.perturb").joinpath("paraphrases.toml")
TABLE = tomllib.loads(FILE.read_text(encoding="utf-8"))
VERBS = frozenset(TABLE["verbs"]["events"])

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
    text = '"' + "I have told you all about the house. " * 8 + 'Can you find it?"'
    for new in drawn(text):
        assert new[0] == new[-1] == '"'
        assert new[-2] in "?."
        assert ("?" in new) != any(start in new for start in ("I'd ", "I need ", "Please ", "It would ", "I'm ")), new


def test_a_clause_that_another_follows_asks_only_where_it_asked():
    for new in drawn("I want to see a doctor, is there one in Fresno?", "Fresno"):
        assert new.count("?") == 1
        assert new.endswith("?")


FRAMES = [*TABLE["frames"], *TABLE["embedding"].values()]


def test_no_form_brings_a_value():
    """Numbers, times and money, which a tracker could take for values: none is in a form or a synonym."""
    synonyms = [word for name in ("nouns", "verb_forms", "other_words") for new in TABLE[name].values() for word in new]
    forms = [form for frame in FRAMES for kind in ("to", "longer") for form in frame.get(kind, ())]
    for text in [*forms, *synonyms]:
        assert not VALUES.search(text), text


def test_every_frame_has_other_forms():
    for frame in FRAMES:
        forms = frame.get("to") or frame["longer"]
        assert len(set(forms)) == len(forms) > 1, frame


SAID = """Yes No Thanks please Please can could you I'd I am don't want would like to find book a the what's their is it
address and Hi, Okay . ? ! , that is all good I'm Fresno 7 p.m. when does the show start é 👍🏽 \ud83d \u0301 ｗ \ue000
"quoted" mail@x.org Ελλάδα 東京 I'll be leaving sounds great not sure for two people"""
WORDS = st.one_of(st.sampled_from(SAID.split()), st.text(max_size=4))


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
    endless = said("Yes, I want to find a bus to Fresno, and what is the price? " * 400)
    new = rephrased(endless, b"0").text
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
    assert english.embedded(question, VERBS) == expected


def test_forms_of_verbs():
    doubling = TABLE["verbs"]["doubling"]
    forms = {verb: english.ing_form(verb, doubling) for verb in TABLE["verbs"]["all"]}
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
