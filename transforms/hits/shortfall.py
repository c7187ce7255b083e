"""A top-up: the tasks again, asking only for what ``compose`` found missing."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from math import ceil

from parapet.schemas.elements import TASKS, elements_of, task_id
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.service import Service
from parapet.transforms.hits.terms import Terms

# So many of the answers survive vetting and deduplication: of SGD-X's batches, and of our sample, about half do.
YIELD = 0.5

# With ten assignments MTurk's fee doubles.
MOST = 9

# (task id, form field): what a page may ask for.
Fields = frozenset[tuple[str, str]]


def top_up_assignments(most_missing: int) -> int:
    """Workers a HIT that let ``most_missing`` more good answers be expected, below the higher fee tier."""
    return max(1, min(MOST, ceil(most_missing / YIELD)))


def top_up_terms(most_missing: int) -> Terms:
    """The usual terms, with as many assignments as the largest gap needs."""
    return Terms(assignments=top_up_assignments(most_missing))


def read_shortfall(path: str, services: Mapping[str, Service]) -> tuple[Fields, int]:
    """What a ``shortfall.csv`` asks for, and the most that one element lacks.

    Raises:
      InputError: not a shortfall file, or a row names what the schemas lack; with the row.
    """
    try:
        with as_path(path).open("r", newline="", encoding="utf-8-sig") as handle:
            reader = csv.DictReader(handle)
            missing = {"service_name", "task", "field", "have", "need"} - set(reader.fieldnames or ())
            if missing:
                raise InputError(f"no shortfall.csv of compose: lacks {', '.join(sorted(missing))}", path, "row 1")
            rows = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot be read: {error}", path) from None
    fields, most = set(), 0
    for number, row in rows:
        place = _place(row, services)
        if place is None:
            what = f"{row['service_name']}, {row['task']}, {row['field']}"
            raise InputError(f"the schemas have no such element: {what}", path, f"row {number}")
        fields.add(place)
        most = max(most, _lacks(row, path, number))
    if not fields:
        raise InputError("nothing is missing: there is nothing to ask for", path)
    return frozenset(fields), most


def _place(row: Mapping[str, str], services: Mapping[str, Service]) -> tuple[str, str] | None:
    service = services.get(row["service_name"] or "")
    for task in TASKS:
        if service is None or task != row["task"]:
            continue
        if any(element.field == row["field"] for element in elements_of(service, task)):
            return task_id(service.service_name, task), row["field"]
    return None


def _lacks(row: Mapping[str, str], path: str, number: int) -> int:
    try:
        return max(1, int(row["need"]) - int(row["have"]))
    except (TypeError, ValueError):
        raise InputError("'have' and 'need' are not numbers", path, f"row {number}") from None
