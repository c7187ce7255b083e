"""Which dialogues a domain gets."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from parapet.schemas.dialogue import Dialogue
from parapet.transforms.perturbation.corpora import Used
from parapet.transforms.splits.few_shot import Candidate, Rule, candidates_of, choose, different, ordered

RULE = Rule(("Bars",), (2, 4), 3, "train", "test", False, "0")


def one(draw: int, slots: str = "", name: str = "", said: str = "") -> Candidate:
    name = name or f"d{draw}"
    digest = (said or name).encode()
    return Candidate(draw, name, "train/dialogues_001.json", draw, digest, ("Bars_1",), tuple(slots), 3, True)


def test_slots_of_a_dialogue():
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
    (made,) = candidates_of(dialogue, Used(("Bars_1", "Cars_1"), ("Elks_1",)), RULE, "f", 2).values()
    assert not made.alone
    assert made.slots == tuple(f"Bars_1/slot/{name}" for name in "abcde")
    assert (made.services, made.turns, made.position) == (("Bars_1", "Cars_1", "Elks_1"), 1, 2)
    assert candidates_of(dialogue, Used(("Bars_1", "Bars_2"), ("Cars_1",)), RULE, "f", 2)["Bars"].alone
    assert candidates_of(dialogue, Used(("Cars_1",), ("Bars_1",)), RULE, "f", 2) == {}


def test_the_cover_first_then_as_drawn():
    found = ordered([one(1, "a"), one(2, "ab"), one(3, "bc"), one(4, "d"), one(5, "cd")])
    assert [of.draw for of in found] == [2, 5, 1, 3, 4]


@given(st.lists(st.text(alphabet="abcdef", max_size=4), max_size=12))
def test_the_cover_covers(slots):
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


def test_different():
    candidates = [one(1), one(2, said="d1"), one(3, name="d1"), one(4)]
    assert [candidate.draw for candidate in different(candidates)] == [1, 4]


def test_train_and_test_are_apart():
    """The test takes ids that training lacks first; training gives way where they meet."""
    train = [one(i, "a") for i in range(6)]
    tests = [one(10, name="d0", said="t10"), one(11, name="t11"), one(12, said="d1", name="t12"), one(13, name="t13")]
    chosen = choose(train, tests, RULE)
    fuller = choose(train, tests, msgspec.structs.replace(RULE, test=4))
    assert [of.draw for of in chosen.test] == [11, 12, 13]
    assert [of.draw for of in chosen.train] == [0, 2, 3, 4]
    assert (chosen.candidates, chosen.test_candidates, chosen.repeated, chosen.same_id) == (5, 4, 1, 0)
    assert [of.draw for of in fuller.train] == [2, 3, 4, 5]
    assert fuller.same_id == 1


ONE = st.builds(
    lambda draw, slots, name, said, file: msgspec.structs.replace(
        one(draw, slots, name, said), file=file, alone=bool(draw % 3)
    ),
    st.integers(0, 8),
    st.text(alphabet="abcdef", max_size=3),
    st.sampled_from("wxyz"),
    st.sampled_from("klmn"),
    st.sampled_from("gh"),
)


@given(
    st.lists(st.tuples(st.sampled_from(["train", "test"]), ONE), max_size=12, unique_by=lambda found: found[1].draw),
    st.booleans(),
)
def test_the_choice_is_that_of_a_plain_list(found, multi_domain):
    """The same as with all candidates in memory, as (part, candidate), sorted."""
    rule = msgspec.structs.replace(RULE, multi_domain=multi_domain)
    usable = sorted(pair for pair in found if pair[1].alone or multi_domain)
    kept: dict[str, list[Candidate]] = {"test": [], "train": []}
    for part, candidate in usable:
        before = [other for of, other in usable if of == part and other < candidate]
        if all(candidate.digest != other.digest and candidate.dialogue_id != other.dialogue_id for other in before):
            kept[part].append(candidate)
    ids = {candidate.dialogue_id for candidate in kept["train"]}
    test = sorted(kept["test"], key=lambda candidate: (candidate.dialogue_id in ids, candidate))[: rule.test]
    other = [of for of in kept["train"] if of.digest not in {of_test.digest for of_test in test}]
    left = [of for of in other if of.dialogue_id not in {of_test.dialogue_id for of_test in test}]
    chosen = choose(*([of for part, of in found if part == name] for name in ("train", "test")), rule)
    assert chosen.test == test
    assert chosen.train == ordered(left)[: rule.sizes[-1]]
    assert chosen.occurring == sorted({slot for of in kept["train"] for slot in of.slots})
    assert (chosen.candidates, chosen.test_candidates) == (len(left), len(kept["test"]))
    assert chosen.same_id == len(other) - len(left)
    assert chosen.repeated == len(usable) - len(kept["test"]) - len(kept["train"]) + len(kept["train"]) - len(other)
    skipped = [part for part, candidate in found if not (candidate.alone or multi_domain)]
    assert chosen.several == (skipped.count("train"), skipped.count("test"))
