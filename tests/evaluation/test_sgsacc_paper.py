"""SGSAcc (Chen, Lin and Byrne 2023): the paper's example sentences and tables, and small corpora by hand.

The judge of entailment is a table that tells what to say; its judgements are remembered in a file.
"""

import pytest
from kit import cases, raised, write

from parapet.evaluation.generation import scoring
from parapet.evaluation.generation import task as totals
from parapet.evaluation.generation.corpus import (
    Act,
    Candidate,
    Corpus,
    Prediction,
    ServiceWords,
    SystemTurn,
    Words,
    references,
)
from parapet.evaluation.generation.task import corpus_bleu, coverage, missing_values, tampered_f1
from parapet.evaluation.sets import ALL, ORIGINAL
from parapet.schemas.errors import InputError


def act(name, slot="", *values, kind="free", service="S_1"):
    return Act(service, name, slot, values, values, kind if slot else "none")


def words(domain="", /, **described):
    slots = {name: Words(name.replace("_", " "), description) for name, description in described.items()}
    return ServiceWords(slots, {"ReserveTable": Words("reserve table", "Reserve a table")}, domain)


def boolean(slot, value):
    return act("INFORM", slot, value, kind="boolean")


NEUTRAL = (0.1, 0.8, 0.1)
CITY = ServiceWords({"city": Words("city", "the city")}, {})
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
    return scoring.validate(
        [(scoring.premises_of(OSLO, "where?", CITY, "|", "in Oslo"), references(OSLO, CITY), negatives)], table
    )[0]


def test_the_most_entailed_candidate_is_the_reference():
    table = Table(**{"in Oslo => the city is Oslo": 0.6, "in Oslo => city is Oslo": 0.9})
    assert validated(table) == scoring.Validated("city is Oslo", "utterance", False)
    assert ("where?|the city.|in Oslo", "city is Oslo") not in table.asked  # it was not needed


def test_the_first_of_equals():
    table = Table(**{"in Oslo => the city is Oslo": 0.9, "in Oslo => city is Oslo": 0.9})
    assert validated(table).reference == "the city is Oslo"


TURNS = (
    SystemTurn("1", 1, "in Oslo", "where?", (OSLO, BYE)),
    SystemTurn("1", 3, "bye", "thanks", (BYE,)),
    SystemTurn("2", 1, "in Rome", "where?", (ROME,)),
    SystemTurn("2", 3, "", "x", ()),
)
CORPUS = Corpus(
    "dev", TURNS, {ORIGINAL: {"S_1": CITY}}, {("S_1", "city"): (("Oslo", "Oslo"), ("Rome", "Rome"))}, frozenset()
)
TRUTH = {
    "in Oslo => city is Oslo": 0.9,
    "in Rome => city is Rome": 0.9,
    "in Rome => city is Oslo": 0.8,  # so that this act is not valid
    "bye => Bye bye.": 0.9,
    "OSLO bye => city is Oslo": 0.7,
    "OSLO bye => Bye bye.": 0.7,
    "where?|the city.|there => city is Oslo": 0.6,
}


def the_predictions(first):
    return {
        ("1", 1): first,
        ("1", 3): Prediction("1", 3, "bye"),
        ("2", 1): Prediction("2", 1, "no"),
        ("2", 3): Prediction("2", 3, ""),
    }


def test_the_numbers_of_a_small_corpus_by_hand():
    scores = scoring.evaluate(CORPUS, the_predictions(Prediction("1", 1, "there")), Table(**TRUTH))
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
    assert bleu == corpus_bleu(["there", "bye", "no", ""], ["in Oslo", "bye", "in Rome", ""])[0]
    assert metrics[totals.UNSEEN_SERVICES]["sgsacc"] == metrics[totals.UNSEEN_DOMAINS]["sgsacc"] == 1.0
    covered = coverage(scored.turns)
    assert [covered["turns"][name] for name in ("turns", "valid", "slot_error_rate")] == [3, 1, 2]
    acts = covered["acts"]
    assert [acts[name] for name in ("acts", "entailed", "valid")] == [4, 3, 2]
    f1 = tampered_f1(scores.checks[ORIGINAL])
    assert (f1["true_entailed"], f1["tampered_entailed"], f1["acts"]) == (2, 1, 2)
    assert (f1["precision"], f1["recall"], f1["f1"]) == (pytest.approx(2 / 3), 1.0, pytest.approx(0.8))


def test_without_validation_no_tampered_value_is_asked():
    table = Table(**TRUTH)
    scores = scoring.evaluate(CORPUS, the_predictions(Prediction("1", 1, "there")), table, validation=False)
    assert [one.outcome for one in scores.acts] == ["faithful", "unfaithful", "faithful", "unfaithful"]
    assert not [pair for pair in table.asked if pair == ("in Rome", "city is Oslo")]


def chosen(*candidates):
    """The choice among candidates for the first turn; the others have one."""
    others = {turn.place: (Candidate(turn.utterance, 0.0),) for turn in CORPUS.turns}
    words = CORPUS.words[ORIGINAL]
    return scoring.choose(CORPUS.turns, {**others, ("1", 1): candidates}, words, Table(**TRUTH))["1", 1]


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
    assert missing_values(acts, "the opa and ZENITH") == []  # a substring, whatever its case
    assert missing_values(acts, "Opa or Zen") == [("name", "The Opa")]
    assert missing_values(acts, "") == [("name", "The Opa"), ("name", "Zen")]


