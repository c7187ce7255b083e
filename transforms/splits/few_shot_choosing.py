"""Which dialogues a domain gets: nested training sets in which every slot occurs, and a test with others."""

from __future__ import annotations

import msgspec
import numpy as np

from parapet.transforms.splits.few_shot_candidates import Candidate, Candidates, Rows


class Rule(msgspec.Struct, frozen=True):
    """What is requested.

    Attributes:
      domains: the domains.
      sizes: the sizes of the training sets, ascending.
      test: dialogues of a test.
      train_split: the split that training dialogues are taken from.
      test_split: the split that tests are taken from.
      multi_domain: whether dialogues that touch other domains, too, may be taken.
      seed: of the random order.
    """

    domains: tuple[str, ...]
    sizes: tuple[int, ...]
    test: int
    train_split: str
    test_split: str
    multi_domain: bool
    seed: str


class Chosen(msgspec.Struct, frozen=True):
    """The dialogues of a domain.

    Attributes:
      train: those of the largest training set; the first of them make the smaller ones.
      test: those of the test.
      occurring: element ids of the slots that occur in any training candidate.
      candidates: training candidates that differ from each other and from the test.
      test_candidates: test candidates that differ from each other.
      repeated: candidates with the id or the utterances of another candidate of their split.
      same_id: training candidates that are skipped because a dialogue of the test has their id.
      several: training and test dialogues that are skipped because they touch other domains, too.
    """

    train: list[Candidate]
    test: list[Candidate]
    occurring: list[str]
    candidates: int
    test_candidates: int
    repeated: int
    same_id: int
    several: tuple[int, int]


def choose(table: Candidates, rule: Rule) -> Chosen:
    """Chooses the dialogues of one domain.

    Args:
      table: the dialogues that touch the domain.
      rule: what is requested.
    """
    rows = table.rows
    usable = rows["alone"] | rule.multi_domain
    several = [int((~usable & (rows["test"] == test)).sum()) for test in (False, True)]
    tests, repeated_tests = different(rows, np.flatnonzero(usable & rows["test"]))
    train, repeated = different(rows, np.flatnonzero(usable & ~rows["test"]))
    # SGD's splits use the same ids. The test takes dialogues whose id training does not have first, so that training
    # loses few; then training, which mostly has more to choose from, gives up dialogues that are in the test.
    is_of_train = np.isin(rows["id"][tests], rows["id"][train])
    test = tests[np.argsort(is_of_train, kind="stable")][: rule.test]
    other = train[~np.isin(rows["digest"][train], rows["digest"][test])]
    left = other[~np.isin(rows["id"][other], rows["id"][test])]
    return Chosen(
        train=[table.candidate(i) for i in ordered(table, left)[: rule.sizes[-1]]],
        test=[table.candidate(i) for i in test],
        occurring=sorted({slot for i in np.unique(rows["slots"][train]) for slot in table.combinations[i]}),
        candidates=len(left),
        test_candidates=len(tests),
        repeated=repeated + repeated_tests + len(train) - len(other),
        same_id=len(other) - len(left),
        several=(several[False], several[True]),
    )


def different(rows: Rows, candidates: Rows) -> tuple[Rows, int]:
    """The candidates without those that have the utterances or the id of an earlier one; and how many those are."""
    is_first = np.ones(len(candidates), bool)
    for field in ("digest", "id"):
        _, first = np.unique(rows[field][candidates], return_index=True)
        is_first &= np.isin(np.arange(len(candidates)), first)
    return candidates[is_first], int(len(candidates) - is_first.sum())


def ordered(table: Candidates, candidates: Rows) -> Rows:
    """First those that cover all slots, then the others in random order.

    Greedy set cover (Chvatal 1979): each of the first has the most slots that are not covered yet; ties go to the first
    in random order. So small sets have about as many slots as sets of their size can have.

    Args:
      table: the domain's.
      candidates: in random order.
    """
    # Of those with the same slots only the first can cover anything new.
    numbers, first = np.unique(table.rows["slots"][candidates], return_index=True)
    slots = {int(i): table.combinations[number] for number, i in zip(numbers, first, strict=True)}
    uncovered = {slot for of_one in slots.values() for slot in of_one}
    cover: list[int] = []
    while uncovered:
        best = max(slots, key=lambda i: (len(uncovered.intersection(slots[i])), -i))
        cover.append(best)
        uncovered.difference_update(slots[best])
    return np.concatenate([candidates[cover], np.delete(candidates, cover)])
