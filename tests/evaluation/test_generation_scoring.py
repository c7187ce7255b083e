"""Scoring of utterances from acts: references, entailment by rules and by a model, SGSAcc (Chen, Lin and Byrne 2023).

The paper's example sentences and tables are there, and small corpora by hand. The judge of entailment is mostly a table
that tells what to say; its judgements are remembered in a file.
"""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, json_of, lacking, raised, write
from tiny_checkpoints import save_roberta

from parapet.evaluation.generation import corpus, scoring
from parapet.evaluation.generation import task as totals
from parapet.evaluation.generation.corpus import Act, Candidate, Corpus, Prediction, SystemTurn, references
from parapet.evaluation.generation.lexical import Lexical
from parapet.evaluation.sets import ALL, ORIGINAL
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SplitSchemas
from parapet.schemas.service import Intent, Service, Slot


def act(name, slot="", *values, kind="free", service="S_1"):
    return Act(service, name, slot, values, values, kind if slot else "none")


def words(domain="", /, **described):
    slots = {name: corpus.Words(name.replace("_", " "), description) for name, description in described.items()}
    return corpus.ServiceWords(slots, {"ReserveTable": corpus.Words("reserve table", "Reserve a table")}, domain)


def boolean(slot, value):
    return act("INFORM", slot, value, kind="boolean")


NEUTRAL = (0.1, 0.8, 0.1)
CITY = corpus.ServiceWords({"city": corpus.Words("city", "the city")}, {})
OSLO, ROME, BYE = act("INFORM", "city", "Oslo"), act("INFORM", "city", "Rome"), act("GOODBYE")


class Table:
    """Entailment as a table has it, by premise and hypothesis; what is in none is neutral."""

    name, model, joint = "table", "1", "|"

    def __init__(self, **entailed):
        self.entailed = {tuple(key.split(" => ")): value for key, value in entailed.items()}
        self.asked: list[scoring.Pair] = []

    def entailment(self, pairs):
        self.asked += pairs
        found = [self.entailed.get(pair, 0.0) for pair in pairs]
        return [(one, (1 - one) * 0.7, (1 - one) * 0.3) if one else NEUTRAL for one in found]


def validated(table, other=ROME):
    negatives = references(other, CITY) if other else ()
    premises = scoring.premises_of(OSLO, "where?", CITY, "|", "in Oslo")
    return scoring.validate([(premises, references(OSLO, CITY), negatives)], table)[0]


def test_the_most_entailed_candidate_is_the_reference():
    table = Table(**{"in Oslo => the city is Oslo": 0.6, "in Oslo => city is Oslo": 0.9})
    assert validated(table) == scoring.Validated("city is Oslo", "utterance", False)
    assert ("where?|the city.|in Oslo", "city is Oslo") not in table.asked  # it was not needed
    equal = Table(**{"in Oslo => the city is Oslo": 0.9, "in Oslo => city is Oslo": 0.9})
    assert validated(equal).reference == "the city is Oslo"


TURNS = (
    SystemTurn("1", 1, "in Oslo", "where?", (OSLO, BYE)),
    SystemTurn("1", 3, "bye", "thanks", (BYE,)),
    SystemTurn("2", 1, "in Rome", "where?", (ROME,)),
    SystemTurn("2", 3, "", "x", ()),
)
CITIES = {("S_1", "city"): (("Oslo", "Oslo"), ("Rome", "Rome"))}
CORPUS = Corpus("dev", TURNS, {ORIGINAL: {"S_1": CITY}}, CITIES, frozenset())
TRUTH = {
    "in Oslo => city is Oslo": 0.9,
    "in Rome => city is Rome": 0.9,
    "in Rome => city is Oslo": 0.8,  # so that this act is not valid
    "bye => Bye bye.": 0.9,
    "OSLO bye => city is Oslo": 0.7,
    "OSLO bye => Bye bye.": 0.7,
    "where?|the city.|there => city is Oslo": 0.6,
}


SAID = [("1", 1, "there"), ("1", 3, "bye"), ("2", 1, "no"), ("2", 3, "")]
PREDICTIONS = {(name, turn): Prediction(name, turn, text) for name, turn, text in SAID}


