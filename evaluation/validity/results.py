"""What an evaluation of validity has found, as ``details.json`` and the page have it."""

from __future__ import annotations

import msgspec

from parapet.evaluation.ratings.agreement import Interval
from parapet.evaluation.validity.people import PeopleDetails


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
