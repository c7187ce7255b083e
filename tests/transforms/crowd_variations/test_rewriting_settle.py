"""One turn's answers settled: duplicates, the draw, reviewers."""

from parapet.schemas.decisions import Decision
from parapet.schemas.dialogue import Dialogue, Frame, SlotSpan, Turn
from parapet.schemas.rows import Assignment
from parapet.transforms.crowd.rewritten_turns.settle import settle_turns
from parapet.transforms.crowd.rewritten_turns.tasks import SourceTurn, source_turn

SENTENCE = "I want a boat to Port Alder."


def asked():
    turn = Turn("USER", SENTENCE, [Frame("Ferries_1", [SlotSpan("to", 17, 27)])])
    found = source_turn(Dialogue("1_00001", ["Ferries_1"], [turn]), 0)
    assert isinstance(found, SourceTurn)
    return found


def settle(*texts, seed=0, repeats=False, **decisions):
    """Simplified sentences of as many workers; decisions by the worker's letter."""
    assignments = [
        Assignment(letter, "1_00001:0", "rewrites", letter.lower(), {"simplified": text}, True)
        for letter, text in zip("ABCDE", texts, strict=False)
    ]
    decided = {
        letter: {"simplified": Decision(f"{letter}:simplified", word, text, "odd")}
        for letter, (word, text) in decisions.items()
    }
    return settle_turns([asked()], {0: assignments}, decided, seed, lambda *_: repeats)


def fates(outcome):
    return {row["response_id"][0]: (row["disposition"], row["reason"]) for row in outcome.audit}


def used(outcome):
    return [(line.source, line.utterance) for line in outcome.rewritten]


def test_one_is_drawn_and_a_later_answer_changes_places_with_it_only():
    texts = ("A boat to Port Alder.", "Port Alder by boat.", "Boat, Port Alder.")
    by_seed = {seed: used(settle(*texts, seed=seed)) for seed in range(12)}
    assert {text for [(_, text)] in by_seed.values()} == set(texts)
    for seed, before in by_seed.items():
        [after] = used(settle(*texts, "Go to Port Alder.", seed=seed))
        assert after in (*before, ("D:simplified", "Go to Port Alder."))
        assert used(settle(*texts, seed=seed)) == before
    assert sorted(fates(settle(*texts)).values()) == [("surplus", "not_drawn")] * 2 + [("used", "")]


def test_a_decision_that_loses_a_value_is_a_dead_letter():
    outcome = settle("A boat to Port.", "Boat to Port Alder.", A=("accept", ""), B=("fix", "Boat there"))
    assert fates(outcome) == {"A": ("rejected", "lost_value"), "B": ("used", "")}
    assert used(outcome) == [("B:simplified", "Boat to Port Alder.")]
    assert [letter.reason for letter in outcome.dead] == [
        "bad_decision: the text must contain 'Port Alder' unchanged: use 'fix' with a text that keeps it"
    ] * 2
