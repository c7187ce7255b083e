"""Who is paid: everyone, unless a rejection is asked for. Payment and the acceptance of data are separate decisions."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.crowd.ingest import parse_time, worker_hash

# Reasons that show careless work for certain. What only a later answer can tell (a duplicate, one not drawn), what
# another program did and what a reviewer merely disliked is paid in any case.
CARELESS = {
    "blank": "left blank",
    "placeholder": "a filler instead of an answer",
    "gibberish": "random letters",
    "single_character": "a single letter or digit",
    "markup": "HTML, an address or a formula",
    "prompt_copy": "a copy of the question",
    "same_answer": "the same words in half of the form or more",
    "too_fast": "submitted faster than the form can be read",
    "too_long": "far too long for what was asked",
}

_COLUMNS = ("response_id", "disposition", "reason", "worker_hash", "submit_time")

MAX_FEEDBACK = 1_024  # characters


class Payment(msgspec.Struct, frozen=True):
    """What is to become of one assignment.

    Attributes:
      feedback: what the worker is told of a rejection.
    """

    assignment_id: str
    verdict: Literal["approve", "reject"]
    feedback: str = ""


class Audit(msgspec.Struct, frozen=True):
    """What ``compose`` made of each assignment.

    Attributes:
      answers: assignment id to how many of its answers fell for which reason (``""``: none did).
      dead: assignment ids of which nothing or not all could be read; these are paid.
      judged: assignment id to the worker's hash and the time of submission: whose work it was.
    """

    answers: dict[str, Counter[str]]
    dead: frozenset[str]
    judged: dict[str, tuple[str, datetime | None]]


def read_audit(folder: str) -> Audit:
    """The audit of a folder that ``compose`` made.

    Raises:
      InputError: there is none, or it is not one.
    """
    import pyarrow.parquet as pq

    place = Path(folder)
    place = place.parent if place.name == "responses.parquet" else place
    if not (place / "run.json").exists():
        raise InputError("no finished folder of 'parapet compose' (it has no run.json)", place)
    try:
        table = pq.read_table(place / "responses.parquet", columns=list(_COLUMNS))
        letters = (place / "dead_letters.jsonl").read_bytes().splitlines()
        dead = frozenset(str(msgspec.json.decode(line)["key"]).partition(":")[0] for line in letters)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, msgspec.MsgspecError) as error:
        raise InputError(f"cannot be read: {error}", place) from None
    answers: dict[str, Counter[str]] = {}
    judged: dict[str, tuple[str, datetime | None]] = {}
    columns = (table[name].to_pylist() for name in _COLUMNS)
    for response_id, disposition, reason, worker, submitted in zip(*columns, strict=True):
        judged[response_id.partition(":")[0]] = worker, submitted
        counter = answers.setdefault(response_id.partition(":")[0], Counter())
        counter[reason.partition(":")[0] if disposition == "rejected" else ""] += 1
    return Audit(answers, dead, judged)


def is_of(audit: Audit, line: Mapping[str, Any], key: bytes) -> bool:
    """Whether the audit judged this very submission: MTurk gives assignment ids out again."""
    worker, submitted = audit.judged.get(line["AssignmentId"], ("", None))
    if worker and worker != worker_hash(key, line["WorkerId"]):
        return False
    return submitted is None or int(submitted.timestamp()) == parse_time(str(line.get("SubmitTime", "")))


def decide(audit: Audit, reject: bool, named: Mapping[str, str]) -> dict[str, Payment]:
    """Approves every assignment of the audit, but those to be rejected.

    Args:
      audit: of :func:`read_audit`.
      reject: whether an assignment of which every answer is careless for certain is rejected.
      named: assignment id to feedback, of those to be rejected in any case.
    """
    found = {}
    for assignment_id in [*audit.answers, *sorted(audit.dead - audit.answers.keys())]:
        reasons = audit.answers.get(assignment_id, Counter())
        if assignment_id in named:
            found[assignment_id] = Payment(assignment_id, "reject", named[assignment_id])
        elif reject and assignment_id not in audit.dead and reasons and not reasons.keys() - CARELESS.keys():
            found[assignment_id] = Payment(assignment_id, "reject", feedback_of(reasons))
        else:
            found[assignment_id] = Payment(assignment_id, "approve")
    return found


def feedback_of(reasons: Mapping[str, int]) -> str:
    """What a worker is told: how many answers, and what was the matter with them."""
    told = ", ".join(
        f"{CARELESS[reason]} ({n})" for reason, n in sorted(reasons.items(), key=lambda each: (-each[1], each[0]))
    )
    n = sum(reasons.values())
    none = f"None of the {n} answers" if n > 1 else "The answer"
    could = "could be used" if n > 1 else "could not be used"
    return f"{none} {could}: {told}. If you think this is a mistake, please write to us and we will look again."


def read_rejections(path: str) -> dict[str, str]:
    """Assignment id to feedback, from a CSV with the columns ``assignment_id`` and ``feedback``.

    Raises:
      InputError: a column or cell is missing, or an assignment is there twice; with the row.
    """
    found: dict[str, str] = {}
    for number, row in read_rows(path, ("assignment_id", "feedback")):
        if not row["feedback"]:
            raise InputError("a rejection needs feedback for the worker", path, f"row {number}")
        if len(row["feedback"]) > MAX_FEEDBACK:
            raise InputError(f"feedback over {MAX_FEEDBACK:,} characters", path, f"row {number}")
        if row["assignment_id"] in found:
            raise InputError(f"assignment {row['assignment_id']} is there twice", path, f"row {number}")
        found[row["assignment_id"]] = row["feedback"]
    return found


def check_named(path: str, audit: Audit) -> None:
    """Raises InputError, with the row, where a rejection is of an assignment that the audit does not have."""
    for number, row in read_rows(path, ("assignment_id",)):
        assignment_id = row["assignment_id"]
        if assignment_id not in audit.answers and assignment_id not in audit.dead:
            raise InputError(f"the audit has no assignment {assignment_id[:64]}", path, f"row {number}")


def read_rows(path: str, columns: Iterable[str]) -> list[tuple[int, dict[str, str]]]:
    """(row number, cells without spaces around them) of a CSV that must have ``columns``.

    Raises:
      InputError: it cannot be read, lacks a column, or a row has too many or too few cells.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise InputError(f"the header lacks {', '.join(missing)}", path, "row 1")
        rows: list[tuple[int, dict[Any, Any]]] = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot be read: {error}", path) from None
    for number, row in rows:
        if None in row or None in row.values():
            raise InputError("more or fewer cells than the header", path, f"row {number}")
    return [(number, {name: cell.strip() for name, cell in row.items()}) for number, row in rows]
