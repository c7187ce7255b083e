"""What people say of user turns of perturbed sets, and the details of an evaluation of validity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from parapet.evaluation.ratings.answers import Answers, Hits
from parapet.evaluation.ratings.judgements import (
    Interval,
    Votes,
    agreement_of,
    in_order,
    majority,
    mean_interval,
    votes_of,
    wilson_interval,
)
from parapet.evaluation.validity.turns import Pair, item_of
from parapet.schemas.errors import InputError
from parapet.transforms.hits.judged import NATURAL, SAME, VALUES
from parapet.transforms.hits.records import Place, VariedItem

METRICS = (
    *("human_valid", "human_same", "human_values", "naturalness"),
    *("observed_agreement", "fleiss_kappa", "krippendorff_alpha"),
)
OF_ROWS = METRICS[:4]  # are means over turns


class Judged(msgspec.Struct, frozen=True):
    """What people say of a user turn.

    Attributes:
      same: of whether it says the same; ``values`` of whether it has all values, nothing where there are none.
      natural: the ratings of naturalness, 1 to 5.
      raters: how many workers were wanted.
    """

    item: VariedItem
    same: Votes
    kept: Votes
    natural: tuple[int, ...]
    raters: int

    def values(self) -> dict[str, float | None]:
        """Each of ``OF_ROWS``; None where there is no majority."""
        same, kept = majority(self.same, self.raters), majority(self.kept, self.raters)
        undecided = same is None or (kept is None and self.item.values)
        valid = False if same is False or kept is False else None if undecided else True
        return {
            "human_valid": _number(valid),
            "human_same": _number(same),
            "human_values": _number(kept),
            "naturalness": sum(self.natural) / len(self.natural) if self.natural else None,
        }


class PeopleDetails(msgspec.Struct, frozen=True):
    """What ``details.json`` has of what people say of a set, or of all.

    Attributes:
      pairs: how many were drawn; ``majorities`` have one on whether they are valid.
      complete: how many have all wanted ratings: those of kappa.
      intervals: of 95 %, by metric; None where there is none.
    """

    pairs: int
    majorities: int
    complete: int
    intervals: dict[str, Interval | None]


class GroupDetails(msgspec.Struct, frozen=True):
    """What ``details.json`` has of a set, or of all.

    Attributes:
      user_turns: how many there are; ``changed`` have another text, of which everything below is.
      values: that these turns have to say; ``values_found`` letter for letter, ``values_found_fuzzy`` nearly.
      lost_by_slot: values that are not found letter for letter.
      changed_labels: (predicted of the original, predicted of the varied text, turns), the most frequent ones.
      intervals: of 95 %, by metric; None where there is none.
    """

    user_turns: int
    changed: int
    values: int
    values_found: int
    values_found_fuzzy: int
    lost_by_slot: dict[str, int]
    changed_labels: list[tuple[str, str, int]]
    intervals: dict[str, Interval | None]


class Crowd(msgspec.Struct, frozen=True):
    """What ``details.json`` has of the answers of people: how many, and what became of them."""

    raters: int
    workers: int
    assignments: int
    answers: dict[str, int]
    reasons: dict[str, dict[str, int]]
    dead_letters: int
    groups: dict[str, PeopleDetails]


class Details(msgspec.Struct, frozen=True):
    """``details.json``.

    Attributes:
      labels: what the classifier predicts: ``intent`` or ``acts``; None without one.
      spoken: whether values are compared in their spoken form, too.
      missing_dialogues: of the reference, by set.
      bad_spans: user turns of the reference with a span outside the text.
      people: what people say, where some were asked.
    """

    labels: str | None
    spoken: bool
    missing_dialogues: dict[str, int]
    bad_spans: int
    groups: dict[str, GroupDetails]
    people: Crowd | None = None


def judge(hits: Hits[VariedItem], answers: Answers, pairs: Iterable[Pair], path: str) -> dict[Place, Judged]:
    """What people say of each turn that was drawn.

    Args:
      hits: the pages.
      answers: to them, vetted.
      pairs: of all sets.
      path: of the pages, for messages.

    Raises:
      InputError: the pages are of other sets than the pairs.
    """
    of_place = {(pair.set, *pair.place): pair for pair in pairs}
    votes = votes_of(answers.ratings)
    found = {}
    for item in in_order(hits.items):
        pair = of_place.get(item.place)
        if pair is None or (item_of(pair).original, pair.utterance) != (item.original, item.utterance):
            what = f"{item.stratum!r} has no such turn, or another text: {item.dialogue_id!r}, turn {item.turn}"
            raise InputError(f"shows other sets than --sets: {what}", path, "--hits")
        place = item.place
        natural = tuple(sorted(int(point) for _, point in votes[place, NATURAL]))
        found[place] = Judged(item, votes[place, SAME], votes[place, VALUES], natural, hits.raters)
    return found


def summed_up(judged: Sequence[Judged], seed: str) -> tuple[dict[str, float | None], PeopleDetails]:
    """(``METRICS``, details) of some turns. Agreement is on whether the turn says the same."""
    rows = [one.values() for one in judged]
    columns = {name: [row[name] for row in rows if row[name] is not None] for name in OF_ROWS}
    raters = judged[0].raters if judged else 0
    among = agreement_of([(one.item.place, one.same) for one in judged], raters, seed)
    metrics: dict[str, float | None] = {
        name: sum(column) / len(column) if column else None  # type: ignore[arg-type]
        for name, column in columns.items()
    }
    metrics |= {
        "observed_agreement": among.observed,
        "fleiss_kappa": among.fleiss_kappa,
        "krippendorff_alpha": among.krippendorff_alpha,
    }
    natural = [
        (one.item.dialogue_id, value)
        for one, row in zip(judged, rows, strict=True)
        if (value := row["naturalness"]) is not None
    ]
    intervals: dict[str, Interval | None] = {
        name: wilson_interval(sum(value == 1 for value in columns[name]), len(columns[name])) for name in OF_ROWS[:3]
    }
    intervals |= {"naturalness": mean_interval(natural, seed), "fleiss_kappa": among.kappa_interval}
    return metrics, PeopleDetails(len(judged), len(columns["human_valid"]), among.complete, intervals)


def short_of(judged: Mapping[Place, Judged]) -> dict[Place, int]:
    """The turns that lack ratings, with how many they have."""
    return {place: len(one.same) for place, one in judged.items() if len(one.same) < one.raters}


def _number(value: bool | None) -> float | None:
    return None if value is None else float(value)