def test_the_numbers_of_a_small_corpus_by_hand():
    scores = scoring.evaluate(CORPUS, PREDICTIONS, Table(**TRUTH))
    # Oslo is said with the turn before; GOODBYE of the first turn has no reference that is entailed; Rome is not valid.
    assert [one.outcome for one in scores.acts] == ["faithful", "no_reference", "faithful", "tampered_entailed"]
    scored = totals.scored_set(CORPUS, scores)
    assert [one.outcome for one in scored.turns] == ["not_valid", "faithful", "not_valid", None]
    metrics = totals.metrics_of({"": scored})
    bleu = metrics[ALL].pop("bleu")
    assert metrics[ALL] == {
        "sgsacc": 1.0,
        "sgsacc_all": 1 / 3,
        "sgsacc_utterance_alone": 1.0,
        "sgsacc_acts": 1.0,
        "sgsacc_acts_all": 0.5,
        "slot_error_rate": 0.5,  # "there" and "no" lack their city; two turns have no value
    }
    assert bleu == totals.corpus_bleu(["there", "bye", "no", ""], ["in Oslo", "bye", "in Rome", ""])[0]
    assert metrics[totals.UNSEEN_SERVICES]["sgsacc"] == metrics[totals.UNSEEN_DOMAINS]["sgsacc"] == 1.0
    covered = totals.coverage(scored.turns)
    assert [covered["turns"][name] for name in ("turns", "valid", "slot_error_rate")] == [3, 1, 2]
    acts = covered["acts"]
    assert [acts[name] for name in ("acts", "entailed", "valid")] == [4, 3, 2]
    f1 = totals.tampered_f1(scores.checks[ORIGINAL])
    assert (f1["true_entailed"], f1["tampered_entailed"], f1["acts"]) == (2, 1, 2)
    assert (f1["precision"], f1["recall"], f1["f1"]) == (pytest.approx(2 / 3), 1.0, pytest.approx(0.8))


def test_without_validation_no_tampered_value_is_asked():
    table = Table(**TRUTH)
    scores = scoring.evaluate(CORPUS, PREDICTIONS, table, validation=False)
    assert [one.outcome for one in scores.acts] == ["faithful", "unfaithful", "faithful", "unfaithful"]
    assert not [pair for pair in table.asked if pair == ("in Rome", "city is Oslo")]


def chosen(*candidates):
    """The choice among candidates for the first turn; the others have one."""
    every = {turn.place: (Candidate(turn.utterance, 0.0),) for turn in CORPUS.turns} | {("1", 1): candidates}
    return scoring.choose(CORPUS.turns, every, CORPUS.words[ORIGINAL], Table(**TRUTH))["1", 1]


def test_the_most_faithful_candidate_is_chosen_then_the_likeliest_then_the_first():
    some = (Candidate("there", -0.1), Candidate("OSLO bye", -9.0), Candidate("OSLO bye", -8.0), Candidate("bye", 0.0))
    assert chosen(*some) == "OSLO bye"
    # One point each, so the likelihood decides; of equal ones the first is taken.
    assert chosen(Candidate("there", -0.2), Candidate("bye", -0.1), Candidate("there", -0.1)) == "bye"


def test_values_missing():
    acts = [
        Act("S_1", "OFFER", "name", ("The Opa", "Zen"), ("The Opa", "Zen"), "free"),
        Act("S_1", "INFORM", "price", ("cheap",), ("cheap",), "categorical"),
        Act("S_1", "INFORM_COUNT", "count", ("3",), ("3",), "marker"),
        Act("S_1", "REQUEST", "city", (), (), "free"),
    ]
    assert totals.missing_values(acts, "the opa and ZENITH") == []  # a substring, whatever its case
    assert totals.missing_values(acts, "Opa or Zen") == [("name", "The Opa")]
    assert totals.missing_values(acts, "") == [("name", "The Opa"), ("name", "Zen")]


@pytest.mark.parametrize("premise", ["in Oslo", "where?|the city.|in Oslo"])
def test_a_tampered_reference_must_not_be_entailed(premise):
    table = Table(**{"in Oslo => city is Oslo": 0.9, f"{premise} => the city is Rome": 0.6})
    found = validated(table)
    assert (found.premise, found.tampered, found.valid) == ("utterance", True, False)
    assert validated(table, None).valid  # without validation it is not asked


# Section 2, Appendices B and D: the candidates.


