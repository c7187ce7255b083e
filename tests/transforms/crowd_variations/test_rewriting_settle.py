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


def test_reviewers_win():
    held = settle("Not a boat to Port Alder.", "A boat to Port Alder.")
    assert fates(held) == {"A": ("review", "meaning"), "B": ("used", "")}
    [item] = held.reviews
    assert (item.element_id, item.task, item.original) == ("Ferries_1/turn/1_00001:0", "simple", SENTENCE)
    assert item.neighbours == [("A boat to Port Alder.", "used")]
    accepted = settle("Not a boat to Port Alder.", "A boat to Port Alder.", A=("accept", ""))
    assert fates(accepted) == {"A": ("used", ""), "B": ("surplus", "not_drawn")}
    rejected = settle("A boat to Port Alder.", "a boat to Port Alder", A=("reject", ""))
    assert fates(rejected) == dict.fromkeys("AB", ("rejected", "reviewer: odd"))
    fixed = settle("Bot to Port Alder.", A=("fix", "Boat to Port\u200b Alder."))
    assert (used(fixed), fixed.audit[0]["text"]) == ([("A:simplified", "Boat to Port Alder.")], "Bot to Port Alder.")


def test_a_decision_that_loses_a_value_is_a_dead_letter():
    outcome = settle("A boat to Port.", "Boat to Port Alder.", A=("accept", ""), B=("fix", "Boat there"))
    assert fates(outcome) == {"A": ("rejected", "lost_value"), "B": ("used", "")}
    assert used(outcome) == [("B:simplified", "Boat to Port Alder.")]
    assert [letter.reason for letter in outcome.dead] == [
        "bad_decision: the text must contain 'Port Alder' unchanged: use 'fix' with a text that keeps it"
    ] * 2


def test_repeats_are_held_and_a_rejection_comes_first():
    outcome = settle("A boat to Port Alder.", "By boat.", repeats=True)
    assert fates(outcome) == {"A": ("review", "repeated_answer"), "B": ("rejected", "lost_value")}


def test_where_the_values_stand():
    [row] = settle("Port Alder by boat.").audit
    assert row["values"] == [
        {
            "service": "Ferries_1",
            "slot": "to",
            "value": "Port Alder",
            "start": 17,
            "exclusive_end": 27,
            "new_start": 0,
            "new_exclusive_end": 10,
        }
    ]
    [lost] = settle("By boat.").audit
    assert (lost["values"][0]["new_start"], lost["values"][0]["new_exclusive_end"]) == (None, None)
