"""Where dialogues go when something is held out: once somewhere, and nothing of it in training."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parapet.schemas.errors import InputError
from parapet.schemas.service import Intent, Service, Slot
from parapet.transforms.service_splits.outputs import check_invariants
from parapet.transforms.service_splits.plan import REASONS, SETS, HeldOut, chosen, groups_of, test_split_of
from parapet.transforms.service_splits.statistics import About, as_given, seen, sets_of
from parapet.transforms.touching import Used

test_split_of.__test__ = False  # type: ignore[attr-defined]
NAMES = ["A_1", "A_2", "B_1", "C"]
SPLITS = ["train", "dev", "test"]


def service(name: str, *slots: str, description: str = "") -> Service:
    return Service(name, "", [Slot(slot, description or slot) for slot in slots], [Intent(f"Find{name}", "")])


SERVICES = {name: service(name, "x") for name in NAMES}


@given(
    st.sampled_from(SPLITS),
    st.sets(st.sampled_from(NAMES), min_size=1),
    st.sets(st.sampled_from(NAMES)),
    st.sampled_from(["domain", "service"]),
    st.sampled_from(["dev", "test"]),
    st.booleans(),
)
def test_every_dialogue_ends_once(
    split: str, touched: set[str], idle_too: set[str], by: str, test_split: str, with_seen: bool
) -> None:
    used = Used(tuple(sorted(touched)), tuple(sorted(idle_too - touched)))
    held = HeldOut(by, groups_of(NAMES, by), test_split, with_seen)
    for group, services in held.groups.items():
        end = held.end_of(group, split, used)
        assert end in (*SETS, *REASONS)
        assert end not in SETS or end in held.ends_of(split)
        # By the plain meaning of the sets.
        if touched & set(services):
            assert end == ("test" if split == test_split else REASONS[0 if touched <= set(services) else 1])
        elif split != test_split:
            assert end == split
        else:
            assert end == ("test_seen" if with_seen else "dev" if split == "dev" else "test_of_others")
        left = {*used.touched, *used.idle} - {*held.idle_of(group, end, used)}
        if end in ("train", "dev", "test_seen"):
            assert not left & set(services)
        elif end == "test":
            assert left == {*used.touched, *used.idle}


def test_groups() -> None:
    groups = groups_of(NAMES, "domain")
    assert groups == {"A": ("A_1", "A_2"), "B": ("B_1",), "C": ("C",)}
    assert groups_of(NAMES, "service") == {name: (name,) for name in NAMES}
    assert chosen(groups, ["B", "A"], "domain") == {"A": ("A_1", "A_2"), "B": ("B_1",)}
    with pytest.raises(InputError, match=r"no domain 'A_1' \(--by service holds out one service\); there are: A, B, C"):
        chosen(groups, ["A_1"], "domain")
    with pytest.raises(InputError, match="give one or more of: A, B, C"):
        chosen(groups, [], "domain")
    with pytest.raises(InputError, match=r"'RUN\.json' has the name of a file"):
        groups_of(["RUN.json"], "service")


def test_which_split_is_tested_on() -> None:
    assert test_split_of(None, SPLITS) == "test"
    assert test_split_of(None, ["train", "dev"]) == "dev"
    assert test_split_of("dev", SPLITS) == "dev"
    for asked, there in (("train", SPLITS), ("test", ["train", "dev"]), (None, ["train"])):
        with pytest.raises(InputError, match="--test_split: there are no dialogues in"):
            test_split_of(asked, there)
    with pytest.raises(InputError, match="nothing to train on"):
        test_split_of(None, ["test"])


def test_numbers_from_combinations() -> None:
    by_name = {
        "A_1": service("A_1", "city", "price"),
        "B_1": service("B_1", "city", "date"),
        "C": service("C", "city", "date", description="other"),
    }
    held = HeldOut("domain", groups_of(by_name, "domain"), "test", with_seen=False)
    services = {"train": by_name, "test": by_name}
    combinations = [
        (("train", ("A_1",), ("C",), "dialogues"), 5),
        (("train", ("A_1",), ("C",), "turns"), 50),
        (("train", ("A_1", "B_1"), (), "dialogues"), 2),
        (("train", ("C",), (), "dialogues"), 1),
        (("test", ("C",), (), "dialogues"), 3),
        (("test", ("B_1", "C"), (), "dialogues"), 4),
    ]
    about = About(held, services, {}, None)
    sets, left, cut = sets_of(about, "C", combinations)
    assert (sets["train"].dialogues, sets["train"].turns, sets["train"].services) == (7, 50, {"A_1", "B_1"})
    assert (sets["test"].dialogues, sets["test"].services) == (7, {"B_1", "C"})
    assert (left, cut) == ({"touches_it_alone": 1, "touches_it_and_others": 0, "test_of_others": 0}, 5)
    sets, left, cut = sets_of(about, "B", combinations)
    assert (sets["train"].dialogues, sets["train"].services) == (6, {"A_1", "C"})
    assert left == {"touches_it_alone": 0, "touches_it_and_others": 2, "test_of_others": 3}
    found = seen([by_name["C"]], [by_name["A_1"]])
    assert (found["slot_names_seen"], found["slots_and_descriptions_seen"]) == (0.5, 0)
    assert seen([by_name["B_1"]], [by_name["A_1"]])["slots_and_descriptions_seen"] == 0.5
    assert seen([], [by_name["A_1"]])["slot_names_seen"] is None
    given = as_given(About(held, services, {}, frozenset(["A_1", "B_1"])), combinations)
    assert given["test"]["unseen_services"] == ["C"]
    assert given["test"]["dialogues_by_services"] == {"seen": 0, "both": 4, "unseen": 3}
    assert given["test"]["seen"]["slot_names_seen"] == 1
    # With one schema for all splits, training has the services of its dialogues.
    assert as_given(about, combinations)["test"]["unseen_services"] == []


def test_counts_that_do_not_balance() -> None:
    held = HeldOut("domain", {"A": ("A_1",)}, "test", with_seen=False)
    counts = {"dialogues": 5, "left_out": 1, "A/train": 1, "A/test": 1, "A/touches_it_alone": 1, "A/test_of_others": 1}
    assert check_invariants(counts, held) == counts
    with pytest.raises(RuntimeError, match="do not balance for A"):
        check_invariants({**counts, "A/train": 2}, held)