FLIGHT = "Flights", "is_nonstop", "Whether the flight is a direct one"  # Flights_4 of SGD
BUS = "Buses", "additional_luggage", "Whether to carry excess baggage in the bus"  # Buses_3
OF_BUS = [f"{verb} additional luggage" for verb in ("Has no", "Is not", "Does not")]


@cases(
    "element truth wanted",
    (FLIGHT, "a flight with a layover", ["is nonstop? No.", "is not nonstop", "Flights is not nonstop"]),
    (BUS, "2 tickets on a bus departing on March 5th at 6:40 am?", ["additional luggage? No.", *OF_BUS]),
)
def test_instances_of_appendix_d_fail_the_validation(element, truth, wanted):
    domain, slot, description = element
    described, of = words(domain, **{slot: description}), boolean(slot, "False")
    candidates = references(of, described, "paper")
    assert [*candidates] == [f"{description}? No.", *wanted]
    premises = scoring.premises_of(of, "", described, " ", truth)
    (found,) = scoring.validate([(premises, candidates, ())], Table())  # "none of them yields entailment"
    assert not found.valid


def test_kids_friendly_of_section_2():
    described = words(kids_friendly="Whether the place is kids friendly")
    found = references(boolean("kids_friendly", "True"), described, "paper")
    # In the running text the second has a full stop, in Appendix D none.
    assert not lacking(found, "Whether the place is kids friendly? Yes.", "Is kids friendly")


# Section 2.1: Figure 1.


def test_parts_of_the_premise_are_sentences():
    before, stylist = "I want to book a hair cut", words(name="the name of the hair stylist")
    of_queens = scoring.premises_of(act("INFORM", "name", "Queens"), before, stylist, " ", "What about Queens?")
    assert of_queens[1][1] == f"{before}. the name of the hair stylist. What about Queens?"
    assert scoring.premises_of(BYE, "Thanks!", stylist, " ", "Bye")[1][1] == "Thanks! Bye"


# Section 2: what counts as faithful, what enters; section 2.2: coverage and agreement.

CHEAP = boolean("cheap", "True")
CHEAP_TURNS = (
    SystemTurn("1", 1, "cheap in Oslo", "where?", (OSLO, CHEAP)),
    SystemTurn("1", 3, "bye", "thanks", (BYE,)),
    SystemTurn("2", 1, "it is cheap", "where?", (CHEAP, BYE)),
    SystemTurn("2", 3, "hm", "x", ()),
)


@cases("whole seen unseen", (97.3, 98.6, 88.7), (96.5, 97.8, 87.7), (98.5, 98.7, 97.0), (97.9, 98.2, 96.4))
def test_table_1_has_13_percent_of_turns_of_unseen_domains(whole, seen, unseen):
    """In the rows of FT and PT: 870 turns of another service of a domain that training has, and 130 of another."""
    turns, valid = [], scoring.Validated("city is Oslo", "utterance", False)
    for service, n, faithful in (("Hotels_4", 870, seen), ("Alarm_1", 130, unseen)):
        one = act("INFORM", "city", "Oslo", service=service)
        for i in range(n):
            premise = "utterance" if i < round(n * faithful / 100) else None
            turn = SystemTurn(service, i, "x", "", (one,))
            turns.append(totals.ScoredTurn(turn, "x", (scoring.ScoredAct(turn, one, True, valid, premise),)))
    scored = Corpus("test", tuple(one.turn for one in turns), {}, {}, frozenset({"Hotels_1"}))
    found = totals.metrics_of({"": totals.ScoredSet(scored, turns, {})})
    assert found[totals.SEEN_DOMAINS]["sgsacc"] == pytest.approx(seen / 100, abs=0.001)
    assert found[totals.UNSEEN_DOMAINS]["sgsacc"] == pytest.approx(unseen / 100, abs=0.004)
    assert totals.SEEN_SERVICES not in found  # Hotels_4 is another service of a domain that was seen
    assert found[ALL]["sgsacc"] == pytest.approx(whole / 100, abs=0.0012)


