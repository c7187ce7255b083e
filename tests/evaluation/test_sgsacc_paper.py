"""The paper of SGSAcc (Chen, Lin and Byrne 2023): each of its example sentences, and the arithmetic of its tables."""

import pytest
from kit import cases

from parapet.evaluation.generation import task as metrics
from parapet.evaluation.generation.corpus import Act, Corpus, Prediction, ServiceWords, SystemTurn, Words, references
from parapet.evaluation.generation.scoring import Premise, ScoredAct, Validated, evaluate, premises_of, validate
from parapet.evaluation.sets import ALL, ORIGINAL


def act(name, slot="", *values, kind="free", service="S_1"):
    return Act(service, name, slot, values, values, kind if slot else "none")


def words(domain="", /, **described):
    slots = {name: Words(name.replace("_", " "), description) for name, description in described.items()}
    return ServiceWords(slots, {"ReserveTable": Words("reserve table", "Reserve a table")}, domain)


def boolean(slot, value):
    return act("INFORM", slot, value, kind="boolean")


class Says:
    """Entailment as a table has it, by premise and hypothesis; what is in none is neutral."""

    name, model, joint = "table", "1", " "

    def __init__(self, *entailed):
        self.entailed = {(premise, hypothesis): share for premise, hypothesis, share in entailed}

    def entailment(self, pairs):
        shares = [self.entailed.get(pair, 0.05) for pair in pairs]
        return [(share, (1 - share) * 0.9, (1 - share) * 0.1) for share in shares]


# Section 2, Appendices B and D: the candidates.


FLIGHT = words("Flights", is_nonstop="Whether the flight is a direct one")  # Flights_4 of SGD
BUS = words("Buses", additional_luggage="Whether to carry excess baggage in the bus")  # Buses_3
APPENDIX_D = [
    (
        FLIGHT,
        boolean("is_nonstop", "False"),
        "I found an American Airlines flight taking off at 4:10 pm with a layover and returning at 1:40 pm. The price "
        "is $449",
        "Whether the flight is a direct one? No. || is nonstop? No. || is not nonstop || Flights is not nonstop",
    ),
    (
        BUS,
        boolean("additional_luggage", "False"),
        "You would like 2 tickets from Anaheim to Las Vegas on a bus departing on March 5th at 6:40 am?",
        "Whether to carry excess baggage in the bus? No. || additional luggage? No. || Has no additional luggage || "
        "Is not additional luggage || Does not additional luggage",
    ),
]


@pytest.mark.parametrize(("described", "of", "truth", "wanted"), APPENDIX_D)
def test_instances_of_appendix_d_fail_the_validation(described, of, truth, wanted):
    candidates = references(of, described, "paper")
    assert " || ".join(candidates) == wanted
    premises = premises_of(of, "", described, " ", truth)
    (found,) = validate([(premises, candidates, ())], Says())  # "none of them yields entailment"
    assert not found.valid


def test_kids_friendly_of_section_2():
    described = words(kids_friendly="Whether the place is kids friendly")
    found = references(boolean("kids_friendly", "True"), described, "paper")
    assert "Whether the place is kids friendly? Yes." in found
    assert "Is kids friendly" in found  # in the running text with a full stop, in Appendix D without


# Section 2.1: Figure 1.

QUEENS = act("INFORM", "name", "Queens")
STYLIST = words(name="the name of the hair stylist")
TRUTH = "What about Queens?"
AUGMENTED = "I want to book a hair cut. the name of the hair stylist. What about Queens?"


def test_parts_of_the_premise_are_sentences():
    assert premises_of(QUEENS, "I want to book a hair cut", STYLIST, " ", TRUTH)[1][1] == AUGMENTED
    assert premises_of(act("GOODBYE"), "Thanks!", STYLIST, " ", "Bye")[1][1] == "Thanks! Bye"


# Section 2: what counts as faithful, what enters; section 2.2: coverage and agreement.

