"""Reviewers' decisions on answers: a CSV that people fill in by hand, in a spreadsheet, or on the review page."""

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Literal, get_args

import msgspec

from parapet.schemas.errors import InputError, no_such

Verdict = Literal["accept", "reject", "fix"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
COLUMNS = ("response_id", "decision", "text", "reason", "reviewer")
REQUIRED = ("response_id", "decision")

# Maximum characters in a cell. Names have a few dozen and descriptions a few hundred.
MAX_CELL = 2000

# What a spreadsheet takes for a formula, including full-width forms. Cells that begin with apostrophes and then one of
# these are guarded, too; otherwise removing the guard would not restore them.
_GUARDED = "[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
_TO_GUARD = re.compile(r"(?!-[0-9.]+(?:e-?[0-9]+)?\Z)'*" + _GUARDED)  # numbers are no formulas
_GUARD = re.compile("'+" + _GUARDED)

_DELIMITERS = ",;\t"

BadRow = tuple[str, str, dict[str, str]]  # place, reason, cells


class Record(msgspec.Struct):
    """A CSV record: its row in a spreadsheet, its first line, and its cells, or the problem of a broken record."""

    number: int
    raw: str
    cells: list[str]
    problem: str = ""


class Decision(msgspec.Struct, frozen=True):
    """A reviewer's decision on an answer.

    Attributes:
      response_id: ``ASSIGNMENTID:FIELD``.
      text: the text to use instead of the answer; only used by a fix.
      source: ``FILE:row N``, for messages.
    """

    response_id: str
    decision: Verdict
    text: str = ""
    reason: str = ""
    reviewer: str = ""
    source: str = ""


def neutralise(cell: str) -> str:
    """Guards a cell that a spreadsheet would run as a formula with an apostrophe. :func:`restore` undoes it."""
    return "'" + cell if _TO_GUARD.match(cell) else cell


def restore(cell: str) -> str:
    """Removes the apostrophe of :func:`neutralise`: ``restore(neutralise(x)) == x`` for every ``x``."""
    return cell[1:] if _GUARD.match(cell) else cell


def csv_lines(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[bytes]:
    """Yields the rows of a CSV in UTF-8, with every cell quoted and neutralised, and lines ended by ``\\n``."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    for row in chain([columns], ([neutralise(cell) for cell in row] for row in rows)):
        writer.writerow(row)
        yield out.getvalue().encode("utf-8", errors="replace")  # lone surrogates cannot be encoded in UTF-8
        out.seek(0)
        out.truncate()


def csv_bytes(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> bytes:
    """Returns a CSV like :func:`csv_lines`, as a whole."""
    return b"".join(csv_lines(columns, rows))


def delimiter_of(header: str, columns: Collection[str]) -> str:
    """Returns the delimiter that gives most of some columns: a comma, semicolon or tab.

    Excel writes semicolons in half of Europe.
    """
    known = {name.casefold() for name in columns}

    def rank(delimiter: str) -> int:
        return len({cell.strip(" \"'\r\n").casefold() for cell in header.split(delimiter)} & known)

    return max(_DELIMITERS, key=rank)


def parse_decisions(records: Iterable[Record], path: object) -> tuple[list[Decision], list[BadRow]]:
    """Parses a decisions CSV, or a review sheet with its decision column filled in.

    Columns may be in any order, with others beside them. Rows without a decision are undecided and skipped. A repeated
    identical decision counts once.

    Args:
      records: the records of the file, with its header.
      path: its path for messages and sources.

    Returns:
      The valid decisions in the order of the file, and the rows that cannot be used.

    Raises:
      InputError: the file is empty, or lacks the columns ``response_id`` and ``decision``.
    """
    records = iter(records)
    header = _header(next(records, None), path)
    good: dict[str, Decision] = {}
    bad: list[BadRow] = []
    for record in records:
        place = f"{path}: row {record.number}"
        by_column = dict(zip(header, record.cells, strict=False))
        used = {name: by_column.get(name, "") for name in COLUMNS}
        if record.problem:
            bad.append((place, record.problem.partition(": ")[2], {"line": record.raw}))
        elif reason := _problem(used, len(record.cells) - len(header)):
            bad.append((place, reason, _payload(header, record.cells)))
        elif used["decision"].strip():
            decision = _decision(used, place)
            first = good.setdefault(decision.response_id, decision)
            if (first.decision, first.text) != (decision.decision, decision.text):
                used_row = first.source.rpartition(": ")[2]
                reason = f"decided twice, differently: the decision in {used_row}, {first.decision!r}, is used"
                bad.append((place, reason, _payload(header, record.cells)))
    return list(good.values()), bad


def _header(first: Record | None, path: object) -> list[str]:
    if first is None:
        raise InputError("the file is empty: expected a header with response_id and decision", path)
    place = f"row {first.number}"
    if first.problem or "\0" in first.raw:
        reason = first.problem.partition(": ")[2] or "it looks like UTF-16"
        raise InputError(f"the header cannot be read: {reason} (save the sheet as 'CSV UTF-8')", path, place)
    names = [cell.strip().casefold() for cell in first.cells]
    if missing := [name for name in REQUIRED if name not in names]:
        shown = ", ".join(name[:40] for name in names[:20] if name)
        raise InputError(f"missing columns: {', '.join(missing)} (the header has: {shown})", path, place)
    if twice := [name for name in COLUMNS if names.count(name) > 1]:
        raise InputError(f"columns that appear twice: {', '.join(twice)}", path, place)
    return names


def _problem(cells: Mapping[str, str], surplus: int) -> str:
    """Returns why a row cannot be used, or ``""``."""
    if surplus > 0:
        return f"{surplus} more cells than the header has columns: put quotes around text that contains the delimiter"
    for name in COLUMNS:
        if len(cells[name]) > MAX_CELL + 1:  # the guard may stand before it
            return f"{name} has {len(cells[name]):,} characters, over the limit of {MAX_CELL:,}"
    word, text = _word(cells), restore(cells["text"])
    if not word:
        return "text without a decision: write 'fix' in the decision column" if text.strip() else ""
    if word not in VERDICTS:
        return no_such("decision", word[:40], VERDICTS)
    if not restore(cells["response_id"].strip()):
        return "response_id is empty"
    if word == "fix" and not any(c.isalnum() for c in text):
        return "'fix' needs a text to use instead"
    return f"text has {len(text):,} characters, over the limit of {MAX_CELL:,}" if len(text) > MAX_CELL else ""


def _word(cells: Mapping[str, str]) -> str:
    return cells["decision"].strip().casefold()


def _decision(cells: Mapping[str, str], source: str) -> Decision:
    return Decision(
        response_id=restore(cells["response_id"].strip()),
        decision=msgspec.convert(_word(cells), Verdict),
        text=restore(cells["text"]),
        reason=restore(cells["reason"]),
        reviewer=restore(cells["reviewer"]),
        source=source,
    )


def _payload(header: list[str], cells: list[str]) -> dict[str, str]:
    names = header + [f"cell {i}" for i in range(len(header) + 1, min(len(cells), len(header) + 20) + 1)]
    return {name: cell for name, cell in zip(names, cells, strict=False) if cell}