@cases(
    "utterance same",
    ("cheap in Oslo", 1),
    ("it is in Oslo", 1),  # slot error rate does not see that it is cheap, and its act is on no free slot
    ("there", 1),  # both say that it is wrong
    ("Oslo it is", 0),  # has the value, and is not in the table
)
def test_agreement_with_slot_error_rate(utterance, same):
    table = {"cheap in Oslo => City is Oslo": 0.9, "cheap in Oslo => Is cheap": 0.9, "bye => Bye bye.": 0.9}
    table |= {"it is cheap => Is cheap": 0.9, "it is in Oslo => City is Oslo": 0.9}
    described = words("S", city="City", cheap="Whether it is cheap")
    cheap = Corpus("test", CHEAP_TURNS, {ORIGINAL: {"S_1": described}}, {}, frozenset())
    said = {turn.place: Prediction(*turn.place, "") for turn in CHEAP_TURNS}
    said |= {("1", 1): Prediction("1", 1, utterance), ("1", 3): Prediction("1", 3, "bye")}
    found = totals.agreement(totals.scored_set(cheap, scoring.evaluate(cheap, said, Table(**table))).turns)
    assert found == {"turns": 1, "same": same, "share": same}


# Judgements that are remembered: during a run, and in a file that an interrupted run may have left.


class Counting:
    name, joint = "counting", " "

    def __init__(self, model="1"):
        self.model, self.asked = model, list[scoring.Pair]()

    def entailment(self, pairs):
        self.asked += pairs
        return [(len(a) / 100, len(b) / 100, 1 / 3) for a, b in pairs]


ASKED = [("premise one", "a"), ("p", "hypothesis"), ("premise one", "a"), ("p", "é\ud800")]


def test_the_file_serves_the_next_run_to_the_last_bit(tmp_path):
    path = str(tmp_path / "judgements")
    first = scoring.Cached(Counting(), path).entailment(ASKED)
    inner, other = Counting(), Counting("2")
    assert (scoring.Cached(inner, path).entailment(ASKED), inner.asked) == (first, [])
    scoring.Cached(other, path).entailment(ASKED)  # another model is asked itself
    assert len(other.asked) == 3


def test_what_was_judged_before_an_interruption_is_kept(tmp_path):
    class Stopping(Counting):
        def entailment(self, pairs):
            if self.asked:
                raise KeyboardInterrupt
            return super().entailment(pairs)

    path, pairs = str(tmp_path / "judgements"), [("premise", str(i)) for i in range(300)]
    raised(KeyboardInterrupt, scoring.Cached(Stopping(), path).entailment, pairs)
    rest = Counting()
    assert scoring.Cached(rest, path).entailment(pairs) == Counting().entailment(pairs)
    assert len(rest.asked) == 300 - 256


def test_a_file_of_something_else_is_left_alone(tmp_path):
    path = write(tmp_path / "said.jsonl", '{"dialogue_id": "1"}\n' * 100)
    raised(InputError, scoring.Cached, Counting(), str(path), match="--cache: cannot be used to keep judgements")
    assert path.read_text() == '{"dialogue_id": "1"}\n' * 100
    raised(InputError, scoring.Cached, Counting(), str(tmp_path / "none" / "judgements"), match="unable to open")


# What an act is said by: our own rules, words of variants, tampered values.

RESTAURANTS = Service(
    "Restaurants_1",
    "Find restaurants",
    [
        Slot("city", "City in which the restaurant is located"),
        Slot("restaurant_name", "Name of the restaurant."),
        Slot("has_live_music", "Whether the restaurant has live music", True, ["True", "False"]),
        Slot("is_busy", "Is it busy?", True, ["False", "True"]),
        Slot("serves_alcohol", "Whether alcohol is served", True, ["True", "False"]),
        Slot("price_range", "Price range", True, ["cheap", "pricey"]),
    ],
    [Intent("ReserveTable", "Reserve a table at a restaurant"), Intent("FindBars", "Find bars")],
)
WORDS = corpus.words_of(RESTAURANTS)
KINDS = {slot.name: corpus.kind_of(slot) for slot in RESTAURANTS.slots}


def an_act(act, slot="", *values, canonical=(), intent=""):
    kind = KINDS.get(slot, "marker") if slot else "none"
    return Act("Restaurants_1", act, slot, values, canonical or values, kind, intent)


@given(
    st.sampled_from([*corpus.PHRASES, "INFORM", "OFFER", "REQUEST", "INFORM_COUNT", "OFFER_INTENT", "WHATEVER"]),
    st.sampled_from(["", "intent", "count", "strange", *KINDS]),
    st.lists(st.text(max_size=8), max_size=3),
)
def test_every_act_has_references(act, slot, values):
    for rules in ("paper", "extended"):
        found = references(an_act(act, slot, *values), WORDS, rules)
        assert found
        assert len(set(found)) == len(found)


