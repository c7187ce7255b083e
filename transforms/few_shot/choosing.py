"""Which dialogues a domain gets: nested training sets in which every slot occurs, and a test apart from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from parapet.transforms.few_shot.candidates import TEST, Candidate, Rule


class Chosen(msgspec.Struct, frozen=True):
    """What a domain gets.

    Attributes:
      train: the dialogues of the largest training set; the first of them are the smaller ones.
      test: those of the test.
      occurring: element ids of the slots that occur in any training candidate.
      candidates: training candidates that are different, and apart from the test.
      test_candidates: test candidates that are different.
      repeated: candidates that are called as another of their split, or in which the same is said.
      same_id: training candidates that are passed over because a dialogue of the test has their id.
      several: training and test dialogues that are passed over because they touch other domains too.
    """

    train: list[Candidate]
    test: list[Candidate]
    occurring: list[str]
    candidates: int
    test_candidates: int
    repeated: int
    same_id: int
    several: tuple[int, int]


def choose(found: Iterable[tuple[str, Candidate]], rule: Rule) -> Chosen:
    """Chooses the dialogues of one domain.

    Args:
      found: (``train`` or ``test``, candidate): dialogues that touch the domain.
      rule: what is wanted.
    """
    touching = sorted(found)
    every = [(part, one) for part, one in touching if one.alone or rule.multi_domain]
    several = Counter(part == TEST for part, one in touching if not (one.alone or rule.multi_domain))
    tests, again_in_test = different([one for part, one in every if part == TEST])
    train, again = different([one for part, one in every if part != TEST])
    # SGD's splits use the same ids. Those of the test first that training does not have, so that it loses few; then
    # training, which mostly has more to choose from, gives way where a dialogue or its id is in the test.
    taken = {one.dialogue_id for one in train}
    test = sorted(tests, key=lambda one: (one.dialogue_id in taken, one))[: rule.test]
    said, ids = {one.digest for one in test}, {one.dialogue_id for one in test}
    apart = [one for one in train if one.digest not in said]
    left = [one for one in apart if one.dialogue_id not in ids]
    return Chosen(
        train=ordered(left)[: rule.sizes[-1]],
        test=test,
        occurring=sorted({slot for one in train for slot in one.slots}),
        candidates=len(left),
        test_candidates=len(tests),
        repeated=again + again_in_test + len(train) - len(apart),
        same_id=len(apart) - len(left),
        several=(several[False], several[True]),
    )


def different(candidates: Sequence[Candidate]) -> tuple[list[Candidate], int]:
    """The candidates without those that say, or are called, the same as an earlier one; and how many those are."""
    kept: list[Candidate] = []
    said: set[str] = set()
    ids: set[str] = set()
    for one in candidates:
        if one.digest not in said and one.dialogue_id not in ids:
            kept.append(one)
        said.add(one.digest)
        ids.add(one.dialogue_id)
    return kept, len(candidates) - len(kept)


def ordered(candidates: Sequence[Candidate]) -> list[Candidate]:
    """First those that cover all slots, then the others in drawn order.

    Greedy set cover (Chvatal 1979): each of the first is the one with the most slots that are not covered yet, of
    several the first drawn. So small sets have as many slots as such sets can be hoped to have.

    Args:
      candidates: in drawn order.
    """
    uncovered = {slot for one in candidates for slot in one.slots}
    cover: list[int] = []
    while uncovered:
        best = max(range(len(candidates)), key=lambda i: (len(uncovered.intersection(candidates[i].slots)), -i))
        cover.append(best)
        uncovered.difference_update(candidates[best].slots)
    first = set(cover)
    return [candidates[i] for i in (*cover, *(i for i in range(len(candidates)) if i not in first))]
