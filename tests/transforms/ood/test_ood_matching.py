"""Who gets which utterance: as many as can be, against every way to do it."""

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from parapet.transforms.perturbations.ood.plan import Matching

kinds = st.lists(st.sets(st.sampled_from("abc")).map(lambda found: "".join(sorted(found))), max_size=5)


def apart(one, other):
    return not set(one) & set(other)


def match(places, utterances, fits):
    matching = Matching(places, utterances, fits)
    for i in range(len(places)):
        matching.serve(i)
    return matching.found


@settings(max_examples=60)
@given(kinds, kinds)
def test_as_many_as_can_be(places, utterances):
    found = match(places, utterances, apart)
    used = [i for i in found if i is not None]
    assert len(used) == len(set(used))
    assert all(apart(place, utterances[i]) for place, i in zip(places, found, strict=True) if i is not None)
    padded = [*range(len(utterances)), *[-1] * len(places)]
    best = max(
        sum(i >= 0 and apart(place, utterances[i]) for place, i in zip(places, order, strict=False))
        for order in set(permutations(padded, len(places)))
    )
    assert len(used) == best


def test_first_in_order_first():
    assert match(["a", "b", "a"], ["b", "c", "a", "d"], apart) == [0, 1, 3]


def test_those_who_came_first_make_room():
    """The first place takes what only the last could have; there is another for it."""
    assert match(["a", "b", "ab"], ["c", "a", "b"], apart) == [2, 1, 0]
    assert match(["a", "a"], ["b"], apart) == [0, None]
