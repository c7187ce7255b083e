"""Env sets: the order of turns, what must hold of the sets, and the flags."""

from hypothesis import given
from hypothesis import strategies as st
from kit import raised

from parapet.schemas.errors import InputError
from parapet.transforms.core.counts import Counts, check_invariants
from parapet.transforms.perturb import mixes
from parapet.transforms.perturb import variations as varying
from parapet.transforms.perturb.user_turns import UserTurn


@given(st.integers(0, 40))
def test_places_differ_though_ids_do_not(turns):
    """Where ids occur twice, file and position decide."""
    said = [UserTurn(f"{i // 7 % 3}", i % 7, "", (), (), frozenset(), (), ()) for i in range(turns)]
    places = [mixes.order_of("0", turn, (f"file{i // 30}", i // 7)) for i, turn in enumerate(said)]
    assert (len(set(places)), len({place[:16] for place in places})) == (turns, min(turns, 21))


RIGHT = {
    **{("dialogues", ""): 3, ("left_out", ""): 1, ("dialogues", "typos"): 2, ("dialogues", "typos-env1"): 2},
    **{("turns", "typos"): 10, ("varied", "typos"): 6, ("varied", "typos-env1"): 5},
}


def check(**changed):
    variations = varying.Typos(env=["0.5"])
    counts = Counts()
    for (name, set_name), n in RIGHT.items():
        split = "test" if set_name else ""
        counts.add(name, changed.get(f"{name}_{set_name}".replace("-", "_"), n), set=set_name, split=split)
    check_invariants(counts, variations.invariants())


def test_balance():
    check()
    nothing = {"varied_typos": 0, "varied_typos_env1": 0}
    raised(InputError, check, **nothing, match="none of the user turns could be varied")
    varied = [("varied_typos_env1", 4), ("varied_typos_env1", 6)]
    for name, n in [("turns_typos", 13), ("dialogues_", 4), *varied, ("dialogues_typos_env1", 3)]:
        raised(RuntimeError, check, **{name: n}, match="do not balance")


def test_flags_read():
    assert mixes.parse_rates("0.5, 0.10", "--env") == varying.Typos(env="0.5, 0.10").envs == ["0.10", "0.5"]
    assert varying.Typos(env="none").envs == varying.Typos().envs == []
    for wrong in ("", "none", "x", "nan", "inf", "0", "0.1,0.10"):
        raised(InputError, mixes.parse_rates, wrong, "--env", match="--env: .* must be different numbers above 0")
    assert varying.kinds_of("simple,typos", None) == ["simple", "typos"]
    rates = varying.parse_rates("word=0.2")
    assert (rates.word, rates.abbreviation) == (0.2, 0.15)
    for wrong in ("wrod=1", "word", "word=x", "word=2", "word=nan", "word=0.9,abbreviation=0.2"):
        raised(InputError, varying.parse_rates, wrong, match="--rates")