@pytest.mark.parametrize("premise", ["in Oslo", "where?|the city.|in Oslo"])
def test_a_tampered_reference_must_not_be_entailed(premise):
    table = Table(**{"in Oslo => city is Oslo": 0.9, f"{premise} => the city is Rome": 0.6})
    found = validated(table)
    assert (found.premise, found.tampered, found.valid) == ("utterance", True, False)
    assert validated(table, None).valid  # without validation it is not asked


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
    premises = scoring.premises_of(of, "", described, " ", truth)
    (found,) = scoring.validate([(premises, candidates, ())], Table())  # "none of them yields entailment"
    assert not found.valid


def test_kids_friendly_of_section_2():
    described = words(kids_friendly="Whether the place is kids friendly")
    found = references(boolean("kids_friendly", "True"), described, "paper")
    assert "Whether the place is kids friendly? Yes." in found
    assert "Is kids friendly" in found  # in the running text with a full stop, in Appendix D without


# Section 2.1: Figure 1.

QUEENS = act("INFORM", "name", "Queens")
STYLIST = words(name="the name of the hair stylist")
OF_QUEENS = "What about Queens?"
AUGMENTED = "I want to book a hair cut. the name of the hair stylist. What about Queens?"


def test_parts_of_the_premise_are_sentences():
    assert scoring.premises_of(QUEENS, "I want to book a hair cut", STYLIST, " ", OF_QUEENS)[1][1] == AUGMENTED
    assert scoring.premises_of(act("GOODBYE"), "Thanks!", STYLIST, " ", "Bye")[1][1] == "Thanks! Bye"


# Section 2: what counts as faithful, what enters; section 2.2: coverage and agreement.

CHEAP = boolean("cheap", "True")
CHEAP_TURNS = (
    SystemTurn("1", 1, "cheap in Oslo", "where?", (OSLO, CHEAP)),
    SystemTurn("1", 3, "bye", "thanks", (BYE,)),
    SystemTurn("2", 1, "it is cheap", "where?", (CHEAP, BYE)),
    SystemTurn("2", 3, "hm", "x", ()),
)


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
            premise: scoring.Premise | None = "utterance" if i < round(n * share / 100) else None
            turn = SystemTurn(service, i, "x", "", (one,))
            valid = scoring.Validated("city is Oslo", "utterance", False)
            turns.append(totals.ScoredTurn(turn, "x", (scoring.ScoredAct(turn, one, True, valid, premise),)))
    corpus = Corpus("test", tuple(one.turn for one in turns), {}, {}, frozenset({"Hotels_1"}))
    return totals.ScoredSet(corpus, turns, {})


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("system", TABLE_1)
def test_table_1_has_13_percent_of_turns_of_unseen_domains(system, column):
    """In the rows of FT and PT; in that of the ensemble "all" is not a mean of both."""
    whole, seen, unseen = TABLE_1[system][column]
    found = totals.metrics_of({"": faithful_turns(seen, unseen)})
    assert found[totals.SEEN_DOMAINS]["sgsacc"] == pytest.approx(seen / 100, abs=0.001)
    assert found[totals.UNSEEN_DOMAINS]["sgsacc"] == pytest.approx(unseen / 100, abs=0.004)
    assert totals.SEEN_SERVICES not in found  # Hotels_4 is another service of a domain that was seen
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
    table = {"cheap in Oslo => City is Oslo": 0.9, "cheap in Oslo => Is cheap": 0.9, "bye => Bye bye.": 0.9}
    table |= {"it is cheap => Is cheap": 0.9, "it is in Oslo => City is Oslo": 0.9}
    described = words("S", city="City", cheap="Whether it is cheap")
    corpus = Corpus("test", CHEAP_TURNS, {ORIGINAL: {"S_1": described}}, {}, frozenset())
    said = {turn.place: Prediction(*turn.place, "") for turn in CHEAP_TURNS}
    said |= {("1", 1): Prediction("1", 1, utterance), ("1", 3): Prediction("1", 3, "bye")}
    found = totals.agreement(totals.scored_set(corpus, scoring.evaluate(corpus, said, Table(**table))).turns)
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
    inner = Counting()
    assert (scoring.Cached(inner, path).entailment(ASKED), inner.asked) == (first, [])


def test_what_was_judged_before_an_interruption_is_kept(tmp_path):
    class Stopping(Counting):
        def entailment(self, pairs):
            if self.asked:
                raise KeyboardInterrupt
            return super().entailment(pairs)

    path, pairs = str(tmp_path / "judgements"), [("premise", str(i)) for i in range(300)]
    with pytest.raises(KeyboardInterrupt):
        scoring.Cached(Stopping(), path).entailment(pairs)
    rest = Counting()
    assert scoring.Cached(rest, path).entailment(pairs) == Counting().entailment(pairs)
    assert len(rest.asked) == 300 - 256


def test_a_file_of_something_else_is_left_alone(tmp_path):
    path = write(tmp_path / "said.jsonl", '{"dialogue_id": "1"}\n' * 100)
    raised(InputError, scoring.Cached, Counting(), str(path), match="--cache: cannot be used to keep judgements")
    assert path.read_text() == '{"dialogue_id": "1"}\n' * 100
    raised(InputError, scoring.Cached, Counting(), str(tmp_path / "none" / "judgements"), match="unable to open")


def test_another_model_is_asked_itself(tmp_path):
    path = str(tmp_path / "judgements")
    scoring.Cached(Counting("1"), path).entailment(ASKED)
    other = Counting("2")
    scoring.Cached(other, path).entailment(ASKED)
    assert len(other.asked) == 3
