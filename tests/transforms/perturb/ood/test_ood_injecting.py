"""Places, rates and the dialogues that come out."""

import copy
from collections import Counter
from itertools import pairwise

import kit
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import raised

from parapet.schemas.dialogue import Dialogue
from parapet.schemas.errors import InputError
from parapet.transforms.core.seeding import stable_hash
from parapet.transforms.perturb.ood import plan as plans
from parapet.transforms.perturb.ood.utterances import utterance_of

STATE = {**kit.state("Find", ["price"], city=["Ulm"]), "note": 1}


def dialogue(speakers, services=("Bars_1",)):
    turns = []
    for i, speaker in enumerate(speakers):
        more = {"state": copy.deepcopy(STATE)} if speaker == "U" else {}
        frame = kit.frame(services[0], kit.act("X"), **more)
        turns.append(kit.turn("USER" if speaker == "U" else "SYSTEM", f"{speaker}{i}", frame))
    return {"dialogue_id": "d", "services": list(services), "turns": turns, "extra": "kept"}


def typed(raw):
    return msgspec.convert(raw, Dialogue)


def test_frames_without_a_state_are_not_kept():
    frames = [{"service": "A", "slots": []}, {"service": "B", "slots": [1], "state": {"slot_values": {}}}]
    kept = {"service": "B", "slots": [], "state": {"slot_values": {}, "requested_slots": []}}
    assert plans.kept_frames(frames) == [kept]


@given(st.text(alphabet="US", max_size=14))
def test_they_still_take_turns(speakers):
    """No two turns of one side stand together that did not before."""
    raw = dialogue(speakers)
    turns = plans.turns_with_place(typed(raw))
    several = [plans.Injection(0, turn, utterance_of(f"say {turn}", "x:1", "x"), 1) for turn in turns]
    new, rows = plans.injected(raw, several, "0")

    def together(dialogue):
        return sum(one == other for one, other in pairwise([turn["speaker"] for turn in dialogue["turns"]]))

    assert (together(new), sum(row["label"] == "ood" for row in rows)) == (together(raw), len(turns))
    for row in rows:
        assert new["turns"][row["turn"]]["utterance"] == row["utterance"]


CONFIG = plans.Config(("0.1", "0.5"), "s", ("train",))


def places(split, domain, n):
    return [plans.Place(stable_hash(split, str(i)), split, f"{split}/a.json", 0, i, (domain,)) for i in range(n)]


def utterances(domain, n):
    return [utterance_of(f"of {domain} {i}", f"{domain}:{i}", "own", (domain,)) for i in range(n)]


def rates(*of):
    return msgspec.structs.replace(CONFIG, rates=of)


def test_nobody_hears_of_his_own_domain():
    about_a = utterances("A", 1)
    (found,), _ = plans.plan(rates("0.5"), places("train", "B", 2), about_a, {"train": 2})
    assert [found[1].utterance] == about_a
    there = places("train", "A", 2)
    few = "too few places or foreign utterances for ood-50 of train"
    raised(InputError, plans.plan, rates("0.5"), there, about_a, {"train": 2}, match=few)


def test_utterances_are_used_again_after_all_others():
    """Twice in no dialogue, a second time only where all that fit are used, and not more often in a smaller set."""
    there = [
        plans.Place(stable_hash(str(i)), "train", "train/a.json", i // 4, i % 4, ("A",) if i % 3 else ("A", "B"))
        for i in range(400)
    ]
    pool = [*utterances("C", 40), *utterances("B", 30)]
    planned, counts = plans.plan(rates("0.1", "0.4"), there, pool, {"train": 400})
    found = [one for _, one in planned]
    assert (len(found), set(Counter(one.utterance.key for one in found).values())) == (160, {2, 3})
    assert max(Counter((one.dialogue, one.utterance.key) for one in found).values()) == 1
    low = [one.utterance.key for one in found if one.sets == 2]
    assert len(low) == len(set(low)) == 40
    assert [counts.sum("distinct", set=name) for name in ("ood-10", "ood-40")] == [40, 70]
    assert [counts.sum("most_uses", set=name) for name in ("ood-10", "ood-40")] == [1, 3]


def test_no_utterance_is_used_in_two_splits():
    """One that is said in a split is used there; the others are drawn, more for a larger split."""
    config = msgspec.structs.replace(rates("0.5"), splits=("test", "train"))
    there = [*places("test", "A", 20), *places("train", "A", 60)]
    said = [utterance_of(f"in test {i}", f"t:{i}", "own", ("C",), ("test",)) for i in range(3)]
    planned, _ = plans.plan(config, there, [*utterances("B", 40), *said], {"test": 20, "train": 60})
    of_split = {split: {one.utterance.key for file, one in planned if split in file} for split in config.splits}
    assert not of_split["test"] & of_split["train"]
    assert {one.key for one in said} <= of_split["test"]
    assert len(of_split["train"]) > len(of_split["test"])


def test_the_highest_rate_can_be_had_and_no_higher():
    """Places that nothing fits are passed over: the rate counts those that can be served."""
    there = [*places("train", "A", 30), *places("train", "C", 70)]
    pool, turns = utterances("C", 50), {"train": 100}
    missing = r"too few.*lower --rates to 0\.3 or less, the highest"
    raised(InputError, plans.plan, rates("0.5"), there, pool, turns, match=missing)
    assert len(plans.plan(rates("0.3"), there, pool, turns)[0]) == 30
    with pytest.raises(InputError, match="no rate is possible, or use another --source"):
        plans.plan(rates("0.5"), there[30:], pool, {"train": 70})


def test_fallbacks_fit_what_was_said():
    def answers(text):
        return {plans.fallback_of("s", str(i), 0, text) for i in range(99)}

    said, asked, wanted = map(answers, ("I have never seen snow.", "Why is the sky blue?", "Find me a bus."))
    assert len(said) == 2
    assert said < asked & wanted
    assert asked | wanted == set(plans.FALLBACKS)
    assert "I'm sorry, I'm not able to do that for you." in wanted - asked
