"""Which dialogues a domain gets."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from parapet.transforms.splits.few_shot import Candidate, Rule, choose, ordered

RULE = Rule(("Bars",), (2, 4), 3, "train", "test", False, "0")


def one(draw, slots="", name="", said=""):
    name = name or f"d{draw}"
    digest = (said or name).encode()
    return Candidate(draw, name, "train/dialogues_001.json", draw, digest, ("Bars_1",), tuple(slots), 3, True)


@given(st.lists(st.text(alphabet="abcdef", max_size=4), max_size=12))
def test_the_cover_covers(slots):
    """It begins with a cover, each of which brings something new, and has everything once."""
    candidates = [one(i, "".join(sorted(set(text)))) for i, text in enumerate(slots)]
    found = ordered(candidates)
    assert sorted(found) == candidates
    covered = set()
    every = {slot for text in slots for slot in text}
    rest = None
    for i, of in enumerate(found):
        if covered == every:
            rest = found[i:]
            break
        assert len(set(of.slots) - covered) == max(len(set(other.slots) - covered) for other in candidates)
        covered |= set(of.slots)
    assert rest is None or rest == sorted(rest)
    assert covered == every


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
    kept = {"test": [], "train": []}
    for part, candidate in usable:
        before = [other for of, other in usable if of == part and other < candidate]
        if all(candidate.digest != other.digest and candidate.dialogue_id != other.dialogue_id for other in before):
            kept[part].append(candidate)
    ids = {candidate.dialogue_id for candidate in kept["train"]}
    test = sorted(kept["test"], key=lambda candidate: (candidate.dialogue_id in ids, candidate))[: rule.test]
    other = [of for of in kept["train"] if of.digest not in {of_test.digest for of_test in test}]
    left = [of for of in other if of.dialogue_id not in {of_test.dialogue_id for of_test in test}]
    chosen = choose(*([of for part, of in found if part == name] for name in ("train", "test")), rule)
    assert (chosen.test, chosen.train) == (test, ordered(left)[: rule.sizes[-1]])
    assert chosen.occurring == sorted({slot for of in kept["train"] for slot in of.slots})
    assert chosen.candidates == len(left)
    assert chosen.several == sum(part == "train" and not (of.alone or multi_domain) for part, of in found)


def test_the_cover_first_then_as_drawn():
    found = ordered([one(1, "a"), one(2, "ab"), one(3, "bc"), one(4, "d"), one(5, "cd")])
    assert [of.draw for of in found] == [2, 5, 1, 3, 4]
