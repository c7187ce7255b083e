"""JSON lines of predictions and references: read strictly, with errors by file and line, matched by key."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.json_text import check_kept
from parapet.schemas.layout import as_path, is_there
from parapet.schemas.limits import MAX_LINE, in_bytes, lines_of, open_path

# Set, dialogue id, turn. What is no turn of a dialogue has its own id, and turn 0.
Key = tuple[str, str, int]

ALL, MEAN = "#ALL", "#MEAN"
ORIGINAL = "original"  # the set of the reference


def group_label(name: str) -> str:
    """The name of a group as pages have it: ``Seen domains`` for ``#SEEN_DOMAINS``; a set has its own."""
    return name[1:].capitalize().replace("_", " ") if name.startswith("#") else name


class Keyed(msgspec.Struct, kw_only=True):
    """What every row has: an ``id``, or ``dialogue_id`` and ``turn``; and the set it is of, if there are several."""

    set: str = ""
    id: str | int | UnsetType = UNSET
    dialogue_id: str | int | UnsetType = UNSET
    turn: int | UnsetType = UNSET


AnyKey = TypeVar("AnyKey", bound=tuple[str, ...] | tuple[str, str, int] | tuple[str, str, int, str])
AnyRow = TypeVar("AnyRow")
Row = TypeVar("Row", bound=Keyed)
_decode = msgspec.json.Decoder().decode


def read_lines(path: str, kind: type[AnyRow]) -> Iterator[tuple[int, AnyRow]]:
    """The rows of JSON lines with their line, from 1. Blank lines, and fields that ``kind`` lacks, are ignored.

    Raises:
      InputError: no such file, not UTF-8, not JSON (NaN and infinities are none), a key twice in an object, or not of
        ``kind``; with the line.
    """
    place = as_path(path)
    if not is_there(path) or not place.is_file():
        raise InputError("there is no such file", path)
    with open_path(place) as handle:
        yield from parse_lines(handle, msgspec.json.Decoder(kind), path)


def parse_lines(handle: BinaryIO, decoder: msgspec.json.Decoder[AnyRow], path: str) -> Iterator[tuple[int, AnyRow]]:
    """The same of an open file: only one line is in memory at a time."""
    for number, line in lines_of(handle):
        if line is None:
            raise InputError(f"has more than {in_bytes(MAX_LINE)}", path, f"line {number}")
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if text.strip():
            yield number, parse_line(text, decoder, path, f"line {number}")


def parse_line(line: bytes, decoder: msgspec.json.Decoder[AnyRow], path: str, where: str) -> AnyRow:
    """One row. Raises InputError as :func:`read_lines`."""
    try:
        row = decoder.decode(line)
        check_kept(line, _decode(line))
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason, at = f"this is not JSON: {error}", ""
    except InputError as error:
        reason, at = error.reason, error.where.removeprefix(".")
    else:
        return row
    raise InputError(f"{at}: {reason}" if at else reason, path, where)


def key_of(row: Keyed) -> Key:
    """The key of a row. Raises InputError where it has none, or more than one."""
    if row.set.startswith("#"):
        raise InputError(f"a set cannot be called {row.set!r}: names with # are of {ALL} and the like")
    if row.id is not UNSET:
        if row.dialogue_id is not UNSET or row.turn is not UNSET:
            raise InputError("has an id, and a dialogue_id or turn: give one or the other")
        return row.set, str(row.id), 0
    if row.dialogue_id is UNSET or row.turn is UNSET:
        raise InputError("has no key: give an id, or dialogue_id and turn")
    if not 0 <= row.turn < 2**31:
        raise InputError(f"there is no turn {row.turn}: the first is 0")
    return row.set, str(row.dialogue_id), row.turn


def read_keyed(path: str, kind: type[Row]) -> dict[Key, tuple[int, Row]]:
    """The rows of a file by key, each with its line.

    Raises:
      InputError: as of :func:`read_lines`; a row without a key, two with one, some rows with a set and others without.
    """
    rows: dict[Key, tuple[int, Row]] = {}
    for number, row in read_lines(path, kind):
        try:
            key = key_of(row)
        except InputError as error:
            raise InputError(error.reason, path, f"line {number}") from None
        if key in rows:
            raise InputError(f"{named(key)} appears twice: first in line {rows[key][0]}", path, f"line {number}")
        rows[key] = number, row
    if not rows:
        raise InputError("there are no rows in it", path)
    if len({key[0] == "" for key in rows}) > 1:
        number = next(number for key, (number, _) in rows.items() if not key[0])
        raise InputError("has no set, and other rows have one: give all a set, or none", path, f"line {number}")
    return rows


def named(key: tuple[Any, ...]) -> str:
    """A key as messages have it; a fourth part is the service."""
    name, dialogue_id, turn, *service = key
    of_set = f", of {name!r}" if name else ""
    return f"{dialogue_id!r}, turn {turn}{of_set}" + (f", of service {service[0]!r}" if service and service[0] else "")


def check_complete(reference: Iterable[AnyKey], predictions: Container[AnyKey], path: str) -> None:
    """Raises InputError where predictions are missing.

    Args:
      reference: the keys to be predicted.
      predictions: those that are.
      path: of the predictions, for messages.
    """
    if missing := sorted(key for key in reference if key not in predictions):
        more = f"; {len(missing):,} are missing in all" if len(missing) > 1 else ""
        raise InputError(f"there is no prediction for {named(missing[0])}{more}", path)


def groups_of(keys: Iterable[AnyKey]) -> dict[str, list[AnyKey]]:
    """The groups that are scored: ``#ALL``, and each set that has a name, the original first.

    Keys begin with the set, and are sorted.
    """
    groups: dict[str, list[AnyKey]] = {ALL: []}
    for key in sorted(keys, key=lambda key: (key[0] != ORIGINAL, key)):
        groups[ALL].append(key)
        if key[0]:
            groups.setdefault(key[0], []).append(key)
    return groups


def with_mean(groups: Mapping[str, Mapping[str, float | None]]) -> dict[str, dict[str, float | None]]:
    """The groups' metrics, and with several sets ``#MEAN``, the unweighted mean of a metric over the sets that have it.

    It is None where the metric is not defined for one of them.
    """
    sets = [metrics for name, metrics in groups.items() if name != ALL]
    result = {name: dict(metrics) for name, metrics in groups.items()}
    if len(sets) > 1:
        result[MEAN] = {name: _mean([metrics[name] for metrics in sets if name in metrics]) for name in groups[ALL]}
    return result


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None
