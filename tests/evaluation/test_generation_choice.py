"""Which reference is chosen, which acts are valid, who is faithful: with a scorer that a table tells what to say."""

import pytest

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
from parapet.evaluation.generation.scoring import Pair, Validated, choose, evaluate, premises_of, validate
from parapet.evaluation.generation.task import corpus_bleu, coverage, missing_values, tampered_f1
from parapet.evaluation.sets import ALL, ORIGINAL

NEUTRAL = (0.1, 0.8, 0.1)
CITY = ServiceWords({"city": Words("city", "the city")}, {})
OSLO = Act("S_1", "INFORM", "city", ("Oslo",), ("Oslo",), "free")
ROME = Act("S_1", "INFORM", "city", ("Rome",), ("Rome",), "free")


class Table:
    """Entailment as a table has it, by premise and hypothesis; what is in none is neutral."""

    name, model, joint = "table", "1", "|"

    def __init__(self, **entailed):
        self.entailed = {tuple(key.split(" => ")): value for key, value in entailed.items()}
        self.asked: list[Pair] = []

    def entailment(self, pairs):
        self.asked += pairs
        found = [self.entailed.get(pair, 0.0) for pair in pairs]
        return [(one, (1 - one) * 0.7, (1 - one) * 0.3) if one else NEUTRAL for one in found]


def validated(table, other=ROME):
    negatives = references(other, CITY) if other else ()
    return validate([(premises_of(OSLO, "where?", CITY, "|", "in Oslo"), references(OSLO, CITY), negatives)], table)[0]


def test_the_most_entailed_candidate_is_the_reference():
    table = Table(**{"in Oslo => the city is Oslo": 0.6, "in Oslo => city is Oslo": 0.9})
    assert validated(table) == Validated("city is Oslo", "utterance", False)
    assert ("where?|the city.|in Oslo", "city is Oslo") not in table.asked  # it was not needed


def test_the_first_of_equals():
    table = Table(**{"in Oslo => the city is Oslo": 0.9, "in Oslo => city is Oslo": 0.9})
    assert validated(table).reference == "the city is Oslo"


BYE = Act("S_1", "GOODBYE", "", (), (), "none")
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
    scores = evaluate(CORPUS, the_predictions(Prediction("1", 1, "there")), Table(**TRUTH))
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
    scores = evaluate(CORPUS, the_predictions(Prediction("1", 1, "there")), table, validation=False)
    assert [one.outcome for one in scores.acts] == ["faithful", "unfaithful", "faithful", "unfaithful"]
    assert not [pair for pair in table.asked if pair == ("in Rome", "city is Oslo")]


def chosen(*candidates):
    """The choice among candidates for the first turn; the others have one."""
    others = {turn.place: (Candidate(turn.utterance, 0.0),) for turn in CORPUS.turns}
    words = CORPUS.words[ORIGINAL]
    return choose(CORPUS.turns, {**others, ("1", 1): candidates}, words, Table(**TRUTH))["1", 1]


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
