"""Env sets: the order of turns, what must hold of the sets, and the flags."""

from hypothesis import given
from hypothesis import strategies as st
from kit import raised

from parapet.schemas.errors import InputError
from parapet.transforms.perturbations import variations as varying
from parapet.transforms.running.counts import Counts, check_invariants


@given(st.integers(0, 40))
def test_places_differ_though_ids_do_not(turns):
    """Where ids occur twice, file and position decide."""
    places = [
        varying.place_in_order("0", f"{i // 7 % 3}", i % 7, varying.among_namesakes(f"file{i // 30}", i // 7))
        for i in range(turns)
    ]
    assert (len(set(places)), len({place[:16] for place in places})) == (turns, min(turns, 21))


RIGHT = {
    **{("dialogues", ""): 3, ("left_out", ""): 1, ("dialogues", "typos"): 2, ("dialogues", "typos-env1"): 2},
    **{("turns", "typos"): 10, ("varied", "typos"): 6, ("unchanged", "typos"): 4, ("replaced", "typos-env1"): 5},
}


def check(least, **changed):
    variations = varying.Typos(env=["0.5"])
    variations.least = least
    counts = Counts()
    for (name, set_name), n in RIGHT.items():
        split = "test" if set_name else ""
        counts.add(name, changed.get(f"{name}_{set_name}".replace("-", "_"), n), set=set_name, split=split)
    check_invariants(counts, variations.invariants())


def test_balance():
    check(0.6)
    raised(InputError, check, 0.7, match=r"typos: only 60.0% of 10 user turns changed.*requires 70%")
    replaced = [("replaced_typos_env1", 4), ("replaced_typos_env1", 6)]
    for name, n in [("turns_typos", 11), ("dialogues_", 4), *replaced, ("dialogues_typos_env1", 3)]:
        raised(RuntimeError, check, 0.6, **{name: n}, match="do not balance")


def test_flags_read():
    assert (varying.parse_envs("none"), varying.parse_envs("0.10, 0.5")) == ([], ["0.10", "0.5"])
    assert varying.parse_kinds("simple,typos") == ["simple", "typos"]
    rates = varying.parse_rates("word=0.2,omission=1,lost_space=0", 2)
    assert (rates.word, rates.abbreviation, rates.at_least) == (0.2, 0.15, 2)
    assert dict(rates.mix) == {"omission": 1, "neighbour": 25, "doubling": 20, "transposition": 15, "lost_space": 0}
    every = "omission=0,neighbour=0,doubling=0,transposition=0,lost_space=0"
    for wrong in ("wrod=1", "word", "word=x", "word=2", "word=0.9,abbreviation=0.2", "omission=-1", every):
        raised(InputError, varying.parse_rates, wrong, 1, match="--rates")
