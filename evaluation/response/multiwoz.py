"""Goals and a knowledge base as files, in the form of MultiWOZ's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from parapet.evaluation.lines import read_lines
from parapet.evaluation.response.goals import Goal, Request, Search
from parapet.evaluation.response.knowledge import Knowledge, plain_name
from parapet.evaluation.response.sgd import Reference
from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.layout import as_path, is_there, parse_json
from parapet.schemas.limits import read_whole

NAMING = ("name", "trainid", "id")


class DomainGoal(msgspec.Struct):
    """The goal of a domain."""

    informable: dict[str, str | list[str]] = {}
    requestable: list[str] = []


class ResponseRow(msgspec.Struct):
    """A row of the reference responses."""

    dialogue_id: str
    turn: int
    response: str


def read_reference(goals: str, knowledge: str | None, responses: str) -> Reference:
    """Reads goals, entities and reference responses.

    Args:
      goals: JSON ``{dialogue id: {domain: {"informable": {slot: value}, "requestable": [slot]}}}``.
      knowledge: see :func:`read_entities`.
      responses: JSON lines ``{"dialogue_id", "turn", "response"}``.

    Raises:
      InputError: a file that cannot be read, or dialogues with goals and no responses, or the other way round.
    """
    by_dialogue = _read(goals, dict[str, dict[str, DomainGoal]])
    entities = read_entities(knowledge) if knowledge else {}
    naming = {domain: _naming_of(rows) for domain, rows in entities.items()}
    parsed = {dialogue: _goal(domains, naming) for dialogue, domains in by_dialogue.items()}
    turns_of: dict[str, dict[int, str]] = {}
    for number, row in read_lines(responses, ResponseRow):
        turns = turns_of.setdefault(row.dialogue_id, {})
        if row.turn in turns:
            reason = f"dialogue {row.dialogue_id!r} turn {row.turn} appears twice"
            raise InputError(reason, responses, f"line {number}")
        turns[row.turn] = row.response
    for dialogue in sorted(parsed.keys() ^ turns_of.keys()):
        lacking, path = ("goal", goals) if dialogue in turns_of else ("response", responses)
        raise InputError(f"there is no {lacking} for dialogue {dialogue!r}", path)
    if not parsed:
        raise InputError("there are no goals in it", goals)
    # Nothing says of which of the goal's domains a turn speaks: of all.
    domains = {dialogue: dict.fromkeys(turns_of[dialogue], goal.domains) for dialogue, goal in parsed.items()}
    return Reference(parsed, turns_of, Knowledge(entities), {}, domains)


def _goal(domains: Mapping[str, DomainGoal], naming: Mapping[str, str | None]) -> Goal:
    searches, requests = [], []
    for domain, goal in sorted(domains.items()):
        constraints = {
            slot: (value,) if isinstance(value, str) else tuple(value) for slot, value in goal.informable.items()
        }
        slot = naming.get(domain)
        requested = {plain_name(name) for name in goal.requestable}
        searches.append(
            Search(
                domain,
                constraints,
                (slot,) if slot else (),
                given=slot is None or "name" in {plain_name(name) for name in constraints},
                optional=slot is not None and plain_name(slot) != "name" and plain_name(slot) not in requested,
            )
        )
        requests += [Request(domain, name) for name in sorted(set(goal.requestable))]
    return Goal(tuple(searches), tuple(requests))


def _naming_of(rows: Sequence[Mapping[str, str]]) -> str | None:
    slots = {plain_name(slot): slot for row in rows for slot in row}
    return next((slots[name] for name in NAMING if name in slots), None)


def read_entities(path: str) -> dict[str, list[dict[str, str]]]:
    """A knowledge base: JSON ``{service: [{slot: value}]}``, or a folder of ``SERVICE_db.json`` with such lists.

    What is neither text nor a number (a place on a map, a list of rooms) is left out of a row.

    Raises:
      InputError: a file that cannot be read, or none.
    """
    if not is_there(path):
        raise InputError("there is no such file or folder", path)
    place = as_path(path)
    if not place.is_dir():
        return {service: _rows(rows) for service, rows in _read(path, dict[str, list[dict[str, Any]]]).items()}
    files = sorted(place.glob("*_db.json"))
    if not files:
        raise InputError("no knowledge base here: expected files such as restaurant_db.json", path)
    return {one.name.removesuffix("_db.json"): _rows(_read(str(one), list[dict[str, Any]])) for one in files}


def _rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    return [{slot: str(value) for slot, value in row.items() if isinstance(value, str | int | float)} for row in rows]


def _read(path: str, kind: Any) -> Any:
    if not is_there(path) or not as_path(path).is_file():
        raise InputError("there is no such file", path)
    try:
        return msgspec.convert(parse_json(read_whole(as_path(path)), path), kind)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        reason, at = reason_and_place(error)
        raise InputError(reason, path, at) from None