def a_variant(**changed):
    slots = [Slot(f"{slot.name}_v", f"v {slot.description}", slot.is_categorical, slot.possible_values)
             for slot in RESTAURANTS.slots]  # fmt: skip
    intents = [Intent(f"V{intent.name}", f"V {intent.description}") for intent in RESTAURANTS.intents]
    fields = {"service_name": "Restaurants_11", "slots": slots, "intents": intents, **changed}
    return SplitSchemas("train", "schema.json", [], [Service(description="", **fields)])


def test_a_variant_says_it_in_its_own_words():
    words = corpus.varied_words([RESTAURANTS], [a_variant()], "v1")["Restaurants_1"]
    assert words.slot("city") == corpus.Words("city v", "v City in which the restaurant is located")
    said = ("v City in which the restaurant is located is Oslo", "city v is Oslo")
    assert references(an_act("INFORM", "city", "Oslo"), words) == said
    offer = an_act("OFFER_INTENT", "intent", "FindBars")
    assert references(offer, words)[0] == "Offer to V Find bars"
    assert (references(offer, words, "paper"), words.domain) == (("intent is vfind bars",), "Restaurants")


@cases(
    "changed said",
    ({"service_name": "Hotels_11"}, "v1 has no variant of service 'Restaurants_1'"),
    ({"slots": []}, "v1: service 'Restaurants_11' has 0 slots, the original 6"),
)
def test_a_variant_that_does_not_match(changed, said):
    raised(InputError, corpus.varied_words, [RESTAURANTS], [a_variant(**changed)], "v1", match=said)


@cases(
    "name description wanted",
    ("good_for_kids", "Whether the place is good for kids", ["It is not true that the place is good for kids."]),
    ("pets", "Boolean flag indicating whether or not pets may enter", ["It is not true that pets may enter."]),
    ("is_redeye", "Is the flight a red-eye?", ["It is not redeye."]),
    ("is_alcohol_served", "Is alcohol served?", []),  # "It is not alcohol served."
    ("add_bags", "Whether to carry bags", []),
    ("no_cost", "Whether entry is free or if there is a cost", []),
    ("refundable", "Whether the booking is refundable or not", []),
    ("wifi_yes_no", "Wifi availability", []),
)
def test_no_sentence_is_broken_english(name, description, wanted):
    described = corpus.words_of(Service("Places_1", "", [Slot(name, description, True, ["True", "False"])], []))
    denied = Act("Places_1", "INFORM", name, ("False",), ("False",), "boolean")
    assert list(references(denied, described, "extended"))[2:] == wanted


POOLS = {
    ("Restaurants_1", "city"): (("NYC", "New York"), ("New York", "New York"), ("Oslo", "Oslo"), ("oslo!", "Oslo")),
    ("Restaurants_1", "price_range"): (("cheap", "cheap"), ("pricey", "pricey")),
    ("Restaurants_1", "<count>"): (("1", "1"),),
    ("Restaurants_1", "<intent>"): (("FindBars", "FindBars"), ("ReserveTable", "ReserveTable")),
}


def test_tampered_values_are_others_of_the_slot():
    def tampered(*values, seed="0", **more):
        return corpus.tampered(an_act(*values, **more), POOLS, seed)

    for seed in "0123456789":
        assert tampered("INFORM", "city", "Oslo", seed=seed).values[0] in ("NYC", "New York")
        from_nyc = tampered("INFORM", "city", "NYC", seed=seed, canonical=("New York",))
        assert from_nyc.values[0] in ("Oslo", "oslo!")  # "New York" is the same city
    assert tampered("OFFER", "price_range", "cheap").values == ("pricey",)
    for value, other in (("True", "False"), ("False", "True"), ("false", "True")):
        assert tampered("INFORM", "is_busy", value).values == (other,)
    offered = tampered("OFFER_INTENT", "intent", "FindBars")
    assert references(offered, WORDS)[0] == "Offer to reserve a table at a restaurant"


# The lexical scorer: what its rules see, and what they do not.

CLASSES = ("entailment", "neutral", "contradiction")


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
    (judgement,) = Lexical().entailment([(premise, hypothesis)])
    assert CLASSES[judgement.index(max(judgement))] == wanted


