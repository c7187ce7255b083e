"""How the dialogues of a domain are drawn: what the paper says, and where it says nothing what its files have.

The files' figures are counts of 1,000 dialogues a task, as they were published; of tasks 2, 3 and 5 only the figures
were at hand. Where they are given for the paper's four fields, they are carried over to any number of fields.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from parapet.schemas.errors import InputError, reason_and_place
from parapet.transforms.restaurants.patterns import merged

Range = tuple[int, int]  # the least and the most; each number of these and between is as likely


class Given(msgspec.Struct, frozen=True):
    """How many fields the first request names, by task."""

    task1: Range
    task2: Range
    task3: Range
    task5: Range


class Updates(msgspec.Struct, frozen=True):
    """How many fields are updated, by task."""

    task2: Range
    task5: Range


class Structure(msgspec.Struct, frozen=True):
    """How dialogues are drawn.

    Attributes:
      given: fields in the first request.
      updates: fields updated.
      options: (how many entities there are to choose from, share of the dialogues of task 3); without any, a request
        of task 3 is any that finds enough.
      accepted: share of the proposals that the user accepts; the last one always.
      all_extras: share of the dialogues of tasks 4 and 5 in which the user asks about all extras, not about one.
    """

    given: Given
    updates: Updates
    options: tuple[tuple[int, float], ...]
    accepted: float
    all_extras: float

    def given_in(self, task: int) -> Range:
        """Of task 1, 2, 3 or 5."""
        fields: Range = getattr(self.given, f"task{task}")
        return fields

    def updates_in(self, task: int) -> Range:
        """Of task 2 or 5; none in the others."""
        return getattr(self.updates, f"task{task}", (0, 0))


class _File(msgspec.Struct):
    """The table as it stands in a file."""

    given: Given
    updates: Updates
    options: dict[str, float]
    accepted: float
    all_extras: float


def structure_for(fields: int, table: Mapping[str, Any], path: object) -> Structure:
    """The structure that a table says; what it does not say is as published.

    Args:
      fields: how many the domain has.
      table: ``structure`` of an ontology.
      path: the ontology's file, for messages.

    Raises:
      InputError: an unknown key, a range or share that cannot be; with the place.
    """
    whole = merged(_published(fields), {**table, "options": {}}, path, "structure")
    whole["options"] = table.get("options", {})
    try:
        parsed = msgspec.convert(whole, _File)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(reason, path, f"structure.{at}" if at else "structure") from None
    for place, reason in _problems(parsed, fields):
        raise InputError(reason, path, f"structure.{place}")
    options = tuple(sorted((int(number), share) for number, share in parsed.options.items()))
    return Structure(parsed.given, parsed.updates, options, parsed.accepted, parsed.all_extras)


def _published(fields: int) -> dict[str, Any]:
    """Section 3.1.1 of the paper; of tasks 2 and 5 what the published files have, which is less than it says."""
    some = max(1, fields - 1)
    return {
        "given": {"task1": [0, fields], "task2": [fields, fields], "task3": [0, fields], "task5": [1, some]},
        "updates": {"task2": [1, fields], "task5": [1, some]},
        "options": {},
        "accepted": 0.25,
        "all_extras": 0.5,
    }


def _problems(parsed: _File, fields: int) -> Iterator[tuple[str, str]]:
    """(place, reason) of what cannot be."""
    for key, ranges, least in (("given", parsed.given, 0), ("updates", parsed.updates, 1)):
        for task, (low, high) in msgspec.structs.asdict(ranges).items():
            if not least <= low <= high <= fields:
                yield f"{key}.{task}", f"[{low}, {high}]: give the least and the most, from {least} to {fields} fields"
    for number, share in parsed.options.items():
        if not re.fullmatch("[1-9][0-9]{0,3}", number) or not 0 < share < math.inf:
            yield f"options.{number}", f"{share:g}: give a number of entities from 1 on and a share above 0: 3 = 0.73"
    for key, share in (("accepted", parsed.accepted), ("all_extras", parsed.all_extras)):
        if not 0 <= share <= 1:
            yield key, f"{share:g} is no share: give 0 to 1"
