"""Read the requester's files about submissions: collected answers, rejections and bonuses."""

from __future__ import annotations

import re
from collections.abc import Collection
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.limits import MAX_DIALOGUE_FILE, read_whole
from parapet.transforms.crowd.collection.prolific import is_id
from parapet.transforms.crowd.mturk.pay import read_rows

# The API's reasons for a rejection.
CATEGORIES = (
    *("TOO_QUICKLY", "TOO_SLOWLY", "FAILED_INSTRUCTIONS", "INCOMP_LONGITUDINAL", "FAILED_CHECK", "LOW_EFFORT"),
    *("MALINGERING", "NO_CODE", "BAD_CODE", "NO_DATA", "UNSUPP_DEVICE", "OTHER"),
)
SHORTEST_MESSAGE = 100  # characters, required by the API

_AMOUNT = re.compile(r"\d{1,6}(?:\.\d{1,2})?")


def cents_of(text: str) -> int | None:
    """Parse an amount such as ``1.50`` to cents or pence; None if it is not an amount."""
    return int(Decimal(text) * 100) if _AMOUNT.fullmatch(text) else None


def read_participants(path: str) -> set[str]:
    """Read the participants whose answers are in a file of 'parapet collect serve'.

    Raises InputError with file and row.
    """
    participants = set()
    for number, line in enumerate(read_whole(Path(path), MAX_DIALOGUE_FILE).splitlines(), 1):
        try:
            row = msgspec.json.decode(line, type=dict[str, Any])
            participants.add(str(row["WorkerId"]))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError):
            raise InputError("not a line of 'parapet collect serve'", path, f"row {number}") from None
    return participants


def read_rejections(path: str) -> dict[str, dict[str, str]]:
    """Read a CSV to submission id → request that rejects it. Raises InputError with file and row."""
    rejections: dict[str, dict[str, str]] = {}
    for number, row in read_rows(path, ("submission_id", "category", "message")):
        where = f"row {number}"
        _check_id(row["submission_id"], rejections, path, where)
        if row["category"] not in CATEGORIES:
            raise InputError(f"category must be one of {', '.join(CATEGORIES)}", path, where)
        if len(row["message"]) < SHORTEST_MESSAGE:
            raise InputError(
                f"message: must have at least {SHORTEST_MESSAGE} characters, which Prolific requires", path, where
            )
        body = {"action": "REJECT", "message": row["message"], "rejection_category": row["category"]}
        rejections[row["submission_id"]] = body
    return rejections


def read_bonuses(path: str) -> dict[str, int]:
    """Read a CSV to submission id → cents. Raises InputError with file and row."""
    bonuses: dict[str, int] = {}
    for number, row in read_rows(path, ("submission_id", "amount")):
        where = f"row {number}"
        _check_id(row["submission_id"], bonuses, path, where)
        cents = cents_of(row["amount"])
        if not cents:
            raise InputError(f"{row['amount'][:20]!r} is not an amount such as 0.50", path, where)
        bonuses[row["submission_id"]] = cents
    return bonuses


def _check_id(submission_id: str, others: Collection[str], path: str, where: str) -> None:
    if not is_id(submission_id):
        raise InputError("submission_id: 'parapet collect prolific list' shows the ids", path, where)
    if submission_id in others:
        raise InputError(f"submission {submission_id} appears twice", path, where)
