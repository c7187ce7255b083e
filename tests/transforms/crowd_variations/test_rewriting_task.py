"""One turn's answers settled: duplicates, the draw, reviewers."""

import msgspec

from parapet.schemas.decisions import Decision
from parapet.schemas.dialogue import Dialogue, Frame, SlotSpan, Turn
from parapet.schemas.rows import Assignment
from parapet.transforms.crowd.ingest import Submission
from parapet.transforms.crowd.rewrite_rules import SourceTurn, source_turn
from parapet.transforms.crowd.rewrites import rewrite_turn

SENTENCE = "I want a boat to Port Alder."


def asked():
    turn = Turn("USER", SENTENCE, [Frame("Ferries_1", [SlotSpan("to", 17, 27)])])
    found = source_turn(Dialogue("1_00001", ["Ferries_1"], [turn]), 0)
    assert isinstance(found, SourceTurn)
    return found


def rewrite(*texts, seed=0, **decisions):
    """Simplified sentences of as many workers; decisions by the worker's letter."""
    decided = {
        letter: {"simplified": Decision(f"{letter}:simplified", word, text, "odd")}
        for letter, (word, text) in decisions.items()
    }
    submissions = [
        Submission(
            Assignment(letter, "1_00001:0", "rewrites", letter.lower(), {"simplified": text}, True),
            decided.get(letter, {}),
        )
        for letter, text in zip("ABCDE", texts, strict=False)
    ]
    return rewrite_turn(asked(), submissions, seed)


def fates(rewritten):
    _, answers, _ = rewritten
    return {answer.response_id[0]: (answer.disposition, answer.reason) for answer in answers}


def used(rewritten):
    return [(line.source, line.utterance) for line in rewritten[0].rewritten]


def test_one_is_drawn_and_a_later_answer_changes_places_with_it_only():
    texts = ("A boat to Port Alder.", "Port Alder by boat.", "Boat, Port Alder.")
    by_seed = {seed: used(rewrite(*texts, seed=seed)) for seed in range(12)}
    assert {text for [(_, text)] in by_seed.values()} == set(texts)
    for seed, before in by_seed.items():
        [after] = used(rewrite(*texts, "Go to Port Alder.", seed=seed))
        assert after in (*before, ("D:simplified", "Go to Port Alder."))
        assert used(rewrite(*texts, seed=seed)) == before
    assert sorted(fates(rewrite(*texts)).values()) == [("surplus", "not_drawn")] * 2 + [("used", "")]


def test_outcomes_are_sorted_by_dialogue_and_turn():
    places = [("1", 2), ("1", 10), ("1_1", 0), ("1_10", 0)]
    turns = [msgspec.structs.replace(asked(), dialogue_id=name, turn=turn) for name, turn in places]
    names = [rewrite_turn(turn, [], 0)[0].name for turn in turns]
    assert names == sorted(names)


def test_a_decision_that_loses_a_value_is_a_dead_letter():
    rewritten = rewrite("A boat to Port.", "Boat to Port Alder.", A=("accept", ""), B=("fix", "Boat there"))
    assert fates(rewritten) == {"A": ("rejected", "lost_value"), "B": ("used", "")}
    assert used(rewritten) == [("B:simplified", "Boat to Port Alder.")]
    assert [letter.reason for letter in rewritten[2]] == [
        "bad_decision: the text must contain 'Port Alder' unchanged: use 'fix' with a text that keeps it"
    ] * 2
