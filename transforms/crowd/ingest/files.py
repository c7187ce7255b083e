"""The files that people give to ``compose``: response files and reviewers' sheets, each read whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BufferedReader
from typing import Any

import msgspec
import orjson

from parapet.schemas.decisions import Decision, parse_decisions
from parapet.schemas.errors import DamagedFile, InputError
from parapet.schemas.layout import as_path, is_there
from parapet.schemas.responses import Assignment, DeadLetter
from parapet.transforms.compressed import check_input, open_input
from parapet.transforms.crowd.ingest.api_assignments import read_assignments
from parapet.transforms.crowd.ingest.batch_csv import read_batch
from parapet.transforms.crowd.ingest.fields import SCHEMA_TASKS, TaskKind, payload
from parapet.transforms.crowd.ingest.parts import Part, looks_like_json, read_part


class Sources(msgspec.Struct, frozen=True):
    """What is read.

    Attributes:
      responses: batch CSVs and JSON lines.
      decisions: reviewers' sheets.
      reviewers: two sheets to be merged, or none.
      encoding: of response files without a byte order mark.
      kind: of the tasks whose answers are taken.
    """

    responses: list[str]
    decisions: list[str] = []
    reviewers: list[str] = []
    encoding: str = "utf-8"
    kind: TaskKind = SCHEMA_TASKS


def distinct(paths: Iterable[str]) -> list[str]:
    """Each file once, however its path is written."""
    return sorted({str(as_path(path).resolve()): path for path in sorted(paths, reverse=True)}.values())


def check_file(path: str, place: str) -> None:
    """Raises InputError where there is no such file, or none that can be read.

    Args:
      path: of the file.
      place: the flag or argument that names it.
    """
    if not is_there(path):
        raise InputError("there is no such file", f"{place} {path}")
    if as_path(path).is_dir():
        raise InputError("is a folder; give a file", f"{place} {path}")
    if "://" not in path:
        check_input(path)


def check_encoding(encoding: str, place: str) -> None:
    """Raises InputError for what is no text encoding; ``place`` is the flag or argument that names it."""
    try:
        "".encode(encoding)  # unlike codecs.lookup, refuses base64 and its like
    except LookupError:
        raise InputError(f"Python knows no text encoding {encoding!r}", place) from None


def read_responses(
    path: str, key: bytes, encoding: str, kind: TaskKind = SCHEMA_TASKS
) -> Iterator[Assignment | DeadLetter]:
    """The assignments of one file, CSV or JSON lines by what it begins with; a file of neither is one dead letter.

    Raises:
      DamagedFile: a compressed file that is cut off or damaged.
    """
    return read_response_part(Part(path), 0, key, encoding, kind)


def read_response_part(
    part: Part, before: int, key: bytes, encoding: str, kind: TaskKind
) -> Iterator[Assignment | DeadLetter]:
    """The same of one part of a file; ``before`` is the number of lines before it."""
    try:
        if part.step:
            yield from read_part(part, before, key, encoding, kind)
            return
        with open_input(part.path) as handle:
            yield from _reader(handle)(handle, part.path, key, encoding, kind)
    except DamagedFile:
        raise
    except InputError as error:
        if not part.start:
            yield DeadLetter("ingest", part.path, f"unusable_file: {error}", "", part.path)


def _reader(handle: BufferedReader) -> Any:
    return read_assignments if looks_like_json(handle.peek(256)[:256]) else read_batch


def read_sheet(path: str) -> tuple[list[Decision], list[DeadLetter]]:
    """The decisions of one sheet, and its bad rows. Raises InputError for a file that is no sheet."""
    with open_input(path) as handle:
        decisions, bad = parse_decisions(handle.read(), path)
    return decisions, [
        DeadLetter("decisions", where, f"bad_decision: {reason}", payload(orjson.dumps(cells).decode()), where)
        for row, reason, cells in bad
        for where in (f"{path}: row {row}",)
    ]
