"""What people say of each utterance, and how far they agree with one another and with the metric."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from parapet.evaluation.bootstrap import REPLICATES, interval, means, replicated, weights
from parapet.evaluation.lines import ALL
from parapet.evaluation.ratings.agreement import (
    Interval,
    fleiss_interval,
    fleiss_kappa,
    krippendorff_alpha,
    wilson_interval,
)
from parapet.evaluation.ratings.answers import Hits, Place, Rating
from parapet.evaluation.task import Metrics
from parapet.transforms.hits.ratings import FAITHFUL, NATURAL, NO, YES
from parapet.transforms.hits.records import RatedItem

VALIDATED, INVALID = "#VALIDATED", "#INVALID"
# The groups, and the strata of which they are.
GROUPS: Mapping[str, frozenset[str]] = {
    ALL: frozenset({"faithful", "unfaithful", "invalid"}),
    VALIDATED: frozenset({"faithful", "unfaithful"}),
    "#FAITHFUL": frozenset({"faithful"}),
    "#UNFAITHFUL": frozenset({"unfaithful"}),
    INVALID: frozenset({"invalid"}),
}
METRICS = ("agreement", "human_faithful", "naturalness", "fleiss_kappa", "krippendorff_alpha")


class Judged(msgspec.Struct, frozen=True):
    """What people say of an utterance.

    Attributes:
      votes: (worker hash, yes or no) of the ratings that count.
      natural: the ratings of naturalness.
      majority: whether it is faithful; None where there is no majority.
    """

    item: RatedItem
    votes: tuple[tuple[str, str], ...]
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


def judge(hits: Hits, ratings: Iterable[Rating]) -> list[Judged]:
    """The majority on each utterance, in the order of dialogues and turns."""
    used: dict[tuple[Place, str], list[Rating]] = defaultdict(list)
    for rating in ratings:
        if rating.disposition == "used":
            used[rating.place, rating.of.question].append(rating)
    found = []
    for item in sorted(hits.items, key=lambda item: (item.dialogue_id, item.turn)):
        place = item.dialogue_id, item.turn
        of_item = used[place, FAITHFUL]
        votes = sorted((one.assignment.worker_hash or one.assignment.assignment_id, one.text) for one in of_item)
        natural = sorted(int(one.text) for one in used[place, NATURAL])
        found.append(Judged(item, tuple(votes), tuple(natural), _majority([vote for _, vote in votes], hits.raters)))
    return found


def _majority(votes: Sequence[str], raters: int) -> bool | None:
    for choice in (YES, NO):
        if 2 * votes.count(choice) > raters:
            return choice == YES
    return None


def evaluate(judged: Sequence[Judged], hits: Hits, seed: str) -> tuple[Metrics, dict[str, GroupDetails]]:
    """(``metrics.json``, details) of each group that has utterances."""
    drawn = {one.item.dialogue_id: weights(seed, one.item.dialogue_id, REPLICATES) for one in judged}
    metrics: Metrics = {}
    details = {}
    for name, strata in GROUPS.items():
        if group := [one for one in judged if one.item.stratum in strata]:
            metrics[name], details[name] = _of_group(group, hits.raters, drawn, seed)
            if not hits.naturalness:
                del metrics[name]["naturalness"]
                del details[name].intervals["naturalness"]
    return metrics, details


def _of_group(
    group: Sequence[Judged], raters: int, drawn: Mapping[str, NDArray[np.int64]], seed: str
) -> tuple[dict[str, float | None], GroupDetails]:
    complete = [one for one in group if len(one.votes) == raters and raters > 1]
    counts = [one.counts for one in complete]
    labels = [(worker, (one.item.dialogue_id, one.item.turn), vote) for one in group for worker, vote in one.votes]
    decided = [one for one in group if one.majority is not None]
    agreeing, faithful = sum(bool(one.agrees) for one in decided), sum(bool(one.majority) for one in decided)
    natural = [(one.item.dialogue_id, value) for one in group if (value := one.values()["naturalness"]) is not None]
    values: dict[str, float | None] = {
        "agreement": agreeing / len(decided) if decided else None,
        "human_faithful": faithful / len(decided) if decided else None,
        "naturalness": sum(value for _, value in natural) / len(natural) if natural else None,
        "fleiss_kappa": fleiss_kappa(counts),
        "krippendorff_alpha": krippendorff_alpha(labels),
    }
    of_complete = np.array([drawn[one.item.dialogue_id] for one in complete])
    intervals = {
        "agreement": wilson_interval(agreeing, len(decided)),
        "human_faithful": wilson_interval(faithful, len(decided)),
        "naturalness": _mean_interval(natural, seed),
        "fleiss_kappa": None if values["fleiss_kappa"] is None else fleiss_interval(counts, of_complete),
    }
    confusion: dict[str, Counter[str]] = {word: Counter() for word in ("faithful", "unfaithful")}
    for one in group:
        confusion[verdict(one.item.faithful)][verdict(one.majority)] += 1
    return values, GroupDetails(
        len(group), len(decided), len(complete), {name: dict(of) for name, of in confusion.items()}, intervals
    )


def _mean_interval(values: Sequence[tuple[str, float]], seed: str) -> Interval | None:
    statistic = [dialogue_id for dialogue_id, _ in values], [value for _, value in values]
    return interval(means(replicated(seed, [statistic]))[:, 0])


def verdict(faithful: bool | None) -> str:
    """The word for what metric or majority say."""
    return "none" if faithful is None else "faithful" if faithful else "unfaithful"