CITY = words("S", city="City", cheap="Whether it is cheap")
OSLO, CHEAP, BYE = act("INFORM", "city", "Oslo"), boolean("cheap", "True"), act("GOODBYE")
TURNS = (
    SystemTurn("1", 1, "cheap in Oslo", "where?", (OSLO, CHEAP)),
    SystemTurn("1", 3, "bye", "thanks", (BYE,)),
    SystemTurn("2", 1, "it is cheap", "where?", (CHEAP, BYE)),
    SystemTurn("2", 3, "hm", "x", ()),
)


def scored(predictions, table, validation=True):
    corpus = Corpus("test", TURNS, {ORIGINAL: {"S_1": CITY}}, {}, frozenset())
    return metrics.scored_set(corpus, evaluate(corpus, predictions, table, validation=validation))


def said(*utterances):
    places = [turn.place for turn in TURNS]
    return {place: Prediction(*place, utterance) for place, utterance in zip(places, utterances, strict=True)}


TABLE = Says(
    ("cheap in Oslo", "City is Oslo", 0.9),
    ("cheap in Oslo", "Is cheap", 0.9),
    ("bye", "Bye bye.", 0.9),
    ("it is cheap", "Is cheap", 0.9),
    ("it is in Oslo", "City is Oslo", 0.9),
)


# The tables.


# SGSAcc of validated instances, and of all: on the whole test set, and for domains seen in training and not.
TABLE_1 = {
    "FT-T5": ((97.3, 98.6, 88.7), (96.5, 97.8, 87.7)),
    "PT-T5": ((98.5, 98.7, 97.0), (97.9, 98.2, 96.4)),
    "PT+FT-T5": ((98.9, 99.5, 97.7), (98.5, 99.1, 97.1)),
}


def faithful_turns(of_seen, of_unseen):
    """870 turns of a domain that training has, in another service of it, and 130 of another: faithful in these shares.

    Args:
      of_seen, of_unseen: in per cent.
    """
    turns = []
    for service, n, share in (("Hotels_4", 870, of_seen), ("Alarm_1", 130, of_unseen)):
        one = act("INFORM", "city", "Oslo", service=service)
        for i in range(n):
            premise: Premise | None = "utterance" if i < round(n * share / 100) else None
            turn = SystemTurn(service, i, "x", "", (one,))
            valid = Validated("city is Oslo", "utterance", False)
            turns.append(metrics.ScoredTurn(turn, "x", (ScoredAct(turn, one, True, valid, premise),)))
    corpus = Corpus("test", tuple(one.turn for one in turns), {}, {}, frozenset({"Hotels_1"}))
    return metrics.ScoredSet(corpus, turns, {})


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("system", TABLE_1)
def test_table_1_has_13_percent_of_turns_of_unseen_domains(system, column):
    """In the rows of FT and PT; in that of the ensemble "all" is not a mean of both."""
    whole, seen, unseen = TABLE_1[system][column]
    found = metrics.metrics_of({"": faithful_turns(seen, unseen)})
    assert found[metrics.SEEN_DOMAINS]["sgsacc"] == pytest.approx(seen / 100, abs=0.001)
    assert found[metrics.UNSEEN_DOMAINS]["sgsacc"] == pytest.approx(unseen / 100, abs=0.004)
    assert metrics.SEEN_SERVICES not in found  # Hotels_4 is another service of a domain that was seen
    of_all = found[ALL]["sgsacc"]
    assert of_all is not None
    assert (abs(100 * of_all - whole) < 0.12) == (system != "PT+FT-T5")


@cases(
    "utterance same",
    ("cheap in Oslo", 1),
    ("it is in Oslo", 1),  # slot error rate does not see that it is cheap, and its act is on no free slot
    ("there", 1),  # both say that it is wrong
    ("Oslo it is", 0),  # has the value, and is not in the table
)
def test_agreement_with_slot_error_rate(utterance, same):
    found = metrics.agreement(scored(said(utterance, "bye", "", ""), TABLE).turns)
    assert found == {"turns": 1, "same": same, "share": same}