FORMS = ["Request x", "x? Yes.", "x? No.", "It is not x.", "There are 5 results.", "a is b", " is ", "\n"]
TEXTS = st.text(max_size=40) | st.sampled_from(FORMS)


@given(TEXTS, TEXTS)
def test_any_texts_have_a_judgement(premise, hypothesis):
    first, second = Lexical().entailment([(premise, hypothesis), (premise, hypothesis)])
    assert (first, sum(first)) == (second, pytest.approx(1))
    assert all(0 <= one <= 1 for one in first)


# Entailment by a model in a folder: a tiny RoBERTa that is made here. Its labels stand where its config.json says.

PAIRS = [
    ("How about Opa?", "Name of the restaurant is Opa"),
    ("Which city? " * 40, "Request City of the restaurant"),  # longer than the model takes
    ("", "Goodbye."),
    ("Do they have live music? Yes, they do.", "has live music? Yes."),
]


@pytest.fixture(scope="module")
def roberta(tmp_path_factory):
    pytest.importorskip("transformers", reason="the extra 'models' is not installed")
    return save_roberta(tmp_path_factory.mktemp("nli") / "roberta")


def test_each_pair_is_judged_as_alone(roberta):
    nli = scoring.Nli(str(roberta), batch=3)
    together = nli.entailment(PAIRS)
    for pair, judgement in zip(PAIRS, together, strict=True):
        (alone,) = nli.entailment([pair])
        assert (alone, sum(judgement)) == (pytest.approx(judgement, abs=1e-5), pytest.approx(1))
    assert len({max(range(3), key=one.__getitem__) for one in together} | {round(one[0], 3) for one in together}) > 2
    assert nli.entailment(PAIRS[::-1]) == together[::-1]  # the order of asking decides nothing
    assert nli.entailment([]) == []
    raised(InputError, scoring.Nli, str(roberta), batch=0, match="--batch: 0: must be 1 or more")


@cases(
    "without config said",
    (("config.json",), {}, "has no config.json, so it contains no model; Parapet does not download models"),
    (("model.safetensors",), {}, "has no weights (model.safetensors or pytorch_model.bin)"),
    (("tokenizer.json", "merges.txt"), {}, "lacks the files of a tokenizer (tokenizer.json or vocab.json, merges.txt"),
    ((), {"architectures": ["RobertaForMaskedLM"]}, "contains a RobertaForMaskedLM: expected a classifier of text"),
    ((), dict(enumerate(("LABEL_0", "LABEL_1"))), "its labels are LABEL_0, LABEL_1: id2label in config.json must map"),
    ((), {0: "entailment", 1: "neutral", 7: "contradiction"}, "its labels are entailment, neutral, contradiction: "),
)
def test_folders_that_cannot_be_used(roberta, tmp_path, without, config, said):
    copy = Path(shutil.copytree(roberta, tmp_path / "copy"))
    changed = {"id2label": config} if 0 in config else config
    write(copy / "config.json", json_of(copy / "config.json") | changed)
    for name in without:
        (copy / name).unlink()
    error = raised(InputError, scoring.Nli, str(copy))
    assert error.reason.startswith(said)
    assert error.path.startswith(str(copy))


def test_a_model_that_cannot_be_loaded(roberta, tmp_path):
    """Of weights that are none, or half of them."""
    from safetensors.torch import load, save

    copy = Path(shutil.copytree(roberta, tmp_path / "copy"))
    weights = load((copy / "model.safetensors").read_bytes())
    half = {key: one for key, one in weights.items() if "out_proj" not in key}
    for data in (b"no weights", save(half, metadata={"format": "pt"})):
        (copy / "model.safetensors").write_bytes(data)
        error = raised(InputError, scoring.Nli(str(copy)).entailment, PAIRS)
        assert (error.path, "\n" in error.reason) == (str(copy), False)


def test_its_name_follows_the_files_that_count(roberta, tmp_path):
    copy = Path(shutil.copytree(roberta, tmp_path / "roberta"))
    assert scoring.Nli(str(copy)).model == scoring.Nli(str(roberta)).model
    (copy / "README.md").write_text("not read")
    assert scoring.Nli(str(copy)).model == scoring.Nli(str(roberta)).model
    data = bytearray((copy / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (copy / "model.safetensors").write_bytes(data)
    assert scoring.Nli(str(copy)).model != scoring.Nli(str(roberta)).model
