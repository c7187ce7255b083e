"""What people say of each utterance, and how far they agree with one another and with the metric."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from statistics import NormalDist

import msgspec
import numpy as np
from numpy.typing import NDArray

from parapet.evaluation.bootstrap import REPLICATES, interval, means, quiet, replicated, weights
from parapet.evaluation.ratings.answers import Hits, Item, Rating
from parapet.evaluation.sets import ALL
from parapet.evaluation.task import Metrics
from parapet.transforms.hits.judged import FAITHFUL, NATURAL, NO, YES
from parapet.transforms.hits.records import Place, RatedItem

Interval = tuple[float, float]

_Z = NormalDist().inv_cdf(0.975)

VALIDATED, INVALID = "#VALIDATED", "#INVALID"
# The groups, and the strata of which they are.
GROUPS: Mapping[str, frozenset[str]] = {
    ALL: frozenset({"faithful", "unfaithful", "invalid"}),
    VALIDATED: frozenset({"faithful", "unfaithful"}),
    "#FAITHFUL": frozenset({"faithful"}),
    "#UNFAITHFUL": frozenset({"unfaithful"}),
    INVALID: frozenset({"invalid"}),
}
Votes = tuple[tuple[str, str], ...]  # (worker hash, answer) of the ratings that count

METRICS = ("agreement", "human_faithful", "naturalness", "fleiss_kappa", "krippendorff_alpha")


class Judged(msgspec.Struct, frozen=True):
    """What people say of an utterance.

    Attributes:
      votes: yes or no.
      natural: the ratings of naturalness.
      majority: whether it is faithful; None where there is no majority.
    """

    item: RatedItem
    votes: Votes
    natural: tuple[int, ...]
    majority: bool | None

    @property
    def agrees(self) -> bool | None:
        """Whether the metric says the same."""
        return None if self.majority is None else self.majority is self.item.faithful

    @property
    def counts(self) -> list[int]:
        """How many found it faithful, and how many not."""
        return [sum(vote == choice for _, vote in self.votes) for choice in (YES, NO)]

    def values(self) -> dict[str, float | None]:
        """Of each metric that is a mean over utterances, the value of this one."""
        return {
            "agreement": None if self.agrees is None else float(self.agrees),
            "human_faithful": None if self.majority is None else float(self.majority),
            "naturalness": sum(self.natural) / len(self.natural) if self.natural else None,
        }


class GroupDetails(msgspec.Struct, frozen=True):
    """What ``details.json`` has of a group.

    Attributes:
      utterances: how many were to be rated; ``majorities`` have one.
      complete: how many have all wanted ratings: those of kappa.
      confusion: metric to majority (``none`` where there is none) to a number.
      intervals: of 95 %, by metric; None where there is none.
    """

    utterances: int
    majorities: int
    complete: int
    confusion: dict[str, dict[str, int]]
    intervals: dict[str, Interval | None]


class Details(msgspec.Struct, frozen=True):
    """``details.json``."""

    raters: int
    workers: int
    assignments: int
    groups: dict[str, GroupDetails]
    answers: dict[str, int]
    reasons: dict[str, dict[str, int]]
    dead_letters: int


def judge(hits: Hits[RatedItem], ratings: Iterable[Rating]) -> list[Judged]:
    """The majority on each utterance, in the order of dialogues and turns."""
    votes = votes_of(ratings)
    found = []
    for item in in_order(hits.items):
        of_item = votes[item.place, FAITHFUL]
        natural = tuple(sorted(int(point) for _, point in votes[item.place, NATURAL]))
        found.append(Judged(item, of_item, natural, majority(of_item, hits.raters)))
    return found


def in_order(items: Iterable[Item]) -> list[Item]:
    """Utterances in the order of dialogues and turns."""
    return sorted(items, key=lambda item: (item.dialogue_id, item.turn, item.place))


def votes_of(ratings: Iterable[Rating]) -> dict[tuple[Place, str], Votes]:
    """(worker, answer) of the ratings that count, by utterance and question; nothing where there are none."""
    used: dict[tuple[Place, str], list[tuple[str, str]]] = defaultdict(list)
    for rating in ratings:
        if rating.disposition == "used":
            worker = rating.assignment.worker_hash or rating.assignment.assignment_id
            used[rating.place, rating.of.question].append((worker, rating.text))
    return defaultdict(tuple, {of: tuple(sorted(votes)) for of, votes in used.items()})


def majority(votes: Votes, raters: int) -> bool | None:
    """Whether more than half of the wanted workers say yes; None where neither yes nor no has so many."""
    answers = [answer for _, answer in votes]
    for choice in (YES, NO):
        if 2 * answers.count(choice) > raters:
            return choice == YES
    return None


class Agreement(msgspec.Struct, frozen=True):
    """How far workers agree with one another on a question.

    Attributes:
      complete: how many utterances have all wanted ratings: those of ``observed`` and ``fleiss_kappa``.
      observed: the mean share of the pairs of workers who give the same answer to one.
    """

    complete: int
    observed: float | None
    fleiss_kappa: float | None
    kappa_interval: Interval | None
    krippendorff_alpha: float | None


def agreement_of(votes: Sequence[tuple[Place, Votes]], raters: int, seed: str) -> Agreement:
    """How far workers agree, with the interval of kappa over dialogues.

    Args:
      votes: of each utterance.
      raters: how many workers were wanted.
      seed: of the bootstrap.
    """
    complete = [(place, of) for place, of in votes if len(of) == raters and raters > 1]
    counts = [[sum(answer == choice for _, answer in of) for choice in (YES, NO)] for _, of in complete]
    drawn = {place[1]: weights(seed, place[1], REPLICATES) for place, _ in complete}
    kappa = fleiss_kappa(counts)
    of_complete = np.array([drawn[place[1]] for place, _ in complete])
    alike = [sum(n * (n - 1) for n in of) / (raters * (raters - 1)) for of in counts]
    return Agreement(
        len(complete),
        sum(alike) / len(alike) if alike else None,
        kappa,
        None if kappa is None else fleiss_interval(counts, of_complete),
        krippendorff_alpha([(worker, place, answer) for place, of in votes for worker, answer in of]),
    )


def evaluate(judged: Sequence[Judged], hits: Hits[RatedItem], seed: str) -> tuple[Metrics, dict[str, GroupDetails]]:
    """(``metrics.json``, details) of each group that has utterances."""
    metrics: Metrics = {}
    details = {}
    for name, strata in GROUPS.items():
        if group := [one for one in judged if one.item.stratum in strata]:
            metrics[name], details[name] = _of_group(group, hits.raters, seed)
            if not hits.naturalness:
                del metrics[name]["naturalness"]
                del details[name].intervals["naturalness"]
    return metrics, details


def _of_group(group: Sequence[Judged], raters: int, seed: str) -> tuple[dict[str, float | None], GroupDetails]:
    among = agreement_of([(one.item.place, one.votes) for one in group], raters, seed)
    decided = [one for one in group if one.majority is not None]
    agreeing, faithful = sum(bool(one.agrees) for one in decided), sum(bool(one.majority) for one in decided)
    natural = [(one.item.dialogue_id, value) for one in group if (value := one.values()["naturalness"]) is not None]
    values: dict[str, float | None] = {
        "agreement": agreeing / len(decided) if decided else None,
        "human_faithful": faithful / len(decided) if decided else None,
        "naturalness": sum(value for _, value in natural) / len(natural) if natural else None,
        "fleiss_kappa": among.fleiss_kappa,
        "krippendorff_alpha": among.krippendorff_alpha,
    }
    intervals = {
        "agreement": wilson_interval(agreeing, len(decided)),
        "human_faithful": wilson_interval(faithful, len(decided)),
        "naturalness": mean_interval(natural, seed),
        "fleiss_kappa": among.kappa_interval,
    }
    confusion: dict[str, Counter[str]] = {word: Counter() for word in ("faithful", "unfaithful")}
    for one in group:
        confusion[verdict(one.item.faithful)][verdict(one.majority)] += 1
    return values, GroupDetails(
        len(group), len(decided), among.complete, {name: dict(of) for name, of in confusion.items()}, intervals
    )


def mean_interval(values: Sequence[tuple[str, float]], seed: str) -> Interval | None:
    """The bootstrap interval of 95 % of the mean of (dialogue, value)."""
    statistic = [dialogue_id for dialogue_id, _ in values], [value for _, value in values]
    return interval(means(replicated(seed, [statistic]))[:, 0])


def verdict(faithful: bool | None) -> str:
    """The word for what metric or majority say."""
    return "none" if faithful is None else "faithful" if faithful else "unfaithful"


def fleiss_kappa(counts: Sequence[Sequence[int]]) -> float | None:
    """Fleiss' kappa (Fleiss 1971): agreement beyond chance of any raters, as many for each item.

    Args:
      counts: of each item, how many raters chose each category; the sums of all items are the same, 2 or more.

    Returns:
      At most 1; 0 is chance. None where it is not defined: no item, or all raters chose one category throughout.
    """
    if not len(counts):
        return None
    (kappa,) = _kappas(np.asarray(counts), np.ones((len(counts), 1)))
    return float(kappa) if math.isfinite(kappa) else None


def fleiss_interval(counts: Sequence[Sequence[int]], weights: NDArray[np.int64]) -> Interval | None:
    """The bootstrap interval of 95 % of Fleiss' kappa.

    Args:
      counts: as of :func:`fleiss_kappa`.
      weights: how often each item counts in each replicate: shape (items, replicates), see
        :func:`parapet.evaluation.bootstrap.weights`.
    """
    return interval(_kappas(np.asarray(counts), weights)) if len(counts) else None


def _kappas(counts: NDArray[np.int64], weights: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Kappa in each replicate: counts (items, categories) and weights (items, replicates) to (replicates,)."""
    raters = counts.sum(axis=1)
    if len(set(raters.tolist())) > 1 or raters[0] < 2:
        raise ValueError("every item needs the same number of raters, 2 or more")
    n = int(raters[0])
    alike = (counts * (counts - 1)).sum(axis=1) / (n * (n - 1))
    with quiet():
        total = weights.sum(axis=0)
        observed = (alike @ weights) / total
        shares = (counts.T @ weights) / (n * total)
        expected = (shares**2).sum(axis=0)
        kappas: NDArray[np.float64] = (observed - expected) / (1 - expected)
    return kappas


def krippendorff_alpha(labels: Sequence[tuple[str, Hashable, str]]) -> float | None:
    """Krippendorff's alpha for nominal labels, which takes any number of raters for each item.

    Args:
      labels: (rater, item, label), one for each rater and item. Items with one rater say nothing.

    Returns:
      At most 1; None where it is not defined: no item has two raters, or all labels are the same.
    """
    raters: dict[Hashable, int] = {}
    for _, item, _ in labels:
        raters[item] = raters.get(item, 0) + 1
    paired = [label for label in labels if raters[label[1]] > 1]
    if len({label for _, _, label in paired}) < 2:
        return None
    from nltk.metrics.agreement import AnnotationTask

    return float(AnnotationTask(paired).alpha())


def wilson_interval(right: int, n: int) -> Interval | None:
    """The interval of 95 % of a share (Wilson 1927), which holds for small samples and shares near 0 and 1, too."""
    if not n:
        return None
    share, z2 = right / n, _Z * _Z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)
