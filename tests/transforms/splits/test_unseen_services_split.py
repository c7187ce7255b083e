"""Where dialogues go when something is held out: once somewhere, and nothing of it in training."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import raised

from parapet.schemas.errors import InputError
from parapet.schemas.service import Intent, Service, Slot
from parapet.transforms.perturbation.corpora import Used
from parapet.transforms.splits import split as splitting
from parapet.transforms.splits.split import REASONS, SplitCorpus, UnseenServices, chosen, groups_of, seen, test_split_of

test_split_of.__test__ = False
NAMES = ["A_1", "A_2", "B_1", "C"]
SPLITS = ["train", "dev", "test"]


def service(name, *slots, description=""):
    return Service(name, "", [Slot(slot, description or slot) for slot in slots], [Intent(f"Find{name}", "")])


def split_of(services, by, test_split, with_seen=False, one_schema=True):
    """The split of a corpus, given the services of its splits."""
    corpus = SplitCorpus("", {split: splitting.Schema({}, of) for split, of in services.items()}, one_schema, {})
    groups = groups_of((name for of in services.values() for name in of), by)
    return UnseenServices(corpus=corpus, by=by, groups=groups, test_split=test_split, with_seen=with_seen)


SERVICES = {name: service(name, "x") for name in NAMES}


@given(
    st.sampled_from(SPLITS),
    st.sets(st.sampled_from(NAMES), min_size=1),
    st.sets(st.sampled_from(NAMES)),
    st.sampled_from(["domain", "service"]),
    st.sampled_from(["dev", "test"]),
    st.booleans(),
)
def test_every_dialogue_ends_once(split, touched, idle_too, by, test_split, with_seen):
    used = Used(tuple(sorted(touched)), tuple(sorted(idle_too - touched)))
    held_out = split_of({"train": SERVICES}, by, test_split, with_seen)
    for group, services in held_out.groups.items():
        end = held_out.destination(group, split, used)
        assert end in (*splitting.SETS, *REASONS)
        # By the plain meaning of the sets.
        if touched & set(services):
            assert end == ("test" if split == test_split else REASONS[0 if touched <= set(services) else 1])
        elif split != test_split:
            assert end == split
        else:
            assert end == ("test_seen" if with_seen else "dev" if split == "dev" else "test_of_others")
        left = {*used.touched, *used.idle} - {*held_out.dropped(group, end, used)}
        if end in ("train", "dev", "test_seen"):
            assert not left & set(services)
        elif end == "test":
            assert left == {*used.touched, *used.idle}


def test_groups():
    groups = groups_of(NAMES, "domain")
    assert groups == {"A": ("A_1", "A_2"), "B": ("B_1",), "C": ("C",)}
    assert groups_of(NAMES, "service") == {name: (name,) for name in NAMES}
    assert chosen(groups, "B,A", "domain", "--hold_out") == ["A", "B"]
    with pytest.raises(InputError, match=r"there is no domain 'A_1': must be one of A, B, C"):
        chosen(groups, "A_1", "domain", "--hold_out")
    raised(InputError, chosen, groups, "", "domain", "--hold_out", match="must be one or more of A, B, C")
    raised(InputError, groups_of, ["RUN.json"], "service", match=r"'RUN\.json' has the name of an output file")


def test_which_split_is_tested_on():
    assert (test_split_of(None, SPLITS), test_split_of(None, ["train", "dev"])) == ("test", "dev")
    assert test_split_of("dev", SPLITS) == "dev"
    for asked, there in (("train", SPLITS), ("test", ["train", "dev"]), (None, ["train"])):
        raised(InputError, test_split_of, asked, there, match="--test_split: there are no dialogues in")
    raised(InputError, test_split_of, None, ["test"], match="there are no dialogues in 'train' to train on")


def test_numbers_from_combinations():
    by_name = {
        "A_1": service("A_1", "city", "price"),
        "B_1": service("B_1", "city", "date"),
        "C": service("C", "city", "date", description="other"),
    }
    held_out = split_of({"train": by_name, "test": by_name}, "domain", "test")
    combinations = [
        (("train", ("A_1",), ("C",), "dialogues"), 5),
        (("train", ("A_1",), ("C",), "turns"), 50),
        (("train", ("A_1", "B_1"), (), "dialogues"), 2),
        (("train", ("C",), (), "dialogues"), 1),
        (("test", ("C",), (), "dialogues"), 3),
        (("test", ("B_1", "C"), (), "dialogues"), 4),
    ]
    sets, left, cut = held_out.set_counts("C", combinations)
    assert sets == {
        "train": {"dialogues": 7, "turns": 50, "services": {"A_1", "B_1"}},
        "test": {"dialogues": 7, "turns": 0, "services": {"B_1", "C"}},
    }
    assert (left, cut) == ({"touches_it_alone": 1, "touches_it_and_others": 0, "test_of_others": 0}, 5)
    sets, left, cut = held_out.set_counts("B", combinations)
    assert (sets["train"]["dialogues"], sets["train"]["services"]) == (6, {"A_1", "C"})
    assert left == {"touches_it_alone": 0, "touches_it_and_others": 2, "test_of_others": 3}
    found = seen([by_name["C"]], [by_name["A_1"]])
    assert (found["slot_names_seen"], found["slots_and_descriptions_seen"]) == (0.5, 0)
    assert seen([by_name["B_1"]], [by_name["A_1"]])["slots_and_descriptions_seen"] == 0.5
    assert seen([], [by_name["A_1"]])["slot_names_seen"] is None
    trained = {"train": {name: by_name[name] for name in ("A_1", "B_1")}, "test": by_name}
    given = split_of(trained, "domain", "test", one_schema=False).as_given(combinations)
    assert given["test"]["unseen_services"] == ["C"]
    assert given["test"]["dialogues_by_services"] == {"seen": 0, "both": 4, "unseen": 3}
    assert given["test"]["seen"]["slot_names_seen"] == 1
    # With one schema for all splits, training has the services of its dialogues.
    assert held_out.as_given(combinations)["test"]["unseen_services"] == []
