"""Bounds of the API reference that botocore's model does not have."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from parapet.local_mturk.errors import invalid_value

MAX_ASSIGNMENTS = 1_000_000_000
MAX_BONUS = Decimal(10_000)

_YEAR = 31_536_000

# Lengths in characters, numbers by value, lists by length.
_BOUNDS: dict[str, dict[str, tuple[int, int]]] = {
    "HITType": {
        "AutoApprovalDelayInSeconds": (0, 2_592_000),
        "AssignmentDurationInSeconds": (30, _YEAR),
        "Title": (1, 128),
        "Keywords": (0, 1_000),
        "Description": (1, 2_000),
        "QualificationRequirements": (0, 10),
    },
    "HIT": {
        "LifetimeInSeconds": (30, _YEAR),
        "MaxAssignments": (1, MAX_ASSIGNMENTS),
        "RequesterAnnotation": (0, 255),
        "Question": (1, 1 << 20),  # counted in bytes where it is parsed
    },
    "AdditionalAssignments": {"NumberOfAdditionalAssignments": (1, MAX_ASSIGNMENTS)},
    "Review": {"RequesterFeedback": (0, 1_024)},
    "Rejection": {"RequesterFeedback": (1, 1_024)},
    "Bonus": {"Reason": (1, 4_096)},
    "QualificationType": {"Name": (1, 200), "Description": (1, 2_000), "Keywords": (0, 1_000)},
    "QualificationTypeUpdate": {"Description": (1, 2_000)},
    "Notice": {"Subject": (1, 200), "MessageText": (1, 4_096), "WorkerIds": (1, 100)},
    "Block": {"Reason": (1, 2_000)},
}


def check(kind: str, params: dict[str, Any]) -> None:
    """Raises MTurkError for the first member that is out of bounds. Members that are not given pass."""
    for name, (low, high) in _BOUNDS[kind].items():
        value = params.get(name)
        if value is None:
            continue
        size, what = (value, "a value") if isinstance(value, int) else (len(value), "a length")
        if not low <= size <= high:
            raise invalid_value(name, value, f"It must have {what} from {low:,} to {high:,}.")
