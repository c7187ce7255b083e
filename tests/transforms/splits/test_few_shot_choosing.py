"""Which dialogues a domain gets."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from parapet.schemas.dialogue import Dialogue
from parapet.transforms.splits.few_shot_choosing import Candidate, Rule, candidates_of, choose, different, ordered
from parapet.transforms.touching import Used

RULE = Rule(("Bars",), (2, 4), 3, "train", "test", False, "0")


def one(draw: int, slots: str = "", name: str = "", said: str = "") -> Candidate:
    name = name or f"d{draw}"
    return Candidate(draw, name, "train/dialogues_001.json", draw, said or name, ("Bars_1",), tuple(slots), 3, True)


def test_slots_of_a_dialogue() -> None:
    """Of spans, actions, state and call, of the domain's services alone."""
    raw: dict[str, Any] = {
        "dialogue_id": "x",
        "services": ["Bars_1", "Cars_1"],
        "turns": [
            {
                "speaker": "USER",
                "utterance": "hi",
                "frames": [
                    {
                        "service": "Bars_1",
                        "slots": [{"slot": "a", "start": 0, "exclusive_end": 1}],
                        "actions": [
                            {"act": "INFORM", "slot": "b", "values": []},
                            {"act": "INFORM_INTENT", "slot": "intent", "values": []},
                            {"act": "THANK_YOU", "slot": "", "values": []},
                        ],
                        "state": {"active_intent": "Find", "requested_slots": ["c"], "slot_values": {"d": ["1"]}},
                    },
                    {"service": "Cars_1", "slots": [{"slot": "z"}]},
                ],
            },
            {
                "speaker": "SYSTEM",
                "utterance": "ho",
                "frames": [{"service": "Bars_1", "service_call": {"method": "Find", "parameters": {"e": "1"}}}],
            },
        ],
    }
    dialogue = msgspec.convert(raw, Dialogue)
    ((domain, made),) = candidates_of(dialogue, Used(("Bars_1", "Cars_1"), ("Elks_1",)), RULE, "f", 2)
    assert (domain, made.alone) == ("Bars", False)
    assert made.slots == tuple(f"Bars_1/slot/{name}" for name in "abcde")
    assert (made.services, made.turns, made.position) == (("Bars_1", "Cars_1", "Elks_1"), 1, 2)
    assert candidates_of(dialogue, Used(("Bars_1", "Bars_2"), ("Cars_1",)), RULE, "f", 2)[0][1].alone
    assert candidates_of(dialogue, Used(("Cars_1",), ("Bars_1",)), RULE, "f", 2) == []


def test_the_cover_first_then_as_drawn() -> None:
    found = ordered([one(1, "a"), one(2, "ab"), one(3, "bc"), one(4, "d"), one(5, "cd")])
    assert [of.draw for of in found] == [2, 5, 1, 3, 4]


@given(st.lists(st.text(alphabet="abcdef", max_size=4), max_size=12))
def test_the_cover_covers(slots: list[str]) -> None:
    """It begins with a cover, each of which brings something new, and has everything once."""
    candidates = [one(i, "".join(sorted(set(text)))) for i, text in enumerate(slots)]
    found = ordered(candidates)
    assert sorted(found) == candidates
    covered: set[str] = set()
    every = {slot for text in slots for slot in text}
    rest = None
    for i, of in enumerate(found):
        if covered == every:
            rest = found[i:]
            break
        gain = len(set(of.slots) - covered)
        assert gain == max(len(set(other.slots) - covered) for other in candidates)
        covered |= set(of.slots)
    assert rest is None or rest == sorted(rest)
    assert covered == every


def test_different() -> None:
    kept, n = different([one(1), one(2, said="d1"), one(3, name="d1"), one(4)])
    assert ([of.draw for of in kept], n) == ([1, 4], 2)


def test_train_and_test_are_apart() -> None:
    """The test takes ids that training lacks first; training gives way where they meet."""
    train = [one(i, "a") for i in range(6)]
    tests = [one(10, name="d0", said="t10"), one(11, name="t11"), one(12, said="d1", name="t12"), one(13, name="t13")]
    chosen = choose([*(("train", of) for of in train), *(("test", of) for of in tests)], RULE)
    assert [of.draw for of in chosen.test] == [11, 12, 13]
    assert [of.draw for of in chosen.train] == [0, 2, 3, 4]
    assert (chosen.candidates, chosen.test_candidates, chosen.repeated, chosen.same_id) == (5, 4, 1, 0)
    fuller = choose(
        [*(("train", of) for of in train), *(("test", of) for of in tests)], msgspec.structs.replace(RULE, test=4)
    )
    assert [of.draw for of in fuller.train] == [2, 3, 4, 5]
    assert fuller.same_id == 1
