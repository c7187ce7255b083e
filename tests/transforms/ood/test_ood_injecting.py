"""Dialogues read for the plan, places, rates and the dialogues that come out."""

import copy
from collections import Counter
from itertools import pairwise

import kit
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised

from parapet.schemas.dialogue import Dialogue, DialogueFile
from parapet.schemas.errors import InputError
from parapet.transforms.perturbation.corpora import dialogues_of
from parapet.transforms.perturbations.ood import plan as planning
from parapet.transforms.perturbations.ood import plan as plans
from parapet.transforms.perturbations.ood.planning import sound_dialogues
from parapet.transforms.perturbations.ood.pool import utterance_of
from parapet.transforms.running.seeding import stable_hash

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
    assert planning.kept_frames(frames) == [kept]


@given(st.text(alphabet="US", max_size=14), st.sampled_from(["append", "between"]))
def test_they_still_take_turns(speakers, place):
    """No two turns of one side stand together that did not before."""
    raw = dialogue(speakers)
    turns = planning.turns_with_place(typed(raw), place)
    several = [plans.Injection(turn, 0, turn, utterance_of(f"say {turn}", "x:1"), 1) for turn in turns]
    new, rows = plans.injected(raw, several, place, "0")

    def together(dialogue):
        return sum(one == other for one, other in pairwise([turn["speaker"] for turn in dialogue["turns"]]))

    assert (together(new), sum(row["label"] == "ood" for row in rows)) == (together(raw), len(turns))
    for row in rows:
        assert new["turns"][row["turn"]]["utterance"] == row["utterance"]


def test_nobody_hears_of_his_own_domain():
    about_a = msgspec.structs.replace(utterance_of("a room at the inn", "x:1"), about=("A",))
    config = plans.Config(("0.5",), "between", "s", ("train",), False)
    (found,) = plans.plan(config, places("train", "B", 2), [about_a], {"train": 2})
    assert found[1].utterance == about_a
    raised(InputError, plans.plan, config, places("train", "A", 2), [about_a], {"train": 2}, match="1 of train missing")


RECIPE = plans.Config(("0.1", "0.5"), "between", "s", ("test", "train"), True)


def places(split, domain, n):
    return [plans.Place(stable_hash(split, str(i)), split, f"{split}/a.json", 0, i, (domain,)) for i in range(n)]


def test_own_utterances_are_used_again_after_all_others():
    """400 user turns: each may be used ten times; twice in no dialogue, and a third time only where all have two."""
    there = [
        plans.Place(stable_hash(str(i)), "train", "train/a.json", i // 4, i % 4, ("A",) if i % 3 else ("A", "B"))
        for i in range(400)
    ]
    pool = [utterance_of(f"of c {i}", f"c:{i}", ("C",), ("train",)) for i in range(40)]
    pool += [utterance_of(f"of b {i}", f"b:{i}", ("B",), ("train",)) for i in range(30)]
    config = plans.Config(("0.1", "0.4"), "between", "s", ("train",), True)
    found = [one for _, one in plans.plan(config, there, pool, {"train": 400})]
    assert (len(found), set(Counter(one.utterance.key for one in found).values())) == (160, {2, 3})
    assert max(Counter((one.dialogue, one.utterance.key) for one in found).values()) == 1
    low = [one.utterance.key for one in found if one.sets == 2]
    assert len(low) == len(set(low)) == 40
    assert [planning.most_uses(turns) for turns in (0, 37, 38, 100, 10_000)] == [1, 1, 2, 4, 10]
    once = r"each is used once, and.*lower --rates to 0\.175 or less, the highest possible rate"
    raised(InputError, plans.plan, msgspec.structs.replace(config, own=False), there, pool, {"train": 400}, match=once)


def test_the_highest_rate_can_be_had_and_no_higher():
    """Places that nothing fits are passed over: the rate counts those that can be served."""
    there = [*places("train", "A", 30), *places("train", "C", 70)]
    pool = [utterance_of(f"of c {i}", f"c:{i}", ("C",)) for i in range(50)]
    config = plans.Config(("0.5",), "between", "s", ("train",), False)
    missing = r"20 of train missing, 50 needed in all.*lower --rates to 0\.3 or less, the highest"
    raised(InputError, plans.plan, config, there, pool, {"train": 100}, match=missing)
    assert len(plans.plan(msgspec.structs.replace(config, rates=("0.3",)), there, pool, {"train": 100})) == 30
    with pytest.raises(InputError, match="no rate is possible: choose other splits, or use another --source"):
        plans.plan(config, there[30:], pool, {"train": 70})


def test_appended_turns_stand_in_drawn_order():
    several = [plans.Injection(draw, 0, turn, utterance_of(f"say {draw}", "x:1"), 1) for draw, turn in ((9, 0), (3, 2))]
    new, rows = plans.injected(dialogue("USUS"), several, "append", "0")
    assert [turn["utterance"] for turn in new["turns"][4::2]] == ["say 3", "say 9"]
    assert new["turns"][4]["frames"][0]["state"]["slot_values"] == {"city": ["Ulm"]}
    assert [row["label"] for row in rows] == ["in_domain"] * 2 + ["ood"] * 2


TURN = b'{"speaker": "USER", "utterance": "%s", "frames": []}'
GOOD = b'{"dialogue_id": "1", "services": [], "turns": [%s]}' % (TURN % b"Hello")
MORE = b'{"dialogue_id": "2", "services": [], "turns": [], "more": %s}'


def outcomes(dialogues):
    """Positions and dialogues or errors, as text; the error that ends a file last."""
    found = []
    try:
        found += [(position, repr(dialogue)) for position, dialogue in dialogues]
    except InputError as error:
        found = [(-1, str(error))]  # what came before it is not used
    return found


@cases(
    "items",
    [GOOD, GOOD],
    [GOOD, b"{}", GOOD],
    [GOOD, MORE % b"1e999", MORE % b"NaN", GOOD],
    [GOOD, MORE % b'"\x80"'],  # not UTF-8, where nothing looks at it
    [GOOD, GOOD.replace(b"Hello", "grüß".encode()), b"1"],
    [GOOD, b"{"],
    [],
)
def test_the_same_as_of_a_file_that_is_written(items):
    data = b"[" + b",".join(items) + b"]"
    file = DialogueFile("train", "dialogues_001.json", "a.json", len(data), data)
    found = outcomes((at, dialogue) for at, _, dialogue in sound_dialogues(file))
    assert found == outcomes((at, dialogue) for at, _, dialogue in dialogues_of(file))
